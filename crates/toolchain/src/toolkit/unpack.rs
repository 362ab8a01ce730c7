//! Verifies a wheel and unpacks its pinned members, and nothing else.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use super::installed::InstalledFile;
use super::pins::{Arch, Member, Pin, Wheel, is_plain};
use crate::store;

/// Why a fetched wheel is not used.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is not the pinned file.
    #[error(
        "{file} is not the pinned file ({got_bytes} bytes with sha256 {got}, pinned: {bytes} bytes with {want}); a \
        mirror or proxy changed or truncated it: fetch it again, or configure another index for pip"
    )]
    Changed {
        /// The wheel.
        file: String,
        /// The pinned size in bytes.
        bytes: u64,
        /// The pinned hash.
        want: String,
        /// Its size in bytes.
        got_bytes: u64,
        /// Its hash.
        got: String,
    },
    /// It cannot be read as a wheel, or a pinned member is missing or damaged.
    #[error("{file}: {member} cannot be unpacked: {reason}")]
    Member {
        /// The wheel.
        file: String,
        /// The member.
        member: String,
        /// Why.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}; free some space, or set SM121PROBE_CACHE to a writable folder", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Checks size and hash of the wheel at `path`.
pub(super) fn verify(path: &Path, wheel: &Wheel) -> Result<(), UnpackError> {
    let write = |source| UnpackError::Write { path: path.to_owned(), source };
    let got_bytes = fs::metadata(path).map_err(write)?.len();
    let got = store::sha256_file(path).map_err(write)?;
    if got == wheel.sha256 && got_bytes == wheel.bytes {
        return Ok(());
    }
    let (file, want) = (wheel.file.clone(), wheel.sha256.clone());
    Err(UnpackError::Changed { file, bytes: wheel.bytes, want, got_bytes, got })
}

/// Unpacks the members of `pin` from the wheel at `path` into `folder`.
pub(super) fn unpack(
    path: &Path,
    pin: &Pin,
    arch: Arch,
    folder: &Path,
) -> Result<Vec<InstalledFile>, UnpackError> {
    let wheel = &pin.wheel(arch).file;
    let bad = |member: &str, reason: String| UnpackError::Member {
        file: wheel.clone(),
        member: member.to_owned(),
        reason,
    };
    let file = File::open(path).map_err(|source| UnpackError::Write { path: path.to_owned(), source })?;
    let mut archive = ZipArchive::new(file).map_err(|error| bad("the wheel", error.to_string()))?;
    let mut files = Vec::new();
    for member in &pin.members {
        if member.is_folder() {
            files.extend(unpack_folder(&mut archive, member, folder, &bad)?);
            continue;
        }
        let name = member.path();
        let mut entry = archive.by_name(name).map_err(|error| match error {
            ZipError::FileNotFound => bad(name, "the wheel has no such file".to_owned()),
            other => bad(name, other.to_string()),
        })?;
        if !entry.is_file() {
            return Err(bad(name, "it is not a regular file".to_owned()));
        }
        // Only the pin determines the path; a wheel cannot choose where it is written.
        let target = folder.join(member.target());
        let mode = if member.target().starts_with("bin/") { 0o755 } else { 0o644 };
        let machine = write(&mut entry, &target, mode).map_err(|failure| match failure {
            Failure::Read(error) => bad(name, error.to_string()),
            Failure::Write(source) => UnpackError::Write { path: target.clone(), source },
        })?;
        if let Some(other) = machine.filter(|machine| *machine != elf_machine(arch)) {
            return Err(bad(
                name,
                format!("it is for another machine (ELF machine {other}), not for {}", arch.name()),
            ));
        }
        let read = |source| UnpackError::Write { path: target.clone(), source };
        let bytes = fs::metadata(&target).map_err(read)?.len();
        let sha256 = store::sha256_file(&target).map_err(read)?;
        files.push(InstalledFile { path: member.target().to_owned(), bytes, sha256 });
    }
    Ok(files)
}

/// Unpacks all files below a folder of the wheel.
fn unpack_folder(
    archive: &mut ZipArchive<File>,
    member: &Member,
    folder: &Path,
    bad: &impl Fn(&str, String) -> UnpackError,
) -> Result<Vec<InstalledFile>, UnpackError> {
    let names = archive.file_names().map(|name| name.map(std::borrow::Cow::into_owned));
    let names: Vec<String> =
        names.collect::<Result<_, _>>().map_err(|error| bad("the list of files", error.to_string()))?;
    let inside = names.iter().filter_map(|name| Some((name, name.strip_prefix(member.path())?)));
    let mut files = Vec::new();
    for (name, rest) in inside.filter(|(name, _)| !name.ends_with('/')) {
        // A wheel cannot choose where it is written.
        if !is_plain(rest) {
            return Err(bad(name, "its path leaves the folder".to_owned()));
        }
        let mut entry = archive.by_name(name).map_err(|error| bad(name, error.to_string()))?;
        let path = format!("{}/{rest}", member.target());
        let target = folder.join(&path);
        let write = |source| UnpackError::Write { path: target.clone(), source };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| bad(name, error.to_string()))?;
        fs::write(&target, &bytes).map_err(write)?;
        files.push(InstalledFile { path, bytes: bytes.len() as u64, sha256: store::sha256(&bytes) });
    }
    if files.is_empty() {
        return Err(bad(member.path(), "the wheel has no file below it".to_owned()));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

enum Failure {
    Read(io::Error),
    Write(io::Error),
}

/// Copies `from` to `target` and syncs it to disk; returns the ELF machine if the file is ELF.
fn write(from: &mut impl Read, target: &Path, mode: u32) -> Result<Option<u16>, Failure> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(Failure::Write)?;
    }
    let mut file =
        File::options().write(true).create_new(true).mode(mode).open(target).map_err(Failure::Write)?;
    let mut chunk = vec![0; 1 << 18];
    let mut head: Vec<u8> = Vec::new();
    loop {
        let length = from.read(&mut chunk).map_err(Failure::Read)?;
        if length == 0 {
            break;
        }
        if head.len() < 20 {
            head.extend(chunk[..length].iter().take(20));
        }
        file.write_all(&chunk[..length]).map_err(Failure::Write)?;
    }
    // Otherwise a rename could reach the disk before the data.
    file.sync_all().map_err(Failure::Write)?;
    let machine =
        (head.len() >= 20 && head.starts_with(b"\x7fELF")).then(|| u16::from_le_bytes([head[18], head[19]]));
    Ok(machine)
}

/// `e_machine` of the ELF specification.
const fn elf_machine(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => 62,
        Arch::Aarch64 => 183,
    }
}
