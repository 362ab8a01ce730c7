//! Rules for the tree itself: the order of modules, opening lines, file length, embedded files.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod circles;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sm121probe::record::{CheckResult, Record, Standing, Verdict};

/// Folders whose modules may use only modules before them in the list; Cargo orders the crates.
const MODULES: [(&str, &[&str]); 4] = [
    ("crates/cuda/src", &["status", "program", "device", "libraries", "api", "preload"]),
    ("crates/toolchain/src", &["event", "near", "header", "store", "worker", "snippet", "toolkit", "matrix"]),
    ("crates/pipeline/src", &["kernel", "frame", "product", "kv_cache", "attention", "moe", "families"]),
    (
        "src",
        &[
            "assumptions",
            "selftest",
            "doctor",
            "lint",
            "lookup",
            "execute",
            "mutants",
            "bench",
            "audit",
            "gate",
            "job",
            "report",
            "cli",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path, ending));
        } else if path.extension().is_some_and(|e| e == ending) {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// The module of a file below `folder`.
fn module_of(folder: &str, path: &Path) -> String {
    let inside = path.strip_prefix(root().join(folder)).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Modules that a text names by `crate::…`, including inline paths and grouped imports.
fn modules_named(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut out = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + 7..];
        match rest.strip_prefix('{') {
            Some(group) => {
                let end = group.find(';').unwrap_or(group.len());
                let mut depth = 0;
                let mut item = String::new();
                for c in group[..end].chars() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            out.insert(word(item.trim()));
                            item.clear();
                        }
                        _ => {}
                    }
                    if depth == 0 && c != ',' {
                        item.push(c);
                    }
                }
                out.insert(word(item.trim()));
            }
            None => {
                out.insert(word(rest));
            }
        }
    }
    out
}

#[test]
fn modules_use_earlier_modules_only() {
    for (folder, modules) in MODULES {
        let place = |module: &str| modules.iter().position(|m| *m == module);
        for path in files(&root().join(folder), "rs") {
            let module = module_of(folder, &path);
            if ["lib", "main"].contains(&module.as_str()) {
                continue;
            }
            let own = place(&module).unwrap_or_else(|| panic!("{module} is not in the list of modules"));
            for used in modules_named(&fs::read_to_string(&path).unwrap()) {
                let Some(other) = place(&used) else { continue };
                assert!(other <= own, "{}: {module} uses {used}, which is later", path.display());
            }
        }
    }
}

#[test]
fn the_order_test_sees_every_way_to_name_a_module() {
    let named = modules_named(
        "use crate::{a::{b, c}, d};\nlet x = crate::e::f();\nuse crate::g;\nmacro!(crate::h::i)",
    );
    assert_eq!(named, ["a", "d", "e", "g", "h"].map(str::to_owned).into_iter().collect());
}

/// Renderers of the result of one module, besides those of the record, and of the tables that only the MoE pipeline has.
const RENDERERS: [(&str, &[&str]); 8] = [
    ("report/lookup.rs", &["lookup"]),
    ("report/bench.rs", &["kernel", "moe"]),
    ("report/survey.rs", &["moe"]),
    ("report/tactics.rs", &["moe"]),
    ("report/exec.rs", &["job"]),
    ("report/gate", &["gate", "mutants"]),
    ("report/lint", &["lint"]),
    ("report/selftest.rs", &["selftest"]),
];

#[test]
fn report_knows_the_record_alone() {
    for path in files(&root().join("src/report"), "rs") {
        let text = fs::read_to_string(&path).unwrap();
        for used in modules_named(&text) {
            let of_result = RENDERERS.iter().any(|(place, modules)| {
                path.starts_with(root().join("src").join(place)) && modules.contains(&used.as_str())
            });
            let allowed = of_result || ["record", "near", "report"].contains(&used.as_str());
            assert!(
                allowed,
                "{}: uses {used}; a renderer is a pure function of what it shows",
                path.display()
            );
        }
        for other in ["emulator::", "numerics::", "vectors::"] {
            assert!(
                !text.contains(other),
                "{}: uses {other}, a renderer needs the record alone",
                path.display()
            );
        }
    }
}

#[test]
fn every_file_opens_with_its_duty() {
    for folder in ["src", "tests", "benches", "crates"] {
        for path in files(&root().join(folder), "rs") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("//! "), "{} does not open with a //! line on its duty", path.display());
        }
    }
}

#[test]
fn special_words_stay_in_their_module() {
    let crates =
        files(&root().join("crates"), "rs").into_iter().filter(|p| p.iter().any(|part| part == "src"));
    for path in files(&root().join("src"), "rs").into_iter().chain(crates) {
        let text = fs::read_to_string(&path).unwrap();
        for (word, home) in [
            ("serde_yaml", "crates/toolchain/src/header"),
            ("miette", "src/cli"),
            ("indicatif", "src/cli"),
            ("cudarc", "crates/gpu/src"),
            ("println!", "src/cli"),
            ("rayon::Thread", "src/job"),
        ] {
            let at_home = [root().join(home), root().join(home).with_extension("rs")]
                .iter()
                .any(|h| path.starts_with(h));
            // A doc comment may name a crate.
            let code: String =
                text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
            assert!(
                at_home || !code.contains(word),
                "{} says {word}; that belongs to {home}",
                path.display()
            );
        }
        assert!(
            !text.contains("unsafe {")
                || path.ends_with("toolkit/nvrtc/binding.rs")
                || path.ends_with("gpu/src/driver.rs")
                || path.starts_with(root().join("crates/c/"))
                || path.starts_with(root().join("crates/cuda"))
                || path.starts_with(root().join("crates/python")),
            "{}: unsafe belongs to gpu/, the NVRTC binding, crates/c, crates/cuda and crates/python",
            path.display()
        );
    }
}

#[test]
fn the_binary_carries_the_snippets_on_disk() {
    let folder = root().join("ptx_snippets");
    let on_disk: Vec<(String, String)> = files(&folder, "ptx")
        .iter()
        .map(|p| (p.strip_prefix(root()).unwrap().display().to_string(), fs::read_to_string(p).unwrap()))
        .collect();
    let embedded: Vec<_> = data::SNIPPETS.files().collect();
    assert_eq!(on_disk.len(), embedded.len());
    for ((path, text), (name, carried)) in on_disk.iter().zip(embedded) {
        assert_eq!((path.as_str(), text.as_str()), (name, carried));
    }
}

#[test]
fn the_built_in_snippets_have_no_problems() {
    let library = sm121probe::snippet::Library::embedded();
    let problems: Vec<String> = library.problems.iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let unclaimed: Vec<&str> =
        library.snippets.iter().filter(|s| s.header.claims.is_empty()).map(|s| s.stem.as_str()).collect();
    assert!(unclaimed.is_empty(), "snippets without a claim: {unclaimed:?}");
}

/// The lines of a section of a manifest, each with its key; inline tables must be on one line.
fn keys<'a>(manifest: &'a str, section: &str) -> Vec<&'a str> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let key =
        |line: &'a str| line.split(['=', '.', ' ']).next().filter(|k| !k.is_empty() && !k.starts_with('#'));
    lines.filter_map(key).collect()
}

/// Whether a text uses a crate: `name::` or `use name`, as a whole word.
fn uses(text: &str, name: &str) -> bool {
    let name = name.replace('-', "_");
    text.match_indices(&name).any(|(at, _)| {
        let whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let after = &text[at + name.len()..];
        whole && (after.starts_with("::") || (text[..at].ends_with("use ") && after.starts_with([';', ' '])))
    })
}

/// Crates that are built with the command but not linked into it: `exec` loads their libraries into programs.
const BUILT_BESIDE: [&str; 1] = ["cuda"];

#[test]
fn no_file_that_a_run_has_kept_lies_in_the_root() {
    let known = ["md", "toml", "lock", "rs", ""];
    let ending = |path: &Path| path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let kept: Vec<PathBuf> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !known.contains(&ending(path).as_str()))
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
}

/// Crates that are named for their features alone, so that `cargo test` compiles nothing again (`.ci/built-once`).
const FOR_FEATURES: [&str; 7] =
    ["getrandom", "hashbrown", "num-complex", "num-integer", "num-traits", "regex-automata", "syn"];

#[test]
fn every_dependency_is_used_where_it_is_declared() {
    let mut folders = vec![root().to_owned()];
    folders.extend(fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path()));
    for folder in folders {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let text = |places: &[&str]| -> String {
            let of = |place: &&str| match folder.join(place) {
                file if file.is_file() => vec![file],
                below if below.is_dir() => files(&below, "rs"),
                _ => Vec::new(),
            };
            let paths: Vec<PathBuf> = places.iter().flat_map(of).collect();
            paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
        };
        for (section, places) in [
            ("[dependencies]", &["src"][..]),
            ("[build-dependencies]", &["build.rs"]),
            ("[dev-dependencies]", &["src", "tests", "benches", "examples", "README.md"]),
        ] {
            let text = text(places);
            for name in keys(&manifest, section) {
                assert!(
                    uses(&text, name) || BUILT_BESIDE.contains(&name) || FOR_FEATURES.contains(&name),
                    "{}: {section} {name} is not used",
                    folder.display()
                );
            }
        }
    }
    assert!(uses("use a;\nb_c::d", "a") && uses("b_c::d", "b-c") && !uses("use ab;\nxb_c::d", "b-c"));
    assert_eq!(keys("[a]\nx = 1\n# no\n[b]\ny.workspace = true\n\nz = {}\n[c]", "[b]"), ["y", "z"]);
}

/// Crates with several versions in the lock file, each because some dependency still needs the older one.
const SEVERAL_VERSIONS: [&str; 8] = [
    "getrandom",
    "hashbrown",
    "r-efi",
    "regex-syntax",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-width",
];

#[test]
fn the_lock_file_has_one_source_and_one_version_of_each_crate() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let values = |key: &str| -> Vec<String> {
        let start = format!("{key} = \"");
        let value = |line: &str| line.strip_prefix(&start).map(|v| v.trim_end_matches('"').to_owned());
        lock.lines().filter_map(value).collect()
    };
    let sources: BTreeSet<String> = values("source").into_iter().collect();
    assert!(sources.len() == 1 && sources.iter().all(|s| s.starts_with("registry+")), "{sources:?}");
    let names = values("name");
    let several: BTreeSet<&str> =
        names.iter().filter(|n| names.iter().filter(|m| m == n).count() > 1).map(String::as_str).collect();
    assert_eq!(several, BTreeSet::from(SEVERAL_VERSIONS), "say in SEVERAL_VERSIONS which are meant");
}

/// Licences that allow the distribution of the binary.
const LICENCES: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Whether an SPDX expression is satisfied by [`LICENCES`]; older manifests write `/` for `OR`.
fn is_free(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], "").replace('/', " OR ");
    let one = |licence: &str| LICENCES.contains(&licence.trim());
    flat.split(" AND ").all(|all| all.split(" OR ").any(one))
}

/// The library's constructor and its functions would be part of the tool, and of its tests: a program under `exec` that contains them has
/// two drivers, of which each leads to the other.
#[test]
fn the_tool_does_not_contain_the_library_of_exec() {
    let names_in = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        // Names in the table of strings.
        b"\0cudaDeviceGetAttribute\0".len() <= bytes.len()
            && bytes.windows(24).any(|window| window == b"\0cudaDeviceGetAttribute\0")
    };
    let tool = Path::new(env!("CARGO_BIN_EXE_sm121probe"));
    assert!(!names_in(tool), "something in src/ uses a name of the crate `cuda`: move what both need");
    assert!(names_in(&tool.with_file_name("libsm121probe_cuda.so")));
}

#[test]
fn every_dependency_has_a_licence_that_lets_it_be_passed_on() {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let asked = ["metadata", "--format-version=1", "--locked", "--filter-platform", &host];
    let out = std::process::Command::new(env!("CARGO")).args(asked).current_dir(root()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_free(licence), "{} {}: licence {licence:?}", package["name"], package["version"]);
    }
    assert!(is_free("MIT/Apache-2.0") && is_free("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!is_free("GPL-3.0") && !is_free("") && !is_free("MIT AND GPL-3.0"));
}

#[test]
fn a_suite_with_a_main_of_its_own_is_declared_so() {
    let mut folders = vec![root().to_owned()];
    folders.extend(fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path()));
    let mut seen = 0;
    for folder in folders {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for (kind, below) in [("test", "tests"), ("bench", "benches")] {
            let suites = fs::read_dir(folder.join(below)).into_iter().flatten().map(|e| e.unwrap().path());
            let roots = suites.map(|path| if path.is_dir() { path.join("main.rs") } else { path });
            for path in roots.filter(|path| path.extension().is_some_and(|e| e == "rs") && path.is_file()) {
                let text = fs::read_to_string(&path).unwrap();
                if !text.lines().any(|line| line.starts_with("fn main()")) {
                    continue;
                }
                let stem = if path.ends_with("main.rs") { path.parent().unwrap() } else { &path };
                let name = stem.file_stem().unwrap().to_string_lossy();
                let sections = manifest.split("\n[").map(|s| s.trim_end_matches(']'));
                // With libtest's harness, its own main would not run, and none of its tests.
                let declared = sections
                    .filter(|s| s.starts_with(&format!("[{kind}]]")))
                    .any(|s| s.contains(&format!("name = \"{name}\"")) && s.contains("harness = false"));
                assert!(declared, "{}: its {kind} section lacks `harness = false`", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "{seen}");
}

/// Files of a folder, including subfolders, that no `mod` names. `parent` declares its files.
fn undeclared(parent: &Path, folder: &Path) -> Vec<PathBuf> {
    let declarations = fs::read_to_string(parent).unwrap();
    let declares =
        |name: &str| declarations.lines().any(|line| line.trim_end().ends_with(&format!("mod {name};")));
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|e| e == "rs") && path != parent);
    let lost = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let below = path.with_extension("");
        let below = if below.is_dir() { undeclared(&path, &below) } else { Vec::new() };
        if declares(&name) { below } else { vec![path] }
    };
    files.flat_map(lost).collect()
}

#[test]
fn every_file_of_the_product_s_tests_is_part_of_their_binary() {
    let folder = root().join("tests/product");
    assert_eq!(undeclared(&folder.join("main.rs"), &folder), Vec::<PathBuf>::new());
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("a")).unwrap();
    for (name, text) in
        [("main.rs", "mod a;\n// mod b is not here\n"), ("a.rs", ""), ("a/c.rs", ""), ("b.rs", "")]
    {
        fs::write(other.path().join(name), text).unwrap();
    }
    let mut lost = undeclared(&other.path().join("main.rs"), other.path());
    lost.sort();
    assert_eq!(lost, [other.path().join("a/c.rs"), other.path().join("b.rs")]);
}

#[test]
fn documents_name_files_that_exist() {
    let documents = files(&root().join("docs"), "md").into_iter();
    let documents = documents.chain(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    let mut named = 0;
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        for file in text.split('`').filter(|word| word.starts_with("src/") || word.starts_with("crates/")) {
            if is_pattern(file) {
                continue;
            }
            assert!(root().join(file).exists(), "{} names {file}, which is not there", path.display());
            named += 1;
        }
    }
    assert!(named > 100, "{named}");
}

/// Whether a path in a document is a pattern, such as `crates/NAME` or `src/*.rs`.
fn is_pattern(path: &str) -> bool {
    path.contains(|c: char| c.is_uppercase() || "*{ …".contains(c))
}

/// In a row of a table, a name without a folder is in the folder of the file before it.
#[test]
fn the_architecture_names_files_by_their_folder() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut named = 0;
    for row in text.lines().filter(|line| line.starts_with('|')) {
        let mut folder = None;
        for word in row.split('`').skip(1).step_by(2) {
            let top = word.split_once('/').is_some_and(|(top, _)| root().join(top).is_dir());
            if top {
                folder = word.rsplit_once('/').map(|(folder, _)| folder);
            } else if (word.ends_with(".rs") || word.ends_with('/')) && !is_pattern(word) {
                let folder = folder.unwrap_or_else(|| panic!("{word} follows no file: {row}"));
                assert!(root().join(folder).join(word).exists(), "{folder} has no {word}: {row}");
                named += 1;
            }
        }
    }
    assert!(named > 50, "{named}");
}

#[test]
fn the_architecture_lists_what_each_crate_uses() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `crates/")?.split_once("` | "));
    let rows: Vec<_> = rows.filter(|(_, rest)| rest.matches('|').count() == 2).collect();
    let crates: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let folders = fs::read_dir(root().join("crates")).unwrap().count();
    assert_eq!(crates.len(), folders, "{crates:?}");
    for (name, rest) in &rows {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap_or_default();
        let of = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
        let direct: BTreeSet<String> = section
            .lines()
            .map(of)
            .filter(|name| crates.contains(&name.as_str()) || name == "sm121probe")
            .map(|name| if name == "sm121probe" { "src/".to_owned() } else { name })
            .collect();
        let listed = rest.split('|').nth(1).unwrap().split('`').skip(1).step_by(2);
        assert_eq!(listed.map(str::to_owned).collect::<BTreeSet<_>>(), direct, "crates/{name}");
    }
}

#[test]
fn documents_state_the_figures_of_the_committed_records() {
    let matrix = Record::read(&root().join("reports/matrix.json")).unwrap().matrix;
    let targets: BTreeSet<_> = matrix.pairs.iter().map(|pair| pair.target).collect();
    let (toolkits, variants) = (matrix.toolkits.len(), matrix.variants.len());
    let cells: usize = matrix.variants.iter().map(|v| v.answered()).sum();
    let standing = |of| matrix.claims.iter().filter(|claim| claim.standing == of).count();
    let versions = (matrix.toolkits[0].version, matrix.toolkits[toolkits - 1].version);
    let h100 = Record::read(&root().join("reports/h100/run.json")).unwrap();
    let all_pass = |checks: &[CheckResult]| {
        !checks.is_empty() && checks.iter().all(|check| check.verdict == Verdict::Pass)
    };
    let passed = h100.trials.iter().filter(|t| t.device == "gpu:0" && all_pass(&t.checks)).count();
    let run = h100.runs.iter().filter(|run| all_pass(&run.checks)).count();
    let readme = [
        format!("Assembles {variants} variants"),
        format!("{toolkits} toolkits, {} targets and {cells} cells", targets.len()),
        format!("of {variants} variants differently"),
        format!("{} to {}", versions.0, versions.1),
        format!(
            "{} sourced claims are checked: {} confirmed, {} refuted, {} untested",
            matrix.claims.len(),
            standing(Standing::Confirmed),
            standing(Standing::Refuted),
            standing(Standing::Untested)
        ),
        format!("{passed} trials of the default set"),
        format!("{run} snippet variants, all checks passed"),
    ];
    let document = [
        format!("{toolkits} ptxas releases,"),
        format!("{} to {}), {} targets and {variants} variants", versions.0, versions.1, targets.len()),
    ];
    for (file, figures) in [("README.md", &readme[..]), ("docs/matrix.md", &document[..])] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        // The documents write 291,200.
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace(',', "");
        let text = plain(&text);
        for figure in figures {
            assert!(text.contains(&plain(figure)), "{file} does not say: {figure}");
        }
    }
}
