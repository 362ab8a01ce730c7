//! What the environment demands of each launch: its limits, and its trials.

use std::io::IsTerminal as _;
use std::time::Duration;

use emulator::events;
use emulator::model_of;
use emulator::trials::{Plan, Rules};
use numerics::tensor_core::Model;

use emulator::gpus::Gpu;

/// What bounds a launch, and what it finds in fresh memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The fill byte of fresh memory and of registers that nothing has written.
    pub(crate) poison: u8,
    /// The limit on warp instructions; the emulator's if `None`.
    pub(crate) fuel: Option<u64>,
    pub(crate) time: Option<Duration>,
    /// Whether a person may wait for a launch at a terminal.
    pub(crate) terminal: bool,
}

impl Limits {
    pub(crate) fn of_environment() -> Self {
        fn read<T: std::str::FromStr>(name: &str) -> Option<T> {
            std::env::var(name).ok()?.parse().ok()
        }
        Self {
            poison: read(events::POISON).unwrap_or(0),
            fuel: read(events::FUEL),
            time: read(events::TIME_LIMIT).and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok()),
            terminal: std::io::stderr().is_terminal(),
        }
    }
}

/// The trials of each launch, as the environment requires.
pub(crate) fn plan(gpu: &Gpu, limits: &Limits) -> Plan {
    let text = |name: &str| std::env::var(name).ok();
    let rules = text(events::RULES).and_then(|word| Rules::parse(&word)).unwrap_or_default();
    let model = text(events::MODEL).and_then(|name| Model::parse(&name));
    Plan {
        rules,
        // A race leaves memory as usable as on a GPU: the report lists all of them, and the program goes on.
        keep_going: true,
        strict: text(events::STRICT).is_some(),
        require_equal: text(events::REQUIRE_EQUAL).is_some(),
        schedules: text(events::SCHEDULES).and_then(|n| n.parse().ok()),
        first_filling: limits.poison,
        fuel: limits.fuel.unwrap_or(Plan::default().fuel),
        // What matters is what the host reads.
        results_are_read: false,
        shift_shared: false,
        model: Some(model.unwrap_or_else(|| model_of(gpu.arch()))),
        // Kept, because querying the system costs more than a small launch.
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..Plan::default()
    }
}
