//! Progress on standard error: bars on a terminal, otherwise occasional lines; notices and warnings always.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::output::tell;
use crate::event::{Event, Sink};

/// The minimum time between two lines about the same work, if standard error is not a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// How long a command may be silent on a terminal.
const SILENT: Duration = Duration::from_secs(2);

/// What is shown of a command that tells nothing of its work: `None` once it has written something.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// A command that is waited for.
#[derive(Default)]
struct Waiting {
    spinner: Option<ProgressBar>,
}

/// Ends what is shown of a command that is waited for: it writes its results.
pub(super) fn speak() {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(spinner) = waiting.and_then(|waiting| waiting.spinner) {
        spinner.finish_and_clear();
    }
}

/// How often that is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// A piece of work that takes long.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    Fetch(String),
    Matrix,
    Trials,
    Functions,
}

/// The progress of a piece of work.
struct State {
    bar: Option<ProgressBar>,
    done: u64,
    length: u64,
    told: Instant,
}

/// Shows events to the user.
pub(super) struct Progress {
    /// Bars, if standard error is a terminal.
    bars: Option<MultiProgress>,
    running: Mutex<HashMap<Work, State>>,
}

const CELLS: &str = "{bar:30} {pos}/{len} (toolkit, target, arch)  {msg}";
const TRIALS: &str = "{bar:30} {pos}/{len} trials";
const FUNCTIONS: &str = "{bar:30} {pos}/{len} functions";
const BYTES: &str = "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec}  {msg}";

impl Progress {
    pub(super) fn new() -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { bars, running: Mutex::default() }
    }

    /// Shows on a terminal that the command is at work, once it has been silent for a while.
    pub(super) fn wait_for(&self, command: &'static str) {
        let Some(bars) = self.bars.clone() else { return };
        *WAITING.lock().unwrap_or_else(PoisonError::into_inner) = Some(Waiting::default());
        // Ends with the process, or in time with the embedded command.
        std::thread::spawn(move || {
            std::thread::sleep(SILENT);
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(waiting) = waiting.as_mut() else { return };
            let style = ProgressStyle::with_template("{spinner} {msg}: {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let spinner = ProgressBar::new_spinner().with_style(style).with_message(command);
            let spinner = bars.add(spinner.with_elapsed(SILENT));
            spinner.enable_steady_tick(TICK);
            waiting.spinner = Some(spinner);
        });
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Work, State>> {
        // A panic in another thread must not suppress later messages.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, work: Work, length: u64, template: &str, message: String) {
        let bar = self.bars.as_ref().map(|bars| {
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bars.add(ProgressBar::new(length).with_style(style).with_message(message))
        });
        self.running().insert(work, State { bar, done: 0, length, told: Instant::now() });
    }

    fn message(&self, work: &Work, message: String) {
        if let Some(bar) = self.running().get(work).and_then(|state| state.bar.clone()) {
            bar.set_message(message);
        }
    }

    /// Updates the amount done with `of`.
    fn step(&self, work: &Work, of: impl FnOnce(u64) -> u64) {
        let mut running = self.running();
        let Some(state) = running.get_mut(work) else { return };
        state.done = of(state.done);
        match &state.bar {
            Some(bar) => bar.set_position(state.done),
            None if state.told.elapsed() >= BETWEEN_LINES => {
                state.told = Instant::now();
                tell(&line(work, state.done, state.length));
            }
            None => {}
        }
    }

    fn end(&self, work: &Work) {
        if let Some(bar) = self.running().remove(work).and_then(|state| state.bar) {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| tell(text)),
            None => tell(text),
        }
    }
}

fn line(work: &Work, done: u64, length: u64) -> String {
    match work {
        Work::Fetch(what) => {
            format!("fetching {what}: {} of {} MB", done / 1_000_000, length.div_ceil(1_000_000))
        }
        Work::Matrix => format!("matrix: {done} of {length} (toolkit, target, arch)"),
        Work::Trials => format!("kernels: {done} of {length} trials"),
        Work::Functions => format!("all inputs: {done} of {length} functions"),
    }
}

impl Sink for Progress {
    fn emit(&self, event: Event) {
        match event {
            Event::FetchStarted { what, bytes } => {
                if self.bars.is_none() {
                    tell(&format!("fetching {what} ({} MB)", bytes.div_ceil(1_000_000)));
                }
                self.start(Work::Fetch(what.clone()), bytes, BYTES, what);
            }
            Event::FetchProgress { what, done } => self.step(&Work::Fetch(what), |_| done),
            Event::FetchFinished { what } => self.end(&Work::Fetch(what)),
            Event::MatrixStarted { pairs, cells } => {
                self.start(Work::Matrix, pairs as u64, CELLS, format!("{cells} cells"));
            }
            Event::PairFinished { pair } => {
                self.message(&Work::Matrix, pair);
                self.step(&Work::Matrix, |done| done + 1);
            }
            Event::SassStarted { instructions } => {
                self.message(&Work::Matrix, format!("naming {instructions} machine instructions"));
            }
            Event::MatrixFinished => self.end(&Work::Matrix),
            Event::TrialsStarted { trials } => self.start(Work::Trials, trials as u64, TRIALS, String::new()),
            Event::TrialFinished => self.step(&Work::Trials, |done| done + 1),
            Event::TrialsFinished => self.end(&Work::Trials),
            Event::FunctionsStarted { functions } => {
                self.start(Work::Functions, functions as u64, FUNCTIONS, String::new());
            }
            Event::FunctionFinished => self.step(&Work::Functions, |done| done + 1),
            Event::FunctionsFinished => self.end(&Work::Functions),
            Event::Warning { text } => self.say(&format!("warning: {text}")),
            Event::Problem { text } => self.say(&format!("error: {text}")),
            Event::Notice { text } => self.say(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_and_lines_say_how_far_it_is() {
        let progress = Progress { bars: None, running: Mutex::default() };
        progress.emit(Event::TrialsStarted { trials: 3 });
        progress.emit(Event::TrialFinished);
        progress.emit(Event::FetchStarted { what: "ptxas 13.5".to_owned(), bytes: 7 });
        let done = |work: &Work| progress.running().get(work).map(|s| (s.done, s.length));
        assert_eq!(done(&Work::Trials), Some((1, 3)));
        assert_eq!(done(&Work::Fetch("ptxas 13.5".to_owned())), Some((0, 7)));
        progress.emit(Event::TrialsFinished);
        assert_eq!(done(&Work::Trials), None);
        assert_eq!(line(&Work::Trials, 1, 3), "kernels: 1 of 3 trials");
        let fetch = Work::Fetch("ptxas 13.5".to_owned());
        assert_eq!(line(&fetch, 2_500_000, 4_000_001), "fetching ptxas 13.5: 2 of 5 MB");
    }
}
