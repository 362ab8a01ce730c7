//! Reads the sources of folders, files, wheels, archives and revisions of a Git repository.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use super::language;

/// The size limit of a file, bytes; sources are smaller.
const SIZE_LIMIT: u64 = 32 << 20;

/// The size limit of an unpacked archive, bytes; those of PyTorch are smaller.
const ARCHIVE_LIMIT: u64 = 8 << 30;

/// The depth limit of nested folders.
const DEPTH: usize = 64;

/// The size of a block of a tar archive.
const BLOCK: usize = 512;

/// A source.
pub(super) struct Text {
    /// Its path, that of its archive and `!` before it, or the revision and `:`.
    pub(super) file: String,
    pub(super) text: String,
}

/// The reason why a file is not read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("is not a file")]
    NoFile,
    #[error(
        "is not a C++, CUDA, Python, TOML, CMake, Bazel, Make, Docker, shell or YAML source, nor an archive of them"
    )]
    NoSource,
    #[error("is larger than {} MiB", SIZE_LIMIT >> 20)]
    Large,
    #[error("is no archive that can be read: {0}")]
    Archive(String),
    #[error("is no file or folder, and no revision of a Git repository here: {0}")]
    Unknown(String),
    #[error("git cannot read it: {0}")]
    Git(String),
}

/// Reads every source of the places; what cannot be read is added to `unusable`, with the reason.
pub(super) fn read(places: &[&Path], here: &Path, unusable: &mut Vec<String>) -> Vec<Text> {
    let mut out = Vec::new();
    for place in places {
        let shown = shown(place);
        let found = if place.is_dir() {
            let mut files = Vec::new();
            collect(place, DEPTH, &mut files, unusable);
            files.sort();
            for path in files {
                match file(&path) {
                    Ok(text) => out.push(Text { file: self::shown(&path), text }),
                    Err(error) => unusable.push(format!("{}: {error}", self::shown(&path))),
                }
            }
            continue;
        } else if !place.exists() {
            revision(place, here)
        } else if let Some(kind) = Archive::from_name(place) {
            kind.sources(place)
        } else {
            file(place).map(|text| vec![Text { file: shown.clone(), text }])
        };
        match found {
            Ok(texts) => out.extend(texts),
            Err(error) => unusable.push(format!("{shown}: {error}")),
        }
    }
    // One file may be named twice.
    let mut seen = std::collections::HashSet::new();
    out.retain(|text| seen.insert(text.file.clone()));
    out
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").ok().filter(|p| !p.as_os_str().is_empty()).unwrap_or(path).display().to_string()
}

fn file(path: &Path) -> Result<String, ReadError> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(ReadError::NoFile);
    }
    if language(path).is_none() {
        return Err(ReadError::NoSource);
    }
    if metadata.len() > SIZE_LIMIT {
        return Err(ReadError::Large);
    }
    Ok(decoded(&fs::read(path)?))
}

/// An archive of sources.
#[derive(Debug, Clone, Copy)]
enum Archive {
    /// A wheel, or another zip file.
    Zip,
    Tar,
    /// A source distribution.
    TarGz,
}

impl Archive {
    fn from_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        if name.ends_with(".whl") || name.ends_with(".zip") {
            Some(Self::Zip)
        } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Some(Self::TarGz)
        } else if name.ends_with(".tar") {
            Some(Self::Tar)
        } else {
            None
        }
    }

    fn sources(self, path: &Path) -> Result<Vec<Text>, ReadError> {
        let bytes = fs::File::open(path)?;
        let named = |file: &str| format!("{}!{file}", shown(path));
        let texts = match self {
            Self::Zip => zip(bytes)?,
            Self::Tar => tar(io::BufReader::new(bytes))?,
            Self::TarGz => {
                tar(io::BufReader::new(flate2::read::MultiGzDecoder::new(io::BufReader::new(bytes))))?
            }
        };
        Ok(texts.into_iter().map(|(file, text)| Text { file: named(&file), text }).collect())
    }
}

fn zip(bytes: fs::File) -> Result<Vec<(String, String)>, ReadError> {
    let bad = |error: zip::result::ZipError| ReadError::Archive(error.to_string());
    let mut archive = zip::ZipArchive::new(bytes).map_err(bad)?;
    let mut out = Vec::new();
    for n in 0..archive.len() {
        let entry = archive.by_index(n).map_err(bad)?;
        let name = entry.name().map_err(bad)?.into_owned();
        if !entry.is_file() || language(Path::new(&name)).is_none() {
            continue;
        }
        let mut content = Vec::new();
        entry.take(SIZE_LIMIT + 1).read_to_end(&mut content)?;
        if content.len() as u64 > SIZE_LIMIT {
            return Err(ReadError::Archive(format!("{name} is larger than {} MiB", SIZE_LIMIT >> 20)));
        }
        out.push((name, decoded(&content)));
    }
    out.sort();
    Ok(out)
}

/// Reads the sources of a tar archive, with the long names of GNU and of POSIX.
fn tar(mut stream: impl Read) -> Result<Vec<(String, String)>, ReadError> {
    let mut out = Vec::new();
    let (mut long, mut total) = (None, 0_u64);
    let mut header = [0; BLOCK];
    loop {
        match stream.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && total > 0 => {
                return Err(ReadError::Archive("it ends within a file".to_owned()));
            }
            other => other.map_err(|e| ReadError::Archive(e.to_string()))?,
        }
        if header.iter().all(|b| *b == 0) {
            break;
        }
        let text = |range: std::ops::Range<usize>| {
            let field = &header[range];
            let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        let size = u64::from_str_radix(text(124..136).trim(), 8)
            .map_err(|_| ReadError::Archive("a header has no size".to_owned()))?;
        total += size + BLOCK as u64;
        if total > ARCHIVE_LIMIT {
            return Err(ReadError::Archive(format!("its files are larger than {} GiB", ARCHIVE_LIMIT >> 30)));
        }
        let (prefix, base) = (text(345..500), text(0..100));
        let joined = if prefix.is_empty() { base } else { format!("{prefix}/{base}") };
        let name =
            if matches!(header[156], b'L' | b'x' | b'g') { joined } else { long.take().unwrap_or(joined) };
        let padded = size.next_multiple_of(BLOCK as u64);
        let mut content = Vec::new();
        let is_file = matches!(header[156], b'0' | 0);
        let wanted = is_file && language(Path::new(&name)).is_some() && size <= SIZE_LIMIT;
        if wanted || matches!(header[156], b'L' | b'x') {
            stream.by_ref().take(padded).read_to_end(&mut content)?;
            if (content.len() as u64) < padded {
                return Err(ReadError::Archive("it ends within a file".to_owned()));
            }
            content.truncate(usize::try_from(size).unwrap_or(0));
        } else if io::copy(&mut stream.by_ref().take(padded), &mut io::sink())? < padded {
            return Err(ReadError::Archive("it ends within a file".to_owned()));
        }
        match header[156] {
            b'L' => long = Some(String::from_utf8_lossy(&content).trim_end_matches('\0').to_owned()),
            b'x' => long = path_of_pax(&content),
            _ if wanted => out.push((name, decoded(&content))),
            _ => {}
        }
    }
    out.sort();
    Ok(out)
}

/// Returns the path of an extended header: lines of `LENGTH KEY=VALUE`.
fn path_of_pax(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    text.lines().find_map(|line| line.split_once(" path=").map(|(_, path)| path.to_owned()))
}

/// Reads the sources of a revision, such as `HEAD~1`, `v1.2` or `main:src`.
fn revision(place: &Path, here: &Path) -> Result<Vec<Text>, ReadError> {
    let name = place.display().to_string();
    let git = |arguments: &[&str], input: Stdio| {
        let mut command = Command::new("git");
        command.arg("-C").arg(here).args(arguments).stdin(input);
        let output = command.output().map_err(|error| ReadError::Unknown(format!("git: {error}")))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok::<_, ReadError>((output.status.success(), output.stdout, said))
    };
    // A name that begins with `-` would be an option.
    let (is_tree, ..) = git(
        &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{tree}}")],
        Stdio::null(),
    )?;
    if name.starts_with('-') || !is_tree {
        let (is_object, id, said) =
            git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], Stdio::null())?;
        if !is_object {
            let why = if said.is_empty() { "git does not know it".to_owned() } else { said };
            return Err(ReadError::Unknown(why));
        }
        let path = name.split_once(':').map_or(name.as_str(), |(_, path)| path).to_owned();
        if language(Path::new(&path)).is_none() {
            return Err(ReadError::NoSource);
        }
        let id = String::from_utf8_lossy(&id).trim().to_owned();
        let (_, content, _) = git(&["cat-file", "blob", &id], Stdio::null())?;
        return Ok(vec![Text { file: name, text: decoded(&content) }]);
    }
    let (listed, rows, said) = git(&["ls-tree", "-r", "-z", "--full-tree", &name], Stdio::null())?;
    if !listed {
        return Err(ReadError::Git(said));
    }
    let rows = String::from_utf8_lossy(&rows).into_owned();
    let files: Vec<(&str, &str)> = rows
        .split('\0')
        .filter_map(|row| {
            let (about, path) = row.split_once('\t')?;
            let mut words = about.split(' ').skip(1);
            (words.next()? == "blob" && language(Path::new(path)).is_some()).then_some((words.next()?, path))
        })
        .collect();
    let mut asked = tempfile::tempfile()?;
    for (id, _) in &files {
        writeln!(asked, "{id}")?;
    }
    asked.seek(SeekFrom::Start(0))?;
    let (_, all, said) = git(&["cat-file", "--batch"], Stdio::from(asked))?;
    let prefix = if name.contains(':') { format!("{name}/") } else { format!("{name}:") };
    let mut rest = Cursor::new(all);
    let mut out = Vec::new();
    for (_, path) in files {
        // `ID blob SIZE`, the content and a line feed.
        let mut head = Vec::new();
        io::BufRead::read_until(&mut rest, b'\n', &mut head)?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let size = head.trim().rsplit(' ').next().and_then(|size| size.parse().ok());
        let size: usize = size.ok_or_else(|| ReadError::Git(format!("{}{said}", head.trim())))?;
        let mut content = vec![0; size];
        rest.read_exact(&mut content)?;
        rest.seek(SeekFrom::Current(1))?;
        out.push(Text { file: format!("{prefix}{path}"), text: decoded(&content) });
    }
    Ok(out)
}

/// Decodes a file's text. Bytes that are not UTF-8 are replaced: they occur only in comments and strings.
fn decoded(bytes: &[u8]) -> String {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|b| unit([b[0], b[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Collects the sources below a folder. Symbolic links to folders are not followed, because they may form cycles.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, unusable: &mut Vec<String>) {
    let mut fails =
        |path: &Path, why: &dyn std::fmt::Display| unusable.push(format!("{}: {why}", path.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return fails(folder, &error),
    };
    let mut below = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                fails(folder, &error);
                continue;
            }
        };
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            below.push(path);
        } else if language(&path).is_some() && std::fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            files.push(path);
        }
    }
    for path in below {
        match depth.checked_sub(1) {
            Some(depth) => collect(&path, depth, files, unusable),
            None => unusable.push(format!("{}: is too deep", path.display())),
        }
    }
}
