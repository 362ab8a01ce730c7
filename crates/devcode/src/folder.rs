//! Walks the files of a folder in the order of their names and skips those seen before.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::entry::Trouble;
use super::source::Source;

/// The files and folders that a scan has visited, by device and inode.
#[derive(Debug, Default)]
pub(super) struct Seen {
    met: HashSet<(u64, u64)>,
    above: Vec<(u64, u64)>,
}

fn unreadable(error: &io::Error) -> Trouble {
    Trouble::Unreadable(error.to_string())
}

/// Passes the file at `path`, or every file below it, to `each`: opened, or with the reason why not.
pub(super) fn walk(path: &Path, seen: &mut Seen, each: &mut dyn FnMut(&Path, Result<Source, Trouble>)) {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return each(path, Err(unreadable(&error))),
    };
    let id = (metadata.dev(), metadata.ino());
    if metadata.is_dir() && seen.above.contains(&id) {
        return each(path, Err(Trouble::Loop));
    }
    if !seen.met.insert(id) {
        return;
    }
    if !metadata.is_dir() {
        // Opening a pipe would block until it has a writer.
        if metadata.is_file() {
            each(path, open(path, &metadata));
        } else if seen.above.is_empty() {
            each(
                path,
                Err(Trouble::Unsupported(
                    "a file type that is neither a regular file nor a folder".to_owned(),
                )),
            );
        }
        return;
    }
    let names = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    let mut names: Vec<_> = match names {
        Ok(names) => names,
        Err(error) => return each(path, Err(unreadable(&error))),
    };
    names.sort_unstable();
    seen.above.push(id);
    for name in names {
        walk(&path.join(name), seen, each);
    }
    seen.above.pop();
}

fn open(path: &Path, metadata: &Metadata) -> Result<Source, Trouble> {
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    Ok(Source::file(file, metadata.len()))
}
