//! The recipe for many machines: its scripts run as processes, and the merged parts equal the undivided run, cell by cell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sm121probe::gate;
use sm121probe::record::Record;
use sm121probe::report;

use super::fixture::{Desk, said};

/// Accepts everything except `BAD`, which it rejects with a message.
const PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 13.9, V13.9.1"; exit 0;;
--help) printf '%s\n' "--gpu-name <gpu name>  (-arch)" "        Allowed values for this option:  'sm_120','sm_121a','sm_121f'" "        Default value:  'sm_120'."; exit 0;;
esac
for last; do case "$last" in *.ptx) file="$last";; esac; done
if grep -q 'version 99' "$file"; then echo "ptxas $file, line 1; fatal   : Unsupported .version 99.9; current version is '9.9'" >&2; exit 255; fi
bad=$(grep -n BAD "$file" | cut -d: -f1)
for n in $bad; do echo "ptxas $file, line $n; error   : Feature 'BAD' not supported on .target 'sm_121a'" >&2; done
[ -n "$bad" ] && { echo "ptxas fatal   : Ptx assembly aborted due to errors" >&2; exit 255; }
echo code > "$last"
"#;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet").join(name)
}

struct Fleet {
    desk: Desk,
}

impl Fleet {
    fn new() -> Self {
        let desk = Desk::new();
        for folder in ["bin", "snippets", "snippets/mma"] {
            fs::create_dir(desk.path(folder)).unwrap();
        }
        desk.write("bin/ptxas", PTXAS);
        desk.write(
            "bin/sm121probe",
            &format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_sm121probe")),
        );
        for name in ["bin/ptxas", "bin/sm121probe"] {
            fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for n in 0..7 {
            let body = if n % 3 == 0 { "// BAD ${ty}" } else { "// ${ty}" };
            let types = if n == 0 { "u32, s32, f32, b32" } else { "u32, s32" };
            let text = format!(
                "//@ about: A{n}.\n//@ spec: B\n//@ grants: [c{n}]\n//@ axes:\n//@   ty: [{types}]\n//@ claims:\n//@   - {{source: s, expect: accepted, targets: [sm_121a, sm_121f]{}}}\n{body}\n",
                if n % 3 == 0 { ", stands: refuted" } else { "" }
            );
            desk.write(&format!("snippets/mma/mma.s{n}.ptx"), &text);
        }
        desk.write(
            "snippets/plain.ptx",
            ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n",
        );
        Self { desk }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:/usr/bin:/bin", self.desk.path("bin").display());
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.desk.dir.path())
            .env("SM121PROBE_CACHE", self.desk.path("cache"))
            .env("RECORDS", self.desk.path("records"))
            .current_dir(self.desk.dir.path());
        command
    }

    const ASKED: [&str; 9] =
        ["--offline", "--snippets", "snippets", "-k", "bin/ptxas", "-t", "sm_121a", "-t", "sm_121f"];

    fn collect(&self, shards: usize) -> Output {
        self.command(&script("collect.sh"))
            .arg("merged.json")
            .env("SHARDS", shards.to_string())
            .output()
            .unwrap()
    }
}

#[test]
fn parts_of_an_array_and_of_an_indexed_job_are_the_undivided_run_cell_by_cell() {
    for (scheduler, count) in [("SLURM_ARRAY_TASK_ID", 3), ("JOB_COMPLETION_INDEX", 5)] {
        let fleet = Fleet::new();
        let whole = fleet.command(Path::new(env!("CARGO_BIN_EXE_sm121probe")));
        let mut whole = whole;
        whole.arg("matrix").args(Fleet::ASKED).args(["--format", "json", "-o", "whole.json"]);
        let output = whole.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        // The tasks run concurrently, as a scheduler runs them.
        let tasks: Vec<_> = (0..count)
            .map(|n| {
                let mut task = fleet.command(&script("shard.sh"));
                task.args(Fleet::ASKED).env(scheduler, n.to_string());
                let name = if scheduler.starts_with("SLURM") { "SLURM_ARRAY_TASK_COUNT" } else { "SHARDS" };
                task.env(name, count.to_string()).spawn().unwrap()
            })
            .collect();
        for mut task in tasks {
            assert!(task.wait().unwrap().success());
        }
        let output = fleet.collect(count);
        assert!(output.status.success(), "{}", said(&output));
        let read = |name: &str| Record::read(&fleet.desk.path(name)).unwrap();
        let (whole, merged) = (read("whole.json"), read("merged.json"));
        let diff = gate::diff(&whole, &merged);
        assert!(diff.is_empty(), "{}", report::diff_text(&diff));
        let mut cells = 0;
        for row in &whole.matrix.variants {
            let found = merged.matrix.variants.iter().find(|v| v.id == row.id).unwrap();
            for (n, pair) in whole.matrix.pairs.iter().enumerate() {
                let at = merged.matrix.pair(pair.toolkit, pair.target, pair.arch).unwrap();
                let of = |c: sm121probe::record::Cell<'_>| {
                    (c.outcome, c.native, c.message.map(|m| m.text.clone()), c.sass.to_owned())
                };
                assert_eq!(
                    whole.matrix.cell(row, n).map(of),
                    merged.matrix.cell(found, at).map(of),
                    "{}",
                    row.id
                );
                cells += usize::from(whole.matrix.cell(row, n).is_some());
            }
        }
        assert!(cells > 30 && merged.matrix.variants.len() == whole.matrix.variants.len(), "{cells}");
        let claims = |r: &Record| {
            r.matrix.claims.iter().map(|c| (c.standing, c.cells, c.disagree, c.whole)).collect::<Vec<_>>()
        };
        assert_eq!(claims(&whole), claims(&merged));
    }
}

#[test]
fn a_part_that_is_missing_is_named_and_a_task_without_number_does_not_run() {
    let fleet = Fleet::new();
    let mut task = fleet.command(&script("shard.sh"));
    let output = task.args(Fleet::ASKED).env("SLURM_ARRAY_TASK_ID", "0").env("SHARDS", "2").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let output = fleet.collect(2);
    assert_eq!(output.status.code(), Some(120), "{}", said(&output));
    assert!(said(&output).contains("part 2 of 2 is missing"), "{}", said(&output));
    let output = fleet.command(&script("shard.sh")).env("SHARDS", "2").output().unwrap();
    assert!(!output.status.success() && said(&output).contains("no task number"), "{}", said(&output));
    let output = fleet.desk.run(&["matrix", "--shard", "3/2"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("`3/2` is not a shard: write 2/8"), "{}", said(&output));
}

#[test]
fn the_indexed_job_runs_the_same_script() {
    let text = fs::read_to_string(script("kubernetes-job.yaml")).unwrap();
    let job: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert!(container["command"][0].as_str().unwrap().ends_with("docs/fleet/shard.sh"));
    let shards = container["env"].as_array().unwrap().iter().find(|e| e["name"] == "SHARDS").unwrap();
    assert_eq!(shards["value"].as_str().unwrap(), job["spec"]["completions"].to_string());
    assert_eq!(job["spec"]["completionMode"], "Indexed");
}

#[test]
fn a_kernel_that_ptxas_refuses_is_red_on_the_line_that_ptxas_names() {
    let fleet = Fleet::new();
    let gate = |more: &[&str]| {
        let mut command = fleet.command(Path::new(env!("CARGO_BIN_EXE_sm121probe")));
        command
            .args(["gate", "--baseline", "base.json"])
            .args(Fleet::ASKED)
            .args(["-f", "plain*"])
            .args(more);
        command.output().unwrap()
    };
    let blessed = gate(&["--bless"]);
    assert!(blessed.status.success(), "{}", said(&blessed));
    fleet.desk.write(
        "snippets/plain.ptx",
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k()\n{\nret;\nBAD;\n}\n",
    );
    let output = gate(&[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(111), "{text}");
    assert!(text.contains("plain.ptx:7: sm_121a"), "{text}");
}
