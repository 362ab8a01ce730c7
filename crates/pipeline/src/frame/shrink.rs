//! The smallest trial that fails like a larger one, at the same first stage.

use record::StageName;

use super::family::{SharedTrial, Trial};

/// Reduces `trial` as long as `fails` reports `stage` as the first wrong stage. Every step is tried until none is left, so that no single
/// step can reduce the result further.
pub fn smallest(
    trial: &SharedTrial,
    stage: &StageName,
    mut fails: impl FnMut(&dyn Trial) -> Option<StageName>,
) -> SharedTrial {
    let mut best = SharedTrial::clone(trial);
    while let Some(smaller) =
        best.smaller().into_iter().find(|trial| fails(trial.as_ref()).as_ref() == Some(stage))
    {
        best = smaller;
    }
    best
}
