//! The command with bad input: an error that names file, line and remedy, or an outcome of the cell; never lost results.
//!
//! The assembler is a script whose behaviour is chosen by a word in the PTX, so no toolkit is needed.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Accepts everything, except where words in the text say otherwise. The last argument is the cubin.
const FAKE_PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 13.9, V13.9.1"; exit 0;;
--help) printf '%s\n' "--gpu-name <gpu name>  (-arch)" "        Allowed values for this option:  'sm_120','sm_121a','sm_121f'" "        Default value:  'sm_120'."; exit 0;;
esac
for last; do case "$last" in *.ptx) file="$last";; esac; done
echo run >> "$COUNT"
if grep -q 'version 99' "$file"; then echo "ptxas $file, line 1; fatal   : Unsupported .version 99.9; current version is '9.9'" >&2; exit 255; fi
grep -q HANG "$file" && sleep 600
grep -q CRASH "$file" && kill -SEGV $$
grep -q GARBAGE "$file" && { printf '\377\376 what is this\n' >&2; exit 3; }
grep -q NOTHING "$file" && exit 0
bad=$(grep -n BAD "$file" | cut -d: -f1)
for n in $bad; do echo "ptxas $file, line $n; error   : Feature 'BAD' not supported on .target 'sm_121a'" >&2; done
fatal=$(grep -n SYNTAX "$file" | head -1 | cut -d: -f1)
[ -n "$fatal" ] && echo "ptxas $file, line $fatal; fatal   : Parsing error near 'SYNTAX': syntax error" >&2
[ -n "$bad$fatal" ] && { echo "ptxas fatal   : Ptx assembly aborted due to errors" >&2; exit 255; }
echo code > "$last"
"#;

struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { dir: TempDir::new().unwrap() };
        fs::create_dir(desk.path("snippets")).unwrap();
        desk.script("ptxas", FAKE_PTXAS);
        fs::write(desk.path("count"), "").unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn snippet(&self, name: &str, text: &str) {
        fs::write(self.path("snippets").join(format!("{name}.ptx")), text).unwrap();
    }

    /// A minimal kernel that contains `word`.
    fn kernel(&self, name: &str, word: &str) {
        self.snippet(
            name,
            &format!(
                ".version 9.5\n.target sm_121a\n.address_size 64\n.visible .entry k()\n{{\n{word}\nret;\n}}\n"
            ),
        );
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("SM121PROBE_CACHE", self.path("cache"))
            .env("COUNT", self.path("count"))
            .env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    /// Runs `matrix` on the snippets of this folder with the fake assembler for sm_121a; returns the CSV.
    fn matrix(&self, more: &[&str]) -> Output {
        let (ptxas, snippets) = (self.path("ptxas"), self.path("snippets"));
        let mut args = vec!["matrix", "--offline", "--format", "csv", "-t", "sm_121a", "--time-limit", "1"];
        args.extend(["-k", ptxas.to_str().unwrap(), "--snippets", snippets.to_str().unwrap()]);
        args.extend(more);
        self.run(&args)
    }

    fn processes(&self) -> usize {
        fs::read_to_string(self.path("count")).unwrap().lines().count()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    // miette wraps lines; errors are compared without its frame.
    let text = String::from_utf8_lossy(&output.stderr).replace("│", " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `id outcome` of every CSV row, with its message.
fn outcomes(output: &Output) -> Vec<(String, String, String)> {
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    reader
        .records()
        .map(|r| r.unwrap())
        .map(|r| (r[0].to_owned(), r[4].to_owned(), r[7].to_owned()))
        .collect()
}

fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

const HEADER: &str = "//@ about: A.\n//@ spec: B\n//@ grants: [c]\n";

#[test]
fn a_bad_file_is_named_with_its_line_and_the_rest_is_judged() {
    let huge = "x".repeat(50 << 20);
    let cases: Vec<(&str, Vec<u8>, Vec<&str>)> = vec![
        ("unknown_axis", format!("{HEADER}add ${{zz}};\n").into(), vec!["unknown_axis.ptx:4", "unknown placeholder `${zz}`"]),
        ("unused_axis", format!("{HEADER}//@ axes:\n//@   ty: [u32]\nret;\n").into(), vec!["unused_axis.ptx:5", "`ty` is not used", "${ty}"]),
        ("yaml", "//@ about: [\n//@ spec: B\nret;\n".into(), vec!["yaml.ptx:"]),
        ("unknown_key", format!("{HEADER}//@ colour: red\nret;\n").into(), vec!["unknown_key.ptx:4", "colour"]),
        ("todo", "//@ about: TODO\n//@ spec: B\n//@ grants: [c]\nret;\n".into(), vec!["todo.ptx:1", "not filled in"]),
        ("bad_target", format!("{HEADER}//@ claims:\n//@   - {{source: s, expect: accepted, targets: [sm_999z]}}\nret;\n").into(), vec!["bad_target.ptx:5", "sm_999z"]),
        ("not_utf8", b"ret;\n\xff\xfe\n".to_vec(), vec!["not_utf8.ptx:2", "UTF-8"]),
        ("huge", huge.into_bytes(), vec!["huge.ptx", "50 MB", "cut the kernel down"]),
        ("isa_in_body", format!("{HEADER}.version 9.5\n.target sm_121a\n.entry k() {{ // ${{target}}\n}}\n").into(), vec!["isa_in_body.ptx:4", "only in .version"]),
        ("values", format!("{HEADER}//@ axes:\n//@   ty: [a.b]\n${{ty}}\n").into(), vec!["values.ptx:5", "`a.b`"]),
        ("when", format!("{HEADER}//@ axes:\n//@   ty: [u32]\n//@ claims:\n//@   - {{source: s, expect: accepted, targets: [sm_121a], when: {{ty: s8}}}}\n${{ty}}\n").into(), vec!["when.ptx:6", "`s8`"]),
    ];
    for (name, text, words) in cases {
        let desk = Desk::new();
        desk.kernel("good", "");
        fs::write(desk.path("snippets").join(format!("{name}.ptx")), text).unwrap();
        let output = desk.matrix(&[]);
        assert_fails(&output, 2, &words);
        let rows = outcomes(&output);
        assert!(
            rows.iter().any(|(id, outcome, _)| id == "good" && outcome == "accepted"),
            "{name}: {rows:?}"
        );
    }
}

#[test]
fn two_files_with_one_id_lose_only_the_second() {
    let desk = Desk::new();
    for folder in ["a", "b"] {
        fs::create_dir(desk.path("snippets").join(folder)).unwrap();
        desk.snippet(&format!("{folder}/same"), &format!("{HEADER}ret;\n"));
    }
    let output = desk.matrix(&[]);
    assert_fails(&output, 2, &["b/same.ptx", "a/same.ptx", "`same`", "rename"]);
    assert_eq!(outcomes(&output).len(), 1);
}

#[test]
fn nothing_to_ask_is_exit_code_4() {
    let desk = Desk::new();
    assert_fails(&desk.matrix(&[]), 4, &["no .ptx file", "new snippet"]);
    desk.kernel("good", "");
    assert_fails(&desk.matrix(&["--filter", "zz*"]), 4, &["no variant matches"]);
}

#[test]
fn mistakes_in_the_call_are_exit_code_2() {
    let desk = Desk::new();
    desk.kernel("good", "");
    assert_fails(&desk.matrix(&["-t", "sm_999z"]), 2, &["unknown target `sm_999z`", "sm_121a"]);
    assert_fails(&desk.run(&["matrix", "--format", "xml"]), 2, &["xml"]);
    assert_fails(&desk.run(&["matrix", "--time-limit", "0"]), 2, &["above 0"]);
    assert_fails(&desk.run(&["report", "--from", "/nonexistent.json"]), 2, &["/nonexistent.json"]);
    let folder = desk.path("nowhere");
    assert_fails(
        &desk.run(&["matrix", "--snippets", folder.to_str().unwrap(), "--list"]),
        2,
        &["nowhere", "folder"],
    );
}

#[test]
fn a_toolkit_that_is_not_there_is_exit_code_120() {
    let desk = Desk::new();
    desk.kernel("good", "");
    let snippets = desk.path("snippets");
    let with = |args: &[&str]| {
        let mut all = vec!["matrix", "--snippets", snippets.to_str().unwrap(), "--offline"];
        all.extend(args);
        desk.run(&all)
    };
    assert_fails(&with(&[]), 120, &["--offline", "toolkit install latest 12.9", "CUDA_HOME"]);
    assert_fails(&with(&["-k", "99.1"]), 120, &["toolkit"]);
    assert_fails(&with(&["-k", "/nonexistent/ptxas"]), 120, &["/nonexistent/ptxas"]);
}

#[test]
fn a_ptxas_that_is_none_is_refused_with_the_reason() {
    for (name, text) in [
        ("not_one", "#!/bin/sh\necho hello\n"),
        ("garbage", "#!/bin/sh\nhead -c 3000 /dev/urandom\nexit 3\n"),
        ("killed", "#!/bin/sh\nkill -KILL $$\n"),
        ("dies", "#!/bin/sh\nexit 1\n"),
        ("no_program", "\x7fELF nonsense"),
    ] {
        let desk = Desk::new();
        desk.kernel("good", "");
        desk.script("ptxas", text);
        assert_fails(&desk.matrix(&[]), 120, &["ptxas"]);
        println!("{name}: {}", stderr(&desk.matrix(&[])));
    }
}

#[test]
fn crashes_hangs_and_garbage_are_outcomes_of_their_cells_alone() {
    let desk = Desk::new();
    for (name, word) in [
        ("a_good", ""),
        ("b_crash", "CRASH"),
        ("c_good", ""),
        ("d_hang", "HANG"),
        ("e_garbage", "GARBAGE"),
        ("f_bad", "BAD"),
        ("g_syntax", "SYNTAX"),
        ("h_bad", "BAD"),
        ("i_nothing", "NOTHING"),
        ("j_good", ""),
    ] {
        desk.kernel(name, word);
    }
    let want = |rows: &[(String, String, String)]| {
        let of = |id: &str| rows.iter().find(|r| r.0 == id).map(|r| (r.1.clone(), r.2.clone())).unwrap();
        for good in ["a_good", "c_good", "j_good"] {
            assert_eq!(of(good).0, "accepted", "{rows:#?}");
        }
        assert_eq!((of("b_crash").0.as_str(), of("d_hang").0.as_str()), ("crashed", "timed_out"));
        assert!(of("b_crash").1.contains("signal 11") && of("d_hang").1.contains("did not end within"));
        assert_eq!((of("e_garbage").0.as_str(), of("i_nothing").0.as_str()), ("crashed", "crashed"));
        assert!(of("e_garbage").1.contains("status 3") && of("i_nothing").1.contains("no cubin"));
        for bad in ["f_bad", "h_bad"] {
            assert_eq!(
                of(bad),
                ("rejected".into(), "line 6: Feature 'BAD' not supported on .target 'sm_121a'".into())
            );
        }
        assert_eq!(
            of("g_syntax"),
            ("rejected".into(), "line 6: Parsing error near 'SYNTAX': syntax error".into())
        );
        assert_eq!(of("f_bad@as-written").0, "rejected");
    };
    let batched = desk.matrix(&[]);
    // A time limit leaves cells open.
    assert_eq!(batched.status.code(), Some(4), "{}", stderr(&batched));
    assert!(stderr(&batched).contains("INCOMPLETE: ptxas exceeded the time limit on 2 cells"));
    want(&outcomes(&batched));
    let isolated = desk.matrix(&["--isolated"]);
    want(&outcomes(&isolated));
    assert_eq!(stdout(&batched), stdout(&isolated));
}

#[test]
fn a_second_run_starts_no_process_and_a_new_file_asks_only_itself() {
    let desk = Desk::new();
    desk.kernel("a", "");
    desk.kernel("b", "BAD");
    let first = desk.matrix(&["--no-sass"]);
    let after_first = desk.processes();
    assert!(after_first > 0);
    let second = desk.matrix(&["--no-sass", "--figures"]);
    assert!(stderr(&second).contains("4 cells, 4 from the cache, 0 processes"), "{}", stderr(&second));
    assert_eq!((stdout(&first), after_first), (stdout(&second), desk.processes()));
    desk.kernel("c", "// another text");
    let third = desk.matrix(&["--no-sass", "--figures"]);
    assert!(stderr(&third).contains("6 cells, 4 from the cache"), "{}", stderr(&third));
}

#[test]
fn damaged_cache_entries_are_asked_again() {
    let desk = Desk::new();
    desk.kernel("a", "BAD");
    let first = desk.matrix(&["--no-sass"]);
    let entries = desk.path("cache").join("entries");
    let mut damaged = 0;
    for kind in fs::read_dir(entries).unwrap() {
        for file in fs::read_dir(kind.unwrap().path()).unwrap() {
            fs::write(file.unwrap().path(), "sm121probe-entry-1 nonsense\n{}").unwrap();
            damaged += 1;
        }
    }
    assert!(damaged >= 2);
    let second = desk.matrix(&["--no-sass"]);
    assert_eq!((stdout(&first), second.status.code()), (stdout(&second), Some(0)));
}

#[test]
fn a_cache_that_cannot_be_written_costs_the_cache_alone() {
    let desk = Desk::new();
    desk.kernel("a", "");
    let good = desk.matrix(&["--no-sass"]);
    let (ptxas, snippets) = (desk.path("ptxas"), desk.path("snippets"));
    let with = |name: &str, value: &Path| {
        let mut command = desk.command();
        command.args(["matrix", "--offline", "--format", "csv", "-t", "sm_121a", "--no-sass"]);
        command.args(["-k", ptxas.to_str().unwrap(), "--snippets", snippets.to_str().unwrap()]);
        command.env("SM121PROBE_CACHE", desk.path("cache2")).env(name, value).output().unwrap()
    };
    // Root can write to read-only folders, so the failure is injected.
    let broken = with("SM121PROBE_TEST_BROKEN_STORE", Path::new("1"));
    assert_eq!(stdout(&broken), stdout(&good), "{}", stderr(&broken));
    assert!(stderr(&broken).contains("SM121PROBE_CACHE"), "{}", stderr(&broken));
    // A file in place of the folder.
    let blocked = with("SM121PROBE_CACHE", &ptxas.join("below"));
    assert_eq!(stdout(&blocked), stdout(&good), "{}", stderr(&blocked));
    assert!(stderr(&blocked).contains("SM121PROBE_CACHE"), "{}", stderr(&blocked));
}

#[test]
fn without_a_gpu_the_whole_job_says_why() {
    let desk = Desk::new();
    let ptxas = desk.path("ptxas");
    let run = |more: &[&str]| {
        let args =
            ["--offline", "-t", "sm_121a", "--no-sass", "--report", "md", "-k", ptxas.to_str().unwrap()];
        // A GPU of this machine is hidden.
        desk.command().env("CUDA_VISIBLE_DEVICES", "").args(args).args(more).output().unwrap()
    };
    for (more, words) in [
        (&[] as &[&str], "## GPU\n\n**skipped.** no GPU: "),
        (&["--device", "none"], "## GPU\n\n**skipped.** no GPU: --device none"),
    ] {
        let text = stdout(&run(more));
        assert!(text.contains(words), "{text:.3000}");
    }
    // A device named explicitly must exist.
    assert_fails(&run(&["--device", "gpu:0"]), 121, &["gpu:0 cannot be used"]);
    assert_fails(&run(&["--device", "tpu"]), 2, &["`tpu` is not a GPU; write auto, none, or gpu:0"]);
    // A selection of variants runs nothing else.
    let some = stdout(&run(&["--filter", "target.*"]));
    assert!(some.contains("target.") && !some.contains("## GPU"), "{some:.3000}");
}

#[test]
fn doctor_says_what_a_python_would_import_and_where_kernels_are_kept() {
    let desk = Desk::new();
    let site = desk.path("site");
    fs::create_dir_all(site.join("vllm")).unwrap();
    fs::write(site.join("vllm/__init__.py"), "raise SystemExit('imported')").unwrap();
    fs::create_dir_all(site.join("vllm-0.9.1.dist-info")).unwrap();
    fs::write(
        site.join("vllm-0.9.1.dist-info/METADATA"),
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.9.1\n",
    )
    .unwrap();
    fs::create_dir_all(desk.path(".triton/cache/a")).unwrap();
    fs::write(desk.path(".triton/cache/a/k.cubin"), [0; 9]).unwrap();
    let run = |python: &str| {
        let mut command = desk.command();
        command.env("CUDA_VISIBLE_DEVICES", "").env("PYTHONPATH", &site).env("SM121PROBE_PYTHON", python);
        command.arg("doctor").output().unwrap()
    };
    let output = run("python3");
    let text = stdout(&output);
    assert!(output.status.success() && !stderr(&output).contains("imported"), "{}", stderr(&output));
    for words in [
        format!("  vllm 0.9.1: {}", site.join("vllm/__init__.py").display()),
        format!("kernels of Triton: {}: 1 files, 0 MiB", desk.path(".triton/cache").display()),
        format!("kernels of FlashInfer: {}: not there", desk.path(".cache/flashinfer").display()),
        "no GPU: ".to_owned(),
    ] {
        assert!(text.contains(&words), "{words}\n{text}");
    }
    let output = run("/no/such/python");
    assert!(
        output.status.success() && stdout(&output).contains("Python: cannot start Python at /no/such/python")
    );
}

/// Runs `.ci/gpu-report` with a substitute for the tool, which answers as on a machine with a GPU.
#[test]
fn the_evidence_of_a_gpu_is_one_command() {
    const PROBE: &str = r#"#!/bin/sh
echo "$@" >> "$COUNT"
[ "$1" = "$FAILS" ] && code=${CODE:-100} || code=0
[ "$1 $code" = "run 121" ] && exit 121
[ "$1" = run ] && printf '[\n  {\n    "target": "sm_121a"\n  }\n]\n'
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo made > "$2"; shift; done
exit $code
"#;
    let desk = Desk::new();
    desk.script("probe", PROBE);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/gpu-report");
    let run = |fails: &str, code: &str, more: &[&str]| {
        fs::write(desk.path("count"), "").unwrap();
        let mut command = Command::new("bash");
        command
            .arg(&script)
            .args(more)
            .env("SM121PROBE", desk.path("probe"))
            .env("COUNT", desk.path("count"));
        let output = command.env("FAILS", fails).env("CODE", code).output().unwrap();
        (output, fs::read_to_string(desk.path("count")).unwrap())
    };
    let folder = desk.path("evidence");
    let into = folder.to_str().unwrap();
    let (output, calls) = run("", "0", &[into, "--offline"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let files = [
        "bench.csv",
        "bench.json",
        "bench.md",
        "bench.svg",
        "decode.md",
        "report.md",
        "run.json",
        "selftest.csv",
    ];
    let mut found: Vec<_> = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, files);
    // The job runs for the GPU's own target, with the given options.
    assert!(calls.contains("--device gpu:0 --target sm_121a --offline --report json"), "{calls}");
    assert!(calls.contains("bench --device gpu:0 --routing balanced"), "{calls}");
    assert!(calls.contains("selftest --device gpu:0 --cases 8192"), "{calls}");
    // What does not conform is recorded and reported.
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(run("selftest", "100", &[into]).0.status.code(), Some(100));
    assert!(folder.join("selftest.csv").is_file());
    // Without a GPU, and after any other failure, nothing is written.
    fs::remove_dir_all(&folder).unwrap();
    for (verb, code) in [("run", 121), ("bench", 1)] {
        assert_eq!(run(verb, &code.to_string(), &[into]).0.status.code(), Some(code));
        assert!(!folder.exists());
    }
    assert_eq!(run("", "0", &[]).0.status.code(), Some(2));
}

#[test]
fn a_report_is_written_whole_or_not_at_all() {
    let desk = Desk::new();
    desk.kernel("a", "");
    let file = desk.path("run.json");
    let args = ["--no-sass", "--format", "json", "-o", file.to_str().unwrap()];
    // clap refuses a second --format, so this is a separate call.
    let (ptxas, snippets) = (desk.path("ptxas"), desk.path("snippets"));
    let mut call = vec![
        "matrix",
        "--offline",
        "-t",
        "sm_121a",
        "-k",
        ptxas.to_str().unwrap(),
        "--snippets",
        snippets.to_str().unwrap(),
    ];
    call.extend(args);
    assert_eq!(desk.run(&call).status.code(), Some(0));
    let md = desk.run(&["report", "--from", file.to_str().unwrap(), "--report", "md"]);
    assert!(md.status.success() && stdout(&md).contains("sm_121a"), "{}", stderr(&md));
    let table = |more: &[&str]| desk.run(&[&["report", "--from", file.to_str().unwrap()], more].concat());
    for (name, head) in
        [("cells", "variant,toolkit,"), ("runs", "variant,target,device,"), ("trials", "family,case,")]
    {
        let csv = stdout(&table(&["--report", "csv", "--table", name]));
        assert!(csv.starts_with(head), "{name}: {csv}");
    }
    assert_fails(&table(&["--report", "md", "--table", "runs"]), 2, &["--table is for --format csv"]);
    // A file that is replaced keeps its mode.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(desk.run(&call).status.code(), Some(0));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, "[{}]").unwrap();
    assert_fails(&desk.run(&["report", "--from", file.to_str().unwrap()]), 2, &["a list of rows"]);
    fs::write(&file, text.replace("\"schema\": 2", "\"schema\": 7")).unwrap();
    assert_fails(&desk.run(&["report", "--from", file.to_str().unwrap()]), 2, &["schema 7", "run.json"]);
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert_fails(&desk.run(&["report", "--from", file.to_str().unwrap()]), 2, &["run.json:", "not a record"]);
    call.truncate(call.len() - 1);
    let nowhere = desk.path("no/such/folder/x.json");
    call.push(nowhere.to_str().unwrap());
    assert_fails(&desk.run(&call), 2, &["cannot be written"]);
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let desk = Desk::new();
    desk.kernel("a", "");
    let link = desk.path("link.csv");
    fs::write(desk.path("file.csv"), "old").unwrap();
    std::os::unix::fs::symlink(desk.path("file.csv"), &link).unwrap();
    let pipe = desk.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    assert!(desk.matrix(&["-o", pipe.to_str().unwrap()]).status.success());
    assert!(reader.join().unwrap().starts_with("variant,toolkit,"));
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    assert!(desk.matrix(&["-o", link.to_str().unwrap()]).status.success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(desk.path("file.csv")).unwrap().starts_with("variant,toolkit,"));
}

#[test]
fn explain_looks_up_what_people_write() {
    let explain = |query: &str| {
        let program = Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(["explain", query]).output();
        let output = program.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{query}: {text}");
        text
    };
    let text = explain("cvt.rn.satfinite.e2m1x2.f32 %rs1, %f1, %f2;");
    assert!(text.contains("an instruction of PTX\n\ncvt.narrow.f32.e2m1x2\n"), "{text}");
    assert!(text.contains("\n  accepted  sm_120f sm_121a sm_121f, since 12.9\n"), "{text}");
    assert!(text.contains("\n  rejected  sm_120 sm_121\n"), "{text}");
    assert!(text.ends_with("sm121probe explain cvt.narrow.f32.e2m1x2\n"), "{text}");
    let text =
        explain("ptxas k.ptx, line 9; error   : Feature '.kind::mxf4' not supported on .target 'sm_121'");
    assert!(text.contains("\n  cause   ") && text.contains("\n  remedy  "), "{text}");
    assert!(text.contains(": a message of ptxas\n\nmma.") && !text.contains("refused"), "{text}");
    // What no sign speaks of has its cause from the record.
    let text = explain("Instruction 'cvt with .s2f6x2' not supported on .target 'sm_121f'");
    assert!(text.contains(": a message of ptxas\n  cause   SM12x has it"), "{text}");
    // What SM12x lacks leads to what it has instead.
    let text = explain("SM100_MMA_MXF4_SS");
    assert!(text.contains("another name of tcgen05.mma") && text.contains("\n  instead   "), "{text}");
    let text = explain("QMMA.16832.F32.E4M3.E4M3");
    assert!(text.contains("an opcode of machine code, to which these forms are compiled\n"), "{text}");
}

#[test]
fn what_leads_to_nothing_fetches_nothing() {
    let desk = Desk::new();
    for arguments in [
        &["explain", "worked in 3.3.0, broken since 3.3.1"][..],
        &["explain", "no.such.variant"],
        &["matrix", "--target", "sm_1x"],
        &["matrix", "--filter", "nothing_like_this"],
    ] {
        let out = desk.run(arguments);
        let said = stderr(&out);
        assert!(!out.status.success(), "{arguments:?}");
        assert!(!said.contains("etching") && !said.contains("has no toolkit"), "{arguments:?}: {said}");
    }
}

#[test]
fn explain_knows_near_ids() {
    let desk = Desk::new();
    desk.kernel("my_kernel", "BAD");
    let (ptxas, snippets) = (desk.path("ptxas"), desk.path("snippets"));
    let explain = |id: &str| {
        desk.run(&[
            "explain",
            id,
            "--offline",
            "-k",
            ptxas.to_str().unwrap(),
            "--snippets",
            snippets.to_str().unwrap(),
        ])
    };
    let good = explain("my_kernel");
    assert!(
        good.status.success() && stdout(&good).contains("Feature 'BAD' not supported"),
        "{}",
        stderr(&good)
    );
    assert_fails(&explain("my_kernal"), 2, &["my_kernal", "my_kernel"]);
}

#[test]
fn pip_that_is_missing_or_fails_is_said_with_the_remedy() {
    let desk = Desk::new();
    desk.script("python3", "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n");
    let with = |python: &Path| {
        desk.command().env("SM121PROBE_PYTHON", python).args(["toolkit", "install", "13.5"]).output().unwrap()
    };
    assert_fails(&with(&desk.path("python3")), 120, &["pip"]);
    desk.script(
        "python3",
        "#!/bin/sh\necho 'ERROR: Could not find a version that satisfies the requirement' >&2\nexit 1\n",
    );
    assert_fails(&with(&desk.path("python3")), 120, &["nvcc==13.5.37"]);
    assert_fails(&with(Path::new("/nonexistent/python3")), 120, &["cannot start Python"]);
    assert_fails(&desk.run(&["toolkit", "install", "99.9"]), 120, &["99.9", "13.5"]);
    assert_fails(&desk.run(&["toolkit", "remove", "13.5"]), 2, &["13.5"]);
}

#[test]
fn the_list_of_cases_has_every_form() {
    let desk = Desk::new();
    let list =
        |format: &str| stdout(&desk.run(&["moe", "--list", "--case", "tiny-exact", "--format", format]));
    assert!(list("text").starts_with("tiny-exact  "), "{}", list("text"));
    assert!(list("csv").starts_with("case,about\ntiny-exact,"), "{}", list("csv"));
    assert!(list("md").contains("|`tiny-exact`|"), "{}", list("md"));
    let json: serde_json::Value = serde_json::from_str(&list("json")).unwrap();
    assert_eq!(json[0]["case"], "tiny-exact");
}

#[test]
fn a_model_names_its_layer() {
    let desk = Desk::new();
    let list = |model: &str| desk.run(&["moe", "--list", "--layers-of", model]);
    assert!(stdout(&list("gpt-oss-20b")).starts_with("gpt-oss-20b-decode  "));
    assert_eq!(
        stdout(&list("glm-4.7-30b-a3b")),
        "glm-4.7-30b-a3b  One token through one layer of glm-4.7-30b-a3b.\n"
    );
    let unknown = list("gpt-oss-21b");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("qwen3.8-flash-next"));
    // A model whose layers no kernel here computes is known to `audit` alone.
    let attention = desk.run(&["attention", "--list", "--layers-of", "deepseek-v3"]);
    assert_eq!(attention.status.code(), Some(2));
}

#[test]
fn new_snippet_writes_a_stub_that_must_be_filled_in() {
    let desk = Desk::new();
    let folder = desk.path("snippets");
    let new = |name: &str| desk.run(&["new", "snippet", name, "--snippets", folder.to_str().unwrap()]);
    assert!(new("mma/mma.mine").status.success());
    assert_fails(&new("mma/mma.mine"), 2, &["already exists"]);
    assert_fails(&new("../../etc/x"), 2, &["snippet name"]);
    assert_fails(&desk.matrix(&[]), 4, &["mma.mine.ptx:1", "not filled in"]);
    let file = folder.join("mma/mma.mine.ptx");
    let filled = fs::read_to_string(&file).unwrap().replace("TODO ", "").replace("todo_", "");
    fs::write(&file, filled).unwrap();
    let rows = outcomes(&desk.matrix(&[]));
    assert_eq!(rows.iter().map(|r| r.0.as_str()).collect::<Vec<_>>(), ["mma.mine.s32", "mma.mine.u32"]);
}

#[test]
fn a_panic_is_exit_code_1() {
    let desk = Desk::new();
    let output = desk.command().env("SM121PROBE_TEST_PANIC", "1").args(["toolkit", "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let program = env!("CARGO_BIN_EXE_sm121probe");
    let output =
        Command::new("sh").args(["-c", &format!("{program} matrix --list | head -1")]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn messages_of_drivers_and_frameworks_are_explained() {
    let desk = Desk::new();
    for (message, remedy) in [
        ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "TRITON_PTXAS_PATH"),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "sm121probe audit",
        ),
        ("ptxas error: Instruction 'wgmma.fence' not supported on .target 'sm_120'", "TORCH_CUDA_ARCH_LIST"),
        ("Instruction ‘mma with block scale’ not supported on .target ‘sm_121’", "12.0f"),
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", "Reboot"),
        ("RuntimeError: No suitable kernel found for the given configuration", "In general"),
        ("-gencode arch=compute_20,code=sm_121", "TORCH_CUDA_ARCH_LIST"),
    ] {
        let output = desk.run(&["explain", message]);
        let said = stdout(&output);
        assert!(output.status.success() && said.contains("cause") && said.contains(remedy), "{said}");
    }
    // What only looks like a gate of GB10, or like a kernel of 10.x, is none.
    for harmless in [
        "Python 3.12.1 is not supported",
        "The installed CUDA version 12.1 is not supported",
        "Dual boot is disabled because it's not supported on this laptop",
    ] {
        let output = desk.run(&["explain", harmless]);
        let said = stdout(&output);
        let known = said.split(NEAR).next().unwrap_or_default();
        assert!(!known.contains("turned away") && !known.contains("a message of ptxas"), "{said}");
    }
    let output = desk.run(&["explain", "the model answers slowly today"]);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("nothing is known of"), "{said}");
}

/// What stands before messages that are only near.
const NEAR: &str = "nearest by its words to what is known; the cause may be another:";

#[test]
fn an_unknown_message_leads_to_those_near_it_and_stays_unknown() {
    let desk = Desk::new();
    let output =
        desk.run(&["explain", "the scheduler of NCCL ring buffers wedges while graphs replay on two nodes"]);
    let (said, error) = (stdout(&output), stderr(&output));
    assert!(said.starts_with(NEAR) && said.contains("  near    ") && !said.contains("  cause "), "{said}");
    assert_fails(&output, 2, &["nothing is known of"]);
    assert!(!error.contains("nearest"), "{error}");
    // One word is a name, and words of every report say nothing.
    for query in ["wedges", "an error of my new GPU", "it fails"] {
        let output = desk.run(&["explain", query]);
        assert!(
            stdout(&output).is_empty() && output.status.code() == Some(2),
            "{query}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn prose_keeps_to_the_width_of_a_terminal_and_is_one_line_in_a_pipe() {
    let desk = Desk::new();
    let message = "Error Internal no error";
    let explain = |columns: Option<&str>| {
        let mut command = desk.command();
        columns.into_iter().for_each(|columns| {
            command.env("COLUMNS", columns);
        });
        stdout(&command.args(["explain", message]).output().unwrap())
    };
    let (narrow, whole) = (explain(Some("80")), explain(None));
    let longest = narrow.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80) && narrow.lines().count() > whole.lines().count(), "{narrow}");
    assert!(
        whole.lines().skip(1).all(|line| ["  cause ", "  remedy", "  source"].contains(&&line[..8])),
        "{whole}"
    );
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&whole));
}

#[test]
fn text_is_ascii_where_the_locale_is() {
    let desk = Desk::new();
    let matrix = concat!(env!("CARGO_MANIFEST_DIR"), "/reports/matrix.json");
    let run = |locale: &str, args: &[&str]| desk.command().env("LC_ALL", locale).args(args).output().unwrap();
    let of_record = ["report", "--from", matrix];
    for args in [
        &of_record[..],
        &["explain", "cvt.rn.satfinite.e2m1x2.f32"],
        &["ops"],
        &["assumptions"],
        &["doctor", "--gpu", "gb10"],
        &["emulate", "nothing.ptx"],
    ] {
        let output = run("C", args);
        assert!(stdout(&output).is_ascii() && stderr(&output).is_ascii(), "{args:?}: {output:?}");
    }
    let table = stdout(&run("C.UTF-8", &["ops"]));
    assert!(!table.is_ascii(), "{table}");
    assert_eq!(stdout(&run("C", &["ops"])).chars().count(), table.chars().count());
    // A document for programs keeps its characters.
    assert!(stdout(&run("C", &["report", "--from", matrix, "--format", "md"])).contains('✓'));
}
