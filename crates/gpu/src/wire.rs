//! The protocol between parent and worker. A frame is a magic number, two lengths, a JSON header and raw bytes.

use std::io::{self, Read, Write};

use emulator::device::{Failure, Launch};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::describe::Description;

/// The longest valid header.
const HEADER_LIMIT: u32 = 16 << 20;
/// The longest valid payload: 256 GiB.
const PAYLOAD_LIMIT: u64 = 1 << 38;
/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"s12x";

/// A request of the parent. A frame has a payload only where the variant names one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Describes the GPU.
    Describe,
    /// Releases all buffers, modules and graphs.
    Reset,
    /// Allocates a buffer of `len` bytes and fills it with the payload, or with poison if there is none.
    Allocate { len: u64 },
    /// Places a buffer of `len` bytes at an address, without guard zones, and fills it like [`Request::Allocate`].
    Place { address: u64, len: u64 },
    /// The address of a buffer.
    Address { buffer: usize },
    /// Writes the payload to the buffer, starting at byte `at`.
    Write { buffer: usize, at: usize },
    /// Finds the first byte, from `at` on, that differs from the payload.
    Differs { buffer: usize, at: usize },
    /// Reads a buffer.
    Read { buffer: usize },
    /// Fills a buffer with poison.
    Forget { buffer: usize },
    /// Loads the payload, a cubin or PTX.
    Load,
    /// Runs launches in one stream.
    Run { launches: Vec<Launch> },
    /// Captures launches as a graph.
    Capture { launches: Vec<Launch> },
    /// Replays a graph.
    Replay { graph: usize },
    /// Allocates a buffer of `len` random bytes from `least` to `most`.
    Random { len: u64, seed: u64, least: u8, most: u8 },
    /// Replays a graph `times` times. Before each replay it poisons the buffers of `fresh`; after each it compares their contents.
    Often { graph: usize, times: usize, fresh: Vec<usize> },
    /// Times launches, each queued after `before`.
    Time { launches: Vec<Launch>, before: Launch, warm_up: usize, samples: usize },
}

/// A kernel of a loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Offset and size of each parameter in bytes.
    pub parameters: Vec<(usize, usize)>,
    /// Registers per thread.
    pub registers: i32,
    /// Bytes of local memory per thread.
    pub local: i32,
    /// Bytes of static shared memory.
    pub shared: i32,
    /// Most threads per CTA.
    pub threads: i32,
}

/// A reply of the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The request succeeded and has no result.
    Done,
    /// The description of the GPU.
    Described(Box<Description>),
    /// The number of a new buffer or graph.
    Made(usize),
    /// The address of a buffer.
    At(u64),
    /// The payload is the buffer's contents.
    Bytes,
    /// A module and its kernels.
    Loaded { module: usize, entries: Vec<Entry> },
    /// Milliseconds between the two events around the work.
    Ran { milliseconds: f32 },
    /// The first replay with different contents (from 1), or the first differing byte; `None` if there is none.
    Compared { differs: Option<usize> },
    /// Milliseconds of every sample of every launch.
    Timed(Vec<Vec<f32>>),
    /// The request failed.
    Refused(Refusal),
}

/// The kind of failure that a worker reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// There is no driver or no such GPU, or the GPU may not be used.
    Absent,
    /// The driver rejects the image, or the GPU lacks a required feature.
    Image,
    /// The launch is invalid.
    Launch,
    /// The kernel wrote to a guard zone.
    Guard,
    /// The kernel corrupted its context.
    Crashed,
    /// The kernel exceeded the driver's time limit.
    TimedOut,
    /// The GPU is lost.
    Lost,
    /// This tool or the driver is at fault.
    Broken,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// The kind of failure.
    pub(super) kind: Kind,
    /// The message, with the name of the CUDA result.
    pub(super) what: String,
    /// The index of the launch that failed.
    pub(super) launch: usize,
    /// The number of GPUs that the driver finds, if this one cannot be opened; 0 if that is not known.
    pub(super) gpus: usize,
}

impl Refusal {
    /// Converts it to a failure of the device trait.
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

    /// Whether the worker cannot serve further requests.
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

/// Reads one frame; [`io::ErrorKind::InvalidData`] if the bytes are not a frame.
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

/// Reads `len` bytes. The buffer grows as bytes arrive, so a wrong length does not allocate much memory.
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
