//! Streams, events and captures. All work is done in the order of the calls, so a stream is a name and an event is a time; what a capture
//! takes instead becomes nodes of a graph, ordered as the streams and events order it.

use std::collections::{BTreeSet, HashMap};
use std::thread::{ThreadId, current};

use crate::api::Answer;
use crate::status::Status;

/// `cudaStreamLegacy`, which 0 names, too.
const LEGACY: [u64; 2] = [0, 1];

/// Flag of a stream that the legacy stream does not wait for.
const NON_BLOCKING: u32 = 1;

/// What a capture forbids (`cudaStreamCaptureMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn of(number: u32) -> Result<Self, Status> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// A capture that has begun.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    origin: u64,
    pub(crate) graph: u64,
    mode: Mode,
    thread: ThreadId,
    /// Why no graph comes of it.
    broken: bool,
    /// Each stream that takes part, and the nodes that its next work waits for.
    heads: HashMap<u64, Vec<u64>>,
    /// What `cudaStreamGetCaptureInfo` shows until the next call.
    pub(crate) shown: Vec<u64>,
}

impl Capture {
    pub(crate) fn heads(&self, stream: u64) -> Vec<u64> {
        self.heads.get(&stream).cloned().unwrap_or_default()
    }

    /// A stream's next work waits for this node.
    pub(crate) fn advance(&mut self, stream: u64, node: u64) {
        self.heads.insert(stream, vec![node]);
    }

    /// Replaces what a stream's next work waits for, or adds to it.
    pub(crate) fn set_heads(&mut self, stream: u64, nodes: &[u64], replace: bool) {
        let heads = self.heads.entry(stream).or_default();
        if replace {
            heads.clear();
        }
        heads.extend(nodes.iter().filter(|n| !heads.contains(n)).copied().collect::<Vec<_>>());
    }
}

#[derive(Debug, Default)]
struct Event {
    /// Virtual nanoseconds; `None` where nothing recorded it.
    time: Option<u64>,
    /// The capture that recorded it last, and the nodes in front of it.
    captured: Option<(u64, Vec<u64>)>,
}

/// What a stream does in a capture (`cudaStreamCaptureStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaptureStatus {
    None = 0,
    Active = 1,
    Invalidated = 2,
}

/// Streams, events and the virtual time.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    next: u64,
    captures_begun: u64,
    flags: HashMap<u64, u32>,
    events: HashMap<u64, Event>,
    captures: Vec<Capture>,
    /// Threads that let unsafe calls through (`cudaThreadExchangeStreamCaptureMode`).
    modes: HashMap<ThreadId, Mode>,
    /// Virtual time in nanoseconds.
    pub(crate) now: u64,
}

/// Handles of streams and events; real pointers are far from them.
const FIRST: u64 = 0x0058_0000_0000_0010;

impl Streams {
    fn handle(&mut self) -> u64 {
        self.next += 16;
        FIRST + self.next
    }

    /// A new stream.
    pub(crate) fn stream(&mut self, flags: u32) -> u64 {
        let handle = self.handle();
        self.flags.insert(handle, flags);
        handle
    }

    /// Ends a stream, and the capture that began on it.
    pub(crate) fn end_stream(&mut self, stream: u64) -> Answer {
        self.flags.remove(&stream).ok_or(Status::INVALID_HANDLE)?;
        self.captures.retain(|c| c.origin != stream);
        Ok(())
    }

    /// A stream's flags.
    pub(crate) fn flags_of(&self, stream: u64) -> u32 {
        self.flags.get(&stream).copied().unwrap_or(0)
    }

    /// A new event.
    pub(crate) fn event(&mut self) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Event::default());
        handle
    }

    /// Ends an event.
    pub(crate) fn forget(&mut self, event: u64) -> Answer {
        self.events.remove(&event).map(drop).ok_or(Status::INVALID_HANDLE)
    }

    /// Records an event at the virtual time.
    pub(crate) fn record(&mut self, event: u64) -> Answer {
        // Two records are never at the same time, so that nobody divides by zero.
        self.now += 1000;
        let event = self.events.get_mut(&event).ok_or(Status::INVALID_HANDLE)?;
        *event = Event { time: Some(self.now), captured: None };
        Ok(())
    }

    /// Whether the work in front of an event has ended, which it always has: an error for one that a capture recorded, or that is none.
    pub(crate) fn ended(&self, event: u64) -> Answer {
        match self.events.get(&event) {
            None => Err(Status::INVALID_HANDLE),
            Some(Event { captured: Some((id, _)), .. }) if self.captures.iter().any(|c| c.id == *id) => {
                Err(Status::CAPTURED_EVENT)
            }
            Some(_) => Ok(()),
        }
    }

    /// Milliseconds between two recorded events.
    pub(crate) fn between(&self, start: u64, end: u64) -> Result<f32, Status> {
        let time = |event| self.events.get(&event).and_then(|e| e.time).ok_or(Status::INVALID_HANDLE);
        Ok((time(end)? as f64 - time(start)? as f64) as f32 / 1e6)
    }

    fn capture_of(&self, stream: u64) -> Option<usize> {
        self.captures.iter().position(|c| c.heads.contains_key(&stream))
    }

    /// The capture that takes what is submitted to a stream.
    ///
    /// # Errors
    /// For a capture that is broken, and for the legacy stream while a stream that it waits for is captured: that breaks the capture.
    pub(crate) fn capturing(&mut self, stream: u64) -> Result<Option<&mut Capture>, Status> {
        if self.captures.is_empty() {
            return Ok(None);
        }
        if let Some(at) = self.capture_of(stream) {
            let capture = &mut self.captures[at];
            return if capture.broken { Err(Status::CAPTURE_INVALIDATED) } else { Ok(Some(capture)) };
        }
        if LEGACY.contains(&stream) {
            let flags = &self.flags;
            let waits = |s: &u64| flags.get(s).is_some_and(|f| f & NON_BLOCKING == 0);
            let mut implicit = false;
            for capture in self.captures.iter_mut().filter(|c| c.heads.keys().any(waits)) {
                (capture.broken, implicit) = (true, true);
            }
            if implicit {
                return Err(Status::CAPTURE_IMPLICIT);
            }
        }
        Ok(None)
    }

    /// Whether a call that waits, or may wait, is allowed: not for a captured stream.
    pub(crate) fn may_wait(&mut self, stream: u64) -> Answer {
        match self.capturing(stream)? {
            None => Ok(()),
            Some(capture) => {
                capture.broken = true;
                Err(Status::CAPTURE_UNSUPPORTED)
            }
        }
    }

    /// Whether a call that may use the legacy stream behind the program's back is allowed: captures in the modes global and thread-local
    /// forbid it.
    pub(crate) fn unsafe_call(&mut self) -> Answer {
        if self.captures.is_empty() {
            return Ok(());
        }
        let thread = current().id();
        if self.modes.get(&thread) == Some(&Mode::Relaxed) {
            return Ok(());
        }
        let local = self.modes.get(&thread) == Some(&Mode::ThreadLocal);
        let forbids = |c: &&mut Capture| match c.mode {
            Mode::Relaxed => false,
            Mode::ThreadLocal => c.thread == thread,
            Mode::Global => !local || c.thread == thread,
        };
        let mut forbidden = false;
        for capture in self.captures.iter_mut().filter(forbids) {
            (capture.broken, forbidden) = (true, true);
        }
        if forbidden { Err(Status::CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// A thread's mode for unsafe calls; the one that it had.
    pub(crate) fn exchange(&mut self, mode: u32) -> Result<u32, Status> {
        let before = self.modes.insert(current().id(), Mode::of(mode)?).unwrap_or(Mode::Global);
        Ok(before as u32)
    }

    /// Begins a capture into a graph, behind `heads`.
    pub(crate) fn begin(&mut self, stream: u64, mode: Mode, graph: u64, heads: Vec<u64>) -> Answer {
        if LEGACY.contains(&stream) {
            return Err(Status::CAPTURE_UNSUPPORTED);
        }
        if self.capture_of(stream).is_some() {
            return Err(Status::ILLEGAL_STATE);
        }
        self.captures_begun += 1;
        self.captures.push(Capture {
            id: self.captures_begun,
            origin: stream,
            graph,
            mode,
            thread: current().id(),
            broken: false,
            heads: HashMap::from([(stream, heads)]),
            shown: Vec::new(),
        });
        Ok(())
    }

    /// Ends a capture; its graph. `reached` gives the nodes that the origin's last work waits for, itself included.
    pub(crate) fn end(
        &mut self,
        stream: u64,
        reached: impl Fn(&[u64]) -> BTreeSet<u64>,
    ) -> Result<u64, Status> {
        let at = self.capture_of(stream).ok_or(Status::ILLEGAL_STATE)?;
        let capture = &self.captures[at];
        if capture.origin != stream {
            return Err(Status::CAPTURE_UNMATCHED);
        }
        if capture.mode != Mode::Relaxed && capture.thread != current().id() {
            return Err(Status::CAPTURE_WRONG_THREAD);
        }
        let capture = self.captures.remove(at);
        if capture.broken {
            return Err(Status::CAPTURE_INVALIDATED);
        }
        let joined = reached(&capture.heads(stream));
        if capture.heads.values().flatten().any(|node| !joined.contains(node)) {
            return Err(Status::CAPTURE_UNJOINED);
        }
        Ok(capture.graph)
    }

    /// What a stream does in a capture, and the capture.
    pub(crate) fn status(&mut self, stream: u64) -> (CaptureStatus, Option<&mut Capture>) {
        match self.capture_of(stream) {
            None => (CaptureStatus::None, None),
            Some(at) if self.captures[at].broken => (CaptureStatus::Invalidated, None),
            Some(at) => (CaptureStatus::Active, Some(&mut self.captures[at])),
        }
    }

    /// An event is recorded on a stream: in a capture it marks the nodes so far. False where the stream is not captured.
    pub(crate) fn mark(&mut self, event: u64, stream: u64) -> Result<bool, Status> {
        if !self.events.contains_key(&event) {
            return Err(Status::INVALID_HANDLE);
        }
        let Some(capture) = self.capturing(stream)? else { return Ok(false) };
        let captured = Some((capture.id, capture.heads(stream)));
        self.events.insert(event, Event { time: None, captured });
        Ok(true)
    }

    /// A stream waits for an event: one that a capture recorded lets the stream join that capture.
    pub(crate) fn wait(&mut self, stream: u64, event: u64) -> Answer {
        let captured = self.events.get(&event).ok_or(Status::INVALID_HANDLE)?.captured.clone();
        let own = self.capturing(stream)?.map(|c| c.id);
        let other = captured.and_then(|(id, nodes)| {
            self.captures.iter_mut().find(|c| c.id == id).map(|capture| (capture, nodes))
        });
        match (own, other) {
            (None, None) => Ok(()),
            // Work in front of the capture is no part of its graph.
            (Some(_), None) => self.break_capture(stream, Status::CAPTURE_ISOLATION),
            (Some(own), Some((capture, _))) if own != capture.id => {
                capture.broken = true;
                self.break_capture(stream, Status::CAPTURE_MERGE)
            }
            (_, Some((capture, _))) if capture.broken => Err(Status::CAPTURE_INVALIDATED),
            (None, Some(_)) if LEGACY.contains(&stream) => Err(Status::CAPTURE_IMPLICIT),
            (_, Some((capture, nodes))) => {
                capture.set_heads(stream, &nodes, false);
                Ok(())
            }
        }
    }

    fn break_capture(&mut self, stream: u64, why: Status) -> Answer {
        if let Some(at) = self.capture_of(stream) {
            self.captures[at].broken = true;
        }
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: &[u64]) -> BTreeSet<u64> {
        (0..100).collect()
    }

    #[test]
    fn streams_fork_and_join_by_events() {
        let mut s = Streams::default();
        let (a, b, fork, join) = (s.stream(0), s.stream(0), s.event(), s.event());
        s.begin(a, Mode::Global, 7, Vec::new()).unwrap();
        s.capturing(a).unwrap().unwrap().advance(a, 1);
        assert!(s.mark(fork, a).unwrap());
        assert_eq!(s.ended(fork), Err(Status::CAPTURED_EVENT));
        s.wait(b, fork).unwrap();
        assert_eq!(s.capturing(b).unwrap().unwrap().heads(b), [1]);
        s.capturing(b).unwrap().unwrap().advance(b, 2);
        s.capturing(a).unwrap().unwrap().advance(a, 3);
        assert_eq!(s.end(b, all), Err(Status::CAPTURE_UNMATCHED));
        s.mark(join, b).unwrap();
        s.wait(a, join).unwrap();
        assert_eq!(s.capturing(a).unwrap().unwrap().heads(a), [3, 2]);
        assert_eq!(s.end(a, all), Ok(7));
        assert!(s.capturing(b).unwrap().is_none());
    }

    #[test]
    fn what_breaks_a_capture_says_how() {
        let mut s = Streams::default();
        let (a, b, c, event) = (s.stream(0), s.stream(NON_BLOCKING), s.stream(0), s.event());
        let begin = |s: &mut Streams, stream| s.begin(stream, Mode::Global, 7, Vec::new()).unwrap();
        assert_eq!(s.begin(0, Mode::Global, 7, Vec::new()), Err(Status::CAPTURE_UNSUPPORTED));
        begin(&mut s, a);
        s.capturing(a).unwrap().unwrap().advance(a, 1);
        assert_eq!(s.end(a, |_| BTreeSet::new()), Err(Status::CAPTURE_UNJOINED));
        begin(&mut s, a);
        assert_eq!(s.may_wait(a), Err(Status::CAPTURE_UNSUPPORTED));
        assert_eq!(s.end(a, all), Err(Status::CAPTURE_INVALIDATED));
        begin(&mut s, a);
        assert_eq!(s.capturing(0).err(), Some(Status::CAPTURE_IMPLICIT));
        assert_eq!(s.end(a, all), Err(Status::CAPTURE_INVALIDATED));
        begin(&mut s, b);
        assert!(s.capturing(0).unwrap().is_none());
        s.record(event).unwrap();
        assert_eq!(s.wait(b, event), Err(Status::CAPTURE_ISOLATION));
        assert_eq!(s.end(b, all), Err(Status::CAPTURE_INVALIDATED));
        begin(&mut s, a);
        begin(&mut s, c);
        s.mark(event, a).unwrap();
        assert_eq!(s.wait(c, event), Err(Status::CAPTURE_MERGE));
        s.end_stream(a).unwrap();
        s.end_stream(c).unwrap();
        begin(&mut s, b);
        assert_eq!(s.exchange(2), Ok(0));
        assert_eq!(s.unsafe_call(), Ok(()));
        assert_eq!(s.exchange(0), Ok(2));
        assert_eq!(s.unsafe_call(), Err(Status::CAPTURE_UNSUPPORTED));
    }
}
