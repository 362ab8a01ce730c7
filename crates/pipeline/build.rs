//! Identifies the sources that verdicts depend on, so that a build of other parts of the workspace keeps what the cache knows.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// This crate and all that it depends on in the workspace.
const CRATES: [&str; 9] =
    ["data", "devcode", "emulator", "gpu", "numerics", "pipeline", "ptx", "record", "toolchain"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?).join("../..");
    // Outside the workspace, neither the sources nor the versions of dependencies are known.
    let sources = if is_workspace(&root) { sources(&root)? } else { String::new() };
    println!("cargo::rustc-env=SM121PROBE_SOURCES={sources}");
    Ok(())
}

fn is_workspace(root: &Path) -> bool {
    let locked = fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    locked.contains("name = \"sm121probe-pipeline\"")
        && CRATES.iter().all(|name| root.join("crates").join(name).join("src").is_dir())
}

/// Hashes compiler, target, dependencies and sources.
fn sources(root: &Path) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Command::new(rustc).arg("-vV").output()?.stdout.hash(&mut hasher);
    env::var_os("TARGET").hash(&mut hasher);
    let mut files = vec![root.join("Cargo.lock"), root.join("Cargo.toml")];
    for name in CRATES {
        let folder = root.join("crates").join(name);
        files.push(folder.join("Cargo.toml"));
        collect(&folder.join("src"), &mut files)?;
        println!("cargo::rerun-if-changed=../{name}/src");
        println!("cargo::rerun-if-changed=../{name}/Cargo.toml");
    }
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    println!("cargo::rerun-if-changed=../../Cargo.toml");
    files.sort();
    for file in files {
        let name = file.strip_prefix(root).map_err(io::Error::other)?;
        name.hash(&mut hasher);
        fs::read(&file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
