//! The compiler under test, as users see it: `explain`, `audit` and `fuzz ptx` need no toolkit.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::process::{Command, Output};

use compiler::known::miscompiles;

fn run(args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.env("SM121PROBE_CACHE", cache.path()).args(args);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn explain_describes_every_known_miscompile() {
    for m in miscompiles() {
        let output = run(&["explain", &m.name]);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.starts_with(&format!("{}: a known miscompile of ptxas\n", m.name)), "{text}");
        assert!(text.contains(&m.rewrite) && text.contains(&m.rule), "{text}");
    }
}

#[test]
fn the_chapter_lists_every_known_miscompile() {
    let chapter = include_str!("../../docs/compiler.md");
    for m in miscompiles() {
        let versions = m.affects.iter().map(|a| a.toolkits.join(", ")).collect::<Vec<_>>().join("; ");
        let row = format!("|`{}`|{}|{versions}|", m.name, m.effect);
        assert!(chapter.contains(&row), "docs/compiler.md lacks the row {row}");
    }
    let rows = chapter.lines().filter(|line| line.starts_with("|`") && line.contains("|-O")).count();
    assert_eq!(rows, miscompiles().len());
}

#[test]
fn audit_reports_known_miscompiles_in_ptx() {
    let wrong = run(&["audit", "crates/compiler/tests/data/guarded_set.ptx", "--for", "sm_121"]);
    let told = text(&wrong);
    assert!(told.contains("Known miscompiles of ptxas in PTX") && told.contains("guarded_set"), "{told}");
    let right = run(&["audit", "crates/compiler/tests/data/guarded_set.rewritten.ptx", "--for", "sm_121"]);
    assert!(!text(&right).contains("miscompile"), "{}", text(&right));
}

#[test]
fn fuzz_says_what_it_reached() {
    let output = run(&["fuzz", "ptx", "--kernels", "20", "--seed", "7"]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.starts_with("20 kernels for sm_121a in PTX ") && told.contains("\nnot reached: "), "{told}");
    assert!(told.ends_with("findings: 0\n"), "{told}");
}

#[test]
fn mistakes_in_a_call_of_fuzz_name_the_remedy() {
    let refused = run(&["fuzz", "ptx", "--isa", "8.0", "--target", "sm_121a"]);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("PTX 8.0 does not have sm_121a") && words.contains("--isa"), "{words}");
    assert_eq!(run(&["fuzz", "ptx", "--kernels", "0"]).status.code(), Some(4));
}
