//! The cache on disk: entries by key, replaced as a whole, locked while they are made.
//!
//! An entry is a file with a checksum: a damaged or half-written one is a miss, never a wrong answer. Writers hold
//! a file lock, so of several processes that need the same entry, one makes it. Keys contain no paths, so the folder
//! can be moved or copied to another machine. `SM121PROBE_CACHE` names the folder; the default is the XDG cache folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use record::write_atomic;

/// Bytes of entries that [`Store::trim`] keeps; installed toolkits do not count.
pub const ENTRY_BYTES_KEPT: u64 = 1 << 30;

/// First word of every entry; it changes with the entry format.
const MAGIC: &str = "sm121probe-entry-1";

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No cache folder is known.
    #[error(
        "no cache folder: neither SM121PROBE_CACHE nor XDG_CACHE_HOME nor HOME is set; set SM121PROBE_CACHE to a writable folder"
    )]
    NoFolder,
    /// A file or folder cannot be created or written.
    #[error("the cache cannot be written at {}: {source}; set SM121PROBE_CACHE to a writable folder", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The cache folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Refuses every write; simulates a full or read-only disk, which would not stop root.
    broken: bool,
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a file in lower-case hexadecimal.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            n => hasher.update(&chunk[..n]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// An exclusive lock on a file, held until dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Store {
    /// Opens the cache: `folder`, or `SM121PROBE_CACHE`, or the XDG cache folder.
    ///
    /// # Errors
    /// [`StoreError`] if no folder is known or it cannot be created.
    pub fn open(folder: Option<&Path>) -> Result<Self, StoreError> {
        let root = match folder {
            Some(folder) => folder.to_owned(),
            None => default_folder(|name| std::env::var_os(name)).ok_or(StoreError::NoFolder)?,
        };
        fs::create_dir_all(&root).map_err(|source| StoreError::Write { path: root.clone(), source })?;
        let root =
            fs::canonicalize(&root).map_err(|source| StoreError::Write { path: root.clone(), source })?;
        Ok(Self { root, broken: std::env::var_os("SM121PROBE_TEST_BROKEN_STORE").is_some() })
    }

    /// Returns the folder itself; installed toolkits are in its `toolkits/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Locks `name` against every other process; blocks until the lock is free.
    ///
    /// # Errors
    /// [`StoreError::Write`] if the lock file cannot be created or locked.
    pub fn lock(&self, name: &str) -> Result<Lock, StoreError> {
        let path = self.root.join("locks").join(name);
        let write = |source| StoreError::Write { path: path.clone(), source };
        if self.broken {
            return Err(write(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)));
        }
        fs::create_dir_all(self.root.join("locks")).map_err(write)?;
        let file = File::create(&path).map_err(write)?;
        file.lock().map_err(write)?;
        Ok(Lock(file))
    }

    /// Creates a folder inside the cache, on the same file system as the final location of its contents.
    ///
    /// # Errors
    /// [`StoreError::Write`] if it cannot be created.
    pub fn scratch(&self) -> Result<tempfile::TempDir, StoreError> {
        let path = self.root.join("scratch");
        let write = |source| StoreError::Write { path: path.clone(), source };
        if self.broken {
            return Err(write(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)));
        }
        fs::create_dir_all(&path).map_err(write)?;
        tempfile::tempdir_in(&path).map_err(write)
    }

    /// Returns the entry `key` of `kind`, or `None` if it is missing or damaged.
    #[must_use]
    pub fn get(&self, kind: &str, key: &str) -> Option<Vec<u8>> {
        let path = self.entry(kind, key);
        let bytes = fs::read(&path).ok()?;
        let end = bytes.iter().position(|b| *b == b'\n')?;
        let (frame, payload) = bytes.split_at(end);
        let payload = &payload[1..];
        (frame == format!("{MAGIC} {}", sha256(payload)).as_bytes()).then(|| payload.to_vec())
    }

    /// Replaces the entry `key` of `kind`. The caller holds the lock if others may write it too.
    ///
    /// # Errors
    /// [`StoreError::Write`]; the old entry then remains.
    pub fn put(&self, kind: &str, key: &str, payload: &[u8]) -> Result<(), StoreError> {
        let path = self.entry(kind, key);
        let write = |source| StoreError::Write { path: path.clone(), source };
        if self.broken {
            return Err(write(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)));
        }
        fs::create_dir_all(self.root.join("entries").join(kind)).map_err(write)?;
        let mut bytes = format!("{MAGIC} {}\n", sha256(payload)).into_bytes();
        bytes.extend_from_slice(payload);
        write_atomic(&path, &bytes).map_err(write)
    }

    /// Removes the oldest entries until `keep` bytes are left, and scratch folders more than a day old that a killed process
    /// left behind.
    pub fn trim(&self, keep: u64) {
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for kind in children(&self.root.join("entries")) {
            for path in children(&kind) {
                if let Ok(meta) = fs::metadata(&path) {
                    entries.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), path));
                }
            }
        }
        let mut total: u64 = entries.iter().map(|e| e.1).sum();
        entries.sort();
        for (_, size, path) in entries {
            if total <= keep {
                break;
            }
            // Another process may have removed it first, which does no harm.
            if fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
        for path in children(&self.root.join("scratch")) {
            let age = fs::metadata(&path).and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > 86_400) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    fn entry(&self, kind: &str, key: &str) -> PathBuf {
        self.root.join("entries").join(kind).join(key)
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|e| e.ok().map(|e| e.path())).collect()
}

fn default_folder(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("SM121PROBE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|p| p.join("sm121probe")))
        .or_else(|| set("HOME").map(|p| p.join(".cache").join("sm121probe")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Some(dir.path())).unwrap();
        (dir, store)
    }

    #[test]
    fn an_entry_comes_back_and_is_replaced() {
        let (_dir, store) = store();
        assert_eq!(store.get("k", "a"), None);
        store.put("k", "a", b"one").unwrap();
        assert_eq!(store.get("k", "a").as_deref(), Some(&b"one"[..]));
        store.put("k", "a", b"").unwrap();
        assert_eq!(store.get("k", "a").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn a_damaged_entry_is_a_miss() {
        let (dir, store) = store();
        store.put("k", "a", b"payload").unwrap();
        let path = dir.path().join("entries/k/a");
        let good = fs::read(&path).unwrap();
        for cut in 0..good.len() {
            fs::write(&path, &good[..cut]).unwrap();
            assert_eq!(store.get("k", "a"), None, "cut at {cut}");
        }
        for flip in 0..good.len() {
            let mut bad = good.clone();
            bad[flip] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert_eq!(store.get("k", "a"), None, "flipped at {flip}");
        }
    }

    #[test]
    fn the_oldest_entries_go_first() {
        let (dir, store) = store();
        for (i, name) in ["a", "b", "c"].iter().enumerate() {
            store.put("k", name, &[0; 1000]).unwrap();
            let file = File::options().append(true).open(dir.path().join("entries/k").join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(i as u64)).unwrap();
        }
        store.trim(2500);
        assert_eq!(store.get("k", "a"), None);
        assert!(store.get("k", "b").is_some() && store.get("k", "c").is_some());
    }

    #[test]
    fn the_lock_excludes_others() {
        let (_dir, store) = store();
        let held = store.lock("x").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = store.clone();
        let thread = std::thread::spawn(move || {
            let _lock = other.lock("x").unwrap();
            sender.send(()).unwrap();
        });
        assert!(receiver.try_recv().is_err());
        drop(held);
        receiver.recv().unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn the_folder_comes_from_the_first_variable_set() {
        let with = |pairs: &[(&str, &str)]| {
            default_folder(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)))
        };
        assert_eq!(with(&[("SM121PROBE_CACHE", "/c"), ("HOME", "/h")]), Some("/c".into()));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), Some("/x/sm121probe".into()));
        assert_eq!(with(&[("XDG_CACHE_HOME", ""), ("HOME", "/h")]), Some("/h/.cache/sm121probe".into()));
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Store::open(Some(&file.path().join("below"))).unwrap_err().to_string();
        assert!(error.contains("SM121PROBE_CACHE"), "{error}");
    }
}
