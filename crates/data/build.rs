//! Packs the data folders of the repository, including files added since the last build.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The folders, and the file extensions to pack from each.
const FOLDERS: [(&str, &[&str]); 3] =
    [("ptx_snippets", &["ptx"]), ("cases", &["yaml"]), ("kernels", &["cu", "cuh", "ptx"])];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    for (folder, extensions) in FOLDERS {
        // Cargo watches the whole folder, so an added or removed file triggers a rebuild.
        println!("cargo::rerun-if-changed=../../{folder}");
        let mut files = Vec::new();
        collect(&root.join(folder), extensions, &mut files)?;
        files.sort();
        // Path, NUL, text, NUL: the format that `data::Packed` reads.
        let mut packed =
            ZlibEncoder::new(fs::File::create(out.join(format!("{folder}.z")))?, Compression::best());
        for file in files {
            let name = file.strip_prefix(&root).map_err(io::Error::other)?;
            write!(packed, "{}\0{}\0", name.display(), fs::read_to_string(&file)?)?;
        }
        packed.finish()?;
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
