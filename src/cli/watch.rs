//! The trace and the profile of a launch, as `emulate` prints them.

use std::fmt::Write as _;
use std::io::Write as _;

use emulator::trials::Notices;
use emulator::{Conflicts, Executed, Listed, Observer, Profile, Remark, SpaceTraffic, Violation};

/// Maximum number of lines with bank conflicts that are printed.
const CONFLICTS_SHOWN: usize = 10;

/// Prints every instruction as it is executed.
pub(super) struct Trace {
    pub(super) listing: Vec<Listed>,
    pub(super) problem: Option<std::io::Error>,
}

/// The trace, the profile, or both.
pub(super) struct Watcher {
    pub(super) trace: Option<Trace>,
    pub(super) profile: Option<Profile>,
    pub(super) ear: Ear,
}

/// Collects the output of a launch: text of `vprintf`, violations, remarks.
#[derive(Default)]
pub(super) struct Ear {
    /// Whether text is printed immediately.
    pub(super) prints: bool,
    pub(super) problem: Option<std::io::Error>,
    pub(super) notices: Notices,
}

impl Observer for Ear {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        if self.prints && self.problem.is_none() {
            super::progress::speak();
            self.problem = write!(std::io::stdout(), "{text}").err();
        }
    }

    fn violation(&mut self, violation: &Violation) {
        self.notices.violation(violation);
    }

    fn remark(&mut self, remark: &Remark) {
        self.notices.remark(remark);
    }

    fn undetermined_store(&mut self, store: &Remark) {
        self.notices.undetermined_store(store);
    }

    fn conflicts(&mut self, conflicts: &Conflicts) {
        self.notices.conflicts(conflicts);
    }
}

impl Observer for Watcher {
    fn row(&mut self, executed: &Executed<'_>) {
        if let Some(profile) = &mut self.profile {
            profile.row(executed);
        }
        let Some(trace) = &mut self.trace else { return };
        let Some(row) = trace.listing.get(executed.row).filter(|row| row.first) else { return };
        if trace.problem.is_some() {
            return;
        }
        let [x, y, z] = executed.cta;
        let written = writeln!(
            std::io::stdout(),
            "{x},{y},{z} warp {:<2} {:08x} line {:<5} {}",
            executed.warp,
            executed.mask,
            row.line,
            row.text
        );
        trace.problem = written.err();
    }

    fn printed(&mut self, text: &str) {
        self.ear.printed(text);
    }

    fn violation(&mut self, violation: &Violation) {
        self.ear.violation(violation);
    }

    fn remark(&mut self, remark: &Remark) {
        self.ear.remark(remark);
    }

    fn undetermined_store(&mut self, store: &Remark) {
        self.ear.undetermined_store(store);
    }

    fn conflicts(&mut self, conflicts: &Conflicts) {
        self.ear.conflicts(conflicts);
    }
}

/// Formats the profile as text.
pub(super) fn show_profile(profile: &Profile) -> String {
    let mut text = String::from("executions      lanes  instruction\n");
    for (name, executions, lanes) in profile.histogram() {
        let _ = writeln!(text, "{executions:>10} {lanes:>10}  {name}");
    }
    let mut traffic = |what: &str, unit: &str, t: &SpaceTraffic| {
        if t.accesses > 0 {
            let _ = writeln!(
                text,
                "{what}: {} accesses, {} bytes, {} {unit}, {} more than necessary",
                t.accesses, t.bytes, t.transactions, t.excess
            );
        }
    };
    traffic("global loads", "sectors of 32 bytes", &profile.global_loads);
    traffic("global stores", "sectors of 32 bytes", &profile.global_stores);
    traffic("shared loads", "passes over the banks", &profile.shared_loads);
    traffic("shared stores", "passes over the banks", &profile.shared_stores);
    let conflicts = profile.conflicts();
    for (row, passes) in conflicts.iter().take(CONFLICTS_SHOWN) {
        let _ = writeln!(text, "bank conflicts: {passes} extra passes at line {} `{}`", row.line, row.text);
    }
    if conflicts.len() > CONFLICTS_SHOWN {
        let _ = writeln!(text, "bank conflicts: {} more lines", conflicts.len() - CONFLICTS_SHOWN);
    }
    text
}
