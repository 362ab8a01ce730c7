//! The PTX of machine code that the program has compiled: CuTe DSL and ptxas keep both, and the bytes of the machine code tell which PTX is
//! its own.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use emulator::events::RESULTS;

/// The folder for what ptxas assembles, inside that of the run.
fn folder_of_run() -> Option<PathBuf> {
    Some(Path::new(&std::env::var_os(RESULTS)?).parent()?.join("assembled"))
}

/// Keeps a text and the machine code that ptxas made of it.
///
/// # Errors
/// The folder of the run cannot be written.
pub(crate) fn keep(text: &[u8], cubin: &[u8]) -> io::Result<()> {
    let Some(folder) = folder_of_run() else { return Ok(()) };
    fs::create_dir_all(&folder)?;
    keep_in(&folder, text, cubin)
}

fn keep_in(folder: &Path, text: &[u8], cubin: &[u8]) -> io::Result<()> {
    for n in 0u32.. {
        let file = folder.join(format!("{}-{n}.ptx", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(mut created) => {
                io::Write::write_all(&mut created, text)?;
                // Whoever finds the machine code finds the text.
                let part = file.with_extension("part");
                fs::write(&part, cubin)?;
                return fs::rename(part, file.with_extension("cubin"));
            }
        }
    }
    Ok(())
}

/// The PTX of a cubin whose compiler kept it.
pub(crate) fn kept_ptx(cubin: &[u8]) -> Option<String> {
    let of_cute_dsl = std::env::var_os("CUTE_DSL_DUMP_DIR").map(PathBuf::from);
    folder_of_run().into_iter().chain(of_cute_dsl).find_map(|folder| kept_in(&folder, cubin))
}

/// Compares the bytes, because a later kernel of the same name replaces both files.
fn kept_in(folder: &Path, cubin: &[u8]) -> Option<String> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut cubins = files.filter(|file| file.extension().is_some_and(|ending| ending == "cubin"));
    let kept = cubins.find(|file| fs::read(file).is_ok_and(|bytes| is_same(&bytes, cubin)))?;
    fs::read_to_string(kept.with_extension("ptx")).ok()
}

/// Whether two cubins are the same but for zeros at the end of one: a fatbin pads its images.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let (same, rest) = long.split_at(short.len());
    !short.is_empty() && same == short && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubin_has_the_ptx_that_lies_beside_it() {
        let folder = std::env::temp_dir().join(format!("sm121probe-kept-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["one", "two"] {
            fs::write(folder.join(format!("{name}.sm_121a.cubin")), format!("cubin {name}")).unwrap();
            fs::write(folder.join(format!("{name}.sm_121a.ptx")), format!("ptx {name}")).unwrap();
        }
        assert_eq!(kept_in(&folder, b"cubin two").as_deref(), Some("ptx two"));
        assert_eq!(kept_in(&folder, b"cubin two\0\0\0").as_deref(), Some("ptx two"));
        for other in [&b"cubin three"[..], b"cubin", b""] {
            assert_eq!(kept_in(&folder, other), None);
        }
        for n in 0..3 {
            keep_in(&folder, format!("text {n}").as_bytes(), format!("code {n}").as_bytes()).unwrap();
        }
        assert_eq!(kept_in(&folder, b"code 1").as_deref(), Some("text 1"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
