//! A kernel on paper: attention in binary32 with the roundings of FlashAttention 2, over memory that it reads by its own strides. Its
//! knobs are the faults that the tests plant.

use std::collections::HashMap;

use numerics::convert::f32_to;
use numerics::random::{at, mix};
use numerics::{Format, Rounding};
use safetensors::tensor::{Dtype, TensorView};

/// The type of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kv {
    Bf16,
    E4m3,
    Nvfp4,
}

/// A problem: its sizes and how its memory is laid out.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) width: usize,
    pub(super) page: usize,
    pub(super) hnd: bool,
    pub(super) kv: Kv,
    /// Rows and keys of each request.
    pub(super) requests: Vec<(usize, usize)>,
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) has_sinks: bool,
    pub(super) cap: Option<f32>,
    /// The scales of keys and values.
    pub(super) scales: [f32; 2],
    /// Whether block scales of keys and values are swizzled.
    pub(super) swizzled: [bool; 2],
    /// Whether all scores are about −5e4.
    pub(super) low: bool,
    /// Whether each head has a slope.
    pub(super) slopes: bool,
}

/// What a kernel does, its faults included.
#[derive(Debug, Clone)]
pub(super) struct Knobs {
    /// Whether weights are rounded before the denominator sums them.
    pub(super) rounded_sum: bool,
    /// Whether weights are rounded at all.
    pub(super) rounded: bool,
    /// Whether weights are divided by the sum so far before they are rounded.
    pub(super) normalised: bool,
    pub(super) tile: usize,
    pub(super) splits: usize,
    /// Whether results of splits are rounded to bf16.
    pub(super) short_partials: bool,
    /// Whether products of elements of queries and keys are rounded to bf16.
    pub(super) short_products: bool,
    /// Whether results of splits are added up in bf16, as warps of XQA do.
    pub(super) short_merge: bool,
    pub(super) hnd: bool,
    pub(super) swizzled: [bool; 2],
    pub(super) exchanged: bool,
    pub(super) odd_first: [bool; 2],
    pub(super) sides: [usize; 2],
    pub(super) scale_sides: [usize; 2],
    /// The head of keys (side 0) or values that a head of queries reads.
    pub(super) kv_head: fn(&World, usize, usize) -> usize,
    /// The row, head and element of the queries that are read for those of a row.
    pub(super) query: fn(&World, Place) -> Place,
    /// The number of elements of a query that count.
    pub(super) query_width: usize,
    /// Of a head of a row.
    pub(super) sink: fn(&World, &[f32], usize, usize) -> Option<f32>,
    /// Whether results of splits are averaged.
    pub(super) averaged: bool,
    /// Scores that are taken as masked.
    pub(super) sentinel: f32,
    /// Whether keys are read in the order of FlashInfer's NVFP4 attention.
    pub(super) permuted: bool,
    /// Whether elements of fp8 are multiplied by their scale and rounded to bf16 before they are used.
    pub(super) dequantized: bool,
    /// The slope of a head.
    pub(super) slope: fn(&[f32], usize) -> f32,
    pub(super) keys_of: fn(&World, (usize, usize), usize) -> Vec<usize>,
    pub(super) page_of: fn(&[Vec<usize>], usize, usize) -> usize,
    pub(super) score_factor: f32,
    pub(super) value_factor: f32,
    /// A score from a product, its factor and its bias.
    pub(super) score: fn(&World, f32, f32, f32) -> f32,
    /// Whether weights are rounded to e4m3.
    pub(super) e4m3_weights: bool,
    pub(super) e5m2: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            heads: 8,
            kv_heads: 2,
            width: 64,
            page: 16,
            hnd: seed.is_multiple_of(2),
            kv: Kv::Bf16,
            requests: vec![(5, 70), (1, 41), (18, 50)],
            causal: true,
            window: None,
            has_sinks: false,
            cap: None,
            scales: [1.0, 1.0],
            swizzled: [false, false],
            low: false,
            slopes: false,
        }
    }

    pub(super) fn draw(&self, stream: u64, index: usize) -> u64 {
        at(mix(self.seed.wrapping_mul(1 << 20) ^ stream), index as u64)
    }

    /// A number like those of the standard normal distribution.
    fn normal(&self, stream: u64, index: usize) -> f32 {
        let bits = self.draw(stream, index);
        let sum: u64 = (0..4).map(|n| bits >> (n * 16) & 0xFFFF).sum();
        (sum as f32 / 65_536.0 - 2.0) * 1.732
    }

    pub(super) fn rows(&self) -> usize {
        self.requests.iter().map(|(rows, _)| rows).sum()
    }

    pub(super) fn sinks(&self) -> Vec<f32> {
        if !self.has_sinks {
            return Vec::new();
        }
        // Large enough to count beside some sixty keys.
        (0..self.heads).map(|head| 5.0 + self.normal(9, head)).collect()
    }

    /// The slopes of ALiBi.
    pub(super) fn slopes(&self) -> Vec<f32> {
        (0..self.heads).map(|head| (-(head as f32 + 1.0) / 2.0).exp2() * 0.2).collect()
    }

    /// The scattered pages of each request.
    pub(super) fn table(&self) -> Vec<Vec<usize>> {
        let counts: Vec<usize> = self.requests.iter().map(|(_, keys)| keys.div_ceil(self.page)).collect();
        let mut pages: Vec<usize> = (0..self.pages()).collect();
        pages.sort_by_key(|page| self.draw(5, *page));
        let mut rest = pages.into_iter();
        counts.into_iter().map(|count| rest.by_ref().take(count).collect()).collect()
    }

    pub(super) fn pages(&self) -> usize {
        self.requests.iter().map(|(_, keys)| keys.div_ceil(self.page)).sum::<usize>() + 3
    }

    /// Elements of a plane.
    pub(super) fn elements(&self) -> usize {
        self.pages() * self.page * self.kv_heads * self.width
    }

    /// The queries, bf16.
    pub(super) fn queries(&self) -> Vec<f32> {
        let of =
            |n: usize| if self.low { -1580.0 + self.normal(1, n) * 2.0 } else { self.normal(1, n) * 2.0 };
        (0..self.rows() * self.heads * self.width).map(|n| bf16(of(n))).collect()
    }

    /// The codes of a side, one element each.
    pub(super) fn codes(&self, side: usize) -> Vec<u8> {
        let stream = 2 + side as u64;
        let low = if self.low && side == 0 { 4.0 } else { 0.0 };
        let number = |n: usize| {
            (low + self.normal(stream, n) * if low > 0.0 { 0.02 } else { 1.0 }) / self.scales[side]
        };
        match self.kv {
            Kv::Bf16 => (0..self.elements())
                .flat_map(|n| {
                    (f32_to(Format::Bf16, number(n), Rounding::NearestEven, false, false) as u16)
                        .to_le_bytes()
                })
                .collect(),
            Kv::E4m3 => (0..self.elements())
                .map(|n| f32_to(Format::E4m3, number(n), Rounding::NearestEven, true, false) as u8)
                .collect(),
            Kv::Nvfp4 => (0..self.elements()).step_by(2).map(|n| self.draw(stream, n) as u8).collect(),
        }
    }

    /// The block scales of a side: each differs from its neighbours.
    pub(super) fn block_scales(&self, side: usize) -> Vec<u8> {
        (0..self.elements() / 16).map(|n| 0x30 + (self.draw(6 + side as u64, n) % 24) as u8).collect()
    }

    pub(super) fn sm_scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

pub(super) fn bf16(x: f32) -> f32 {
    Format::Bf16.decode(f32_to(Format::Bf16, x, Rounding::NearestEven, false, false))
}

/// A score behind a soft cap.
pub(super) fn capped(cap: Option<f32>, score: f32) -> f32 {
    cap.map_or(score, |cap| cap * (score / cap).tanh())
}

/// The keys that a row of a request sees.
pub(super) fn visible(world: &World, (rows, keys): (usize, usize), row: usize) -> Vec<usize> {
    let position = row as i64 + keys as i64 - rows as i64;
    (0..keys)
        .filter(|key| {
            let key = *key as i64;
            let seen = !world.causal || key <= position;
            seen && world.window.is_none_or(|window| key > position - window as i64)
        })
        .collect()
}

impl Knobs {
    /// The right kernel of a world.
    pub(super) fn right(world: &World) -> Self {
        Self {
            rounded_sum: true,
            rounded: true,
            normalised: false,
            tile: 32,
            splits: 1,
            short_partials: false,
            short_products: false,
            short_merge: false,
            hnd: world.hnd,
            swizzled: world.swizzled,
            exchanged: false,
            odd_first: [false, false],
            sides: [0, 1],
            scale_sides: [0, 1],
            kv_head: |world, _, head| head / (world.heads / world.kv_heads),
            query: |_, place| place,
            query_width: world.width,
            sink: |_, sinks, head, _| sinks.get(head).copied(),
            averaged: false,
            sentinel: f32::NEG_INFINITY,
            permuted: false,
            dequantized: false,
            slope: |slopes, head| slopes[head],
            keys_of: visible,
            page_of: |table, request, at| table[request][at],
            score_factor: world.sm_scale() * world.scales[0],
            value_factor: world.scales[1],
            score: |world, product, factor, bias| capped(world.cap, product * factor + bias),
            e4m3_weights: false,
            e5m2: false,
        }
    }
}

/// What the kernel reads: the element of a head of a slot.
struct Reader<'a> {
    world: &'a World,
    knobs: &'a Knobs,
    codes: [Vec<u8>; 2],
    scales: [Vec<u8>; 2],
}

impl Reader<'_> {
    fn row(&self, page: usize, slot: usize, head: usize) -> usize {
        let World { kv_heads, page: slots, .. } = *self.world;
        if self.knobs.hnd {
            (page * kv_heads + head) * slots + slot
        } else {
            (page * slots + slot) * kv_heads + head
        }
    }

    fn element(&self, side: usize, (page, slot, head): (usize, usize, usize), d: usize) -> f32 {
        let width = self.world.width;
        let memory = self.knobs.sides[side];
        let n = self.row(page, slot, head) * width + d;
        let codes = &self.codes[memory];
        match self.world.kv {
            Kv::Bf16 => Format::Bf16.decode(u32::from(codes[n * 2]) | u32::from(codes[n * 2 + 1]) << 8),
            Kv::E4m3 if self.knobs.dequantized => {
                bf16(Format::E4m3.decode(codes[n].into()) * self.world.scales[side])
            }
            Kv::E4m3 if self.knobs.e5m2 => Format::E5m2.decode(codes[n].into()),
            Kv::E4m3 => Format::E4m3.decode(codes[n].into()),
            Kv::Nvfp4 => {
                let n = if self.knobs.odd_first[side] { n ^ 1 } else { n };
                let blocks = width / 16;
                let (mut of_slot, mut column) = (slot, d / 16);
                if self.knobs.swizzled[side] {
                    let group = blocks / 4;
                    (of_slot, column) = (slot / 4 * 4 + column / group, column % group * 4 + slot % 4);
                }
                let at = self.row(page, of_slot, head) * blocks + column;
                let scale = Format::Ue4m3.decode(self.scales[self.knobs.scale_sides[side]][at].into());
                Format::E2m1.decode(u32::from(codes[n / 2] >> (n % 2 * 4))) * scale
            }
        }
    }
}

/// A page, a slot and a head.
type Place = (usize, usize, usize);

/// The key that FlashInfer's NVFP4 attention has in the place of another.
fn permuted(key: usize) -> usize {
    key / 32 * 32 + key % 32 / 8 * 2 + key % 8 / 2 * 8 + key % 2
}

/// What a kernel stores: outputs as bf16 and logarithms, base 2.
pub(super) struct Stored {
    pub(super) out: Vec<f32>,
    pub(super) lse: Vec<f32>,
}

/// Runs the kernel.
pub(super) fn run(world: &World, knobs: &Knobs) -> Stored {
    let mut codes = [world.codes(0), world.codes(1)];
    if knobs.exchanged {
        codes.swap(0, 1);
    }
    let reader = Reader { world, knobs, codes, scales: [world.block_scales(0), world.block_scales(1)] };
    let (queries, sinks, table) = (world.queries(), world.sinks(), world.table());
    let mut stored = Stored { out: Vec::new(), lse: Vec::new() };
    let mut line = 0;
    for (request, of) in world.requests.iter().enumerate() {
        for row in 0..of.0 {
            let keys = (knobs.keys_of)(world, *of, row);
            for head in 0..world.heads {
                let (of_row, of_head, _) = (knobs.query)(world, (line / world.heads, head, 0));
                let first = (of_row * world.heads + of_head) * world.width;
                let query = &queries[first..first + knobs.query_width];
                let kv_heads = [0, 1].map(|side| (knobs.kv_head)(world, side, head));
                let places: Vec<(usize, usize, usize)> = keys
                    .iter()
                    .map(|key| {
                        ((knobs.page_of)(&table, request, key / world.page), key % world.page, kv_heads[1])
                    })
                    .collect();
                let sink = (knobs.sink)(world, &sinks, head, row);
                let of_keys: Vec<(usize, usize, usize)> = keys
                    .iter()
                    .map(|key| if knobs.permuted { permuted(*key) } else { *key })
                    .map(|key| {
                        ((knobs.page_of)(&table, request, key / world.page), key % world.page, kv_heads[0])
                    })
                    .collect();
                let position = row as f32 + of.1 as f32 - of.0 as f32;
                let slope = if world.slopes { (knobs.slope)(&world.slopes(), head) } else { 0.0 };
                let biases: Vec<f32> = keys.iter().map(|key| slope * (*key as f32 - position)).collect();
                let (out, lse) = attend(&reader, query, (&of_keys, &places), (&biases, sink));
                stored.out.extend(out);
                stored.lse.push(lse);
                line += 1;
            }
        }
    }
    stored
}

/// One head of one row.
fn attend(
    reader: &Reader<'_>,
    query: &[f32],
    (of_keys, places): (&[Place], &[Place]),
    (biases, sink): (&[f32], Option<f32>),
) -> (Vec<f32>, f32) {
    let (world, knobs) = (reader.world, reader.knobs);
    let log2 = std::f32::consts::LOG2_E;
    let mut parts: Vec<(f32, Vec<f32>)> = Vec::new();
    let size = places.len().div_ceil(knobs.splits).max(1);
    let mut biases = biases.iter();
    for (keys, part) in of_keys.chunks(size).zip(places.chunks(size)) {
        let (mut most, mut sum, mut out) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0_f32; world.width]);
        for (keys, tile) in keys.chunks(knobs.tile).zip(part.chunks(knobs.tile)) {
            let scores: Vec<f32> = keys
                .iter()
                .map(|place| {
                    let product = query.iter().enumerate().fold(0.0, |sum: f32, (d, q)| {
                        match reader.element(0, *place, d) {
                            k if knobs.short_products => sum + bf16(q * k),
                            k => q.mul_add(k, sum),
                        }
                    });
                    let bias = biases.next().unwrap();
                    let capped = (knobs.score)(world, product, knobs.score_factor, *bias);
                    if capped < knobs.sentinel { f32::NEG_INFINITY } else { capped * log2 }
                })
                .collect();
            let best = scores.iter().fold(most, |best, score| best.max(*score));
            if best == f32::NEG_INFINITY {
                continue;
            }
            let before = if most.is_finite() { (most - best).exp2() } else { 0.0 };
            sum *= before;
            let divisor = match knobs.normalised {
                true => sum + scores.iter().map(|score| (score - best).exp2()).sum::<f32>(),
                false => 1.0,
            };
            let kept = if knobs.normalised { sum / divisor } else { before };
            out.iter_mut().for_each(|o| *o *= kept);
            for (score, place) in scores.iter().zip(tile) {
                let weight = (score - best).exp2();
                let eight = |x: f32| f32_to(Format::E4m3, x, Rounding::NearestEven, true, false);
                let rounded = match () {
                    () if knobs.e4m3_weights => Format::E4m3.decode(eight(weight)),
                    () if knobs.rounded => bf16(weight / divisor),
                    () => weight,
                };
                sum += if knobs.rounded_sum { rounded } else { weight };
                for (d, o) in out.iter_mut().enumerate() {
                    *o = rounded.mul_add(reader.element(1, *place, d), *o);
                }
            }
            most = best;
        }
        let short = |x: f32| if knobs.short_partials && knobs.splits > 1 { bf16(x) } else { x };
        let divisor = if knobs.normalised { 1.0 } else { sum };
        out.iter_mut().for_each(|o| *o = if sum > 0.0 { short(*o / divisor) } else { 0.0 });
        parts.push((most + sum.log2(), out));
    }
    let sink = sink.map_or(f32::NEG_INFINITY, |sink| sink * log2);
    let most = parts.iter().fold(sink, |most, (lse, _)| most.max(*lse));
    let total = parts.iter().fold((sink - most).exp2(), |total, (lse, _)| total + (lse - most).exp2());
    let mut out = vec![0.0_f32; world.width];
    for (lse, part) in &parts {
        let share = match () {
            () if knobs.averaged => 1.0 / parts.len() as f32,
            () if most == f32::NEG_INFINITY => 0.0,
            () => (lse - most).exp2() / total,
        };
        out.iter_mut().zip(part).for_each(|(o, p)| {
            *o = if knobs.short_merge { bf16(*o + bf16(share * p)) } else { share.mul_add(*p, *o) };
        });
    }
    (out.into_iter().map(|o| bf16(o * knobs.value_factor)).collect(), most + total.log2())
}

/// Tensors and metadata of a file.
#[derive(Default)]
pub(super) struct File {
    pub(super) tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
    pub(super) metadata: HashMap<String, String>,
}

impl File {
    pub(super) fn put(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        self.tensors.retain(|(other, ..)| other != name);
        self.tensors.push((name.to_owned(), dtype, shape.to_vec(), bytes));
    }

    pub(super) fn bf16(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect();
        self.put(name, Dtype::BF16, shape, bytes);
    }

    pub(super) fn f32(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.put(name, Dtype::F32, shape, values.iter().flat_map(|x| x.to_le_bytes()).collect());
    }

    pub(super) fn i32(&mut self, name: &str, values: &[usize]) {
        let bytes = values.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect();
        self.put(name, Dtype::I32, &[values.len()], bytes);
    }

    pub(super) fn say(&mut self, key: &str, value: impl ToString) {
        self.metadata.insert(key.to_owned(), value.to_string());
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let views = self.tensors.iter().map(|(name, dtype, shape, bytes)| {
            (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, Some(self.metadata.clone())).unwrap()
    }
}

/// The file that FlashInfer's users would dump.
pub(super) fn file(world: &World, stored: &Stored) -> File {
    let mut file = File::default();
    let (rows, heads, width) = (world.rows(), world.heads, world.width);
    file.bf16("q", &[rows, heads, width], &world.queries());
    file.bf16("out", &[rows, heads, width], &stored.out);
    file.f32("lse", &[rows, heads], &stored.lse);
    let (dtype, stored_width) = match world.kv {
        Kv::Bf16 => (Dtype::BF16, width),
        Kv::E4m3 => (Dtype::F8_E4M3, width),
        Kv::Nvfp4 => (Dtype::U8, width / 2),
    };
    let middle = |last: usize| match world.hnd {
        true => [world.pages(), world.kv_heads, world.page, last],
        false => [world.pages(), world.page, world.kv_heads, last],
    };
    for (side, name) in ["k_cache", "v_cache"].into_iter().enumerate() {
        file.put(name, dtype, &middle(stored_width), world.codes(side));
    }
    if world.kv == Kv::Nvfp4 {
        for (side, name) in ["k_scales", "v_scales"].into_iter().enumerate() {
            file.put(name, Dtype::U8, &middle(width / 16), world.block_scales(side));
        }
        file.f32("k_global", &[1], &world.scales[..1]);
        file.f32("v_global", &[1], &world.scales[1..]);
        file.say("kv_format", "nvfp4");
        let word = |swizzled: bool| if swizzled { "swizzled" } else { "linear" };
        file.say("k_scale_layout", word(world.swizzled[0]));
        file.say("v_scale_layout", word(world.swizzled[1]));
    } else if world.scales != [1.0, 1.0] {
        file.f32("k_scale", &[1], &world.scales[..1]);
        file.f32("v_scale", &[1], &world.scales[1..]);
    }
    if world.has_sinks {
        file.f32("sinks", &[heads], &world.sinks());
        file.say("lse_sink", "included");
    }
    if world.slopes {
        file.f32("alibi_slopes", &[heads], &world.slopes());
    }
    let table = world.table();
    let pointers = |lengths: &mut dyn Iterator<Item = usize>| {
        let mut all = vec![0];
        lengths.for_each(|length| all.push(all.last().unwrap() + length));
        all
    };
    file.i32("qo_indptr", &pointers(&mut world.requests.iter().map(|(rows, _)| *rows)));
    file.i32("kv_indices", &table.concat());
    file.i32("kv_indptr", &pointers(&mut table.iter().map(Vec::len)));
    let last: Vec<usize> = world.requests.iter().map(|(_, keys)| (keys - 1) % world.page + 1).collect();
    file.i32("kv_last_page_len", &last);
    file.say("kv_layout", if world.hnd { "HND" } else { "NHD" });
    file.say("causal", world.causal);
    file.say("lse_base", "2");
    if let Some(window) = world.window {
        file.say("window_left", window - 1);
    }
    if let Some(cap) = world.cap {
        file.say("logits_soft_cap", cap);
    }
    file
}
