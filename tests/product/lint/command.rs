//! The command with an assembler whose answers are chosen by words in the PTX: exit codes, remedies, forms; a second run starts no process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Knows PTX 9.0 and three targets. `NEEDS_F` needs the suffix, `NEEDS_9` needs PTX 9.0, `BAD` is rejected, `ODD` is rejected with an
/// unknown message, `WARN` causes a warning.
const FAKE_PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 13.0, V13.0.1"; exit 0;;
--help) printf '%s\n' "--gpu-name <gpu name>  (-arch)" "        Allowed values for this option:  'sm_121','sm_121a','sm_121f'" "        Default value:  'sm_121'."; exit 0;;
-arch=*) arch="${1#-arch=}";;
esac
for last; do case "$last" in *.ptx) file="$last";; esac; done
echo run >> "$COUNT"
version=$(sed -n 's/^.*\.version \([0-9.]*\).*$/\1/p' "$file" | head -1)
target=$(sed -n 's/^.*\.target \([a-z0-9_]*\).*$/\1/p' "$file" | head -1)
no() { echo "ptxas $file, line $1; error   : $2" >&2; failed=1; }
case "$version" in 99.9) echo "ptxas $file, line 1; fatal   : Unsupported .version 99.9; current version is '9.0'" >&2; exit 255;; esac
[ "$target" = sm_100a ] && { echo "ptxas fatal   : Program with .target '$target' cannot be compiled to future architecture" >&2; exit 255; }
case "$target" in *[af]) ;; *) for n in $(grep -n NEEDS_F "$file" | cut -d: -f1); do no "$n" "Feature 'NEEDS_F' not supported on .target '$target'"; done;; esac
[ "$version" = 9.0 ] || for n in $(grep -n NEEDS_9 "$file" | cut -d: -f1); do no "$n" "Unknown modifier 'NEEDS_9'"; done
for n in $(grep -n BAD "$file" | cut -d: -f1); do no "$n" "Instruction 'BAD' not supported on .target '$target'"; done
for n in $(grep -n ODD "$file" | cut -d: -f1); do no "$n" "Quux of the frobnicator"; done
for n in $(grep -n WARN "$file" | cut -d: -f1); do echo "ptxas $file, line $n; warning : Advisory: slow" >&2; done
[ -n "$failed" ] && { echo "ptxas fatal   : Ptx assembly aborted due to errors" >&2; exit 255; }
echo code > "$last"
"#;

struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { dir: TempDir::new().unwrap() };
        let ptxas = desk.path("ptxas");
        fs::write(&ptxas, FAKE_PTXAS).unwrap();
        fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(desk.path("count"), "").unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A kernel with this target and body.
    fn kernel(&self, name: &str, version: &str, target: &str, body: &str) {
        let text = format!(
            ".version {version}\n.target {target}\n.address_size 64\n.entry k()\n{{\n{body}\nret;\n}}\n"
        );
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        let clean = command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.dir.path());
        clean
            .env("SM121PROBE_CACHE", self.path("cache"))
            .env("COUNT", self.path("count"))
            .env("RUST_BACKTRACE", "0");
        clean.current_dir(self.dir.path()).args(["lint", "--offline"]).args(args);
        command
    }

    /// Runs `lint` with the fake assembler.
    fn lint(&self, args: &[&str]) -> Output {
        let ptxas = self.path("ptxas");
        let mut all = vec!["-k", ptxas.to_str().unwrap()];
        all.extend(args);
        self.command(&all).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--format", "json"];
        all.extend(args);
        serde_json::from_slice(&self.lint(&all).stdout).unwrap()
    }

    fn processes(&self) -> usize {
        fs::read_to_string(self.path("count")).unwrap().lines().count()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).replace('│', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_exit_code_says_whether_what_is_demanded_holds() {
    let desk = Desk::new();
    desk.kernel("good.ptx", "9.0", "sm_121", "add.u32 a, b, c;");
    desk.kernel("lost.ptx", "9.0", "sm_121", "NEEDS_F;");
    desk.kernel("bad.ptx", "9.0", "sm_121", "BAD;");
    desk.kernel("only_a.ptx", "9.0", "sm_121a", "NEEDS_F;");
    let exit = |args: &[&str]| code(&desk.lint(args));
    assert_eq!(exit(&["good.ptx"]), 0);
    assert_eq!(exit(&["bad.ptx", "good.ptx"]), 100);
    assert_eq!(exit(&["lost.ptx"]), 100);
    assert_eq!(exit(&["lost.ptx", "--require", "rewritten", "-t", "sm_121f"]), 0);
    assert_eq!(exit(&["lost.ptx", "--require", "rewritten", "-t", "sm_121"]), 100);
    // A file for one architecture is checked for it, unless others are named.
    assert_eq!(exit(&["good.ptx", "--require", "newest"]), 0);
    assert_eq!(exit(&["good.ptx", "--require", "any", "-t", "sm_121a"]), 0);
    assert_eq!(exit(&["only_a.ptx"]), 0);
    // No toolkit knows sm_120, which is named.
    assert_eq!(exit(&["good.ptx", "-t", "sm_120"]), 100);
    assert_eq!(code(&desk.lint(&[])), 4);
    assert!(stderr(&desk.lint(&[])).contains("NOTHING CHECKED: no file"));
    fs::create_dir(desk.path("empty")).unwrap();
    assert_eq!(exit(&["empty"]), 4);
    assert_eq!(exit(&["good.ptx", "-t", "sm_999"]), 2);
    assert_eq!(code(&desk.command(&["good.ptx"]).output().unwrap()), 120);
}

#[test]
fn files_that_cannot_be_used_do_not_stop_the_others() {
    let desk = Desk::new();
    desk.kernel("good.ptx", "9.0", "sm_121", "");
    fs::write(desk.path("lib.so"), b"\x7fELF\x02").unwrap();
    fs::File::create(desk.path("huge.ptx")).unwrap().set_len(50 << 20).unwrap();
    fs::write(desk.path("none.ptx"), "hello\n").unwrap();
    fs::write(desk.path("nothing.ptx"), "").unwrap();
    let output = desk.lint(&["lib.so", "good.ptx", "huge.ptx", "none.ptx", "nothing.ptx", "gone.ptx"]);
    assert_eq!(code(&output), 2);
    assert!(stdout(&output).contains("1 of 1 module in 1 file is"), "{}", stdout(&output));
    let said = stderr(&output);
    for words in [
        "lib.so: has no device code",
        "huge.ptx:1: 50 MB",
        "none.ptx:1: no PTX found",
        "nothing.ptx:1: empty",
        "gone.ptx: cannot be read",
        "5 files cannot be used",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn the_smallest_change_that_ptxas_accepts_is_named() {
    let desk = Desk::new();
    desk.kernel("suffix.ptx", "9.0", "sm_121", "NEEDS_F;");
    desk.kernel("version.ptx", "8.8", "sm_121a", "NEEDS_9;");
    desk.kernel("newer.ptx", "99.9", "sm_121a", "");
    desk.kernel("foreign.ptx", "8.8", "sm_100a", "NEEDS_9;");
    desk.kernel("both.ptx", "8.8", "sm_121", "NEEDS_9; NEEDS_F;");
    desk.kernel("none.ptx", "8.8", "sm_121", "BAD;");
    let cure = |file: &str, target: &str| -> String {
        let all = desk.json(&[file, "-t", target]);
        let cure = &all["files"][0]["modules"][0]["cures"][0];
        let word = |name: &str| cure[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", word("form"), word("write_target"), word("write_version"))
    };
    assert_eq!(cure("suffix.ptx", "sm_121"), "suffix sm_121f -");
    assert_eq!(cure("suffix.ptx", "sm_121a"), "target sm_121a -");
    assert_eq!(cure("version.ptx", "sm_121a"), "version - 9.0");
    assert_eq!(cure("newer.ptx", "sm_121a"), "version - 9.0");
    assert_eq!(cure("foreign.ptx", "sm_121a"), "rewritten sm_121a 9.0");
    assert_eq!(cure("both.ptx", "sm_121"), "suffix_and_version sm_121f 9.0");
    assert_eq!(cure("none.ptx", "sm_121"), "- - -");
}

#[test]
fn each_toolkit_has_its_own_smallest_change() {
    let desk = Desk::new();
    let older = FAKE_PTXAS
        .replace("release 13.0, V13.0.1", "release 12.9, V12.9.1")
        .replace("99.9)", "99.9|9.0)")
        .replace("version is '9.0'", "version is '8.8'");
    fs::write(desk.path("older"), older).unwrap();
    fs::set_permissions(desk.path("older"), fs::Permissions::from_mode(0o755)).unwrap();
    desk.kernel("lost.ptx", "9.0", "sm_121", "NEEDS_F;");
    let path = desk.path("older");
    let all = desk.json(&["lost.ptx", "-k", path.to_str().unwrap(), "-t", "sm_121f"]);
    let cures = all["files"][0]["modules"][0]["cures"].as_array().unwrap();
    let words = |name: &str| -> Vec<String> { cures.iter().map(|c| c[name].to_string()).collect() };
    assert_eq!(words("form"), ["\"target\"", "\"rewritten\""]);
    assert_eq!(words("toolkits"), ["[\"13.0.1\"]", "[\"12.9.1\"]"]);
    assert_eq!(words("write_version"), ["null", "\"8.8\""]);
}

#[test]
fn words_that_nobody_knows_are_shown_as_they_are_and_warnings_too() {
    let desk = Desk::new();
    desk.kernel("odd.ptx", "9.0", "sm_121", "  ODD x, y;");
    desk.kernel("warn.ptx", "9.0", "sm_121", "WARN;");
    let text = stdout(&desk.lint(&["odd.ptx", "warn.ptx", "-t", "sm_121"]));
    assert!(
        text.contains("Quux of the frobnicator") && text.contains("no known cause for this message"),
        "{text}"
    );
    assert!(text.contains("warning: line 6: Advisory: slow"), "{text}");
}

#[test]
fn every_line_is_counted_and_listed_on_request() {
    let desk = Desk::new();
    desk.kernel("bad.ptx", "9.0", "sm_121", "BAD a;\nadd.u32 a, b, c;\n@p BAD b;\nODD c;");
    let of = |more: &[&str]| {
        let mut args = vec!["bad.ptx", "-t", "sm_121"];
        args.extend(more);
        let module = desk.json(&args)["files"][0]["modules"][0].clone();
        let lines: Vec<u64> =
            module["problems"].as_array().unwrap().iter().map(|p| p["line"].as_u64().unwrap()).collect();
        (lines, module["further_lines"].as_u64().unwrap())
    };
    assert_eq!(of(&[]), (vec![6], 2));
    assert_eq!(of(&["--all-errors"]), (vec![6, 8, 9], 0));
}

#[test]
fn of_a_line_that_nobody_reads_whole_a_part_is_shown() {
    let desk = Desk::new();
    let body =
        format!("{} BAD x; {}", "add.u32 a, b, c; ".repeat(100_000), "add.u32 a, b, c; ".repeat(100_000));
    desk.kernel("long.ptx", "9.0", "sm_121", &body);
    for form in ["text", "md"] {
        let text = stdout(&desk.lint(&["long.ptx", "-t", "sm_121", "--format", form]));
        assert!(
            text.len() < 10_000 && text.contains("    BAD x; add.u32") && text.contains("    ^^^\n"),
            "{text}"
        );
    }
    let place = &desk.json(&["long.ptx", "-t", "sm_121"])["files"][0]["modules"][0]["problems"][0];
    assert_eq!(
        (place["column"].as_u64(), place["excerpt_from"].as_u64()),
        (Some(1_700_002), Some(1_700_002))
    );
}

#[test]
fn a_second_run_asks_nobody_and_a_change_asks_again() {
    let desk = Desk::new();
    desk.kernel("k.ptx", "8.8", "sm_121", "NEEDS_F;");
    let first = desk.lint(&["k.ptx"]);
    let asked = desk.processes();
    assert!(asked > 3, "{asked}");
    let second = desk.lint(&["k.ptx"]);
    assert_eq!((desk.processes(), stdout(&second)), (asked, stdout(&first)));
    desk.kernel("k.ptx", "8.8", "sm_121", "NEEDS_F; ");
    desk.lint(&["k.ptx"]);
    assert!(desk.processes() > asked);
}

#[test]
fn dumps_come_from_standard_input_with_their_own_lines() {
    let desk = Desk::new();
    let dump = "INFO: compiling\n// -----// NVPTX Dump //----- //\n.version 9.0\n.target sm_121\n.entry a() { ret; }\n// -----// NVPTX Dump //----- //\n.version 9.0\n.target sm_121\n.entry b()\n{\nBAD;\n}\n\0";
    let ptxas = desk.path("ptxas");
    let mut child = desk
        .command(&["--stdin", "-k", ptxas.to_str().unwrap(), "-t", "121", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), dump.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 100);
    assert_eq!(
        stdout(&output),
        "file,module,toolkit,target,form,outcome,counts,errors,line,kind,message\n\
         <stdin>,3,13.0.1,sm_121,written,accepted,yes,0,,,\n\
         <stdin>,3,13.0.1,sm_121,rewritten,accepted,no,0,,,\n\
         <stdin>,7,13.0.1,sm_121,written,rejected,yes,1,11,base_target_lacks_it,Instruction 'BAD' not supported on .target 'sm_121'\n\
         <stdin>,7,13.0.1,sm_121,rewritten,rejected,no,1,11,base_target_lacks_it,Instruction 'BAD' not supported on .target 'sm_121'\n"
    );
}

#[test]
fn folders_are_searched_and_links_in_circles_are_not_followed() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("tree/deep")).unwrap();
    desk.kernel("tree/a.ptx", "9.0", "sm_121", "");
    desk.kernel("tree/deep/b.ptx", "9.0", "sm_121", "");
    fs::write(desk.path("tree/deep/notes.txt"), "no").unwrap();
    std::os::unix::fs::symlink(desk.path("tree"), desk.path("tree/deep/up")).unwrap();
    let all = desk.json(&["tree", "tree/a.ptx"]);
    let files: Vec<&str> =
        all["files"].as_array().unwrap().iter().map(|f| f["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["tree/a.ptx", "tree/deep/b.ptx"]);
}

#[test]
fn sarif_and_annotations_name_file_and_line() {
    let desk = Desk::new();
    desk.kernel("bad.ptx", "9.0", "sm_121", "BAD a;");
    let ptxas = desk.path("ptxas");
    let summary = desk.path("summary.md");
    let output = desk
        .command(&[
            "bad.ptx",
            "-k",
            ptxas.to_str().unwrap(),
            "-t",
            "sm_121",
            "--sarif",
            "out.sarif",
            "--format",
            "md",
        ])
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", &summary)
        .output()
        .unwrap();
    assert_eq!(code(&output), 100);
    let sarif: Value = serde_json::from_slice(&fs::read(desk.path("out.sarif")).unwrap()).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        (place["artifactLocation"]["uri"].as_str(), place["region"]["startLine"].as_u64()),
        (Some("bad.ptx"), Some(6))
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("::error file=bad.ptx,line=6,title="));
    assert_eq!(fs::read_to_string(summary).unwrap(), stdout(&output));
    assert!(stdout(&output).contains("    BAD a;\n    ^^^\n"), "{}", stdout(&output));
}
