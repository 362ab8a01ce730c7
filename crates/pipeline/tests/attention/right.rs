//! Right results are never accused, whatever a kernel may round; and each term of the bound is needed: what is declared not to be rounded
//! is found where it is.

use std::ops::Range;

use pipeline::attention::{dump, judge};
use record::Verdict;

use super::kernel::{File, Knobs, Kv, World, file, run};

pub(super) fn verdicts(file: &File) -> Vec<(String, Verdict, u64)> {
    let judgement = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
    judgement.results.iter().map(|r| (r.stage.to_string(), r.verdict, r.mismatches)).collect()
}

/// A world of random options.
fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    let pick = |stream: u64, n: u64| world.draw(100 + stream, 0) % n;
    let (kv, window, sinks, cap) = (pick(1, 3), pick(2, 3), pick(3, 2), pick(4, 4));
    let (page, width, causal) = (pick(5, 4), pick(6, 2), pick(7, 4));
    world.kv = [Kv::Bf16, Kv::E4m3, Kv::Nvfp4][kv as usize];
    world.scales = [[1.0, 1.0], [0.37, 1.7], [0.11, 0.23]][kv as usize];
    world.swizzled[1] = kv == 2 && seed.is_multiple_of(3);
    world.window = [None, Some(7), Some(40)][window as usize];
    world.has_sinks = sinks == 1;
    world.cap = (cap == 0).then_some(30.0);
    world.page = [4, 8, 16, 64][page as usize];
    world.width = [64, 128][width as usize];
    world.causal = causal > 0;
    world
}

#[test]
fn no_right_result_is_accused() {
    none_is_accused(0..60);
}

#[test]
#[ignore = "three thousand seeds, about a thousand of each type of cache, take minutes; run before a release"]
fn no_right_result_is_accused_for_thousands_of_seeds() {
    none_is_accused(60..3060);
}

fn none_is_accused(seeds: Range<u64>) {
    for seed in seeds {
        let world = world(seed);
        for (rounded_sum, splits, short_partials) in
            [(true, 1, false), (false, 1, false), (true, 3, true), (false, 5, true)]
        {
            let knobs = Knobs { rounded_sum, splits, short_partials, ..Knobs::right(&world) };
            let verdicts = verdicts(&file(&world, &run(&world, &knobs)));
            assert_eq!(verdicts.len(), 2);
            for (stage, verdict, _) in verdicts {
                assert!(
                    matches!(verdict, Verdict::Pass | Verdict::Undetermined),
                    "seed {seed} {stage} {knobs:?}"
                );
            }
        }
    }
}

#[test]
fn every_declared_rounding_is_needed() {
    // What the kernel does, what is declared, and whether that is less than it does.
    let of = |knobs: fn(&mut Knobs), declared: &[(&str, &str)]| {
        let mut wrong = 0;
        for seed in 0..6 {
            let world = World { causal: true, ..World::new(seed) };
            let mut kernel = Knobs::right(&world);
            knobs(&mut kernel);
            let mut file = file(&world, &run(&world, &kernel));
            declared.iter().for_each(|(key, value)| file.say(key, value));
            wrong += verdicts(&file)[0].2;
        }
        wrong
    };
    let exact: fn(&mut Knobs) = |knobs| knobs.rounded = false;
    let binary32 = [("kernel", "fa2"), ("weights", "f32"), ("partials", "none")];
    assert_eq!(of(exact, &binary32), 0, "weights in binary32");
    assert!(of(|_| {}, &binary32) > 0, "weights are rounded to bf16");
    let fa2 = [("kernel", "fa2"), ("partials", "none")];
    assert_eq!(of(|_| {}, &fa2), 0);
    let split = |knobs: &mut Knobs| (knobs.splits, knobs.short_partials) = (4, true);
    let binary32_partials = [("kernel", "fa2"), ("weights", "f32"), ("partials", "f32")];
    let long: fn(&mut Knobs) = |knobs| (knobs.rounded, knobs.splits) = (false, 4);
    assert_eq!(of(long, &binary32_partials), 0, "partial results in binary32");
    let short: fn(&mut Knobs) =
        |knobs| (knobs.rounded, knobs.splits, knobs.short_partials) = (false, 4, true);
    assert!(of(short, &binary32_partials) > 0, "partial results are rounded to bf16");
    assert_eq!(of(split, &[("kernel", "fa2")]), 0);
    let products: fn(&mut Knobs) = |knobs| (knobs.rounded, knobs.short_products) = (false, true);
    assert_eq!(of(products, &[&binary32[..], &[("products", "bf16")]].concat()), 0, "products in bf16");
    assert!(of(products, &binary32) > 0, "products of queries and keys are rounded to bf16");
    let unrounded = [("kernel", "triton"), ("partials", "none")];
    let normalised: fn(&mut Knobs) = |knobs| (knobs.rounded_sum, knobs.normalised) = (false, true);
    assert_eq!(
        of(normalised, &[&unrounded[..], &[("denominator", "normalised")]].concat()),
        0,
        "shares in bf16"
    );
    assert!(of(normalised, &unrounded) > 0, "weights are divided before they are rounded");
    let merged: fn(&mut Knobs) = |knobs| (knobs.splits, knobs.short_merge) = (4, true);
    assert!(of(merged, &fa2) > 0, "results of four groups of warps are added up in bf16");
    assert_eq!(of(merged, &[("kernel", "xqa"), ("partials", "none")]), 0);
}

#[test]
fn a_cap_of_exponentials_errs_by_its_own_size() {
    // Scores are far below the cap, so that an error relative to its tangent would be nothing.
    for seed in 0..6 {
        let world = World { cap: Some(3000.0), ..World::new(seed) };
        let scale = 1e-3;
        // As vLLM's Triton kernel computes it.
        let score = |world: &World, product: f32, factor: f32, _: f32| {
            let cap = world.cap.unwrap();
            cap * (1.0 - 2.0 / ((2.0 * (product * factor / cap)).exp() + 1.0))
        };
        let knobs = Knobs { score, score_factor: scale, ..Knobs::right(&world) };
        let mut file = file(&world, &run(&world, &knobs));
        file.say("kernel", "triton");
        file.say("sm_scale", scale);
        let wrong: u64 = verdicts(&file).iter().map(|(.., wrong)| wrong).sum();
        assert_eq!(wrong, 0, "seed {seed}");
    }
}

#[test]
fn denominators_of_other_weights_are_told_apart_where_values_are_equal() {
    // With equal values and a rounded sum the output is that value; an unrounded sum misses it.
    let verdict = |rounded_sum: bool, denominator: &str| {
        let world = World { requests: vec![(4, 60)], ..World::new(3) };
        let knobs = Knobs { rounded_sum, ..Knobs::right(&world) };
        let mut stored = run(&world, &knobs);
        let mut file = file(&world, &stored);
        let ones = vec![1.0; world.elements()];
        let shape = file.tensors.iter().find(|(name, ..)| name == "v_cache").unwrap().2.clone();
        file.bf16("v_cache", &shape, &ones);
        // The output is the ratio of the sums of rounded weights and of those that the denominator has.
        let rows = world.rows();
        let other = run(&world, &Knobs { rounded_sum: true, ..Knobs::right(&world) });
        for (line, (lse, of_rounded)) in stored.lse.iter().zip(&other.lse).enumerate() {
            let ratio = (of_rounded - lse).exp2();
            let to = line * world.width..(line + 1) * world.width;
            stored.out[to].fill(ratio);
        }
        file.f32("out", &[rows, world.heads, world.width], &stored.out);
        file.say("kernel", if denominator == "rounded" { "fa2" } else { "triton" });
        file.say("partials", "none");
        verdicts(&file)[0].1
    };
    assert_eq!(verdict(true, "rounded"), Verdict::Pass);
    assert_eq!(verdict(false, "unrounded"), Verdict::Pass);
    assert_eq!(verdict(false, "rounded"), Verdict::Fail);
}

#[test]
fn elements_that_are_rounded_after_their_scale_are_right_only_where_that_is_declared() {
    let wrong = |kernel: &str| {
        let of_seed = |seed: u64| {
            let world = World { kv: Kv::E4m3, scales: [0.37, 1.7], ..World::new(seed) };
            let knobs = Knobs {
                dequantized: true,
                score_factor: world.sm_scale(),
                value_factor: 1.0,
                rounded_sum: false,
                ..Knobs::right(&world)
            };
            let mut file = file(&world, &run(&world, &knobs));
            file.say("kernel", kernel);
            verdicts(&file).iter().map(|(.., wrong)| wrong).sum::<u64>()
        };
        (0..6).map(of_seed).sum::<u64>()
    };
    assert_eq!((wrong("triton"), wrong("any")), (0, 0));
    assert!(wrong("fa2") > 0, "FA2 applies scales to scores and results");
}

#[test]
fn logarithms_of_weights_that_are_subnormal_in_eight_bits_are_right() {
    for n in 0..40 {
        let world = World::new(n);
        let knobs = Knobs { e4m3_weights: true, ..Knobs::right(&world) };
        let mut file = file(&world, &run(&world, &knobs));
        file.say("kernel", "fa2");
        file.say("weights", "fp8_e4m3");
        let judgement = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
        for result in judgement.results {
            assert_eq!(result.mismatches, 0, "{n}: {} {}", result.stage, result.note);
        }
    }
}
