//! Runs rows whose sources have undefined bits, and determines which bits of the results are undefined.

use super::effect::{Combine, Effect, Propagation};
use super::shadow::{Bits, Shadow, lanes_with, whole};
use super::stores::Unmark;
use super::{is_done, put, value};
use crate::front::program::Row;
use crate::front::registers::{Bank, Place};
use crate::isa::matrix;
use crate::run::machine::{Flow, LANES, Machine};

/// Runs a row with its instruction's rule.
pub(super) fn run(m: &mut Machine<'_>, row: &Row, effect: &Effect, last: bool) -> Flow {
    match &effect.rule {
        Propagation::Moves { by } => moves(m, row, effect, by),
        Propagation::Bitwise => bitwise(m, row, effect),
        _ if !last => (row.exec)(m, row),
        Propagation::Store | Propagation::Atomic { .. } => store(m, row, effect),
        _ => by_sources(m, row, effect),
    }
}

/// The row that caused the undefined bits of an instruction's sources.
fn origin_of(shadow: &Shadow, effect: &Effect) -> u32 {
    let by: &[Place] = match &effect.rule {
        Propagation::Moves { by } => by,
        Propagation::Compare { with: Some((_, c, _)), .. } => std::slice::from_ref(c),
        _ => &[],
    };
    effect.reads.iter().chain(by).find_map(|place| shadow.from(*place)).unwrap_or(0)
}

/// Takes the shadow out of the registers while both are in use.
fn with_shadow<T>(m: &mut Machine<'_>, f: impl FnOnce(&mut Machine<'_>, &mut Shadow) -> T) -> Option<T> {
    let mut shadow = m.r.shadow.take()?;
    let result = f(m, &mut shadow);
    m.r.shadow = Some(shadow);
    Some(result)
}

/// Rules that only look at the sources: the undefined bits are determined before the row runs, since a result may be a source.
fn by_sources(m: &mut Machine<'_>, row: &Row, effect: &Effect) -> Flow {
    let found = with_shadow(m, |m, shadow| {
        let from = origin_of(shadow, effect);
        let carry =
            matches!(effect.rule, Propagation::Chain { reads: true }).then_some(shadow.carry).unwrap_or(0);
        (from, results(m, shadow, row, effect, carry))
    });
    let flow = (row.exec)(m, row);
    if !is_done(&flow) {
        return flow;
    }
    let mask = m.mask;
    if let (Some(shadow), Some((from, results))) = (&mut m.r.shadow, found) {
        let zeros = flow == Flow::Undefined && effect.rule == Propagation::Quotient;
        for (place, bits) in effect.writes.iter().zip(&results) {
            let own = if zeros { shadow.bits(*place) } else { [0; LANES] };
            shadow.set(*place, mask, &std::array::from_fn(|i| bits[i] | own[i]), from);
        }
        if matches!(effect.rule, Propagation::Chain { .. }) {
            let lanes = results.first().map_or(0, lanes_with);
            shadow.carry = shadow.carry & !mask | lanes & mask;
        }
    }
    flow
}

/// The undefined bits of each result.
fn results(m: &mut Machine<'_>, shadow: &mut Shadow, row: &Row, effect: &Effect, carry: u32) -> Vec<Bits> {
    let all = |bits: Bits| vec![bits; effect.writes.len()];
    if effect.rule == Propagation::Matrix
        && let Some(results) = matrix::undefined(m, row, shadow)
    {
        return results;
    }
    let shadow = &*shadow;
    let lanes = || effect.reads.iter().fold(carry, |lanes, place| lanes | shadow.lanes(*place));
    let sources = || effect.reads.iter().map(|place| shadow.bits(*place));
    match &effect.rule {
        Propagation::Warp | Propagation::Matrix => all(whole(if lanes() & m.mask != 0 { !0 } else { 0 })),
        Propagation::Upward => all(std::array::from_fn(|i| {
            let bits = sources().fold(0, |all, bits| all | bits[i]);
            if bits == 0 { 0 } else { u64::MAX << bits.trailing_zeros() }
        })),
        Propagation::Elements(width) => all(std::array::from_fn(|i| {
            let bits = sources().fold(0, |all, bits| all | bits[i]);
            elements(bits, *width, *width)
        })),
        Propagation::Pair(width) => {
            let [upper, lower] = [row.a, row.b].map(|slot| shadow.lanes((Bank::W, slot)));
            let low = (1u64 << width) - 1;
            let (upper, lower) = (whole(upper), whole(lower));
            all(std::array::from_fn(|i| upper[i] & (low << width) | lower[i] & low))
        }
        Propagation::Widths(from, to) => {
            let source = sources().next().unwrap_or([0; LANES]);
            all(std::array::from_fn(|i| elements(source[i] & pair_mask(*from), *from, *to) & pair_mask(*to)))
        }
        Propagation::Select { by } => all(select(m, shadow, row, effect, *by)),
        Propagation::Compare { equal, with } => {
            let mut undefined = lanes();
            if *equal && let [bank] = banks(effect)[..] {
                undefined &= !differ(m, shadow, (bank, row.a), (bank, row.b));
            }
            if let Some((how, c, negated)) = with {
                let unsure = shadow.lanes(*c);
                let c = m.r.p[c.1 as usize] ^ if *negated { !0 } else { 0 };
                // A defined predicate may decide the result alone.
                undefined = unsure
                    | match how {
                        Combine::And => undefined & c,
                        Combine::Or => undefined & !c,
                        Combine::Xor => undefined,
                    };
            }
            all(whole(undefined))
        }
        Propagation::Ballot => all([u64::from(lanes() & m.mask); LANES]),
        _ => all(whole(lanes())),
    }
}

/// Makes elements with an undefined bit entirely undefined: from elements of one width to those of another.
fn elements(bits: u64, from: u32, to: u32) -> u64 {
    let one = |width: u32| u64::MAX >> (64 - width);
    (0..64 / from.max(to))
        .filter(|n| bits >> (n * from) & one(from) != 0)
        .fold(0, |all, n| all | one(to) << (n * to))
}

/// Two elements.
fn pair_mask(width: u32) -> u64 {
    u64::MAX >> (64 - 2 * width)
}

/// The banks of the sources that are not predicates, each once.
fn banks(effect: &Effect) -> Vec<Bank> {
    let mut banks: Vec<Bank> = effect.reads.iter().map(|(bank, _)| *bank).filter(|b| *b != Bank::P).collect();
    banks.dedup();
    banks
}

/// The lanes in which two registers differ in bits that are defined in both.
fn differ(m: &Machine<'_>, shadow: &Shadow, a: Place, b: Place) -> u32 {
    let ([x, y], [u, v]) = ([a, b].map(|p| value(m.r, p)), [a, b].map(|p| shadow.bits(p)));
    lanes_with(&std::array::from_fn(|i| (x[i] ^ y[i]) & !(u[i] | v[i])))
}

/// The selected side's bits; if the selection is undefined, those in which the sides may differ.
fn select(m: &Machine<'_>, shadow: &Shadow, row: &Row, effect: &Effect, by: Option<Place>) -> Bits {
    let bank = effect.writes.first().map_or(Bank::W, |(bank, _)| *bank);
    let [a, b] = [row.a, row.b].map(|slot| (bank, slot));
    let ([x, y], [u, v]) = ([a, b].map(|p| value(m.r, p)), [a, b].map(|p| shadow.bits(p)));
    let chosen = m.r.p[row.c as usize];
    let unsure = shadow.lanes(by.unwrap_or((Bank::P, row.c)));
    std::array::from_fn(|i| match (unsure >> i & 1, chosen >> i & 1) {
        (1, _) => x[i] ^ y[i] | u[i] | v[i],
        (_, 1) => u[i],
        _ => v[i],
    })
}

/// Runs the row on the values, and then on the masks of undefined bits, which it moves to the same places. Operands that specify the
/// positions keep their values.
fn moves(m: &mut Machine<'_>, row: &Row, effect: &Effect, by: &[Place]) -> Flow {
    let mut control: Vec<(Place, Bits)> = by.iter().map(|place| (*place, value(m.r, *place))).collect();
    // Operands that must be defined also specify positions.
    control.extend(effect.decides.iter().map(|(place, _)| (*place, value(m.r, *place))));
    // A shuffle of a register with itself as another operand.
    control.retain(|(place, _)| !effect.reads.contains(place));
    let Some((flow, open)) = on_values(m, row, effect) else { return (row.exec)(m, row) };
    if !matches!(flow, Flow::Next | Flow::Undefined) {
        return flow;
    }
    let mask = m.mask;
    let moved = with_shadow(m, |m, shadow| {
        let from = origin_of(shadow, effect);
        let unsure = by.iter().fold(0, |lanes, place| lanes | shadow.lanes(*place));
        swap(m, shadow);
        let kept: Vec<Bits> = control.iter().map(|(place, _)| value(m.r, *place)).collect();
        control.iter().for_each(|(place, bits)| put(m.r, *place, bits));
        let moved = (row.exec)(m, row);
        for ((place, _), bits) in control.iter().zip(&kept) {
            let written = if effect.writes.contains(place) { mask } else { 0 };
            let now = value(m.r, *place);
            put(m.r, *place, &std::array::from_fn(|i| if written >> i & 1 == 1 { now[i] } else { bits[i] }));
        }
        swap(m, shadow);
        // The row may write a temporary register in either bank.
        shadow.recount_moved(row.d, from);
        for place in &effect.writes {
            match place.0 {
                // Whether a shuffle's source is in range does not depend on the data moved.
                Bank::P => shadow.define(*place, mask),
                _ if unsure & mask != 0 => shadow.set(*place, unsure & mask, &whole(unsure), from),
                _ => shadow.recount(*place, from),
            }
        }
        moved
    });
    if let (Some(shadow), Some((place, bits))) = (&mut m.r.shadow, open) {
        let lanes = lanes_with(&bits) & mask;
        shadow.set_pending(place, lanes, &bits);
    }
    match moved {
        Some(Flow::Next | Flow::Undefined) | None => flow,
        Some(other) => other,
    }
}

/// A register, and bits of it that the row has left open.
type Open = Option<(Place, Bits)>;

/// Runs a row on the values. What it marks as left open in its result is returned instead, since the result may be a source, whose
/// undefined bits are yet to be moved. `None` without a shadow.
fn on_values(m: &mut Machine<'_>, row: &Row, effect: &Effect) -> Option<(Flow, Open)> {
    let result = effect.writes.iter().copied().find(|place| place.0 != Bank::P);
    let before = {
        let shadow = m.r.shadow.as_ref()?;
        result.map(|place| (place, shadow.bits(place), shadow.from(place)))
    };
    let flow = (row.exec)(m, row);
    let (Flow::Undefined, Some((place, held, from))) = (&flow, before) else { return Some((flow, None)) };
    let shadow = m.r.shadow.as_mut()?;
    let open = shadow.bits(place);
    shadow.set(place, m.mask, &held, from.unwrap_or(0));
    Some((flow, Some((place, open))))
}

/// Exchanges the values with the masks of undefined bits.
fn swap(m: &mut Machine<'_>, shadow: &mut Shadow) {
    std::mem::swap(&mut m.r.w, &mut shadow.w);
    std::mem::swap(&mut m.r.d, &mut shadow.d);
}

/// Runs the row with every combination of undefined sources inverted: bits of the result that change are undefined.
fn bitwise(m: &mut Machine<'_>, row: &Row, effect: &Effect) -> Flow {
    let Some(result) = effect.writes.first().copied() else { return (row.exec)(m, row) };
    let changed = with_shadow(m, |m, shadow| {
        let mut sources: Vec<(Place, Bits, Bits)> = Vec::new();
        for place in effect.reads.iter().filter(|place| shadow.is_undefined(**place)) {
            if sources.iter().all(|(known, ..)| known != place) {
                sources.push((*place, value(m.r, *place), shadow.bits(*place)));
            }
        }
        let held = value(m.r, result);
        let mut results = Vec::new();
        for choice in (0..1usize << sources.len()).rev() {
            put(m.r, result, &held);
            for (n, (place, value, bits)) in sources.iter().enumerate() {
                let inverted = if choice >> n & 1 == 1 { *bits } else { [0; LANES] };
                put(m.r, *place, &std::array::from_fn(|i| value[i] ^ inverted[i]));
            }
            // The last combination inverts nothing: it is the row itself.
            let flow = (row.exec)(m, row);
            if flow != Flow::Next {
                return flow;
            }
            results.push(value(m.r, result));
        }
        let last = results.pop().unwrap_or([0; LANES]);
        let bits: Bits =
            std::array::from_fn(|i| results.iter().fold(0, |all, other| all | (other[i] ^ last[i])));
        let from = origin_of(shadow, effect);
        shadow.set(result, m.mask, &bits, from);
        Flow::Next
    });
    changed.unwrap_or(Flow::Next)
}

/// Stores the values, then marks the bytes with nonzero masks as unwritten.
fn store(m: &mut Machine<'_>, row: &Row, effect: &Effect) -> Flow {
    let base = (Bank::D, row.a);
    let address = value(m.r, base);
    let flow = (row.exec)(m, row);
    if !is_done(&flow) {
        return flow;
    }
    let unmarked = with_shadow(m, |m, shadow| {
        let store = Unmark { pc: m.pc, from: origin_of(shadow, effect) };
        if let Propagation::Atomic { bytes } = effect.rule {
            let undefined = effect.reads.iter().fold(0, |lanes, place| lanes | shadow.lanes(*place)) & m.mask;
            if flow != Flow::Undefined {
                effect.writes.iter().for_each(|place| shadow.define(*place, m.mask));
            }
            let done = m.unmark_atomic(row, &address, undefined, bytes, store);
            return done.map_or_else(|fault| m.fail(fault), |()| Flow::Next);
        }
        swap(m, shadow);
        let bits = value(m.r, base);
        put(m.r, base, &address);
        m.unmarks = Some(store);
        let flow = if effect.reads.contains(&base) { Flow::Next } else { (row.exec)(m, row) };
        m.unmarks = None;
        put(m.r, base, &bits);
        swap(m, shadow);
        flow
    });
    match unmarked {
        Some(Flow::Fault) => Flow::Fault,
        _ => flow,
    }
}
