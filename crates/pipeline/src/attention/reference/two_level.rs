//! The output where weights are quantized to NVFP4 (docs/numerics.md, 14.4): the codes that a kernel may store follow from the interval of
//! each weight, so that a weight with one possible code adds nothing to the bound.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::{Common, EX2, Expected, FLUSHED, Key, Reference};
use crate::attention::element::{BLOCK, Element, U};
use crate::attention::problem::Request;
use crate::attention::quantize::quotient;
use crate::attention::semantics::{ProductSum, TwoLevel};

/// The largest weight: an element of 6 with a scale of 448.
const LARGEST: f64 = 2688.0;

/// The finite values of ue4m3, rising.
fn scales() -> &'static [f64] {
    static VALUES: OnceLock<Vec<f64>> = OnceLock::new();
    VALUES.get_or_init(|| (0..0x7F).map(|code| f64::from(numerics::Format::Ue4m3.decode(code))).collect())
}

/// The ends of an interval.
type Ends = (f64, f64);

/// The exponent of the largest weight, where a kernel adds it to those of its weights.
pub(super) const LARGEST_LOG2: f64 = 11.392_317_422_778_762;

/// The weights of a tile of a split, before they are quantized.
struct Tile<'k> {
    /// The keys, in the order of the sequence.
    keys: Vec<&'k Key>,
    /// What the scores are relative to, and how far the kernel's maximum may be from it.
    most: f64,
    off: f64,
    /// Whether the weight of a key whose score is `most` is exactly the largest.
    certain: bool,
    /// What is in the exponents of all weights besides their scores.
    added: f64,
}

impl Tile<'_> {
    /// How far the exponent of a key in a kernel may be from the exact one.
    fn off_of(key: &Key, most: f64, added: f64) -> f64 {
        key.product + 16.0 * U * (key.t.abs().max(most.abs()) + added)
    }

    /// How far the exponent of the largest weight of 16 may be from that of the same key, once it is computed by itself.
    fn off_of_largest(&self) -> f64 {
        16.0 * U * (self.most.abs() + self.added) + 2.0 * EX2
    }

    /// The weight of a key.
    fn weight(&self, key: &Key) -> Ends {
        if self.certain && key.t == self.most {
            return (LARGEST, LARGEST);
        }
        let (exponent, off) = (key.t - self.most, self.off + Self::off_of(key, self.most, self.added));
        let rounded = 1.01 * (EX2 + 2.0 * U);
        let low = LARGEST * libm::exp2(exponent - off) * (1.0 - rounded);
        // No difference of scores is above zero, but its sum with log2 2688 may be above that.
        let most = if self.added > 0.0 { exponent + off } else { (exponent + off).min(0.0) };
        let high = LARGEST * libm::exp2(most) * (1.0 + rounded);
        (if exponent - off < FLUSHED { 0.0 } else { low }, high)
    }
}

/// What the weights of a block may become, where each is divided by a sixth of the largest of them, whose scale is stored: each code times
/// that scale. The largest is computed by itself, within `off` of the exponent.
fn quantized_by_largest(weights: &[Ends], off: f64) -> Vec<Ends> {
    let largest = weights.iter().fold((0.0, 0.0), |(low, high): Ends, of| (low.max(of.0), high.max(of.1)));
    let sixth = (largest.0 / 6.0 * libm::exp2(-off), largest.1 / 6.0 * libm::exp2(off));
    let scale = (Element::E4m3.nearest(sixth.0.min(448.0)), Element::E4m3.nearest(sixth.1.min(448.0)));
    let of = |(low, high): &Ends| match sixth {
        // A weight of which nothing is left has no code.
        (least, _) if least <= 0.0 => (0.0, 6.0 * scale.1),
        (least, most) => {
            let code = (quotient(*low, most, Element::Nvfp4).0, quotient(*high, least, Element::Nvfp4).1);
            (code.0 * scale.0, code.1 * scale.1)
        }
    };
    weights.iter().map(of).collect()
}

/// What the weights of a block may become: each code times its scale.
fn quantized(weights: &[Ends]) -> Vec<Ends> {
    let largest = weights.iter().fold((0.0, 0.0), |(low, high): Ends, of| (low.max(of.0), high.max(of.1)));
    let least = quotient(largest.0, 6.0, Element::E4m3).0;
    let most = quotient(largest.1, 6.0, Element::E4m3).1;
    let allowed: Vec<f64> = scales().iter().copied().filter(|scale| (least..=most).contains(scale)).collect();
    let of_scale = |(low, high): Ends, scale: f64| match scale {
        0.0 => (0.0, 0.0),
        _ => {
            (quotient(low, scale, Element::Nvfp4).0 * scale, quotient(high, scale, Element::Nvfp4).1 * scale)
        }
    };
    let hull = |weight: &Ends| {
        let all = allowed.iter().map(|scale| of_scale(*weight, *scale));
        all.fold((f64::INFINITY, 0.0), |hull: Ends, of| (hull.0.min(of.0), hull.1.max(of.1)))
    };
    weights.iter().map(hull).collect()
}

/// Sums over the keys for an element, relative to the largest weight: of the values, of their magnitudes, and of what the weights may be off.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    value: f64,
    size: f64,
    off: f64,
}

impl Reference<'_> {
    /// The elements of the output.
    pub(super) fn output_of_codes(
        &self,
        of: TwoLevel,
        keys: &[Key],
        common: &Common,
        request: &Request,
        kv_head: usize,
    ) -> Vec<Expected> {
        let (shape, values) = (&self.problem.shape, &self.problem.values);
        let tiles = tiles(of, keys, request);
        let merge = self.merge_error(common.most, keys.len());
        let mut sums = vec![Sum::default(); shape.value_width];
        for tile in &tiles {
            let factor = libm::exp2(tile.most - common.most) / LARGEST;
            let of_factor = self.factor_error(tile, common) + merge;
            for block in tile.blocks(request) {
                let weights: Vec<Ends> = block.iter().map(|key| tile.weight(key)).collect();
                let codes = match of.by_largest {
                    true => quantized_by_largest(&weights, tile.off_of_largest()),
                    false => quantized(&weights),
                };
                for (key, (low, high)) in block.iter().zip(codes) {
                    let (middle, half) = (factor * f64::midpoint(low, high), factor * (high - low) / 2.0);
                    let off = half + of_factor * (middle + half);
                    let row = values.row(key.row, kv_head, shape.kv_heads, shape.value_width);
                    for (sum, v) in sums.iter_mut().zip(row) {
                        let v = f64::from(*v);
                        sum.value += middle * v;
                        sum.size += (middle + half) * v.abs();
                        sum.off += off * v.abs();
                    }
                }
            }
        }
        self.divided(&sums, keys, common, (tiles.len(), of))
    }

    /// The relative error of the factor of a tile, and of every rescale behind it.
    fn factor_error(&self, tile: &Tile<'_>, common: &Common) -> f64 {
        let size = tile.most.abs().max(common.most.abs());
        let exponent = tile.off + (16.0 + 3.0 * common.rises) * U * (size + tile.added);
        let rounded = (common.rises + 2.0) * 1.01 * (EX2 + 2.0 * U);
        let flushed = if tile.most - tile.off - common.most < FLUSHED { 1.0 } else { 0.0 };
        libm::expm1(exponent * std::f64::consts::LN_2) + rounded + flushed
    }

    /// The sums over the sum of the weights before they are quantized.
    fn divided(
        &self,
        sums: &[Sum],
        keys: &[Key],
        common: &Common,
        (tiles, of): (usize, TwoLevel),
    ) -> Vec<Expected> {
        // An mma has 64 keys.
        let (count, tiles) = (common.count, (tiles * of.tile.div_ceil(64)) as f64);
        let kappa = match self.arithmetic.sum {
            ProductSum::Any => 1.5 * (count + 2.0 + tiles) * U,
            // A tile is one mma; its sum is scaled and added with two roundings.
            ProductSum::BlockScaled => (8.0 + 4.0 * tiles) * U,
        };
        let of_key =
            |key: &Key| key.weight * (key.eta + if key.t - common.most < FLUSHED { 1.0 } else { 0.0 });
        let of_keys = keys.iter().map(of_key).sum::<f64>() / common.total;
        let of_added = if of.by_largest { 16.0 * U * LARGEST_LOG2 } else { 0.0 };
        let of_total = of_keys + common.sink * common.sink_eta + 1.5 * (count + 2.0 + tiles) * U + of_added;
        let scale = self.problem.semantics.value_scale;
        let of_element = |sum: &Sum| {
            if !sum.size.is_finite() {
                return Expected::Special(f64::NAN);
            }
            let value = sum.value / common.total;
            let off = (sum.off + kappa * sum.size) / common.total;
            let left = if of_total < 0.5 { 1.0 - of_total } else { f64::MIN_POSITIVE };
            let error = (off + of_total * value.abs()) / left;
            Expected::Number {
                value: value * scale,
                error: error * scale.abs() + 4.0 * U * (value * scale).abs(),
            }
        };
        sums.iter().map(of_element).collect()
    }
}

impl<'k> Tile<'k> {
    /// The keys of a tile, relative to the largest of their scores.
    fn new(keys: Vec<&'k Key>, of: TwoLevel) -> Self {
        let added = if of.by_largest { LARGEST_LOG2 } else { 0.0 };
        let most = keys.iter().fold(f64::NEG_INFINITY, |most, key| most.max(key.t));
        let off = keys.iter().fold(0.0, |off: f64, key| off.max(Self::off_of(key, most, added)));
        // Another key may be the largest one of a kernel, unless all that may be have the same score in it.
        let near: Vec<&&Key> = keys.iter().filter(|key| key.t >= most - 2.0 * off).collect();
        let certain = near.len() == 1 || near.iter().all(|key| key.t == most && key.product == 0.0);
        // An exponential of log2 2688 is no whole number.
        Self { keys, most, off, certain: certain && !of.by_largest, added }
    }

    /// The same keys, relative to the largest score so far.
    fn behind(self, earlier: &Self) -> Self {
        let certain = self.certain && earlier.most + earlier.off < self.most - self.off;
        Self { most: self.most.max(earlier.most), off: self.off.max(earlier.off), certain, ..self }
    }

    /// The blocks of its keys that share a scale.
    fn blocks(&self, request: &Request) -> Vec<&[&'k Key]> {
        let number = |key: &Key| (key.row - request.keys.start) / BLOCK;
        self.keys.chunk_by(|a, b| number(a) == number(b)).collect()
    }
}

/// The tiles of each split of a row.
fn tiles<'k>(of: TwoLevel, keys: &'k [Key], request: &Request) -> Vec<Tile<'k>> {
    let mut by_place: BTreeMap<(usize, usize), Vec<&Key>> = BTreeMap::new();
    for key in keys {
        let n = key.row - request.keys.start;
        by_place.entry((n / of.split.max(1), n / of.tile.max(1))).or_default().push(key);
    }
    let mut tiles: Vec<Tile<'_>> = Vec::new();
    let mut before = None;
    let mut in_order: Vec<_> = by_place.into_iter().collect();
    if of.descending {
        in_order.reverse();
    }
    for ((split, _), keys) in in_order {
        let tile = Tile::new(keys, of);
        let earlier = tiles.last().filter(|_| of.running && before == Some(split));
        let tile = match earlier {
            Some(earlier) => tile.behind(earlier),
            None => tile,
        };
        before = Some(split);
        tiles.push(tile);
    }
    tiles
}

#[cfg(test)]
mod tests;
