//! NVRTC in its worker process: the errors for a source, a library or a machine that does not work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sm121probe::store::Store;
use sm121probe::toolkit::{self, Environment, Nvrtc, NvrtcError, Source};
use sm121probe::worker;
use tempfile::TempDir;

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "a_file_that_is_no_library_is_named_with_the_reason",
        &[],
        a_file_that_is_no_library_is_named_with_the_reason,
    ),
    (
        "a_library_without_the_functions_is_named_with_the_first_that_lacks",
        &[],
        a_library_without_the_functions_is_named_with_the_first_that_lacks,
    ),
    ("a_worker_that_hangs_or_crashes_is_an_error", &[], a_worker_that_hangs_or_crashes_is_an_error),
    (
        "every_nvrtc_of_this_machine_compiles_explains_and_remembers",
        &[Need::Nvrtc],
        every_nvrtc_of_this_machine_compiles_explains_and_remembers,
    ),
    ("eight_that_want_the_same_compile_it_once", &[Need::Nvrtc], eight_that_want_the_same_compile_it_once),
    (
        "one_worker_takes_one_source_after_the_other",
        &[Need::Nvrtc],
        one_worker_takes_one_source_after_the_other,
    ),
];

const LIMIT: Duration = Duration::from_secs(120);

/// The tool itself, which is the worker, too.
fn tool() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sm121probe"))
}

fn source(text: &str) -> Source<'_> {
    Source {
        text,
        name: "k.cu",
        options: toolkit::options_for("sm_121a".parse().unwrap()),
        headers: Vec::new(),
    }
}

/// A folder of Python packages that contains one file as NVRTC.
fn site_with(library: &[u8]) -> (TempDir, Nvrtc) {
    let dir = TempDir::new().unwrap();
    let lib = dir.path().join("nvidia/cu13/lib");
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("libnvrtc.so.13"), library).unwrap();
    fs::write(lib.join("libnvrtc-builtins.so.13.5"), library).unwrap();
    let vars = [("PYTHONPATH".into(), dir.path().into())].into_iter().collect();
    let environment = Environment { vars, folder: dir.path().into(), root: dir.path().into() };
    let found = toolkit::nvrtcs(None, &environment);
    let nvrtc = toolkit::select_nvrtc(&found, Some("13.5")).unwrap().clone();
    (dir, nvrtc)
}

/// NVRTCs in this machine's cache, newest last.
fn installed() -> (Store, Vec<Nvrtc>) {
    let store = Store::open(None).unwrap();
    let found = toolkit::nvrtcs(Some(&store), &Environment::of_process());
    (store, found)
}

fn a_file_that_is_no_library_is_named_with_the_reason() {
    let (_dir, nvrtc) = site_with(b"not a library");
    let error = toolkit::compile(&nvrtc, &source("int x;"), None, tool(), LIMIT).unwrap_err().to_string();
    assert!(error.contains("libnvrtc.so.13") && error.contains("cannot be loaded"), "{error}");
}

fn a_library_without_the_functions_is_named_with_the_first_that_lacks() {
    // Every Linux machine has this library, which is not NVRTC.
    let places = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    let Some(library) = places.iter().find_map(|p| fs::read(p).ok()) else { return };
    let (_dir, nvrtc) = site_with(&library);
    let error = toolkit::compile(&nvrtc, &source("int x;"), None, tool(), LIMIT).unwrap_err().to_string();
    assert!(error.contains("it has no function `nvrtcVersion`"), "{error}");
}

fn a_worker_that_hangs_or_crashes_is_an_error() {
    let (dir, nvrtc) = site_with(b"x");
    let script = |name: &str, text: &str| -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let hangs = script("hangs", "#!/bin/sh\nsleep 600\n");
    let error =
        toolkit::compile(&nvrtc, &source("int x;"), None, &hangs, Duration::from_millis(200)).unwrap_err();
    assert!(error.to_string().contains("did not end within 0.2 s"), "{error}");
    let crashes = script("crashes", "#!/bin/sh\necho broken >&2\nkill -SEGV $$\n");
    let error = toolkit::compile(&nvrtc, &source("int x;"), None, &crashes, LIMIT).unwrap_err();
    assert!(error.to_string().contains("was killed by signal 11; it said `broken`"), "{error}");
    let error =
        toolkit::compile(&nvrtc, &source("int x;"), None, Path::new("/nonexistent"), LIMIT).unwrap_err();
    assert!(matches!(error, NvrtcError::Worker(_)), "{error}");
}

fn every_nvrtc_of_this_machine_compiles_explains_and_remembers() {
    let (_, found) = installed();
    for nvrtc in &found {
        let dir = TempDir::new().unwrap();
        let store = Store::open(Some(dir.path())).unwrap();
        let good = source("extern \"C\" __global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }");
        let compiled = toolkit::compile(nvrtc, &good, Some(&store), tool(), LIMIT).unwrap();
        assert!(
            compiled.ptx.contains(".entry k") && compiled.ptx.contains(".target sm_121a"),
            "{}",
            compiled.ptx
        );
        assert!(compiled.ptx.contains(".loc"), "line numbers");
        // The second answer comes from the cache, so the worker need not run.
        let again = toolkit::compile(nvrtc, &good, Some(&store), Path::new("/nonexistent"), LIMIT).unwrap();
        assert_eq!(again, compiled);
        let bad = source("__global__ void k() {\n  int a = nothing;\n}\n");
        let error = toolkit::compile(nvrtc, &bad, Some(&store), tool(), LIMIT).unwrap_err().to_string();
        assert!(error.contains("k.cu(2)") && error.contains("int a = nothing;"), "{error}");
        let mut odd = source("int x;");
        odd.options.push("--no-such-option".to_owned());
        assert!(toolkit::compile(nvrtc, &odd, Some(&store), tool(), LIMIT).is_err());
    }
}

fn eight_that_want_the_same_compile_it_once() {
    let (_, found) = installed();
    let nvrtc = toolkit::select_nvrtc(&found, None).unwrap();
    let dir = TempDir::new().unwrap();
    let store = Store::open(Some(dir.path())).unwrap();
    // A worker that counts its runs.
    let counting = dir.path().join("counting");
    let count = dir.path().join("count");
    let text = format!("#!/bin/sh\necho one >> '{}'\nexec '{}' \"$@\"\n", count.display(), tool().display());
    fs::write(&counting, text).unwrap();
    fs::set_permissions(&counting, fs::Permissions::from_mode(0o755)).unwrap();
    let text = "extern \"C\" __global__ void once() {}";
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| toolkit::compile(nvrtc, &source(text), Some(&store), &counting, LIMIT).unwrap());
        }
    });
    assert_eq!(fs::read_to_string(count).unwrap(), "one\n");
    assert!(worker::started() > 0);
}

fn one_worker_takes_one_source_after_the_other() {
    let (_, found) = installed();
    let nvrtc = toolkit::select_nvrtc(&found, None).unwrap();
    let dir = TempDir::new().unwrap();
    let (counting, count) = (dir.path().join("counting"), dir.path().join("count"));
    let text = format!("#!/bin/sh\necho one >> '{}'\nexec '{}' \"$@\"\n", count.display(), tool().display());
    fs::write(&counting, text).unwrap();
    fs::set_permissions(&counting, fs::Permissions::from_mode(0o755)).unwrap();
    let ptx = |text: &str| toolkit::compile(nvrtc, &source(text), None, &counting, LIMIT).map(|c| c.ptx);
    let good = "extern \"C\" __global__ void first(int* x) { x[threadIdx.x] += __popc(x[0]); }";
    let first = ptx(good).unwrap();
    assert!(ptx("extern \"C\" __global__ void second() {}").unwrap().contains(".entry second"));
    // Nothing of earlier compilations, accepted or rejected, remains in the worker.
    assert!(ptx("int a = nothing;").is_err());
    assert_eq!(ptx(good).unwrap(), first);
    assert_eq!(fs::read_to_string(&count).unwrap(), "one\n");
}
