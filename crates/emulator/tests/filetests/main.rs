//! PTX files with headers that say how they run and what is expected: one test per file, or per variant of a file.
//!
//! `README.md` has the format. `cargo test -p sm121probe-emulator --test filetests memory_model` runs one folder.

mod bless;
mod edit;
mod header;
mod launch;
mod section;
mod self_test;
mod values;
mod verdict;
mod words;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let bless = bless::wanted();
    if bless {
        // Variants of one file write the same file.
        arguments.test_threads = Some(1);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut trials = self_test::trials();
    match files(&root) {
        Ok(files) => trials.extend(files.iter().flat_map(|path| trials_of(&root, path, bless))),
        Err(error) => {
            eprintln!("{}: {error}", root.display());
            return ExitCode::FAILURE;
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The `.ptx` files below a folder, in order.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            out.extend(files(&path)?);
        } else if path.extension() == Some(OsStr::new("ptx")) {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// The tests of a file; a file that cannot be read as a test is a test that fails.
fn trials_of(root: &Path, path: &Path, bless: bool) -> Vec<Trial> {
    let name = path.strip_prefix(root).unwrap_or(path).with_extension("").display().to_string();
    let read = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    match read.and_then(|text| header::read(path, &text).map_err(|problem| problem.to_string())) {
        Ok(tests) => tests
            .into_iter()
            .map(|test| {
                let name = if test.name.is_empty() { name.clone() } else { format!("{name}/{}", test.name) };
                let path = path.to_owned();
                Trial::test(name, move || {
                    let test = if bless { bless::rewrite(&path, test)? } else { test };
                    Ok(verdict::check(&test).map_err(|what| format!("{}: {what}", path.display()))?)
                })
            })
            .collect(),
        Err(what) => vec![Trial::test(name, move || Err(what.into()))],
    }
}
