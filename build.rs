//! Embeds the data folders in the binary, files added since the last build included.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Each folder, and the extensions of its files.
const FOLDERS: [(&str, &[&str]); 3] =
    [("ptx_snippets", &["ptx"]), ("cases", &["yaml"]), ("kernels", &["cu", "cuh", "ptx"])];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    for (folder, extensions) in FOLDERS {
        // Cargo walks a folder named here, so an added or removed file rebuilds too.
        println!("cargo::rerun-if-changed={folder}");
        let mut files = Vec::new();
        collect(&root.join(folder), extensions, &mut files)?;
        files.sort();
        let mut code = String::from("&[\n");
        for file in files {
            let name = file.strip_prefix(&root).map_err(io::Error::other)?;
            writeln!(code, "    ({:?}, include_str!({:?})),", name.display(), file.display())
                .map_err(io::Error::other)?;
        }
        code.push_str("]\n");
        fs::write(out.join(format!("{folder}.rs")), code)?;
    }
    Ok(())
}

fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extensions, files)?;
        } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
            files.push(path);
        }
    }
    Ok(())
}
