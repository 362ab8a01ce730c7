//! Architecture tests in sources: planted faults are found, legal variants are not, and the needs of instructions agree with the matrix.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ptx::arch::{Suffix, Target};
use ptx::scan::instructions;
use sm121probe::lint::{GateFile, GateRow, GateRule, Need, lint_gates, lint_text, need};
use sm121probe::record::{Outcome, Record};
use sm121probe::snippet::Library;

const CVT: &str = "asm(\"cvt.rn.satfinite.e2m1x2.f32 %0, %1, %2;\" : \"=h\"(d) : \"f\"(a), \"f\"(b));";
const TCGEN: &str = "asm volatile(\"tcgen05.fence::before_thread_sync;\");";

fn found(file: &str, text: &str) -> Vec<GateRow> {
    lint_text(file, text).rows
}

fn rules(file: &str, text: &str) -> Vec<(usize, GateRule)> {
    found(file, text).iter().map(|row| (row.line, row.rule)).collect()
}

/// A file's name, a faulty text with the line and rule of its finding, and legal variants of it.
type Planted<'a> = (&'a str, String, usize, GateRule, Vec<String>);

fn guarded(condition: &str, code: &str) -> String {
    format!("{condition}\n{code}\n#endif\n")
}

#[expect(clippy::too_many_lines, reason = "a list of cases")]
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

/// A file's name, its text, and the lines and rules of its findings.
type Class = (&'static str, String, Vec<(usize, GateRule)>);

#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn classes() -> Vec<Class> {
    use GateRule::{Absent, NeedsSuffix, NoFamily, OneBuild, OneDevice};
    let one = |file, text: &str| (file, text.to_owned(), vec![(1, OneDevice)]);
    let fine = |file, text: &str| (file, text.to_owned(), vec![]);
    let builds = |file, text: &str, line| (file, text.to_owned(), vec![(line, OneBuild)]);
    let block = |text: &str| format!("{text}\nint x;\n#endif\n");
    vec![
        // Numbers in every notation, and 12.1 as an upper bound.
        one("a.cu", &block("#if __CUDA_ARCH__ >= 1200 && __CUDA_ARCH__ < 1210")),
        one("a.cu", &block("#if __CUDA_ARCH__ > 1190 && __CUDA_ARCH__ <= 1200")),
        one("a.cu", &block("#if __CUDA_ARCH__ / 10 == 120")),
        one("a.cu", &block("#if __CUDA_ARCH__ == 1200u")),
        one("a.cu", &block("#if __CUDA_ARCH__ == 1210")),
        one("a.cu", &block("\u{feff}#if __CUDA_ARCH__ == 1200")),
        ("a.cu", block("int n = 1'000;\n#if __CUDA_ARCH__ == 1200"), vec![(2, OneDevice)]),
        one("a.cpp", "ok = sm_version >= 120 && sm_version < 121;\n"),
        fine(
            "a.cu",
            &block("#if __CUDA_ARCH__ >= 1200 && __CUDA_ARCH__ < 1210\nint y;\n#elif __CUDA_ARCH__ >= 1210"),
        ),
        fine("a.cu", &block("// GB10 has less shared memory\n#if __CUDA_ARCH__ == 1210")),
        // Macros of the compiler, by value and by definition.
        one("a.cu", &block("#ifdef __CUDA_ARCH_FEAT_SM120_ALL")),
        one("a.cu", &block("#ifndef __CUDA_ARCH_FEAT_SM120_ALL")),
        one("a.cu", &block("#if __CUDA_ARCH_SPECIFIC__ == 1200")),
        one("a.cu", &block("#if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1200")),
        fine(
            "a.cu",
            &block("#ifdef __CUDA_ARCH_FEAT_SM120_ALL\n#define X\n#endif\n#ifdef __CUDA_ARCH_FEAT_SM121_ALL"),
        ),
        (
            "a.cu",
            guarded("#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)", CVT),
            vec![(1, NoFamily)],
        ),
        // Names defined in the file.
        ("a.cu", block("#define VALUE __CUDA_ARCH__\n#if VALUE == 1200"), vec![(2, OneDevice)]),
        (
            "a.cu",
            block(
                "#ifdef __CUDA_ARCH__\n#define VALUE __CUDA_ARCH__\n#else\n#define VALUE 0\n#endif\n#if VALUE == 1200",
            ),
            vec![(6, OneDevice)],
        ),
        (
            "a.cu",
            "constexpr int kValue = __CUDA_ARCH__;\nif constexpr (kValue == 1200) { f(); }\n".into(),
            vec![(2, OneDevice)],
        ),
        ("a.cuh", guarded("#define HAS (__CUDA_ARCH__ >= 1000)\n#if HAS", CVT), vec![(2, NeedsSuffix)]),
        (
            "a.py",
            "known = [80, 90, 120]\nif sm_version not in known:\n    raise ValueError\n".into(),
            vec![(2, OneDevice)],
        ),
        fine("a.py", "known = [80, 90, 120, 121]\nif sm_version not in known:\n    raise ValueError\n"),
        fine("a.py", "known = [80, 90, 120]\nif size not in known:\n    raise ValueError\n"),
        // Conditions that hold around a test: include guards, the toolkit that SM12x needs, the other branch.
        (
            "a.cuh",
            guarded("#ifndef A_CUH\n#define A_CUH\n#if __CUDA_ARCH__ >= 1000", CVT) + "#endif\n",
            vec![(3, NeedsSuffix)],
        ),
        (
            "a.cuh",
            guarded("#ifdef __CUDA_ARCH__\n#if __CUDA_ARCH__ >= 1000", CVT) + "#endif\n",
            vec![(2, NeedsSuffix)],
        ),
        ("a.cuh", guarded("#if __CUDA_ARCH__ >= 1000 && CUDA_VERSION >= 12080", CVT), vec![(1, NeedsSuffix)]),
        (
            "a.cuh",
            guarded("#if __CUDACC_VER_MAJOR__ >= 12 && (__CUDA_ARCH__ >= 1000)", CVT),
            vec![(1, NeedsSuffix)],
        ),
        fine("a.cuh", &guarded("#if __CUDA_ARCH__ >= 1000 && CUDA_VERSION >= 15000", CVT)),
        fine("a.cuh", &guarded("#ifndef USE_IT\n#if __CUDA_ARCH__ >= 1000", CVT)),
        (
            "a.cuh",
            guarded("#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1000\nint x;\n#else", CVT),
            vec![(1, NeedsSuffix)],
        ),
        ("a.cuh", guarded("#if __CUDA_ARCH__ == 1000\nint x;\n#else", TCGEN), vec![(1, Absent)]),
        // A file full of such code is not compiled for SM12x.
        fine(
            "a.cuh",
            &(TCGEN.to_owned() + "\n" + &guarded("#if __CUDA_ARCH__ == 1000\nint x;\n#else", TCGEN)),
        ),
        fine("a.cu", "#if 0\n#if __CUDA_ARCH__ == 1200\n#endif\nok = sm_version == 120;\n#endif\n"),
        // String literals that the compiler concatenates, and escapes.
        (
            "a.cuh",
            guarded(
                "#if __CUDA_ARCH__ >= 1200",
                "asm(\"mma.sync.aligned.m16n8k64.row.col.\"\n    \"kind::mxf4.block_scale\");",
            ),
            vec![(1, NeedsSuffix)],
        ),
        (
            "a.cuh",
            guarded("#if __CUDA_ARCH__ >= 1000", "asm(\"{\\n\\ttcgen05.fence::before_thread_sync;}\");"),
            vec![(1, Absent)],
        ),
        // Host code.
        one("a.cpp", "check(cc == std::make_pair(12, 0));\n"),
        one("a.py", "ok = compute_capability == 12.0\n"),
        one("a.py", "ok = sm_version / 10 == 12\n"),
        fine("a.py", "ok = sm_version // 10 == 12\n"),
        fine("a.cpp", "ok = sm_version / 10 == 12;\n"),
        one("a.py", "ok = arch == \"sm_120\"\n"),
        fine("a.py", "ok = arch in (\"sm_120a\", \"sm_121a\")\n"),
        one("a.py", "ok = platform.is_device_capability(120)\n"),
        one("a.py", "ok = platform.is_device_capability((12, 0))\n"),
        fine("a.py", "ok = platform.has_device_capability(120)\n"),
        one("a.py", "ok = torch.cuda.get_device_capability() == (12, 1)\n"),
        (
            "a.py",
            "if cc == (12, 0):\n    a()\nif not cc == (12, 0):\n    b()\n".into(),
            vec![(1, OneDevice), (3, OneDevice)],
        ),
        (
            "a.py",
            "major, minor = get_device_capability()\nsm = major * 10 + minor\nok = sm == 120\n".into(),
            vec![(3, OneDevice)],
        ),
        fine(
            "a.py",
            "major, minor = torch.version.cuda.split('.')\nok = int(major) == 12 and int(minor) == 0\n",
        ),
        fine(
            "a.cpp",
            "int major, minor;\nnvrtcVersion(&major, &minor);\nif (major == 12 && minor == 0) f();\n",
        ),
        // Build files.
        builds("a.py", "import os\nos.environ[\"TORCH_CUDA_ARCH_LIST\"] = \"12.0a\"\n", 2),
        builds("a.py", "os.environ.setdefault('TORCH_CUDA_ARCH_LIST', '9.0;12.0a')\n", 1),
        builds("a.py", "args = ['-DCMAKE_CUDA_ARCHITECTURES=120a']\n", 1),
        builds("a.py", "flags = ['-arch', 'sm_120a']\n", 1),
        builds("pyproject.toml", "[tool.cmake.define]\nCMAKE_CUDA_ARCHITECTURES = \"120a\"\n", 2),
        builds("a.cmake", "set(CMAKE_CUDA_ARCHITECTURES 121f)\n", 1),
        builds("a.cmake", "set(CMAKE_CUDA_ARCHITECTURES 121)\n", 1),
        builds(
            "a.cmake",
            "set_target_properties(a b c d e f g h i j k l m PROPERTIES\n  CUDA_ARCHITECTURES\n  120a)\n",
            3,
        ),
        builds("b.bzl", "ARCHS = select({\n    \":blackwell\": [\"sm_120a\"],\n})\n", 2),
        builds("MODULE.bazel", "cuda.archs(archs = \"sm_120a\")\n", 1),
        builds(
            ".bazelrc",
            "build:cuda --repo_env=HERMETIC_CUDA_COMPUTE_CAPABILITIES=sm_90,compute_120a\n",
            1,
        ),
        fine("a.cmake", "set(CMAKE_CUDA_ARCHITECTURES 90 120a 120)\n"),
        fine("a.cmake", "set(CMAKE_CUDA_ARCHITECTURES \"120a-real;121f\")\n"),
        fine("a.cmake", "#[[\nset(CMAKE_CUDA_ARCHITECTURES \"120a\")\n]]\n"),
        fine("a.cmake", "if(\"120a\" IN_LIST CMAKE_CUDA_ARCHITECTURES)\nendif()\n"),
        fine("b.bzl", "cuda(name = \"sm_120a\")\n"),
        one("a.cmake", "if(CUDA_ARCH STREQUAL \"120a\" AND NOT X)\nendif()\n"),
        one("a.cmake", "if(\"${GPU_ARCH}\" VERSION_EQUAL 12.0)\nendif()\n"),
        fine("a.cmake", "if(CUDA_ARCH GREATER_EQUAL 120)\nendif()\n"),
        fine("a.cmake", "if(CUDAToolkit_VERSION VERSION_EQUAL 12.0)\nendif()\n"),
        one("a.cu.jinja", &block("#if __CUDA_ARCH__ == 1200")),
    ]
}

#[test]
fn each_way_to_write_a_test_is_understood() {
    for (file, text, wrong) in classes() {
        assert_eq!(rules(file, &text), wrong, "{file}:\n{text}");
    }
}

#[test]
fn every_test_is_listed_with_whom_it_admits() {
    let found = lint_text(
        "x.py",
        "ok = sm_version >= 120\nno = sm_version < 120\nmay = sm_version >= 120 and flag\n",
    );
    let counts: Vec<_> = found.tests.iter().map(|t| (t.line, t.admits.len(), t.shuts_out.len())).collect();
    assert_eq!(counts, [(1, 2, 0), (2, 0, 2), (3, 0, 0)]);
    assert_eq!(found.rows, []);
}

const MXF4: &str = "asm volatile(\"mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 {%0};\" ::);";

#[test]
fn a_macro_that_is_defined_under_a_test_is_followed_in_the_file_and_in_the_tree() {
    let ways = [
        ("#if __CUDA_ARCH__ >= 1200\n#define HAVE_FP4\n#endif\n", "#ifdef HAVE_FP4"),
        (
            "#if __CUDA_ARCH__ >= 1200\n#define HAVE_FP4 1\n#else\n#define HAVE_FP4 0\n#endif\n",
            "#if HAVE_FP4",
        ),
        (
            "#define CC_NEW 1200\n#if !defined(USE_HIP) && __CUDA_ARCH__ >= CC_NEW\n#define HAVE_FP4\n#endif\n",
            "#if defined(HAVE_FP4)",
        ),
        (
            "#if __CUDA_ARCH__ >= 1200\n#define WIDE 1\n#endif\n#if WIDE\n#define HAVE_FP4 1\n#endif\n",
            "#if HAVE_FP4",
        ),
    ];
    for (defines, uses) in ways {
        let block = guarded(uses, MXF4);
        let own = found("a.cuh", &format!("{defines}{block}"));
        let rules: Vec<_> = own.iter().map(|row| (row.rule, row.through.is_some())).collect();
        assert_eq!(rules, [(GateRule::NeedsSuffix, true)], "{defines}{uses}");
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("have.h"), defines).unwrap();
        fs::write(dir.path().join("use.cu"), &block).unwrap();
        let rows = lint_gates(&[dir.path()], dir.path()).rows;
        let place = rows.first().map(|row| (row.file.ends_with("use.cu"), row.line, row.rule));
        assert_eq!((rows.len(), place), (1, Some((true, 1, GateRule::NeedsSuffix))), "{defines}{uses}");
        // A second header with another definition makes it ambiguous.
        fs::write(dir.path().join("other.h"), "#if __CUDA_ARCH__ >= 900\n#define HAVE_FP4 2\n#endif\n")
            .unwrap();
        assert_eq!(lint_gates(&[dir.path()], dir.path()).rows, [], "{defines}{uses}");
    }
    let legal = guarded("#ifdef HAVE_FP4", MXF4);
    for defines in [
        "#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__)\n#define HAVE_FP4\n#endif\n",
        "#ifdef BUILD_FP4\n#define HAVE_FP4\n#endif\n",
        "#if __CUDA_ARCH__ >= 1200 && defined(BUILD_FP4)\n#define HAVE_FP4\n#endif\n",
    ] {
        assert_eq!(found("a.cuh", &format!("{defines}{legal}")), [], "{defines}");
    }
}

#[test]
fn members_cases_and_lists_are_tests() {
    use GateRule::{OneBuild, OneDevice, Refuses, ShutOut};
    let cvt = |condition: &str| format!("{condition}\n{CVT}\n#endif\n");
    let bad: [(&str, String, usize, GateRule); 17] = [
        ("a.py", "if not arch == Arch.sm_120a:\n    raise E\n".to_owned(), 1, OneDevice),
        ("a.py", "ok = arch_enum in (Arch.sm_120a, Arch.sm_120f)\n".to_owned(), 1, OneDevice),
        ("a.py", "class A:\n    admissible_archs = [Arch.sm_120a]\n    def f(self, arch):\n        ok = arch in self.admissible_archs\n".to_owned(), 4, OneDevice),
        ("a.cpp", "switch (sm_version) {\n  case 90: a(); break;\n  case 120: b(); break;\n  default: c();\n}\n".to_owned(), 3, OneDevice),
        ("a.py", "match sm_version:\n    case 90:\n        a()\n    case 120:\n        b()\n".to_owned(), 4, OneDevice),
        ("a.py", "match capability:\n    case (12, 0):\n        b()\n    case _:\n        c()\n".to_owned(), 2, OneDevice),
        ("CMakeLists.txt", "if(CUDA_ARCH MATCHES \"^120\")\nendif()\n".to_owned(), 1, OneDevice),
        ("CMakeLists.txt", "set(OURS 90 120)\nif(CUDA_ARCH IN_LIST OURS)\nendif()\n".to_owned(), 2, OneDevice),
        ("Makefile", "CUDA_ARCH ?= sm_121\n".to_owned(), 1, OneBuild),
        ("build.sh", "nvcc -gencode arch=compute_121a,code=sm_121a -c x.cu\n".to_owned(), 1, OneBuild),
        ("Dockerfile", "ENV TORCH_CUDA_ARCH_LIST=\"12.0a\"\n".to_owned(), 1, OneBuild),
        ("ci.yml", "env:\n  TORCH_CUDA_ARCH_LIST: \"9.0a 12.0a\"\n".to_owned(), 2, OneBuild),
        ("ci.yaml", "cuda_archs:\n  - 90a\n  - 121a\n".to_owned(), 3, OneBuild),
        ("a.py", "assert torch.cuda.get_device_capability()[0] in [9, 10, 11]\n".to_owned(), 1, Refuses),
        ("a.py", "if major not in (9, 10):\n    raise ValueError\n".to_owned(), 1, Refuses),
        ("a.cpp", "TORCH_CHECK(sm_version >= 90 && sm_version < 120, \"no\");\n".to_owned(), 1, Refuses),
        ("a.cu", cvt("#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)"), 1, ShutOut),
    ];
    for (file, text, line, rule) in &bad {
        assert_eq!(rules(file, text), [(*line, *rule)], "{file}:\n{text}");
    }
    let legal: [(&str, String); 15] = [
        ("a.py", "if arch not in (Arch.sm_120a, Arch.sm_121a):\n    raise E\n".to_owned()),
        ("a.cpp", "switch (sm_version) {\n  case 120: case 121: b(); break;\n}\n".to_owned()),
        ("a.cpp", "switch (sm_version) {\n  case 120: b(); break;\n  case 121: c(); break;\n}\n".to_owned()),
        ("a.cpp", "switch (tile) {\n  case 120: b(); break;\n}\n".to_owned()),
        ("a.py", "match sm_version:\n    case 120 | 121:\n        b()\n".to_owned()),
        ("CMakeLists.txt", "if(CUDA_ARCH MATCHES \"^12[01]\")\nendif()\n".to_owned()),
        ("CMakeLists.txt", "if(CMAKE_CUDA_ARCHITECTURES MATCHES \"120\")\nendif()\n".to_owned()),
        ("CMakeLists.txt", "set(OURS 120 121)\nif(CUDA_ARCH IN_LIST OURS)\nendif()\n".to_owned()),
        ("Makefile", "CUDA_ARCH ?= sm_120f\n# CUDA_ARCH = sm_121\nPORT = 121\n".to_owned()),
        ("build.sh", "echo $# ${x#120a}\nnvcc -arch=sm_120 -c x.cu\ntimeout 121 search 120a\n".to_owned()),
        ("Dockerfile", "ENV TORCH_CUDA_ARCH_LIST=\"12.0a;12.1a\"\n".to_owned()),
        ("ci.yml", "timeout: 120\nenv:\n  TORCH_CUDA_ARCH_LIST: \"12.0f\"\n".to_owned()),
        ("a.py", "x = \"HND\" if torch.cuda.get_device_capability()[0] == 10 else None\n".to_owned()),
        ("a.py", "assert major == 10\nassert major in (9, 10, 12)\n".to_owned()),
        (
            "a.cu",
            cvt(
                "#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__)",
            ),
        ),
    ];
    for (file, text) in &legal {
        assert_eq!(rules(file, text), [], "{file}:\n{text}");
    }
}

#[test]
fn lists_of_architectures_without_sm12x_are_refusals() {
    let bad: [(&str, &str, usize); 20] = [
        (
            "a.py",
            "major, minor = get_device_capability()\nif (major, minor) not in ((8, 0), (9, 0)):\n    raise E\n",
            2,
        ),
        ("a.py", "if cc not in [(8, 0), (9, 0), (10, 0)]:\n    raise ValueError\n", 1),
        ("a.py", "if cc not in (80, 86, 89, 90):\n    raise ValueError(cc)\n", 1),
        ("a.py", "assert cc in (80, 86, 89, 90)\n", 1),
        ("a.py", "SUPPORTED = {\"80\", \"90\", \"100\"}\nif cc not in SUPPORTED:\n    raise ValueError\n", 2),
        ("a.py", "KNOWN = [80, 90]\ndef f():\n    assert torch.cuda.get_device_capability() in KNOWN\n", 3),
        ("a.py", "OK = frozenset([(8, 0), (9, 0)])\nassert get_device_capability() in OK\n", 2),
        ("a.py", "if f\"{major}{minor}\" not in (\"80\", \"90\"):\n    raise capability\n", 1),
        ("a.py", "if f\"sm_{cc[0]}{cc[1]}\" not in (\"sm_80\", \"sm_90\"):\n    raise E\n", 1),
        ("a.py", "def supports_fp8(cc):\n    return cc in (89, 90, 100)\n", 2),
        (
            "a.py",
            "def is_supported(cc):\n    if cc not in (80, 90):\n        return False\n    return True\n",
            2,
        ),
        ("a.py", "fp8_supported = capability in ((8, 9), (9, 0))\n", 1),
        ("a.py", "assert compute_capability in (\"8.0\", \"9.0\")\n", 1),
        ("a.py", "major = get_device_capability()[0]\nif major not in (8, 9):\n    raise E\n", 2),
        ("a.py", "if cc != 80 and cc != 90:\n    raise E\n", 1),
        ("a.cpp", "TORCH_CHECK(sm_version == 80 || sm_version == 90, \"no\");\n", 1),
        (
            "a.cpp",
            "bool is_supported(int sm_version) {\n  return sm_version == 80 || sm_version == 90;\n}\n",
            2,
        ),
        (
            "a.cpp",
            "bool is_supported(int arch) {\n  if (arch != 80 && arch != 90) {\n    return false;\n  }\n  return true;\n}\n",
            2,
        ),
        ("a.py", "SUPPORTED_ARCHS = [\"80\", \"90\", \"100\"]\n", 1),
        ("a.py", "class A:\n    supported_capabilities = [(8, 0), (9, 0)]\n", 2),
    ];
    for (file, text, line) in bad {
        assert_eq!(rules(file, text), [(line, GateRule::Refuses)], "{file}:\n{text}");
    }
    let legal: [(&str, &str); 35] = [
        // A capacity, and numbers that are no architectures.
        ("a.py", "assert cap in (6, 7, 8, 9)\n"),
        ("a.py", "if arch in (\"8\", \"9\"):\n    raise E\n"),
        // SM12x is excluded by name.
        (
            "a.py",
            "def supported(cc):\n    major, minor = cc\n    return major >= 10 and (major, minor) not in ((12, 0), (12, 1))\n",
        ),
        ("a.py", "def supported(cc):\n    return cc in (80, 90, 100) and cc != 120\n"),
        ("a.py", "if cc not in [(8, 0), (9, 0), (12, 0), (12, 1)]:\n    raise ValueError\n"),
        (
            "a.py",
            "SUPPORTED = {\"80\", \"90\", \"120\", \"121\"}\nif cc not in SUPPORTED:\n    raise ValueError\n",
        ),
        ("a.py", "if cc in (80, 86, 89, 90):\n    stages = 4\n"),
        ("a.py", "x = 4 if cc in (80, 86) else 2\n"),
        ("a.py", "def block_size(cc):\n    return cc in (80, 86, 89, 90)\n"),
        ("a.py", "if cc not in (90,):\n    raise ValueError\n"),
        ("a.py", "assert cc in (80, 86)\n"),
        // No architectures at all.
        ("a.py", "if sys.version_info.minor not in (8, 9, 10):\n    raise E\n"),
        ("a.py", "if py_minor not in (8, 9, 10):\n    raise E\n"),
        ("a.py", "if sys.version_info[:2] not in [(3, 8), (3, 9), (3, 10)]:\n    raise E\n"),
        ("a.py", "python = \"3.9\"\nif python not in (\"3.8\", \"3.9\"):\n    raise E\n"),
        (
            "a.py",
            "major, minor = torch.version.cuda.split('.')\nif int(major) not in (10, 11):\n    raise E\n",
        ),
        ("a.py", "if cuda_major not in (10, 11):\n    raise E\n"),
        ("a.py", "if driver_version not in (80, 90, 100):\n    raise E\n"),
        ("a.py", "if opset not in (8, 9, 10):\n    raise E\n"),
        ("a.py", "assert opset_major in (8, 9, 10)\n"),
        ("a.py", "if trt_major not in (8, 9, 10):\n    raise E\n"),
        ("a.py", "if major not in (8, 9):\n    raise E\n"),
        ("a.py", "assert head_dim in (80, 90, 100)\n"),
        ("a.py", "SUPPORTED = (64, 80, 96)\nassert head_dim in SUPPORTED\n"),
        ("a.py", "SUPPORTED_SIZES = [80, 90, 100]\n"),
        ("a.py", "supported_opsets = [8, 9, 10]\n"),
        ("a.py", "assert arch in (\"x86\", \"arm64\")\n"),
        ("a.py", "assert capability in (\"chat\", \"embed\")\n"),
        // What grows later, and what has two definitions.
        (
            "a.py",
            "SUPPORTED_ARCHS = [80, 90]\nif cuda >= 13:\n    SUPPORTED_ARCHS.append(120)\nassert cc in SUPPORTED_ARCHS\n",
        ),
        ("a.py", "OK = [80, 90]\nOK += [120]\nassert cc in OK\n"),
        ("a.py", "SUPPORTED_ARCHS = [80, 90]\nSUPPORTED_ARCHS = [80, 90, 120]\n"),
        // What 9.0 and 10.0 alone have.
        ("a.py", "def is_wgmma_supported(cc):\n    return cc in (89, 90)\n"),
        ("a.py", "unsupported = cc in (70, 80)\n"),
        ("a.cpp", "bool is_supported(int arch) {\n  return arch == 80 || arch == 90 || arch >= 120;\n}\n"),
        ("a.py", "if str(major) + str(minor) not in (\"80\", \"90\", \"120\"):\n    raise E\n"),
    ];
    for (file, text) in legal {
        assert_eq!(rules(file, text), [], "{file}:\n{text}");
    }
}

#[test]
fn lower_bounds_around_what_sm12x_lacks_are_found() {
    let bad: [(&str, &str, usize, &str); 24] = [
        (
            "a.py",
            "if has_device_capability(100):\n    return ops.sm100_cutlass_mla_decode(q)\n",
            1,
            "sm_100a",
        ),
        ("a.cpp", "if (sm_version >= 100) {\n  cutlass_moe_sm100(a);\n}\n", 1, "sm_100a"),
        (
            "a.py",
            "@pytest.mark.skipif(\n    not current_platform.has_device_capability(100),\n    reason=R,\n)\n\
             def test_mla(b):\n    ops.sm100_cutlass_mla_get_workspace_size(b)\n",
            2,
            "sm_100a",
        ),
        (
            "a.py",
            "if not has_device_capability(100):\n    pytest.skip(\"needs the fused MoE (SM100)\", allow_module_level=True)\n",
            1,
            "sm100",
        ),
        (
            "a.py",
            "class T(TestCase):\n    def f(self):\n        if cc < 100:\n            self.skipTest('SM100 alone')\n",
            3,
            "sm100",
        ),
        (
            "a.py",
            "@unittest.skipUnless(cc >= 100, R)\ndef test_umma():\n    run_sm100_umma()\n",
            1,
            "sm_100a",
        ),
        ("a.py", "if cc < 100:\n    raise RuntimeError(\"this is a kernel for SM100\")\n", 1, "sm100"),
        ("a.py", "if cc >= (9, 0):\n    out = wgmma_gemm(a, b)\n", 1, "wgmma"),
        ("a.py", "if cc >= 90: run_wgmma(a)\n", 1, "wgmma"),
        (
            "a.py",
            "if torch.cuda.get_device_capability()[0] >= 9:\n    flags.append('-gencode=arch=compute_90a,code=sm_90a')\n",
            1,
            "sm_90a",
        ),
        ("a.py", "has_wgmma = capability >= (9, 0)\n", 1, "wgmma"),
        (
            "a.py",
            "def supports_tcgen05():\n    return torch.cuda.get_device_capability() >= (10, 0)\n",
            2,
            "tcgen05",
        ),
        ("a.py", "target = \"sm_90a\" if cc >= 90 else \"sm_80\"\n", 1, "sm_90a"),
        ("a.py", "if cc < (10, 0):\n    raise RuntimeError(\"tcgen05 needs sm_100\")\n", 1, "tcgen05"),
        ("a.py", "assert cc >= 90, \"wgmma is for Hopper\"\n", 1, "wgmma"),
        ("a.py", "if cc < 80:\n    raise E\nif cc >= 90:\n    wgmma(a)\n", 3, "wgmma"),
        (
            "a.py",
            "def f(cc):\n    if cc == 80:\n        a()\n    elif cc >= 90:\n        use_wgmma = True\n",
            4,
            "wgmma",
        ),
        ("a.py", "def f(cc):\n    if cc >= 80:\n        if cc >= 90:\n            wgmma()\n", 3, "wgmma"),
        ("a.py", "if has_device_capability(90):\n    wgmma()\n", 1, "wgmma"),
        (
            "a.cpp",
            "void f(int sm_version) {\n  if (sm_version >= 90) {\n    launch_wgmma(a);\n  }\n}\n",
            2,
            "wgmma",
        ),
        ("a.cpp", "bool has_tcgen05 = prop.major >= 10;\n", 1, "tcgen05"),
        ("a.cpp", "auto t = arch >= 90 ? \"sm_90a\" : \"sm_80\";\n", 1, "sm_90a"),
        ("a.cpp", "TORCH_CHECK(sm_version >= 100, \"tcgen05 needs sm_100\");\n", 1, "tcgen05"),
        ("a.cuh", "#if __CUDA_ARCH__ >= 900\n#define HAS_WGMMA 1\n#endif\n", 1, "wgmma"),
    ];
    for (file, text, line, what) in bad {
        let rows = found(file, text);
        let short: Vec<_> = rows.iter().map(|r| (r.line, r.rule, r.instructions.join(" "))).collect();
        assert_eq!(short, [(line, GateRule::Absent, what.to_owned())], "{file}:\n{text}");
        assert_eq!(rows[0].admits.len(), if file == "a.cuh" { 6 } else { 2 }, "{text}");
    }
}

#[test]
fn lower_bounds_around_what_sm12x_has_are_none() {
    let legal: [(&str, &str); 38] = [
        ("a.py", "if cc >= 100:\n    if is_sm100_supported():\n        f()\n"),
        ("a.py", "if cc >= 100:\n    x = sm100_or_later()\n"),
        ("a.py", "if cc >= 100:\n    x = configs.sm100\n"),
        ("a.py", "if cc >= 90:\n    run_sm90_tma()\n"),
        ("a.py", "if cc < 100:\n    pytest.skip(\"needs SM100 or newer\")\n"),
        ("a.py", "if cc < 100:\n    raise RuntimeError(\"needs SM100+\")\n"),
        ("a.py", "if cc == 100:\n    ops.sm100_cutlass_mla_decode(q)\n"),
        ("a.py", "if cc >= 120:\n    mma()\nelif cc >= 100:\n    gemm_sm100(a)\n"),
        ("a.py", "@pytest.mark.skipif(cc != 100, reason=R)\ndef test_mla(b):\n    ops.sm100_mla(b)\n"),
        (
            "a.py",
            "@pytest.mark.skipif(cc < 100, reason=R)\ndef test_fp4(b):\n    fp4_gemm(b)\n\ndef other():\n    sm100_mla()\n",
        ),
        ("a.py", "if cc >= (9, 0):\n    stages = 4\n"),
        ("a.py", "use_tma = cc >= 90\n"),
        ("a.py", "if cc >= 90 and cc < 120:\n    wgmma()\n"),
        ("a.py", "if (9, 0) <= cc < (10, 0):\n    wgmma()\n"),
        ("a.py", "if cc == 90:\n    wgmma()\n"),
        ("a.py", "if cc >= 120:\n    mma()\nelif cc >= 90:\n    wgmma()\n"),
        ("a.py", "def f(cc):\n    if cc >= 100:\n        return tmem()\n    if cc >= 90:\n        wgmma()\n"),
        ("a.py", "def f(cc):\n    if cc < 100:\n        if cc >= 90:\n            wgmma()\n"),
        (
            "a.py",
            "def f(cc):\n    if is_sm120(cc):\n        return mma()\n    if cc >= 90:\n        wgmma()\n",
        ),
        ("a.py", "if cc >= 90:\n    if cc < 100:\n        wgmma()\n"),
        ("a.py", "if cc >= 90:\n    if not is_consumer(cc):\n        wgmma()\n"),
        ("a.py", "if cc >= 90:\n    use_wgmma = False\n"),
        ("a.py", "if cc >= 90:\n    disable_wgmma()\n"),
        ("a.py", "if cc >= 90:\n    return is_wgmma_supported(cc)\n"),
        ("a.py", "if cc >= 90:\n    log(\"no wgmma here\")\n"),
        ("a.py", "has_wgmma = cc >= 90 and enabled\n"),
        ("a.py", "if cc < 90:\n    raise RuntimeError(\"Hopper or newer is needed\")\n"),
        ("a.py", "if cc < 90:\n    raise E(\"wgmma\")\nif cc >= 120:\n    mma()\n"),
        ("a.py", "if cuda_version >= (10, 0):\n    wgmma()\n"),
        ("a.py", "if sys.version_info >= (3, 10):\n    wgmma()\n"),
        ("a.py", "if driver >= 90:\n    wgmma()\n"),
        ("a.py", "if opset >= 10:\n    wgmma()\n"),
        ("a.py", "if cc >= 80:\n    wgmma_or_mma()\n"),
        ("a.cpp", "if (sm_version >= 90 && sm_version < 100) {\n  launch_wgmma(a);\n}\n"),
        ("a.cpp", "if (sm_version >= 90) {\n  launch();\n}\nlaunch_wgmma();\n"),
        ("a.cuh", "#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000\n#define HAS_WGMMA 1\n#endif\n"),
        ("a.cuh", "#if defined(__CUDA_ARCH_FEAT_SM90_ALL)\n#define HAS_WGMMA 1\n#endif\n"),
        ("x_sm90.cuh", "#if __CUDA_ARCH__ >= 900\n#define HAS_WGMMA 1\n#endif\n"),
    ];
    for (file, text) in legal {
        assert_eq!(rules(file, text), [], "{file}:\n{text}");
    }
}

#[test]
fn lists_that_leave_sm12x_the_ptx_alone_are_notes() {
    let bad: [(&str, &str, usize, u16); 12] = [
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"8.0+PTX\"\n", 1, 80),
        ("build.sh", "TORCH_CUDA_ARCH_LIST=8.0+PTX pip install .\n", 1, 80),
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"${TORCH_CUDA_ARCH_LIST:-8.0+PTX}\"\n", 1, 80),
        ("build.sh", "docker build --build-arg \"TORCH_CUDA_ARCH_LIST=8.0+PTX\" .\n", 1, 80),
        ("Dockerfile", "ENV TORCH_CUDA_ARCH_LIST=\"7.0 8.0 9.0+PTX\"\n", 1, 90),
        ("Dockerfile", "ARG torch_cuda_arch_list='8.0;9.0a;10.0+PTX'\n", 1, 100),
        ("Dockerfile", "ENV TORCH_CUDA_ARCH_LIST 8.9+PTX\n", 1, 89),
        ("Makefile", "export TORCH_CUDA_ARCH_LIST := 8.0+PTX\n", 1, 80),
        ("ci.yml", "env:\n  TORCH_CUDA_ARCH_LIST: \"8.0+PTX\"\n", 2, 80),
        ("ci.yml", "env:\n  TORCH_CUDA_ARCH_LIST: 8.0+PTX\n", 2, 80),
        ("a.py", "os.environ[\"TORCH_CUDA_ARCH_LIST\"] = \"8.0+PTX\"\n", 1, 80),
        ("a.py", "os.environ.setdefault('TORCH_CUDA_ARCH_LIST', '8.0 8.6+PTX')\n", 1, 86),
    ];
    for (file, text, line, ptx) in bad {
        let rows = found(file, text);
        let short: Vec<_> = rows.iter().map(|r| (r.line, r.rule, r.admits.clone())).collect();
        let of = Target { number: ptx, suffix: Suffix::Base };
        assert_eq!(short, [(line, GateRule::PtxOnly, vec![of])], "{file}:\n{text}");
        assert!(rows[0].rule.is_note());
    }
    let legal: [(&str, &str); 13] = [
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"8.0;12.0+PTX\"\n"),
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"8.0+PTX;12.0\"\n"),
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"8.0;9.0\"\n"),
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"9.0a+PTX\"\n"),
        ("build.sh", "# export TORCH_CUDA_ARCH_LIST=\"8.0+PTX\"\n"),
        ("build.sh", "export TORCH_CUDA_ARCH_LIST=\"$ARCHS\"\n"),
        ("build.sh", "export OTHER_LIST=\"8.0+PTX\"\n"),
        ("build.sh", "echo $TORCH_CUDA_ARCH_LIST\n"),
        ("Dockerfile", "ENV TORCH_CUDA_ARCH_LIST=\"8.0 9.0 10.0 12.0+PTX\"\n"),
        ("ci.yml", "env:\n  TORCH_CUDA_ARCH_LIST: \"8.0+PTX 12.0f\"\n"),
        ("a.py", "x = os.environ.get(\"TORCH_CUDA_ARCH_LIST\")\nprint(\"8.0+PTX\")\n"),
        ("a.py", "'''\nTORCH_CUDA_ARCH_LIST=8.0+PTX'''\n# TORCH_CUDA_ARCH_LIST=\"8.0+PTX\"\n"),
        ("a.cpp", "setenv(\"TORCH_CUDA_ARCH_LIST\", \"8.0+PTX\", 1);\n"),
    ];
    for (file, text) in legal {
        assert_eq!(rules(file, text), [], "{file}:\n{text}");
    }
}

#[test]
fn wheels_archives_and_revisions_are_read_as_one_tree() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).current_dir(dir.path()).output().unwrap();
        assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    fs::create_dir(at("src")).unwrap();
    fs::write(at("src/a.py"), "ok = arch == 120\n").unwrap();
    fs::write(at("src/b.py"), "ok = major == 12\n").unwrap();
    let mut wheel = zip::ZipWriter::new(fs::File::create(at("x.whl")).unwrap());
    wheel.start_file("pkg/a.py", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut wheel, b"ok = arch == 120\n").unwrap();
    wheel.finish().unwrap();
    run("tar", &["czf", "x.tar.gz", "src"]);
    run("git", &["init", "-q", "."]);
    run("git", &["-c", "user.name=n", "-c", "user.email=e@x", "add", "src"]);
    run("git", &["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "m"]);
    fs::write(at("src/a.py"), "ok = major == 12\n").unwrap();
    let files = |places: &[&str]| -> (usize, Vec<String>, Vec<String>) {
        let places: Vec<std::path::PathBuf> =
            places.iter().map(|p| if p.contains(':') || *p == "HEAD" { p.into() } else { at(p) }).collect();
        let places: Vec<&Path> = places.iter().map(std::path::PathBuf::as_path).collect();
        let found = lint_gates(&places, dir.path());
        let name = |row: &GateRow| row.file.rsplit('/').take(2).collect::<Vec<_>>().join("/");
        (found.files, found.rows.iter().map(name).collect(), found.unusable)
    };
    assert_eq!(files(&["src"]), (2, vec![], vec![]));
    assert_eq!(files(&["x.whl"]), (1, vec!["a.py/x.whl!pkg".to_owned()], vec![]));
    assert_eq!(files(&["x.tar.gz"]), (2, vec!["a.py/x.tar.gz!src".to_owned()], vec![]));
    assert_eq!(files(&["HEAD"]), (2, vec!["a.py/HEAD:src".to_owned()], vec![]));
    assert_eq!(files(&["HEAD:src/a.py"]).0, 1);
    assert_eq!(files(&["src", "x.whl", "HEAD"]).0, 5);
    let bytes = fs::read(at("x.tar.gz")).unwrap();
    fs::write(at("short.tar.gz"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(at("bad.whl"), b"no zip").unwrap();
    for name in ["short.tar.gz", "bad.whl", "absent", "HEAD:absent"] {
        let (read, rows, unusable) = files(&[name]);
        assert_eq!((read, rows.len(), unusable.len()), (0, 0, 1), "{name}: {unusable:?}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_source_is_named_and_links_do_not_lead_in_circles() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("a.py"), "ok = arch == 120\n").unwrap();
    fs::write(at("latin.py"), b"ok = arch == 120 # \xe9\xff\n").unwrap();
    let wide: Vec<u8> = "\u{feff}ok = arch == 120\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(at("wide.py"), wide).unwrap();
    fs::write(at("noise.cu"), (0..=255).cycle().take(4096).collect::<Vec<u8>>()).unwrap();
    fs::write(at("n.txt"), "sm == 120\n").unwrap();
    fs::create_dir(at("dir.py")).unwrap();
    std::os::unix::fs::symlink("..", at("dir.py/loop")).unwrap();
    std::os::unix::fs::symlink("a.py", at("link.py")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling.py")).unwrap();
    let lint_gates = |path: &Path| lint_gates(&[path], dir.path());
    let found = lint_gates(dir.path());
    assert_eq!((found.files, found.rows.len()), (5, 4), "{found:?}");
    assert_eq!(found.unusable, Vec::<String>::new());
    let large = at("large.py");
    fs::File::create(&large).unwrap().set_len(40 << 20).unwrap();
    assert!(lint_gates(dir.path()).unusable[0].ends_with("large.py: is larger than 32 MiB"));
    for (name, why) in [
        ("n.txt", "is not a C++"),
        ("/dev/zero", "is not a file"),
        ("nowhere", "no revision of a Git repository here"),
    ] {
        let found = lint_gates(&at(name));
        assert!(found.unusable[0].contains(why) && found.files == 0, "{name}: {found:?}");
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
        "#ifdef",
        "#ifndef\n#else\n#else\n#endif",
        "#[[ 120a",
        "x = x\nx == 120",
        "a = b\nb = a\nok = a == 120",
        "#define A B\n#define B A\n#if A == 1200\n#endif",
        "int(",
        "if(",
        "if(120a",
        "1'",
        "is_device_capability(",
        "is_device_capability((12, 0)",
        "f\"{major",
        "f\"{major}{minor}\" in",
        "TORCH_CUDA_ARCH_LIST",
        "TORCH_CUDA_ARCH_LIST=",
        "TORCH_CUDA_ARCH_LIST=8.0+",
        "if cc >= 90",
        "if (cc >= 90)",
        "if (cc >= 90) {",
        "if cc >= 90:\n",
        "return cc >= 90",
        "x = cc not in",
        "assert cc in (80, 90",
    ];
    for text in odd {
        for file in ["a.cu", "a.py", "CMakeLists.txt", "a.bzl", "a.txt", ".bazelrc", "a.toml", "a.cu.jinja"] {
            let _ = lint_text(file, text);
            let _ = lint_text(file, &format!("{text}\n{text} {text}"));
        }
    }
    for deep in ["(", "not ", "-", "[", "int(", "f("] {
        let text = format!("x = {}arch == 120\n", deep.repeat(100_000));
        for file in ["a.py", "a.cu", "a.cmake"] {
            let _ = lint_text(file, &text);
            let _ = lint_text(file, &format!("#if {text}\n#endif\nif({text}"));
        }
    }
    assert_eq!(lint_text("a.md", "sm == 120"), GateFile::default());
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
        (
            "sarif",
            &["\"version\":", "src/below/bad%7C%60.py", "\"ruleId\": \"one_device\"", "\"startColumn\": 6"],
        ),
    ] {
        let out = run(&["lint", "--gates", "src", "--format", format, "--sarif", "x.sarif"]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(out.status.code(), Some(100), "{format}");
        assert!(words.iter().all(|word| text.contains(word)), "{format}: {text}");
    }
    assert!(fs::read_to_string(dir.path().join("x.sarif")).unwrap().contains("bad"));
    // What each new kind of finding says; notes alone do not fail.
    let said = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        let out = run(&["lint", "--gates", name]);
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    for (name, text, code, words) in [
        ("w.py", "has_wgmma = cc >= 90\n", 100, "lets sm_120 sm_121 in, but no SM12x target has wgmma"),
        (
            "a.py",
            "t = \"sm_90a\" if cc >= 90 else \"sm_80\"\n",
            100,
            "code for sm_90a loads on no SM12x device",
        ),
        ("l.py", "assert cc in (80, 90)\n", 0, "admits sm_80 sm_90 and refuses every SM12x device"),
        ("p.sh", "export TORCH_CUDA_ARCH_LIST=\"8.0+PTX\"\n", 0, "can use the PTX of sm_80 alone"),
    ] {
        let (status, text) = said(name, text);
        assert!(status == Some(code) && text.contains(words), "{name}: {status:?} {text}");
    }
    // What cannot be used does not hide what is wrong elsewhere.
    assert_eq!(run(&["lint", "--gates", "src", "x.ptx"]).status.code(), Some(100));
    assert_eq!(run(&["lint", "--gates", "src/good.py", "x.ptx"]).status.code(), Some(2));
    assert_eq!(run(&["lint", "x.ptx", "--gates", "src"]).status.code(), Some(2));
}
