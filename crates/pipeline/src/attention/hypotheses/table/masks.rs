//! Hypotheses on custom masks: bits that are read otherwise.

use std::sync::Arc;

use super::with;
use crate::attention::dump::Dump;
use crate::attention::problem::Request;
use crate::attention::semantics::Mask;

/// Masks whose bits are reversed in each byte, or whose rows are padded.
pub(super) fn mask_bits(dump: &Dump) -> Vec<(String, Dump)> {
    if dump.semantics.mask != Mask::Custom {
        return Vec::new();
    }
    /// Rows and keys of a request.
    type Size = (usize, usize);
    let bit = |request: &Request, at: usize| {
        let bits = request.rows.len() * request.mask_stride;
        let found = if at < bits { dump.mask.get(request.mask + at) } else { None };
        found.copied().unwrap_or(false)
    };
    let set = |of: &dyn Fn(&Request, usize, usize) -> bool| {
        let mut bits = vec![false; dump.mask.len()];
        for request in &dump.requests {
            for row in 0..request.rows.len() {
                for key in 0..request.mask_stride {
                    if let Some(to) = bits.get_mut(request.mask + row * request.mask_stride + key) {
                        *to = of(request, row, key);
                    }
                }
            }
        }
        with(dump, |d| d.mask = Arc::new(bits))
    };
    let read = |at: fn(usize, usize, Size) -> Option<usize>| {
        set(&|request, row, key| {
            at(row, key, (request.rows.len(), request.mask_stride)).is_some_and(|at| bit(request, at))
        })
    };
    let reversed = |row: usize, key: usize, (_, keys): Size| {
        let bit = row * keys + key;
        Some(bit / 8 * 8 + 7 - bit % 8)
    };
    // The last keys are the rows' own: among them, rows and keys change places.
    let transposed = |row: usize, key: usize, (rows, keys): Size| {
        let first = keys.saturating_sub(rows);
        Some(if key < first { row * keys + key } else { (key - first) * keys + first + row })
    };
    let padded = |stride: usize| {
        set(&|request, row, key| bit(request, row * request.mask_stride.next_multiple_of(stride) + key))
    };
    let mut all: Vec<(String, Dump)> = [8, 16, 32, 64, 128]
        .map(|stride| (format!("rows begin on multiples of {stride} bits"), padded(stride)))
        .to_vec();
    all.extend(
        [
            ("the highest bit of a byte first", read(reversed)),
            ("shifted by one key", read(|row, key, (_, keys)| Some(row * keys + key + 1))),
            (
                "shifted by one key the other way",
                read(|row, key, (_, keys)| (row * keys + key).checked_sub(1)),
            ),
            ("of the first row for all", read(|_, key, _| Some(key))),
            ("of the next row", read(|row, key, (_, keys)| Some((row + 1) * keys + key))),
            ("of the row before", read(|row, key, (_, keys)| Some(row.checked_sub(1)? * keys + key))),
            ("rows and keys exchanged among the draft", read(transposed)),
            (
                "without the keys before the draft",
                read(|row, key, (rows, keys)| Some(row * keys + key.checked_sub(keys.saturating_sub(rows))?)),
            ),
            ("inverted", set(&|request, row, key| !bit(request, row * request.mask_stride + key))),
            (
                "inverted among the draft",
                set(&|request, row, key| {
                    let is_draft = key + request.rows.len() >= request.mask_stride;
                    bit(request, row * request.mask_stride + key) != is_draft
                }),
            ),
            (
                "every key before the draft is visible, and of the draft the row's own and those before it",
                set(&|request, row, key| key <= row + request.mask_stride.saturating_sub(request.rows.len())),
            ),
        ]
        .map(|(what, dump)| (what.to_owned(), dump)),
    );
    all
}
