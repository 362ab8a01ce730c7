//! The built-in cases of a family: the YAML files of its folder in `cases/`.

use std::path::Path;

/// Returns the cases of a folder such as `cases/kv_cache`, and what is wrong with its other files, in sentences.
pub fn read<C>(folder: &str, parse: impl Fn(&Path, &str) -> Result<C, String>) -> (Vec<C>, Vec<String>) {
    let (mut cases, mut problems) = (Vec::new(), Vec::new());
    let files = data::CASES.files().map(|(path, text)| (Path::new(path), text));
    for (path, text) in files.filter(|(path, _)| path.parent() == Some(Path::new(folder))) {
        match parse(path, text) {
            Ok(case) => cases.push(case),
            Err(problem) => problems.push(problem),
        }
    }
    (cases, problems)
}

/// Returns the name of a case: the stem of its file.
#[must_use]
pub fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the sentence on a key whose value is wrong, with its file and line.
#[must_use]
pub fn problem(path: &Path, text: &str, key: &str, message: &str) -> String {
    let at = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    let line = text.lines().position(at).map_or(1, |n| n + 1);
    format!("{}:{line}: {message}", path.display())
}
