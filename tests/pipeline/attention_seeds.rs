//! A thousand seeds of every kind of attention on the emulator: small problems with every feature, none of which may raise an alarm.

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use sm121probe::attention::family::ATTENTION;
use sm121probe::frame::family::{Family as _, Part};
use sm121probe::frame::runner::Runner;

use super::{GROUPS, SEEDS, Shared, green, tool};

/// The problems: more than eight heads of a group, splits, a last page that is not full, and what else each name says.
const PROBLEMS: [(&str, &str); 3] = [
    (
        "causal-window-sinks-slopes-cap-swizzled",
        r#"about: "A window, sinks, slopes, a cap and swizzled scales in halves of one tensor."
heads: 10
kv_heads: 1
requests: [{rows: 2, keys: 41}, {rows: 1, keys: 18}, {rows: 1, keys: 0}]
page: 4
spare: 1
layout: halves
mask: causal
window: 30
sinks: true
slopes: true
cap: 20.0
swizzled: true
split: 24
natural: true
regime: real
configurations: ["d64"]
"#,
    ),
    (
        "custom-mask",
        r#"about: "A custom mask over padded pages, linear scales."
heads: 4
kv_heads: 2
requests: [{rows: 3, keys: 37}, {rows: 1, keys: 9}]
page: 16
layout: padded
mask: custom
split: 20
regime: real
configurations: ["d64"]
"#,
    ),
    (
        "records",
        r#"about: "Records of latent attention, with sinks."
heads: 3
kv_heads: 1
requests: [{rows: 1, keys: 21}, {rows: 1, keys: 6}]
page: 16
layout: padded
mask: none
sinks: true
sparse: true
split: 16
regime: real
configurations: ["mla"]
"#,
    ),
];

/// The trials: every group has its part of the seeds of every problem on every kernel and type of cache.
pub(super) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let of = |group: usize| {
        let shared = Arc::clone(shared);
        Trial::test(format!("attention_seeds.{group:02}"), move || seeds(&shared, group))
    };
    (0..GROUPS).map(of).collect()
}

fn seeds(shared: &Shared, group: usize) -> Result<(), Failed> {
    let mut runner = Runner::new(&shared.library, &shared.nvrtc, shared.store.as_ref(), tool().to_owned());
    for (name, text) in PROBLEMS {
        let path = format!("{name}.yaml");
        let trials = ATTENTION.trials_of_file(Path::new(&path), text, Part::Own)?;
        // Prefill and decode of four types of caches, or records.
        let wanted = if name == "records" { 1 } else { 8 };
        if trials.len() != wanted {
            return Err(format!("{name}: {} trials, but {wanted} are expected", trials.len()).into());
        }
        for seed in (group..SEEDS).step_by(GROUPS) {
            runner.seed = Some(seed as u64);
            for trial in &trials {
                let row = runner.run(trial.as_ref(), shared.target).map_err(|e| e.to_string())?;
                green(&row).map_err(|e| {
                    format!(
                        "seed {seed}, {name}, {}: {}",
                        trial.configuration(),
                        e.message().unwrap_or_default()
                    )
                })?;
            }
        }
    }
    Ok(())
}
