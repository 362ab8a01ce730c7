//! Selects from the toolkits found: by name, by path, or the default pair.

use std::path::{Path, PathBuf};

use super::discover::{Discovery, Toolkit};

/// A name that selects no toolkit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The machine has no usable ptxas at all.
    #[error(
        "no usable ptxas on this machine{because}; `sm121probe toolkit install latest 12.9` fetches pinned ones"
    )]
    NoneFound {
        /// Why candidates cannot be used, or nothing.
        because: String,
    },
    /// No toolkit has that version.
    #[error(
        "no toolkit `{name}` on this machine; available: {there}; `sm121probe toolkit install {name}` fetches it if it is pinned"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The versions available.
        there: String,
    },
    /// The named file is not a usable ptxas.
    #[error("{} cannot be used as ptxas: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Discovery {
    /// Selects the toolkits of `names`, ascending and each version once: `13.5` (its newest patch), `13.5.37`,
    /// `all`, or the path of a ptxas added by [`super::Places::add_named`]. Without names: the newest, and the
    /// newest 12.9 for comparison.
    ///
    /// # Errors
    /// [`SelectError`] with the versions available and the command that fetches one.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Toolkit>, SelectError> {
        let mut chosen: Vec<&Toolkit> = Vec::new();
        if names.is_empty() {
            chosen.extend(self.toolkits.last().map(|newest| self.preferred(newest)));
            chosen.extend(self.named("12.9"));
            if chosen.is_empty() {
                return Err(self.none_found());
            }
        }
        for name in names {
            if name.contains('/') {
                chosen.push(self.at(Path::new(name))?);
            } else if name == "all" {
                chosen.extend(self.toolkits.iter().map(|toolkit| self.preferred(toolkit)));
                if self.toolkits.is_empty() {
                    return Err(self.none_found());
                }
            } else {
                chosen.push(self.named(name).ok_or_else(|| self.unknown(name))?);
            }
        }
        chosen.sort_by_key(|toolkit| toolkit.version);
        chosen.dedup_by_key(|toolkit| toolkit.version);
        Ok(chosen)
    }

    /// The newest toolkit that `name` denotes.
    fn named(&self, name: &str) -> Option<&Toolkit> {
        let newest = self.toolkits.iter().rev().find(|toolkit| toolkit.version.is_named(name))?;
        Some(self.preferred(newest))
    }

    /// The first toolkit found with the same version.
    fn preferred<'a>(&'a self, like: &'a Toolkit) -> &'a Toolkit {
        self.toolkits.iter().find(|toolkit| toolkit.version == like.version).unwrap_or(like)
    }

    fn at(&self, path: &Path) -> Result<&Toolkit, SelectError> {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let here =
            |found: &Path| found == path || std::fs::canonicalize(found).is_ok_and(|found| found == real);
        if let Some(toolkit) =
            self.toolkits.iter().find(|t| t.path == real || t.origins.iter().any(|o| here(&o.path)))
        {
            return Ok(toolkit);
        }
        let row = self.unusable.iter().find(|row| here(&row.path));
        let reason =
            row.map_or_else(|| "it was not among the candidates".to_owned(), |row| row.reason.clone());
        Err(SelectError::Unusable { path: path.to_owned(), reason })
    }

    fn none_found(&self) -> SelectError {
        let rows: Vec<String> =
            self.unusable.iter().map(|row| format!("{}: {}", row.path.display(), row.reason)).collect();
        let because = if rows.is_empty() { String::new() } else { format!(" ({})", rows.join("; ")) };
        SelectError::NoneFound { because }
    }

    fn unknown(&self, name: &str) -> SelectError {
        if self.toolkits.is_empty() {
            return self.none_found();
        }
        let mut there: Vec<String> =
            self.toolkits.iter().map(|toolkit| toolkit.version.to_string()).collect();
        there.dedup();
        SelectError::Unknown { name: name.to_owned(), there: there.join(" ") }
    }
}
