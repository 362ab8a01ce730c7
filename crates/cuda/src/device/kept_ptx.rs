//! The PTX of machine code that CuTe DSL compiled: `exec` makes it keep both.

use std::path::Path;

/// The PTX of a cubin that CuTe DSL compiled; `exec` makes it keep both files side by side.
pub(crate) fn kept_ptx(cubin: &[u8]) -> Option<String> {
    kept_in(Path::new(&std::env::var_os("CUTE_DSL_DUMP_DIR")?), cubin)
}

/// Compares the bytes, because a later kernel of the same name replaces both files.
fn kept_in(folder: &Path, cubin: &[u8]) -> Option<String> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut cubins = files.filter(|file| file.extension().is_some_and(|ending| ending == "cubin"));
    let kept = cubins.find(|file| std::fs::read(file).is_ok_and(|bytes| bytes.starts_with(cubin)))?;
    std::fs::read_to_string(kept.with_extension("ptx")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubin_has_the_ptx_that_lies_beside_it() {
        let folder = std::env::temp_dir().join(format!("sm121probe-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["one", "two"] {
            std::fs::write(folder.join(format!("{name}.sm_121a.cubin")), format!("cubin {name}")).unwrap();
            std::fs::write(folder.join(format!("{name}.sm_121a.ptx")), format!("ptx {name}")).unwrap();
        }
        assert_eq!(kept_in(&folder, b"cubin two").as_deref(), Some("ptx two"));
        assert_eq!(kept_in(&folder, b"cubin three"), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
