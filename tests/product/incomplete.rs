//! The rule that nothing checked is never green: each command that checks nothing, or less than it was asked to, exits with 4 and says so
//! in its first line, in every format.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Exit code of a run that is incomplete.
const INCOMPLETE: i32 = 4;

/// An assembler of the version in its name that knows three targets; it hangs on the word HANG, and crashes on CRASH.
const FAKE_PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release VERSION"; exit 0;;
--help) printf '%s\n' "--gpu-name <gpu name>  (-arch)" "        Allowed values for this option:  TARGETS" "        Default value:  'sm_120'."; exit 0;;
esac
for last; do case "$last" in *.ptx) file="$last";; esac; done
if grep -q 'version 99' "$file"; then echo "ptxas $file, line 1; fatal   : Unsupported .version 99.9; current version is '9.9'" >&2; exit 255; fi
arch="${1#-arch=}"
case "TARGETS" in *"'$arch'"*) ;; *) echo "ptxas fatal   : Value '$arch' is not defined for option 'gpu-name'" >&2; exit 1;; esac
grep -q HANG "$file" && sleep 600
grep -q CRASH "$file" && kill -SEGV $$
echo code > "$last"
"#;

/// A folder with snippets and assemblers, in which the command runs.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { dir: TempDir::new().unwrap() };
        fs::create_dir(desk.path("snippets")).unwrap();
        fs::create_dir(desk.path("bin")).unwrap();
        for (name, word) in [("good", ""), ("other", "")] {
            desk.snippet(name, word);
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    fn snippet(&self, name: &str, word: &str) {
        let text = format!("//@ about: A.\n//@ spec: B\n//@ grants: [c]\n{word}\nret;\n");
        self.write(&format!("snippets/{name}.ptx"), &text);
    }

    /// Writes an assembler, `13.9.1` or so, and returns its path.
    fn ptxas(&self, version: &str, targets: &str) -> String {
        let (release, _) = version.rsplit_once('.').unwrap();
        let text =
            FAKE_PTXAS.replace("VERSION", &format!("{release}, V{version}")).replace("TARGETS", targets);
        fs::create_dir_all(self.path(version)).unwrap();
        let path = self.write(&format!("{version}/ptxas"), &text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn run_with(&self, environment: &[(&str, &str)], args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("SM121PROBE_CACHE", self.path("cache"))
            .envs(environment.iter().copied())
            .current_dir(self.dir.path())
            .args(args)
            .output()
            .unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_with(&[], args)
    }

    /// Runs `matrix` on the snippets with these assemblers and writes its record.
    fn matrix(&self, to: &str, assemblers: &[&str], more: &[&str]) -> Output {
        let mut args =
            vec!["matrix", "--offline", "--snippets", "snippets", "-t", "sm_121a", "--time-limit", "1"];
        args.extend(assemblers.iter().flat_map(|path| ["-k", path]));
        args.extend(["--format", "json", "-o", to]);
        args.extend(more);
        self.run(&args)
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both streams, with single spaces and without miette's frame.
fn both(output: &Output) -> String {
    let text = stdout(output) + &String::from_utf8_lossy(&output.stderr).replace('│', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The output of a run that is incomplete and begins with `first`.
fn incomplete(output: &Output, first: &str) -> String {
    let text = both(output);
    assert_eq!(output.status.code(), Some(INCOMPLETE), "{text}");
    assert!(stdout(output).starts_with(first), "no `{first}` first in: {text}");
    text
}

/// The output of a run that ends with an error that is incomplete.
fn nothing(output: &Output, words: &str) {
    let text = both(output);
    assert_eq!(output.status.code(), Some(INCOMPLETE), "{text}");
    assert!(text.contains("NOTHING CHECKED: ") && text.contains(words), "no `{words}` in: {text}");
}

const TARGETS: &str = "'sm_120','sm_121a','sm_121f'";

#[test]
fn a_missing_toolkit_of_the_baseline_is_incomplete_with_and_without_a_filter() {
    let desk = Desk::new();
    let (old, new) = (desk.ptxas("13.8.1", TARGETS), desk.ptxas("13.9.1", TARGETS));
    assert_eq!(desk.matrix("both.json", &[&old, &new], &[]).status.code(), Some(0));
    let only_new = desk.path("13.9.1").display().to_string();
    let path = format!("{only_new}:/usr/bin:/bin");
    let gate = |more: &[&str]| {
        let mut args = vec!["gate", "--baseline", "both.json", "--offline", "--snippets", "snippets"];
        args.extend(more);
        desk.run_with(&[("PATH", &path)], &args)
    };
    incomplete(&gate(&["-f", "good"]), "INCOMPLETE: not installed: 13.8.1; 1 cell was not compared\n");
    incomplete(&gate(&[]), "INCOMPLETE: not installed: 13.8.1; 2 cells were not compared\n");
    // What the command line leaves out was not asked for.
    let named = gate(&["-k", "13.9"]);
    assert_eq!(named.status.code(), Some(0), "{}", both(&named));
    assert!(stdout(&named).contains("excluded by the command line: toolkit 13.8.1"), "{}", both(&named));
    // In the machine-readable forms.
    let text = incomplete(
        &desk.run_with(
            &[("PATH", &path), ("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", "summary.md")],
            &[
                "gate",
                "--baseline",
                "both.json",
                "--offline",
                "--snippets",
                "snippets",
                "--sarif",
                "out.sarif",
                "--junit",
                "out.xml",
            ],
        ),
        "INCOMPLETE: ",
    );
    assert!(text.contains("::error title=sm121probe%3A toolkit 13.8.1::not installed: 13.8.1"), "{text}");
    let sarif: Value = serde_json::from_str(&fs::read_to_string(desk.path("out.sarif")).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "incomplete");
    let junit = fs::read_to_string(desk.path("out.xml")).unwrap();
    assert!(junit.contains("errors=\"1\"") && junit.contains("<error type=\"incomplete\""), "{junit}");
    assert!(fs::read_to_string(desk.path("summary.md")).unwrap().starts_with("### sm121probe: INCOMPLETE: "));
}

#[test]
fn a_run_that_has_nothing_in_common_with_its_baseline_checks_nothing() {
    let desk = Desk::new();
    let (old, new) = (desk.ptxas("13.8.1", TARGETS), desk.ptxas("13.9.1", TARGETS));
    assert_eq!(desk.matrix("old.json", &[&old], &[]).status.code(), Some(0));
    assert_eq!(desk.matrix("new.json", &[&new], &[]).status.code(), Some(0));
    let text = incomplete(
        &desk.run(&["gate", "--baseline", "new.json", "--offline", "--snippets", "snippets", "-k", &old]),
        "NOTHING CHECKED: ",
    );
    assert!(
        text.contains("the baseline has 2 variants with 13.9.1, the run 2 variants with 13.8.1"),
        "{text}"
    );
    // A later toolkit is compared with its predecessor in the baseline.
    let later =
        desk.run(&["gate", "--baseline", "old.json", "--offline", "--snippets", "snippets", "-k", &new]);
    assert_eq!(later.status.code(), Some(0), "{}", both(&later));
    assert!(stdout(&later).contains("2 cells"), "{}", both(&later));
    incomplete(
        &desk.run(&["diff", "new.json", "old.json"]),
        "NOTHING CHECKED: the records have no answer in common\n",
    );
    let json: Value =
        serde_json::from_str(&stdout(&desk.run(&["diff", "new.json", "old.json", "--format", "json"])))
            .unwrap();
    assert_eq!(json["incomplete"]["nothing_checked"], true);
    assert_eq!(desk.run(&["diff", "new.json", "new.json"]).status.code(), Some(0));
}

#[test]
fn a_baseline_keeps_its_filter() {
    let desk = Desk::new();
    let ptxas = desk.ptxas("13.9.1", TARGETS);
    assert_eq!(desk.matrix("run.json", &[&ptxas], &["-f", "good"]).status.code(), Some(0));
    let blessed = desk.run(&["gate", "--baseline", "baseline.json", "--bless", "--from", "run.json"]);
    assert_eq!(blessed.status.code(), Some(0), "{}", both(&blessed));
    let path = format!("{}:/usr/bin:/bin", desk.path("13.9.1").display());
    let again = desk.run_with(
        &[("PATH", &path)],
        &["gate", "--baseline", "baseline.json", "--offline", "--snippets", "snippets"],
    );
    assert_eq!(again.status.code(), Some(0), "{}", both(&again));
    // Neither notes about `other`, which was not selected, nor its cell.
    assert_eq!(stdout(&again), "conforms; 1 cell compared\n");
}

#[test]
fn a_matrix_without_an_answer_checks_nothing_and_one_with_a_gap_is_incomplete() {
    let desk = Desk::new();
    let ptxas = desk.ptxas("13.9.1", TARGETS);
    nothing(
        &desk.matrix("x.json", &[&ptxas], &["-f", "good", "-f", "mistyped*"]),
        "no variant matches `mistyped*`",
    );
    let other = desk.ptxas("12.0.1", "'sm_90'");
    let unknown = desk.matrix("unknown.json", &[&other], &[]);
    nothing(&unknown, "every cell is unknown to its toolkit");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(desk.path("unknown.json")).unwrap()).unwrap();
    assert_eq!(record["incomplete"]["nothing_checked"], true);
    incomplete(&desk.run(&["merge", "unknown.json", "--format", "text"]), "");
    desk.snippet("slow", "// HANG");
    let slow = desk.matrix("slow.json", &[&ptxas], &[]);
    assert_eq!(slow.status.code(), Some(INCOMPLETE), "{}", both(&slow));
    let text = stdout(&desk.run(&["report", "--from", "slow.json"]));
    assert!(text.starts_with("INCOMPLETE: ptxas exceeded the time limit on 1 cell\n"), "{text}");
    let junit = stdout(&desk.run(&["report", "--from", "slow.json", "--format", "junit"]));
    assert!(junit.contains("<error type=\"incomplete\""), "{junit}");
    let markdown = stdout(&desk.run(&["report", "--from", "slow.json", "--format", "md"]));
    assert!(markdown.contains("\n**INCOMPLETE: ptxas exceeded"), "{markdown}");
    // All answers are crashes: the assembler is broken.
    let desk = Desk::new();
    let ptxas = desk.ptxas("13.9.1", TARGETS);
    ["good", "other"].iter().for_each(|name| desk.snippet(name, "// CRASH"));
    nothing(&desk.matrix("x.json", &[&ptxas], &[]), "every cell is unknown to its toolkit");
}

#[test]
fn a_kernel_that_cannot_run_is_not_checked() {
    let desk = Desk::new();
    let ptx = ".version 8.8\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
        .reg .b32 r<4>; .reg .b64 t;\nld.param.u64 t, [p];\n\
        alloca.u64 t, 16;\nret;\n}\n";
    desk.write("k.ptx", ptx);
    let text = incomplete(
        &desk.run(&["emulate", "k.ptx", "--arg", "u64:0"]),
        "NOTHING CHECKED: 1 kernel could not run: line 8: ",
    );
    assert!(text.contains("a stack that grows is not emulated"), "{text}");
    let json: Value =
        serde_json::from_str(&stdout(&desk.run(&["emulate", "k.ptx", "--arg", "u64:0", "--format", "json"])))
            .unwrap();
    assert_eq!(json["incomplete"]["nothing_checked"], true);
}

#[test]
fn a_program_without_a_kernel_checks_nothing() {
    let desk = Desk::new();
    for (format, first) in
        [("text", "NOTHING CHECKED: the program did not use the simulated GPU"), ("md", "## Launches")]
    {
        let output = desk.run(&["exec", "--format", format, "-o", "report", "--", "true"]);
        assert_eq!(output.status.code(), Some(INCOMPLETE), "{}", both(&output));
        let report = fs::read_to_string(desk.path("report")).unwrap();
        assert!(report.starts_with(first) && report.contains("NOTHING CHECKED"), "{report}");
    }
    // The program's own failure is not hidden.
    assert_eq!(desk.run(&["exec", "--", "false"]).status.code(), Some(1));
}

#[test]
fn an_audit_that_could_not_read_everything_is_incomplete() {
    let desk = Desk::new();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    nothing(&desk.run(&["audit", root.join("cases").to_str().unwrap()]), "no GPU code found");
    desk.write("k.ptx", ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k() { ret; }\n");
    assert_eq!(desk.run(&["audit", "k.ptx"]).status.code(), Some(0));
    let text = incomplete(
        &desk.run(&["audit", "k.ptx", "--kernel", "k", "--kernel", "mistyped*"]),
        "INCOMPLETE: no kernel matches `mistyped*`\n",
    );
    assert!(text.contains("k.ptx"), "{text}");
}
