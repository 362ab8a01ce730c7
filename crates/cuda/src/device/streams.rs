//! Streams, events and captures. All work runs in call order, so a stream is a name and an event is a time. Work submitted to a captured
//! stream becomes graph nodes, ordered by the streams and events.

use std::collections::{BTreeSet, HashMap};
use std::thread::{ThreadId, current};

use crate::device::contexts;
use crate::device::stream_attributes::StreamAttribute;
use crate::status::{Answer, Status};

/// `cudaStreamLegacy`, which is also denoted by 0.
const LEGACY: [u64; 2] = [0, 1];

/// The priority of the most urgent stream; that of the others is 0.
pub(crate) const HIGHEST_PRIORITY: i32 = -5;

/// Flag of a stream that does not synchronise with the legacy stream.
const NON_BLOCKING: u32 = 1;

/// The restrictions of a capture (`cudaStreamCaptureMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_number(number: u32) -> Result<Self, Status> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// An active capture.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    origin: u64,
    pub(crate) graph: u64,
    mode: Mode,
    thread: ThreadId,
    /// Whether the capture is invalidated and yields no graph.
    broken: bool,
    /// Each participating stream, with the nodes that its next work depends on.
    heads: HashMap<u64, Vec<u64>>,
    /// The node list returned by `cudaStreamGetCaptureInfo`, valid until the next call.
    pub(crate) shown: Vec<u64>,
}

impl Capture {
    pub(crate) fn heads(&self, stream: u64) -> Vec<u64> {
        self.heads.get(&stream).cloned().unwrap_or_default()
    }

    /// Makes the stream's next work depend on this node.
    pub(crate) fn advance(&mut self, stream: u64, node: u64) {
        self.heads.insert(stream, vec![node]);
    }

    /// Sets the dependencies of a stream's next work, or adds to them.
    pub(crate) fn set_heads(&mut self, stream: u64, nodes: &[u64], replace: bool) {
        let heads = self.heads.entry(stream).or_default();
        if replace {
            heads.clear();
        }
        heads.extend(nodes.iter().filter(|n| !heads.contains(n)).copied().collect::<Vec<_>>());
    }
}

/// A stream that the program has created.
#[derive(Debug, Clone, Copy)]
struct Stream {
    flags: u32,
    /// Stored and returned: all work runs in call order.
    priority: i32,
    gpu: u8,
}

#[derive(Debug, Default)]
struct Event {
    /// Virtual time in nanoseconds; `None` if the event was never recorded.
    time: Option<u64>,
    /// The capture that recorded it last, and the nodes that precede it.
    captured: Option<(u64, Vec<u64>)>,
    /// Whether it takes no time (`cudaEventDisableTiming`).
    untimed: bool,
}

/// The capture status of a stream (`cudaStreamCaptureStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaptureStatus {
    None = 0,
    Active = 1,
    Invalidated = 2,
}

/// All streams and events, and the virtual time.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    next: u64,
    captures_begun: u64,
    streams: HashMap<u64, Stream>,
    events: HashMap<u64, Event>,
    /// What was set for streams, but for their priority.
    attributes: HashMap<(u64, StreamAttribute), Vec<u8>>,
    captures: Vec<Capture>,
    /// The capture modes of threads (`cudaThreadExchangeStreamCaptureMode`).
    modes: HashMap<ThreadId, Mode>,
    /// Virtual time in nanoseconds.
    pub(crate) now: u64,
}

/// First handle of streams and events; far from real pointers.
const FIRST: u64 = 0x0058_0000_0000_0010;

impl Streams {
    fn handle(&mut self) -> u64 {
        self.next += 16;
        FIRST + self.next
    }

    /// Creates a stream of the current GPU.
    pub(crate) fn stream(&mut self, flags: u32, priority: i32) -> u64 {
        let handle = self.handle();
        let priority = priority.clamp(HIGHEST_PRIORITY, 0);
        self.streams.insert(handle, Stream { flags, priority, gpu: contexts::current_gpu() });
        handle
    }

    /// Destroys a stream, and the capture that began on it.
    pub(crate) fn end_stream(&mut self, stream: u64) -> Answer {
        self.streams.remove(&stream).ok_or(Status::INVALID_HANDLE)?;
        self.captures.retain(|c| c.origin != stream);
        self.attributes.retain(|(of, _), _| *of != stream);
        Ok(())
    }

    /// The bytes of an attribute of a stream.
    pub(crate) fn attribute(&self, stream: u64, attribute: StreamAttribute) -> Vec<u8> {
        if attribute == StreamAttribute::Priority {
            return self.priority_of(stream).to_le_bytes().to_vec();
        }
        self.attributes.get(&(stream, attribute)).cloned().unwrap_or_else(|| attribute.unset())
    }

    /// Sets an attribute of a stream.
    pub(crate) fn set_attribute(&mut self, stream: u64, attribute: StreamAttribute, value: &[u8]) -> Answer {
        attribute.check(value)?;
        match (attribute, value.first_chunk()) {
            (StreamAttribute::Priority, Some(bytes)) => {
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.priority = i32::from_le_bytes(*bytes).clamp(HIGHEST_PRIORITY, 0);
                }
            }
            _ => _ = self.attributes.insert((stream, attribute), value.to_vec()),
        }
        Ok(())
    }

    /// Gives a stream all attributes of another one.
    pub(crate) fn copy_attributes(&mut self, to: u64, from: u64) -> Answer {
        self.known(to)?;
        self.known(from)?;
        let priority = self.priority_of(from);
        if let Some(stream) = self.streams.get_mut(&to) {
            stream.priority = priority;
        }
        let of_from = self.attributes.iter().filter(|((stream, _), _)| *stream == from);
        let copied: Vec<_> =
            of_from.map(|((_, attribute), value)| ((to, *attribute), value.clone())).collect();
        self.attributes.retain(|(stream, _), _| *stream != to || to == from);
        self.attributes.extend(copied);
        Ok(())
    }

    /// Checks that a stream exists: one of the default streams (0 to 2), or one that the program has created and not destroyed.
    pub(crate) fn known(&self, stream: u64) -> Answer {
        if stream <= 2 || self.streams.contains_key(&stream) { Ok(()) } else { Err(Status::INVALID_HANDLE) }
    }

    /// The flags of a stream.
    pub(crate) fn flags_of(&self, stream: u64) -> u32 {
        self.streams.get(&stream).map_or(0, |stream| stream.flags)
    }

    /// The priority of a stream.
    pub(crate) fn priority_of(&self, stream: u64) -> i32 {
        self.streams.get(&stream).map_or(0, |stream| stream.priority)
    }

    /// The GPU of a stream; that of a default stream is the current one.
    pub(crate) fn gpu(&self, stream: u64) -> u8 {
        self.streams.get(&stream).map_or_else(contexts::current_gpu, |stream| stream.gpu)
    }

    /// Creates an event.
    pub(crate) fn event(&mut self, untimed: bool) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Event { untimed, ..Event::default() });
        handle
    }

    /// Checks that an event exists.
    pub(crate) fn known_event(&self, event: u64) -> Answer {
        if self.events.contains_key(&event) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Destroys an event.
    pub(crate) fn forget(&mut self, event: u64) -> Answer {
        self.events.remove(&event).map(drop).ok_or(Status::INVALID_HANDLE)
    }

    /// Records an event at the current virtual time.
    pub(crate) fn record(&mut self, event: u64) -> Answer {
        // No two records have the same time, so that programs do not divide by zero.
        self.now += 1000;
        let event = self.events.get_mut(&event).ok_or(Status::INVALID_HANDLE)?;
        (event.time, event.captured) = (Some(self.now), None);
        Ok(())
    }

    /// Checks an event. The work before it has always completed; an event recorded by an active capture, or an invalid one, is an error.
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
        let time = |event| {
            let event = self.events.get(&event).filter(|event| !event.untimed);
            event.and_then(|event| event.time).ok_or(Status::INVALID_HANDLE)
        };
        Ok((time(end)? as f64 - time(start)? as f64) as f32 / 1e6)
    }

    fn capture_of(&self, stream: u64) -> Option<usize> {
        self.captures.iter().position(|c| c.heads.contains_key(&stream))
    }

    /// Returns the capture that receives work submitted to a stream.
    ///
    /// # Errors
    /// If the stream does not exist, if the capture is invalidated, or for the legacy stream while a stream that synchronises with it is captured, which invalidates
    /// that capture.
    pub(crate) fn capturing(&mut self, stream: u64) -> Result<Option<&mut Capture>, Status> {
        self.known(stream)?;
        if self.captures.is_empty() {
            return Ok(None);
        }
        if let Some(at) = self.capture_of(stream) {
            let capture = &mut self.captures[at];
            return if capture.broken { Err(Status::CAPTURE_INVALIDATED) } else { Ok(Some(capture)) };
        }
        if LEGACY.contains(&stream) {
            let streams = &self.streams;
            let waits = |s: &u64| streams.get(s).is_some_and(|stream| stream.flags & NON_BLOCKING == 0);
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

    /// Checks that a call that may block is allowed; on a captured stream it is not, and it invalidates the capture.
    pub(crate) fn may_wait(&mut self, stream: u64) -> Answer {
        match self.capturing(stream)? {
            None => Ok(()),
            Some(capture) => {
                capture.broken = true;
                Err(Status::CAPTURE_UNSUPPORTED)
            }
        }
    }

    /// Checks that a call that may implicitly use the legacy stream is allowed; captures in global and thread-local mode
    /// forbid it and are invalidated.
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

    /// Sets a thread's capture mode and returns the previous one.
    pub(crate) fn exchange(&mut self, mode: u32) -> Result<u32, Status> {
        let before = self.modes.insert(current().id(), Mode::from_number(mode)?).unwrap_or(Mode::Global);
        Ok(before as u32)
    }

    /// Begins a capture into a graph, after the nodes `heads`.
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

    /// Ends a capture and returns its graph. `reached` returns given nodes and all nodes they depend on.
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

    /// The capture status of a stream, and its capture.
    pub(crate) fn status(&mut self, stream: u64) -> (CaptureStatus, Option<&mut Capture>) {
        match self.capture_of(stream) {
            None => (CaptureStatus::None, None),
            Some(at) if self.captures[at].broken => (CaptureStatus::Invalidated, None),
            Some(at) => (CaptureStatus::Active, Some(&mut self.captures[at])),
        }
    }

    /// Records an event on a stream: during a capture, it marks the preceding nodes. Returns false if the stream is not captured.
    pub(crate) fn mark(&mut self, event: u64, stream: u64) -> Result<bool, Status> {
        if !self.events.contains_key(&event) {
            return Err(Status::INVALID_HANDLE);
        }
        let Some(capture) = self.capturing(stream)? else { return Ok(false) };
        let captured = Some((capture.id, capture.heads(stream)));
        if let Some(event) = self.events.get_mut(&event) {
            (event.time, event.captured) = (None, captured);
        }
        Ok(true)
    }

    /// Makes a stream wait for an event; an event recorded by a capture makes the stream join that capture.
    pub(crate) fn wait(&mut self, stream: u64, event: u64) -> Answer {
        let captured = self.events.get(&event).ok_or(Status::INVALID_HANDLE)?.captured.clone();
        let own = self.capturing(stream)?.map(|c| c.id);
        let other = captured.and_then(|(id, nodes)| {
            self.captures.iter_mut().find(|c| c.id == id).map(|capture| (capture, nodes))
        });
        match (own, other) {
            (None, None) => Ok(()),
            // Work before the capture is not part of its graph.
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
        let (a, b, fork, join) = (s.stream(0, 0), s.stream(0, 0), s.event(false), s.event(false));
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
        let (a, b, c, event) = (s.stream(0, 0), s.stream(NON_BLOCKING, 0), s.stream(0, 0), s.event(false));
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
