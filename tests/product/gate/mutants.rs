//! Mutants of a folder's kernels: what changed lines select, and options that make no sense.

use std::fs;
use std::process::Command;

use sm121probe::gate::{Affected, Base, Cases, Named};
use sm121probe::kernel::Library;
use sm121probe::moe::configuration::Configuration;

use super::fixture::{Desk, said};
use super::kernels::ours;

#[test]
fn a_line_under_a_condition_selects_what_it_is_compiled_for() {
    let desk = Desk::new();
    let folder = desk.path("kernels");
    fs::create_dir(&folder).unwrap();
    let cases = Cases::all();
    let select = |name: &str, text: &str, base: &Base| {
        fs::write(folder.join(name), text).unwrap();
        let library = Library::with_folder(&folder, sm121probe::families::check_kernel).unwrap();
        let affected = Affected::by(&library, &folder, &[folder.join(name)], base);
        let selected = affected.select(&library, &cases, Named::default()).unwrap();
        fs::remove_file(folder.join(name)).unwrap();
        let of = |name| Configuration::from_name(&name).unwrap();
        let found: Vec<_> =
            selected.trials.iter().map(|t| (t.case().to_owned(), of(t.configuration()))).collect();
        (found, affected.reasons, selected.reasons)
    };
    let gemm = ours("gemm.cuh");
    let marker = "u32 slab = part * PART_K / SLAB_K, chunk";
    assert!(gemm.contains(marker), "the line is another");
    let under = |condition: &str| {
        gemm.replacen(marker, &format!("#if {condition}\nlane += 0;\n#endif\n        {marker}"), 1)
    };
    // A line for K tile 256 of the native path.
    let (found, _, reasons) = select("gemm.cuh", &under("TILE_K == 256"), &Base::Ours);
    assert!(
        !found.is_empty() && found.iter().all(|(_, w)| w.tile.k == 256 && w.path.word() == "native"),
        "{found:?}"
    );
    assert!(
        reasons[0].contains("changed, active for K tile 256") && reasons[0].contains("path native"),
        "{reasons:?}"
    );
    // Macros that the file itself defines count, too.
    let (found, _, reasons) = select("gemm.cuh", &under("SLABS == 4 && SWAP_AB && A_BITS == 8"), &Base::Ours);
    assert!(!found.is_empty() && found.iter().all(|(_, w)| w.tile.k == 512 && w.swap_ab), "{reasons:?}");
    // The condition itself: what it includes or excludes.
    let old = Base::Texts([(folder.join("gemm.cuh"), under("TILE_K > 256"))].into_iter().collect());
    let (found, _, _) = select("gemm.cuh", &under("TILE_K >= 256"), &old);
    assert!(!found.is_empty() && found.iter().all(|(_, w)| w.tile.k == 256), "{found:?}");
    // A line that no tile compiles; a comment; and a line of every configuration.
    assert!(select("gemm.cuh", &under("TILE_K == 1024"), &Base::Ours).0.is_empty());
    let comment = gemm.replacen("// Element e of a lane", "// The element e of a lane", 1) + "\n\n// done\n";
    let (found, reasons, _) = select("gemm.cuh", &comment, &Base::Ours);
    assert!(found.is_empty() && reasons[0].contains("no code changed, affects nothing"), "{reasons:?}");
    let (found, _, reasons) = select("gemm.cuh", &gemm.replacen("u32 x0 =", "u32 x0 = 0 +", 1), &Base::Ours);
    assert!(found.len() > 24 && reasons[0].contains("active in every configuration ("), "{reasons:?}");
    // A rule of another stage: only the cases that depend on it.
    let rule = "mantissa >= CARRIES";
    let mx = ours("mx.cuh");
    assert!(mx.contains(rule), "the rule is another");
    let (found, _, reasons) = select("mx.cuh", &mx.replace(rule, "mantissa > CARRIES"), &Base::Ours);
    assert_eq!(found.iter().map(|(case, _)| case.as_str()).collect::<Vec<_>>(), ["mxfp4-even", "scale-even"]);
    assert!(reasons[0].contains("active in mxfp4-even and scale-even (2 of "), "{reasons:?}");
}

#[test]
fn mutants_need_a_folder_and_a_known_operator() {
    let desk = Desk::new();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .arg("gate")
            .args(arguments)
            .current_dir(desk.dir.path())
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    };
    assert_eq!(run(&["--mutants"]).0, Some(2));
    let (code, words) = run(&["--kernels", ".", "--mutants", "--mutant-operator", "shuffle"]);
    assert!(
        code == Some(2) && words.contains("is not a mutation operator; use one of constant_up"),
        "{words}"
    );
}
