//! Cases of lint with a known answer, checked with the real toolkits of this machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ptx::arch::{Suffix, Target};
use sm121probe::event::{Event, Sink};
use sm121probe::lint::{Asked, Assemblers, CellRow, Form, Require, Source, lint};
use sm121probe::record::Outcome;
use sm121probe::snippet::Library;
use sm121probe::store::Store;
use sm121probe::toolkit::{self, Discovery, Places, Toolkit};
use snapbox::{assert_data_eq, file};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "what_threads_and_manuals_say_of_sm_121_is_what_lint_says",
        &[Need::Ptxas],
        what_threads_and_manuals_say_of_sm_121_is_what_lint_says,
    ),
    (
        "what_is_printed_of_a_lost_suffix_a_triton_dump_and_a_cute_dsl_dump",
        &[Need::Toolkit(OLD), Need::Toolkit(NEW)],
        what_is_printed_of_a_lost_suffix_a_triton_dump_and_a_cute_dsl_dump,
    ),
    (
        "a_form_that_ptx_lacks_is_answered_with_what_it_has",
        &[Need::Toolkit(OLD), Need::Toolkit(NEW)],
        a_form_that_ptx_lacks_is_answered_with_what_it_has,
    ),
];

/// The first toolkit that accepts a variant on sm_121, sm_121f and sm_121a, and the answer of the newest; `-` means never. From the threads
/// named in the snippets' claims; 12.9 is the first toolkit with sm_121.
const KNOWN: &[(&str, [&str; 3])] = &[
    ("mma.mxf8f6f4.1X.e2m1.e2m1", ["-", "12.9", "12.9"]),
    ("mma.mxf4.isa.2X", ["-", "12.9", "12.9"]),
    ("mma.mxf4nvf4.isa.4X.ue4m3", ["-", "12.9", "12.9"]),
    ("mma.mxf4nvf4.isa.4X.ue8m0", ["-", "13.1", "13.1"]),
    ("mma.f8f6f4.f32.e2m1.e2m1", ["-", "12.9", "12.9"]),
    ("mma.sp.mxf8f6f4.1X.e4m3.e2m1", ["-", "12.9", "12.9"]),
    ("mma.sp.mxf4.isa.2X", ["-", "-", "12.9"]),
    ("mma.sp.mxf4nvf4.isa.4X.ue4m3", ["-", "-", "12.9"]),
    ("ldmatrix.m8n16.expand.x4.b4x16_p64", ["-", "12.9", "12.9"]),
    ("ldmatrix.m16n16.b8.x1", ["-", "12.9", "12.9"]),
    ("cvt.narrow.f32.e2m1x2", ["-", "12.9", "12.9"]),
    ("cvt.ue8m0x2.f32", ["-", "12.9", "12.9"]),
    ("cvt.narrow.bf16x2.e2m1x2", ["-", "13.1", "13.1"]),
    ("cvt.narrow.bf16x2.e4m3x2", ["-", "13.1", "13.1"]),
    ("cvt.rs.x4.e2m1x4", ["-", "-", "-"]),
    ("tensormap.replace.global.format", ["-", "12.9", "12.9"]),
    ("setmaxnreg", ["-", "12.9", "12.9"]),
    ("cp.async.bulk.tensor.load.cta.tile", ["12.9", "12.9", "12.9"]),
    ("cp.async.bulk.tensor.load.cluster.tile", ["12.9", "12.9", "12.9"]),
    ("cp.async.bulk.tensor.multicast.tile.plain", ["12.9", "12.9", "12.9"]),
    ("cp.async.bulk.tensor.load.cta.gather4", ["12.9", "12.9", "12.9"]),
    ("cp.async.bulk.tensor.load.cluster.gather4", ["-", "-", "-"]),
    ("cp.async.bulk.tensor.store.scatter4", ["-", "-", "-"]),
    ("tcgen05.alloc.1", ["-", "-", "-"]),
    ("wgmma.fence", ["-", "-", "-"]),
    ("arith.redux.f32.plain", ["-", "-", "-"]),
    ("griddepcontrol", ["12.9", "12.9", "12.9"]),
    ("clusterlaunchcontrol.try_cancel", ["12.9", "12.9", "12.9"]),
    ("arith.simd.add_sat_u8x4", ["-", "13.2", "13.2"]),
];

/// Toolkits that together distinguish all of these answers.
const TOOLKITS: [&str; 6] = ["12.8", "12.9", "13.0", "13.1", "13.2", "13.5"];

/// The toolkits of the golden files.
const OLD: &str = "12.9.86";
const NEW: &str = "13.5.37";

struct Quiet;

impl Sink for Quiet {
    fn emit(&self, _: Event) {}
}

/// The toolkits of these names on this machine.
fn here<'a>(discovery: &'a Discovery, names: &[&str]) -> Vec<&'a Toolkit> {
    let one =
        |name: &&str| discovery.select(&[(*name).to_owned()]).ok().and_then(|list| list.last().copied());
    names.iter().filter_map(one).collect()
}

/// `13.1` of a number such as 13.1.80, as two numbers.
fn release(text: &str) -> (u16, u16) {
    let (major, minor) = text.split_once('.').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}

fn what_threads_and_manuals_say_of_sm_121_is_what_lint_says() {
    let store = Store::open(None).ok();
    let discovery =
        toolkit::discover(store.as_ref(), &Places::from_environment(store.as_ref().map(Store::root)));
    let toolkits = here(&discovery, &TOOLKITS);
    assert!(!toolkits.is_empty(), "none of the toolkits {TOOLKITS:?}");
    let library = Library::embedded();
    let targets: Vec<Target> =
        [Suffix::Base, Suffix::Family, Suffix::Arch].map(|suffix| Target { number: 121, suffix }).to_vec();
    // As written by a build that lost the suffix.
    let source = |(id, _): &(&str, [&str; 3])| {
        let variant =
            library.variants.iter().find(|v| v.id == *id).unwrap_or_else(|| panic!("no variant {id}"));
        let text = variant.code.standalone("8.8".parse().unwrap(), targets[0]);
        Source::from_bytes(id, text.as_bytes()).unwrap()
    };
    let sources: Vec<Source> = KNOWN.iter().map(source).collect();
    let asked = Asked { targets: targets.clone(), named: true, require: Require::Newest, all_errors: false };
    let assemblers = Assemblers {
        toolkits: &toolkits,
        store: store.as_ref(),
        limit: Duration::from_secs(60),
        sink: &Quiet,
    };
    let result = lint(&sources, Vec::new(), &asked, &assemblers, &library).unwrap();
    for ((id, since), file) in KNOWN.iter().zip(&result.files) {
        let module = &file.modules[0];
        for (target, since) in targets.iter().zip(since) {
            for toolkit in &toolkits {
                let is_it = |c: &&CellRow| {
                    (c.toolkit, c.target, c.form) == (toolkit.version, *target, Form::Rewritten)
                };
                let cell = module.cells.iter().find(is_it).unwrap();
                let version = release(&toolkit.version.short());
                let want = match *since {
                    _ if version < (12, 9) => Outcome::UnknownTarget,
                    "-" => Outcome::Rejected,
                    first if version < release(first) => Outcome::Rejected,
                    _ => Outcome::Accepted,
                };
                assert_eq!(cell.outcome, want, "{id} {target} {}: {}", toolkit.version, cell.message);
                if want == Outcome::Rejected {
                    assert!(cell.kind.is_some() && cell.line.is_some(), "{id}: {}", cell.message);
                }
            }
        }
        let never = since.iter().all(|s| *s == "-");
        let newest_knows = toolkits.last().is_some_and(|t| t.version.major >= 13);
        if newest_knows && never {
            // For what SM12x lacks, an alternative that it has is named, and no remedy is invented.
            let instead = module.problems.iter().flat_map(|p| &p.instead);
            assert!(instead.clone().count() > 0, "{id}: nothing instead");
            assert!(instead.into_iter().all(|i| !i.toolkits.is_empty() && !i.targets.is_empty()), "{id}");
            assert!(module.cures.is_empty(), "{id}: {:?}", module.cures);
        } else if newest_knows && since[0] == "-" {
            // The suffix alone fixes it, or together with the version; `a` if `f` lacks it.
            let cure = module.cures.iter().find(|c| c.target == targets[0]).unwrap();
            let to = if since[1] == "-" { "sm_121a" } else { "sm_121f" };
            assert_eq!(cure.write_target.as_deref(), Some(to), "{id}: {cure:?}");
        }
        let warned = module.cells.iter().any(|c| c.warnings.iter().any(|w| w.message.contains("Advisory")));
        assert_eq!(
            warned,
            id.contains("multicast") && toolkits.iter().any(|t| t.version.major >= 13),
            "{id}"
        );
    }
}

/// A block-scaled product with these modifiers, whose `.version` is 8.8.
fn block_scaled(kind: &str, vector: &str, scales: &str) -> Source {
    let text = format!(
        ".version 8.8\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
         .reg .f32 %f<4>; .reg .b32 %r<8>; .reg .b64 %d;\nld.param.u64 %d, [p];\n\
         ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%d];\nld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d+16];\n\
         ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d+32];\n\
         mma.sync.aligned.m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::{vector}.f32.e2m1.e2m1.f32.{scales}\n\
         {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}, %r6, {{0, 0}}, %r7, {{0, 0}};\n\
         st.global.v4.f32 [%d], {{%f0, %f1, %f2, %f3}};\nret;\n}}\n"
    );
    Source::from_bytes("block_scaled.ptx", text.as_bytes()).unwrap()
}

fn a_form_that_ptx_lacks_is_answered_with_what_it_has() {
    let store = Store::open(None).ok();
    let discovery =
        toolkit::discover(store.as_ref(), &Places::from_environment(store.as_ref().map(Store::root)));
    let toolkits = here(&discovery, &[OLD, NEW]);
    let asked = Asked {
        targets: vec!["sm_121a".parse().unwrap()],
        named: true,
        require: Require::Newest,
        all_errors: false,
    };
    let assemblers =
        Assemblers { toolkits: &toolkits, store: None, limit: Duration::from_secs(60), sink: &Quiet };
    let sources = [
        block_scaled("mxf4", "2X", "ue4m3"),
        block_scaled("mxf4nvf4", "2X", "ue4m3"),
        block_scaled("mxf4nvf4", "4X", "ue8m0"),
    ];
    let result = lint(&sources, Vec::new(), &asked, &assemblers, &Library::embedded()).unwrap();
    let remedies = |file: usize| -> Vec<&str> {
        result.files[file].modules[0].problems.iter().filter_map(|p| p.remedy.as_deref()).collect()
    };
    assert_eq!(remedies(0), ["You wrote `.ue4m3`; PTX has `.ue8m0`."]);
    assert_eq!(
        remedies(1),
        ["You wrote `.scale_vec::2X`; PTX has `.scale_vec::4X`. Or you wrote `.ue4m3`; PTX has `.ue8m0`."]
    );
    for (file, count) in [(0, 1), (1, 2)] {
        let problem = &result.files[file].modules[0].problems[0];
        assert_eq!((problem.proposals.len(), problem.instead.len()), (count, count), "{problem:?}");
    }
    // The form is newer than one toolkit, and the file's version is older than the form.
    assert!(!remedies(2).is_empty());
    for remedy in remedies(2) {
        assert_eq!(remedy, "This instruction needs `.version 9.1` (ptxas 13.1 or later).");
    }
    let cures = &result.files[2].modules[0].cures;
    assert_eq!(cures.len(), 1, "{cures:?}");
    assert_eq!((cures[0].form, cures[0].write_version.as_deref()), (Form::Version, Some("9.1")));
}

fn what_is_printed_of_a_lost_suffix_a_triton_dump_and_a_cute_dsl_dump() {
    let print = |args: &[&str], code: i32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = command
            .current_dir(folder)
            .args(["lint", "--offline", "-k", OLD, "-k", NEW])
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = "examples/kernels/block_scaled_mma.ptx";
    assert_data_eq!(print(&[plain], 100), file!["../lint/golden/lost_suffix.txt"].raw());
    assert_data_eq!(
        print(&[plain, "--require", "rewritten", "-t", "sm_121f"], 0),
        file!["../lint/golden/rewritten.txt"].raw()
    );
    let dump = "tests/lint/triton_dump.txt";
    assert_data_eq!(print(&[dump], 100), file!["../lint/golden/triton.txt"].raw());
    let cute = "tests/lint/cute_dsl.ptx";
    assert_data_eq!(
        print(&[cute, "--all-errors", "--format", "md"], 100),
        file!["../lint/golden/cute_dsl.md"].raw()
    );
    let made = "tests/lint/cute_dsl_tcgen05.ptx";
    assert_data_eq!(
        print(&[made, "--all-errors", "--format", "md"], 100),
        file!["../lint/golden/cute_dsl_tcgen05.md"].raw()
    );
}
