//! Known failures of a case, asserted both ways: a reported failure must occur, and no other failure is excused.

use super::tile::Tile;
use crate::case::{Case, KnownFailure};
use record::{StageResult, Verdict};

/// Applies the case's known failures to the verdicts: `fail`, `timed_out`, `crashed` and `device_lost` become `known_fail`;
/// `pass` becomes `unexpected_pass`. Other verdicts stay unchanged.
pub fn assert_known(case: &Case, tile: Tile, device: &str, results: &mut [StageResult]) {
    for known in case.known_failures.iter().filter(|k| speaks_of(k, tile, device)) {
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

/// Whether a known failure applies to this tile and device; an omitted field matches any.
fn speaks_of(known: &KnownFailure, tile: Tile, device: &str) -> bool {
    let of_tile = known.tile.is_none_or(|named| named == tile);
    of_tile && known.device.as_ref().is_none_or(|name| name == device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Stage;

    fn asserted(known: KnownFailure, verdict: Verdict) -> StageResult {
        let mut case = crate::case::find("tiny-exact").unwrap();
        case.known_failures = vec![known];
        let of = |stage, verdict| StageResult { verdict, ..StageResult::skipped(stage, "found") };
        let mut results = [of(Stage::Quantize, Verdict::Fail), of(Stage::Fc1, verdict)];
        assert_known(&case, "128x32x128".parse().unwrap(), "emulator", &mut results);
        assert_eq!(results[0].verdict, Verdict::Fail, "another stage is not excused");
        results[1].clone()
    }

    #[test]
    fn both_ways_and_only_within_their_scope() {
        let url = "https://example.invalid/1".to_owned();
        let all = KnownFailure { url, stage: Stage::Fc1, device: None, tile: None };
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
            tile: Some("128x32x128".parse().unwrap()),
            ..all.clone()
        };
        assert_eq!(asserted(here, Verdict::Crashed).verdict, Verdict::KnownFail);
        for other in [
            KnownFailure { device: Some("gpu:0".into()), ..all.clone() },
            KnownFailure { tile: Some("128x64x128".parse().unwrap()), ..all.clone() },
        ] {
            assert_eq!(asserted(other.clone(), Verdict::Fail).verdict, Verdict::Fail);
            assert_eq!(asserted(other, Verdict::Pass).verdict, Verdict::Pass);
        }
        for verdict in [Verdict::Skipped, Verdict::Blocked, Verdict::Unsupported, Verdict::Broken] {
            assert_eq!(asserted(all.clone(), verdict).verdict, verdict);
        }
    }
}
