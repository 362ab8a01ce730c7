//! Architecture tests in sources: planted faults are found, their legal twins are not, and what instructions need agrees with the matrix.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ptx::arch::{Suffix, Target};
use ptx::scan::instructions;
use sm121probe::lint::{GateRow, GateRule, Need, lint_text, need};
use sm121probe::record::{Outcome, Record};
use sm121probe::snippet::Library;

const CVT: &str = "asm(\"cvt.rn.satfinite.e2m1x2.f32 %0, %1, %2;\" : \"=h\"(d) : \"f\"(a), \"f\"(b));";
const TCGEN: &str = "asm volatile(\"tcgen05.fence::before_thread_sync;\");";

fn found(file: &str, text: &str) -> Vec<GateRow> {
    lint_text(file, text).1
}

fn rules(file: &str, text: &str) -> Vec<(usize, GateRule)> {
    found(file, text).iter().map(|row| (row.line, row.rule)).collect()
}

/// A file's name, a faulty text with the line and rule of its finding, and legal twins of it.
type Planted<'a> = (&'a str, String, usize, GateRule, Vec<String>);

fn guarded(condition: &str, code: &str) -> String {
    format!("{condition}\n{code}\n#endif\n")
}

fn planted() -> Vec<Planted<'static>> {
    use GateRule::{Absent, NeedsSuffix, NoFamily, OneBuild, OneDevice};
    let text = |s: &str| s.to_owned();
    vec![
        (
            "a.cu",
            text("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1200\nint x;\n#endif\n"),
            1,
            OneDevice,
            vec![
                text("#if __CUDA_ARCH__ == 1200 || __CUDA_ARCH__ == 1210\nint x;\n#endif\n"),
                text("#if __CUDA_ARCH__ >= 1200 && __CUDA_ARCH__ < 1300\nint x;\n#endif\n"),
                text("#if __CUDA_ARCH__ == 1200\nint x;\n#elif __CUDA_ARCH__ == 1210\nint y;\n#endif\n"),
                text("// #if __CUDA_ARCH__ == 1200\nint x;\n/* #if __CUDA_ARCH__ == 1200\n#endif */\n"),
                text("// not yet on GB10\n#if __CUDA_ARCH__ == 1200\nint x;\n#endif\n"),
                text("#if __CUDA_ARCH__ == 1200\n#define PROJECT_SM120_ENABLED 1\n#endif\n"),
                text("#if __CUDA_ARCH__ == 1000\nint x;\n#endif\nint y = 1200;\n"),
            ],
        ),
        (
            "b.cpp",
            text("if (props.major == 12 && props.minor == 0) {\n  run();\n}\n"),
            1,
            OneDevice,
            vec![
                text("if (props.major == 12 && (props.minor == 0 || props.minor == 1)) { run(); }\n"),
                text("if (props.major == 12) { run(); }\n"),
                text("if (cuda_version.major == 12 && cuda_version.minor == 0) { run(); }\n"),
                text("if (timeout == 120 || head_dim == 120) { run(); }\n"),
                text("if (sm == 120 && head_dim == 128 && tokens <= 64) { tile = 3; }\n"),
                text("if (10 * props.major + props.minor >= 120) { run(); }\n"),
            ],
        ),
        (
            "c.py",
            text("def ok(device):\n    return torch.cuda.get_device_capability(device) == (12, 0)\n"),
            2,
            OneDevice,
            vec![
                text(
                    "def ok(device):\n    return torch.cuda.get_device_capability(device) in ((12, 0), (12, 1))\n",
                ),
                text("def ok(device):\n    return torch.cuda.get_device_capability(device)[0] == 12\n"),
                text("def ok(device):\n    return torch.cuda.get_device_capability(device) >= (12, 0)\n"),
                text(
                    "def ok(sm):\n    if sm == 120:\n        return 1\n    elif sm == 121:\n        return 2\n",
                ),
                text("def ok(sm):\n    return sm // 10 == 12\n"),
                text("'''sm_version == 120'''\nx = 'sm == 120'\n"),
            ],
        ),
        (
            "d.py",
            text("SUPPORTED = sm_version in [\n    80,\n    90,\n    120,\n]\n"),
            1,
            OneDevice,
            vec![
                text("SUPPORTED = sm_version in [80, 90, 120, 121]\n"),
                text("SIZES = size in [80, 90, 120]\n"),
            ],
        ),
        (
            "sm.py",
            "device = torch.cuda.current_device()\nsm = get_sm(device)\nok = sm == 120\n".to_owned(),
            3,
            OneDevice,
            vec![
                text("def template(sm):\n    return 'a' if sm == 120 else 'b'\n"),
                text("for arch in (80, 90, 120):\n    build(arch)\n"),
                text("is_large = gemm.arch == 120 or profile.sm_version == 120\n"),
            ],
        ),
        (
            "e.py",
            text("if not (major == 12 and minor == 0):\n    raise RuntimeError\n"),
            1,
            OneDevice,
            vec![text("if not (major == 12 and minor in (0, 1)):\n    raise RuntimeError\n")],
        ),
        (
            "f.cuh",
            text(
                "#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)\nint x;\n#endif\n",
            ),
            1,
            NoFamily,
            vec![
                text(
                    "#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || (__CUDA_ARCH_FAMILY_SPECIFIC__ >= 1200)\nint x;\n#endif\n",
                ),
                text(
                    "#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)\n#define X 1\n#endif\n\
                     #if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1200 || __CUDA_ARCH_FAMILY_SPECIFIC__ == 1210\n#define X 1\n#endif\n",
                ),
                guarded(
                    "#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)",
                    "asm(\"mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale\");",
                ),
            ],
        ),
        (
            "g.cuh",
            guarded("#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 1000)", CVT),
            1,
            NeedsSuffix,
            vec![
                guarded("#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && (__CUDA_ARCH__ >= 1000)", CVT),
                guarded("#if __CUDA_ARCH__ >= 1000 && defined(PROJECT_HAS_FP4)", CVT),
                guarded("#if __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200", CVT),
                guarded(
                    "#if __CUDA_ARCH__ >= 1000",
                    "asm(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\");",
                ),
                guarded("#if __CUDA_ARCH__ >= 1000\nint x;\n#else", CVT),
            ],
        ),
        (
            "h.cuh",
            guarded("#if __CUDA_ARCH__ >= 1000", TCGEN),
            1,
            Absent,
            vec![
                guarded("#if __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200", TCGEN),
                guarded("#if __CUDA_ARCH__ >= 1200\nint x;\n#elif __CUDA_ARCH__ >= 1000", TCGEN),
                guarded("#if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000", TCGEN),
            ],
        ),
        (
            "CMakeLists.txt",
            text("set(CMAKE_CUDA_ARCHITECTURES \"90a;100a;120a\")\n"),
            1,
            OneBuild,
            vec![
                text("set(CMAKE_CUDA_ARCHITECTURES \"90a;100a;120f\")\n"),
                text("set(CMAKE_CUDA_ARCHITECTURES \"90a;120a;121a\")\n"),
                text("set(CMAKE_CUDA_ARCHITECTURES 90 120)\n"),
                text("# set(CMAKE_CUDA_ARCHITECTURES \"120a\")\n"),
                text("set(TIMEOUT 120a)\n"),
            ],
        ),
        (
            "i.py",
            text("FLAGS = [\n    \"-gencode=arch=compute_120a,code=sm_120a\",\n]\n"),
            2,
            OneBuild,
            vec![
                text("FLAGS = [\"-gencode=arch=compute_120f,code=sm_120f\"]\n"),
                text(
                    "A = \"-gencode=arch=compute_120a,code=sm_120a\"\nB = \"-gencode=arch=compute_121a,code=sm_121a\"\n",
                ),
                text("FLAGS = [\"-gencode=arch=compute_120,code=sm_120\"]\n"),
            ],
        ),
        (
            "BUILD.bazel",
            text("copts = [\"-gencode=arch=compute_121a,code=sm_121a\"]\n"),
            1,
            OneBuild,
            vec![text("copts = [\"-gencode=arch=compute_120f,code=sm_120f\"]\n")],
        ),
    ]
}

#[test]
fn planted_tests_are_found_and_their_legal_twins_are_not() {
    for (file, wrong, line, rule, legal) in planted() {
        assert_eq!(rules(file, &wrong), [(line, rule)], "{file}:\n{wrong}");
        for text in legal {
            assert_eq!(found(file, &text), [], "{file}:\n{text}");
        }
    }
}

#[test]
fn a_row_says_who_passes_and_what_is_guarded() {
    let rows = found("x.cu", &guarded("  #  if (__CUDA_ARCH__ >= 1200) \\\n   && 1", CVT));
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.line, row.column), (1, 9));
    assert_eq!(row.text, "(__CUDA_ARCH__ >= 1200) && 1");
    assert_eq!((row.admits.len(), row.shuts_out.len()), (6, 0));
    assert_eq!(row.instructions, ["cvt.rn.satfinite.e2m1x2.f32"]);
    let rows = found("x.py", "x = arch == 120\n");
    assert_eq!(rows[0].admits, ["sm_120".parse::<Target>().unwrap()]);
    assert_eq!(rows[0].shuts_out, ["sm_121".parse::<Target>().unwrap()]);
}

#[test]
fn odd_text_is_no_error() {
    let odd = [
        "",
        "#if",
        "#if (",
        "#elif __CUDA_ARCH__ == 1200",
        "#endif\n#endif",
        "#if __CUDA_ARCH__ == 1200",
        "((((12 == sm",
        "sm == 120 ==",
        "x[(12, 0)] in",
        "'''sm == 120",
        "\"sm == 120",
        "R\"(",
        "é == 120 && sm",
        "/* 120",
        "sm==120)",
        "#define X(a) \\\n  a == 120 \\",
        "if (sm == 120) ? : ;",
        "arch in {",
        "120 < sm <",
        "defined(",
        "#if defined(\n",
    ];
    for text in odd {
        for file in ["a.cu", "a.py", "CMakeLists.txt", "a.bzl", "a.txt"] {
            let _ = lint_text(file, text);
            let _ = lint_text(file, &format!("{text}\n{text} {text}"));
        }
    }
    assert_eq!(lint_text("a.md", "sm == 120"), (0, Vec::new()));
}

#[test]
fn what_instructions_need_agrees_with_the_committed_matrix() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/matrix.json");
    let record = Record::read(&path).unwrap();
    let matrix = &record.matrix;
    let newest = matrix.toolkits.last().unwrap().version;
    let library = Library::embedded();
    let targets: Vec<Target> = matrix.targets().into_iter().filter(|t| t.is_sm12x()).collect();
    let mut seen: BTreeMap<Need, (usize, usize)> = BTreeMap::new();
    for variant in &library.variants {
        let Some(row) = matrix.variants.iter().find(|v| v.id == variant.id) else { continue };
        let Some(body) = variant.code.body() else { continue };
        let Some(needs) = instructions(body).iter().filter_map(|i| need(i)).max() else { continue };
        let count = seen.entry(needs).or_default();
        count.0 += 1;
        for target in &targets {
            let accepted = matrix
                .pair(newest, *target, *target)
                .and_then(|pair| matrix.cell(row, pair))
                .is_some_and(|cell| cell.outcome == Outcome::Accepted);
            count.1 += usize::from(accepted);
            assert!(
                !accepted || needs.is_met_by(*target),
                "{} is accepted for {target}: it does not need {needs:?}",
                row.id
            );
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[&Need::Absent].1, 0);
    assert!(seen[&Need::Family].1 > 100 && seen[&Need::Arch].1 > 5, "{seen:?}");
    assert!(Need::Family.is_met_by(Target { number: 121, suffix: Suffix::Family }));
}

#[test]
fn the_command_reports_in_every_form_and_by_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(args).current_dir(dir.path()).output().unwrap()
    };
    fs::create_dir(dir.path().join("src")).unwrap();
    let nothing = run(&["lint", "--gates", "src"]);
    assert_eq!(nothing.status.code(), Some(4), "{}", String::from_utf8_lossy(&nothing.stderr));
    fs::write(dir.path().join("src/good.py"), "ok = major == 12\n").unwrap();
    assert_eq!(run(&["lint", "--gates", "src"]).status.code(), Some(0));
    fs::create_dir(dir.path().join("src/below")).unwrap();
    fs::write(dir.path().join("src/below/bad|`.py"), "ok = arch == 120\n").unwrap();
    for (format, words) in [
        ("text", &["bad|`.py:1:6: one_device", "instead:"][..]),
        ("md", &["|rule|", "one"]),
        ("json", &["\"rule\": \"one_device\"", "\"sm_121\""]),
        ("csv", &["file,line,column,rule,test", "one_device,arch == 120"]),
        ("sarif", &["\"version\":", "bad"]),
    ] {
        let out = run(&["lint", "--gates", "src", "--format", format, "--sarif", "x.sarif"]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(out.status.code(), Some(100), "{format}");
        assert!(words.iter().all(|word| text.contains(word)), "{format}: {text}");
    }
    assert!(fs::read_to_string(dir.path().join("x.sarif")).unwrap().contains("bad"));
    assert_eq!(run(&["lint", "--gates", "src", "x.ptx"]).status.code(), Some(2));
}
