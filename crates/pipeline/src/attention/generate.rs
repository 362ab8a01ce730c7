//! The data of a case on a configuration: queries, and a cache in the case's layout. Everything that no row may read is NaN.

use std::sync::Arc;

use numerics::random::{GOLDEN, at, mix};
use numerics::{Rounding, convert};

use super::cache::{Cache, Order, Plane, ScaleOf, ScaleOrder, Scales, Strides};
use super::case::{Case, Layout, Regime};
use super::configuration::{Configuration, Kernel, Types};
use super::element::{BLOCK, Element};
use super::error::AttentionError;
use super::mla;
use super::problem::{HeadMap, Problem, Request, Shape, Side};
use super::quantize::Quantized;
use super::semantics::{Arithmetic, Denominator, Empty, Mask, ProductSum, Semantics, TwoLevel};
use crate::kernel::{FactorRule, KOrder, KernelContract};

/// The data of a case on a configuration.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) case: Arc<Case>,
    pub(super) configuration: Configuration,
    /// Queries as they are stored.
    pub(super) queries: Vec<u8>,
    /// Keys and values.
    pub(super) cache: Cache,
    /// The packed mask, and the byte at which each request begins.
    pub(super) mask: Vec<u8>,
    pub(super) mask_starts: Vec<usize>,
    /// The factors of scores: of all, of keys, of quantized queries, and their product as kernels get it.
    pub(super) sm_scale: f32,
    pub(super) key_scale: f32,
    pub(super) query_factor: f32,
    pub(super) scale: f32,
    /// The factor of values.
    pub(super) value_scale: f32,
    /// The problem as numbers; quantized queries are those that a quantizer must store, without their factor.
    pub(super) problem: Problem,
    /// Whether the kernel of partial results declares the order of its sums, and weights relative to the largest score so far.
    declared: Declared,
}

/// What the kernel of partial results declares of sums and of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Declared {
    order: KOrder,
    factor: FactorRule,
}

/// What a stream of numbers is for.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Query = 1,
    Key,
    Value,
    KeyScale,
    ValueScale,
    Pages,
    Sink,
    Mask,
}

/// 64 bits for the element `index`.
fn draw(seed: u64, purpose: Purpose, index: usize) -> u64 {
    at(mix(mix(seed.wrapping_add(GOLDEN)) ^ (purpose as u64).wrapping_mul(GOLDEN)), index as u64)
}

/// A number like those of the standard normal distribution: the sum of four uniform ones, at most 3.5 in magnitude.
fn normal(bits: u64) -> f64 {
    let sum: u64 = (0..4).map(|n| bits >> (n * 16) & 0xFFFF).sum();
    (sum as f64 / 65_536.0 - 2.0) * 1.732
}

/// The code of a number.
fn code(element: Element, x: f64) -> u32 {
    convert::f32_to(element.format(), x as f32, Rounding::NearestEven, false, false)
}

/// Puts the code of element `index` behind `first`.
fn put(bytes: &mut [u8], element: Element, first: usize, index: usize, code: u32) {
    match element.bits() {
        4 => {
            let byte = &mut bytes[first + index / 2];
            let shift = index % 2 * 4;
            *byte = *byte & !(15 << shift) | (code as u8 & 15) << shift;
        }
        8 => bytes[first + index] = code as u8,
        _ => bytes[first + index * 2..first + index * 2 + 2].copy_from_slice(&(code as u16).to_le_bytes()),
    }
}

/// The signs of key `key` of a head: those of different keys agree in about half of the elements.
fn sign(seed: u64, key: usize, head: usize, d: usize) -> f64 {
    let bits = draw(seed, Purpose::Key, (key * 64 + head) * 8 + d / 64);
    if bits >> (d % 64) & 1 == 0 { 1.0 } else { -1.0 }
}

/// Where keys and values of a case on a configuration are in memory, without their bytes.
pub(super) fn planes(case: &Case, configuration: Configuration) -> [Plane; 2] {
    let Case { kv_heads, page, .. } = *case;
    let (element, width) = (configuration.types.cache(), configuration.width);
    let row = element.bytes(width);
    let dense = |order| Strides::dense(order, page, kv_heads, row);
    let padding = [64, 192];
    let record = configuration.record();
    let of_records = |layout: mla::Layout| Strides {
        offset: 0,
        page: layout.page(page) + if case.layout == Layout::Padded { padding[0] } else { 0 },
        slot: layout.row(),
        head: 0,
    };
    let of_layout = |side: usize| match case.layout {
        Layout::Nhd => dense(Order::Nhd),
        Layout::Hnd => dense(Order::Hnd),
        Layout::Halves => {
            Strides { offset: side * row, ..Strides::dense(Order::Hnd, page, kv_heads, 2 * row) }
        }
        Layout::Padded => {
            let dense = dense(Order::Hnd);
            Strides { page: dense.page + padding[side], ..dense }
        }
    };
    let is_transposed = |side: usize| side == 1 && configuration.is_fp4();
    // A page of transposed values has its heads one after the other in every layout.
    let of_columns = |slots_of_byte: usize| Strides::of_columns(page, kv_heads, width, slots_of_byte);
    let strides = |side: usize| match record {
        Some(layout) => of_records(layout),
        None if is_transposed(side) => {
            let padded = if case.layout == Layout::Padded { padding[side] } else { 0 };
            let dense = of_columns(2);
            Strides { page: dense.page + padded, ..dense }
        }
        None => of_layout(side),
    };
    let order = if case.layout == Layout::Nhd { Order::Nhd } else { Order::Hnd };
    let plane = |side: usize| Plane {
        name: ["keys", "values"][side],
        element,
        bytes: Arc::default(),
        strides: strides(side),
        width: if side == 0 { width } else { configuration.value_width() },
        scales: (element == Element::Nvfp4).then(|| Scales {
            bytes: Arc::default(),
            strides: if is_transposed(side) {
                of_columns(BLOCK)
            } else {
                Strides::dense(order, page, kv_heads, width / BLOCK)
            },
            order: if [case.key_swizzled, case.swizzled][side] {
                ScaleOrder::Swizzled
            } else {
                ScaleOrder::Linear
            },
        }),
        factors: None,
        odd_first: false,
        transposed: is_transposed(side),
        scale_of: ScaleOf::Own,
        scale_shift: 0,
        record: record.map(|layout| (layout, mla::Reading::default())),
    };
    [plane(0), plane(1)]
}

/// A generator of one case's numbers.
struct Generator<'a> {
    case: &'a Case,
    configuration: Configuration,
    seed: u64,
}

impl Generator<'_> {
    /// The size of a key's elements at one-hot data.
    const HOT: f64 = 4.0;

    /// An element of a key, its block scale left out.
    fn key(&self, at: usize, head: usize, d: usize) -> f64 {
        let bits = draw(self.seed, Purpose::Query, (at * 64 + head) * 512 + d + (1 << 40));
        match self.case.regime {
            Regime::OneHot => Self::HOT * sign(self.seed, at, head, d),
            // Few bits, so that products are exact where the type has few.
            Regime::Low => 4.0 + (bits % 3) as f64 * 0.5,
            Regime::Real | Regime::Equal => normal(bits) * if self.is_nvfp4() { 2.0 } else { 1.0 },
        }
    }

    const fn is_nvfp4(&self) -> bool {
        matches!(self.configuration.types, Types::Nvfp4)
    }

    /// An element of a value, its block scale left out.
    fn value(&self, at: usize, head: usize, d: usize) -> f64 {
        let bits = draw(self.seed, Purpose::Value, (at * 64 + head) * 512 + d);
        match self.case.regime {
            Regime::Real | Regime::Low => normal(bits),
            // Multiples of a half of at most 6: every type has them.
            Regime::Equal | Regime::OneHot => {
                let half = (bits >> 8 & 7) as f64;
                let magnitude = if half < 5.0 { half * 0.5 } else { half - 2.0 };
                if bits & 1 == 0 { magnitude } else { -magnitude }
            }
        }
    }

    /// The scale of a block: neighbours differ, and few are powers of two.
    fn block_scale(&self, purpose: Purpose, at: usize, head: usize, block: usize) -> u8 {
        let bits = draw(self.seed, purpose, (at * 64 + head) * 32 + block);
        match (self.case.regime, purpose) {
            // One to 1.875, so that the closest key stays the closest.
            (Regime::OneHot | Regime::Low, Purpose::KeyScale) => 0x38 + (bits % 8) as u8,
            // Some are subnormal, some the smallest normal numbers.
            (Regime::OneHot | Regime::Equal, Purpose::ValueScale) if bits >> 32 & 7 == 0 => {
                1 + (bits % 15) as u8
            }
            // Some are subnormal or zero.
            (Regime::Real, _) if bits >> 32 & 7 == 0 => (bits % 8) as u8,
            _ => 0x30 + (bits % 24) as u8,
        }
    }

    /// The size of a block of queries: of some that are to be quantized the scale becomes subnormal or zero, or is at its limit.
    fn size_of_queries(&self, row: usize, head: usize, block: usize) -> f64 {
        let bits = draw(self.seed, Purpose::Query, (row * 64 + head) * 32 + block + (1 << 41));
        match (self.configuration.is_fp4(), bits % 16) {
            (true, 0) => libm::exp2(-17.0),
            (true, 1) => libm::exp2(-20.0),
            (true, 2) => 4.0,
            _ => 1.0,
        }
    }

    /// Sizes of elements that are to be quantized, in units of twice a block scale: most lie halfway between two codes, and neighbours get
    /// unlike ones, none of them zero.
    const TIES: [f64; 8] = [12.0, 1.5, 10.0, 2.5, 7.0, 3.5, 8.0, 5.0];

    /// The queries of a row: normal numbers, or the signs of the key that is to be found, for the first time or again.
    fn query(&self, row: usize, head: usize, d: usize, (hot, again): (usize, bool)) -> f64 {
        let bits = draw(self.seed, Purpose::Query, (row * 64 + head) * 512 + d);
        match self.case.regime {
            Regime::Equal => 0.0,
            Regime::Real => normal(bits) * 2.0 * self.size_of_queries(row, head, d / BLOCK),
            Regime::OneHot if self.configuration.is_fp4() => {
                // Where every bit of the key is exposed by another row, an element may become zero: 0.5 is a quarter of the block scale.
                let size = if again && d % 8 == 1 { 0.5 } else { Self::TIES[d % 8] };
                size * sign(self.seed, hot, head / self.case.group(), d)
            }
            // Neighbours differ, so that changes of two codes of a byte do not cancel.
            Regime::OneHot => (8 + d % 2) as f64 * sign(self.seed, hot, head / self.case.group(), d),
            Regime::Low => -(1500.0 + (bits % 64) as f64 * 8.0) * 64.0 / self.configuration.width as f64,
        }
    }
}

impl Data {
    /// Generates the data of a case.
    ///
    /// # Errors
    /// [`AttentionError`] if the layout does not hold what it should.
    pub(super) fn new(
        case: &Arc<Case>,
        configuration: Configuration,
        seed: u64,
    ) -> Result<Self, AttentionError> {
        let of = Generator { case, configuration, seed };
        let (table, lengths) = of.table();
        let (mut cache, mut bytes) = of.empty_cache(table);
        let mut requests = Vec::new();
        let (mut row, mut key) = (0, 0);
        for length in &lengths {
            requests.push(Request {
                places: Vec::new(),
                rows: row..row + length.rows,
                keys: key..key + length.keys,
                position: length.keys as i64 - length.rows as i64,
                beyond: 0,
                mask: 0,
                mask_stride: length.keys,
            });
            (row, key) = (row + length.rows, key + length.keys);
        }
        let (bits, mask, mask_starts) = of.mask(&mut requests);
        let shape = Shape {
            heads: case.heads,
            kv_heads: case.kv_heads,
            width: configuration.width,
            value_width: configuration.value_width(),
            maps: [HeadMap::Grouped; 2],
        };
        // Scales that are no powers of two, except where exactness needs them.
        let [key_scale, value_scale] = match (configuration.types, case.regime) {
            (Types::Bf16 | Types::Fp16 | Types::Fp8DsMla, _) => [1.0, 1.0],
            (_, Regime::Equal | Regime::OneHot) => [0.5, 2.0],
            _ => [0.37_f32, 1.7],
        };
        let query_factor = match (configuration.is_fp4(), case.regime) {
            (false, _) => 1.0,
            (true, Regime::Equal | Regime::OneHot) => 0.015_625,
            // The largest elements get scales near 448.
            (true, Regime::Real) => 0.0031,
            (true, Regime::Low) => 1.9,
        };
        let sm_scale = (1.0 / (configuration.width as f64).sqrt()) as f32;
        let scale = sm_scale * key_scale * query_factor;
        let semantics = Semantics {
            mask: case.mask,
            window: case.window,
            cap: case.cap.map(f64::from),
            empty: Empty::Zero,
            ..Semantics::plain(f64::from(scale), f64::from(value_scale))
        };
        // Each counts beside some hundred keys.
        let sinks = |head: usize| 2.5 + normal(draw(seed, Purpose::Sink, head)) as f32 * 0.7;
        let slopes = |head: usize| libm::exp2(-8.0 * (head + 1) as f64 / case.heads as f64) as f32;
        let mut problem = Problem {
            shape,
            semantics,
            requests,
            queries: Arc::default(),
            keys: Arc::default(),
            values: Arc::default(),
            sinks: if case.sinks { (0..case.heads).map(sinks).collect() } else { Vec::new() },
            slopes: if case.slopes { (0..case.heads).map(slopes).collect() } else { Vec::new() },
            mask: Arc::new(bits),
        };
        of.fill(&problem, &cache, &mut bytes);
        let [keys, mut values, key_scales, value_scales] = bytes.map(Arc::new);
        if of.has_one_tensor() {
            values = Arc::clone(&keys);
        }
        for (side, (codes, scales)) in [(keys, key_scales), (values, value_scales)].into_iter().enumerate() {
            cache.planes[side].bytes = codes;
            cache.planes[side].scales.iter_mut().for_each(|of| of.bytes = Arc::clone(&scales));
        }
        let queries = of.queries(&problem);
        let element = configuration.types.queries();
        let count = case.rows() * case.heads * configuration.width;
        let given: Vec<f32> = (0..count).filter_map(|n| element.value(&queries, n)).collect();
        let is_fp4 = configuration.is_fp4();
        let used = if is_fp4 { Quantized::from_queries(&given, query_factor).values() } else { given };
        problem.queries = Arc::new(used);
        let lengths = || problem.requests.iter().map(|request| request.keys.len()).enumerate();
        // The kernels multiply codes of eight bits by a scale of 32 in binary32.
        let exact = |side: Side| Side { rounded: None, ..side };
        let (keys, values) = (exact(cache.gather(0, lengths())?), exact(cache.gather(1, lengths())?));
        (problem.keys, problem.values) = (Arc::new(keys), Arc::new(values));
        let case = Arc::clone(case);
        Ok(Self {
            case,
            configuration,
            queries,
            cache,
            mask,
            mask_starts,
            sm_scale,
            key_scale,
            query_factor,
            scale,
            value_scale,
            problem,
            declared: Declared { order: KOrder::Ascending, factor: FactorRule::TileMaximum },
        })
    }

    /// The same data for a kernel of partial results with this contract.
    pub(super) fn declared_by(mut self, contract: &KernelContract) -> Self {
        let factor = contract.quantizes.map_or(self.declared.factor, |of| of.factor);
        self.declared = Declared { order: contract.k_order, factor };
        self
    }

    /// The queries of a head of a row as they are stored before any kernel.
    pub(super) fn given(&self, row: usize, head: usize) -> Vec<f32> {
        let (element, width) = (self.configuration.types.queries(), self.configuration.width);
        let first = (row * self.case.heads + head) * width;
        (first..first + width).filter_map(|n| element.value(&self.queries, n)).collect()
    }

    /// What the kernels may round.
    pub(super) fn arithmetic(&self) -> Arithmetic {
        let is_fp4 = self.configuration.is_fp4();
        let two_level = TwoLevel {
            running: self.declared.factor == FactorRule::RunningMaximum,
            descending: false,
            by_largest: false,
            tile: self.configuration.tile(),
            split: self.case.splits().0,
        };
        Arithmetic {
            weights: if is_fp4 { Element::F32 } else { self.configuration.types.queries() },
            denominator: if is_fp4 { Denominator::Unrounded } else { Denominator::Rounded },
            rescaled: 0,
            merges: 0,
            partials: Some(Element::F32),
            // Tiles that begin at multiples of their keys may have fewer at both ends.
            tile: if is_fp4 { self.configuration.tile() / 2 } else { self.configuration.tile() },
            queries: None,
            products: None,
            elements: None,
            exact_elements: true,
            accumulator: Element::F32,
            headroom: 1.0,
            sum: match (is_fp4, self.declared.order) {
                (true, KOrder::Ascending) => ProductSum::BlockScaled,
                _ => ProductSum::Any,
            },
            two_level: is_fp4.then_some(two_level),
            folded: None,
            short_queries: false,
        }
    }
}

impl Generator<'_> {
    /// Whether keys and values are in one tensor.
    fn has_one_tensor(&self) -> bool {
        self.case.layout == Layout::Halves || self.configuration.record().is_some()
    }

    /// Pages of requests, scattered over the cache; of a sparse case its slots.
    fn table(&self) -> (Vec<Vec<usize>>, Vec<super::case::Length>) {
        let case = self.case;
        // Slots of a sparse case: no two rows share one.
        let size = if case.sparse { 1 } else { case.page };
        let counts: Vec<usize> = case.requests.iter().map(|request| request.keys.div_ceil(size)).collect();
        let spare = if case.sparse { case.spare * case.page } else { case.spare };
        let mut pages: Vec<usize> = (0..counts.iter().sum::<usize>() + spare).collect();
        pages.sort_by_key(|page| draw(self.seed, Purpose::Pages, *page));
        let mut rest = pages.into_iter();
        (counts.iter().map(|count| rest.by_ref().take(*count).collect()).collect(), case.requests.clone())
    }

    /// A cache in the case's layout, and its bytes: keys, values and the block scales of both, all of them NaN.
    fn empty_cache(&self, table: Vec<Vec<usize>>) -> (Cache, [Vec<u8>; 4]) {
        let Case { kv_heads, page, .. } = *self.case;
        let named = table.iter().map(Vec::len).sum::<usize>();
        let pages = if self.case.sparse { named.div_ceil(page) } else { named } + self.case.spare;
        let planes = planes(self.case, self.configuration);
        let width = self.configuration.width;
        let is_nvfp4 = planes[0].scales.is_some();
        // 0x7F7F is a NaN of fp16 and, as 0x7FFF, of bf16; 0x7F of e4m3 and of ue4m3. Codes of e2m1 have none: their scales have.
        // Of records every part is one with 0xFF.
        let is_record = self.configuration.record().is_some();
        let nan = if self.configuration.types == Types::Bf16 || is_record { 0xFF } else { 0x7F };
        let codes = |side: usize| vec![nan; pages * planes[side].strides.page];
        let scales =
            || if is_nvfp4 { vec![0x7F; pages * page * kv_heads * (width / BLOCK)] } else { vec![0; 16] };
        let values = if self.has_one_tensor() { Vec::new() } else { codes(1) };
        let bytes = [codes(0), values, scales(), scales()];
        let cache = Cache {
            planes,
            heads: kv_heads,
            page,
            table,
            by_slot: self.case.sparse,
            is_permuted: false,
            key_shift: [0; 2],
            value_table: None,
        };
        (cache, bytes)
    }

    /// Custom masks: every row sees what a tree of drafts would show it. Bits, packed bits and where requests begin.
    fn mask(&self, requests: &mut [Request]) -> (Vec<bool>, Vec<u8>, Vec<usize>) {
        let (mut bits, mut packed, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        if self.case.mask != Mask::Custom {
            return (bits, vec![0; 4], vec![0; requests.len()]);
        }
        for request in requests {
            request.mask = bits.len();
            starts.push(packed.len());
            let (rows, keys) = (request.rows.len(), request.keys.len());
            let past = keys.saturating_sub(rows);
            for row in 0..rows {
                for key in 0..keys {
                    // Most of the past, of which some rows miss the first part, its own draft, and some of the drafts before it.
                    let bit = draw(self.seed, Purpose::Mask, bits.len());
                    bits.push(match key.checked_sub(past) {
                        None => !bit.is_multiple_of(7) && (row % 3 != 1 || key >= past * 3 / 4),
                        Some(draft) => draft == row || draft < row && bit.is_multiple_of(2),
                    });
                }
            }
            for byte in bits[request.mask..].chunks(8) {
                packed.push(byte.iter().enumerate().map(|(n, bit)| u8::from(*bit) << n).sum());
            }
        }
        (bits, packed, starts)
    }

    /// Stores the keys that some row sees, and their values.
    fn fill(&self, problem: &Problem, cache: &Cache, bytes: &mut [Vec<u8>; 4]) {
        let element = self.configuration.types.cache();
        let width = self.configuration.width;
        for (index, request) in problem.requests.iter().enumerate() {
            let mut seen = vec![false; request.keys.len()];
            for row in 0..request.rows.len() {
                problem.visible(request, row).for_each(|key| seen[key] = true);
            }
            // A tile of rows reads everything between the first and the last key that one of them may see by its range, which is every key of
            // a custom mask; single rows read what one of them sees.
            let is_tiled = self.configuration.kernel == Kernel::Prefill;
            let first = seen.iter().position(|seen| *seen).unwrap_or(seen.len());
            let last = seen.iter().rposition(|seen| *seen).map_or(first, |last| last + 1);
            let range = if self.case.mask == Mask::Custom { 0..seen.len() } else { first..last };
            for key in range.filter(|key| is_tiled || seen[*key]) {
                let Some((page, slot)) = cache.place(0, index, key) else { continue };
                let at = request.keys.start + key;
                if let Some(layout) = self.configuration.record() {
                    let record = cache.planes[0].strides.at(page, slot, 0);
                    record.iter().for_each(|record| self.fill_record(layout, at, &mut bytes[0][*record..]));
                    continue;
                }
                for head in 0..cache.heads {
                    for side in 0..2 {
                        let plane = &cache.planes[side];
                        if plane.transposed {
                            self.fill_columns(plane, (page, slot, head), at, bytes);
                            continue;
                        }
                        let Some(to) = plane.strides.at(page, slot, head) else { continue };
                        let memory = if side == 1 && bytes[1].is_empty() { 0 } else { side };
                        for d in 0..width {
                            let x = if side == 0 { self.key(at, head, d) } else { self.value(at, head, d) };
                            put(&mut bytes[memory], element, to, d, code(element, x));
                        }
                        let Some(scales) = &plane.scales else { continue };
                        let purpose = [Purpose::KeyScale, Purpose::ValueScale][side];
                        for block in 0..width / BLOCK {
                            let scale = self.block_scale(purpose, at, head, block);
                            if let Some(to) = scales.at(page, slot, head, block, width / BLOCK) {
                                bytes[2 + side][to] = scale;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Stores a value whose slots are beside one another: a code in each column, and the scale that 16 slots share.
    fn fill_columns(&self, plane: &Plane, place: (usize, usize, usize), at: usize, bytes: &mut [Vec<u8>; 4]) {
        let (_, slot, head) = place;
        let element = plane.element;
        // The same number for the keys of a block, whose slots are those of one page.
        let block = at - slot % BLOCK;
        for d in 0..plane.width {
            let Some([code_at, scale_at]) = plane.transposed_at(place, self.case.page, d) else { continue };
            put(&mut bytes[1], element, code_at, slot % 2, code(element, self.value(at, head, d)));
            bytes[3][scale_at] = self.block_scale(Purpose::ValueScale, block * 8 + d / 32, head, d % 32);
        }
    }

    /// Stores a token's record: codes of e4m3 with a scale of 32 bits for each block, then the rotary part in bf16.
    fn fill_record(&self, layout: mla::Layout, at: usize, bytes: &mut [u8]) {
        let mla::Fields { latent, block, scales_at, rotary_at } = layout.fields();
        for d in 0..layout.width() {
            let x = self.key(at, 0, d);
            match d.checked_sub(latent) {
                None => put(bytes, Element::E4m3, 0, d, code(Element::E4m3, x)),
                Some(d) => put(bytes, Element::Bf16, rotary_at, d, code(Element::Bf16, x)),
            }
        }
        for n in 0..latent / block {
            // One to 1.875; where sums need not be exact, with low bits that no type of 16 has.
            let bits = draw(self.seed, Purpose::KeyScale, at * 64 + n);
            let low = if self.case.regime == Regime::Real {
                (bits >> 8 & 0xFFFF) as f32 / 8_388_608.0
            } else {
                0.0
            };
            let scale = (1.0 + (bits % 8) as f32 / 8.0) * (1.0 + low);
            bytes[scales_at + 4 * n..scales_at + 4 * n + 4].copy_from_slice(&scale.to_le_bytes());
        }
    }

    /// The queries. Of one-hot data each finds another of the keys that its row sees.
    fn queries(&self, problem: &Problem) -> Vec<u8> {
        let (heads, width) = (self.case.heads, self.configuration.width);
        let element = self.configuration.types.queries();
        let mut bytes = vec![0; self.case.rows() * heads * width * 2];
        for request in &problem.requests {
            for row in 0..request.rows.len() {
                let visible: Vec<usize> = problem.visible(request, row).collect();
                let at = request.rows.start + row;
                for head in 0..heads {
                    // Rows and the heads of a group take the keys one after the other.
                    let n = row * self.case.group() + head % self.case.group();
                    let hot = visible.get(n % visible.len().max(1)).map_or(0, |key| request.keys.start + key);
                    let hot = (hot, n >= visible.len());
                    let first = (at * heads + head) * width * 2;
                    for d in 0..width {
                        put(&mut bytes, element, first, d, code(element, self.query(at, head, d, hot)));
                    }
                }
            }
        }
        bytes
    }
}
