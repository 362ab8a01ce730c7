//! The report that `emulate` prints after its launches.

use std::fmt::Write as _;
use std::ops::Range;

use emulator::Violation;
use emulator::trials::Sums;

use crate::job::launch::{Checked, Judged, Limit, Omission, Origin, Outcome, Session, Tolerance};
use crate::record::counted;
use crate::store;

/// Number of elements of an output that are printed.
const SHOWN: usize = 8;

/// Formats the violations, one per line.
pub(super) fn listed(violations: &[Violation]) -> String {
    let line = |v: &Violation| format!("violation: {}; {}\n", v.trap, counted(v.times as usize, "time"));
    violations.iter().map(line).collect()
}

/// Formats what the launches left out, one per line.
pub(super) fn left_out(omissions: &[Omission]) -> String {
    omissions.iter().map(|omission| format!("remark: {omission}\n")).collect()
}

/// The results of all trials.
pub(super) struct Report<'a> {
    pub(super) session: &'a Session,
    pub(super) judged: &'a Judged,
    /// Results for which the file of expected tensors has no tensor.
    pub(super) not_compared: &'a [String],
}

impl Report<'_> {
    /// Formats the report as text, with remarks and addresses if requested; empty if the first trial did not run to its end.
    pub(super) fn text(&self, remarks: bool, addresses: bool) -> String {
        let Self { session, judged, .. } = self;
        let (Some(outcome), verdict) = (&judged.outcome, &judged.verdict) else { return String::new() };
        let mut text = String::new();
        let tried = self.tried();
        for (step, instructions) in session.steps.iter().zip(&verdict.instructions) {
            let noun = if *instructions == 1 { "instruction" } else { "instructions" };
            let _ = writeln!(text, "{}: {instructions} warp {noun}{tried}", step.entry);
        }
        for (buffer, address) in session.buffers.iter().zip(&outcome.addresses).filter(|_| addresses) {
            let _ = writeln!(text, "{} at {address:#x}, {} bytes", buffer.name, buffer.shape.bytes);
        }
        for remark in verdict.remarks.iter().filter(|_| remarks) {
            let _ = writeln!(text, "remark: {}; {}; {} times", remark.what, remark.place, remark.times);
        }
        for n in 0..session.buffers.len() {
            self.buffer(n, outcome, &mut text);
        }
        let Sums { elements, differences, worst } = verdict.sums;
        if elements > 0 {
            let _ = writeln!(
                text,
                "float atomics: the rounding of {elements} elements depends on the order of adds"
            );
            if differences > 0 {
                let percent = worst * 100.0;
                let _ = writeln!(
                    text,
                    "  {differences} differences between schedules, of {percent:.1} % of their bound at most"
                );
            }
        }
        if let Some(difference) = verdict.nondeterministic() {
            let _ = writeln!(text, "nondeterministic: {difference}");
        }
        for store in verdict.undetermined_stores.iter().filter(|_| remarks) {
            let _ =
                writeln!(text, "undetermined by PTX: {}; {}; {} times", store.what, store.place, store.times);
        }
        verdict.undetermined.iter().flatten().for_each(|found| _ = writeln!(text, "{found}"));
        judged.checked.iter().for_each(|checked| expectation(checked, &mut text));
        let origin = judged.origin.iter().flat_map(Origin::lines);
        origin.for_each(|line| _ = writeln!(text, "  {line}"));
        for name in self.not_compared {
            let _ = writeln!(text, "{name}: not compared");
        }
        text
    }

    fn tried(&self) -> String {
        let verdict = &self.judged.verdict;
        let (schedules, poisons) = (verdict.schedules, verdict.fillings);
        if !verdict.several {
            return String::new();
        }
        let outputs = match (&verdict.stopped, verdict.differences.is_empty()) {
            (Some(_), _) => "not all of which end",
            (None, true) => "equal outputs",
            (None, false) => "outputs differ",
        };
        let with =
            if poisons > 1 { format!(" with {poisons} contents of unwritten memory") } else { String::new() };
        format!(" in schedule {}; {schedules} schedules{with}, {outputs}", verdict.first.seed)
    }

    /// Prints a buffer, if it has changed.
    fn buffer(&self, n: usize, outcome: &Outcome, text: &mut String) {
        let buffer = &self.session.buffers[n];
        if buffer.scratch || !self.session.changed(n, outcome) {
            return;
        }
        let (bytes, element) = (outcome.bytes(n), buffer.shape.element);
        let dims: Vec<String> = buffer.shape.dims.iter().map(ToString::to_string).collect();
        let undefined =
            outcome.addresses.get(n).map_or_else(Vec::new, |at| outcome.memory.unwritten_runs(*at));
        let untouched =
            outcome.addresses.get(n).map_or_else(Vec::new, |at| outcome.memory.untouched_runs(*at));
        let shown = |n: usize| {
            let code = element.code_at(&bytes, n)?;
            let first = n * element.bits() / 8;
            let within = |runs: &[Range<usize>]| runs.iter().any(|run| run.contains(&first));
            Some(match (within(&untouched), within(&undefined)) {
                (true, _) => "(unwritten)".to_owned(),
                (false, true) => "(undefined)".to_owned(),
                (false, false) => element.show(code),
            })
        };
        let values: Vec<String> = (0..SHOWN).map_while(shown).collect();
        let more = if buffer.shape.count() > SHOWN { " …" } else { "" };
        let _ = writeln!(text, "{} {}[{}]", buffer.name, element.name(), dims.join(","));
        let _ = writeln!(text, "  {}{more}", values.join(" "));
        let _ = writeln!(text, "  sha256 {}", store::sha256(&bytes));
        let count = |runs: &[Range<usize>]| runs.iter().map(ExactSizeIterator::len).sum::<usize>();
        let never = count(&untouched);
        if never > 0 {
            let _ = writeln!(text, "  {never} of {} bytes were never written", bytes.len());
        }
        let computed = count(&undefined).saturating_sub(never);
        if computed > 0 {
            let who = match self.session.steps.as_slice() {
                [only] => format!("`{}`", only.entry),
                _ => "a kernel".to_owned(),
            };
            let _ = writeln!(
                text,
                "  {computed} of {} bytes are undefined: {who} computed them from unwritten memory",
                bytes.len()
            );
        }
    }
}

/// Prints the result of a comparison.
fn expectation(checked: &Checked, text: &mut String) {
    let Checked { buffer, elements, wrong, largest, .. } = checked;
    if let Some(why) = &checked.why {
        let _ = writeln!(text, "{buffer}: nothing was compared: {why}");
        return;
    }
    let limits = match &checked.limit {
        Limit::Tolerance(Tolerance { relative, absolute, ulps: 0 }) => {
            format!("rtol {relative:e}, atol {absolute:e}; largest difference {largest:e}")
        }
        Limit::Tolerance(Tolerance { relative, absolute, ulps }) => {
            format!("rtol {relative:e}, atol {absolute:e}, ulps {ulps}; largest difference {largest:e}")
        }
        Limit::Bound(_) => format!("derived bound; largest difference {largest:.3} of it"),
    };
    match &checked.first {
        None => {
            let _ = writeln!(text, "{buffer}: {} as expected ({limits})", counted(*elements, "element"));
        }
        Some(first) => {
            let are = if *elements == 1 { "is" } else { "are" };
            let index: Vec<String> = first.index.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "{buffer}: {wrong} of {} {are} not as expected ({limits})",
                counted(*elements, "element")
            );
            let (index, got, wanted) = (index.join(","), &first.got, &first.wanted);
            let _ = writeln!(text, "  the first is {buffer}[{index}]: {got}, expected {wanted}");
            if let Limit::Bound(Some(diagnosis)) = &checked.limit {
                diagnosis.text().lines().for_each(|line| _ = writeln!(text, "  {line}"));
            }
        }
    }
}
