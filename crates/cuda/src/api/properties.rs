//! `cudaDeviceProp`, in the layouts of CUDA 12 and 13.

use emulator::gpus::Gpu;

/// A C struct that is built field by field.
struct Fields(Vec<u8>);

impl Fields {
    /// Appends a field of 4 bytes.
    fn word(&mut self, value: i32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends fields of 4 bytes.
    fn words(&mut self, values: &[i32]) -> &mut Self {
        for value in values {
            self.word(*value);
        }
        self
    }

    /// Appends a field of 8 bytes, aligned to 8.
    fn long(&mut self, value: u64) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

/// The sizes of textures and surfaces (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
fn texture_sizes(f: &mut Fields, old: bool) {
    const WIDE: i32 = 131_072;
    const SIDE: i32 = 32_768;
    const LAYERS: i32 = 2048;
    const LINEAR: i32 = 268_435_456;
    // One dimension; of mipmaps.
    f.words(&[WIDE, SIDE]);
    if old {
        f.word(LINEAR);
    }
    // Two dimensions; of mipmaps, of linear memory with the pitch, of gathers; three, and another shape of three.
    f.words(&[WIDE, 65_536, SIDE, SIDE, WIDE, 65_000, 2_097_120, SIDE, SIDE]);
    f.words(&[16_384, 16_384, 16_384, 8192, 8192, SIDE]);
    // Cubes, layers of one and of two dimensions, and of cubes.
    f.words(&[SIDE, SIDE, LAYERS, SIDE, SIDE, LAYERS, SIDE, LAYERS - 2]);
    // Surfaces: one, two and three dimensions, layers of one and two, cubes, and layers of them.
    f.words(&[
        SIDE,
        WIDE,
        65_536,
        16_384,
        16_384,
        16_384,
        SIDE,
        LAYERS,
        SIDE,
        SIDE,
        LAYERS,
        SIDE,
        SIDE,
        LAYERS - 2,
    ]);
}

/// The bytes of the struct; `old` is the layout of CUDA 12 (`cudaGetDeviceProperties_v2`).
pub(crate) fn device_properties(gpu: &Gpu, uuid: &[u8; 16], bus: i32, old: bool) -> Vec<u8> {
    let at = |number: i32| gpu.attribute(number);
    let mut f = Fields(vec![0; 256 + 16 + 8 + 4]);
    f.0[..gpu.name.len()].copy_from_slice(gpu.name.as_bytes());
    f.0[256..272].copy_from_slice(uuid);
    let only_old = |f: &mut Fields, value: i32| {
        if old {
            f.word(value);
        }
    };
    f.long(gpu.memory).long(at(8) as u64).word(at(12)).word(32).long(at(11) as u64);
    f.word(1024).words(&[at(2), at(3), at(4)]).words(&[at(5), at(6), at(7)]);
    only_old(&mut f, at(13));
    f.long(at(9) as u64).words(&[at(75), at(76)]).long(512).long(32);
    only_old(&mut f, 1);
    f.word(at(16));
    only_old(&mut f, 0);
    f.words(&[at(18), 1]);
    only_old(&mut f, 0);
    texture_sizes(&mut f, old);
    f.long(512);
    // Concurrent kernels, ECC, PCI bus, device, domain, TCC, copy engines, unified addressing.
    f.words(&[1, 0, bus, 0, 0, 0, at(40), 1]);
    only_old(&mut f, at(36));
    f.words(&[at(37), at(38), 0, at(39), 1, 1, 1]).long(at(81) as u64);
    f.words(&[at(82), 1, 0, 0, 0]);
    only_old(&mut f, 64);
    f.words(&[0, at(89), at(90), at(91), 1]);
    only_old(&mut f, 0);
    f.long(at(97) as u64).words(&[0, 0, at(106), 0]).long(1024);
    // Registration, sparse arrays, read-only registration, timeline semaphores, pools, RDMA (3), handle types, deferred mapping, IPC,
    // clusters, unified function pointers.
    f.words(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]);
    f.words(&[0; 63]);
    f.long(0);
    let len = f.0.len() - 8;
    f.0.truncate(len);
    f.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_have_the_sizes_of_the_headers() {
        let gpu = Gpu::with_key("gb10").unwrap();
        assert_eq!(device_properties(gpu, &[0; 16], 1, true).len(), 1032);
        assert_eq!(device_properties(gpu, &[0; 16], 1, false).len(), 1008);
    }
}
