//! The predicates against the matrix, name by name: the committed files, the header in NVRTC and in a C compiler, the modules in
//! Python and Rust.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ptx::arch::{Target, ToolkitVersion};
use sm121probe::record::{Matrix, Outcome, Record, VariantRow};
use sm121probe::report::{self, Language, PredicateError};
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Environment, NvrtcError, Source};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "the_committed_files_are_made_from_the_committed_record",
        &[],
        the_committed_files_are_made_from_the_committed_record,
    ),
    (
        "the_header_is_right_in_every_nvrtc_for_every_target",
        &[Need::Nvrtc],
        the_header_is_right_in_every_nvrtc_for_every_target,
    ),
    ("a_name_that_the_header_lacks_is_an_error", &[Need::Nvrtc], a_name_that_the_header_lacks_is_an_error),
    (
        "in_host_code_every_answer_is_0_and_gencode_says_the_flags",
        &[Need::Program("cc")],
        in_host_code_every_answer_is_0_and_gencode_says_the_flags,
    ),
    (
        "the_python_module_answers_as_the_matrix",
        &[Need::Program("python3")],
        the_python_module_answers_as_the_matrix,
    ),
    ("the_rust_module_answers_as_the_matrix", &[], the_rust_module_answers_as_the_matrix),
    (
        "a_range_narrows_the_toolkits_and_a_record_without_answers_is_an_error",
        &[],
        a_range_narrows_the_toolkits_and_a_record_without_answers_is_an_error,
    ),
];

#[rustfmt::skip]
#[path = "../../reports/predicates/sm12x_has.rs"]
#[expect(unreachable_pub, reason = "the module is for crates, and this is none")]
mod sm12x_has;

const HEADER: &str = include_str!("../../reports/predicates/sm12x_has.h");
const PYTHON: &str = include_str!("../../reports/predicates/sm12x_has.py");
const RUST: &str = include_str!("../../reports/predicates/sm12x_has.rs");
const LIMIT: Duration = Duration::from_secs(300);

fn record() -> Record {
    Record::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/reports/matrix.json"))).unwrap()
}

fn tool() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sm121probe"))
}

fn identifier(id: &str) -> String {
    id.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn targets(matrix: &Matrix) -> Vec<Target> {
    matrix.targets().into_iter().filter(|t| t.is_sm12x()).collect()
}

fn accepted(matrix: &Matrix, variant: &VariantRow, toolkit: ToolkitVersion, target: Target) -> bool {
    let pair = matrix.pair(toolkit, target, target);
    pair.and_then(|pair| matrix.cell(variant, pair)).is_some_and(|c| c.outcome == Outcome::Accepted)
}

/// The forms behind each name: itself for a form, and for a capability those of its snippets that any SM12x target accepts.
struct Names<'a> {
    capabilities: BTreeMap<String, Vec<&'a VariantRow>>,
    forms: BTreeMap<String, Vec<&'a VariantRow>>,
}

impl<'a> Names<'a> {
    fn of(matrix: &'a Matrix) -> Self {
        let mut out = Self { capabilities: BTreeMap::new(), forms: BTreeMap::new() };
        for variant in &matrix.variants {
            out.forms.insert(identifier(&variant.id), vec![variant]);
            let anywhere = targets(matrix)
                .iter()
                .any(|t| matrix.toolkits.iter().any(|k| accepted(matrix, variant, k.version, *t)));
            for name in &matrix.snippets[variant.snippet].grants {
                let forms = out.capabilities.entry(name.clone()).or_default();
                forms.extend(anywhere.then_some(variant));
            }
        }
        out
    }

    /// Every name, capabilities first, with the answers of the matrix.
    fn expected(&self, matrix: &Matrix, toolkit: ToolkitVersion, target: Target) -> Vec<(&str, bool)> {
        let all = self.capabilities.iter().chain(&self.forms);
        all.map(|(name, forms)| {
            let there = forms.iter().all(|form| accepted(matrix, form, toolkit, target));
            (name.as_str(), there && !forms.is_empty())
        })
        .collect()
    }
}

fn the_committed_files_are_made_from_the_committed_record() {
    let record = record();
    for (language, committed) in [(Language::C, HEADER), (Language::Python, PYTHON), (Language::Rust, RUST)] {
        let made = report::predicates(&record, None, language).unwrap();
        assert!(
            made == committed,
            "run .ci/reports: the {language:?} predicates are not those of the record"
        );
    }
}

/// A source with the answers of all names as arrays, for the compiler's own toolkit and for every other.
fn source(names: &Names<'_>, toolkits: &[ToolkitVersion]) -> String {
    let mut text = "#include \"sm12x_has.h\"\n".to_owned();
    let array = |text: &mut String, name: &str| {
        _ = write!(text, "extern \"C\" __device__ signed char {name}[] = {{");
        for capability in names.capabilities.keys() {
            _ = writeln!(text, "SM12X_HAS({capability}) ? 1 : 2,");
        }
        for form in names.forms.keys() {
            _ = writeln!(text, "SM12X_HAS_FORM({form}) ? 1 : 2,");
        }
        text.push_str("};\n");
    };
    array(&mut text, "own");
    for toolkit in toolkits {
        let number = u32::from(toolkit.major) * 1_000_000 + u32::from(toolkit.minor) * 10_000;
        _ = writeln!(
            text,
            "#undef SM12X_TOOLKIT\n#define SM12X_TOOLKIT {}",
            number + u32::from(toolkit.patch)
        );
        array(&mut text, &format!("by_{}", identifier(&toolkit.to_string())));
    }
    text
}

/// The values of an array in PTX.
fn values(ptx: &str, name: &str) -> Vec<bool> {
    let (_, rest) = ptx.split_once(&format!(" {name}[")).unwrap();
    let (_, rest) = rest.split_once('{').unwrap();
    let (list, _) = rest.split_once('}').unwrap();
    list.split(',').map(|v| v.trim() == "1").collect()
}

fn the_header_is_right_in_every_nvrtc_for_every_target() {
    let record = record();
    let matrix = &record.matrix;
    let names = Names::of(matrix);
    let toolkits: Vec<ToolkitVersion> = matrix.toolkits.iter().map(|t| t.version).collect();
    let found = toolkit::nvrtcs(Some(&Store::open(None).unwrap()), &Environment::of_process());
    let text = source(&names, &toolkits);
    let mut compared = 0;
    for nvrtc in &found {
        for target in Target::known_set() {
            let ask = Source {
                text: &text,
                name: "k.cu",
                options: toolkit::options_for(target),
                headers: vec![toolkit::Include { name: "sm12x_has.h".to_owned(), text: HEADER.to_owned() }],
            };
            let compiled = match toolkit::compile(nvrtc, &ask, None, tool(), LIMIT) {
                Ok(compiled) => compiled,
                // Not every release knows every target.
                Err(NvrtcError::Rejected { log, .. }) if log.contains("gpu-architecture") => continue,
                Err(error) => panic!("{} for {target}: {error}", nvrtc.version),
            };
            // For a release that is not in the record, the newest older one counts.
            let own = toolkits.iter().rev().find(|t| **t <= nvrtc.version).copied();
            let arrays = own.map(|t| ("own".to_owned(), t)).into_iter();
            let arrays =
                arrays.chain(toolkits.iter().map(|t| (format!("by_{}", identifier(&t.to_string())), *t)));
            for (array, toolkit) in arrays {
                let got = values(&compiled.ptx, &array);
                let want = names.expected(matrix, toolkit, target);
                assert_eq!(got.len(), want.len());
                for ((name, want), got) in want.into_iter().zip(got) {
                    // For other architectures, the header claims nothing about SM12x.
                    let want = want && target.is_sm12x();
                    assert_eq!(got, want, "{name} for {target} by {toolkit}, NVRTC {}", nvrtc.version);
                    compared += 1;
                }
            }
        }
    }
    println!("{compared} answers of the header are those of the matrix");
    assert!(compared >= 6 * 17 * 1_000, "{compared}");
}

fn a_name_that_the_header_lacks_is_an_error() {
    let found = toolkit::nvrtcs(Some(&Store::open(None).unwrap()), &Environment::of_process());
    let nvrtc = toolkit::select_nvrtc(&found, None).unwrap();
    for (text, good) in [
        ("#include \"sm12x_has.h\"\n#if SM12X_HAS(mma_mxf4)\nint x;\n#else\n#error\n#endif\n", true),
        ("#include \"sm12x_has.h\"\n#if SM12X_HAS(mma_mfx4)\nint x;\n#endif\n", false),
        ("#include \"sm12x_has.h\"\n#if SM12X_HAS_FORM(mma_mfx4)\nint x;\n#endif\n", false),
    ] {
        let ask = Source {
            text,
            name: "k.cu",
            options: toolkit::options_for("sm_121f".parse().unwrap()),
            headers: vec![toolkit::Include { name: "sm12x_has.h".to_owned(), text: HEADER.to_owned() }],
        };
        assert_eq!(toolkit::compile(nvrtc, &ask, None, tool(), LIMIT).is_ok(), good, "{text}");
    }
}

fn in_host_code_every_answer_is_0_and_gencode_says_the_flags() {
    let compiler = which::which("cc").unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sm12x_has.h"), HEADER).unwrap();
    let text = "#include <string.h>\n#include \"sm12x_has.h\"\n#if SM12X_HAS(mma_mxf4) || SM12X_HAS(lop3)\n#error\n#endif\n\
        int main(void) {\n\
        return strcmp(SM12X_GENCODE(lop3), \"-gencode=arch=compute_120,code=sm_120\")\n\
        || strcmp(SM12X_GENCODE(mma_mxf4), \"-gencode=arch=compute_120f,code=sm_120f\")\n\
        || strcmp(SM12X_GENCODE(mma_sp_mxf4), \"-gencode=arch=compute_120a,code=sm_120a -gencode=arch=compute_121a,code=sm_121a\")\n\
        || strcmp(SM12X_GENCODE(tcgen05_mma), \"\");\n}\n";
    std::fs::write(dir.path().join("k.c"), text).unwrap();
    let run = |command: &mut Command| command.current_dir(dir.path()).output().unwrap();
    let made = run(Command::new(compiler).args(["-Wall", "-Werror", "-o", "k", "k.c"]));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(run(&mut Command::new(dir.path().join("k"))).status.success());
}

fn the_python_module_answers_as_the_matrix() {
    let python = which::which("python3").unwrap();
    let record = record();
    let names = Names::of(&record.matrix);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sm12x_has.py"), PYTHON).unwrap();
    let script = "import sm12x_has as s\n\
        for k in s.TOOLKITS:\n    for t in s.TARGETS:\n        \
        a = [s.has(c, t, k) for c in s.capabilities()] + [s.has_form(f, t, k) for f in s.forms()]\n        \
        print(k, t, ''.join('1' if x else '0' for x in a))\n\
        assert s.has('mma_mxf4', '121f') and not s.has('mma_mxf4', 'sm_121') and not s.has('mma_mxf4', 'sm_120a', '12.8.61')\n\
        assert s.has_form('mma.mxf4.isa.2X', 'sm_121a', '13.1') and not s.has('mma_mxf4', toolkit='12.0')\n\
        assert s.gencode('mma_mxf4') == ['-gencode=arch=compute_120f,code=sm_120f'], s.gencode('mma_mxf4')\n\
        for wrong in (lambda: s.has('mma_mfx4'), lambda: s.has('mma_mxf4', 'sm_90a'), lambda: s.has('mma_mxf4', toolkit='13')):\n    \
        try:\n        wrong()\n    except (KeyError, ValueError) as error:\n        assert 'similar: mma_mxf4' in str(error) or 'sm_90a' in str(error) or '13.1.80' in str(error), error\n    \
        else:\n        raise AssertionError('no error')\n";
    let out = Command::new(python).args(["-c", script]).current_dir(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let mut lines = 0;
    for line in text.lines() {
        let [toolkit, target, answers] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let want = names.expected(&record.matrix, toolkit.parse().unwrap(), target.parse().unwrap());
        let want: String = want.into_iter().map(|(_, there)| if there { '1' } else { '0' }).collect();
        assert_eq!(answers, want, "{toolkit} {target}");
        lines += 1;
    }
    assert_eq!(lines, record.matrix.toolkits.len() * targets(&record.matrix).len());
}

fn the_rust_module_answers_as_the_matrix() {
    let record = record();
    let matrix = &record.matrix;
    let names = Names::of(matrix);
    assert_eq!(sm12x_has::TOOLKITS.len(), matrix.toolkits.len());
    for toolkit in &matrix.toolkits {
        let v = toolkit.version;
        for target in targets(matrix) {
            for (n, (name, want)) in names.expected(matrix, v, target).into_iter().enumerate() {
                let of = if n < names.capabilities.len() { sm12x_has::has } else { sm12x_has::has_form };
                let got = of(name, &target.to_string(), (v.major, v.minor, v.patch));
                assert_eq!(got, Some(want), "{name} {target} {v}");
            }
        }
    }
    assert_eq!(sm12x_has::has("mma_mfx4", "sm_121a", (13, 5, 37)), None);
    assert_eq!(sm12x_has::has("mma_mxf4", "sm_90a", (13, 5, 37)), None);
    assert_eq!(sm12x_has::gencode("mma_mxf4"), Some(&["-gencode=arch=compute_120f,code=sm_120f"][..]));
}

fn a_range_narrows_the_toolkits_and_a_record_without_answers_is_an_error() {
    let record = record();
    let range = ">=13.1".parse().unwrap();
    let text = report::predicates(&record, Some(&range), Language::Python).unwrap();
    assert!(text.contains("ptxas 13.1.80 to 13.5.37") && !text.contains("12.9"));
    let none = report::predicates(&record, Some(&">=99".parse().unwrap()), Language::C).unwrap_err();
    assert!(matches!(none, PredicateError::Nothing(_)) && none.to_string().contains(">=99"), "{none}");
    let mut twice = record;
    let mut second = twice.matrix.variants[0].clone();
    let mut first = second.clone();
    (first.id, second.id) = ("a.b".to_owned(), "a_b".to_owned());
    twice.matrix.variants = vec![first, second];
    let error = report::predicates(&twice, None, Language::C).unwrap_err();
    assert!(matches!(error, PredicateError::SameName(..)), "{error}");
}
