//! Builds files to scan: small fatbins, host ELF files, archives, and the data of this folder.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use devcode::{Entry, Found, Holder, Limits, Problem, scan, scan_bytes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A file of `tests/data`.
pub(crate) fn data(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(&path).unwrap()
}

/// Everything that a scan reports.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) entries: Vec<Entry>,
    pub(crate) holders: Vec<Holder>,
    pub(crate) problems: Vec<Problem>,
    /// The first bytes of the code of each entry.
    pub(crate) code: Vec<Vec<u8>>,
}

impl Answer {
    fn take(&mut self, found: Found<'_>) {
        match found {
            Found::Entry { entry, code } => {
                self.code.push(code[..code.len().min(16)].to_vec());
                self.entries.push(entry);
            }
            Found::Holder(holder) => self.holders.push(holder),
            Found::Problem(problem) => self.problems.push(problem),
        }
    }

    /// One line per entry: place, kind, target, origin of the target, compression, kernels with registers, shared and stack.
    pub(crate) fn lines(&self) -> Vec<String> {
        let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        let line = |entry: &Entry| {
            let kernels: Vec<String> = entry
                .kernels
                .iter()
                .map(|k| {
                    let numbers = [
                        number(k.registers.map(u64::from)),
                        number(k.shared),
                        number(k.stack),
                        number(k.max_threads.map(u64::from)),
                    ];
                    format!("{}({})", k.name, numbers.join(" "))
                })
                .collect();
            format!(
                "{} {} by {}, {}, {}",
                entry.kind.word(),
                entry.target_text(),
                entry.told_by.word(),
                entry.compression.word(),
                kernels.join(" ")
            )
        };
        self.entries.iter().map(line).collect()
    }

    /// Problems, one per line, with their files.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.problems.iter().map(|p| format!("{} {}", p.place.file, p.trouble)).collect()
    }
}

/// Scans a file in memory.
pub(crate) fn of_bytes(name: &str, bytes: Vec<u8>) -> Answer {
    of_bytes_within(name, bytes, &Limits::default())
}

/// Scans a file in memory with other limits.
pub(crate) fn of_bytes_within(name: &str, bytes: Vec<u8>, limits: &Limits) -> Answer {
    let mut answer = Answer::default();
    scan_bytes(name, bytes, limits, &mut |found| answer.take(found));
    answer
}

/// Scans files and folders.
pub(crate) fn of_paths(paths: &[PathBuf], limits: &Limits) -> Answer {
    let mut answer = Answer::default();
    scan(paths, limits, &mut |found| answer.take(found));
    answer
}

/// A zip archive; `stored` members are not compressed.
pub(crate) fn zip(members: &[(&str, &[u8])], stored: bool) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let method = if stored { zip::CompressionMethod::Stored } else { zip::CompressionMethod::Deflated };
    for (name, bytes) in members {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A tar archive.
pub(crate) fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// What gzip makes of bytes.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An `ar` archive with GNU's table of long names.
pub(crate) fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let header =
        |name: &str, size: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644);
    let mut names = String::new();
    let mut body = Vec::new();
    for (name, bytes) in members {
        let at = names.len();
        names.push_str(&format!("{name}/\n"));
        body.extend(header(&format!("/{at}"), bytes.len()).bytes());
        body.extend_from_slice(bytes);
        body.resize(body.len().next_multiple_of(2), b'\n');
    }
    names.push_str(if names.len() % 2 == 1 { "\n" } else { "" });
    [b"!<arch>\n", header("//", names.len()).as_bytes(), names.as_bytes(), &body].concat()
}

/// A 64-bit host ELF file with these sections of data; sections start at multiples of 64.
pub(crate) fn host(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0_u8];
    let mut body = vec![0_u8; 64];
    let mut headers = vec![[0_u8; 64]];
    let all = sections.iter().map(|(name, bytes)| (*name, bytes.to_vec()));
    let mut section = |name: &str, bytes: &[u8], kind: u32, names: &mut Vec<u8>| {
        let mut header = [0_u8; 64];
        header[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        // SHF_ALLOC
        header[8..16].copy_from_slice(&2_u64.to_le_bytes());
        names.extend(name.bytes().chain([0]));
        body.resize(body.len().next_multiple_of(64), 0);
        header[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        body.extend_from_slice(bytes);
        headers.push(header);
    };
    for (name, bytes) in all {
        section(name, &bytes, 1, &mut names);
    }
    names.extend(b".shstrtab\0");
    let mut last = names.clone();
    let at = last.len() - 10;
    section("", &names, 3, &mut last);
    let index = headers.len() - 1;
    headers[index][..4].copy_from_slice(&(at as u32).to_le_bytes());
    body.resize(body.len().next_multiple_of(64), 0);
    let table = body.len() as u64;
    body[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    body[16..18].copy_from_slice(&3_u16.to_le_bytes());
    body[18..20].copy_from_slice(&62_u16.to_le_bytes());
    body[40..48].copy_from_slice(&table.to_le_bytes());
    body[58..60].copy_from_slice(&64_u16.to_le_bytes());
    body[60..62].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    body[62..64].copy_from_slice(&(index as u16).to_le_bytes());
    body.extend(headers.concat());
    body
}
