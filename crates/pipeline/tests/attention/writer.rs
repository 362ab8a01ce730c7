//! Writers of caches: what they may store is right however they divide, and each planted fault is explained.

use numerics::convert::f32_to;
use numerics::{Format, Rounding};
use pipeline::attention::{Judgement, dump, judge_contents};
use pipeline::frame::effort::Effort;
use record::Verdict;
use safetensors::tensor::Dtype;

use super::kernel::{File, Kv, World};

const WIDTH: usize = 64;
const HEADS: usize = 2;
const PAGE: usize = 16;
const PAGES: usize = 6;
const TOKENS: usize = 23;

/// What a writer does.
#[derive(Clone)]
struct Writer {
    kv: Kv,
    hnd: bool,
    swizzled: [bool; 2],
    exchanged: bool,
    odd_first: bool,
    /// What each side is multiplied by.
    factors: [f32; 2],
    shift: usize,
    /// Whether it multiplies by a reciprocal.
    reciprocal: bool,
}

const SCALES: [f32; 2] = [0.37, 1.3];

impl Writer {
    fn right(kv: Kv, hnd: bool) -> Self {
        Self {
            kv,
            hnd,
            swizzled: [false, false],
            exchanged: false,
            odd_first: false,
            factors: SCALES,
            shift: 0,
            reciprocal: false,
        }
    }

    fn row(&self, page: usize, slot: usize, head: usize) -> usize {
        if self.hnd { (page * HEADS + head) * PAGE + slot } else { (page * PAGE + slot) * HEADS + head }
    }

    fn divide(&self, x: f32, by: f32) -> f32 {
        if self.reciprocal { x * (1.0 / by) } else { x / by }
    }
}

fn nearest(format: Format, x: f32) -> u32 {
    f32_to(format, x, Rounding::NearestEven, true, false)
}

fn slots() -> Vec<i64> {
    // Every fifth token has none.
    (0..TOKENS).map(|n| if n % 5 == 4 { -1 } else { ((n * 37 + 5) % (PAGES * PAGE - 2)) as i64 }).collect()
}

/// The file of a writer whose reader expects `declared`.
fn file(writer: &Writer, declared: &Writer) -> File {
    let world = World::new(21);
    let source = |side: usize| -> Vec<f32> {
        (0..TOKENS * HEADS * WIDTH)
            .map(|n| {
                let bits = world.draw(40 + side as u64, n);
                let x = ((bits >> 40) as f32 / 16_777_216.0 - 0.5) * 6.0;
                f32::from_bits(x.to_bits() & 0xFFFF_0000)
            })
            .collect()
    };
    let sources = [source(0), source(1)];
    let rows = PAGES * PAGE * HEADS;
    let bits = match writer.kv {
        Kv::Bf16 => 16,
        Kv::E4m3 => 8,
        Kv::Nvfp4 => 4,
    };
    let mut codes = [vec![0x7F_u8; rows * WIDTH * bits / 8], vec![0x7F; rows * WIDTH * bits / 8]];
    let mut scales = [vec![0x7F_u8; rows * WIDTH / 16], vec![0x7F; rows * WIDTH / 16]];
    for (token, slot) in slots().iter().enumerate() {
        let Ok(slot) = usize::try_from(*slot) else { continue };
        let slot = slot + writer.shift;
        let (page, slot) = (slot / PAGE, slot % PAGE);
        for head in 0..HEADS {
            for side in 0..2 {
                let from = &sources[if writer.exchanged { 1 - side } else { side }];
                let from = &from[(token * HEADS + head) * WIDTH..][..WIDTH];
                let row = writer.row(page, slot, head);
                for (block, values) in from.chunks(16).enumerate() {
                    let most = values.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                    let scale = nearest(Format::Ue4m3, writer.divide(most, 6.0 * writer.factors[side])) as u8;
                    let blocks = WIDTH / 16;
                    let (mut of_slot, mut column) = (slot, block);
                    if writer.swizzled[side] {
                        let group = blocks / 4;
                        (of_slot, column) = (slot / 4 * 4 + block / group, block % group * 4 + slot % 4);
                    }
                    if writer.kv == Kv::Nvfp4 {
                        scales[side][writer.row(page, of_slot, head) * blocks + column] = scale;
                    }
                    for (i, x) in values.iter().enumerate() {
                        let n = row * WIDTH + block * 16 + i;
                        match writer.kv {
                            Kv::Bf16 => {
                                let code = nearest(Format::Bf16, *x) as u16;
                                codes[side][n * 2..n * 2 + 2].copy_from_slice(&code.to_le_bytes());
                            }
                            Kv::E4m3 => {
                                codes[side][n] =
                                    nearest(Format::E4m3, writer.divide(*x, writer.factors[side])) as u8;
                            }
                            Kv::Nvfp4 => {
                                let unit = Format::Ue4m3.decode(scale.into()) * writer.factors[side];
                                let code = nearest(Format::E2m1, writer.divide(*x, unit)) as u8;
                                let n = if writer.odd_first { n ^ 1 } else { n };
                                let byte = &mut codes[side][n / 2];
                                *byte = *byte & !(15 << (n % 2 * 4)) | code << (n % 2 * 4);
                            }
                        }
                    }
                }
            }
        }
    }
    let mut file = File::default();
    for (name, values) in [("k", &sources[0]), ("v", &sources[1])] {
        file.bf16(name, &[TOKENS, HEADS, WIDTH], values);
    }
    let bytes = slots().iter().flat_map(|slot| slot.to_le_bytes()).collect();
    file.put("slot_mapping", Dtype::I64, &[TOKENS], bytes);
    let (dtype, last) = match writer.kv {
        Kv::Bf16 => (Dtype::BF16, WIDTH),
        Kv::E4m3 => (Dtype::F8_E4M3, WIDTH),
        Kv::Nvfp4 => (Dtype::U8, WIDTH / 2),
    };
    let shape =
        |last: usize| if declared.hnd { [PAGES, HEADS, PAGE, last] } else { [PAGES, PAGE, HEADS, last] };
    let [k_codes, v_codes] = codes;
    file.put("k_cache", dtype, &shape(last), k_codes);
    file.put("v_cache", dtype, &shape(last), v_codes);
    let [k_scales, v_scales] = scales;
    match writer.kv {
        Kv::Bf16 => {}
        Kv::E4m3 => {
            file.f32("k_scale", &[1], &SCALES[..1]);
            file.f32("v_scale", &[1], &SCALES[1..]);
        }
        Kv::Nvfp4 => {
            file.put("k_scales", Dtype::U8, &shape(WIDTH / 16), k_scales);
            file.put("v_scales", Dtype::U8, &shape(WIDTH / 16), v_scales);
            file.f32("k_global", &[1], &SCALES[..1]);
            file.f32("v_global", &[1], &SCALES[1..]);
            file.say("kv_format", "nvfp4");
            let word = |swizzled: bool| if swizzled { "swizzled" } else { "linear" };
            file.say("k_scale_layout", word(declared.swizzled[0]));
            file.say("v_scale_layout", word(declared.swizzled[1]));
        }
    }
    file.say("kv_layout", if declared.hnd { "HND" } else { "NHD" });
    file
}

fn judged(file: &File) -> Judgement {
    judge_contents(&dump::contents(&file.bytes()).unwrap(), Effort::Every).unwrap()
}

#[test]
fn right_caches_pass_however_they_are_divided() {
    for kv in [Kv::Bf16, Kv::E4m3, Kv::Nvfp4] {
        for hnd in [false, true] {
            for reciprocal in [false, true] {
                let right = Writer {
                    reciprocal,
                    swizzled: [false, kv == Kv::Nvfp4 && hnd],
                    ..Writer::right(kv, hnd)
                };
                let judgement = judged(&file(&right, &right));
                let verdicts: Vec<(Verdict, &str)> =
                    judgement.results.iter().map(|r| (r.verdict, r.note.as_str())).collect();
                assert_eq!(verdicts, [(Verdict::Pass, ""), (Verdict::Pass, "")], "{kv:?} {hnd} {reciprocal}");
            }
        }
    }
}

/// A cache, what its writer does, and words of the explanation.
type Fault = (Kv, fn(&mut Writer), &'static str);

#[test]
fn every_fault_of_a_writer_is_explained() {
    let faults: &[Fault] = &[
        (Kv::Nvfp4, |w| w.swizzled[1] = true, "the block scales of values were written swizzled"),
        (Kv::Nvfp4, |w| w.swizzled[0] = true, "the block scales of keys were written swizzled"),
        (Kv::Nvfp4, |w| w.factors[1] = 1.0, "each element of values was stored without its scale"),
        (Kv::E4m3, |w| w.factors[0] = 1.0 / SCALES[0], "each element of keys was multiplied by its scale"),
        (Kv::E4m3, |w| w.factors[1] = 1.0, "each element of values was stored without its scale"),
        (
            Kv::E4m3,
            |w| w.factors[1] = SCALES[0],
            "each element of values was divided by the scale of the other side",
        ),
        (Kv::Bf16, |w| w.exchanged = true, "keys and values are exchanged"),
        (Kv::Bf16, |w| w.hnd = false, "pages were written as NHD"),
        (Kv::Bf16, |w| w.shift = 1, "tokens were written to the next slot"),
    ];
    for (kv, fault, words) in faults {
        let right = Writer::right(*kv, true);
        let mut writer = right.clone();
        fault(&mut writer);
        let judgement = judged(&file(&writer, &right));
        let text = judgement.diagnosis.unwrap().text();
        assert!(text.starts_with("explained, all") && text.contains(words), "{words}: {text}");
    }
    // One fault of a writer's code shows on both sides.
    let right = Writer::right(Kv::Nvfp4, true);
    let judgement = judged(&file(&Writer { odd_first: true, ..right.clone() }, &right));
    assert!(judgement.diagnosis.unwrap().text().contains("the nibbles of both sides are exchanged"));
}

#[test]
fn every_byte_counts_and_slots_beyond_the_cache_are_refused() {
    for kv in [Kv::Bf16, Kv::E4m3, Kv::Nvfp4] {
        let right = Writer::right(kv, true);
        let mut wrong = file(&right, &right);
        let slot = slots()[3] as usize;
        let row = right.row(slot / PAGE, slot % PAGE, 1);
        let (_, _, _, bytes) = wrong.tensors.iter_mut().find(|(name, ..)| name == "v_cache").unwrap();
        let width = bytes.len() / (PAGES * PAGE * HEADS);
        bytes[row * width + width / 2] ^= 0x11;
        let values = &judged(&wrong).results[1];
        assert_eq!(
            (values.verdict, values.place.as_ref().unwrap().to_string().contains("token=3 head=1")),
            (Verdict::Fail, true)
        );
    }
    let right = Writer::right(Kv::Bf16, true);
    let mut file = file(&right, &right);
    let bytes = (0..TOKENS as i64).map(|n| n * 9).flat_map(i64::to_le_bytes).collect();
    file.put("slot_mapping", Dtype::I64, &[TOKENS], bytes);
    let error = dump::contents(&file.bytes()).unwrap_err().to_string();
    assert!(error.contains("`slot_mapping[11]` is 99; the cache has 6 pages of 16 slots"), "{error}");
}
