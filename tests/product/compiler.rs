//! The compiler under test, as users see it: `explain`, `audit` and `fuzz ptx` need no toolkit.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::os::unix::fs::PermissionsExt as _;
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

/// A ptxas that hands PTX on as it is, for a simulated GPU; at -O3 it takes `brev` for `not`, and turns guards of `vadd4` round.
const PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo 'ptxas: NVIDIA (R) Ptx optimizing assembler'; echo 'Cuda compilation tools, release 13.5, V13.5.37'; exit;;
--help) printf -- "--gpu-name <gpu name> (-arch)\n Allowed values for this option: 'sm_121a',\n 'sm_90'.\n Default value: 'sm_90'.\n"; exit;;
esac
case "$2" in
-O3) sed -E -e 's/^( *)brev\.b32/\1not.b32/' -e 's/^( *)@p vadd4\./\1@!p vadd4./' "$3" > "$5";;
-O*) cp "$3" "$5";;
*) echo "ptxas x, line 1; fatal   : Unsupported .version 99.9; current version is '9.5'" >&2; exit 255;;
esac
"#;

/// A folder with that ptxas.
fn with_ptxas() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ptxas");
    std::fs::write(&path, PTXAS).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// Runs the tool on its own simulated GPU.
fn on_simulated_gpu(args: &[&str]) -> Output {
    let own = env!("CARGO_BIN_EXE_sm121probe");
    run(&[&["exec", "-o", "/dev/null", "--", own], args].concat())
}

#[test]
fn a_gpu_runs_random_kernels_and_a_miscompile_is_found_made_small_and_kept() {
    let (folder, ptxas) = with_ptxas();
    let (keep, record) = (folder.path().join("keep"), folder.path().join("counts.json"));
    let (keep_to, record_to) = (keep.to_str().unwrap(), record.to_str().unwrap());
    let common =
        ["--device", "gpu:0", "--toolkit", &ptxas, "--toolkit", "driver", "--level", "0", "--level", "3"];
    let small = ["fuzz", "ptx", "--kernels", "32", "--seed", "3", "--keep", keep_to, "--record", record_to];
    let output =
        on_simulated_gpu(&[small.as_slice(), &common, &["--shrink", "1", "--shrink-limit", "15"]].concat());
    let told = text(&output);
    let counts: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    let builds = counts["builds"].as_array().unwrap();
    let of = |n: usize, key: &str| builds[n][key].as_u64().unwrap();
    assert_eq!(builds.len(), 3, "{counts}");
    for n in 0..3 {
        assert_eq!(of(n, "compared"), 32, "{counts}");
        // The last compiler is the driver's, the first ptxas at -O0: both are right.
        assert_eq!(of(n, "unexplained") > 0, n == 1, "{counts}");
    }
    assert_eq!(output.status.code(), Some(100), "{told}");
    assert!(told.contains(": ptxas 13.5.37 at -O3: ") && told.contains(" words differ, first "), "{told}");
    assert!(told.contains("  not with ptxas 13.5.37 at -O0; the driver's JIT\n"), "{told}");
    let seed = counts["findings"][0]["seed"].as_u64().unwrap();
    let launch = keep.join(format!("seed-{seed}/launch.yaml"));
    let kernel = std::fs::read_to_string(keep.join(format!("seed-{seed}/kernel.ptx"))).unwrap();
    assert!(kernel.contains("brev.b32") && kernel.lines().count() < 200, "{kernel}");
    // The same kernels run again, with the same answer.
    let again = on_simulated_gpu(
        &[&["fuzz", "ptx", "--again", record_to, "--shrink", "0"], common.as_slice()].concat(),
    );
    let told = text(&again);
    assert_eq!(again.status.code(), Some(100), "{told}");
    let findings = counts["findings"].as_array().unwrap().len();
    assert!(
        told.contains(&format!("{findings} kernels for "))
            && told.contains(&format!("findings: {findings}\n")),
        "{told}"
    );
    // What was kept is defined, and gives what was expected.
    let launch = launch.to_str().unwrap();
    let emulated = run(&["emulate", launch]);
    assert_eq!(emulated.status.code(), Some(0), "{}", text(&emulated));
    let common = ["--device", "gpu:0", "--toolkit", &ptxas, "--toolkit", "driver"];
    let bisected = on_simulated_gpu(&[["bisect", launch].as_slice(), &common].concat());
    let told = text(&bisected);
    assert_eq!(bisected.status.code(), Some(100), "{told}");
    assert!(told.contains("ptxas 13.5.37 at -O0 -O1 -O2; the driver's JIT: agree\n"), "{told}");
    assert!(told.contains("ptxas 13.5.37 at -O3: ") && told.contains(" elements differ, first "), "{told}");
    assert!(told.ends_with("PTX leaves nothing open: a miscompile by ptxas 13.5.37 at -O3\n"), "{told}");
}

#[test]
fn bisect_names_what_is_known_and_says_when_the_kernel_is_at_fault() {
    let (_folder, ptxas) = with_ptxas();
    let buffers = ["--arg", "buf:input=random:7:u32[256]", "--arg", "out:output=u32[256]"];
    let common = ["--device", "gpu:0", "--toolkit", &ptxas];
    let bisect = |file: &str| on_simulated_gpu(&[["bisect", file].as_slice(), &buffers, &common].concat());
    let known = bisect("crates/compiler/tests/data/guarded_byte_sum.ptx");
    let told = text(&known);
    assert_eq!(known.status.code(), Some(100), "{told}");
    assert!(told.ends_with("PTX leaves nothing open: the known miscompile guarded_byte_sum\n"), "{told}");
    let safe = bisect("crates/compiler/tests/data/guarded_byte_sum.rewritten.ptx");
    assert_eq!(safe.status.code(), Some(0), "{}", text(&safe));
    assert!(text(&safe).ends_with("what ran agrees with it\n"), "{}", text(&safe));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("undefined.ptx");
    let kernel =
        std::fs::read_to_string("crates/compiler/tests/data/guarded_byte_sum.rewritten.ptx").unwrap();
    std::fs::write(&file, kernel.replace("mov.b32 o3, 0;\n", "")).unwrap();
    let undefined = bisect(file.to_str().unwrap());
    let told = text(&undefined);
    assert_eq!(undefined.status.code(), Some(100), "{told}");
    assert!(told.contains("the kernel, not the compiler: uninitialised: "), "{told}");
}

/// A ptxas that is older than the file says nothing of it: it is no fault of the compiler, and alone it compares nothing.
#[test]
fn a_compiler_older_than_the_file_is_not_compared() {
    let (folder, _) = with_ptxas();
    let old = folder.path().join("old/ptxas");
    std::fs::create_dir(folder.path().join("old")).unwrap();
    std::fs::write(&old, PTXAS.replace(r#"case "$2""#, "case old")).unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let kernel = "crates/compiler/tests/data/guarded_byte_sum.rewritten.ptx";
    let output = run(&["bisect", kernel, "--toolkit", old.to_str().unwrap()]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("0 kinds of machine code") && told.contains("is older than the file"), "{told}");
    assert!(told.ends_with("no machine code was compared\n"), "{told}");
}

#[test]
fn a_campaign_without_kernels_or_a_gpu_checks_nothing() {
    let (folder, ptxas) = with_ptxas();
    let record = folder.path().join("counts.json");
    let args = ["fuzz", "ptx", "--kernels", "0", "--device", "gpu:0", "--toolkit", &ptxas];
    let output = on_simulated_gpu(&[args.as_slice(), &["--record", record.to_str().unwrap()]].concat());
    // Nothing ran.
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    // A record without findings has no kernels to run again, and what is no record names itself.
    let empty = run(&["fuzz", "ptx", "--again", record.to_str().unwrap()]);
    assert_eq!(empty.status.code(), Some(4));
    let other = run(&["fuzz", "ptx", "--again", "Cargo.toml"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8(other.stderr).unwrap().contains("Cargo.toml: "));
    let driver = run(&["fuzz", "ptx", "--toolkit", "driver"]);
    assert_eq!(driver.status.code(), Some(2));
    assert!(String::from_utf8(driver.stderr).unwrap().contains("--device gpu:0"));
    let none = run(&["fuzz", "ptx", "--kernels", "1", "--device", "gpu:0"]);
    assert_eq!(none.status.code(), Some(121));
}

#[test]
fn selftest_on_an_sm12x_gpu_runs_random_kernels_and_records_them() {
    let output = on_simulated_gpu(&["selftest", "--cases", "1", "--device", "gpu:0", "--format", "json"]);
    let record: sm121probe::record::Record = serde_json::from_slice(&output.stdout).unwrap();
    let [table] = record.fuzzed.as_slice() else { panic!("{:?}", record.fuzzed) };
    assert!(table.kernels > 0 && table.compared() >= table.kernels, "{table:?}");
    assert!(table.findings.is_empty(), "{:?}", table.findings);
    assert!(!record.selftest.is_empty());
    let output = on_simulated_gpu(&["selftest", "--cases", "1", "--device", "gpu:0", "--fuzz-seconds", "0"]);
    assert!(!text(&output).contains("random kernels"), "{}", text(&output));
}
