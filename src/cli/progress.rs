//! Progress on standard error, when that is a terminal; notices and warnings always.

use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};

use crate::event::{Event, Sink};

/// Shows events to a person.
pub(super) struct Progress {
    shown: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: std::io::stderr().is_terminal(), bar: Mutex::new(None) }
    }

    fn start(&self, length: u64, template: &str, message: String) {
        if !self.shown {
            return;
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(length).with_style(style).with_message(message);
        self.with(|slot| {
            if let Some(old) = slot.replace(bar) {
                old.finish_and_clear();
            }
        });
    }

    fn with(&self, change: impl FnOnce(&mut Option<ProgressBar>)) {
        // A panic elsewhere must not silence the rest.
        change(&mut self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    fn end(&self) {
        self.with(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }

    fn say(&self, text: &str) {
        self.with(|slot| match slot {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        });
    }
}

const CELLS: &str = "{bar:30} {pos}/{len} (toolkit, target, arch)  {msg}";
const BYTES: &str = "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec}  {msg}";

impl Sink for Progress {
    fn emit(&self, event: Event) {
        match event {
            Event::FetchStarted { what, bytes } => {
                if !self.shown {
                    eprintln!("fetching {what} ({} MB)", bytes.div_ceil(1_000_000));
                }
                self.start(bytes, BYTES, what);
            }
            Event::FetchProgress { done, .. } => self.with(|slot| {
                if let Some(bar) = slot {
                    bar.set_position(done);
                }
            }),
            Event::FetchFinished { .. } | Event::MatrixFinished => self.end(),
            Event::MatrixStarted { pairs, cells } => {
                self.start(pairs as u64, CELLS, format!("{cells} cells"))
            }
            Event::PairFinished { pair } => self.with(|slot| {
                if let Some(bar) = slot {
                    bar.set_message(pair);
                    bar.inc(1);
                }
            }),
            Event::SassStarted { instructions } => self.with(|slot| {
                if let Some(bar) = slot {
                    bar.set_message(format!("naming {instructions} machine instructions"));
                }
            }),
            Event::Warning { text } => self.say(&format!("warning: {text}")),
            Event::Problem { text } => self.say(&format!("error: {text}")),
            Event::Notice { text } => self.say(&text),
        }
    }
}
