//! The GPUs that can be simulated, with figures from their data sheets and the CUDA C++ Programming Guide ("Technical Specifications per
//! Compute Capability").
//!
//! The figures of GB10 are those that `deviceQuery` (CUDA samples, CUDA 13.0) prints on a DGX Spark, as published in "The DGX Spark
//! Unpacked" (blog.kubesimplify.com): compute capability 12.1, 122,570 MB of memory, 48 multiprocessors, 2418 MHz, memory at 8533 MHz with 256
//! bits, 24 MB of L2, one copy engine, an integrated GPU. GPUDirect RDMA and DMA-BUF are not supported there (NVIDIA's developer forum,
//! thread 348787).

/// A simulated GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// Its name for `--gpu`.
    pub key: &'static str,
    /// Its name in `cudaGetDeviceProperties`.
    pub name: &'static str,
    /// Compute capability: major, minor.
    pub capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub sms: u32,
    /// Global memory in bytes.
    pub memory: u64,
    /// L2 cache in bytes.
    pub l2: u32,
    /// Maximum shared memory per block (opt-in) in bytes.
    pub shared_optin: u32,
    /// Shared memory per multiprocessor in bytes.
    pub shared_sm: u32,
    /// Maximum threads per multiprocessor.
    pub threads_sm: u32,
    /// Maximum blocks per multiprocessor.
    pub blocks_sm: u32,
    /// Boost clock in kHz.
    pub clock: u32,
    /// Memory clock in kHz.
    pub memory_clock: u32,
    /// Width of the memory bus in bits.
    pub bus: u32,
    /// Whether it shares memory with the CPU.
    pub integrated: bool,
    /// Number of engines that copy while kernels run.
    pub copy_engines: u32,
}

const GIB: u64 = 1 << 30;
const MIB: u32 = 1 << 20;
const SM12X: Gpu = Gpu {
    key: "",
    name: "",
    capability: (12, 0),
    sms: 0,
    memory: 0,
    l2: 0,
    shared_optin: 99 << 10,
    shared_sm: 100 << 10,
    threads_sm: 1536,
    blocks_sm: 24,
    clock: 0,
    memory_clock: 14_001_000,
    bus: 512,
    integrated: false,
    copy_engines: 2,
};

/// All GPUs; the first is the default.
pub const GPUS: [Gpu; 4] = [
    Gpu {
        key: "gb10",
        name: "NVIDIA GB10",
        capability: (12, 1),
        sms: 48,
        memory: 122_570 << 20,
        l2: 24 * MIB,
        clock: 2_418_000,
        memory_clock: 8_533_000,
        bus: 256,
        integrated: true,
        copy_engines: 1,
        ..SM12X
    },
    Gpu {
        key: "rtx5090",
        name: "NVIDIA GeForce RTX 5090",
        sms: 170,
        memory: 32 * GIB,
        l2: 96 * MIB,
        clock: 2_407_000,
        ..SM12X
    },
    Gpu {
        key: "rtxpro6000",
        name: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        sms: 188,
        memory: 96 * GIB,
        l2: 128 * MIB,
        clock: 2_617_000,
        ..SM12X
    },
    Gpu {
        key: "h100",
        name: "NVIDIA H100 80GB HBM3",
        capability: (9, 0),
        sms: 132,
        memory: 80 * GIB,
        l2: 50 * MIB,
        shared_optin: 227 << 10,
        shared_sm: 228 << 10,
        threads_sm: 2048,
        blocks_sm: 32,
        clock: 1_980_000,
        memory_clock: 2_619_000,
        bus: 5120,
        integrated: false,
        copy_engines: 3,
    },
];

/// Shared memory that the system takes of each resident block, in bytes.
const RESERVED_SHARED: u32 = 1 << 10;

impl Gpu {
    /// The number of blocks of so many threads and bytes of shared memory that are resident on a multiprocessor at once, as far as threads, shared memory
    /// and the number of blocks limit it; registers are not known.
    #[must_use]
    pub fn blocks_per_sm(&self, threads: u32, shared: u64) -> u32 {
        if shared > u64::from(self.shared_optin) {
            return 0;
        }
        let by_threads = self.threads_sm / threads.max(1).next_multiple_of(32);
        let by_shared = self.shared_sm / (shared as u32 + RESERVED_SHARED);
        by_threads.min(by_shared).min(self.blocks_sm)
    }

    /// The shared memory that each of so many resident blocks of a multiprocessor can have, in bytes, as `cudaOccupancyAvailableDynamicSMemPerBlock`
    /// counts it on an H200: in steps of 128, and without what the system takes.
    #[must_use]
    pub fn shared_of_block(&self, blocks: u32) -> u32 {
        self.shared_sm / blocks.max(1) / 128 * 128
    }

    /// Returns the GPU with this key, as people write it: `rtx-pro-6000` and `RTX 5090` are keys, too, and so are the names of machines with a GB10.
    #[must_use]
    pub fn with_key(key: &str) -> Option<&'static Self> {
        let key: String =
            key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        let key = match key.as_str() {
            "dgxspark" | "spark" => "gb10",
            other => other,
        };
        GPUS.iter().find(|gpu| gpu.key == key)
    }

    /// Returns the architecture number: 121 for compute capability 12.1.
    #[must_use]
    pub const fn arch(&self) -> u32 {
        self.capability.0 * 10 + self.capability.1
    }

    /// Returns the option of nvcc that builds PTX for it and, for SM12x, for every GPU of the family: `compute_120f`.
    #[must_use]
    pub const fn nvcc_architecture(&self) -> &'static str {
        match self.capability {
            (12, 0) => "compute_120f",
            (12, 1) => "compute_121a",
            _ => "compute_90a",
        }
    }

    /// Returns a device attribute by its number (`CUdevice_attribute`, `cudaDeviceAttr`); attributes without meaning here are 0.
    #[must_use]
    pub fn attribute(&self, number: i32) -> i32 {
        let value: u32 = match number {
            1..=3 => 1024,
            4 => 64,
            5 => i32::MAX as u32,
            6 | 7 => 65_535,
            8 => 48 << 10,
            9 => 64 << 10,
            10 => 32,
            11 => i32::MAX as u32,
            12 | 82 => 65_536,
            13 => self.clock,
            14 => 512,
            16 => self.sms,
            18 => u32::from(self.integrated),
            // Overlapping copies, mapped host memory, concurrent kernels, unified addressing, stream priorities, L1 caches, managed
            // memory, cooperative launch, registration of host memory, virtual memory, memory pools, operations of streams on words, tensor maps.
            15 | 19 | 31 | 41 | 78 | 79 | 80 | 83 | 89 | 90 | 91 | 95 | 99 | 102 | 115 | 122 | 123 | 127 => 1,
            // Textures: one, two and three dimensions, layers of two, layers of one, gathers, another shape of three, cubes, layers of them.
            21 | 22 => 131_072,
            23 => 65_536,
            24..=26 => 16_384,
            27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 => 32_768,
            29 | 43 => 2048,
            44 => 1,
            47 | 48 => 8192,
            54 | 68 => 2046,
            // Surfaces: one, two and three dimensions, layers of one and two, cubes, and layers of them.
            55 | 61 | 63 | 64 | 66 | 67 => 32_768,
            56 => 131_072,
            57 => 65_536,
            58..=60 => 16_384,
            62 | 65 => 2048,
            // Textures over linear memory and memory with a pitch; mipmaps of two dimensions and of one.
            69 => 268_435_456,
            70 => 131_072,
            71 => 65_000,
            72 => 2_097_120,
            73 | 74 | 77 => 32_768,
            30 | 51 => 512,
            33 => 1,
            36 => self.memory_clock,
            37 => self.bus,
            38 => self.l2,
            39 => self.threads_sm,
            40 => self.copy_engines,
            75 => self.capability.0,
            76 => self.capability.1,
            81 => self.shared_sm,
            87 => 64,
            97 => self.shared_optin,
            106 => self.blocks_sm,
            111 => 1024,
            120 => 1,
            126 => 1,
            _ => 0,
        };
        i32::try_from(value).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_numbers_of_the_headers() {
        let gpu = Gpu::with_key("gb10").unwrap();
        let block: Vec<i32> = (1..=7).map(|n| gpu.attribute(n)).collect();
        assert_eq!(block, [1024, 1024, 1024, 64, i32::MAX, 65_535, 65_535]);
        assert_eq!((gpu.attribute(75), gpu.attribute(76), gpu.attribute(16)), (12, 1, 48));
        assert_eq!((gpu.attribute(97), gpu.attribute(92)), (101_376, 0));
        // What a DGX Spark answers: L2, memory clock, bus, copy engines, integrated, GPUDirect RDMA, DMA-BUF.
        let spark = [38, 36, 37, 40, 18, 116, 124].map(|n| gpu.attribute(n));
        assert_eq!(spark, [25_165_824, 8_533_000, 256, 1, 1, 0, 0]);
        assert_eq!((gpu.memory >> 20, gpu.attribute(13)), (122_570, 2_418_000));
        // Textures: one dimension, linear, with a pitch; surfaces of two dimensions; operations of streams on words.
        assert_eq!(
            [21, 69, 72, 56, 57].map(|n| gpu.attribute(n)),
            [131_072, 268_435_456, 2_097_120, 131_072, 65_536]
        );
        assert_eq!([122, 123].map(|n| gpu.attribute(n)), [1, 1]);
        assert!(Gpu::with_key("gb11").is_none());
    }
}
