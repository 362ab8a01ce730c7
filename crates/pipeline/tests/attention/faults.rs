//! Each planted fault is explained by its own name, and by no other that is not the same thing.

use pipeline::attention::{dump, judge};

use super::kernel::{Knobs, Kv, World, capped, file, run, visible};

/// A fault: the world in which it shows, the kernel that has it, and words of each explanation that is right.
struct Fault {
    world: fn(&mut World),
    kernel: fn(&World, &mut Knobs),
    explanations: &'static [&'static str],
}

const fn fault(
    world: fn(&mut World),
    kernel: fn(&World, &mut Knobs),
    explanations: &'static [&'static str],
) -> Fault {
    Fault { world, kernel, explanations }
}

fn sinks(world: &mut World) {
    world.has_sinks = true;
}

fn window(world: &mut World) {
    world.window = Some(24);
}

fn fp8(world: &mut World) {
    (world.kv, world.scales) = (Kv::E4m3, [0.37, 1.7]);
}

fn nvfp4(world: &mut World) {
    (world.kv, world.scales) = (Kv::Nvfp4, [0.11, 0.23]);
}

fn plain(_: &mut World) {}

const FAULTS: &[Fault] = &[
    // Beside some sixty keys e^-5 is nothing, too.
    fault(
        sinks,
        |_, k| k.sink = |_, _, _, _| None,
        &["the sinks are dropped", "the sinks are scaled: by -1", "the sinks are scaled: by 0"],
    ),
    fault(
        |w| w.slopes = true,
        |_, k| k.slope = |slopes, head| -slopes[head],
        &["the slopes of ALiBi are wrong: of the other sign"],
    ),
    fault(
        |w| w.slopes = true,
        |_, k| k.slope = |slopes, head| slopes[7 - head],
        &["the slopes of ALiBi are wrong: of the heads in reverse"],
    ),
    fault(
        |w| w.slopes = true,
        |_, k| k.slope = |_, _| 0.0,
        &["the slopes of ALiBi are wrong: they are missing"],
    ),
    fault(
        sinks,
        |_, k| k.sink = |_, sinks, head, _| Some(sinks[head] + 3.0_f32.ln()),
        &["the sink counts once for each split: 3 times"],
    ),
    fault(
        sinks,
        |_, k| k.sink = |world, sinks, head, _| Some(sinks[head] * world.sm_scale()),
        &["the sinks are scaled: by sm_scale"],
    ),
    fault(
        sinks,
        |_, k| k.sink = |_, sinks, head, _| Some(sinks[head] * std::f32::consts::LN_2),
        &["the sinks are scaled: by ln 2"],
    ),
    fault(
        sinks,
        |_, k| k.sink = |_, sinks, head, _| Some(sinks[head % 4]),
        &["the sink of another head is used: head mod the size of a group"],
    ),
    fault(
        sinks,
        |_, k| k.sink = |_, sinks, head, _| Some(sinks[head / 4]),
        &["the sink of another head is used: the head of keys"],
    ),
    fault(
        |w| (sinks(w), w.requests = vec![(9, 70), (10, 41)]).1,
        |_, k| k.sink = |_, sinks, _, row| Some(sinks[row % 8]),
        &["the sink of another head is used: the row of queries mod the heads"],
    ),
    fault(
        |w| w.requests = vec![(1, 70), (1, 41)],
        |_, k| (k.splits, k.averaged) = (3, true),
        &["results of splits are merged wrongly: they are averaged, 3 splits"],
    ),
    fault(
        // Every score is below it, so that the result is zero.
        |w| w.low = true,
        |_, k| k.sentinel = -5e4,
        &["low scores are taken as masked: below -5e4"],
    ),
    fault(
        |w| (nvfp4(w), w.requests = vec![(5, 64), (1, 96)]).1,
        |_, k| k.permuted = true,
        &["keys are permuted in each 32"],
    ),
    fault(
        window,
        |_, k| k.keys_of = |w, of, row| visible(&World { window: Some(25), ..w.clone() }, of, row),
        &["the window has another size: one key more"],
    ),
    fault(
        window,
        |_, k| k.keys_of = |w, of, row| visible(&World { window: Some(23), ..w.clone() }, of, row),
        &["the window has another size: one key fewer"],
    ),
    fault(
        window,
        |_, k| k.keys_of = |w, of, row| visible(&World { window: None, ..w.clone() }, of, row),
        &["the window has another size: there is none"],
    ),
    fault(
        window,
        |_, k| {
            k.keys_of = |w, of, row| {
                let first = visible(w, of, of.0 - 1)[0];
                visible(&World { window: None, ..w.clone() }, of, row)
                    .into_iter()
                    .filter(|key| *key >= first)
                    .collect()
            };
        },
        &["rows share the window of one row: the last"],
    ),
    fault(
        plain,
        |_, k| k.keys_of = |_, _, row| (0..=row).collect(),
        &["another mask is applied: causal from the top left"],
    ),
    fault(plain, |_, k| k.keys_of = |_, of, _| (0..of.1).collect(), &["another mask is applied: none"]),
    fault(
        plain,
        |_, k| k.keys_of = |_, of, row| (0..(row + 2 + of.1 - of.0).min(of.1)).collect(),
        &["the causal mask is shifted: a row sees the key after its own"],
    ),
    fault(
        plain,
        |_, k| k.keys_of = |_, of, row| (0..row + of.1 - of.0).collect(),
        &["the causal mask is shifted: a row does not see its own key"],
    ),
    fault(|w| w.hnd = false, |_, k| k.hnd = true, &["the other order of heads and slots: as HND"]),
    fault(|w| w.hnd = true, |_, k| k.hnd = false, &["the other order of heads and slots: as NHD"]),
    fault(plain, |_, k| k.exchanged = true, &["keys and values are exchanged: each for the other"]),
    fault(plain, |_, k| k.sides = [0, 0], &["keys are read as values"]),
    fault(plain, |_, k| k.sides = [1, 1], &["values are read as keys"]),
    fault(
        plain,
        |_, k| k.page_of = |table, request, _| table[request][0],
        &["the table of pages is read wrongly: the first page for all"],
    ),
    fault(
        plain,
        |_, k| k.page_of = |table, request, at| table[request][at.saturating_sub(1)],
        &["the table of pages is read wrongly: the previous page"],
    ),
    fault(
        plain,
        |_, k| {
            k.page_of = |table, request, at| *table[(request + 1) % 3].get(at).unwrap_or(&table[request][at])
        },
        &["the table of pages is read wrongly: the pages of the next request"],
    ),
    fault(
        plain,
        |_, k| {
            k.keys_of =
                |w, of, row| visible(w, of, row).into_iter().filter(|key| *key < of.1 / 32 * 32).collect()
        },
        &["keys are left out: those behind the last whole tile of 32"],
    ),
    fault(
        plain,
        |_, k| {
            k.keys_of =
                |w, of, row| visible(w, of, row).into_iter().filter(|key| *key >= of.1.div_ceil(2)).collect()
        },
        &["keys are left out: all but those of the last of 2 splits"],
    ),
    fault(
        |w| w.requests = vec![(1, 70), (1, 41)],
        |_, k| {
            k.keys_of = |w, of, row| {
                visible(w, of, row).into_iter().filter(|key| *key < of.1.div_ceil(3) * 2).collect()
            }
        },
        &["keys are left out: those of the last of 3 splits"],
    ),
    fault(
        plain,
        |_, k| k.keys_of = |w, of, row| visible(w, of, row)[1..].to_vec(),
        &["keys are left out: the first key"],
    ),
    fault(
        plain,
        |_, k| k.keys_of = |_, of, row| (0..of.1.next_multiple_of(16) - of.0 + row + 1).collect(),
        &["slots behind the last key are read: to the end of the page"],
    ),
    fault(
        plain,
        |_, k| k.kv_head = |w, _, head| head % w.kv_heads,
        &["heads of queries read another head of keys and values: the head of queries mod"],
    ),
    fault(
        |w| (nvfp4(w), w.swizzled[1] = true).1,
        |_, k| k.swizzled[1] = false,
        &["those of values are swizzled and are read as linear"],
    ),
    fault(
        |w| (nvfp4(w), w.swizzled[0] = true).1,
        |_, k| k.swizzled[0] = false,
        &["those of keys are swizzled and are read as linear"],
    ),
    fault(nvfp4, |_, k| k.swizzled[1] = true, &["those of values are linear and are read as swizzled"]),
    fault(
        nvfp4,
        |_, k| k.scale_sides = [0, 0],
        &["the block scales of another place are used: those of keys for values"],
    ),
    fault(nvfp4, |_, k| k.odd_first[0] = true, &["the nibbles of a byte are exchanged: of keys"]),
    // Exchanged columns of the output are the same thing.
    fault(
        nvfp4,
        |_, k| k.odd_first[1] = true,
        &["the nibbles of a byte are exchanged: of values", "columns of pairs exchanged"],
    ),
    fault(fp8, |_, k| k.score_factor /= 0.37, &["k_scale is missing"]),
    fault(fp8, |_, k| k.score_factor *= 0.37, &["k_scale is applied twice"]),
    fault(fp8, |_, k| k.score_factor /= 0.37 * 0.37, &["k_scale is inverted"]),
    fault(fp8, |_, k| k.value_factor = 1.0, &["v_scale is missing"]),
    fault(fp8, |_, k| k.value_factor = 0.37, &["k_scale is used for values"]),
    fault(
        fp8,
        |w, k| (k.score_factor, k.value_factor) = (w.sm_scale() * 1.7, 0.37),
        &["k_scale and v_scale are exchanged"],
    ),
    fault(fp8, |_, k| k.e5m2 = true, &["elements are read as another type"]),
    fault(nvfp4, |_, k| k.score_factor /= 0.11, &["k_global is missing"]),
    fault(nvfp4, |_, k| k.value_factor = 1.0, &["v_global is missing"]),
    fault(
        |w| (fp8(w), w.scales = [0.37, 1.5]).1,
        |_, k| (k.score_factor, k.value_factor) = (k.score_factor * 0.25 / 0.37, 1.0),
        &["scales of 32 bits are read as powers of two"],
    ),
    fault(plain, |_, k| k.score_factor = 1.0, &["sm_scale is missing"]),
    fault(plain, |w, k| k.score_factor *= w.sm_scale(), &["sm_scale is applied twice"]),
    fault(plain, |_, k| k.score_factor *= std::f32::consts::LN_2, &["log2 e is missing"]),
    fault(plain, |_, k| k.score_factor = 1.0 / 128.0_f32.sqrt(), &["it is 1 / √128"]),
    fault(
        |w| w.cap = Some(2.0),
        |_, k| k.score = |_, p, f, b| p * f + b,
        &["the soft cap is applied wrongly: it is missing"],
    ),
    fault(
        |w| w.cap = Some(2.0),
        |_, k| k.score = |_, p, f, b| capped(Some(1.0), p * f + b),
        &["the soft cap is applied wrongly: half of it"],
    ),
    fault(
        plain,
        |_, k| k.score = |_, p, f, b| capped(Some(15.0), p * f * 4.0 + b),
        // Nothing explains two changes at once.
        &[],
    ),
    fault(
        |w| w.cap = Some(3.0),
        |_, k| k.score = |w, p, f, b| capped(w.cap, p) * f + b,
        &["the soft cap is applied wrongly: before the scale of scores"],
    ),
    fault(
        |w| (w.cap, w.slopes) = (Some(2.0), true),
        |_, k| k.score = |w, p, f, b| capped(w.cap, p * f) + b,
        &["the soft cap is applied wrongly: before the slopes are added"],
    ),
    fault(
        plain,
        |_, k| k.kv_head = |_, side, head| if side == 0 { 1 - head / 4 } else { head / 4 },
        // With two heads these are the same thing.
        &["of keys alone, the next one"],
    ),
    fault(
        |w| w.kv_heads = 4,
        |_, k| k.kv_head = |_, side, head| if side == 1 { (head / 2) ^ 1 } else { head / 2 },
        &["of values alone, the other one of each pair"],
    ),
    fault(
        |w| w.kv_heads = 4,
        |_, k| k.kv_head = |_, _, head| 3 - head / 2,
        &["another head of keys and values: heads in reverse"],
    ),
    fault(
        plain,
        |_, k| {
            k.keys_of =
                |w, of, row| visible(w, of, row).into_iter().filter(|key| key / 16 % 2 == 0).collect();
        },
        &["every page with an odd number"],
    ),
    fault(
        plain,
        |_, k| k.keys_of = |w, of, row| visible(w, of, row).into_iter().filter(|key| key / 16 != 2).collect(),
        &["those of page 2 of the table"],
    ),
    fault(
        |w| w.requests = vec![(1, 150), (1, 131)],
        |_, k| k.keys_of = |w, of, row| visible(w, of, row).into_iter().filter(|key| *key < 128).collect(),
        &["keys are left out: those behind the last whole tile of 32"],
    ),
    fault(
        window,
        |_, k| {
            k.keys_of = |w, of, row| {
                let first = visible(w, of, row)[0] / 16 * 16;
                visible(&World { window: None, ..w.clone() }, of, row)
                    .into_iter()
                    .filter(|key| *key >= first)
                    .collect()
            };
        },
        &["the window begins with a tile: the keys before it in a tile of 16"],
    ),
    fault(
        plain,
        |_, k| k.query = |w, (r, h, d)| (r, (h + 1) % w.heads, d),
        &["other queries are read: of the next head"],
    ),
    fault(plain, |_, k| k.query_width = 48, &["other queries are read: only the first 48 elements"]),
    fault(plain, |_, k| k.value_factor = 0.87, &["the output has a constant factor: 0.87"]),
    fault(
        plain,
        |_, k| k.value_factor = 0.125,
        &["the output has a constant factor: 1 / 8, the heads of queries"],
    ),
    fault(plain, |_, k| k.value_factor = 0.5, &["the output has a constant factor: one half"]),
    fault(plain, |_, k| k.value_factor = 2.0, &["the output has a constant factor: two"]),
];

#[test]
fn every_fault_is_explained_by_its_name() {
    let mut wrong = Vec::new();
    for (n, Fault { world: change, kernel, explanations }) in FAULTS.iter().enumerate() {
        let mut world = World::new(n as u64);
        change(&mut world);
        let mut knobs = Knobs::right(&world);
        kernel(&world, &mut knobs);
        let judgement = judge(&dump::parse(&file(&world, &run(&world, &knobs)).bytes()).unwrap()).unwrap();
        let diagnosis = judgement.diagnosis.unwrap_or_else(|| panic!("{explanations:?} is not found"));
        assert!(diagnosis.wrong > 0 && diagnosis.verified > 0);
        let found: Vec<&str> = diagnosis.explanations.iter().map(|one| one.what.as_str()).collect();
        let named = explanations.iter().all(|words| found.iter().any(|what| what.contains(words)));
        if found.len() != explanations.len() || !named {
            wrong.push(format!("{explanations:?}: {}", diagnosis.text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a search says of planted faults.
#[derive(Default)]
struct Said {
    named: usize,
    unexplained: Vec<String>,
    accused: Vec<String>,
}

impl Said {
    /// Judges a file in which one of these is the fault; nothing if too few elements are wrong to say anything.
    fn add(&mut self, explanations: &[&str], bytes: &[u8]) {
        let Some(diagnosis) = judge(&dump::parse(bytes).unwrap()).unwrap().diagnosis else { return };
        if diagnosis.wrong < 24 {
            return;
        }
        let text = diagnosis.text();
        if explanations.iter().any(|words| text.contains(words)) {
            self.named += 1;
        } else if diagnosis.explanations.is_empty() {
            self.unexplained.push(format!("{explanations:?}: {text}"));
        } else {
            self.accused.push(format!("{explanations:?}: {text}"));
        }
    }

    fn check(&self, least: usize) {
        let all = self.named + self.unexplained.len() + self.accused.len();
        println!("{all} planted faults: {} named, {} unexplained", self.named, self.unexplained.len());
        println!("{}", self.unexplained.join("\n"));
        assert!(all >= least, "{all}");
        assert!(self.accused.is_empty(), "{}", self.accused.join("\n"));
        assert!(self.named * 100 >= all * 85, "{} of {all}", self.named);
    }
}

#[test]
fn faults_of_some_heads_alone_are_named_and_none_is_named_wrongly() {
    let mut said = Said::default();
    let explained = FAULTS.iter().enumerate().filter(|(_, fault)| !fault.explanations.is_empty());
    for (n, Fault { world: change, kernel, explanations }) in explained {
        let mut world = World::new(1000 + n as u64);
        change(&mut world);
        let mut knobs = Knobs::right(&world);
        kernel(&world, &mut knobs);
        let mut mixed = run(&world, &Knobs::right(&world));
        let wrong = run(&world, &knobs);
        let of_head = |at: usize| at / world.width % world.heads;
        for (at, x) in mixed.out.iter_mut().enumerate().filter(|(at, _)| of_head(*at) < world.heads / 2) {
            *x = wrong.out[at];
        }
        said.add(explanations, &file(&world, &mixed).bytes());
    }
    said.check(60);
}

/// A change of a kernel.
type Change = fn(&World, &mut Knobs);

#[test]
fn faults_of_logarithms_alone_are_named() {
    let mut said = Said::default();
    let faults: [(Change, &str); 4] = [
        (
            |_, k| k.sink = |_, _, _, _| None,
            "the logarithms: are lse_base 2, lse_layout rows_heads, lse_sink excluded",
        ),
        (|_, k| k.score_factor = 1.0, "the scale of scores is wrong: sm_scale is missing"),
        (
            |_, k| k.keys_of = |w, of, row| visible(&World { window: None, ..w.clone() }, of, row),
            "the window has another size: there is none",
        ),
        (
            |_, k| k.keys_of = |w, of, row| visible(w, of, row).into_iter().skip(1).collect(),
            "the window has another size: one key fewer",
        ),
    ];
    let world = World { window: Some(24), has_sinks: true, ..World::new(77) };
    let right = run(&world, &Knobs::right(&world));
    let shape = [world.rows(), world.heads];
    let with = |lse: &[f32]| {
        let mut file = file(&world, &right);
        file.say("lse_base", 2);
        file.say("lse_layout", "rows_heads");
        file.say("lse_sink", "included");
        file.f32("lse", &shape, lse);
        file.bytes()
    };
    for (fault, what) in faults {
        let mut knobs = Knobs::right(&world);
        fault(&world, &mut knobs);
        said.add(&[what], &with(&run(&world, &knobs).lse));
    }
    let negated: Vec<f32> = right.lse.iter().map(|x| -x).collect();
    said.add(&["the logarithms: have the other sign"], &with(&negated));
    said.check(5);
}

/// Which element of the right output a place gets: row, head and column.
type From = fn(usize, usize, usize) -> (usize, usize, usize);

#[test]
fn outputs_that_were_stored_elsewhere_are_recognised() {
    let world = World::new(1);
    let (heads, width, rows) = (world.heads, world.width, world.rows());
    let right = run(&world, &Knobs::right(&world));
    let moved: [(&str, From); 6] = [
        ("column d holds column d + 5, mod 64", |row, head, d| (row, head, (d + 5) % 64)),
        ("head 0 that of 3, 3 that of 0", |row, head, d| (row, [3, 1, 2, 0, 4, 5, 6, 7][head], d)),
        ("the next row", |row, head, d| ((row + 1) % 24, head, d)),
        ("columns of pairs exchanged", |row, head, d| (row, head, d ^ 1)),
        ("tiles of 8 columns exchanged", |row, head, d| (row, head, d ^ 8)),
        ("the next head", |row, head, d| (row, (head + 1) % 8, d)),
    ];
    for (words, from) in moved {
        let mut stored = run(&world, &Knobs::right(&world));
        for row in 0..rows {
            for head in 0..heads {
                for d in 0..width {
                    let (r, h, c) = from(row, head, d);
                    stored.out[(row * heads + head) * width + d] = right.out[(r * heads + h) * width + c];
                }
            }
        }
        let judgement = judge(&dump::parse(&file(&world, &stored).bytes()).unwrap()).unwrap();
        let text = judgement.diagnosis.unwrap().text();
        assert!(text.starts_with("explained, all") && text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_no_hypothesis_explains_is_called_unexplained_with_its_extent() {
    let world = World::new(2);
    let mut stored = run(&world, &Knobs::right(&world));
    // Head 3 of every second row.
    for row in (0..world.rows()).step_by(2) {
        let first = (row * world.heads + 3) * world.width;
        stored.out[first..first + world.width].iter_mut().for_each(|x| *x = super::kernel::bf16(1.5 - *x));
    }
    let judgement = judge(&dump::parse(&file(&world, &stored).bytes()).unwrap()).unwrap();
    let text = judgement.diagnosis.unwrap().text();
    assert!(
        text.starts_with("unexplained") && text.contains("head 3") && text.contains("every column"),
        "{text}"
    );
}

#[test]
fn an_input_that_tells_explanations_apart_is_named() {
    let world = World { has_sinks: true, ..World::new(0) };
    let knobs = Knobs { sink: |_, _, _, _| None, ..Knobs::right(&world) };
    let judgement = judge(&dump::parse(&file(&world, &run(&world, &knobs)).bytes()).unwrap()).unwrap();
    let diagnosis = judgement.diagnosis.unwrap();
    let text = diagnosis.text();
    // Each sink is so small beside sixty keys that its negative is nothing, too.
    assert!(!diagnosis.is_unique(), "{text}");
    let question = text.lines().find(|line| line.starts_with("to tell “the sinks are ")).unwrap_or_default();
    assert!(question.ends_with("other values in the sinks make their results differ"), "{text}");
}

#[test]
fn the_arithmetic_of_a_wrong_element_runs() {
    // Sinks, slopes and a cap, with scales of the cache; the value of the first column of a head is wrong.
    for (change, kv) in
        [(sinks as fn(&mut World), Kv::Bf16), (|w| w.slopes = true, Kv::E4m3), (plain, Kv::Nvfp4)]
    {
        let mut world = World { requests: vec![(1, 3), (2, 4)], ..World::new(11) };
        change(&mut world);
        if kv != Kv::Bf16 {
            (world.kv, world.scales) = (kv, [0.37, 1.7]);
        }
        let mut stored = run(&world, &Knobs::right(&world));
        let at = stored.out.iter().position(|x| x.abs() > 0.1).unwrap();
        stored.out[at] = -stored.out[at];
        let judgement = judge(&dump::parse(&file(&world, &stored).bytes()).unwrap()).unwrap();
        let program = judgement.diagnosis.unwrap().arithmetic.unwrap();
        let ran = std::process::Command::new("python3").args(["-c", &program]).output().unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["exact", exact, "stored", found] = words[..] else {
            panic!("{program}{text}{}", String::from_utf8_lossy(&ran.stderr));
        };
        let [exact, found] = [exact, found].map(|x| x.parse::<f64>().unwrap());
        // The sign alone is wrong.
        assert!((exact + found).abs() <= exact.abs() / 100.0 && exact != 0.0, "{text}");
    }
}

#[test]
fn a_wider_bound_explains_nothing_and_is_said() {
    let world = World { requests: vec![(1, 2), (2, 3), (1, 4)], ..World::new(8) };
    let knobs = Knobs { e4m3_weights: true, ..Knobs::right(&world) };
    let judgement = judge(&dump::parse(&file(&world, &run(&world, &knobs)).bytes()).unwrap()).unwrap();
    let diagnosis = judgement.diagnosis.unwrap();
    assert!(diagnosis.explanations.is_empty(), "{}", diagnosis.text());
    assert!(diagnosis.text().contains("roundings that are not declared"), "{}", diagnosis.text());
    assert!(diagnosis.roundings.iter().any(|what| what == "`weights` fp8_e4m3"), "{:?}", diagnosis.roundings);
}

#[test]
fn an_output_of_zeros_is_no_missing_tile() {
    let world = World { requests: vec![(1, 64)], ..World::new(9) };
    let mut stored = run(&world, &Knobs::right(&world));
    stored.out.fill(0.0);
    let mut file = file(&world, &stored);
    file.say("empty", "zero");
    let text = judge(&dump::parse(&file.bytes()).unwrap()).unwrap().diagnosis.unwrap().text();
    assert!(text.starts_with("not computed, all ") && text.contains("each wrong value is 0"), "{text}");
}

#[test]
fn logarithms_without_a_large_sink_are_right() {
    for low in [20.0_f32, 36.0, 38.0, 60.0] {
        let world = World { has_sinks: true, ..World::new(10) };
        let sink = |world: &World, sinks: &[f32], head: usize, _: usize| {
            let _ = world;
            sinks.get(head).copied()
        };
        let mut stored = run(&world, &Knobs { sink, ..Knobs::right(&world) });
        // Sinks so large that nothing of the keys remains beside them; their logarithm leaves the sink out.
        let without = run(&World { has_sinks: false, ..world.clone() }, &Knobs::right(&world));
        stored.lse = without.lse;
        stored.out.fill(0.0);
        let mut file = file(&world, &stored);
        let sinks = vec![low * 3.0; world.heads];
        file.f32("sinks", &[world.heads], &sinks);
        file.say("lse_sink", "excluded");
        let judgement = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
        let lse = judgement.results.iter().find(|result| result.stage == *"lse").unwrap();
        assert_eq!(lse.mismatches, 0, "{low}: {}", lse.note);
    }
}

#[test]
fn elements_that_nobody_stored_are_described() {
    let world = World::new(3);
    let mut stored = run(&world, &Knobs::right(&world));
    stored.out.chunks_mut(world.width).for_each(|row| row[48..].fill(0.0));
    let judgement = judge(&dump::parse(&file(&world, &stored).bytes()).unwrap()).unwrap();
    let text = judgement.diagnosis.unwrap().text();
    assert!(text.contains("columns 48 to 63, each wrong value is 0"), "{text}");
}

#[test]
fn logarithms_of_another_base_or_layout_are_recognised() {
    let world = World { has_sinks: true, ..World::new(4) };
    let said = |change: &dyn Fn(&mut super::kernel::File, Vec<f32>)| {
        let stored = run(&world, &Knobs::right(&world));
        let mut file = file(&world, &stored);
        file.say("lse_layout", "rows_heads");
        change(&mut file, stored.lse);
        let judgement = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
        judgement.diagnosis.map(|diagnosis| diagnosis.text()).unwrap_or_default()
    };
    let shape = [world.rows(), world.heads];
    assert_eq!(said(&|_, _| {}), "");
    let text = said(&|file, lse| {
        let natural: Vec<f32> = lse.iter().map(|x| x * std::f32::consts::LN_2).collect();
        file.f32("lse", &shape, &natural);
    });
    assert!(text.contains("lse_base e") && text.contains("the output is right"), "{text}");
    let text = said(&|file, lse| {
        let shifted: Vec<f32> = lse.iter().map(|x| x + 2688.0_f32.log2()).collect();
        file.f32("lse", &shape, &shifted);
    });
    assert!(text.contains("the logarithms: are each too large by 11.392"), "{text}");
    let text = said(&|file, _| {
        let without = run(&World { has_sinks: false, ..world.clone() }, &Knobs::right(&world));
        file.f32("lse", &shape, &without.lse);
    });
    assert!(text.contains("lse_sink excluded"), "{text}");
}

#[test]
fn nan_of_hidden_values_is_explained() {
    let world = World { window: Some(24), ..World::new(60) };
    let right = run(&world, &Knobs::right(&world));
    // The value of the first key of the first request, which no row of its window sees, is NaN in element 7 of head 1.
    let mut file = file(&world, &right);
    let page = world.table()[0][0];
    let row = if world.hnd {
        (page * world.kv_heads + 1) * world.page
    } else {
        page * world.page * world.kv_heads + 1
    };
    let at = (row * world.width + 7) * 2;
    let (_, _, _, bytes) = file.tensors.iter_mut().find(|(name, ..)| name == "v_cache").unwrap();
    bytes[at..at + 2].copy_from_slice(&[0xFF, 0x7F]);
    let clean = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
    assert_eq!(clean.results[0].mismatches, 0, "{}", clean.results[0].note);
    let mut out = right.out;
    let (rows, group) = (world.requests[0].0, world.heads / world.kv_heads);
    for line in (0..rows * world.heads).filter(|line| line % world.heads / group == 1) {
        out[line * world.width + 7] = f32::NAN;
    }
    file.bf16("out", &[world.rows(), world.heads, world.width], &out);
    let text = judge(&dump::parse(&file.bytes()).unwrap()).unwrap().diagnosis.unwrap().text();
    assert!(text.contains("values of hidden keys are multiplied by zero"), "{text}");
}
