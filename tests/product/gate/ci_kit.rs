//! The CI kit: files valid by their schemas, and every `run:` block executed as a runner would, with a fake runner around it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sm121probe::moe::Stage;
use sm121probe::record::Verdict;

use super::fixture::{Desk, fail, record, said};
use super::machines::schema;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn yaml(file: &str) -> Value {
    let text = fs::read_to_string(root().join(file)).unwrap();
    serde_yaml::from_str(&text).map_err(|e| format!("{file}: {e}")).unwrap()
}

const ACTION: &str = ".github/actions/gate/action.yml";
const WORKFLOWS: [&str; 4] = [
    ".github/examples/kernels.yml",
    ".github/examples/gpu.yml",
    ".github/workflows/ci.yml",
    ".github/workflows/pages.yml",
];

#[test]
fn every_file_fits_its_schema_and_the_schemas_notice() {
    let mut files =
        vec![(ACTION, "github-actions.json"), (".github/examples/gitlab-ci.yml", "gitlab-ci.json")];
    files.extend(WORKFLOWS.map(|w| (w, "github-workflows.json")));
    for (file, name) in files {
        let validator = schema(name);
        let mut value = yaml(file);
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{file}: {errors:#?}");
        if name != "gitlab-ci.json" {
            value["runs-on-nothing"] = 1.into();
        } else {
            value["sm121probe"]["script"] = 7.into();
        }
        assert!(!validator.is_valid(&value), "{file}: {name} takes anything");
    }
}

#[test]
fn the_gate_document_shows_the_workflow_as_it_is() {
    let text = fs::read_to_string(root().join(".github/examples/kernels.yml")).unwrap();
    let shown: String = text.split_inclusive('\n').skip_while(|l| l.starts_with('#')).collect();
    let document = fs::read_to_string(root().join("docs/gate.md")).unwrap();
    assert!(
        document.contains(&format!("```yaml\n{shown}```\n")),
        "docs/gate.md shows another .github/examples/kernels.yml"
    );
}

/// The `run:` blocks of an action or a workflow, each with its `env:`.
fn blocks(file: &str) -> Vec<(String, String, BTreeMap<String, String>)> {
    let value = yaml(file);
    let steps: Vec<Value> = match value.get("runs") {
        Some(runs) => runs["steps"].as_array().unwrap().clone(),
        None => value["jobs"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|j| j["steps"].as_array().unwrap().clone())
            .collect(),
    };
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    steps
        .iter()
        .filter(|s| s.get("run").is_some())
        .map(|s| {
            assert_eq!(s["shell"], "bash", "{file}: a block says its shell");
            let env = s.get("env").and_then(Value::as_object).into_iter().flatten();
            (text(&s["name"]), text(&s["run"]), env.map(|(k, v)| (k.clone(), text(v))).collect())
        })
        .collect()
}

#[test]
fn no_block_holds_an_expression() {
    // What GitHub expands into the text of a script could be code; what it puts into the environment cannot.
    for file in [ACTION].into_iter().chain(WORKFLOWS) {
        for (name, run, _) in blocks(file) {
            assert!(!run.contains("${{"), "{file}, {name}");
        }
    }
}

/// A runner: a folder with a fake cargo, and a sm121probe that fetches nothing.
struct Runner {
    desk: Desk,
    expressions: BTreeMap<String, String>,
    path: String,
}

impl Runner {
    fn new() -> Self {
        let desk = Desk::new();
        for folder in ["bin", "temp", "repository"] {
            fs::create_dir(desk.path(folder)).unwrap();
        }
        let probe = env!("CARGO_BIN_EXE_sm121probe");
        // `cargo build` yields the sm121probe under test.
        let wrapped = format!(
            "#!/bin/bash\necho \"sm121probe $*\" >> \"$LOG\"\ncase \"$1\" in toolkit|doctor|moe) exit 0;; esac\nexec {probe} \"$@\"\n"
        );
        let cargo = "#!/bin/bash\necho \"cargo $*\" >> \"$LOG\"\nwhile [ $# -gt 0 ]; do if [ \"$1\" = --target-dir ]; then mkdir -p \"$2/release\"; cp \"$WRAPPED\" \"$2/release/sm121probe\"; fi; if [ \"$1\" = --manifest-path ]; then grep -q '^name = \"sm121probe\"' \"$2\"; fi; shift; done\n";
        for (name, text) in [("wrapped", wrapped.as_str()), ("bin/cargo", cargo)] {
            desk.write(name, text);
            fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut expressions = BTreeMap::new();
        for (name, input) in yaml(ACTION)["inputs"].as_object().unwrap() {
            expressions.insert(format!("inputs.{name}"), input["default"].as_str().unwrap().to_owned());
        }
        expressions.insert(
            "github.action_path".to_owned(),
            root().join(".github/actions/gate").display().to_string(),
        );
        let path = format!("{}:/usr/bin:/bin", desk.path("bin").display());
        Self { desk, expressions, path }
    }

    fn bash(&mut self, script: &str, env: &BTreeMap<String, String>) -> Output {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eu", "-o", "pipefail", "-c", script]).env_clear();
        for (name, value) in env {
            command.env(name, self.evaluated(value));
        }
        for name in ["GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"] {
            command.env(name, self.desk.path(name));
        }
        let output = command
            .env("PATH", &self.path)
            .env("HOME", self.desk.path("temp"))
            .env("LOG", self.desk.path("log"))
            .env("WRAPPED", self.desk.path("wrapped"))
            .env("RUNNER_TEMP", self.desk.path("temp"))
            .env("GITHUB_ACTIONS", "true")
            .current_dir(self.desk.path("repository"))
            .output()
            .unwrap();
        // What one step adds to the path is there for the next.
        let added = fs::read_to_string(self.desk.path("GITHUB_PATH")).unwrap_or_default();
        for folder in added.lines().filter(|f| !self.path.contains(f)).collect::<Vec<_>>() {
            self.path = format!("{folder}:{}", self.path);
        }
        output
    }

    /// Evaluates an expression as GitHub does; an expression that this runner does not know is an error of the file.
    fn evaluated(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${{") {
            let (name, after) = after.split_once("}}").unwrap();
            let value = self
                .expressions
                .get(name.trim())
                .ok_or_else(|| format!("unknown expression {name}"))
                .unwrap();
            out = out + before + value;
            rest = after;
        }
        out + rest
    }

    fn set(&mut self, name: &str, value: &str) {
        self.expressions.insert(name.to_owned(), value.to_owned());
    }

    /// Runs all blocks of the action until one fails.
    fn action(&mut self) -> Output {
        let mut last = None;
        for (_, run, env) in blocks(ACTION) {
            let output = self.bash(&run, &env);
            let ended = !output.status.success();
            last = Some(output);
            if ended {
                break;
            }
        }
        last.unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.desk.path(name)).unwrap_or_default()
    }
}

#[test]
fn the_action_is_green_for_a_run_that_conforms_and_red_with_its_words_for_one_that_does_not() {
    let mut runner = Runner::new();
    let mut wrong = record();
    fail(&mut wrong.trials[0], Stage::Fc1, Verdict::Fail, "a scale byte");
    for (name, run) in [
        ("repository/base line.json", &record()),
        ("repository/run.json", &record()),
        ("repository/wrong.json", &wrong),
    ] {
        runner.desk.record(name, run);
    }
    runner.set("inputs.baseline", "base line.json");
    runner.set("inputs.arguments", "--from\nrun.json\n");
    let output = runner.action();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(runner.read("log").contains("sm121probe toolkit install latest nvrtc"), "{}", runner.read("log"));
    assert!(
        runner.read("log").contains("cargo build --release --locked --manifest-path"),
        "{}",
        runner.read("log")
    );
    assert_eq!(runner.read("GITHUB_OUTPUT"), "code=0\n");
    assert!(runner.read("GITHUB_STEP_SUMMARY").contains("conforms"));
    assert!(runner.read("repository/sm121probe.sarif").contains("\"results\": []"));
    assert!(runner.read("repository/sm121probe.xml").starts_with("<?xml"));
    runner.set("inputs.arguments", "--from\nwrong.json");
    let output = runner.action();
    assert_eq!(output.status.code(), Some(100), "{}", said(&output));
    assert!(
        said(&output).contains("::error title=sm121probe%3A trial tiny-exact 128x32x128"),
        "{}",
        said(&output)
    );
    assert!(runner.read("GITHUB_OUTPUT").ends_with("code=100\n"));
    runner.set("inputs.baseline", "not there.json");
    let output = runner.action();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn the_kernel_workflow_names_what_changed_and_runs_what_that_affects() {
    let mut runner = Runner::new();
    let git = |runner: &mut Runner, script: &str| {
        let setup = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.invalid GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.invalid; ";
        let output = runner.bash(&format!("{setup}{script}"), &BTreeMap::new());
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    fs::create_dir(runner.desk.path("repository/kernels")).unwrap();
    fs::copy(root().join("kernels/permute.cu"), runner.desk.path("repository/kernels/permute.cu")).unwrap();
    let base = git(&mut runner, "git init -q -b main .; git add .; git commit -q -m one; git rev-parse HEAD");
    runner.desk.write("repository/kernels/notes and more.md", "words\n");
    runner.desk.write("repository/kernels/a header.cuh", "// words\n");
    runner.desk.write("repository/readme.md", "words\n");
    git(&mut runner, "git add .; git commit -q -m two");
    runner.set("github.event.pull_request.base.sha", &base);
    let (name, run, env) = blocks(".github/examples/kernels.yml").remove(0);
    assert_eq!(name, "what changed");
    let output = runner.bash(&run, &env);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(runner.read("GITHUB_OUTPUT"), "files<<END_OF_FILES\nkernels/a header.cuh\nEND_OF_FILES\n");
    // GitHub's expansion of such a list is the action's input. A file that is no kernel leaves nothing to check.
    runner.set("inputs.changed", "kernels/notes and more.md\n");
    runner.set("inputs.kernels", "kernels");
    let output = runner.action();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(
        said(&output).contains("notes and more.md: no kernel of kernels, affects nothing"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("NOTHING CHECKED: "), "{}", said(&output));
    runner.set("inputs.incomplete", "pass");
    assert_eq!(runner.action().status.code(), Some(0));
    assert!(runner.read("GITHUB_OUTPUT").ends_with("code=4\n"));
}

#[test]
fn the_other_blocks_run() {
    let mut runner = Runner::new();
    fs::copy(runner.desk.path("wrapped"), runner.desk.path("bin/sm121probe")).unwrap();
    let mut count = 0;
    for (name, run, env) in blocks(".github/examples/gpu.yml") {
        let output = runner.bash(&run, &env);
        assert!(output.status.success(), "{name}: {}", said(&output));
        count += 1;
    }
    assert_eq!(count, 2);
    let log = runner.read("log");
    assert!(
        log.contains("sm121probe doctor") && log.contains("sm121probe moe --device gpu:0 --case tiny-exact"),
        "{log}"
    );
    // Everything is a script of this repository.
    let (_, run, _) = blocks(".github/workflows/ci.yml").remove(0);
    assert_eq!(run.trim(), ".ci/run \"$PART\"");
    let parts = &yaml(".github/workflows/ci.yml")["jobs"]["part"]["strategy"]["matrix"]["part"];
    let parts: Vec<&str> = parts.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
    let script = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(script.contains(&format!("set -- {}\n", parts.join(" "))), "{parts:?}");
}

#[test]
fn gitlab_and_pre_commit_run_what_changed() {
    let mut runner = Runner::new();
    fs::copy(runner.desk.path("wrapped"), runner.desk.path("bin/sm121probe")).unwrap();
    // A git that names the changed files.
    runner.desk.write("bin/git", "#!/bin/bash\nprintf 'kernels/a b.md\\nkernels/c.md\\n'\n");
    fs::set_permissions(runner.desk.path("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(runner.desk.path("repository/kernels")).unwrap();
    fs::copy(root().join("kernels/permute.cu"), runner.desk.path("repository/kernels/permute.cu")).unwrap();
    let job = yaml(".github/examples/gitlab-ci.yml")["sm121probe"].clone();
    let lines = |key: &str| {
        job[key].as_array().unwrap().iter().map(|l| l.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let script = [lines("before_script"), lines("script")].concat().join("\n");
    let env = BTreeMap::from([("CI_MERGE_REQUEST_DIFF_BASE_SHA".to_owned(), "abc".to_owned())]);
    let output = runner.bash(&script, &env);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let log = runner.read("log");
    assert!(
        log.contains(
            "gate --kernels kernels --junit sm121probe.xml --changed=kernels/a b.md --changed=kernels/c.md"
        ),
        "{log}"
    );
    let hook = yaml(".github/examples/pre-commit-config.yaml")["repos"][0]["hooks"][0].clone();
    let files = regex::Regex::new(hook["files"].as_str().unwrap()).unwrap();
    assert!(
        files.is_match("kernels/gemm.cuh")
            && files.is_match("kernels/sub/x.cu")
            && !files.is_match("src/kernels/x.cu")
    );
    let script = format!("{} 'kernels/a b.md' kernels/c.md", hook["entry"].as_str().unwrap());
    let output = runner.bash(&script, &BTreeMap::new());
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("a b.md: no kernel of kernels"), "{}", said(&output));
}

#[test]
fn a_line_that_fails_fails_its_block() {
    let mut runner = Runner::new();
    let output = runner.bash("false\necho on\n", &BTreeMap::new());
    assert!(!output.status.success() && !said(&output).contains("on"));
    let output = runner.bash("echo \"$NOT_SET\"\n", &BTreeMap::new());
    assert!(!output.status.success());
}
