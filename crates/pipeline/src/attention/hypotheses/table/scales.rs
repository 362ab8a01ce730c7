//! Hypotheses on the scales of a cache: their layout, their place, and factors of all of it.

use super::{SIDES, each, with};
use crate::attention::cache::{Order, ScaleOf, ScaleOrder, Strides};
use crate::attention::dump::Dump;
use crate::attention::element::BLOCK;

/// Block scales in another order of a page.
pub(super) fn scale_orders(dump: &Dump) -> Vec<(String, Dump)> {
    let mut all = Vec::new();
    let orders = |side: usize| dump.cache.planes[side].scales.as_ref().map(|scales| scales.order);
    for side in 0..2 {
        let Some(stored) = orders(side) else { continue };
        for order in ScaleOrder::ALL.iter().filter(|order| **order != stored) {
            let other = with(dump, |d| {
                d.cache.planes[side].scales.iter_mut().for_each(|scales| scales.order = *order);
            });
            all.push((
                format!("those of {} are {} and are read as {}", SIDES[side], stored.word(), order.word()),
                other,
            ));
        }
    }
    if let (Some(keys), Some(values)) = (orders(0), orders(1)) {
        for (order, other) in
            [(ScaleOrder::Linear, ScaleOrder::Swizzled), (ScaleOrder::Swizzled, ScaleOrder::Linear)]
        {
            if (keys, values) == (other, other) {
                let both = with(dump, |d| {
                    for scales in d.cache.planes.iter_mut().filter_map(|plane| plane.scales.as_mut()) {
                        scales.order = order;
                    }
                });
                all.push((
                    format!("those of both are {} and are read as {}", other.word(), order.word()),
                    both,
                ));
            }
        }
    }
    all
}

/// Block scales of another place.
pub(super) fn scale_places(dump: &Dump) -> Vec<(String, Dump)> {
    let scales = |side: usize| dump.cache.planes[side].scales.as_ref();
    let (Some(keys), Some(values)) = (scales(0), scales(1)) else { return Vec::new() };
    let mut all = Vec::new();
    for side in 0..2 {
        for (shift, what) in [(1, "next key"), (-1, "key before")] {
            let other = with(dump, |d| d.cache.planes[side].scale_shift = shift);
            all.push((format!("of {}, those of the {what}", SIDES[side]), other));
        }
    }
    all.extend([
        (
            "those of keys for values".to_owned(),
            with(dump, |d| d.cache.planes[1].scales = Some(keys.clone())),
        ),
        (
            "those of values for keys".to_owned(),
            with(dump, |d| d.cache.planes[0].scales = Some(values.clone())),
        ),
    ]);
    for side in 0..2 {
        let is_transposed = dump.cache.planes[side].transposed;
        let what = if is_transposed { "column" } else { "block" };
        let others = [
            (ScaleOf::Pair, format!("the other {what} of each pair")),
            (ScaleOf::Before, format!("the {what} before")),
            (
                ScaleOf::First,
                format!("the first block of the {}", if is_transposed { "page" } else { "row" }),
            ),
        ];
        for (of, what) in others {
            let other = with(dump, |d| d.cache.planes[side].scale_of = of);
            all.push((format!("of {}, those of {what}", SIDES[side]), other));
        }
        let first = with(dump, |d| {
            d.cache.planes[side].scales.iter_mut().for_each(|scales| scales.strides.head = 0);
        });
        all.push((format!("of {}, those of the first head", SIDES[side]), first));
        let own = with(dump, |d| d.cache.planes[side].strides.head = 0);
        all.push((format!("of {}, their own, for elements of the first head", SIDES[side]), own));
    }
    for side in 0..2 {
        let column = if dump.cache.planes[side].transposed { dump.cache.page / BLOCK } else { 0 };
        let steps = |strides: Strides| {
            [(1, "block"), (strides.slot, "slot"), (column, "column"), (strides.head, "head")]
        };
        let Some(of) = scales(side) else { continue };
        // Columns have no slots to step over.
        for (step, what) in steps(of.strides).into_iter().filter(|(step, _)| *step > 0) {
            let next = with(dump, |d| {
                d.cache.planes[side].scales.iter_mut().for_each(|scales| scales.strides.offset += step);
            });
            all.push((format!("of {}, those of the next {what}", SIDES[side]), next));
        }
    }
    all
}

/// Factors of a cache that are missing, doubled, inverted or exchanged.
pub(super) fn scales(dump: &Dump) -> Vec<(String, Dump)> {
    let [_, k, v, k_global, v_global] = dump.scales;
    let mut all = Vec::new();
    for (name, of) in [("k_scale", k), ("k_global", k_global)] {
        let factors = [(1.0 / of, "is missing"), (of, "is applied twice"), (1.0 / (of * of), "is inverted")];
        let factors = factors.map(|(factor, how)| (factor, format!("{name} {how}")));
        all.extend(each(dump, factors, |d, factor| d.semantics.scale *= factor));
    }
    for (name, of) in [("v_scale", v), ("v_global", v_global)] {
        let factors = [(1.0 / of, "is missing"), (of, "is applied twice"), (1.0 / (of * of), "is inverted")];
        let factors = factors.map(|(factor, how)| (factor, format!("{name} {how}")));
        all.extend(each(dump, factors, |d, factor| d.semantics.value_scale *= factor));
    }
    for (name, key, value) in [("k_scale and v_scale", k, v), ("k_global and v_global", k_global, v_global)] {
        all.push((
            format!("{name} are exchanged"),
            with(dump, |d| {
                d.semantics.scale *= value / key;
                d.semantics.value_scale *= key / value;
            }),
        ));
        all.push((
            format!("{name} are both missing"),
            with(dump, |d| {
                d.semantics.scale /= key;
                d.semantics.value_scale /= value;
            }),
        ));
    }
    for (name, key, value) in [("k_scale", k, v), ("k_global", k_global, v_global)] {
        all.push((
            format!("{name} is used for values"),
            with(dump, |d| d.semantics.value_scale *= key / value),
        ));
        all.push((
            format!("that of values is used for keys, not {name}"),
            with(dump, |d| d.semantics.scale *= value / key),
        ));
    }
    // Factors of heads or slots.
    for side in 0..2 {
        if dump.cache.planes[side].factors.is_some() {
            let missing = with(dump, |d| d.cache.planes[side].factors = None);
            all.push((format!("the factors of {} are missing", SIDES[side]), missing));
        }
    }
    all
}

/// Values in columns that are read as rows of elements, in the order of dimensions that caches of rows have.
pub(super) fn columns_as_rows(dump: &Dump) -> Vec<(String, Dump)> {
    let plane = &dump.cache.planes[1];
    if !plane.transposed {
        return Vec::new();
    }
    let (page, heads) = (dump.cache.page, dump.cache.heads);
    let read = |order: &Order| {
        let other = with(dump, |d| {
            let values = &mut d.cache.planes[1];
            let dense = |row: usize| Strides::dense(*order, page, heads, row);
            let of = |strides: Strides, row: usize| Strides {
                offset: strides.offset,
                page: strides.page,
                ..dense(row)
            };
            values.transposed = false;
            values.strides = of(values.strides, values.element.bytes(values.width));
            let blocks = values.width / BLOCK;
            values.scales.iter_mut().for_each(|scales| scales.strides = of(scales.strides, blocks));
        });
        (format!("as {}", order.word()), other)
    };
    Order::ALL.iter().map(read).collect()
}
