//! A problem: the data of a case on a configuration, and where each element belongs in the cache.

use std::sync::Arc;

use numerics::random::{GOLDEN, at, mix};
use record::{StageName, StageResult};

use super::case::{Case, Regime, Slots};
use super::configuration::{Configuration, Layout, Scales};
use super::judge;
use crate::frame::stream::{self, Content, Step, Stored};
use crate::kernel::Names;

/// Elements that share a scale.
pub(super) const BLOCK: usize = 16;

/// What bytes of the cache hold before a run: no code that a writer stores by itself, and a scale that is a NaN.
pub(super) const BEFORE: u8 = 0x7F;

/// Keys or values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Keys,
    Values,
}

impl Side {
    pub(super) const ALL: [Self; 2] = [Self::Keys, Self::Values];

    /// Its stage.
    pub(super) const fn stage(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Values => "values",
        }
    }

    /// Its buffers: source, scale of the tensor, codes, scales.
    pub(super) const fn buffers(self) -> [&'static str; 4] {
        match self {
            Self::Keys => ["keys", "k_global", "k_codes", "k_scales"],
            Self::Values => ["values", "v_global", "v_codes", "v_scales"],
        }
    }
}

/// New keys or values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    /// bf16 elements [tokens, heads, head].
    pub(super) elements: Vec<u16>,
    /// The scale of the tensor.
    pub(super) global: f32,
}

/// The data of a case on a configuration.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) case: Arc<Case>,
    pub(super) configuration: Configuration,
    /// The slot of each token; negative for a token without one.
    pub(super) slots: Vec<i32>,
    /// Keys and values.
    pub(super) sources: [Source; 2],
}

/// 64 bits for the element `index` of a stream.
fn draw(seed: u64, stream: u64, index: usize) -> u64 {
    at(mix(mix(seed.wrapping_add(GOLDEN)) ^ stream.wrapping_mul(GOLDEN)), index as u64)
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(bits: u64) -> f64 {
    let radius = ((bits >> 32) as f64 + 1.0) / 4_294_967_296.0;
    let angle = (bits & 0xFFFF_FFFF) as f64 / 4_294_967_296.0;
    (-2.0 * libm::log(radius)).sqrt() * libm::cos(std::f64::consts::TAU * angle)
}

/// The nearest bf16 of a number whose magnitude is far from the limits.
fn bf16(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

/// The slots of a case's tokens: no two tokens share one.
fn slots(case: &Case, seed: u64) -> Vec<i32> {
    let of = |slot: usize| i32::try_from(slot).unwrap_or(i32::MAX);
    match case.slots {
        Slots::Sequential => (0..case.tokens).map(of).collect(),
        Slots::Scattered => {
            let mut all: Vec<usize> = (0..case.pages * case.page).collect();
            all.sort_by_key(|slot| draw(seed, 1, *slot));
            let padding = |token: usize| token % 7 == 5;
            (0..case.tokens).map(|token| if padding(token) { -1 } else { of(all[token]) }).collect()
        }
    }
}

/// New keys or values of a case, in blocks of [`BLOCK`] elements that share a scale.
fn source(case: &Case, Configuration { head, scales, .. }: Configuration, side: Side, seed: u64) -> Source {
    let stream = 2 + side as u64 * 3;
    let global = match (case.regime, side) {
        (Regime::Exact | Regime::Ties, Side::Keys) => 0.125,
        (Regime::Exact | Regime::Ties, Side::Values) => 2.0,
        (Regime::Real, Side::Keys) => 0.0123,
        (Regime::Real, Side::Values) => 0.0057,
        (Regime::Small, _) => 1.0,
    };
    let blocks = case.tokens * case.heads * head / BLOCK;
    let mut elements = Vec::with_capacity(blocks * BLOCK);
    for block in 0..blocks {
        // A normal scale whose neighbours are numbers, too; at halves a power of two, by which every way to divide is exact.
        let scale = 9 + (draw(seed, stream, block) % 100) as u8;
        let scale = judge::value_of_scale(if case.regime == Regime::Ties { scale & !7 } else { scale });
        // One element has the largest code, so that the scale is that of the block.
        let largest = (draw(seed, stream + 1, block) % BLOCK as u64) as usize;
        for i in 0..BLOCK {
            let bits = draw(seed, stream + 2, block * BLOCK + i);
            let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
            let code = (bits >> 8 & 7) as usize;
            let of_fp8 =
                || f64::from(global) * judge::fp8_number(scales, bits >> 8, case.regime == Regime::Ties);
            let value = match case.regime {
                Regime::Exact | Regime::Ties if scales.is_fp8() => of_fp8(),
                Regime::Exact | Regime::Ties if i == largest => 6.0 * scale * f64::from(global),
                Regime::Exact => judge::CODES[code] * scale * f64::from(global),
                Regime::Ties => judge::MIDPOINTS[code % 7] * scale * f64::from(global),
                Regime::Real => normal(bits >> 1).abs(),
                // Every fourth block is zero, every other one has scales about the least, 2^-9.
                Regime::Small if block % 4 == 3 => 0.0,
                Regime::Small => normal(bits >> 1).abs() * [0.002, 0.01, 0.05][block % 4 % 3],
            };
            elements.push(bf16(sign * value));
        }
    }
    Source { elements, global }
}

impl Data {
    /// Generates the data of a case.
    pub(super) fn new(case: &Arc<Case>, configuration: Configuration, seed: u64) -> Self {
        let of = |side| source(case, configuration, side, seed);
        let (case, slots) = (Arc::clone(case), slots(case, seed));
        Self { configuration, slots, sources: Side::ALL.map(of), case }
    }

    /// Blocks of a head.
    pub(super) const fn blocks(&self) -> usize {
        self.configuration.head / BLOCK
    }

    /// The number of rows of the cache: a head of a slot.
    pub(super) fn rows(&self) -> usize {
        self.case.pages * self.case.page * self.case.heads
    }

    /// The row of a head of a slot in the codes, and in scales that are linear.
    pub(super) fn row(&self, slot: usize, head: usize) -> usize {
        let Case { page, heads, .. } = *self.case;
        let (of_page, at) = (slot / page, slot % page);
        match self.configuration.layout {
            Layout::Nhd => (of_page * page + at) * heads + head,
            Layout::Hnd => (of_page * heads + head) * page + at,
        }
    }

    /// The place of a block's scale.
    pub(super) fn scale_at(&self, side: Side, slot: usize, head: usize, block: usize) -> usize {
        let (page, blocks) = (self.case.page, self.blocks());
        if side == Side::Keys || self.configuration.scales != Scales::Swizzled {
            return self.row(slot, head) * blocks + block;
        }
        // 4x4 tiles within the plane of a page and a head: flat 4 S (t / 4) + 4 s + t % 4.
        let plane = (slot / page * self.case.heads + head) * page * blocks;
        let at = slot % page;
        plane + 4 * blocks * (at / 4) + 4 * block + at % 4
    }
}

impl stream::Problem for Data {
    fn buffers(&self) -> Vec<(&'static str, Content)> {
        let slots = self.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        let mut out = vec![("slots", Content::Input(slots))];
        for (side, source) in Side::ALL.into_iter().zip(&self.sources) {
            let [elements, global, codes, scales] = side.buffers();
            let bytes = source.elements.iter().flat_map(|element| element.to_le_bytes()).collect();
            let before = |len: usize| Content::Updated(vec![BEFORE; len]);
            out.extend([
                (elements, Content::Input(bytes)),
                (global, Content::Input(source.global.to_le_bytes().to_vec())),
                (codes, before(self.rows() * self.configuration.scales.bytes(self.configuration.head))),
                (scales, before(self.rows() * self.blocks())),
            ]);
        }
        out
    }

    fn steps(&self) -> Vec<Step> {
        let step = |side: Side| {
            let [source, global, codes, scales] = side.buffers();
            Step {
                stage: side.stage().into(),
                kernel: 0,
                names: names(&self.case, self.configuration, side),
                buffers: vec![("source", source), ("global", global), ("codes", codes), ("scales", scales)],
            }
        };
        Side::ALL.map(step).into()
    }

    fn stage_of(&self, buffer: &str) -> StageName {
        let side = Side::ALL.into_iter().find(|side| side.buffers().contains(&buffer));
        side.unwrap_or(Side::Keys).stage().into()
    }

    fn judge(&self, stored: &Stored) -> Vec<StageResult> {
        Side::ALL.into_iter().map(|side| judge::stage(self, side, stored)).collect()
    }
}

/// The values of the expressions of a header, for keys or values.
pub(super) fn names(case: &Case, configuration: Configuration, side: Side) -> Names {
    let swizzled = side == Side::Values && configuration.scales == Scales::Swizzled;
    let names = [
        ("tokens", case.tokens),
        ("heads", case.heads),
        ("page", case.page),
        ("head", configuration.head),
        ("swizzled", usize::from(swizzled)),
    ];
    names.into_iter().map(|(name, value)| (name, value as u64)).collect()
}
