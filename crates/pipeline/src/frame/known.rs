//! Known failures of a case, asserted both ways: a reported failure must occur, and no other failure is excused.

use record::{ConfigurationName, StageName, StageResult, Verdict};

/// A known, reported failure. If the stage passes after all, that is an error too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFailure {
    /// The URL of the report.
    pub url: String,
    /// The stage that fails.
    pub stage: StageName,
    /// The device on which it fails; every device if `None`.
    pub device: Option<String>,
    /// The words of the configurations with which it fails; every configuration if empty.
    pub configuration: String,
}

/// Applies known failures to the verdicts of a trial: `fail`, `timed_out`, `crashed` and `device_lost` become `known_fail`;
/// `pass` becomes `unexpected_pass`. Other verdicts stay unchanged.
pub fn assert_known(
    failures: &[KnownFailure],
    configuration: &ConfigurationName,
    device: &str,
    results: &mut [StageResult],
) {
    let speaks = |known: &&KnownFailure| {
        configuration.has(&known.configuration) && known.device.as_ref().is_none_or(|name| name == device)
    };
    for known in failures.iter().filter(speaks) {
        let Some(result) = results.iter_mut().find(|r| r.stage == known.stage) else { continue };
        let url = &known.url;
        match result.verdict {
            Verdict::Fail | Verdict::TimedOut | Verdict::Crashed | Verdict::DeviceLost => {
                let found = std::mem::take(&mut result.note);
                let colon = if found.is_empty() { "" } else { ": " };
                (result.verdict, result.note) = (Verdict::KnownFail, format!("{url}{colon}{found}"));
            }
            Verdict::Pass => {
                result.verdict = Verdict::UnexpectedPass;
                result.note =
                    format!("it passes, but {url} reports a failure: remove it from `known_failures`");
            }
            // Another entry has already changed it, or the verdict does not judge the kernel.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asserted(known: KnownFailure, verdict: Verdict) -> StageResult {
        let of =
            |stage: &'static str, verdict| StageResult { verdict, ..StageResult::skipped(stage, "found") };
        let mut results = [of("quantize", Verdict::Fail), of("fc1", verdict)];
        assert_known(&[known], &"128x32x128 native tma".into(), "emulator", &mut results);
        assert_eq!(results[0].verdict, Verdict::Fail, "another stage is not excused");
        results[1].clone()
    }

    #[test]
    fn both_ways_and_only_within_their_scope() {
        let url = "https://example.invalid/1".to_owned();
        let all = KnownFailure { url, stage: "fc1".into(), device: None, configuration: String::new() };
        let fails = asserted(all.clone(), Verdict::Fail);
        assert_eq!(
            (fails.verdict, fails.note.as_str()),
            (Verdict::KnownFail, "https://example.invalid/1: found")
        );
        let passes = asserted(all.clone(), Verdict::Pass);
        assert_eq!(passes.verdict, Verdict::UnexpectedPass);
        assert!(passes.note.contains(&all.url), "{}", passes.note);
        let here = KnownFailure {
            device: Some("emulator".into()),
            configuration: "128x32x128".into(),
            ..all.clone()
        };
        assert_eq!(asserted(here, Verdict::Crashed).verdict, Verdict::KnownFail);
        for other in [
            KnownFailure { device: Some("gpu:0".into()), ..all.clone() },
            KnownFailure { configuration: "128x64x128".into(), ..all.clone() },
        ] {
            assert_eq!(asserted(other.clone(), Verdict::Fail).verdict, Verdict::Fail);
            assert_eq!(asserted(other, Verdict::Pass).verdict, Verdict::Pass);
        }
        for verdict in [Verdict::Skipped, Verdict::Blocked, Verdict::Unsupported, Verdict::Broken] {
            assert_eq!(asserted(all.clone(), verdict).verdict, verdict);
        }
    }
}
