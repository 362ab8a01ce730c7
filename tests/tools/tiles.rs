//! `tiles` and `kernels build`: the table against golden files, the answers of real assemblers, and eight processes that compile
//! one kernel once. `SNAPSHOTS=overwrite` rewrites the golden files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use snapbox::{assert_data_eq, file};
use tempfile::TempDir;

use sm121probe::frame::admission::{Limits, Toolchain};
use sm121probe::kernel::{Library, Load, MmaPath};
use sm121probe::matrix::{Capabilities, granting};
use sm121probe::moe::admission::{self, Question};
use sm121probe::moe::case::FormatPair;
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Places};
use sm121probe::{event, snippet};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    ("the_table_of_tiles_without_compiling", &[], the_table_of_tiles_without_compiling),
    (
        "without_a_suffix_native_is_blocked_and_portable_runs",
        &[],
        without_a_suffix_native_is_blocked_and_portable_runs,
    ),
    ("policies_side_by_side", &[], policies_side_by_side),
    (
        "every_need_of_a_kernel_is_granted_by_some_snippet",
        &[],
        every_need_of_a_kernel_is_granted_by_some_snippet,
    ),
    (
        "the_newest_toolkit_of_this_machine_has_what_kernels_need_for_sm_121a_and_not_for_sm_120",
        &[Need::Ptxas, Need::NewestKnowsSm121a],
        the_newest_toolkit_of_this_machine_has_what_kernels_need_for_sm_121a_and_not_for_sm_120,
    ),
    (
        "ptxas_says_registers_and_spills_of_two_tiles",
        &[Need::Ptxas, Need::Nvrtc, Need::Installed],
        ptxas_says_registers_and_spills_of_two_tiles,
    ),
    (
        "eight_processes_compile_each_kernel_once",
        &[Need::Ptxas, Need::Nvrtc, Need::Installed],
        eight_processes_compile_each_kernel_once,
    ),
];

/// Knows three targets and accepts everything, except block-scaled mma for the target without a suffix. The last argument is the
/// cubin.
const FAKE_PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "Cuda compilation tools, release 13.9, V13.9.1"; exit 0;;
--help) printf '%s\n' "--gpu-name <gpu name>  (-arch)" "        Allowed values for this option:  'sm_120','sm_121a','sm_121f'" "        Default value:  'sm_120'."; exit 0;;
esac
case "$*" in *-arch=sm_90a*) echo "ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'" >&2; exit 255;; esac
for last; do case "$last" in *.ptx) file="$last";; esac; done
if grep -q 'version 99' "$file"; then echo "ptxas $file, line 1; fatal   : Unsupported .version 99.9; current version is '9.9'" >&2; exit 255; fi
if grep -q 'target sm_12[01]$' "$file"; then
bad=$(grep -n 'kind::mxf8f6f4' "$file" | cut -d: -f1)
for n in $bad; do echo "ptxas $file, line $n; error   : Feature '.kind::mxf8f6f4' not supported on this .target" >&2; done
[ -n "$bad" ] && { echo "ptxas fatal   : Ptx assembly aborted due to errors" >&2; exit 255; }
fi
echo code > "$last"
"#;

struct Silent;

impl event::Sink for Silent {
    fn emit(&self, _: event::Event) {}
}

/// A folder with its own cache and a script as the assembler.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        fs::write(desk.ptxas(), FAKE_PTXAS).unwrap();
        fs::set_permissions(desk.ptxas(), fs::Permissions::from_mode(0o755)).unwrap();
        desk
    }

    fn ptxas(&self) -> PathBuf {
        self.0.path().join("ptxas")
    }

    fn run(&self, words: &[&str]) -> Output {
        let ptxas = self.ptxas();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        command.args(words).args(["--toolkit", ptxas.to_str().unwrap()]);
        command.env("SM121PROBE_CACHE", self.0.path().join("cache")).output().unwrap()
    }

    fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn the_table_of_tiles_without_compiling() {
    let desk = Desk::new();
    let few = [
        "--tile",
        "128x128x128",
        "--tile",
        "32x128x128B",
        "--tile",
        "8x128x512",
        "--tile",
        "128x64x64",
        "--tile",
        "8x8x128",
    ];
    let with = |more: &[&'static str]| [&["tiles", "--no-compile"], &few[..], more].concat();
    assert_data_eq!(desk.text(&with(&[])), file!["../golden/tiles/tiles.txt"].raw());
    assert_data_eq!(desk.text(&with(&["--format", "md"])), file!["../golden/tiles/tiles.md"].raw());
    assert_data_eq!(desk.text(&with(&["--format", "csv"])), file!["../golden/tiles/tiles.csv"].raw());
    let every = desk.text(&["tiles", "--no-compile", "--format", "csv"]);
    assert_eq!(
        every.lines().count(),
        1 + 6 * 216 + 144,
        "144 tiles, those of 64 rows and more on both sides; the GEMV on one"
    );
}

fn without_a_suffix_native_is_blocked_and_portable_runs() {
    let desk = Desk::new();
    let text =
        desk.text(&["tiles", "--no-compile", "--target", "sm_120", "--tile", "64x64x128", "--format", "csv"]);
    let of = |path: &str| text.lines().filter(|l| l.contains(path)).collect::<Vec<_>>();
    let (native, portable) = (of(" native "), of(" portable "));
    assert!(native.len() == 6 && portable.len() == 6, "{text}");
    for line in native {
        assert!(
            line.contains(",blocked,\"capability mma_mxf8f6f4 is missing: ptxas 13.9.1 rejects mma.mxf8f6f4"),
            "{line}"
        );
        assert!(line.contains("which ptxas 13.9.1 accepts for sm_120a sm_120f sm_121a sm_121f"), "{line}");
    }
    assert!(portable.iter().all(|line| line.contains(",runs,")), "{portable:#?}");
    // A target that the assembler does not know.
    let text =
        desk.text(&["tiles", "--no-compile", "--target", "sm_90a", "--tile", "64x64x128", "--format", "csv"]);
    assert!(text.lines().skip(1).all(|l| l.contains("ptxas 13.9.1 does not know sm_90a")), "{text}");
}

fn policies_side_by_side() {
    let desk = Desk::new();
    assert_data_eq!(desk.text(&["tiles", "--policies"]), file!["../golden/tiles/policies.txt"].raw());
    let csv = desk.text(&["tiles", "--policies", "--format", "csv"]);
    let least: Vec<&str> = csv.lines().filter(|l| l.starts_with("least_waste,")).collect();
    assert!(least.len() == 39 && least.iter().all(|l| l.split(',').nth(5) == Some("8")), "{least:#?}");
    let output = desk.run(&["tiles", "--policies", "--model", "gpt-oss"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("there is no model `gpt-oss`"), "{said}");
}

fn every_need_of_a_kernel_is_granted_by_some_snippet() {
    let granted = granting(&snippet::Library::embedded());
    let kernels = Library::embedded().unwrap();
    let mut needs = 0;
    for kernel in &kernels.kernels {
        for need in [MmaPath::Native, MmaPath::Portable]
            .into_iter()
            .flat_map(|path| FormatPair::ALL.iter().flat_map(move |pair| kernel.needs_on(*pair, path)))
        {
            needs += 1;
            assert!(granted.contains_key(need), "{}: `{need}` is granted by no snippet", kernel.file);
        }
    }
    assert!(needs > 10, "the kernels name what they need");
}

fn the_newest_toolkit_of_this_machine_has_what_kernels_need_for_sm_121a_and_not_for_sm_120() {
    let store = Store::open(None).unwrap();
    let discovery = toolkit::discover(Some(&store), &Places::from_environment(Some(store.root())));
    let newest = discovery.toolkits.last().unwrap();
    let targets = ["sm_120", "sm_121a", "sm_121f"].map(|t| t.parse().unwrap());
    let library = snippet::Library::embedded();
    let capabilities = Capabilities::ask(&library, &[newest], &targets, Some(&store), &Silent).unwrap();
    let kernels = Library::embedded().unwrap();
    for kernel in &kernels.kernels {
        for (path, target) in
            [MmaPath::Native, MmaPath::Portable].into_iter().flat_map(|p| targets.map(|t| (p, t)))
        {
            let toolchain = Toolchain { capabilities: &capabilities, toolkit: newest.version, target };
            let lacking = admission::lacking([kernel], FormatPair::default(), path, toolchain);
            // Block-scaled mma and tensormap.replace need the suffix.
            let suffixed = match kernel.load {
                // Attention in NVFP4 has it on its native path.
                None => {
                    path == MmaPath::Native && kernel.needs_of.get(&path).is_some_and(|of| !of.is_empty())
                }
                Some(Load::Direct) => false,
                Some(Load::TmaReplace) => true,
                Some(Load::CpAsync | Load::Tma) => path == MmaPath::Native,
            };
            let expected = suffixed && target == targets[0];
            assert_eq!(lacking.is_some(), expected, "{} {path:?} {target}: {lacking:?}", kernel.file);
        }
    }
    // The sentence for a whole decision.
    let toolchain = Toolchain { capabilities: &capabilities, toolkit: newest.version, target: targets[0] };
    let kernel = kernels.gemm(FormatPair::default(), MmaPath::Native, Load::CpAsync).unwrap();
    let question = Question {
        pair: FormatPair::default(),
        tile: "128x128x128".parse().unwrap(),
        swap_ab: false,
        kernel,
        path: MmaPath::Native,
        toolchain: Some(toolchain),
        limits: Limits::SM12X,
    };
    let blocked = admission::admit(&question).unwrap_err().to_string();
    assert!(blocked.contains("mma_mxf8f6f4") && blocked.contains("sm_121a sm_121f"), "{blocked}");
}

/// Its own cache with this machine's toolkits.
fn with_toolkits() -> TempDir {
    let tools = Store::open(None).unwrap().root().join("toolkits");
    let dir = TempDir::new().unwrap();
    symlink(tools, dir.path().join("toolkits")).unwrap();
    dir
}

fn tool(cache: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.args(words).env("SM121PROBE_CACHE", cache).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ptxas_says_registers_and_spills_of_two_tiles() {
    let dir = with_toolkits();
    let words =
        ["tiles", "--tile", "16x64x128", "--tile", "64x64x128", "--load", "cp_async", "--format", "csv"];
    let output = tool(dir.path(), &words).wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 6, "{text}");
    for row in rows {
        let number = |n: usize| row[n].parse::<u32>().unwrap();
        assert!((24..=255).contains(&number(7)) && number(8) + number(9) < 64, "{row:?}");
        assert!(number(5) <= number(6) && row[10] == "runs", "{row:?}");
    }
}

fn eight_processes_compile_each_kernel_once() {
    let dir = with_toolkits();
    let words = "kernels build --case tiny-exact --tile 16x64x128 --kernel-path portable --load cp_async --target sm_121a --cubin";
    let words: Vec<&str> = words.split(' ').collect();
    let running: Vec<Child> = (0..8).map(|_| tool(dir.path(), &words)).collect();
    let (mut compiled, mut assembled) = (0, 0);
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<u32> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [all, own, cached, made, kept, blocked] = numbers[..] else { panic!("{text}") };
        assert_eq!((all, own + cached, made + kept, blocked), (6, 6, 6, 0), "{text}");
        compiled += own;
        assembled += made;
    }
    assert_eq!((compiled, assembled), (6, 6), "one of the eight makes a kernel, the others read it");
    let again = tool(dir.path(), &words).wait_with_output().unwrap();
    let text = String::from_utf8(again.stdout).unwrap();
    assert!(text.contains("6 kernels, 0 compiled, 6 from the cache"), "{text}");
    assert!(text.contains("0 assembled, 6 from the cache"), "{text}");
}
