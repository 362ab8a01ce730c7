//! What the ptxas of this machine contracts, proven by its machine code: `cargo test --test toolkit -- --ignored real`.

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
         .reg .b64 a; .reg .f32 f<16>; .reg .pred q;\nld.param.u64 a, [p];\n\
         ld.global.v4.f32 {{f0, f1, f2, f3}}, [a];\nsetp.gt.f32 q, f3, f2;\n{body}\n\
         st.global.v4.f32 [a], {{f8, f9, f10, f11}};\nret;\n}}\n"
    )
}

/// A body and how many of its pairs are contracted, of how many.
const BODIES: [(&str, usize, usize); 10] = [
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
];

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_ptxas_contracts_what_its_machine_code_shows() {
    let target: Target = "sm_121a".parse().unwrap();
    for toolkit in toolkits().iter().filter(|toolkit| toolkit.knows(target)) {
        for (body, chosen, pairs) in BODIES {
            let found = contracted(toolkit, target, &kernel(body), &["k"], None, LIMIT).unwrap();
            assert_eq!((found.chosen.len(), found.pairs), (chosen, pairs), "{}: {body}", toolkit.version);
        }
    }
}

#[test]
#[ignore = "needs installed toolkits: `sm121probe toolkit install all`"]
fn real_what_no_choice_explains_is_said() {
    let target: Target = "sm_121a".parse().unwrap();
    // ptxas makes a product of the division, and contracts that.
    let text = kernel("div.approx.f32 f4, f0, 0f43000000; add.f32 f8, f4, f2;");
    for toolkit in toolkits().iter().filter(|toolkit| toolkit.knows(target)) {
        let error = contracted(toolkit, target, &text, &["k"], None, LIMIT).unwrap_err();
        assert!(matches!(error, ContractionError::Undecided { pairs: 0, .. }), "{error}");
        assert!(error.to_string().contains("cannot be decided what ptxas"), "{error}");
    }
}
