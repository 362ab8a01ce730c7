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
#[expect(clippy::too_many_lines, reason = "a list of messages")]
fn messages_of_drivers_and_frameworks_are_explained() {
    let desk = Desk::new();
    for (message, remedy) in [
        ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "TRITON_PTXAS_PATH"),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "sm121probe audit",
        ),
        ("'sm_120' is not a recognized processor for this target (ignoring processor)", "later Triton"),
        (
            "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
            "CUDA 12.8 or later",
        ),
        ("nvcc fatal : Unsupported gpu architecture 'compute_120a'", "CMAKE_CUDA_COMPILER"),
        ("No supported CUDA architectures found for major versions [12].", "CUDA_HOME"),
        (
            "OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376.",
            "smaller tiles",
        ),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "Update the driver"),
        (
            "ERROR : Arch conditional MMA instruction used without targeting appropriate compute capability. Aborting.",
            "compute_120f",
        ),
        (
            "Error in function 'TllmGenFmhaRunner' at fmhaRunner.cuh:30: Unsupported architecture",
            "another backend",
        ),
        ("AssertionError: Only SM 10.x and 11.x are supported", "another backend"),
        (
            "OpError: expects arch to be one of [Arch.sm_100a, Arch.sm_100f], but got Arch.sm_121a",
            "another backend",
        ),
        ("OpError: expects arch to be one of ['sm_120a'], but got Arch.sm_121a", "lint --gates"),
        ("This kernel only supports sm120.", "lint --gates"),
        (
            "Assertion error (/deepgemm/csrc/apis/hyperconnection.hpp:56): Unsupported architecture",
            "DeepGEMM",
        ),
        ("Assertion error (/x/csrc/utils/layout.hpp:76): Unknown recipe", "DeepGEMM"),
        ("Assertion failed: The attention sinks is only supported on SM90", "another backend"),
        (
            "No compiled get_cutlass_moe_mm_data: no cutlass_scaled_mm kernel for CUDA device capability: 120",
            "12.0f",
        ),
        ("ImportError: _C.abi3.so: undefined symbol: _Z20cutlass_moe_mm_sm100RN2at6TensorE", "10.0a"),
        (
            "[FP4 gemm Runner] Failed to run cutlass FP4 gemm on sm120. Error: Error Internal",
            "update FlashInfer",
        ),
        ("BackendSupportedError: gemm_fp8 does not support backend 'trtllm' with capability 120", "cutlass"),
        ("NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.", "Update vLLM"),
        ("cutlass_gemm_caller, x/cutlass_gemm_caller.cuh:61, Error Internal", "lint --gates"),
        ("requires device with capability <= (9, 0) but your GPU has capability (12, 0) (too new)", "0.0.33"),
        (
            "status != CUBLAS_STATUS_NOT_SUPPORTED. Unable to find suitable cuBLAS GEMM algorithm",
            "per tensor",
        ),
        ("MXFP8 (for all gemm layouts) is not supported on 12.0+ architectures yet.", "DelayedScaling"),
        ("x/row_cast_col_hadamard_transform_cast_fusion.cu:1200: invalid argument", "disable_rht"),
        ("cudnnGraphNotSupportedError: No execution plans support the graph.", "Update cuDNN"),
        ("FP4 Gemm not supported before Blackwell, nor GeForce Blackwell", "0.20"),
        ("Attention sinks are only supported for TRTLLM backend", "audit --layers-of"),
        ("None of the CUDA architectures in `TORCH_CUDA_ARCH_LIST` env variable (12.0) is supported", "12.0"),
        ("Configured CUDA binary not found at /x/libbitsandbytes_cuda129.so", "bitsandbytes"),
        ("cuda driver library init failure: 3", "nvidia_uvm"),
        ("msg=\"inference compute\" id=cpu library=cpu compute=\"\"", "Update ollama"),
        ("CUDA error: invalid argument, in function ggml_cuda_mul_mat_q at /src/mmq.cu:145", "driver"),
        ("Assertion `false && \"computeCapability not supported\"' failed.", "later Triton"),
        (
            "Minimum and Maximum cuda capability supported by this version of PyTorch is (8.0) - (12.0)",
            "Nothing",
        ),
        ("static assertion failed with \"Could not build a collective for given parameters.\"", "1x1x1"),
        ("pynvml.NVMLError_NotSupported: Not Supported", "mem_get_info"),
        ("unhandled cuda error, NCCL version 2.25.1", "nvidia-nccl"),
        ("[209] Call to cuLinkAddData results in CUDA_ERROR_NO_BINARY_FOR_GPU", "nvJitLink"),
        ("/x/cpy.cu:400: ggml_cuda_cpy: unsupported type combination (q4_K to f32)", "OLLAMA_KV_CACHE_TYPE"),
        (
            "RuntimeError: CUDA call failed: CUDA_ERROR_INVALID_VALUE (invalid argument)",
            "modular/modular#5859",
        ),
        ("RuntimeError: Invalid thread config: thread_m_blocks = 1, thread_k = -1", "--tensor-parallel-size"),
        ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "CUDA 12.9"),
        ("FA3 is only supported on devices with compute capability >= 8", "FlashAttention 2"),
        ("ptxas error: Instruction 'wgmma.fence' not supported on .target 'sm_120'", "TORCH_CUDA_ARCH_LIST"),
        (
            "out of resource: triton_per_fused Required: 131072 Hardware limit:101376 Reducing block sizes",
            "num_stages",
        ),
        ("FATAL: kernel `fmha_cutlassF_f32` is for sm80-sm100, but was built for sm121", "sdpa_kernel"),
        ("FlashInfer kernels unavailable for ModelOptNvFp4FusedMoE on current platform.", "--moe-backend"),
        ("Failed to launch the CUTLASS kernel. Last CUDA error is: no error", "fa2"),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "SDPA"),
        ("ValueError: attention_config.use_fp4_indexer_cache requires Blackwell", "fp8"),
        ("attention sinks not supported", "TRITON_ATTN"),
        (
            "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)",
            "page cache",
        ),
        ("ModuleNotFoundError: No module named 'triton_kernels.tensor'", "triton_kernels that vLLM brings"),
        ("tvm.error.InternalError: Check failed: (false) is false: Invalid activation type.", "relu2"),
        ("CUDA Exception: Illegal barrier arrive operation", "mbarrier"),
        ("Value 'compute_120' is not defined for option 'gpu-architecture'", "CUDA_HOME"),
        (r"C:\x\ggml-cuda\template-instances\../mmq.cuh:4135: fatal error", "driver"),
        ("RuntimeError: Got cutlass error: Error Internal at: 146", "fewer stages"),
        (
            "x/jit/handle.hpp:141): 200 (CUDA_ERROR_INVALID_IMAGE, device kernel image is invalid)",
            "VLLM_USE_DEEP_GEMM=0",
        ),
        ("Sparse Attention Forward Kernel is only supported on SM90a and SM100f", "43477"),
        ("RuntimeError: cuBLAS failed with status CUBLAS_STATUS_NOT_SUPPORTED", "float16"),
        ("The installed version of bitsandbytes was compiled without GPU support.", "0.45.3"),
        (
            "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
            "speed at most",
        ),
        ("x/jit/compiler.hpp:147): runtime != nullptr", "CCCL"),
        ("Failed to open: deep_gemm/impls/sm121_fp8_mqa_logits.cuh", "another image"),
        ("ImportError: libnvrtc.so.12: cannot open shared object file", "cu130"),
        ("smVerHex2Dig: Assertion major >= 0 && major < 10 failed.", "later TensorRT"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)", "Update the CUDA toolkit"),
        ("NCCL WARN Cuda failure 500 'named symbol not found'", "PyTorch 2.7"),
        ("ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856", "Update NCCL"),
        ("ncclCommInitAll(info.comms, info.device_count, dev_ids)", "without NCCL"),
        ("LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.tcgen05.wait.st", "another kernel"),
        (
            "TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0.",
            "NGC",
        ),
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", "Reboot"),
        ("NVRM: GSP-FMC reported an error while attempting to boot GSP", "PCIe"),
        ("NVRM: unexpected WPR2 already up, cannot proceed with booting GSP", "Reset the GPU"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_70'", "out of the list"),
        ("Failed: Cuda error custom_all_reduce.cuh:455 'invalid argument'", "--disable-custom-all-reduce"),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)", "libnccl2"),
        ("CUDA error: shared object initialization failed", "--no-mmap"),
        ("Please use \"fp4\" quantization for Blackwell GPUs", "svdq-fp4"),
        (
            "ptxas x.ptx, line 5; fatal   : Unsupported .version 8.7; current version is '8.4'",
            "TRITON_PTXAS_PATH",
        ),
        ("LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32", "later Triton"),
        ("UserWarning: Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.", "Nothing"),
        (
            "Found GPU0 X which is of compute capability (CC) 12.0. The following list shows the CCs this version",
            "sm121probe audit",
        ),
        (
            "CUDA error (_deps/repo-flash-attention-src/hopper/flash_fwd_launch_template.h:166): no kernel image",
            "backend flashinfer",
        ),
        ("Failed to get driver entry point 'cuDeviceGetUuid' (CUDA error 1)", "Update Warp"),
        ("LLVM ERROR: PTX version 8.5 does not support target 'sm_120'.", "built for sm_120"),
        ("CUDA error cudaErrorInvalidPtx:a PTX JIT compilation failed", "29711"),
        ("error getting memory info for device 0: Not Supported", "0.17.4"),
        ("vmmCreate failed: cuMemCreate: CUDA_ERROR_INVALID_DEVICE", "fault is in MAX"),
        ("ValueError: Unknown CUDA arch (10.1) or GPU not supported", "without 10.1"),
        ("NVRM: Xid (PCI:0000:c2:00): 8, pid=1, name=llama-server", "GGML_CUDA_DISABLE_GRAPHS"),
        ("error: Pipeline failed while executing [`TritonGPUAccelerateMatmul` on 'builtin.module']", "3.6.0"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "drop the page cache"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "compute-sanitizer"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS (716) at first sync batch", "compute-sanitizer"),
        ("CUDA error: an illegal instruction was encountered", "autotuner"),
        (
            "ImportError: _C.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1EPKciib",
            "--no-build-isolation",
        ),
        ("libcuda.so.1: undefined symbol: cuCtxCreate_v4", "LD_LIBRARY_PATH"),
        (
            "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
            "nightly builds",
        ),
        ("No module named 'sgl_kernel.infllm_ops'", "pyproject.toml"),
        ("ImportError: cannot import name 'LMCacheEngineMetadata' from 'lmcache.config'", "pip check"),
        ("ModuleNotFoundError: No module named 'xformers'", "SDPA"),
        ("ERROR: No matching distribution found for decord==0.6.0", "uname -m"),
        (
            "WARNING: image platform (linux/amd64) does not match the expected platform (linux/arm64)",
            "docker manifest",
        ),
        (
            "ImportError: libtorch_cuda.so: cannot open shared object file: No such file or directory",
            "cu130 index of PyTorch",
        ),
        (
            "Selected backend AttentionBackendEnum.FLASHINFER is not valid for this configuration.",
            "TRITON_ATTN",
        ),
        ("error: csrc/x.cuh: No such file or directory", "Dockerfile"),
        ("Waiting for creating a placement group of specs for 10 seconds.", "ray status"),
        ("RuntimeError: [SymmDeviceMemory] Device does not support multicasting.", "fuse_allreduce_rms"),
        ("AllReduce fusion pass is disabled: no multicast support", "it is a warning"),
        ("Kernel: cudnn_generated_fort_native_sm120_matMul_knob_3", "9.23.1"),
        ("DeepGEMM only supports Hopper (SM90) architectures, but current device is 120.", "block FP8"),
        ("Assertion error (kernel_runtime.hpp:45): exit_code == 0", "Turn DeepGEMM off"),
        ("DeepGEMM backend is not available or outdated.", "52035"),
        ("fatal error: curand_kernel.h: No such file or directory", "libcurand-dev"),
        ("identifier \"__nv_fp8_e8m0\" is undefined", "12.9 for GB10"),
        ("cuda_utils.c:14: error: include file 'Python.h' not found", "python3-dev"),
        ("RuntimeError: Failed to find C compiler. Please specify via CC", "build-essential"),
        (r"Command '['D:\\python_embeded\\triton\\runtime\\tcc\\tcc.exe', 'cuda_utils.c'", "python_embeded"),
        ("Worker failed with error 'Could not find nvcc'", "CUDA_HOME"),
        ("Killed", "MAX_JOBS"),
        ("ninja: build stopped: subcommand failed.", "doctor --log"),
        ("forward compatibility was attempted on non supported HW", "compat"),
        ("CUDA driver version is insufficient for CUDA runtime version", "580"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "--gpus all"),
        (
            "WARNING: Detected NVIDIA GB10 GPU, which is not yet supported in this version of the container",
            "later tag",
        ),
        ("docker: Error response from daemon: unknown or invalid runtime name: nvidia", "nvidia-ctk"),
        ("Failed to initialize NVML: Unknown Error", "Restart the container"),
        ("TRTLLMGenFusedMoE does not support SM120 and above.", "backend: CUTLASS"),
        ("in get_shuffle_matrix_sf_a_row_indices", "triton_kernel"),
        ("FP8 FMHA cannot be enabled except on Ada or Hopper or Blackwell Arch.", "0.20.0"),
        ("FMHA Kernel doesn't exist for mFixedParams:", "17911"),
        ("Could not find valid config when calculating workspace size", "5823"),
        ("Unexpected instruction types specified for '_mma'", "nvidia-cutlass-dsl-libs-cu13"),
        ("No supported CUDA architectures found for major versions [9, 10].", "all-reduce fusion"),
        ("Feature '.tile::scatter4' not supported on .target 'sm_121a'", "29339"),
        ("AssertionError: Unsupported compute capability. Supported: 9.x, 10.x, 11.x", "later flash-attn-4"),
        ("ValueError: --kv-cache-dtype nvfp4 requires sm100f", "fp8_e4m3"),
        ("Check failed: num_tokens > 64 (5 vs. 64)", "33986"),
        ("flashinfer top_k_page_table_transform failed: cudaErrorNotSupported", "--dsa-topk-backend"),
        ("top-K kernel launch failed: cudaErrorInvalidValue", "47164"),
        ("No implemented fp8_blockwise_scaled_grouped_mm for current compute capability: 120", "9403"),
        ("Int8 not supported on SM120. Use FP8 quantization instead.", "W4A16"),
        ("'NoneType' object has no attribute 'num_bits'", "ModelOpt"),
        ("FP4 cvt PTX instructions are architecture-specific.", "NVTE_CUDA_ARCHS"),
        ("Unsupported target for gemm: cuda -keys=cuda,gpu -arch=sm_120", "later TileLang"),
        (
            "Attempting to use SM89_16x8x32_F32E4M3E4M3F32_TN without CUTE_ARCH_MMA_F16_SM89_ENABLED",
            "NVCC_APPEND_FLAGS",
        ),
        ("Not building NVFP4 as no compatible archs were found.", "38126"),
        ("Could not match a profile in manifest", "list-model-profiles"),
        ("Your current GPU is not compatible with NIM functionality.", "later installer"),
        ("Not enough memory. Please try to increase --mem-fraction-static.", "--context-length"),
        (
            "To serve at least one request with the models's max seq len (32768), (1.75 GiB KV cache is needed",
            "--max-model-len",
        ),
        ("Tensor parallel size (2) cannot be larger than the number of available GPUs (1).", "ray status"),
        (
            "vLLM multi-node: --tensor-parallel-size 2 cannot divide worker[0] 1 GPUs",
            "--pipeline-parallel-size 2",
        ),
        ("error: argument --speculative-config/-sc: Value {{\"a\": 1}} cannot be converted to", "format v2"),
        (
            "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128.",
            "--enable-expert-parallel",
        ),
        ("No available shared memory broadcast block found in 60 seconds.", "At a first start wait"),
        ("AssertionError: auto_functionalized was not removed", "43477"),
        ("AmbiguousGlobalPerLayerAttributeError", "5.8.1"),
        ("but Transformers does not recognize this architecture.", "transformers 5"),
        ("wait_io: fix misalignment, src=0xe1e980000000, misaligned_bytes=8", "nogds"),
        ("SafetensorError: Error while deserializing header: invalid JSON in header", "sizes of the shards"),
        (
            "flashinfer-cubin version (0.6.13) does not match flashinfer version (0.6.16.post3).",
            "FLASHINFER_DISABLE_VERSION_CHECK",
        ),
        ("buffer = torch.empty(size, dtype=torch.uint8, pin_memory=True)", "LMCACHE_MAX_LOCAL_CPU_SIZE"),
        ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "kho=off"),
        ("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out (110)", "NCCL_IB_HCA"),
        (
            "NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            "NCCL_DMABUF_ENABLE",
        ),
        (
            "returned while running Mul node. Status Message: CUDA error cudaErrorNoKernelImageForDevice",
            "1.22.0",
        ),
        ("GPU device discovery failed: device_discovery.cc:89 ReadFileContents", "Nothing"),
        ("CUDA error cudaErrorSymbolNotFound:named symbol not found", "pykeio/ort"),
        ("CUDA error: an unsupported value or parameter was passed to the function", "--quantkv"),
        ("current device: 0, in function ggml_cuda_flash_attn_ext_mma_f16_case", "-fa off"),
        ("ggml_cuda_compute_forward: SCALE failed", "120f"),
        ("Error: llama runner process has terminated: exit status 0xc0000409", "server.log"),
        ("ggml-cuda/fattn.cu:110: fatal error", "draft model"),
        ("MXFP4 quantization requires `triton >= 3.4.0` and kernels installed", "pip install -U kernels"),
        ("RuntimeError: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "LD_DEBUG=libs"),
        ("Feature '.scale_vec::2X' not supported on .target 'sm_120'", "12.0f"),
        ("Instruction ‘mma with block scale’ not supported on .target ‘sm_121’", "12.0f"),
        ("Instruction 'redux.f32' not supported on .target 'sm_120a'", "Mojo"),
        (
            "ptxas x-6_sm90_q64n32.ptx, line 1; error   : Instruction 'tensormap.replace' not supported on .target 'sm_120'",
            "compute_90a",
        ),
        ("RuntimeError: ptxas failed with error code 4294967295", "Triton 3.3"),
        ("CUDA call failed: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)", "6049"),
        ("Program with .target 'sm_90a' cannot be compiled to future architecture", "jaxlib 0.6.2"),
        ("Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 12.0", "0.6.1"),
        ("CUDA_ERROR_INVALID_HANDLE", "first CUDA error"),
        ("RuntimeError: CUDA error: invalid argument", "--disable-pinned-memory"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_No CUDA devices found.'", "GGML_NATIVE"),
        ("Unknown CUDA Architecture Name 12.1(2.0) in CUDA_SELECT_NVCC_ARCH_FLAGS", "TORCH_CUDA_ARCH_LIST"),
        ("ValueError: Unknown CUDA arch (12.0) or GPU not supported", "PyTorch 2.7"),
        (
            "The detected CUDA version (13.0) mismatches the version that was used to compile PyTorch (12.8).",
            "torch.version.cuda",
        ),
        ("nvlink fatal   : Input file 'libcudadevrt.a:x.o' newer than toolkit (129 vs 120)", "CUDACXX"),
        (
            "Compiling the CUDA compiler identification source file \"CMakeCUDACompilerId.cu\" failed.",
            "CUDACXX",
        ),
        ("error: class \"cudaDeviceProp\" has no member \"memoryClockRate\"", "cudaDeviceGetAttribute"),
        ("mathcalls.h(206): error: exception specification is incompatible", "noexcept(true)"),
        ("error: identifier \"__assert_fail\" is undefined", "-include cassert"),
        ("error C2872: “std”: ambiguous symbol", "-DUSE_CUDA"),
        ("fatal error C1189: #error:  -- unsupported Microsoft Visual Studio version!", "vcvarsall"),
        ("Unsupported cuda toolkit version: `13.2`.", "0.19.8"),
        ("MapSMtoCores for SM 12.0 is undefined; default to use 64 cores/SM", "0xC0"),
        ("OPTIX_ERROR_UNSUPPORTED_ABI_VERSION", "8.1"),
        ("==ERROR== ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers"),
        ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "one of them"),
        (
            "NVRM: Xid (PCI:0000:01:00): 119, pid=1, Timeout after 45s of waiting for RPC response from GPU0 GSP!",
            "off and on",
        ),
        ("NVRM: Xid (PCI:0000:01:00): 109, errorString CTX SWITCH TIMEOUT", "570.153"),
        ("NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=python", "compute-sanitizer"),
        ("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed", "first Xid"),
        ("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)", "Resizable BAR"),
        ("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x40:2014)", "dmesg"),
        ("No devices were found", "Dual MIT/GPL"),
        ("NVRM: installed in this system requires use of the NVIDIA open kernel modules.", "nvidia-open"),
        ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "mokutil"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "dkms"),
        ("Failed to initialize NVML: Driver/library version mismatch", "Reboot"),
        ("CUDA error 46: all CUDA-capable devices are busy or unavailable", "nvidia-smi -c 0"),
        ("cudaErrorUnknown: unknown error", "wsl --update"),
        (
            "cudaErrorStreamCaptureUnsupported - operation not permitted when stream is capturing",
            "first error",
        ),
        ("cuInit() returns error 100 (`CUDA_ERROR_NO_DEVICE`)", "CUDA_VISIBLE_DEVICES"),
        (
            "code=205(cudaErrorMapBufferObjectFailed) \"cudaDeviceEnablePeerAccess(gpuid[1], 0)\"",
            "NCCL_P2P_DISABLE",
        ),
        ("CUDA error: too many resources requested for launch", "__launch_bounds__"),
        ("RuntimeError: CUDA driver error: device not ready", "TdrDelay"),
        ("Unable to determine the device handle for GPU0: GPU is lost. Reboot the system", "power supply"),
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
        assert!(!said.contains("turned away") && !said.contains("a message of ptxas"), "{said}");
    }
    let output = desk.run(&["explain", "the model answers slowly today"]);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("nothing is known of"), "{said}");
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
