//! Loads cases from the binary or a folder; an invalid file does not prevent the others from loading.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::CaseError;
use super::file;
use super::model::Case;

/// Cases, and the files that are not valid cases.
#[derive(Debug, Default)]
pub struct Library {
    /// The cases, sorted by path.
    pub cases: Vec<Case>,
    /// Why the other files cannot be used.
    pub problems: Vec<CaseError>,
}

/// Returns the built-in cases.
#[must_use]
pub fn library() -> Library {
    let mut library = Library::default();
    // Other families have folders of their own.
    for (path, text) in data::CASES.files().map(|(path, text)| (Path::new(path), text)) {
        if path.parent() == Some(Path::new("cases")) {
            library.add(path, text);
        }
    }
    library
}

/// Returns the built-in case called `name`.
///
/// # Errors
/// [`CaseError::Unknown`] with similar names.
pub fn find(name: &str) -> Result<Case, CaseError> {
    library().find(name).cloned()
}

/// Returns a case with the dimensions and settings of a model, and one token of the `real` regime.
///
/// # Errors
/// [`CaseError::Invalid`] with the known models.
pub fn of_model(name: &str) -> Result<Case, CaseError> {
    let text = format!("about: Dimensions of a model.\nmodel: {name:?}\ntokens: 1\nregime: real\n");
    file::parse(Path::new(&format!("{name}.yaml")), &text)
}

impl Library {
    /// Every `.yaml` file below `folder`.
    ///
    /// [`CaseError::Folder`] and [`CaseError::Empty`]. Errors in single files are collected in `problems`.
    /// [`CaseError::Folder`] and [`CaseError::Empty`]; what is wrong with single files is in `problems`.
    pub fn load(folder: &Path) -> Result<Self, CaseError> {
        let mut files = Vec::new();
        collect(folder, &mut files)
            .map_err(|source| CaseError::Folder { path: folder.to_owned(), source })?;
        files.sort();
        if files.is_empty() {
            return Err(CaseError::Empty(folder.to_owned()));
        }
        let mut library = Self::default();
        for path in files {
            match fs::read_to_string(&path) {
                Ok(text) => library.add(&path, &text),
                Err(source) => library.problems.push(CaseError::Read { path, source }),
            }
        }
        Ok(library)
    }

    /// Adds the case in `text`, or its error; `path` supplies its name.
    pub fn add(&mut self, path: &Path, text: &str) {
        let names: BTreeMap<&str, &Path> =
            self.cases.iter().map(|c| (c.name.as_str(), c.path.as_path())).collect();
        match file::parse(path, text) {
            Ok(case) => match names.get(case.name.as_str()) {
                Some(first) => {
                    let first = first.to_path_buf();
                    self.problems.push(CaseError::Duplicate { name: case.name, path: case.path, first });
                }
                None => self.cases.push(case),
            },
            Err(error) => self.problems.push(error),
        }
    }

    /// The case called `name`.
    ///
    /// [`CaseError::Unknown`] with similar names.
    /// [`CaseError::Unknown`] with names that come near.
    pub fn find(&self, name: &str) -> Result<&Case, CaseError> {
        self.cases.iter().find(|c| c.name == name).ok_or_else(|| {
            let near: Vec<&str> = self
                .cases
                .iter()
                .map(|c| c.name.as_str())
                .filter(|n| n.split('-').any(|part| name.split('-').any(|asked| asked == part)))
                .collect();
            let hint = if near.is_empty() {
                "`sm121probe moe --list` names them".to_owned()
            } else {
                format!("did you mean {}?", near.join(", "))
            };
            CaseError::Unknown { name: name.to_owned(), hint }
        })
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}
