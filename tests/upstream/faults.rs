//! Faults for any kernel: barriers, waits and guards removed, accesses shifted by one element. They are planted only in executed lines.

use std::collections::BTreeSet;

/// Faults of one kind in one kernel.
const MOST: usize = 2;

/// The effect of a fault on an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// A barrier is removed.
    Barrier,
    /// A wait for copies, for an mbarrier or for the previous grid is removed.
    Wait,
    /// A global access loses its guard.
    Guard,
    /// A global load reads the next element.
    Load,
    /// A store writes the next element.
    Store,
    /// A shared access is shifted by one element.
    Shared,
}

/// A planted fault.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The change: `cut bar.sync, line 12`.
    pub(crate) name: String,
    /// The text with the fault.
    pub(crate) ptx: String,
}

/// Faults in the executed lines (from 1) of a text. `overlapped` says whether a grid runs concurrently with its predecessor: otherwise
/// `griddepcontrol.wait` has nothing to wait for.
pub(crate) fn planted(ptx: &str, executed: &BTreeSet<usize>, overlapped: bool) -> Vec<Fault> {
    let lines: Vec<&str> = ptx.lines().collect();
    let mut out = Vec::new();
    let operators = [
        Operator::Barrier,
        Operator::Wait,
        Operator::Guard,
        Operator::Load,
        Operator::Store,
        Operator::Shared,
    ];
    for operator in operators {
        let places: Vec<(usize, String, String)> = executed
            .iter()
            .filter_map(|line| {
                let (name, text) = operator.apply(lines.get(line - 1)?)?;
                if !overlapped && name == "cut griddepcontrol.wait" {
                    return None;
                }
                Some((*line, name, text))
            })
            .collect();
        for (line, name, text) in spread(&places) {
            let mut changed = lines.clone();
            changed[line - 1] = text;
            out.push(Fault { name: format!("{name}, line {line}"), ptx: changed.join("\n") + "\n" });
        }
    }
    out
}

/// At most [`MOST`] of them, spread over the text.
fn spread<T>(all: &[T]) -> impl Iterator<Item = &T> {
    let count = all.len().min(MOST);
    (0..count).map(move |n| &all[if count == 1 { 0 } else { n * (all.len() - 1) / (count - 1) }])
}

impl Operator {
    /// The description and the new text of a line, if the operator applies.
    fn apply(self, line: &str) -> Option<(String, String)> {
        let instruction = line.trim();
        // The guard is separate from the instruction.
        let bare =
            if instruction.starts_with('@') { instruction.split_once(' ')?.1.trim() } else { instruction };
        let opcode = bare.split_whitespace().next()?.trim_end_matches(';');
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| opcode.starts_with(prefix));
        match self {
            Self::Barrier if begins(&["bar.sync", "barrier.sync", "barrier.cta.sync", "bar.warp.sync"]) => {
                Some((format!("cut {opcode}"), line.replace(instruction, "")))
            }
            Self::Wait
                if begins(&[
                    "cp.async.wait",
                    "cp.async.bulk.wait_group",
                    "griddepcontrol.wait",
                    "fence.proxy.async",
                ]) =>
            {
                Some((format!("cut {opcode}"), line.replace(instruction, "")))
            }
            Self::Wait if begins(&["mbarrier.try_wait", "mbarrier.test_wait"]) => {
                let predicate = bare.split_whitespace().nth(1)?.trim_end_matches(',');
                Some((
                    format!("cut {opcode}"),
                    line.replace(bare, &format!("setp.eq.u32 {predicate}, 0, 0;")),
                ))
            }
            Self::Guard
                if bare != instruction
                    && begins(&["ld.global", "st.global", "atom.", "red.", "cp.async"]) =>
            {
                Some((format!("{opcode} without its guard"), line.replace(instruction, bare)))
            }
            Self::Load if begins(&["ld.global"]) => shifted(line, opcode),
            Self::Store if begins(&["st.global"]) => shifted(line, opcode),
            Self::Shared if begins(&["ld.shared", "st.shared", "ldmatrix"]) => shifted(line, opcode),
            _ => None,
        }
    }
}

/// The line with its address one element further.
fn shifted(line: &str, opcode: &str) -> Option<(String, String)> {
    let (open, close) = (line.find('[')?, line.find(']')?);
    let inside = &line[open + 1..close];
    let bytes = if opcode.starts_with("ldmatrix") { 16 } else { access_bytes(opcode)? };
    let (base, offset) = match inside.split_once('+') {
        Some((base, offset)) => (base, offset.trim().parse::<i64>().ok()?),
        None => (inside, 0),
    };
    let text = format!("{}[{base}+{}]{}", &line[..open], offset + bytes, &line[close + 1..]);
    Some((format!("{opcode} {bytes} bytes off"), text))
}

/// Bytes that a load or store accesses.
fn access_bytes(opcode: &str) -> Option<i64> {
    let width = |part: &str| {
        part.get(1..)
            .and_then(|bits| bits.parse::<i64>().ok())
            .filter(|_| part.starts_with(['b', 'u', 's', 'f']))
    };
    let element = opcode.split('.').filter_map(width).next_back()? / 8;
    let count = opcode.split('.').find_map(|part| part.strip_prefix('v')?.parse::<i64>().ok()).unwrap_or(1);
    Some((element * count).max(1))
}
