//! The report that `emulate` prints after its launches.

use std::fmt::Write as _;

use emulator::Violation;

use crate::job::launch::{Checked, Judged, Session, Sums, Trials, Undetermined};
use crate::store;

/// Number of elements of an output that are printed.
const SHOWN: usize = 8;

/// Formats the violations, one per line.
pub(super) fn listed(violations: &[Violation]) -> String {
    let line = |v: &Violation| format!("violation: {}; {} times\n", v.trap, v.times);
    violations.iter().map(line).collect()
}

/// The results of all trials.
pub(super) struct Report<'a> {
    pub(super) session: &'a Session,
    pub(super) judged: &'a Judged,
    pub(super) trials: &'a Trials,
    /// Results for which the file of expected tensors has no tensor.
    pub(super) not_compared: &'a [String],
}

impl Report<'_> {
    /// Formats the report as text, with remarks and addresses if requested.
    pub(super) fn text(&self, remarks: bool, addresses: bool) -> String {
        let Self { session, judged, .. } = self;
        let outcome = &judged.outcome;
        let mut text = String::new();
        let tried = self.tried();
        for (step, instructions) in session.steps.iter().zip(&outcome.instructions) {
            let _ = writeln!(text, "{}: {instructions} warp instructions{tried}", step.entry);
        }
        for (buffer, address) in session.buffers.iter().zip(&outcome.addresses).filter(|_| addresses) {
            let _ = writeln!(text, "{} at {address:#x}, {} bytes", buffer.name, buffer.shape.bytes);
        }
        for remark in outcome.remarks.iter().filter(|_| remarks) {
            let _ = writeln!(text, "remark: {}; {}; {} times", remark.what, remark.place, remark.times);
        }
        for n in 0..session.buffers.len() {
            self.buffer(n, &mut text);
        }
        let Sums { elements, differences, worst } = judged.sums;
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
        judged.undetermined.iter().flatten().for_each(|found| undetermined(found, &mut text));
        judged.checked.iter().for_each(|checked| expectation(checked, &mut text));
        for name in self.not_compared {
            let _ = writeln!(text, "{name}: not compared");
        }
        text
    }

    fn tried(&self) -> String {
        let (schedules, poisons) = (self.trials.schedules(), self.trials.poisons());
        if !self.trials.are_several() {
            return String::new();
        }
        let with =
            if poisons > 1 { format!(" with {poisons} contents of unwritten memory") } else { String::new() };
        format!(" in schedule {}; {schedules} schedules{with}, equal outputs", self.judged.outcome.trial.seed)
    }

    /// Prints a buffer, if it has changed.
    fn buffer(&self, n: usize, text: &mut String) {
        let buffer = &self.session.buffers[n];
        if buffer.scratch || !self.session.changed(n, &self.judged.outcome) {
            return;
        }
        let (bytes, element) = (self.judged.outcome.bytes(n), buffer.shape.element);
        let dims: Vec<String> = buffer.shape.dims.iter().map(ToString::to_string).collect();
        let values: Vec<String> =
            (0..SHOWN).map_while(|n| element.code_at(&bytes, n)).map(|code| element.show(code)).collect();
        let more = if buffer.shape.count() > SHOWN { " …" } else { "" };
        let _ = writeln!(text, "{} {}[{}]", buffer.name, element.name(), dims.join(","));
        let _ = writeln!(text, "  {}{more}", values.join(" "));
        let _ = writeln!(text, "  sha256 {}", store::sha256(&bytes));
        let unwritten = self.judged.outcome.unwritten(n);
        if unwritten > 0 {
            let _ = writeln!(text, "  {unwritten} of {} bytes were never written", bytes.len());
        }
    }
}

/// Prints the elements that depend on contraction.
fn undetermined(found: &Undetermined, text: &mut String) {
    let Undetermined { buffer, differing, elements, separate, contracted, .. } = found;
    let index: Vec<String> = found.index.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        text,
        "undetermined by PTX: {differing} of {elements} elements of {buffer} depend on whether mul and add round once (--contract)"
    );
    let _ =
        writeln!(text, "  the first is {buffer}[{}]: {separate}, contracted {contracted}", index.join(","));
}

/// Prints the result of a comparison.
fn expectation(checked: &Checked, text: &mut String) {
    let Checked { buffer, elements, wrong, largest, tolerance, .. } = checked;
    let limits = format!("rtol {:e}, atol {:e}", tolerance.relative, tolerance.absolute);
    match &checked.first {
        None => {
            let _ = writeln!(
                text,
                "{buffer}: {elements} elements as expected ({limits}; largest difference {largest:e})"
            );
        }
        Some(first) => {
            let index: Vec<String> = first.index.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "{buffer}: {wrong} of {elements} elements are not as expected ({limits}; largest difference {largest:e})"
            );
            let _ = writeln!(
                text,
                "  the first is {buffer}[{}]: {}, expected {}",
                index.join(","),
                first.got,
                first.wanted
            );
        }
    }
}
