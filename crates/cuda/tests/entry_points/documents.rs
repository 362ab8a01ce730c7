//! What the documentation says of the exported functions, written from the table: `SNAPSHOTS=overwrite` writes it, and without it the
//! test compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sm121probe_cuda::{EntryPoint, Needs, cause, entry_points, library_functions};

/// The lines of `docs/exec.md` between which the summary is.
const BEGIN: &str = "<!-- written by crates/cuda/tests/entry_points -->";
const END: &str = "<!-- end -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A function and the other names of its forms for a default stream of each thread.
struct Row {
    row: &'static EntryPoint,
    also: Vec<&'static str>,
}

/// The functions of the headers by name; those with a leading underscore are this project's own.
fn rows() -> Vec<Row> {
    let all: BTreeMap<&str, &EntryPoint> =
        entry_points().map(|(row, _)| (row.name, row)).filter(|(name, _)| name.starts_with("cu")).collect();
    let plain = |name: &'static str| name.trim_end_matches("_ptsz").trim_end_matches("_ptds");
    let mut rows = Vec::<Row>::new();
    for (name, row) in &all {
        match rows.iter_mut().find(|known| plain(name) != *name && known.row.name == plain(name)) {
            Some(known) => known.also.push(&name[known.row.name.len()..]),
            None => rows.push(Row { row, also: Vec::new() }),
        }
    }
    rows
}

/// The files of `tests/exec` with programs that call each function by its name.
fn programs() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    for entry in std::fs::read_dir(root().join("tests/exec")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.starts_with("cu")) {
            all.entry(word.to_owned()).or_default().insert(file.clone());
        }
    }
    all
}

fn needs(row: &EntryPoint) -> &'static str {
    match row.needs {
        Needs::Nothing => "nothing",
        Needs::Init => "cuInit",
        Needs::Current => "a context",
        Needs::Runtime => "nothing",
        Needs::Primary => "makes one",
    }
}

/// The page with all functions.
fn page() -> String {
    let programs = programs();
    let mut text = "# The functions that `exec` exports\n\nWritten by `crates/cuda/tests/entry_points` from `crates/cuda/src/api`. Every \
                    function is called there before `cuInit`, without a context, with zeros, with null pointers, with numbers that are no \
                    handles, and with valid arguments. The last column names the files of `tests/exec` whose programs call it as well.\n\n\
                    | function | context | stream | since | served | programs |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for Row { row, also } in rows() {
        let also = also.iter().fold(String::new(), |all, suffix| all + ", `" + suffix + "`");
        let stream = if row.has_stream() { "yes" } else { "" };
        let since = match row.since {
            0 => String::new(),
            since => format!("{}.{}", since / 1000, since % 1000 / 10),
        };
        let served = if row.is_served { "yes" } else { "no" };
        let programs =
            programs.get(row.name).map(|files| files.iter().cloned().collect::<Vec<_>>().join(", "));
        let programs = programs.unwrap_or_default();
        _ = writeln!(
            text,
            "| `{}`{also} | {} | {stream} | {since} | {served} | {programs} |",
            row.name,
            needs(row)
        );
    }
    text + &library_chapter(
        "cuBLAS",
        "Programs of `tests/exec/blas.rs` and `tests/exec/blas_lt.rs` call every one that is served, and its form with sizes of 64 bits (`_64`), \
         and compare it with its definition.",
    ) + &library_chapter(
        "cuFFT",
        "A program of `tests/exec/fft.rs` calls every one that is served, and compares transforms with their definition.",
    ) + &library_chapter(
        "cuSPARSE",
        "A program of `tests/exec/sparse.rs` calls every one that is served, and compares results with their definition.",
    ) + &library_chapter(
        "cuRAND",
        "A program of `tests/exec/rand.rs` calls every one, and compares numbers with those of NVIDIA's generators on the host. What is not \
             listed is NVIDIA's own.",
    )
}

/// The chapter on a library of kernels. Names with sizes of 64 bits are those of 32 with `_64`.
fn library_chapter(library: &str, tests: &str) -> String {
    let names = |is_wanted: bool| {
        let of = library_functions().filter(|function| {
            function.library == library && function.is_served == is_wanted && !function.name.ends_with("_64")
        });
        of.map(|function| format!("`{}`", function.name)).collect::<Vec<_>>().join(", ")
    };
    let refused = names(false);
    let refused = if refused.is_empty() { refused } else { format!("| refused | {refused} |\n") };
    format!("\n## {library}\n\n{tests}\n\n| | |\n|---|---|\n| served | {} |\n{refused}", names(true))
}

/// The summary for `docs/exec.md`.
fn summary() -> String {
    let rows = rows();
    let count = |is_runtime: bool, is_served: bool| {
        let of =
            |row: &&Row| row.row.name.starts_with("cuda") == is_runtime && row.row.is_served == is_served;
        rows.iter().filter(of).count()
    };
    let mut text = format!(
        "| API | functions served | refused |\n|---|---|---|\n| driver | {} | {} |\n| runtime | {} | {} |\n\n\
         [reports/exec-functions.md](../reports/exec-functions.md) lists all of them. A refused function returns `CUDA_ERROR_NOT_SUPPORTED`; it is \
         named with its cause on standard error and in the report, and the run is incomplete:\n\n| refused | cause, and what works |\n|---|---|\n",
        count(false, true),
        count(false, false),
        count(true, true),
        count(true, false)
    );
    let mut causes = BTreeMap::<&str, Vec<&str>>::new();
    for Row { row, .. } in rows.iter().filter(|row| !row.row.is_served) {
        causes.entry(cause(row.name).unwrap_or_default()).or_default().push(row.name);
    }
    for (cause, names) in causes {
        let shown = names.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(3);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        _ = writeln!(text, "| {shown}{more} | {cause} |");
    }
    text
}

/// Writes a file, or compares it.
fn check(path: &str, wanted: &str) {
    let place = root().join(path);
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        std::fs::write(place, wanted).unwrap();
        return;
    }
    let held = std::fs::read_to_string(place).unwrap_or_default();
    assert!(
        held == wanted,
        "{path} is not what the table says; `SNAPSHOTS=overwrite` in the environment writes it"
    );
}

#[test]
fn the_documentation_is_that_of_the_table() {
    check("reports/exec-functions.md", &page());
    let text = std::fs::read_to_string(root().join("docs/exec.md")).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    check("docs/exec.md", &format!("{before}{BEGIN}\n\n{}\n{END}{after}", summary()));
}

#[test]
fn every_refusal_has_a_cause_and_a_remedy() {
    let refused = entry_points().filter(|(row, _)| !row.is_served);
    let without: Vec<&str> = refused.map(|(row, _)| row.name).filter(|name| cause(name).is_none()).collect();
    assert!(without.is_empty(), "{without:?}");
}
