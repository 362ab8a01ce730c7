//! How long a part of a run took. It says nothing of the result: rows that differ in it alone are equal.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds, if they were measured.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Elapsed(Option<f64>);

impl Elapsed {
    /// Returns the seconds.
    #[must_use]
    pub const fn seconds(self) -> Option<f64> {
        self.0
    }

    /// Whether nothing was measured.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.0.is_none()
    }
}

impl From<Duration> for Elapsed {
    /// In whole milliseconds: records stay small.
    fn from(time: Duration) -> Self {
        Self(Some((time.as_secs_f64() * 1e3).round() / 1e3))
    }
}

impl PartialEq for Elapsed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_kept_and_compared_with_nothing() {
        let short = Elapsed::from(Duration::from_micros(1_499));
        assert_eq!(serde_json::to_string(&short).unwrap(), "0.001");
        assert_eq!(short.seconds(), Some(0.001));
        assert_eq!(short, Elapsed::default());
    }
}
