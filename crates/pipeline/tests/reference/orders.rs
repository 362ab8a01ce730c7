//! No false alarm: sums as the model of tensor cores makes them, in the declared order and in any other.

use pipeline::moe::case::{self, FormatPair};
use pipeline::moe::{Accumulation, Contract, KOrder, Problem, judge, problem::generate};
use rayon::prelude::*;
use record::Verdict;

use crate::device::{Core, NATIVE, mix, run};
use crate::{all_pass, case as from};

fn contract(problem: &Problem, core: Core) -> Contract {
    let order = if core.shuffle.is_some() { KOrder::Any } else { KOrder::Ascending };
    let sum = Accumulation { chunk: core.chunk, group: 1, fraction: core.fraction as u32, order };
    Contract { fc1: sum, fc2: sum, ..Contract::native(problem.dims, problem.settings) }
}

const CORES: [Core; 3] =
    [NATIVE, Core { chunk: 16, fraction: 25, shuffle: None }, Core { chunk: 8, fraction: 24, shuffle: None }];

#[test]
fn every_small_case_passes_in_the_declared_order() {
    let library = case::library();
    assert!(library.problems.is_empty(), "{:?}", library.problems);
    let small = |c: &&case::Case| {
        c.pair == FormatPair::default() && c.tokens * c.top_k * c.hidden * c.inter <= 32 << 16
    };
    let cases: Vec<_> = library.cases.iter().filter(small).collect();
    assert!(cases.len() > 10);
    cases.par_iter().for_each(|case| {
        let problem = generate(case, case.seed).unwrap();
        for core in CORES {
            let stored = run(&problem, core);
            let results = judge(&contract(&problem, core), &stored).unwrap();
            all_pass(&results, &format!("{} in steps of {}", case.name, core.chunk));
        }
    });
}

#[test]
fn a_thousand_seeds_in_any_order_raise_no_alarm() {
    let seeds: Vec<u64> = (0..1000).collect();
    let worst = seeds
        .par_iter()
        .map(|seed| {
            let r = mix(*seed);
            let regime = ["real", "special", "exact", "impulse"][(r % 4) as usize];
            let rule = ["ceil", "floor", "even", "nearest", "rz"][(r >> 8) as usize % 5];
            // Every fourth is wide.
            let (tokens, hidden) = if seed % 4 == 0 { (2, 512) } else { (6, 128) };
            let case = from(&format!(
                "about: x\ntokens: {tokens}\nhidden: {hidden}\ninter: 64\nexperts: 3\ntop_k: 2\nregime: {regime}\nscale_rule: {rule}\n"
            ));
            let problem = generate(&case, *seed).unwrap();
            let mut core = CORES[(r >> 16) as usize % 3];
            core.shuffle = Some((r, 1 + (r >> 24) as usize % 4));
            let results = judge(&contract(&problem, core), &run(&problem, core)).unwrap();
            all_pass(&results, &format!("seed {seed}, {regime}"));
            results.iter().map(|r| r.worst_over_bound).fold(0.0, f64::max)
        })
        .reduce(|| 0.0, f64::max);
    assert!(worst > 0.9, "the bound is never nearly reached: {worst}");
}

#[test]
fn cancelling_sums_of_far_apart_blocks_stay_within_the_bound() {
    (0..300_u64).into_par_iter().for_each(|seed| {
        let case = from(
            "about: x\ntokens: 2\nhidden: 256\ninter: 64\nexperts: 2\ntop_k: 1\nregime: real\nbias: false\n",
        );
        let mut problem = generate(&case, seed).unwrap();
        // The second half of K is minus the first; scales reach over 24 binades, smaller towards both ends.
        let hidden = problem.inputs.hidden_states.as_mut().unwrap();
        for row in hidden.data.chunks_mut(256) {
            for k in 0..128 {
                row[255 - k] = row[k] ^ 0x8000;
            }
        }
        let w = problem.inputs.w13_blocks.as_mut().unwrap();
        for row in w.data.chunks_mut(128) {
            for byte in 0..64 {
                row[127 - byte] = row[byte].rotate_left(4);
            }
        }
        let scales = problem.inputs.w13_scales.as_mut().unwrap();
        for (n, row) in scales.data.chunks_mut(8).enumerate() {
            for block in 0..4 {
                let scale = 105 + (mix(seed ^ (n * 4 + block) as u64) % 24) as u8;
                (row[block], row[7 - block]) = (scale, scale);
            }
        }
        for mut core in CORES {
            for shuffle in [None, Some((seed, 3))] {
                core.shuffle = shuffle;
                let results = judge(&contract(&problem, core), &run(&problem, core)).unwrap();
                // What remains of the sums is smaller than their bounds, which then decide nothing.
                for r in results {
                    let accepted = matches!(r.verdict, Verdict::Pass | Verdict::Undetermined);
                    assert!(
                        accepted && r.worst_over_bound <= 1.0,
                        "seed {seed} in steps of {}: {r:?}",
                        core.chunk
                    );
                }
            }
        }
    });
}
