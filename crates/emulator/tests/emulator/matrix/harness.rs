//! Runs a few lines of PTX on warps whose registers are given.

use emulator::{GlobalMemory, Launch, Options, Stop, launch, load};

pub(crate) const LANES: usize = 32;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    pub(crate) fn register(&mut self) -> [u32; LANES] {
        std::array::from_fn(|_| self.word())
    }
}

/// Registers `i0…` of one warp.
pub(crate) type Inputs = Vec<[u32; LANES]>;

/// Runs `body` on one warp per case, each a CTA of its own. It knows `.b32` registers `i0…` and `o0…`, `t0` to `t7`, `m0`
/// and `lane`; `.b16` `h0`, `h1`, `z`; `.b64` `a0`, `b0`, `c0`, `c1`; predicates `p0` to `p3`; `sb`, 1024 bytes of shared
/// memory, and `sa`, the lane's own 16 bytes there.
///
/// Registers beyond those given and wanted are there too, up to eight.
pub(crate) fn try_warps(
    target: &str,
    body: &str,
    cases: &[Inputs],
    n_out: usize,
    options: &Options,
) -> Result<Vec<Vec<[u32; LANES]>>, Stop> {
    let n_in = cases.first().map_or(0, Vec::len);
    let loads: String = (0..n_in).map(|i| format!("ld.global.b32 i{i}, [in+{}];\n", i * 128)).collect();
    let stores: String = (0..n_out).map(|i| format!("st.global.b32 [out+{}], o{i};\n", i * 128)).collect();
    let text = format!(
        ".version 9.1\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 p_in, .param .u64 p_out)\n{{\n\
         .reg .b32 i<{}>, o<{}>, t<8>, m0, lane, cta, sb, sa;\n.reg .b16 h<2>, z;\n.reg .b64 in, out, a0, b0, c0, c1, at;\n\
         .reg .pred p<4>;\n.shared .align 128 .b8 buffer[1024];\n\
         ld.param.u64 in, [p_in];\nld.param.u64 out, [p_out];\nmov.u32 lane, %laneid;\nmov.u32 cta, %ctaid.x;\n\
         mad.wide.u32 in, cta, {}, in;\nmad.wide.u32 out, cta, {}, out;\n\
         mad.wide.u32 in, lane, 4, in;\nmad.wide.u32 out, lane, 4, out;\n\
         mov.b32 sb, buffer;\nmad.lo.u32 sa, lane, 16, sb;\nmov.b16 z, 0;\n{loads}{body}\n{stores}ret;\n}}\n",
        n_in.max(8),
        n_out.max(8),
        n_in * 128,
        n_out * 128,
    );
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let words = cases.iter().flatten().flatten().flat_map(|w| w.to_le_bytes()).collect();
    let input = memory.allocate_with(words);
    let output = memory.allocate(cases.len() * n_out * 128);
    let how = Launch {
        grid: [u32::try_from(cases.len()).unwrap(), 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        params: [input.to_le_bytes(), output.to_le_bytes()].concat(),
    };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, options)?;
    let words: Vec<u32> =
        memory.bytes(output).unwrap().chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    let registers: Vec<[u32; LANES]> = words.as_chunks::<LANES>().0.to_vec();
    Ok(registers.chunks(n_out.max(1)).map(<[_]>::to_vec).collect())
}

/// One warp on `sm_121a`, or on `sm_100a`, which alone reduces floats.
pub(crate) fn try_warp(body: &str, inputs: &[[u32; LANES]], n_out: usize) -> Result<Vec<[u32; LANES]>, Stop> {
    let floats = body.contains("redux.sync") && body.contains(".f32");
    let target = if floats { "sm_100a" } else { "sm_121a" };
    let mut out = try_warps(target, body, &[inputs.to_vec()], n_out, &Options::default())?;
    Ok(out.pop().unwrap_or_default())
}

pub(crate) fn warp(body: &str, inputs: &[[u32; LANES]], n_out: usize) -> Vec<[u32; LANES]> {
    match try_warp(body, inputs, n_out) {
        Ok(out) => out,
        Err(stop) => panic!("{body}\n{stop}"),
    }
}
