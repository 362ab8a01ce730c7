//! Judges what a writer of a cache stored: new keys and values, and the slots that they became.
//!
//! A number of the cache is x / scale, rounded to nearest, ties to even, at most the largest of its type. A writer divides in binary32, or
//! multiplies by a reciprocal, which `rcp.approx` may compute: a quotient is within 2^-21 of the exact one, and exact if the divisor is a
//! power of two. With NVFP4 the scale of a block is ue4m3(amax / (6·global)); codes are judged on the scale that is stored.

use std::sync::Arc;

use rayon::prelude::*;
use record::{Place, StageResult, Verdict};

use super::cache::{Cache, Order, ScaleOrder};
use super::element::{BLOCK, Element};
use super::judge::Judgement;
use super::quantize::quotient;
use crate::frame::diagnosis::{Diagnosis, Explanation};

const SIDES: [&str; 2] = ["keys", "values"];

/// A dump of a writer.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The cache after the launch.
    pub(super) cache: Cache,
    /// New keys and values: [tokens, heads, width].
    pub(super) sources: [Arc<Vec<f32>>; 2],
    /// The slot of each token, counted over all pages; negative for a token without one.
    pub(super) slots: Vec<i64>,
    /// What keys and values are divided by: their scales or, with NVFP4, the global ones.
    pub(super) factors: [f64; 2],
    /// The name of its case.
    pub(super) case: Option<String>,
}

/// The number in which a token's element is wrong.
type At = (usize, usize, usize);

/// Wrong elements of a side.
#[derive(Debug, Default)]
struct Wrong {
    checked: u64,
    wrong: u64,
    first: Option<(At, String)>,
}

impl Wrong {
    fn join(self, other: Self) -> Self {
        let first = match (self.first, other.first) {
            (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
            (a, b) => a.or(b),
        };
        Self { checked: self.checked + other.checked, wrong: self.wrong + other.wrong, first }
    }

    fn add(&mut self, at: At, note: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.first.as_ref().is_none_or(|(first, _)| at < *first) {
            self.first = Some((at, note()));
        }
    }

    fn result(self, side: usize) -> StageResult {
        if self.checked == 0 {
            return StageResult::skipped(SIDES[side], "no token has a slot");
        }
        let verdict = if self.wrong > 0 { Verdict::Fail } else { Verdict::Pass };
        let worst_over_bound = if self.wrong > 0 { f64::INFINITY } else { 0.0 };
        let (place, note) = self.first.map_or((None, String::new()), |((token, head, d), note)| {
            (Some(Place::at(&[("token", token), ("head", head), ("d", d)])), note)
        });
        let skipped = StageResult::skipped(SIDES[side], "");
        StageResult { verdict, worst_over_bound, mismatches: self.wrong, place, note, ..skipped }
    }
}

impl Written {
    fn width(&self) -> usize {
        self.cache.planes[0].width
    }

    /// The source of a head of a token.
    fn source(&self, side: usize, token: usize, head: usize) -> &[f32] {
        let first = (token * self.cache.heads + head) * self.width();
        self.sources[side].get(first..first + self.width()).unwrap_or_default()
    }

    /// Judges every token of a side, or each `step`th.
    fn side(&self, side: usize, step: usize) -> Wrong {
        let tokens: Vec<usize> = (0..self.slots.len()).step_by(step).collect();
        let one = |token: &usize| self.token(side, *token);
        tokens.par_iter().map(one).reduce(Wrong::default, Wrong::join)
    }

    fn token(&self, side: usize, token: usize) -> Wrong {
        let mut wrong = Wrong::default();
        let Ok(slot) = usize::try_from(self.slots[token]) else { return wrong };
        let (page, slot) = (slot / self.cache.page, slot % self.cache.page);
        for head in 0..self.cache.heads {
            self.head(side, (token, head), (page, slot), &mut wrong);
        }
        wrong
    }

    fn head(
        &self,
        side: usize,
        (token, head): (usize, usize),
        (page, slot): (usize, usize),
        wrong: &mut Wrong,
    ) {
        let plane = &self.cache.planes[side];
        let (element, width) = (plane.element, plane.width);
        let source = self.source(side, token, head);
        let bytes = plane
            .strides
            .at(page, slot, head)
            .and_then(|first| plane.bytes.get(first..first + element.bytes(width)));
        wrong.checked += width as u64;
        let Some(bytes) = bytes else {
            wrong.add((token, head, 0), || format!("page {page}, slot {slot} is beyond the cache"));
            return;
        };
        let mut divisor = match element {
            Element::F32 | Element::Bf16 | Element::F16 => 1.0,
            _ => self.factors[side],
        };
        for d in 0..width {
            if let (Some(scales), 0) = (&plane.scales, d % BLOCK) {
                let at = scales.at(page, slot, head, d / BLOCK, width / BLOCK);
                let stored = at.and_then(|at| scales.bytes.get(at).copied()).unwrap_or(0x7F);
                let scale = f64::from(numerics::Format::Ue4m3.decode(stored.into()));
                let largest =
                    source[d..d + BLOCK].iter().fold(0.0, |most: f64, x| most.max(f64::from(x.abs())));
                let (least, greatest) = quotient(largest, 6.0 * self.factors[side], Element::E4m3);
                if !(least..=greatest).contains(&scale) {
                    wrong.add((token, head, d), || {
                        format!("scale {scale:e} instead of {least:e} to {greatest:e}")
                    });
                }
                divisor = scale * self.factors[side];
            }
            let of = if plane.odd_first { d ^ 1 } else { d };
            let found = f64::from(element.value(bytes, of).unwrap_or(f32::NAN));
            let x = f64::from(source[d]);
            let (least, greatest) = if divisor == 0.0 { (0.0, 0.0) } else { quotient(x, divisor, element) };
            let right = (least..=greatest).contains(&found) || x.is_nan() && found.is_nan();
            if !right {
                wrong.add((token, head, d), || match least == greatest {
                    true => format!("{found:e} instead of {least:e}"),
                    false => format!("{found:e} instead of {least:e} to {greatest:e}"),
                });
            }
        }
    }

    /// What a writer may have done instead: each a name, where to look, public examples, and the dump as it would be right.
    fn hypotheses(&self) -> Vec<(&'static str, String, &'static str, Self)> {
        let with = |change: &dyn Fn(&mut Self)| {
            let mut other = self.clone();
            change(&mut other);
            other
        };
        let mut all = Vec::new();
        let layouts = "the strides and the layout of scales that the reader expects";
        for order in Order::ALL {
            let other = with(&|w| w.cache.reorder(*order, 0..2));
            all.push((
                "vl 56550, vl 49012",
                format!("pages were written as {}", order.word()),
                layouts,
                other,
            ));
        }
        let sides: [(&[usize], &str); 3] = [(&[0], SIDES[0]), (&[1], SIDES[1]), (&[0, 1], "both sides")];
        for (sides, name) in sides {
            for order in ScaleOrder::ALL {
                let other = with(&|w| {
                    for side in sides {
                        w.cache.planes[*side].scales.iter_mut().for_each(|scales| scales.order = *order);
                    }
                });
                let what = format!("the block scales of {name} were written {}", order.word());
                all.push(("vl 50084, vl 46329", what, layouts, other));
            }
            let nibbles = with(&|w| {
                for side in sides {
                    w.cache.planes[*side].odd_first ^= w.cache.planes[*side].scales.is_some();
                }
            });
            let what = format!("the nibbles of {name} are exchanged");
            all.push(("", what, "the packing of codes: the even element is in the low nibble", nibbles));
            let look = "the scale: an element of the cache is x / scale";
            let [k, v] = self.factors;
            for (what, factors) in [
                ("was multiplied by its scale", [1.0 / k, 1.0 / v]),
                ("was stored without its scale", [1.0, 1.0]),
                ("was divided by the scale of the other side", [v, k]),
            ] {
                let other = with(&|w| sides.iter().for_each(|side| w.factors[*side] = factors[*side]));
                all.push(("sg 20705, sg 18396", format!("each element of {name} {what}"), look, other));
            }
        }
        let swapped = with(&|w| w.sources.swap(0, 1));
        all.push((
            "vl 49011",
            "keys and values are exchanged".to_owned(),
            "which half of the cache is which",
            swapped,
        ));
        for (shift, what) in [(1, "the next slot"), (-1, "the previous slot")] {
            let moved =
                with(&|w| w.slots.iter_mut().filter(|slot| **slot >= 0).for_each(|slot| *slot += shift));
            all.push(("", format!("tokens were written to {what}"), "the index of the slot", moved));
        }
        all.retain(|(.., other)| other != self);
        all
    }
}

/// Judges what a writer stored, and explains what is wrong.
pub(super) fn judge(written: &Written) -> Judgement {
    let sides = [written.side(0, 1), written.side(1, 1)];
    let (wrong, checked) = (sides[0].wrong + sides[1].wrong, sides[0].checked + sides[1].checked);
    let diagnosis = (wrong > 0).then(|| {
        // Some hundred tokens decide; all of them verify.
        let step = written.slots.len().div_ceil(128).max(1);
        let is_right = |other: &Written, step: usize| (0..2).all(|side| other.side(side, step).wrong == 0);
        let fits = |(seen, what, look, other): (&str, String, &str, Written)| {
            let explains = is_right(&other, step) && is_right(&other, 1);
            explains.then(|| Explanation {
                what: what.clone(),
                cause: what,
                look: look.to_owned(),
                seen: seen.to_owned(),
                same: Vec::new(),
            })
        };
        Diagnosis {
            wrong,
            verified: wrong,
            explanations: written.hypotheses().into_iter().filter_map(fits).collect(),
            extent: format!(
                "{wrong} of {checked} elements, {} of keys and {} of values",
                sides[0].wrong, sides[1].wrong
            ),
            ..Diagnosis::default()
        }
    });
    let [keys, values] = sides;
    let gaps = if checked == 0 { vec!["no token has a slot".to_owned()] } else { Vec::new() };
    Judgement { results: vec![keys.result(0), values.result(1)], gaps, diagnosis, case: written.case.clone() }
}
