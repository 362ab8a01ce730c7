//! The compiler under test with a real ptxas: the structures of machine code that it writes, and what `bisect` and `fuzz ptx` say of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use compiler::known::by_name;
use compiler::machine::{Structure, structures};
use ptx::arch::Target;
use sm121probe::job::ptxas::Assembler;
use sm121probe::store::Store;
use sm121probe::toolkit::{Places, discover};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "structures_are_where_the_miscompile_is",
        &[Need::Toolkit("13.5.37")],
        structures_are_where_the_miscompile_is,
    ),
    ("bisect_names_the_miscompile", &[Need::Toolkit("13.5.37")], bisect_names_the_miscompile),
    ("lint_names_the_miscompile", &[Need::Toolkit("13.5.37")], lint_names_the_miscompile),
];

const LIMIT: Duration = Duration::from_secs(120);

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/compiler/tests/data").join(name)
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(args).output().unwrap()
}

/// ptxas writes a structure at each level that has the miscompile, and at no other, for sm_90 and for sm_120; never for the safe kernel.
fn structures_are_where_the_miscompile_is() {
    let store = Store::open(None).unwrap();
    let discovery = discover(Some(&store), &Places::from_environment(Some(store.root())));
    let Some(disassembler) = &discovery.disassembler else {
        panic!("`toolkit install` fetches nvdisasm, too")
    };
    let assembler = Assembler::new(LIMIT).unwrap();
    for structure in Structure::ALL {
        for m in structure.miscompiles().iter().filter_map(|name| by_name(name)) {
            for (toolkit, target) in
                discovery.toolkits.iter().flat_map(|t| ["sm_90", "sm_120"].map(|target| (t, target)))
            {
                let target: Target = target.parse().unwrap();
                for (level, file) in [1, 3].into_iter().flat_map(|level| {
                    [(level, m.kernel.clone()), (level, m.kernel.replace(".ptx", ".rewritten.ptx"))]
                }) {
                    let text = fs::read_to_string(data(&file))
                        .unwrap()
                        .replace(".target sm_90", &format!(".target {target}"));
                    let cubin = assembler
                        .assemble(toolkit, target, level, &text)
                        .unwrap()
                        .unwrap_or_else(|e| panic!("{file}: {e}"));
                    let found = structures(&disassembler.listing(&cubin, LIMIT).unwrap());
                    let context = format!("{file} by {} -O{level} for {target}: {found:?}", toolkit.version);
                    let wrong = m.affects(toolkit.version, level) && !file.contains("rewritten");
                    // At -O0 code has other shapes, which the rules do not know.
                    if level > 0 || !wrong {
                        assert_eq!(
                            found.iter().any(|place| place.structure == structure),
                            wrong,
                            "{context}"
                        );
                    }
                }
            }
        }
    }
}

fn bisect_names_the_miscompile() {
    let wrong = run(&[
        "bisect",
        data("packed_constant_sign.ptx").to_str().unwrap(),
        "--toolkit",
        "13.5.37",
        "--target",
        "sm_90",
    ]);
    let text = String::from_utf8(wrong.stdout).unwrap();
    assert_eq!(wrong.status.code(), Some(100), "{text}");
    assert!(
        text.contains("known miscompile packed_constant_sign with ptxas 13.5.37 at -O1 -O2 -O3\n"),
        "{text}"
    );
    let right = run(&[
        "bisect",
        data("packed_constant_sign.rewritten.ptx").to_str().unwrap(),
        "--toolkit",
        "13.5.37",
    ]);
    assert_eq!(right.status.code(), Some(0), "{}", String::from_utf8_lossy(&right.stdout));
}

fn lint_names_the_miscompile() {
    let args = ["--toolkit", "13.5.37", "--target", "sm_90"];
    let file = data("bfe_position.ptx");
    let output = run(&[&["lint", file.to_str().unwrap()], args.as_slice()].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("known miscompile bfe_position") && text.contains("no toolkit of this run has it"),
        "{text}"
    );
    let file = data("guarded_set.ptx");
    let output = run(&[&["lint", file.to_str().unwrap(), "--format", "json"], args.as_slice()].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"name\": \"guarded_set\"") && text.contains("\"line\": "), "{text}");
}
