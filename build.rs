//! Embeds `ptx_snippets/` in the binary, files added since the last build included.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Cargo walks a folder named here, so an added or removed file rebuilds too.
    println!("cargo::rerun-if-changed=ptx_snippets");
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut files = Vec::new();
    collect(&root.join("ptx_snippets"), &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        writeln!(code, "    ({:?}, include_str!({:?})),", name.display(), file.display())
            .map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("ptx_snippets.rs"), code)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "ptx") {
            files.push(path);
        }
    }
    Ok(())
}
