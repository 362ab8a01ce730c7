//! A C program calls every function of the header, compiled and linked as a user's.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::path::PathBuf;
use std::process::Command;

/// The folder of the shared library: that of this test, or the one above.
fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let name = "libsm121probe_c.so";
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {name} near {}", here.display()))
}

#[test]
fn a_c_program_calls_every_function() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("header");
    let library = library();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(root.join("include"))
        .arg(root.join("tests/header.c"))
        .arg(&library)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", library.parent().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    // `ptx_run` says on standard error what went wrong in the calls that are to fail.
    assert!(String::from_utf8_lossy(&ran.stderr).contains("takes 2 arguments, not 1"));
}

#[test]
fn the_header_and_the_library_have_the_same_functions() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("include/sm121probe.h")).unwrap();
    let declared = |name: &str| header.contains(&format!("{name}("));
    let mut exported = 0;
    for file in ["lib.rs", "device.rs", "launch.rs", "run.rs", "text.rs"] {
        let text = std::fs::read_to_string(root.join("src").join(file)).unwrap();
        for part in text.split("extern \"C\" fn ").skip(1) {
            let name = part.split('(').next().unwrap();
            assert!(declared(name), "{name}");
            exported += 1;
        }
    }
    let functions = header.matches("sm121probe_").count();
    assert!(exported == 12 && functions >= 11, "{exported}");
}
