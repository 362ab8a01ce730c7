//! Embeds the data folders in the binary, files added since the last build included.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Each folder whose files are embedded as they are, and their extensions.
const FOLDERS: [(&str, &[&str]); 2] = [("cases", &["yaml"]), ("kernels", &["cu", "cuh", "ptx"])];

/// The folder whose files are embedded in one compressed piece.
const PACKED: &str = "ptx_snippets";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    for (folder, extensions) in FOLDERS {
        let mut code = String::from("&[\n");
        for file in files_of(&root, folder, extensions)? {
            let name = file.strip_prefix(&root).map_err(io::Error::other)?;
            writeln!(code, "    ({:?}, include_str!({:?})),", name.display(), file.display())
                .map_err(io::Error::other)?;
        }
        code.push_str("]\n");
        fs::write(out.join(format!("{folder}.rs")), code)?;
    }
    let mut packed =
        ZlibEncoder::new(fs::File::create(out.join(format!("{PACKED}.z")))?, Compression::best());
    for file in files_of(&root, PACKED, &["ptx"])? {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        write!(packed, "{}\0{}\0", name.display(), fs::read_to_string(&file)?)?;
    }
    packed.finish()?;
    Ok(())
}

/// The files of a folder, sorted. Cargo walks the folder, so an added or removed file rebuilds too.
fn files_of(root: &Path, folder: &str, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    println!("cargo::rerun-if-changed={folder}");
    let mut files = Vec::new();
    collect(&root.join(folder), extensions, &mut files)?;
    files.sort();
    Ok(files)
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
