//! The output where weights are multiplied by the scales of values and quantized to e4m3 (docs/numerics.md, 14.5): the codes that a kernel
//! may store follow from the interval of each product, so that a product with one possible code adds nothing to the bound.

use std::collections::BTreeMap;

use super::{Common, EX2, Expected, FLUSHED, Key, Reference};
use crate::attention::element::{Element, Roundoff, U};
use crate::attention::problem::Request;
use crate::attention::semantics::Folded;

/// What the largest product of a tile becomes.
const LARGEST: f64 = 448.0;

/// The least that a kernel takes as the largest product, relative to the maximum of its row so far.
const LEAST: f64 = 1e-10;

/// How far the quotient of a product and the largest may be from the exact one: exponentials and rescales of both, products with scales,
/// and a reciprocal of a quotient, each of which may be `div.approx`.
const SLACK: f64 = 1.01 * (4.0 * EX2 + 4.0 / 4_194_304.0 + 8.0 * U);

/// The ends of an interval.
type Ends = (f64, f64);

/// Sums over the keys for an element, relative to the largest weight: of the values, of their magnitudes, of what the weights may be off,
/// and of the distances from the value of the key with the largest weight.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    value: f64,
    size: f64,
    off: f64,
    off_hot: f64,
}

impl Sum {
    /// Adds a value whose weight is within `off` of `weight`.
    fn add(&mut self, v: f64, weight: f64, off: f64, hot: f64) {
        self.value += weight * v;
        self.size += (weight + off) * v.abs();
        self.off += off * v.abs();
        self.off_hot += (weight + off) * (v - hot).abs();
    }
}

/// What a kernel may store for a number, and what it leaves as a second one if it does.
fn stored((low, high): Ends, residual: bool) -> Ends {
    let nearest = |x: f64| Element::E4m3.nearest(x.min(LARGEST));
    let (least, most) = (nearest(low), nearest(high));
    match residual {
        false => (least, most),
        // The second is within half its step of what is left, which is at most half a step of the first.
        true if least != most => {
            let Roundoff { relative, absolute } = Element::E4m3.roundoff();
            let off = relative * relative * high + absolute;
            (low - off, high.min(LARGEST) + off)
        }
        true => (least + nearest(low - least), least + nearest(high.min(LARGEST) - least)),
    }
}

/// The keys of a tile and a block of the values.
struct Tile<'k, 'r> {
    keys: &'r [&'k Key],
    /// The largest score.
    most: f64,
    /// The scale of the block of each key.
    scales: Vec<f64>,
}

impl Tile<'_, '_> {
    /// How far the exponent of a key in a kernel may be from the exact one.
    fn off_of(&self, key: &Key) -> f64 {
        key.product + 16.0 * U * key.t.abs().max(self.most.abs())
    }

    /// The product of each weight, relative to the largest one of the tile, and its scale.
    fn products(&self) -> Vec<Ends> {
        let of = |(key, scale): (&&Key, &f64)| {
            let off = self.off_of(key);
            let exact = libm::exp2(key.t - self.most) * scale;
            (exact * libm::exp2(-off), exact * libm::exp2(off))
        };
        self.keys.iter().zip(&self.scales).map(of).collect()
    }

    /// What becomes 448: the largest of the products, or the product of the largest weight and the largest scale.
    fn largest(&self, of: Folded, products: &[Ends]) -> Ends {
        if of.by_factors {
            let scale = self.scales.iter().fold(0.0, |most: f64, scale| most.max(*scale));
            let off = self.keys.iter().fold(0.0, |off: f64, key| off.max(self.off_of(key)));
            return (scale * libm::exp2(-off), scale * libm::exp2(off));
        }
        products.iter().fold((0.0, 0.0), |(low, high): Ends, of| (low.max(of.0), high.max(of.1)))
    }

    /// What each weight may become, relative to the largest one of all tiles, and the relative error that all have in common.
    fn weights(&self, of: Folded, common: &Common) -> (Vec<Ends>, f64) {
        let products = self.products();
        let largest = self.largest(of, &products);
        let to_all = libm::exp2(self.most - common.most);
        if !of.by_factors && to_all * largest.0 < LEAST * (1.0 + SLACK) {
            // The kernel's largest may be the least: codes are fewer, and each is within a half step of its product.
            let Roundoff { relative, absolute } = Element::E4m3.roundoff();
            let of = |((_, high), scale): (&Ends, &f64)| match *scale {
                0.0 => (0.0, 0.0),
                scale => {
                    (0.0, (to_all * high * (1.0 + relative + SLACK) + absolute * LEAST / LARGEST) / scale)
                }
            };
            return (products.iter().zip(&self.scales).map(of).collect(), 0.0);
        }
        let middle = f64::midpoint(largest.0, largest.1);
        let unit = to_all * middle / LARGEST;
        let of = |((low, high), scale): (&Ends, &f64)| {
            // The product with a scale of zero is zero, and so is every value of the block.
            if *scale == 0.0 {
                return (0.0, 0.0);
            }
            let ends =
                (LARGEST * low / largest.1 * (1.0 - SLACK), LARGEST * high / largest.0 * (1.0 + SLACK));
            let (low, high) = stored(ends, of.residual);
            (unit * low / scale, unit * high / scale)
        };
        let weights = products.iter().zip(&self.scales).map(of).collect();
        (weights, (largest.1 - largest.0) / (2.0 * middle) + SLACK)
    }
}

impl Reference<'_> {
    /// The elements of the output.
    pub(super) fn output_of_folded(
        &self,
        of: Folded,
        keys: &[Key],
        common: &Common,
        request: &Request,
        kv_head: usize,
    ) -> Vec<Expected> {
        let (shape, values) = (&self.problem.shape, &self.problem.values);
        let width = shape.value_width;
        let row = |key: &Key| values.row(key.row, kv_head, shape.kv_heads, width);
        let hot_key = keys.iter().max_by(|a, b| a.weight.total_cmp(&b.weight));
        let hot: Vec<f64> =
            hot_key.map_or_else(Vec::new, |hot| row(hot).iter().map(|v| f64::from(*v)).collect());
        let mut sums = vec![Sum::default(); width];
        let tiles = tiles(of, keys, request);
        let blocks = values.block_scales.len() / (self.rows_of_values() * shape.kv_heads).max(1);
        let latent = (blocks * values.block).min(width);
        for keys in &tiles {
            let most = keys.iter().fold(f64::NEG_INFINITY, |most, key| most.max(key.t));
            let of_rescales = self.rescale_error(most, common, keys.len());
            for (block, first) in (0..latent).step_by(values.block.max(1)).enumerate() {
                let scale = |key: &&Key| {
                    let scales = values.scales_of(key.row, kv_head, shape.kv_heads, blocks);
                    scales.get(block).map_or(f64::NAN, |scale| f64::from(*scale))
                };
                let tile = Tile { keys, most, scales: keys.iter().map(scale).collect() };
                let (weights, of_largest) = tile.weights(of, common);
                let of_factor = of_rescales + of_largest;
                let elements = first..(first + values.block).min(latent);
                for (key, (low, high)) in keys.iter().zip(weights) {
                    let (middle, half) = (f64::midpoint(low, high), (high - low) / 2.0);
                    let off = half + of_factor * (middle + half);
                    for d in elements.clone() {
                        sums[d].add(f64::from(row(key)[d]), middle, off, hot[d]);
                    }
                }
            }
        }
        // Elements without a scale are multiplied by weights that are rounded to their type.
        for key in keys {
            let off = key.weight * (key.eta + (1.0 + key.eta) * key.rho) + key.absolute;
            for d in latent..width {
                sums[d].add(f64::from(row(key)[d]), key.weight, off, hot[d]);
            }
        }
        self.divided_by_all(&sums, &hot, keys, (common, tiles.len()))
    }

    /// Rows of the values.
    fn rows_of_values(&self) -> usize {
        let shape = &self.problem.shape;
        self.problem.values.elements.len() / (shape.kv_heads * shape.value_width).max(1)
    }

    /// The relative error of the rescales of a tile's results, and of the merge of its split.
    fn rescale_error(&self, most: f64, common: &Common, keys: usize) -> f64 {
        let exponent = (16.0 + 3.0 * common.rises) * U * most.abs().max(common.most.abs());
        let rounded = (common.rises + 2.0) * 1.01 * (EX2 + 2.0 * U);
        let flushed = if most - common.most < FLUSHED { 1.0 } else { 0.0 };
        let merge = self.merge_error(common.most, keys.max(common.count as usize));
        libm::expm1(exponent * std::f64::consts::LN_2) + rounded + flushed + merge
    }

    /// The sums over the sum of the weights before they are quantized, and the rounding of the results of splits.
    fn divided_by_all(
        &self,
        sums: &[Sum],
        hot: &[f64],
        keys: &[Key],
        (common, tiles): (&Common, usize),
    ) -> Vec<Expected> {
        let kappa = 1.5 * (common.count + 2.0 + common.rises + tiles as f64) * U;
        let of_key =
            |key: &Key| key.weight * (key.eta + if key.t - common.most < FLUSHED { 1.0 } else { 0.0 });
        let of_keys = keys.iter().map(of_key).sum::<f64>() / common.total;
        let of_total = of_keys + common.sink * common.sink_eta + kappa;
        let left = if of_total < 0.5 { 1.0 - of_total } else { f64::MIN_POSITIVE };
        let scale = self.problem.semantics.value_scale;
        let of_element = |(sum, hot): (&Sum, &f64)| {
            if !sum.size.is_finite() {
                return Expected::Special(f64::NAN);
            }
            let value = sum.value / common.total;
            let error = ((sum.off + kappa * sum.size) / common.total + of_total * value.abs()) / left;
            let of_partials = self.arithmetic.partials.map_or(0.0, |partials| {
                let Roundoff { relative, absolute } = partials.roundoff();
                let of_size = relative * (sum.size / common.total + error) + absolute;
                // The result of each split is close to the value of the largest weight, or has little weight itself.
                let of_hot = sum.off_hot / common.total + error;
                if partials.nearest(*hot) == *hot { of_size.min(of_hot) } else { of_size }
            });
            let error = error + of_partials + 4.0 * U * value.abs();
            Expected::Number { value: value * scale, error: error * scale.abs() }
        };
        sums.iter().zip(hot).map(of_element).collect()
    }
}

/// The keys of each tile of the list of a row.
fn tiles<'k>(of: Folded, keys: &'k [Key], request: &Request) -> Vec<Vec<&'k Key>> {
    let mut tiles: BTreeMap<usize, Vec<&Key>> = BTreeMap::new();
    for key in keys {
        let place = request.place(key.row - request.keys.start);
        tiles.entry(place / of.tile.max(1)).or_default().push(key);
    }
    tiles.into_values().collect()
}
