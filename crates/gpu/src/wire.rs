//! What parent and worker say to each other: a frame is two lengths, a JSON header and raw bytes.

use std::io::{self, Read, Write};

use emulator::device::{Failure, Launch};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::describe::Description;

/// A header longer than this is no header.
const HEADER_LIMIT: u32 = 16 << 20;
/// No buffer is larger than this: 256 GiB.
const PAYLOAD_LIMIT: u64 = 1 << 38;
/// What every frame begins with.
const MAGIC: [u8; 4] = *b"s12x";

/// What the parent asks; the payload is named where there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Who is there.
    Describe,
    /// Give everything back: buffers, modules, graphs.
    Reset,
    /// A buffer of `len` bytes; the payload is what it holds, poison without one.
    Allocate { len: u64 },
    /// The payload into the buffer, from byte `at` on.
    Write { buffer: usize, at: usize },
    /// The first byte from `at` on that differs from the payload.
    Differs { buffer: usize, at: usize },
    /// The bytes of a buffer.
    Read { buffer: usize },
    /// Poison into a buffer.
    Forget { buffer: usize },
    /// The payload is a cubin or PTX.
    Load,
    /// Runs launches as one stream.
    Run { launches: Vec<Launch> },
    /// Captures them.
    Capture { launches: Vec<Launch> },
    /// Replays a graph.
    Replay { graph: usize },
    /// A buffer of `len` random bytes.
    Random { len: u64, seed: u64, least: u8, most: u8 },
    /// Replays a graph often, with these buffers unwritten before each, and compares what they hold.
    Often { graph: usize, times: usize, fresh: Vec<usize> },
    /// Times launches, each behind another one.
    Time { launches: Vec<Launch>, before: Launch, warm_up: usize, samples: usize },
}

/// A kernel of a loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Offset and bytes of its parameters.
    pub parameters: Vec<(usize, usize)>,
    /// Registers of a thread.
    pub registers: i32,
    /// Bytes of a thread's local memory.
    pub local: i32,
    /// Bytes of static shared memory.
    pub shared: i32,
    /// Threads of a CTA at most.
    pub threads: i32,
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It is done.
    Done,
    /// Who is there.
    Described(Box<Description>),
    /// A buffer or a graph.
    Made(usize),
    /// The payload is the buffer's.
    Bytes,
    /// A module, its kernels, and what the driver said.
    Loaded { module: usize, entries: Vec<Entry> },
    /// Milliseconds between two events around the work.
    Ran { milliseconds: f32 },
    /// The first replay that stored something else, or the first byte that differs.
    Compared { differs: Option<usize> },
    /// Milliseconds of every sample of every launch.
    Timed(Vec<Vec<f32>>),
    /// It is not done.
    Refused(Refusal),
}

/// What kind of failure a worker reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// No driver, no such GPU, or it may not be used.
    Absent,
    /// The driver does not take the image, or the GPU lacks what is asked.
    Image,
    /// The launch cannot be made.
    Launch,
    /// The kernel wrote where it may not.
    Guard,
    /// The kernel broke its context.
    Crashed,
    /// It ran past the driver's own limit.
    TimedOut,
    /// The GPU is gone.
    Lost,
    /// We, or the driver, are wrong.
    Broken,
}

/// Why it is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// What kind.
    pub(super) kind: Kind,
    /// The story, with the name of the CUDA result.
    pub(super) what: String,
    /// Which of the launches.
    pub(super) launch: usize,
}

impl Refusal {
    /// As the device trait says it.
    pub(super) fn failure(self) -> Failure {
        match self.kind {
            Kind::Absent | Kind::Lost => Failure::DeviceLost(self.what),
            Kind::Image => Failure::Unsupported(self.what),
            Kind::Launch => Failure::Launch(self.what),
            Kind::Guard => Failure::Trap { rule: "out_of_bounds".to_owned(), what: self.what },
            Kind::Crashed => Failure::Crashed(self.what),
            Kind::TimedOut => Failure::TimedOut(self.what),
            Kind::Broken => Failure::Broken(self.what),
        }
    }

    /// Whether nothing more can be had of the worker.
    pub(super) const fn ends_worker(&self) -> bool {
        matches!(self.kind, Kind::Absent | Kind::Crashed | Kind::TimedOut | Kind::Lost)
    }
}

/// Writes one frame.
pub(super) fn send(to: &mut impl Write, header: &impl Serialize, payload: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    let mut front = Vec::with_capacity(16 + header.len());
    front.extend(MAGIC);
    front.extend(length.to_le_bytes());
    front.extend((payload.len() as u64).to_le_bytes());
    front.extend(header);
    to.write_all(&front)?;
    to.write_all(payload)?;
    to.flush()
}

/// Reads one frame. [`io::ErrorKind::InvalidData`] where it is none.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut front = [0; 16];
    from.read_exact(&mut front)?;
    let [a, b, c, d, rest @ ..] = front;
    let [e, f, g, h, length @ ..] = rest;
    let (header, payload) = (u32::from_le_bytes([e, f, g, h]), u64::from_le_bytes(length));
    if [a, b, c, d] != MAGIC || header > HEADER_LIMIT || payload > PAYLOAD_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame"));
    }
    let header = exactly(from, u64::from(header))?;
    let value = serde_json::from_slice(&header)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("its header: {error}")))?;
    Ok((value, exactly(from, payload)?))
}

/// Memory is taken as bytes come, not as a length promises.
fn exactly(from: &mut impl Read, len: u64) -> io::Result<Vec<u8>> {
    const STEP: u64 = 64 << 20;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < len {
        let (at, more) = (bytes.len(), (len - bytes.len() as u64).min(STEP));
        bytes.resize(at + usize::try_from(more).map_err(io::Error::other)?, 0);
        from.read_exact(&mut bytes[at..])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_what_is_none_is_refused() {
        let mut wire = Vec::new();
        send(&mut wire, &Request::Allocate { len: 3 }, &[1, 2, 3]).unwrap();
        send(&mut wire, &Request::Reset, &[]).unwrap();
        let mut from = wire.as_slice();
        assert_eq!(receive::<Request>(&mut from).unwrap(), (Request::Allocate { len: 3 }, vec![1, 2, 3]));
        assert_eq!(receive::<Request>(&mut from).unwrap(), (Request::Reset, vec![]));
        assert_eq!(receive::<Request>(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for cut in 0..20 {
            assert!(receive::<Request>(&mut &wire[..cut]).is_err(), "cut at {cut}");
        }
        for at in [0, 4, 7, 15, 17] {
            let mut bad = wire.clone();
            bad[at] ^= 0xFF;
            assert!(receive::<Request>(&mut bad.as_slice()).is_err(), "byte {at}");
        }
    }
}
