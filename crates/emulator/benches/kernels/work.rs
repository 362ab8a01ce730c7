//! A launch with its memory, and numbers to fill it.

#![expect(clippy::unwrap_used, reason = "a measurement that fails has no result")]

use emulator::{GlobalMemory, Launch, Options, launch, load};

/// A kernel with its memory.
pub(crate) struct Work {
    pub(crate) program: emulator::Program,
    pub(crate) memory: GlobalMemory,
    pub(crate) launch: Launch,
    /// The kernel's name; empty if the module has one only.
    pub(crate) entry: &'static str,
    /// Addresses of the buffers, in the order of the arguments.
    pub(crate) buffers: Vec<u64>,
}

/// An argument.
pub(crate) enum Given {
    Bytes(Vec<u8>),
    Output(usize),
    Number(u32),
}

impl Work {
    pub(crate) fn new(ptx: &str, [grid, block]: [[u32; 2]; 2], shared_bytes: u32, given: Vec<Given>) -> Self {
        let program = load(ptx).unwrap();
        let (mut memory, mut params, mut buffers) = (GlobalMemory::default(), Vec::new(), Vec::new());
        for given in given {
            let address = match given {
                Given::Bytes(bytes) => memory.allocate_with(bytes),
                Given::Output(len) => memory.allocate(len),
                Given::Number(number) => {
                    params.extend(number.to_le_bytes());
                    continue;
                }
            };
            params.extend(address.to_le_bytes());
            buffers.push(address);
        }
        let launch =
            Launch { grid: [grid[0], grid[1], 1], block: [block[0], block[1], 1], shared_bytes, params };
        Self { program, memory, launch, entry: "", buffers }
    }

    /// The contents of the buffers, in the order of the arguments.
    pub(crate) fn contents(&self, memory: &GlobalMemory) -> Vec<Vec<u8>> {
        self.buffers.iter().map(|at| memory.bytes(*at).unwrap().to_vec()).collect()
    }

    /// Runs it on `memory` with all checks; returns its instructions.
    pub(crate) fn run(&self, memory: &mut GlobalMemory, threads: usize) -> u64 {
        self.run_with(memory, &Options { threads, ..Options::default() })
    }

    /// Runs it on `memory`; returns its instructions.
    pub(crate) fn run_with(&self, memory: &mut GlobalMemory, options: &Options) -> u64 {
        let kernel = self.program.kernel(self.entry).unwrap_or(&self.program.kernels[0]);
        launch(&self.program, kernel, &self.launch, memory, options).unwrap().warp_instructions
    }
}

/// A fixed sequence of numbers (xorshift).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// A normally distributed number.
    pub(crate) fn normal(&mut self) -> f32 {
        ((0..12).map(|_| f64::from(self.word()) / 4_294_967_296.0).sum::<f64>() - 6.0) as f32
    }
}
