//! Mutates the quoted PTX of an `asm` statement: modifiers, immediates, coordinates, whole instructions.

use std::ops::Range;

use super::model::{Edit, Operator};
use super::operators::neighbours;

/// Modifiers and their replacements; an empty replacement removes the modifier.
const MODIFIERS: [(&str, &str, Operator); 9] = [
    ("acq_rel", "relaxed", Operator::Order),
    ("acquire", "relaxed", Operator::Order),
    ("release", "relaxed", Operator::Order),
    ("sys", "gpu", Operator::Scope),
    ("gpu", "cta", Operator::Scope),
    ("cluster", "cta", Operator::Scope),
    ("satfinite", "", Operator::Saturation),
    ("sat", "", Operator::Saturation),
    ("NaN", "", Operator::Saturation),
];

/// Adds the edits of one string of an `asm` statement. `at` is the position of its content, `whole` the concatenated
/// strings of the statement.
pub(super) fn edits(content: &str, at: usize, whole: &str, out: &mut Vec<Edit>) {
    let mut edit = |operator, range: Range<usize>, new: String| {
        out.push(Edit { operator, at: at + range.start..at + range.end, new });
    };
    for range in instructions(content) {
        let text = &content[range.clone()];
        if let Some(operator) = drops(text, whole) {
            edit(operator, range.clone(), String::new());
        }
        if let (true, Some((found, new))) = (text.contains(".tensor."), coordinates(text)) {
            edit(Operator::Axis, range.start + found.start..range.start + found.end, new);
        }
    }
    for range in words(content) {
        let word = &content[range.clone()];
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            for (operator, new) in neighbours(word) {
                edit(operator, range.clone(), new);
            }
            continue;
        }
        if let Some((head, axis)) = word.rsplit_once('.')
            && ["tid", "ctaid", "ntid", "nctaid"].contains(&head.trim_start_matches('%'))
        {
            let other = if axis == "x" { "y" } else { "x" };
            edit(Operator::Axis, range.end - axis.len()..range.end, other.to_owned());
            continue;
        }
        let mut from = range.start;
        for part in word.split('.') {
            for (_, new, operator) in MODIFIERS.iter().filter(|(old, ..)| *old == part && from > range.start)
            {
                // A removed modifier is removed with its point.
                let begin = if new.is_empty() { from - 1 } else { from };
                edit(*operator, begin..from + part.len(), (*new).to_owned());
            }
            from += part.len() + 1;
        }
    }
}

/// Returns the instructions that begin and end in this string, including the semicolon.
fn instructions(content: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut begin = 0;
    for (end, _) in content.match_indices(';') {
        let text = &content[begin..end];
        let skipped = text.len() - text.trim_start_matches(['{', ' ', '\t']).len();
        let skipped = if text[skipped..].starts_with("\\n") { skipped + 2 } else { skipped };
        out.push(begin + skipped..end + 1);
        begin = end + 1;
    }
    out
}

/// Returns the operator that removes this instruction, if it is a fence, a barrier or a wait.
fn drops(instruction: &str, whole: &str) -> Option<Operator> {
    let text = instruction.trim_start();
    let waits =
        ["cp.async.wait_", "cp.async.bulk.wait_", "griddepcontrol.wait", "wgmma.wait_", "tcgen05.wait"];
    if text.starts_with("fence.") || text.starts_with("membar.") {
        Some(Operator::Fence)
    } else if text.starts_with("bar.") || text.starts_with("barrier.") {
        Some(Operator::Barrier)
    } else if waits.iter().any(|w| text.starts_with(w)) {
        Some(Operator::Wait)
    } else {
        // Without its backward branch, a loop around `try_wait` does not wait.
        let tries = whole.contains("try_wait") || whole.contains("test_wait");
        (tries && text.starts_with('@') && text.contains(" bra ")).then_some(Operator::Wait)
    }
}

/// Exchanges the first two coordinates of a tensor copy, `{%2, %3`.
fn coordinates(instruction: &str) -> Option<(Range<usize>, String)> {
    let begin = instruction.find('{')? + 1;
    let end = begin + instruction[begin..].find('}')?;
    let all: Vec<&str> = instruction[begin..end].split(',').collect();
    let [first, second, rest @ ..] = all.as_slice() else { return None };
    let mut new = vec![second.trim(), first.trim()];
    new.extend(rest.iter().map(|c| c.trim()));
    Some((begin..end, new.join(", ")))
}

/// Finds words of PTX, including modifiers, and numbers. `%0` is an operand of the statement, not a number.
fn words(content: &str) -> Vec<Range<usize>> {
    let is_word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'%' | b'$' | b':');
    let bytes = content.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
        } else if is_word(bytes[at]) {
            let end = bytes[at..].iter().position(|c| !is_word(*c)).map_or(bytes.len(), |n| at + n);
            if bytes[at] != b'%' || content[at..end].contains('.') {
                out.push(at..end);
            }
            at = end;
        } else {
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(content: &str) -> Vec<(Operator, String)> {
        let mut out = Vec::new();
        edits(content, 0, content, &mut out);
        let apply =
            |e: Edit| (e.operator, format!("{}{}{}", &content[..e.at.start], e.new, &content[e.at.end..]));
        out.into_iter().map(apply).collect()
    }

    #[test]
    fn modifiers_weaken_and_immediates_move() {
        use Operator::{ConstantDown, ConstantUp, Fence, Order, Saturation, Scope};
        let of = |text: &str| -> Vec<(Operator, String)> { made(text) };
        let pair = |o, t: &str| (o, t.to_owned());
        assert_eq!(
            of("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"),
            [
                pair(Order, "atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"),
                pair(Scope, "atom.acq_rel.cta.global.add.u32 %0, [%1], 1;"),
                pair(ConstantUp, "atom.acq_rel.gpu.global.add.u32 %0, [%1], 2;"),
                pair(ConstantDown, "atom.acq_rel.gpu.global.add.u32 %0, [%1], 0;"),
            ]
        );
        assert_eq!(
            of("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"),
            [pair(Saturation, "cvt.rn.e4m3x2.f32 %0, %1, %2;")]
        );
        assert_eq!(of("min.NaN.f32 %0, %1, %2;"), [pair(Saturation, "min.f32 %0, %1, %2;")]);
        assert_eq!(of("fence.proxy.async.shared::cta;"), [pair(Fence, "")]);
        assert_eq!(of("mma.sync.aligned.m16n8k16.row.col.f32 {%0, %1};"), []);
    }

    #[test]
    fn waits_are_dropped_and_coordinates_exchanged() {
        let text = "{\\n.reg .pred done;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n@!done bra again;\\n}\\n";
        let all = made(text);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].0 == Operator::Wait && !all[0].1.contains("bra"), "{all:?}");
        let copy = made("cp.async.bulk.tensor.3d.tile [%0], [%1, {%2, %3, %4}], [%5];");
        assert_eq!(
            copy,
            [(Operator::Axis, "cp.async.bulk.tensor.3d.tile [%0], [%1, {%3, %2, %4}], [%5];".to_owned())]
        );
        assert_eq!(made("mov.u32 %0, %%ctaid.x;"), [(Operator::Axis, "mov.u32 %0, %%ctaid.y;".to_owned())]);
    }
}
