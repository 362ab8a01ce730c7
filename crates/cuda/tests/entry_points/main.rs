//! Every exported function has a row in the table of entry points, and every row is called: before `cuInit`, in a thread without a context,
//! with zeros for all arguments, and with valid arguments. The row says what the call returns.
//!
//! The state of the library is that of its process. So each of these four passes is a program: the test starts itself again with one of
//! the ignored tests.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(unsafe_code, reason = "calls of exported functions")]

mod arguments;
mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use object::{Object as _, ObjectSymbol as _};
use sm121probe_cuda::{Call, EntryPoint, LibraryFunction, Needs, Status, entry_points, library_functions};

/// The exported names of the library.
fn exported_names() -> BTreeSet<String> {
    let own = std::env::current_exe().unwrap();
    let bytes = std::fs::read(own.with_file_name("libsm121probe_cuda.so")).unwrap();
    let file = object::File::parse(bytes.as_slice()).unwrap();
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    symbols.map(|symbol| symbol.name().unwrap().to_owned()).collect()
}

/// Exported functions of C and of run-time compilers, which the library replaces when it is loaded first (`src/preload`).
const OF_OTHER_LIBRARIES: [&str; 4] = ["dlopen", "dlsym", "nvrtcGetCUBIN", "nvrtcGetCUBINSize"];

#[test]
fn every_exported_function_has_one_row() {
    let mut rows = BTreeMap::<&str, usize>::new();
    entry_points().for_each(|(row, _)| *rows.entry(row.name).or_default() += 1);
    let twice: Vec<_> = rows.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let mut exported = exported_names();
    for name in OF_OTHER_LIBRARIES {
        assert!(exported.remove(name), "{name} is not exported");
    }
    // `blas.rs`, `blas_lt.rs`, `fft.rs`, `sparse.rs` and `rand.rs` of `tests/exec` call those that are served.
    for LibraryFunction { name, .. } in library_functions() {
        assert!(exported.remove(name), "{name} is not exported, or is there twice");
    }
    assert!(exported.len() > 1000, "{}", exported.len());
    let without: Vec<_> = exported.iter().filter(|name| !rows.contains_key(name.as_str())).collect();
    assert!(without.is_empty(), "exported functions without a row in the table: {without:?}");
    let missing: Vec<_> = rows.keys().filter(|name| !exported.contains(**name)).collect();
    assert!(missing.is_empty(), "rows of functions that are not exported: {missing:?}");
}

#[test]
fn forms_of_a_function_have_their_versions() {
    let mut forms = BTreeMap::<&str, Vec<&EntryPoint>>::new();
    for (row, _) in
        entry_points().filter(|(row, _)| row.is_served && row.since > 0 && !row.name.contains("_pt"))
    {
        forms.entry(row.plain_name()).or_default().push(row);
    }
    for (name, mut rows) in forms {
        rows.sort_by_key(|row| row.since);
        assert!(rows.is_sorted_by(|a, b| a.since < b.since && a.name < b.name), "{name}: {rows:?}");
    }
    for (row, _) in entry_points().filter(|(row, _)| row.is_served && row.name.starts_with("cu")) {
        // Only the driver's functions are found by version.
        let is_driver = !row.name.starts_with("cuda");
        assert_eq!(row.since > 0, is_driver, "{}", row.name);
    }
}

#[test]
fn what_a_refusal_recommends_is_served() {
    let served: BTreeSet<&str> =
        entry_points().filter(|(row, _)| row.is_served).map(|(row, _)| row.name).collect();
    let is_function = |word: &&str| {
        let rest = word.strip_prefix("cuda").or_else(|| word.strip_prefix("cu")).unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_uppercase()) && !word.starts_with("cudaDevAttr")
    };
    // A call by a plain name leads to the newest form.
    let is_served = |name: &str| {
        served.contains(name) || served.iter().any(|known| known.starts_with(&format!("{name}_v")))
    };
    for (row, _) in entry_points().filter(|(row, _)| !row.is_served) {
        let cause = sm121probe_cuda::cause(row.name);
        let cause = cause.unwrap_or_else(|| panic!("{} is refused without a cause", row.name));
        for name in cause.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_function) {
            assert!(is_served(name), "{}: {cause}", row.name);
        }
        if cause.ends_with("the form _v2") {
            let plain = row.plain_name();
            assert!(
                served.iter().any(|name| name.starts_with(&format!("{plain}_v"))),
                "{}: {cause}",
                row.name
            );
        }
    }
}

/// Runs a pass as a process of its own. If it ends by a signal, the last function that it has named is the one that crashed.
fn passes(program: &str) {
    let own = std::env::current_exe().unwrap();
    let output = Command::new(own).args(["--ignored", "--exact", "--nocapture", program]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find_map(|line| line.strip_prefix("calls ")).unwrap_or_default();
    let wrong: Vec<&str> = text.lines().filter(|line| line.starts_with("wrong: ")).collect();
    let end: Vec<&str> = text.lines().rev().take(5).collect();
    assert!(
        output.status.success(),
        "{program} ended with {} in {last}:\n{}\n{end:?}",
        output.status,
        wrong.join("\n")
    );
}

#[test]
fn no_function_of_the_driver_works_before_initialisation() {
    passes("pass_before_initialisation");
}

#[test]
fn functions_that_need_a_context_say_so() {
    passes("pass_without_a_context");
}

#[test]
fn zeros_are_answered_as_rows_say() {
    passes("pass_with_zeros");
}

#[test]
fn valid_arguments_are_answered_as_rows_say() {
    passes("pass_with_valid_arguments");
}

#[test]
fn no_function_writes_through_a_null_pointer() {
    passes("pass_with_null_results");
}

#[test]
fn no_function_takes_what_is_no_handle() {
    passes("pass_with_wrong_handles");
}

/// Calls functions and compares their statuses with what is expected.
#[derive(Default)]
struct Pass {
    calls: usize,
    wrong: usize,
}

impl Pass {
    fn call(&mut self, row: &EntryPoint, call: Call, words: &[u64], wanted: Status) {
        self.call_any(row, call, words, &format!("not {}", wanted.0), |status| status == wanted);
    }

    fn call_any(
        &mut self,
        row: &EntryPoint,
        call: Call,
        words: &[u64],
        wanted: &str,
        is_right: impl Fn(Status) -> bool,
    ) {
        eprintln!("calls {}", row.name);
        // SAFETY: the words are zeros, or valid arguments.
        let status = Status(unsafe { call(words) });
        self.calls += 1;
        if !is_right(status) {
            self.wrong += 1;
            eprintln!("wrong: {} returns {}, {wanted}", row.name, status.0);
        }
    }

    fn end(self) {
        assert!(self.calls > 100, "{}", self.calls);
        assert_eq!(self.wrong, 0);
    }
}

fn is_driver(row: &EntryPoint) -> bool {
    matches!(row.needs, Needs::Init | Needs::Current)
}

#[test]
#[ignore = "a program of its own"]
fn pass_before_initialisation() {
    let mut pass = Pass::default();
    for (row, call) in entry_points().filter(|(row, _)| is_driver(row)) {
        pass.call(row, call, &[], Status::NOT_INITIALIZED);
    }
    for (row, call) in entry_points().filter(|(row, _)| row.needs == Needs::Nothing && row.name != "cuInit") {
        pass.call(row, call, &[], row.zeros);
    }
    pass.end();
}

#[test]
#[ignore = "a program of its own"]
fn pass_without_a_context() {
    arguments::named("cuInit", &[]);
    let mut pass = Pass::default();
    for (row, call) in entry_points().filter(|(row, _)| is_driver(row)) {
        // A call that makes a context current must not help the next one. A destroyed context can be popped, so that a row cannot demand a
        // live one.
        let pops = row.plain_name() == "cuCtxPopCurrent";
        let needs_context = row.needs == Needs::Current || row.has_stream() || pops;
        let wanted = if needs_context { Status::INVALID_CONTEXT } else { row.zeros };
        // Several forms release the primary context, which is current nowhere.
        let mut context = 0u64;
        arguments::named("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, 0]);
        std::thread::scope(|scope| scope.spawn(|| pass.call(row, call, &[], wanted)).join().unwrap());
    }
    pass.end();
}

#[test]
#[ignore = "a program of its own"]
fn pass_with_zeros() {
    let mut pass = Pass::default();
    for (row, call) in entry_points() {
        arguments::enter();
        pass.call(row, call, &[], row.zeros);
    }
    pass.end();
}

#[test]
#[ignore = "a program of its own"]
fn pass_with_valid_arguments() {
    let mut pass = Pass::default();
    let mut scene = arguments::Scene::new();
    for (row, call) in entry_points() {
        arguments::enter();
        let words = scene.arguments(row);
        pass.call(row, call, &words, row.valid);
        scene.leave();
    }
    // No exported function is left out.
    assert_eq!(pass.calls, entry_points().count());
    pass.end();
}

#[test]
#[ignore = "a program of its own"]
fn pass_with_null_results() {
    let mut pass = Pass::default();
    let mut scene = arguments::Scene::new();
    for (row, call) in entry_points().filter(|(row, _)| row.is_served && row.valid == Status::SUCCESS) {
        for (n, parameter) in row.parameters.iter().enumerate().filter(|(_, p)| p.contains(": Out<")) {
            arguments::enter();
            let mut words = scene.arguments(row);
            words[arguments::first_word(row, n)] = 0;
            // Some results are optional.
            pass.call_any(row, call, &words, &format!("with a null `{parameter}`"), |status| {
                [Status::INVALID_VALUE, Status::SUCCESS].contains(&status)
            });
            scene.leave();
        }
    }
    pass.end();
}

#[test]
#[ignore = "a program of its own"]
fn pass_with_wrong_handles() {
    let mut pass = Pass::default();
    let mut scene = arguments::Scene::new();
    for (row, call) in entry_points().filter(|(row, _)| row.is_served && row.needs != Needs::Nothing) {
        for (n, parameter) in row.parameters.iter().enumerate().filter(|(_, p)| arguments::is_handle(p)) {
            arguments::enter();
            let mut words = scene.arguments(row);
            // Far from every handle and from every pointer of the program.
            words[arguments::first_word(row, n)] = 0x1357_9bdf_0000;
            pass.call_any(row, call, &words, &format!("with a wrong `{parameter}`"), |status| {
                status != Status::SUCCESS
            });
            scene.leave();
        }
    }
    pass.end();
}
