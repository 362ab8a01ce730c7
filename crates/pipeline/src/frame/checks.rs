//! Runs checks on a device in order until one does not pass, and maps a failed launch to a verdict.

use emulator::device::{Failure, LaunchFailure};

use record::{Check, CheckResult, Verdict};

/// Returns the verdict on a failed launch. A launch that the device rejects is a failure of the kernel, which requests more than
/// the device has; `Broken` is a fault of the device's software or of this tool.
#[must_use]
pub const fn verdict(failure: &Failure) -> Verdict {
    match failure {
        Failure::Trap { .. } | Failure::Launch(_) => Verdict::Fail,
        Failure::Unsupported(_) => Verdict::Unsupported,
        Failure::Broken(_) => Verdict::Broken,
        Failure::TimedOut(_) => Verdict::TimedOut,
        Failure::Crashed(_) => Verdict::Crashed,
        Failure::DeviceLost(_) => Verdict::DeviceLost,
    }
}

/// Why a check did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPassed {
    /// The verdict.
    pub verdict: Verdict,
    /// The finding.
    pub note: String,
}

impl NotPassed {
    /// Creates a result with this verdict and note.
    #[must_use]
    pub fn new(verdict: Verdict, note: impl Into<String>) -> Self {
        Self { verdict, note: note.into() }
    }

    /// Returns the same result with `place: ` in front of its note.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Self { note: format!("{place}: {}", self.note), ..self }
    }
}

impl From<Failure> for NotPassed {
    fn from(failure: Failure) -> Self {
        Self { verdict: verdict(&failure), note: failure.to_string() }
    }
}

impl From<LaunchFailure> for NotPassed {
    fn from(failed: LaunchFailure) -> Self {
        failed.failure.into()
    }
}

/// Returns the verdict and the note for a launch that failed on `device`.
#[must_use]
pub fn not_passed(failure: Failure, device: &str) -> NotPassed {
    let verdict = verdict(&failure);
    let note = match failure {
        Failure::Trap { what, .. } => what,
        Failure::Unsupported(text) => format!("{device}: {text}"),
        Failure::Launch(text)
        | Failure::Broken(text)
        | Failure::TimedOut(text)
        | Failure::Crashed(text)
        | Failure::DeviceLost(text) => text,
    };
    NotPassed { verdict, note }
}

/// Runs checks in order; `one` returns the note of a check that passed. After a check that does not conform or is blocked, the rest
/// are skipped. A verdict about behaviour that PTX leaves open, or that nothing requires, does not stop them.
///
/// # Errors
/// The first error of `one`.
pub fn in_order<E>(
    checks: &[Check],
    mut one: impl FnMut(Check) -> Result<Result<String, NotPassed>, E>,
) -> Result<Vec<CheckResult>, E> {
    let mut stopped: Option<Check> = None;
    let mut out = Vec::new();
    for check in checks.iter().copied() {
        let (verdict, note) = match stopped {
            Some(earlier) => (Verdict::Skipped, format!("`{}` did not pass", earlier.word())),
            None => match one(check)? {
                Ok(note) => (Verdict::Pass, note),
                Err(NotPassed { verdict, note }) => {
                    if !verdict.conforms() || verdict == Verdict::Blocked {
                        stopped = Some(check);
                    }
                    (verdict, note)
                }
            },
        };
        out.push(CheckResult { check, verdict, note });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_does_not_pass_stops_those_after_it() {
        for (verdict, stops) in [
            (Verdict::Fail, true),
            (Verdict::Blocked, true),
            (Verdict::Skipped, false),
            (Verdict::Undetermined, false),
        ] {
            let one = |check| -> Result<_, ()> {
                Ok(if check == Check::Correct {
                    Err(NotPassed::new(verdict, "why"))
                } else {
                    Ok(String::new())
                })
            };
            let results = in_order(Check::ALL, one).unwrap();
            let after: Vec<Verdict> =
                results.iter().filter(|r| r.check > Check::Correct).map(|r| r.verdict).collect();
            let wanted = if stops { Verdict::Skipped } else { Verdict::Pass };
            assert!(after.iter().all(|v| *v == wanted), "{verdict:?}: {after:?}");
            assert_eq!(results.len(), Check::ALL.len());
        }
        assert_eq!(in_order(Check::ALL, |_| Err("no device")), Err("no device"));
    }
}
