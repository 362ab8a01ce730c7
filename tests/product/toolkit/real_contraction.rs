//! What this machine's ptxas contracts, read from its machine code: `cargo test --test product -- --ignored real`.

use std::fs;
use std::path::Path;
use std::process::Command;

use ptx::arch::Target;
use sm121probe::store::Store;
use sm121probe::toolkit::{ContractionError, Places, Toolkit, contracted, discover};

use super::real::LIMIT;

fn toolkits() -> Vec<Toolkit> {
    let store = Store::open(None).unwrap();
    discover(None, &Places::from_environment(Some(store.root()))).toolkits
}

fn kernel(body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b64 a, d<4>; .reg .f32 f<16>; .reg .pred q;\nld.param.u64 a, [p];\n\
         ld.global.v4.f32 {{f0, f1, f2, f3}}, [a];\nsetp.gt.f32 q, f3, f2;\n{body}\n\
         st.global.v4.f32 [a], {{f8, f9, f10, f11}};\nret;\n}}\n"
    )
}

/// A body, its number of contracted pairs, and its number of pairs.
const BODIES: [(&str, usize, usize); 20] = [
    ("mul.f32 f4, f0, f1; add.f32 f8, f4, f2;", 1, 1),
    ("mul.f32 f4, f0, f1; sub.f32 f8, f2, f4; sub.f32 f9, f4, f3;", 2, 2),
    ("mul.f32 f4, f0, f1; mul.f32 f5, f2, f3; add.f32 f8, f4, f5;", 1, 2),
    ("mul.f32 f4, f0, f1; add.f32 f8, f4, f2; mov.f32 f9, f4;", 0, 1),
    ("mov.f32 f8, f0; mul.f32 f4, f0, f1; @q add.f32 f8, f4, f2;", 1, 1),
    ("mov.f32 f8, f0; @q mul.f32 f4, f0, f1; @q add.f32 f8, f4, f2;", 0, 1),
    ("mul.f32 f4, f0, f1; mov.f32 f0, f3; add.f32 f8, f4, f2; mov.f32 f9, f0;", 1, 1),
    ("mul.rn.f32 f4, f0, f1; add.f32 f8, f4, f2;", 0, 0),
    ("mul.ftz.f32 f4, f0, f1; add.f32 f8, f4, f2;", 0, 0),
    ("mul.sat.f32 f4, f0, f1; add.f32 f8, f4, f2;", 0, 0),
    // A product and a sum of different types leave no choice.
    ("mul.f32 f8, f0, f1; cvt.f64.f32 d0, f2; add.f64 d0, d0, d0; cvt.rn.f32.f64 f9, d0;", 0, 0),
    // Divisions are products with a reciprocal: by a constant, by a power of two and by anything else.
    ("div.approx.f32 f4, f0, 0f43000000; add.f32 f8, f4, f2;", 1, 1),
    ("mov.b32 f5, 0fC3000000; div.full.f32 f4, f0, f5; sub.f32 f8, f2, f4;", 1, 1),
    ("div.full.f32 f4, f0, 0f40400000; add.f32 f8, f4, f2; mov.f32 f9, f4;", 0, 1),
    ("div.full.f32 f4, f0, f1; add.f32 f8, f4, f2;", 1, 1),
    ("div.approx.ftz.f32 f4, f0, f1; add.ftz.f32 f8, f4, f2;", 1, 1),
    // ptxas knows that the sum is not subnormal, and does not scale the division by it.
    ("ex2.approx.f32 f4, f0; add.f32 f5, f4, 0f3F800000; div.full.f32 f8, f1, f5;", 0, 0),
    // Instructions between a product and a sum: a copy, a negation, a pair.
    ("mul.f32 f4, f0, f1; mov.f32 f5, f4; add.f32 f8, f5, f2;", 1, 1),
    ("mul.f32 f4, f0, f1; neg.f32 f5, f4; add.f32 f8, f5, f2;", 1, 1),
    (
        "mul.f32 f4, f0, f1; mul.f32 f5, f2, f3; mov.b64 d0, {f4, f5}; mov.b64 d1, {f2, f3}; add.f32x2 d2, d0, d1; \
         mov.b64 {f8, f9}, d2;",
        2,
        2,
    ),
];

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_ptxas_contracts_what_its_machine_code_shows() {
    let target: Target = "sm_121a".parse().unwrap();
    for toolkit in toolkits().iter().filter(|toolkit| toolkit.knows(target)) {
        for (body, chosen, pairs) in BODIES {
            let found = contracted(toolkit, target, &kernel(body), &["k"], None, LIMIT).unwrap();
            assert_eq!((found.chosen, found.pairs), (chosen, pairs), "{}: {body}", toolkit.version);
        }
    }
}

/// `finalize` that adds the rounding error of each product, 8,192 times: zero if the product rounds, too much if it does not.
fn open_finalize(folder: &Path) {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let text = fs::read_to_string(kernels.join("finalize.cu")).unwrap();
    let closed = "low = __fmaf_rn(weight, x, low);";
    assert!(text.contains(closed));
    let open = r#"asm("{.reg .f32 r, s; mul.rn.f32 r, %1, %2; add.rn.f32 %0, r, %0; mul.f32 s, %1, %2; sub.f32 s, s, r; mul.rn.f32 s, s, 0f46000000; add.rn.f32 %0, s, %0;}" : "+f"(low) : "f"(weight), "f"(x));"#;
    fs::write(folder.join("finalize.cu"), text.replace(closed, open)).unwrap();
}

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_moe_says_which_reading_ran_and_what_depends_on_it() {
    let dir = tempfile::TempDir::new().unwrap();
    open_finalize(dir.path());
    let folder = dir.path().display().to_string();
    let moe = |conforms: bool, more: &[&str]| {
        let call = [
            "moe",
            "--case",
            "tiny-real",
            "--tile",
            "64x64x128",
            "--target",
            "sm_121a",
            "--load",
            "cp_async",
        ];
        let output = Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(call).args(more).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            output.status.code() == Some(0),
            conforms,
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    assert!(!moe(true, &["--kernels", &folder]).contains("--contract"));
    for (word, here, there) in [("off", "pass", "fail"), ("on", "fail", "pass"), ("as-ptxas", "fail", "pass")]
    {
        let text = moe(false, &["--kernels", &folder, "--contract", word]);
        let line = text.lines().find(|line| line.starts_with("remark")).unwrap();
        assert!(line.contains(&format!("--contract {word}")), "{line}");
        assert!(line.contains("undetermined by PTX: the values stored by finalize"), "{line}");
        let verdicts = format!("{here} with this choice, {there} with the other");
        assert!(text.contains("finalize fail") && text.contains(&verdicts), "{text}");
    }
    let text = moe(true, &["--contract", "on"]);
    assert!(text.contains("PTX leaves no product and sum of these kernels open"), "{text}");
}

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_what_no_choice_explains_is_said() {
    let target: Target = "sm_121a".parse().unwrap();
    // ptxas merges both into one basic block.
    let text = kernel("mul.f32 f4, f0, f1; bra next; next: add.f32 f8, f4, f2;");
    for toolkit in toolkits().iter().filter(|toolkit| toolkit.knows(target)) {
        let error = contracted(toolkit, target, &text, &["k"], None, LIMIT).unwrap_err();
        assert!(matches!(error, ContractionError::Undecided { pairs: 0, .. }), "{error}");
        assert!(error.to_string().contains("cannot be decided what ptxas"), "{error}");
    }
}
