//! Scans files of all formats and reports their contents in file order; code is unpacked and parsed in parallel.

use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;

use super::entry::{Entry, Format, Found, Holder, Limits, Place, Problem, Trouble};
use super::fatbin::Block;
use super::piece::{self, Code};
use super::source::Source;
use super::zip_file::{self, Member};
use super::{ar, cubin, fatbin, folder, host, ptx_text, tar_file};

/// Maximum bytes of unpacked code per batch.
const BATCH_BYTES: u64 = 24 << 20;
const BATCH_TASKS: usize = 4096;
/// Approximate size of the description of a piece.
const PIECE_BYTES: u64 = 2 << 10;
/// Number of leading bytes that identify the format of a file.
const HEAD: u64 = 4096;

/// The number of bytes to which comments may extend that.
const LONGEST_HEAD: u64 = HEAD << 8;
/// Number of bytes that a file of any size may unpack to.
const ALLOWANCE: u64 = 256 << 20;

/// Scans the files and folders at `paths` and passes the results to `sink`: for each file its entries and problems in order,
/// then the file. The files of a folder are visited in the order of their names; files seen before, such as link targets, are
/// skipped. Nothing ends a scan early: anything that cannot be read is a [`Found::Problem`].
pub fn scan(paths: &[PathBuf], limits: &Limits, sink: &mut dyn FnMut(Found<'_>)) {
    let mut scanner = Scanner::new(limits, sink);
    let mut seen = folder::Seen::default();
    for path in paths {
        folder::walk(path, &mut seen, &mut |path, source| {
            let name: Arc<str> = path.display().to_string().into();
            match source {
                Ok(source) => scanner.whole_file(&name, &source),
                Err(trouble) => scanner.problem(Place::in_file(name), trouble),
            }
        });
    }
    scanner.flush();
}

/// Like [`scan`], for one file in memory with the name `name`.
pub fn scan_bytes(name: &str, bytes: Vec<u8>, limits: &Limits, sink: &mut dyn FnMut(Found<'_>)) {
    let mut scanner = Scanner::new(limits, sink);
    scanner.whole_file(&name.into(), &Source::memory(bytes));
    scanner.flush();
}

/// A result waiting for its turn, or the work that produces it.
enum Task {
    Ready(Done),
    /// Unpacks and parses code.
    Work(Box<dyn FnOnce() -> Vec<Done> + Send>),
}

/// A result to pass to the sink.
pub(super) enum Done {
    Entry(Entry, Code),
    Holder(Holder),
    Problem(Problem),
}

struct Scanner<'a> {
    limits: &'a Limits,
    sink: &'a mut dyn FnMut(Found<'_>),
    tasks: Vec<Task>,
    waiting: u64,
    /// Number of bytes that the current file may unpack to in total; `allowance` is the rest.
    whole: u64,
    allowance: u64,
}

impl<'a> Scanner<'a> {
    fn new(limits: &'a Limits, sink: &'a mut dyn FnMut(Found<'_>)) -> Self {
        Self { limits, sink, tasks: Vec::new(), waiting: 0, whole: 0, allowance: 0 }
    }

    fn whole_file(&mut self, name: &Arc<str>, source: &Source) {
        let own = source.len().saturating_mul(self.limits.ratio).saturating_add(ALLOWANCE);
        self.whole = own.min(self.limits.total);
        self.allowance = self.whole;
        self.file(name, source, 0);
    }

    fn ready(&mut self, done: Done) {
        self.tasks.push(Task::Ready(done));
        if self.tasks.len() >= BATCH_TASKS {
            self.flush();
        }
    }

    fn problem(&mut self, place: Place, trouble: Trouble) {
        self.ready(Done::Problem(Problem { place, trouble }));
    }

    fn work(&mut self, bytes: u64, work: impl FnOnce() -> Vec<Done> + Send + 'static) {
        if self.waiting.saturating_add(bytes) > BATCH_BYTES || self.tasks.len() >= BATCH_TASKS {
            self.flush();
        }
        self.waiting = self.waiting.saturating_add(bytes);
        self.tasks.push(Task::Work(Box::new(work)));
    }

    fn flush(&mut self) {
        self.waiting = 0;
        let tasks = std::mem::take(&mut self.tasks);
        let run = |task| match task {
            Task::Ready(done) => vec![done],
            Task::Work(work) => work(),
        };
        let pieces = tasks.iter().filter(|task| matches!(task, Task::Work(_))).count();
        let done: Vec<Vec<Done>> = if pieces > 1 {
            tasks.into_par_iter().map(run).collect()
        } else {
            tasks.into_iter().map(run).collect()
        };
        for done in done.into_iter().flatten() {
            match done {
                Done::Entry(entry, code) => (self.sink)(Found::Entry { entry, code: code.bytes() }),
                Done::Holder(holder) => (self.sink)(Found::Holder(holder)),
                Done::Problem(problem) => (self.sink)(Found::Problem(problem)),
            }
        }
    }

    /// Subtracts `size` bytes from the allowance of the current file.
    fn allow(&mut self, size: u64, limit: u64) -> Result<(), Trouble> {
        if size > limit {
            return Err(Trouble::TooLarge(format!("it unpacks to {size} bytes, and {limit} is the limit")));
        }
        self.allowance = self.allowance.checked_sub(size).ok_or_else(|| {
            Trouble::TooLarge(format!(
                "its file unpacks to more than {} bytes, the limit for its size",
                self.whole
            ))
        })?;
        Ok(())
    }

    /// Scans a file, or an archive member at nesting depth `depth`.
    fn file(&mut self, name: &Arc<str>, source: &Source, depth: u32) {
        let head = match head(|len| source.head(len)) {
            Ok(head) => head,
            Err(trouble) => return self.problem(Place::in_file(name.clone()), trouble),
        };
        let Some(form) = Form::recognize(name, &head) else { return self.unknown(name, &head) };
        let (format, result) = match form {
            Form::Code(format) => {
                let whole = source.clone();
                let entry = self.allow(source.len(), self.limits.code);
                (
                    format,
                    entry.map(|()| self.bare(name, format, whole.len(), move || whole.read(0, whole.len()))),
                )
            }
            Form::Fatbin => {
                let mut index = 0;
                self.fatbins(name, None, source, true, &mut index);
                (Format::Fatbin, Ok((index, Vec::new())))
            }
            Form::Host => (Format::HostElf, self.host(name, source)),
            Form::Ar => (Format::Ar, self.ar(name, source, depth)),
            Form::Zip => (Format::Zip, self.zip(name, source, depth)),
            Form::Tar { compressed } => (Format::Tar, self.tar(name, source, compressed, depth)),
            Form::ThinAr => (
                Format::Ar,
                Err(Trouble::Unsupported("a thin archive, whose members are separate files".to_owned())),
            ),
        };
        let (entries, needs) = result.unwrap_or_else(|trouble| {
            self.problem(Place::in_file(name.clone()), trouble);
            (0, Vec::new())
        });
        self.ready(Done::Holder(Holder { file: name.clone(), format, bytes: source.len(), entries, needs }));
    }

    /// Handles a file of unknown format: a problem if its name suggests device code.
    fn unknown(&mut self, name: &Arc<str>, head: &[u8]) {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let trouble = match ending {
            _ if head.is_empty() && ["cubin", "fatbin", "ptx", "whl"].contains(&ending) => {
                Trouble::Truncated("it is empty".to_owned())
            }
            "cubin" | "fatbin" | "ptx" | "whl" => {
                Trouble::Damaged(format!("it is named .{ending} and does not start like one"))
            }
            "7z" | "rar" | "conda" | "egg" => Trouble::Unsupported(format!("the archive form .{ending}")),
            "xz" | "zst" | "bz2" if name.contains(".tar.") => {
                Trouble::Unsupported(format!("the archive form .tar.{ending}"))
            }
            _ => return,
        };
        self.problem(Place::in_file(name.clone()), trouble);
    }

    /// Handles code that is a whole file.
    fn bare(
        &mut self,
        name: &Arc<str>,
        format: Format,
        bytes: u64,
        read: impl FnOnce() -> Result<Vec<u8>, Trouble> + Send + 'static,
    ) -> (u32, Vec<String>) {
        let place = Place::in_file(name.clone());
        self.work(bytes, move || piece::bare(place, format, bytes, read()));
        (1, Vec::new())
    }

    fn host(&mut self, name: &Arc<str>, source: &Source) -> Result<(u32, Vec<String>), Trouble> {
        let host = host::read(source)?;
        let mut index = 0;
        for host::Section { name: section, at, len, dedicated } in host.sections {
            if at.checked_add(len).is_none_or(|end| end > source.len()) {
                let what = format!("its section {section} ends after the end of the file");
                self.problem(Place::in_file(name.clone()), Trouble::Truncated(what));
            }
            let section: Arc<str> = section.into();
            let part = source.part(at, len);
            self.fatbins(name, Some(&section), &part, dedicated, &mut index);
        }
        Ok((index, host.needs))
    }

    /// Scans the fatbins in `part`: a whole file, or a section, in which case offsets count from the start of the section, as
    /// tools print them.
    fn fatbins(
        &mut self,
        name: &Arc<str>,
        section: Option<&Arc<str>>,
        part: &Source,
        dedicated: bool,
        index: &mut u32,
    ) {
        let limit = self.limits.entries;
        fatbin::walk(part, dedicated, &mut |found| {
            let place =
                |offset, index| Place { file: name.clone(), section: section.cloned(), offset, index };
            match found {
                Ok(block) => {
                    if *index >= limit {
                        return false;
                    }
                    let first = *index;
                    *index = index.saturating_add(u32::try_from(block.pieces.len()).unwrap_or(u32::MAX));
                    self.block(place(block.offset, first), block);
                    if *index >= limit {
                        let what = format!("it holds more than {limit} pieces of device code");
                        self.problem(place(0, *index), Trouble::TooLarge(what));
                    }
                }
                Err((at, trouble)) => self.problem(place(at, *index), trouble),
            }
            true
        });
    }

    fn block(&mut self, place: Place, block: Block) {
        match self.allow(block.unpacked, self.limits.code) {
            Ok(()) => self.work(block.unpacked + PIECE_BYTES * block.pieces.len() as u64, move || {
                piece::block(&place, &block)
            }),
            Err(trouble) => {
                for done in piece::unread(&place, &block, trouble) {
                    self.ready(done);
                }
            }
        }
    }

    fn ar(&mut self, name: &Arc<str>, source: &Source, depth: u32) -> Result<(u32, Vec<String>), Trouble> {
        self.deeper(depth)?;
        ar::members(source, &mut |member, part| {
            self.file(&format!("{name}!{member}").into(), &part, depth + 1);
        })?;
        Ok((0, Vec::new()))
    }

    fn zip(&mut self, name: &Arc<str>, source: &Source, depth: u32) -> Result<(u32, Vec<String>), Trouble> {
        self.deeper(depth)?;
        zip_file::members(source, &mut |member, found| {
            let name: Arc<str> = format!("{name}!{member}").into();
            if let Err(trouble) = found.and_then(|member| self.member(&name, member, depth + 1)) {
                self.problem(Place::in_file(name), trouble);
            }
        })?;
        Ok((0, Vec::new()))
    }

    fn tar(
        &mut self,
        name: &Arc<str>,
        source: &Source,
        compressed: bool,
        depth: u32,
    ) -> Result<(u32, Vec<String>), Trouble> {
        self.deeper(depth)?;
        tar_file::members(source, compressed, &mut |member, size, stream| {
            // What is skipped is unpacked, too.
            self.allow(size, self.limits.total)?;
            let name: Arc<str> = format!("{name}!{member}").into();
            let bytes = tar_file::read(stream, HEAD)?;
            if bytes.is_empty()
                || Form::recognize(&name, &bytes).is_none() && !ptx_text::is_only_comments(&bytes)
            {
                self.unknown(&name, &bytes);
                return Ok(());
            }
            if size > self.limits.member {
                let what = format!("it unpacks to {size} bytes, and {} is the limit", self.limits.member);
                self.problem(Place::in_file(name), Trouble::TooLarge(what));
                return Ok(());
            }
            self.file(&name, &tar_file::source(bytes, size, stream)?, depth + 1);
            Ok(())
        })?;
        Ok((0, Vec::new()))
    }

    /// Scans a member of a zip archive; it is unpacked only if its first bytes match a supported format.
    fn member(&mut self, name: &Arc<str>, member: Member, depth: u32) -> Result<(), Trouble> {
        let head = head(|len| member.head(len))?;
        let Some(form) = Form::recognize(name, &head) else {
            self.unknown(name, &head);
            return Ok(());
        };
        // Code has a lower limit than other members.
        let limit = if matches!(form, Form::Code(_)) { self.limits.code } else { self.limits.member };
        if member.size > 16 << 20 && member.size / self.limits.ratio.max(1) > member.packed() {
            let times = member.size / member.packed().max(1);
            return Err(Trouble::TooLarge(format!("it unpacks to {times} times its size")));
        }
        self.allow(member.size, limit)?;
        let Form::Code(format) = form else {
            self.file(name, &member.source()?, depth);
            return Ok(());
        };
        let bytes = member.size;
        let (entries, needs) = self.bare(name, format, bytes, move || member.bytes());
        self.ready(Done::Holder(Holder { file: name.clone(), format, bytes, entries, needs }));
        Ok(())
    }

    fn deeper(&self, depth: u32) -> Result<(), Trouble> {
        if depth < self.limits.depth {
            return Ok(());
        }
        Err(Trouble::TooLarge(format!("archives are nested more than {} deep", self.limits.depth)))
    }
}

/// The format of a file, recognised by its first bytes.
enum Form {
    Code(Format),
    Fatbin,
    Host,
    Ar,
    ThinAr,
    Zip,
    Tar { compressed: bool },
}

impl Form {
    /// The form of a file by its first bytes; what gzip wrote is an archive only by its name.
    fn recognize(name: &str, head: &[u8]) -> Option<Self> {
        Some(match head {
            _ if cubin::is_cubin(head) => Self::Code(Format::Cubin),
            _ if head.starts_with(b"\x7fELF") => Self::Host,
            _ if head.starts_with(&fatbin::MAGIC) => Self::Fatbin,
            _ if head.starts_with(ar::MAGIC) => Self::Ar,
            _ if head.starts_with(ar::THIN) => Self::ThinAr,
            _ if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") => Self::Zip,
            _ if tar_file::is_tar(head) => Self::Tar { compressed: false },
            _ if head.starts_with(tar_file::GZIP) && tar_file::is_named(name) => {
                Self::Tar { compressed: true }
            }
            _ if head.starts_with(b"BC\xc0\xde") => Self::Code(Format::Bitcode),
            _ if ptx_text::is_ptx(head) => Self::Code(Format::Ptx),
            _ => return None,
        })
    }
}

/// The first bytes of a file, enough to tell its format: a PTX file may begin with long comments.
fn head(read: impl Fn(u64) -> Result<Vec<u8>, Trouble>) -> Result<Vec<u8>, Trouble> {
    let mut len = HEAD;
    loop {
        let head = read(len)?;
        if len >= LONGEST_HEAD || (head.len() as u64) < len || !ptx_text::is_only_comments(&head) {
            return Ok(head);
        }
        len *= 16;
    }
}
