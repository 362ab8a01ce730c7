//! The emulator against the committed matrix: it refuses for a target what ptxas refuses, and every variant that ptxas
//! accepts ends in a result or in a refusal that names the form.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeMap;

use emulator::{GlobalMemory, Lack, Launch, Options, Stop, launch, load};
use ptx::arch::Target;
use serde_json::Value;
use sm121probe::snippet::{Library, Variant};

/// What a toolkit reports for a variant, by target.
type Cells = BTreeMap<Target, char>;

/// The newest toolkit of the record, its PTX version, and what it reports for each variant.
fn matrix() -> (String, BTreeMap<String, Cells>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/reports/matrix.json");
    let record: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let matrix = &record["matrix"];
    let newest = matrix["toolkits"].as_array().unwrap().last().unwrap();
    let of_newest = |pair: &&Value| pair["toolkit"] == newest["version"] && pair["arch"] == pair["target"];
    let pairs = matrix["pairs"].as_array().unwrap().iter().enumerate();
    let columns: Vec<(usize, Target)> = pairs
        .filter(|(_, pair)| of_newest(pair))
        .map(|(n, pair)| (n, pair["target"].as_str().unwrap().parse().unwrap()))
        .collect();
    assert!(columns.len() >= 15, "the record has the default targets and their relatives");
    let variants = matrix["variants"].as_array().unwrap().iter().map(|variant| {
        let letters: Vec<char> = variant["outcomes"].as_str().unwrap().chars().collect();
        let cells = columns.iter().map(|(n, target)| (*target, letters[*n])).collect();
        (variant["id"].as_str().unwrap().to_owned(), cells)
    });
    (newest["isa"].as_str().unwrap().to_owned(), variants.collect())
}

fn each(mut with: impl FnMut(&Variant, &str, &Cells)) {
    let (isa, recorded) = matrix();
    let library = Library::embedded();
    let mut seen = 0;
    for variant in &library.variants {
        // A snippet may be newer than the record.
        if let Some(cells) = recorded.get(&variant.id) {
            with(variant, &isa, cells);
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen} variants are in the record");
}

#[test]
fn what_the_matrix_refuses_for_a_target_is_refused() {
    let mut lenient = Vec::new();
    let mut refused = 0;
    each(|variant, isa, cells| {
        for (target, cell) in cells.iter().filter(|(_, cell)| **cell == 'R') {
            match load(&variant.code.standalone(isa.parse().unwrap(), *target)) {
                Ok(_) => lenient.push(format!("{} for {target}: {cell}", variant.id)),
                Err(_) => refused += 1,
            }
        }
    });
    assert!(lenient.is_empty(), "{} are loaded:\n{}", lenient.len(), lenient.join("\n"));
    assert!(refused > 1000, "{refused}");
}

#[test]
fn what_the_matrix_accepts_is_never_said_to_be_refused_by_ptxas() {
    // A form that is not emulated is refused for what the emulator lacks, for every target.
    let (mut strict, mut accepted) = (Vec::new(), 0);
    each(|variant, isa, cells| {
        for (target, _) in cells.iter().filter(|(_, cell)| **cell == 'A') {
            accepted += 1;
            if let Err(Stop::Unsupported(refused)) =
                load(&variant.code.standalone(isa.parse().unwrap(), *target))
                && refused.lack == Lack::Ptx
            {
                strict.push(format!("{} for {target}: {refused}", variant.id));
            }
        }
    });
    assert!(strict.is_empty(), "{} are refused:\n{}", strict.len(), strict.join("\n"));
    assert!(accepted > 5_000, "{accepted}");
}

#[test]
fn every_accepted_variant_ends_in_a_result_or_a_named_refusal() {
    let (mut ended, mut stopped, mut unsupported, mut wrong) = (0, 0, 0, Vec::new());
    each(|variant, isa, cells| {
        // The accepting target with the most features: sm_121a, if it accepts.
        let Some((target, _)) = cells
            .iter()
            .rev()
            .find(|(t, cell)| **cell == 'A' && t.to_string() == "sm_121a")
            .or_else(|| cells.iter().rev().find(|(_, cell)| **cell == 'A'))
        else {
            return;
        };
        let outcome = match load(&variant.code.standalone(isa.parse().unwrap(), *target)) {
            Ok(program) => program.kernels.iter().try_for_each(|kernel| {
                let mut memory = GlobalMemory::default();
                let buffers =
                    [memory.allocate_with(vec![0; 1 << 16]), memory.allocate_with(vec![0; 1 << 16])];
                let mut params = vec![0; kernel.param_bytes];
                for (n, parameter) in kernel.params.iter().enumerate().filter(|(_, p)| p.size == 8) {
                    params[parameter.offset..parameter.offset + 8]
                        .copy_from_slice(&buffers[n % 2].to_le_bytes());
                }
                let block = kernel.required_threads.unwrap_or([32, 1, 1]);
                let how = Launch { grid: [2, 1, 1], block, shared_bytes: 0, params };
                let options = Options { fuel: 100_000, ..Options::default() };
                launch(&program, kernel, &how, &mut memory, &options).map(|_| ())
            }),
            Err(stop) => Err(stop),
        };
        match outcome {
            Ok(()) => ended += 1,
            Err(Stop::Trap(trap)) if !trap.what.is_empty() => stopped += 1,
            Err(Stop::Unsupported(form)) if !form.form.is_empty() && !form.why.is_empty() => unsupported += 1,
            Err(Stop::Launch(why)) if !why.is_empty() => stopped += 1,
            Err(other) => wrong.push(format!("{}: {other}", variant.id)),
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Inputs are zeros: a variant that needs a tensor map or an address in its input stops by a rule.
    assert!(
        ended > 300 && ended > stopped,
        "{ended} ended, {stopped} stopped, {unsupported} are not emulated"
    );
}
