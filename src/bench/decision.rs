//! Decides by their share of a decode step whether tuning the MoE GEMMs can pay (rule of the SM120 MoE tile expansion plan, 8.0).

use crate::record::Decision;

/// Below this share of the time, tuning cannot pay.
pub const CAUTIOUS_FROM: f64 = 0.10;

/// Above this share of the time, tuning is worthwhile.
pub const GO_ABOVE: f64 = 0.30;

/// Returns the decision for a share of 0 to 1: `stop` below 10 %, `cautious` from 10 to 30 %, `go` above.
#[must_use]
pub fn decision(share: f64) -> Decision {
    if share < CAUTIOUS_FROM {
        Decision::Stop
    } else if share <= GO_ABOVE {
        Decision::Cautious
    } else {
        Decision::Go
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_borders_are_the_rules() {
        for (share, word) in [
            (0.0, Decision::Stop),
            (0.0999, Decision::Stop),
            (0.10, Decision::Cautious),
            (0.30, Decision::Cautious),
            (0.3001, Decision::Go),
            (1.0, Decision::Go),
        ] {
            assert_eq!(decision(share), word, "{share}");
        }
    }
}
