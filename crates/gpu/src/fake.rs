//! A GPU simulated in host memory, for worker tests on machines without one. Each of its kernels ends in one particular way.

use std::io;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use emulator::device::TensorMapSpec;

use super::backend::{Backend, Prepared, Value};
use super::describe::Description;
use super::status::CudaError;
use super::wire::Entry;

/// The address of its memory.
const BASE: u64 = 0x7000_0000_0000;

/// The kernels of every module; each takes one address.
const KERNELS: [&str; 7] = ["increment", "hang", "die", "overrun", "illegal_address", "ecc", "drift"];

/// A GPU of host memory.
#[derive(Default)]
pub(super) struct Fake {
    memory: Vec<u8>,
    graphs: Vec<Vec<(usize, u64)>>,
    /// A counter; `drift` stores a quarter of it, so that the stored value changes every four runs.
    drift: u8,
    /// Whether allocations fail.
    pub(super) full: bool,
    /// The error that every later call returns.
    broken: Option<(u32, &'static str)>,
}

/// Opens the device for `plan`: a working GPU, or a worker that misbehaves before it serves.
pub(super) fn open(plan: &str, socket: &mut UnixStream) -> io::Result<Fake> {
    match plan {
        "garbage" => {
            socket.write_all(b"this is no frame, whatever was asked")?;
            std::thread::sleep(Duration::from_secs(600));
        }
        "mute" => std::thread::sleep(Duration::from_secs(600)),
        "exit" => return Err(io::Error::other("planted: it gives up")),
        _ => {}
    }
    Ok(Fake::default())
}

/// Returns why the device of `plan` cannot be opened, and the number of devices that the driver finds.
pub(super) fn unusable(plan: &str) -> Option<(CudaError, usize)> {
    let gpus = plan.strip_prefix("busy:")?.parse().ok()?;
    Some((fail(46, "CUDA_ERROR_DEVICE_UNAVAILABLE"), gpus))
}

fn fail(code: u32, name: &str) -> CudaError {
    CudaError { code, name: name.to_owned(), call: "cuStreamSynchronize", detail: String::new() }
}

impl Fake {
    fn healthy(&self) -> Result<(), CudaError> {
        self.broken.map_or(Ok(()), |(code, name)| Err(fail(code, name)))
    }

    fn range(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], CudaError> {
        self.healthy()?;
        let at = address.checked_sub(BASE).and_then(|at| usize::try_from(at).ok());
        let place = at.and_then(|at| self.memory.get_mut(at..at + bytes));
        place.ok_or_else(|| fail(1, "CUDA_ERROR_INVALID_VALUE"))
    }

    fn execute(&mut self, kernel: usize, address: u64) -> Result<(), CudaError> {
        match KERNELS.get(kernel).copied() {
            Some("increment") => {
                let place = self.range(address, 1)?;
                place[0] = place[0].wrapping_add(1);
            }
            Some("drift") => {
                self.drift = self.drift.wrapping_add(1);
                let stored = self.drift / 4;
                self.range(address, 1)?[0] = stored;
            }
            Some("hang") => std::thread::sleep(Duration::from_secs(600)),
            Some("die") => std::process::abort(),
            // One byte past a 64-byte buffer.
            Some("overrun") => self.range(address + 64, 1)?[0] = 0,
            Some("illegal_address") => self.broken = Some((700, "CUDA_ERROR_ILLEGAL_ADDRESS")),
            Some("ecc") => self.broken = Some((214, "CUDA_ERROR_ECC_UNCORRECTABLE")),
            _ => return Err(fail(500, "CUDA_ERROR_NOT_FOUND")),
        }
        Ok(())
    }
}

fn address(launch: &Prepared) -> u64 {
    let bytes = match launch.values.first() {
        Some(Value::Bytes(bytes)) => bytes.as_slice().try_into().unwrap_or_default(),
        _ => [0; 8],
    };
    u64::from_le_bytes(bytes)
}

impl Backend for Fake {
    fn describe(&mut self) -> Result<Description, CudaError> {
        Ok(Description {
            gpus: 1,
            ordinal: 0,
            name: "fake".to_owned(),
            capability: (9, 0),
            cuda: "13.0".to_owned(),
            driver: String::new(),
            memory: 1 << 30,
            free: 1 << 30,
            multiprocessors: 1,
            shared_optin: 232_448,
            shared_multiprocessor: 233_472,
            shared_reserved: 1024,
            registers: 65_536,
            threads: 1024,
            threads_multiprocessor: 2048,
            l2: 1 << 20,
            attributes: Vec::new(),
        })
    }

    fn allocate(&mut self, bytes: usize) -> Result<u64, CudaError> {
        self.healthy()?;
        if self.full || bytes > 1 << 30 {
            return Err(fail(2, "CUDA_ERROR_OUT_OF_MEMORY"));
        }
        let at = self.memory.len().next_multiple_of(512);
        self.memory.resize(at + bytes, 0);
        Ok(BASE + at as u64)
    }

    fn place(&mut self, address: u64, bytes: usize) -> Result<(), CudaError> {
        self.range(address, bytes).map(|_| ())
    }

    fn release(&mut self, _address: u64) -> Result<(), CudaError> {
        self.healthy()
    }

    fn fill(&mut self, address: u64, byte: u8, bytes: usize) -> Result<(), CudaError> {
        self.range(address, bytes)?.fill(byte);
        Ok(())
    }

    fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError> {
        let source = self.range(from, bytes)?.to_vec();
        self.write(to, &source)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), CudaError> {
        self.range(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        bytes.copy_from_slice(self.range(address, bytes.len())?);
        Ok(())
    }

    fn load(&mut self, image: &[u8]) -> Result<(usize, Vec<Entry>), CudaError> {
        self.healthy()?;
        if image.starts_with(b"too new") {
            return Err(fail(222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"));
        }
        let entry = |name: &&str| Entry {
            name: (*name).to_owned(),
            parameters: vec![(0, 8)],
            registers: 8,
            local: 0,
            shared: 0,
            threads: 1024,
        };
        Ok((0, KERNELS.iter().map(entry).collect()))
    }

    fn tensor_map(&mut self, _address: u64, _spec: &TensorMapSpec) -> Result<[u64; 16], CudaError> {
        self.healthy().map(|()| [0; 16])
    }

    fn launch(&mut self, launch: &Prepared) -> Result<(), CudaError> {
        self.healthy()?;
        self.execute(launch.kernel.1, address(launch))
    }

    fn synchronize(&mut self) -> Result<(), CudaError> {
        self.healthy()
    }

    fn mark(&mut self, _which: usize) -> Result<(), CudaError> {
        Ok(())
    }

    fn elapsed(&mut self) -> Result<f32, CudaError> {
        self.healthy().map(|()| 0.0)
    }

    fn capture(&mut self, launches: &[Prepared]) -> Result<usize, CudaError> {
        self.healthy()?;
        self.graphs.push(launches.iter().map(|l| (l.kernel.1, address(l))).collect());
        Ok(self.graphs.len() - 1)
    }

    fn replay(&mut self, graph: usize) -> Result<(), CudaError> {
        self.healthy()?;
        let steps = self.graphs.get(graph).cloned().ok_or_else(|| fail(1, "CUDA_ERROR_INVALID_VALUE"))?;
        steps.into_iter().try_for_each(|(kernel, address)| self.execute(kernel, address))
    }

    fn unload(&mut self) -> Result<(), CudaError> {
        self.healthy()?;
        self.graphs.clear();
        Ok(())
    }
}
