//! The temporary folder of a run: the libraries that the program loads, and the file that its processes write.
//!
//! `exec` removes it, unless it is killed. So each run first removes folders that killed runs have left. A folder is in use while a process
//! holds a lock on it: `exec` itself, and every process of the program that uses the simulated GPU, since such processes may live longer.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// How the names of these folders begin.
const PREFIX: &str = "sm121probe-exec-";

/// The folder of a run, removed when dropped.
#[derive(Debug)]
pub(super) struct RunFolder {
    // Removed before the lock is released.
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    /// Creates a folder, and removes what killed runs have left beside it.
    pub(super) fn create() -> io::Result<Self> {
        let place = std::env::temp_dir();
        remove_unused(&place);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place)?;
            // Another run may take the new folder for an unused one before it is locked. It then holds the lock while it removes the folder,
            // so that the folder is gone once this lock is granted.
            let Ok(lock) = File::open(folder.path()) else { continue };
            lock.lock_shared()?;
            if folder.path().is_dir() {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of runs of which no process is left. What cannot be removed belongs to another user, or is removed by another run.
fn remove_unused(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let Ok(folder) = File::open(&path) else { continue };
        if folder.try_lock().is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_without_a_process_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for name in ["sm121probe-exec-used", "sm121probe-exec-left", "sm121probe-other"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("results.jsonl"), "").unwrap();
        }
        fs::write(path("sm121probe-exec-file"), "").unwrap();
        let (one, other) = (
            File::open(path("sm121probe-exec-used")).unwrap(),
            File::open(path("sm121probe-exec-used")).unwrap(),
        );
        one.lock_shared().unwrap();
        other.lock_shared().unwrap();
        remove_unused(place.path());
        let is_left = |name: &str| path(name).exists();
        assert!(
            is_left("sm121probe-exec-used") && is_left("sm121probe-other") && is_left("sm121probe-exec-file")
        );
        assert!(!is_left("sm121probe-exec-left"));
        drop(one);
        remove_unused(place.path());
        assert!(is_left("sm121probe-exec-used"));
        drop(other);
        remove_unused(place.path());
        assert!(!is_left("sm121probe-exec-used"));
    }
}
