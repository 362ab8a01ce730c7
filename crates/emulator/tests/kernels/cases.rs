//! The kernels: how each is launched, and what a plain computation of the same thing gives.

use emulator::{
    Counts, GlobalMemory, Launch, Options, Stop, Swizzle, TENSOR_MAP_BYTES, TensorMap, TensorType, launch,
    load,
};

/// An argument of a kernel.
#[derive(Clone)]
pub(crate) enum Arg {
    Value(Vec<u8>),
    /// A buffer with these bytes.
    Buffer(Vec<u8>),
    /// A buffer that nobody has written.
    Out(usize),
    /// The map of a bf16 matrix of rows of `columns`, in boxes of 64 x 64 with 128-byte swizzle.
    Map {
        data: Vec<u8>,
        columns: u64,
    },
}

/// One launch.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) entry: &'static str,
    pub(crate) grid: [u32; 3],
    pub(crate) block: u32,
    pub(crate) shared: u32,
    pub(crate) args: Vec<Arg>,
    /// What the buffer of this argument must hold after the launch.
    pub(crate) expect: (usize, Vec<u8>),
}

/// A kernel with its launch.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) ptx: &'static str,
    pub(crate) run: Run,
}

fn u32s(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(crate) fn value(v: u32) -> Arg {
    Arg::Value(v.to_le_bytes().to_vec())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

impl Run {
    /// Launches `entry` of `ptx` under a schedule; the buffers by argument.
    pub(crate) fn go(&self, ptx: &str, seed: u64, fuel: u64) -> Result<(Vec<Vec<u8>>, Counts), Stop> {
        self.go_in(ptx, seed, fuel, None, GlobalMemory::allocate_with)
    }

    /// [`Run::go`], with the buffer of one argument freed before the launch, and bytes put into memory by `allocate`.
    pub(crate) fn go_in(
        &self,
        ptx: &str,
        seed: u64,
        fuel: u64,
        freed: Option<usize>,
        allocate: fn(&mut GlobalMemory, Vec<u8>) -> u64,
    ) -> Result<(Vec<Vec<u8>>, Counts), Stop> {
        let program = load(ptx)?;
        let kernel =
            program.kernel(self.entry).ok_or_else(|| Stop::Launch(format!("no entry {}", self.entry)))?;
        let options = Options { seed, fuel, check_widths: true, ..Options::default() };
        let mut memory = GlobalMemory::default();
        let mut params = vec![0; kernel.param_bytes];
        let mut addresses = Vec::new();
        for (arg, param) in self.args.iter().zip(&kernel.params) {
            let (address, bytes) = match arg {
                Arg::Value(bytes) => (0, bytes.clone()),
                Arg::Buffer(bytes) => {
                    let address = allocate(&mut memory, bytes.clone());
                    (address, address.to_le_bytes().to_vec())
                }
                Arg::Out(len) => {
                    let address = memory.allocate(*len);
                    (address, address.to_le_bytes().to_vec())
                }
                Arg::Map { data, columns } => {
                    let address = allocate(&mut memory, data.clone());
                    let rows = data.len() as u64 / 2 / columns;
                    let mut map = TensorMap::dense(TensorType::Bf16, address, &[*columns, rows], &[64, 64]);
                    map.swizzle = Swizzle::B128;
                    let bytes = map.encode().map_err(|e| Stop::Launch(e.to_string()))?;
                    assert_eq!(bytes.len(), TENSOR_MAP_BYTES);
                    (address, bytes.to_vec())
                }
            };
            assert_eq!(bytes.len(), param.size, "{}", param.name);
            params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
            addresses.push(address);
        }
        if let Some(n) = freed {
            assert!(memory.free(addresses[n]));
        }
        let run = Launch { grid: self.grid, block: [self.block, 1, 1], shared_bytes: self.shared, params };
        let counts = launch(&program, kernel, &run, &mut memory, &options)?;
        Ok((addresses.iter().map(|a| memory.contents(*a).unwrap_or_default().into_owned()).collect(), counts))
    }
}

/// Every kernel.
pub(crate) fn all() -> Vec<Case> {
    vec![
        Case { name: "reduction", ptx: include_str!("reduction.ptx"), run: reduction() },
        Case { name: "softmax", ptx: include_str!("softmax.ptx"), run: softmax() },
        Case { name: "histogram", ptx: include_str!("histogram.ptx"), run: histogram() },
        Case { name: "scan", ptx: include_str!("scan.ptx"), run: scan() },
        Case { name: "persistent", ptx: include_str!("persistent.ptx"), run: persistent() },
        Case { name: "pdl", ptx: include_str!("pdl.ptx"), run: primary() },
        Case { name: "pdl", ptx: include_str!("pdl.ptx"), run: secondary() },
        Case { name: "gemm_bf16", ptx: include_str!("gemm_bf16.ptx"), run: gemm_bf16() },
        Case { name: "gemm_tma", ptx: include_str!("gemm_tma.ptx"), run: gemm_tma() },
        Case { name: "gemm_mx", ptx: include_str!("gemm_mx.ptx"), run: gemm_mx() },
    ]
}

fn down(mut lanes: [f32; 32]) -> f32 {
    for distance in [16, 8, 4, 2, 1] {
        let before = lanes;
        for i in 0..32 {
            lanes[i] = before[i] + before[if i + distance < 32 { i + distance } else { i }];
        }
    }
    lanes[0]
}

fn reduction() -> Run {
    let (grid, block, n) = (3usize, 128usize, 1000usize);
    let mut random = Random(1);
    let input: Vec<f32> = (0..n).map(|_| random.float()).collect();
    let mut out = Vec::new();
    for cta in 0..grid {
        let mut warps = [0.0; 32];
        for (warp, sum) in warps.iter_mut().take(block / 32).enumerate() {
            let lanes = std::array::from_fn(|lane| {
                let first = cta * block + warp * 32 + lane;
                (first..n).step_by(grid * block).fold(0.0, |sum, i| sum + input[i])
            });
            *sum = down(lanes);
        }
        out.push(down(warps));
    }
    Run {
        entry: "reduction",
        grid: [3, 1, 1],
        block: 128,
        shared: 0,
        args: vec![Arg::Buffer(f32s(&input)), Arg::Out(4 * grid), value(n as u32)],
        expect: (1, f32s(&out)),
    }
}

fn exponential(x: f32) -> f32 {
    let x = x.max(-87.0);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-0.693_145_75, x);
    let r = n.mul_add(-1.428_606_8e-6, r);
    let p = [0.008_333_334, 0.041_666_668, 0.166_666_67, 0.5, 1.0, 1.0]
        .iter()
        .fold(0.001_388_888_9f32, |p, c| p.mul_add(r, *c));
    f32::from_bits((p.to_bits() as i32 + ((n as i32) << 23)) as u32)
}

fn softmax() -> Run {
    let (rows, columns, block) = (3usize, 100usize, 64usize);
    let mut random = Random(2);
    let input: Vec<f32> = (0..rows * columns).map(|_| 8.0 * random.float()).collect();
    let mut out = Vec::new();
    for row in input.chunks(columns) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let e: Vec<f32> = row.iter().map(|x| exponential(x - largest)).collect();
        let mut warps = Vec::new();
        for warp in 0..block / 32 {
            let mut lanes: [f32; 32] = std::array::from_fn(|lane| {
                (warp * 32 + lane..columns).step_by(block).fold(0.0, |sum, i| sum + e[i])
            });
            for distance in [16, 8, 4, 2, 1] {
                let before = lanes;
                for i in 0..32 {
                    lanes[i] = before[i] + before[i ^ distance];
                }
            }
            warps.push(lanes[0]);
        }
        let sum = warps[1..].iter().fold(warps[0], |sum, x| sum + x);
        out.extend(e.iter().map(|x| x / sum));
    }
    Run {
        entry: "softmax",
        grid: [rows as u32, 1, 1],
        block: block as u32,
        shared: 4 * columns as u32,
        args: vec![Arg::Buffer(f32s(&input)), Arg::Out(4 * rows * columns), value(columns as u32)],
        expect: (1, f32s(&out)),
    }
}

fn histogram() -> Run {
    let mut random = Random(3);
    let input: Vec<u8> = (0..1000).map(|_| (random.below(40) * random.below(7)) as u8).collect();
    let mut bins = [0u32; 256];
    for byte in &input {
        bins[usize::from(*byte)] += 1;
    }
    Run {
        entry: "histogram",
        grid: [3, 1, 1],
        block: 64,
        shared: 0,
        args: vec![Arg::Buffer(input), Arg::Buffer(vec![0; 1024]), value(1000)],
        expect: (1, u32s(&bins)),
    }
}

fn scan() -> Run {
    let mut random = Random(4);
    let input: Vec<u32> = (0..300).map(|_| random.next() as u32).collect();
    let sums = input.iter().scan(0u32, |sum, x| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    });
    let sums: Vec<u32> = sums.collect();
    Run {
        entry: "scan",
        grid: [5, 1, 1],
        block: 64,
        shared: 0,
        args: vec![Arg::Buffer(u32s(&input)), Arg::Out(1200), Arg::Buffer(vec![0; 40]), value(300)],
        expect: (1, u32s(&sums)),
    }
}

fn persistent() -> Run {
    let (tiles, size) = (10u32, 100u32);
    let mut random = Random(5);
    let input: Vec<u32> = (0..tiles * size).map(|_| random.below(2001) as u32).collect();
    let sums = input.chunks(size as usize).map(|c| c.iter().fold(0u32, |s, x| s.wrapping_add(x * x)));
    let sums: Vec<u32> = sums.collect();
    Run {
        entry: "persistent",
        grid: [4, 1, 1],
        block: 64,
        shared: 0,
        args: vec![
            Arg::Buffer(u32s(&input)),
            Arg::Out(40),
            Arg::Buffer(vec![0; 4]),
            value(tiles),
            value(size),
        ],
        expect: (1, u32s(&sums)),
    }
}

fn numbers(n: usize) -> Vec<f32> {
    let mut random = Random(6);
    (0..n).map(|_| random.float()).collect()
}

fn primary() -> Run {
    let input = numbers(100);
    let doubled: Vec<f32> = input.iter().map(|x| 2.0 * x).collect();
    Run {
        entry: "primary",
        grid: [2, 1, 1],
        block: 64,
        shared: 0,
        args: vec![Arg::Buffer(f32s(&input)), Arg::Out(400), value(100)],
        expect: (1, f32s(&doubled)),
    }
}

fn secondary() -> Run {
    let middle: Vec<f32> = numbers(100).iter().map(|x| 2.0 * x).collect();
    let out: Vec<f32> = (0..100).map(|i| middle[99 - i].mul_add(1.0 + (i % 4) as f32, 1.0)).collect();
    Run {
        entry: "secondary",
        grid: [2, 1, 1],
        block: 64,
        shared: 0,
        args: vec![Arg::Buffer(f32s(&middle)), Arg::Out(400), value(100)],
        expect: (1, f32s(&out)),
    }
}

/// Small whole numbers as bf16, so that every order of summation gives the same f32.
fn whole(seed: u64, n: usize) -> (Vec<f32>, Vec<u8>) {
    let mut random = Random(seed);
    let values: Vec<f32> = (0..n).map(|_| random.below(9) as f32 - 4.0).collect();
    let bytes = values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
    (values, bytes)
}

fn product(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f32> {
    let mut c = Vec::with_capacity(m * n);
    for row in 0..m {
        for column in 0..n {
            c.push((0..k).map(|i| a[row * k + i] * b[column * k + i]).sum());
        }
    }
    c
}

fn gemm_bf16() -> Run {
    let (m, n, k) = (64, 128, 96);
    let ((a, a_bytes), (b, b_bytes)) = (whole(7, m * k), whole(8, n * k));
    Run {
        entry: "gemm_bf16",
        grid: [2, 1, 1],
        block: 128,
        shared: 0,
        args: vec![
            Arg::Buffer(a_bytes),
            Arg::Buffer(b_bytes),
            Arg::Out(4 * m * n),
            value(m as u32),
            value(n as u32),
            value(k as u32),
        ],
        expect: (2, f32s(&product(&a, &b, m, n, k))),
    }
}

fn gemm_tma() -> Run {
    let (m, n, k) = (64, 128, 320);
    let ((a, a_bytes), (b, b_bytes)) = (whole(9, m * k), whole(10, n * k));
    Run {
        entry: "gemm_tma",
        grid: [2, 1, 1],
        block: 160,
        shared: 3 * 2 * 64 * 128,
        args: vec![
            Arg::Map { data: a_bytes, columns: k as u64 },
            Arg::Map { data: b_bytes, columns: k as u64 },
            Arg::Out(4 * m * n),
            value(n as u32),
            value(k as u32),
        ],
        expect: (2, f32s(&product(&a, &b, m, n, k))),
    }
}

fn gemm_mx() -> Run {
    let (m, n, k) = (32usize, 64usize, 256usize);
    let mut random = Random(11);
    // e4m3 codes of 0, 1/2, 1, 3/2 and 2, and all of e2m1.
    let e4m3 =
        [(0x00u8, 0.0f32), (0x30, 0.5), (0x38, 1.0), (0x3C, 1.5), (0x40, 2.0), (0xB8, -1.0), (0xBC, -1.5)];
    let e2m1 = [0.0f32, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut a_codes = Vec::new();
    let mut a = Vec::new();
    for _ in 0..m * k {
        let (code, value) = e4m3[random.below(7) as usize];
        a_codes.push(code);
        a.push(value);
    }
    let mut b_codes = vec![0u8; n * k / 2];
    let mut b = Vec::new();
    for i in 0..n * k {
        let code = random.below(16) as u8;
        b_codes[i / 2] |= code << (4 * (i % 2));
        b.push(if code & 8 != 0 { -e2m1[usize::from(code & 7)] } else { e2m1[usize::from(code & 7)] });
    }
    let mut scales = |values: &mut [f32]| -> Vec<u8> {
        let mut codes = Vec::new();
        for block in values.chunks_mut(32) {
            let code = 125 + random.below(5) as u8;
            codes.push(code);
            for v in block {
                *v *= f32::from_bits(u32::from(code) << 23);
            }
        }
        codes
    };
    let (scales_a, scales_b) = (scales(&mut a), scales(&mut b));
    Run {
        entry: "gemm_mx",
        grid: [2, 1, 1],
        block: 128,
        shared: 0,
        args: vec![
            Arg::Buffer(a_codes),
            Arg::Buffer(b_codes),
            Arg::Buffer(scales_a),
            Arg::Buffer(scales_b),
            Arg::Out(4 * m * n),
            value(n as u32),
            value(k as u32),
        ],
        expect: (4, f32s(&product(&a, &b, m, n, k))),
    }
}
