//! `new snippet`: writes a stub that the loader refuses until it is filled in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why no stub was written.
#[derive(Debug, thiserror::Error)]
pub enum NewSnippetError {
    /// The name is not usable.
    #[error(
        "`{0}` is not a snippet name; write <family>/<stem>, such as mma/mma.mxf4, of letters, digits, `.`, `_`, `-`"
    )]
    Name(String),
    /// The file already exists.
    #[error("{}: already exists; choose another name or edit that file", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

const STUB: &str = "\
//@ about: TODO one sentence on what this tests.
//@ spec: TODO the section of the PTX ISA
//@ grants: [todo_capability]
//@ axes:
//@   type: [u32, s32]
//@ sass: [IADD, IADD3]
//@ claims:
//@   - source: TODO who says so
//@     expect: accepted
//@     targets: [sm_121a, sm_121f]
.reg .b32 r<3>;
ld.global.v2.b32 {r0, r1}, [in];
add.${type} r2, r0, r1;
st.global.b32 [out], r2;
";

/// Writes `<folder>/<family>/<stem>.ptx` and returns its path.
///
/// # Errors
/// [`NewSnippetError`]; an existing file is never overwritten.
pub fn create(folder: &Path, name: &str) -> Result<PathBuf, NewSnippetError> {
    let usable = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphanumeric())
            && s.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let name = name.strip_suffix(".ptx").unwrap_or(name);
    let (family, stem) = match name.split_once('/') {
        Some((family, stem)) if usable(family) && usable(stem) => (family, stem),
        _ => return Err(NewSnippetError::Name(name.to_owned())),
    };
    let path = folder.join(family).join(format!("{stem}.ptx"));
    let write = |source| NewSnippetError::Write { path: path.clone(), source };
    fs::create_dir_all(folder.join(family)).map_err(write)?;
    let mut file = match fs::File::create_new(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(NewSnippetError::Exists(path));
        }
        Err(error) => return Err(write(error)),
    };
    io::Write::write_all(&mut file, STUB.as_bytes()).map_err(write)?;
    Ok(path)
}
