//! Streams and events: all work is done in the order of the calls, so a stream is a name and an event is a time.

use std::collections::HashMap;

/// Streams, events and the virtual time.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    next: u64,
    /// Times of events, nanoseconds; `None` where nothing recorded it.
    events: HashMap<u64, Option<u64>>,
    /// Virtual time in nanoseconds.
    pub(crate) now: u64,
}

/// Handles of streams and events; real pointers are far from them.
const FIRST: u64 = 0x0058_0000_0000_0010;

impl Streams {
    /// A new stream.
    pub(crate) fn stream(&mut self) -> u64 {
        self.next += 16;
        FIRST + self.next
    }

    /// A new event.
    pub(crate) fn event(&mut self) -> u64 {
        let handle = self.stream();
        self.events.insert(handle, None);
        handle
    }

    /// Ends an event; false where there is none.
    pub(crate) fn forget(&mut self, event: u64) -> bool {
        self.events.remove(&event).is_some()
    }

    /// Records an event; false where there is none.
    pub(crate) fn record(&mut self, event: u64) -> bool {
        // Two records are never at the same time, so that nobody divides by zero.
        self.now += 1000;
        let now = self.now;
        self.events.get_mut(&event).map(|time| *time = Some(now)).is_some()
    }

    /// Whether there is such an event.
    pub(crate) fn knows(&self, event: u64) -> bool {
        self.events.contains_key(&event)
    }

    /// Milliseconds between two recorded events.
    pub(crate) fn between(&self, start: u64, end: u64) -> Option<f32> {
        let (start, end) = (self.events.get(&start).copied()??, self.events.get(&end).copied()??);
        Some((end as f64 - start as f64) as f32 / 1e6)
    }
}
