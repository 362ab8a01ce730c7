//! Python packages: which distribution owns a file, by pip's `RECORD` or by the name of the wheel.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::worker::{self, Ended};

/// How deep below a given folder to search for site-packages; in `.venv`, `lib/python3.12/site-packages` is at
/// depth three.
const DEPTH: usize = 4;

/// The largest METADATA, RECORD or quoted file that is read, in bytes; a RECORD of 200,000 files has 25 MB.
const LARGEST: u64 = 64 << 20;

/// The time limit for Python to print its import paths.
const LIMIT: Duration = Duration::from_secs(30);

/// Prints the folders that Python imports from, without the standard library.
const SCRIPT: &str =
    "import sys\nfor p in sys.path:\n  if p.endswith(('site-packages', 'dist-packages')): print(p)\n";

/// An installed distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// The name as spelled in its metadata.
    pub name: String,
    /// The version.
    pub version: String,
    /// The site-packages folder that contains it.
    pub site: PathBuf,
}

/// The distributions installed in a set of folders.
#[derive(Debug, Clone, Default)]
pub struct Installed {
    /// The distributions, sorted by folder and name.
    pub distributions: Vec<Distribution>,
    /// The index of the distribution that owns a file, by path.
    files: HashMap<String, usize>,
    /// The `RECORD` and `METADATA` files that cannot be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Why the import paths of a Python are unknown.
#[derive(Debug, thiserror::Error)]
pub enum SitesError {
    /// Python cannot be started, or fails.
    #[error("{} does not say where it imports from: {said}", python.display())]
    Python {
        /// The interpreter.
        python: PathBuf,
        /// The last line of its output, or the error of starting it.
        said: String,
    },
    /// Python has no site-packages folder.
    #[error("{} imports from no site-packages", .0.display())]
    None(PathBuf),
}

/// Runs a Python to list its site-packages folders, without importing anything from them.
///
/// # Errors
/// [`SitesError`] if Python cannot be run or has no such folder.
pub fn sites_of(python: &Path) -> Result<Vec<PathBuf>, SitesError> {
    let failed = |said: String| SitesError::Python { python: python.to_owned(), said };
    let output = worker::run(Command::new(python).args(["-c", SCRIPT]), LIMIT)
        .map_err(|error| failed(error.to_string()))?;
    if output.ended != Ended::Exited(0) {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed(text.lines().last().unwrap_or("it failed").to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let sites: Vec<PathBuf> = text.lines().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    if sites.is_empty() { Err(SitesError::None(python.to_owned())) } else { Ok(sites) }
}

impl Installed {
    /// Finds the distributions of every site-packages folder at, below or above `paths`. Symbolic links to folders
    /// are not followed.
    #[must_use]
    pub fn below(paths: &[PathBuf]) -> Self {
        let mut sites = Vec::new();
        for path in paths {
            // `path` is inside site-packages, so its distributions are in the folder above.
            let above = path.ancestors().skip(1).find(|folder| {
                folder.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages")
            });
            match above {
                Some(site) => sites.push(site.to_owned()),
                None if path.is_dir() => find(path, DEPTH, &mut sites),
                None => {}
            }
        }
        sites.sort();
        sites.dedup();
        let mut out = Self::default();
        for site in sites {
            out.read(&site);
        }
        out
    }

    /// Returns the index of the distribution that owns a file.
    #[must_use]
    pub fn owner(&self, file: &str) -> Option<usize> {
        self.files.get(file).copied()
    }

    /// Returns the first distribution called `name`, with names compared as pip does.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Distribution> {
        let wanted = normal(name);
        self.distributions.iter().find(|d| normal(&d.name) == wanted)
    }

    /// Returns the existing file at the relative path `tail` in the site-packages folder of any distribution.
    #[must_use]
    pub fn file(&self, tail: &str) -> Option<PathBuf> {
        let candidate = |d: &Distribution| Some(d.site.join(tail)).filter(|path| path.is_file());
        self.distributions.iter().find_map(candidate)
    }

    /// Whether the file at the relative path `tail` contains `text`.
    #[must_use]
    pub(super) fn says(&self, tail: &str, text: &str) -> bool {
        let small = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() <= LARGEST);
        let bytes = self.file(tail).filter(small).and_then(|path| fs::read(path).ok());
        bytes.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
    }

    fn read(&mut self, site: &Path) {
        let Ok(entries) = fs::read_dir(site) else { return };
        let mut infos: Vec<PathBuf> = entries
            .flatten()
            .map(|e| e.path())
            .filter(|path| path.extension().is_some_and(|e| e == "dist-info") && path.is_dir())
            .collect();
        infos.sort();
        for info in infos {
            let metadata = self.text(&info.join("METADATA")).unwrap_or_default();
            let field = |name: &str| {
                let lines = metadata.lines().take_while(|line| !line.is_empty());
                lines
                    .filter_map(|line| line.split_once(':'))
                    .find(|(key, _)| *key == name)
                    .map(|(_, v)| v.trim())
            };
            // The folder name also contains name and version, with some characters replaced.
            let stem = info.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            let (name, version) = stem.rsplit_once('-').unwrap_or((&stem, ""));
            let number = self.distributions.len();
            self.distributions.push(Distribution {
                name: field("Name").unwrap_or(name).to_owned(),
                version: field("Version").unwrap_or(version).to_owned(),
                site: site.to_owned(),
            });
            for line in self.text(&info.join("RECORD")).unwrap_or_default().lines() {
                let path = normalised(&site.join(first_field(line)));
                self.files.insert(path, number);
            }
        }
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let read = || -> std::io::Result<String> {
            if fs::metadata(path)?.len() > LARGEST {
                return Err(std::io::Error::other("larger than any such file"));
            }
            Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
        };
        match read() {
            Ok(text) => Some(text),
            Err(error) => {
                self.unreadable.push((path.to_owned(), error.to_string()));
                None
            }
        }
    }
}

/// Finds the site-packages folders at or below `folder`: those that contain a `.dist-info`.
fn find(folder: &Path, depth: usize, sites: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut below = Vec::new();
    let mut holds = false;
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        let path = entry.path();
        holds |= path.extension().is_some_and(|e| e == "dist-info");
        below.push(path);
    }
    if holds {
        sites.push(folder.to_owned());
    } else if depth > 0 {
        below.sort();
        below.iter().for_each(|path| find(path, depth - 1, sites));
    }
}

/// Returns the first CSV field without quotes: `RECORD` quotes a path that contains a comma.
fn first_field(line: &str) -> String {
    match line.strip_prefix('"') {
        Some(rest) => {
            let mut out = String::new();
            let mut chars = rest.chars().peekable();
            while let Some(c) = chars.next() {
                match c {
                    '"' if chars.peek() == Some(&'"') => {
                        chars.next();
                        out.push('"');
                    }
                    '"' => break,
                    c => out.push(c),
                }
            }
            out
        }
        None => line.split(',').next().unwrap_or_default().to_owned(),
    }
}

/// Removes `.` and `..` from a path lexically.
fn normalised(path: &Path) -> String {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir if out.as_os_str().is_empty() => out.push("."),
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.display().to_string()
}

/// Normalizes a distribution's name as pip does (PEP 503).
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// Returns the name and version of the wheel that contains a file: foo-bar 1.2 for
/// `x/foo_bar-1.2-py3-none-any.whl!lib.so`.
#[must_use]
pub(super) fn of_wheel(path: &str) -> Option<(String, String)> {
    let wheel = &path[..path.find(".whl")?];
    let file = wheel.rsplit(['/', '!']).next()?;
    let mut parts = file.split('-');
    Some((parts.next()?.replace('_', "-"), parts.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_say_who_owns_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("lib/python3.12/site-packages");
        let info = site.join("foo_bar-1.2.dist-info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: Foo.Bar\nVersion: 1.2\n\nName: no\n")
            .unwrap();
        fs::write(info.join("RECORD"), "foo/a.so,sha256=x,1\n\"foo/b,\"\"c\"\".so\",,\n../../../bin/foo,,\n")
            .unwrap();
        fs::create_dir_all(site.join("bare-3.dist-info")).unwrap();
        let found = Installed::below(&[folder.path().to_owned()]);
        let names: Vec<(&str, &str)> =
            found.distributions.iter().map(|d| (d.name.as_str(), d.version.as_str())).collect();
        assert_eq!(names, [("bare", "3"), ("Foo.Bar", "1.2")]);
        let owner = |path: &str| found.owner(&folder.path().join(path).display().to_string());
        assert_eq!(owner("lib/python3.12/site-packages/foo/a.so"), Some(1));
        assert_eq!(owner("lib/python3.12/site-packages/foo/b,\"c\".so"), Some(1));
        assert_eq!((owner("bin/foo"), owner("bin/other")), (Some(1), None));
        assert_eq!(found.find("foo-bar").map(|d| d.version.as_str()), Some("1.2"));
        // An incomplete installation is reported.
        assert_eq!(found.unreadable.len(), 2);
    }

    #[test]
    fn a_wheel_names_its_distribution() {
        let wheel = |path: &str| of_wheel(path).map(|(n, v)| format!("{n} {v}"));
        assert_eq!(wheel("d/foo_bar-1.2-py3-none-any.whl!foo/lib.so").as_deref(), Some("foo-bar 1.2"));
        assert_eq!(wheel("d/foo.so"), None);
        assert_eq!(wheel(".whl!x"), None);
    }

    #[test]
    fn a_python_that_cannot_run_says_so() {
        assert!(matches!(sites_of(Path::new("/no/such/python")), Err(SitesError::Python { .. })));
    }
}
