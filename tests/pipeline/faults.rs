//! Realistic kernel faults, each a change of one line, and the stage at which each must be caught.

use sm121probe::kernel::{Library, Load, MmaPath};
use sm121probe::moe::Stage;

#[path = "format_faults.rs"]
mod format_faults;
#[path = "handed_on.rs"]
mod handed_on;
#[path = "routers.rs"]
mod routers;
#[path = "variants.rs"]
mod variants;

/// A change of a kernel, and the expected verdict.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    pub(crate) case: &'static str,
    pub(crate) tile: &'static str,
    pub(crate) path: MmaPath,
    pub(crate) load: Load,
    /// The first stage that is wrong.
    pub(crate) stage: Stage,
    /// Words that the note must contain, such as the violated rule.
    pub(crate) says: &'static str,
}

impl Fault {
    /// Applies the change to the kernel.
    pub(crate) fn plant(&self, library: &mut Library) -> Result<(), String> {
        let kernel = library.kernels.iter_mut().find(|k| k.file == self.file).map(|k| &mut k.text);
        let text = kernel.or_else(|| library.includes.get_mut(self.file)).ok_or("there is no such file")?;
        let changed = text.replace(self.from, self.to);
        if changed == *text {
            return Err(format!("`{}` does not occur in {}", self.from, self.file));
        }
        *text = changed;
        Ok(())
    }
}

const NATIVE: MmaPath = MmaPath::Native;
const PORTABLE: MmaPath = MmaPath::Portable;

/// Every fault.
#[expect(clippy::too_many_lines, reason = "a list of cases")]
pub(crate) fn all() -> Vec<Fault> {
    let fault = |name, file, (from, to), (case, tile, path, load), stage, says| Fault {
        name,
        file,
        from,
        to,
        case,
        tile,
        path,
        load,
        stage,
        says,
    };
    let mut all = vec![
        fault(
            "scales of the rows before, without padding per expert",
            "mx.cuh",
            ("return (first_row + expert * 127) / 128 * 128;", "return first_row;"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "",
        ),
        fault(
            "the GEMM forgets that experts begin on 128 rows",
            "problem.cuh",
            ("scale_row_of_expert(first, w.expert) + w.row - first", "w.row"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "nibbles exchanged",
            "gemm.cuh",
            ("to[i] <<= 2;", "to[i] = ((to[i] & 0x00FF00FF) << 10) | (to[i] >> 6 & 0x03FC03FC);"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "the shift by 2 missing",
            "gemm.cuh",
            ("to[i] <<= 2;", "to[i] <<= 0;"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "the scale of the next block",
            "gemm.cuh",
            ("sx[i], sy[j], byte)", "sx[i], sy[j], (byte + 1) % 4)"),
            ("tiny-impulse", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "the scale of the neighbouring row",
            "gemm.cuh",
            (
                "x_row + i * 16 + (lane >> 2) + 8 * (lane & 1), word",
                "x_row + i * 16 + ((lane >> 2) ^ 1) + 8 * (lane & 1), word",
            ),
            ("tiny-impulse", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "even and odd lanes of a scale pair exchanged",
            "gemm.cuh",
            ("8 * (lane & 1), word", "8 * (~lane & 1), word"),
            ("tiny-impulse", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "the scale of the neighbouring group of 32 rows",
            "problem.cuh",
            ("scale_at(w.column + row,", "scale_at((w.column + row) ^ 32,"),
            ("tiny-impulse", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "the scale of the neighbouring expert",
            "problem.cuh",
            ("u64 base = (u64)w.slot *", "u64 base = (u64)(w.slot ^ 1) *"),
            ("tiny-impulse", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "scale bytes read as ue4m3",
            "gemm.cuh",
            ("code == 0 ? 0x00400040 : code << 7;", "((code & 0x007F007F) << 4) + 0x3C003C00;"),
            ("tiny-exact", "8x64x128", PORTABLE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "last K tile dropped",
            "gemm_cp_async.cu",
            ("step < steps; ++step) {\n        asm", "step + 1 < steps; ++step) {\n        asm"),
            ("tiny-exact", "8x64x64", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "a K that is not a multiple of the tile cut",
            "gemm_cp_async.cu",
            ("(k_used + TILE_K - 1) / TILE_K", "k_used / TILE_K"),
            ("k2880-exact", "8x64x256", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "K counted in bytes of weights",
            "gemm_cp_async.cu",
            ("* p.k_padded + at) * W_BITS / 8 :", "* p.k_padded + at) :"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "out_of_bounds",
        ),
        fault(
            "bias forgotten",
            "problem.cuh",
            ("#if BIAS_HERE", "#if 0"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "bias added twice",
            "problem.cuh",
            (
                "sum = __fadd_rn(sum, p.bias[(u64)w.slot * p.n + w.column + channel]);",
                "sum = __fadd_rn(sum, 2 * p.bias[(u64)w.slot * p.n + w.column + channel]);",
            ),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "bias of another channel",
            "problem.cuh",
            (
                "p.bias[(u64)w.slot * p.n + w.column + channel]",
                "p.bias[(u64)w.slot * p.n + w.column + (channel ^ 1)]",
            ),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "gate and up exchanged",
            "swiglu_quantize.cuh",
            ("u32 g = 2 * (at + i), u = g + 1;", "u32 u = 2 * (at + i), g = u + 1;"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
        fault(
            "gate not clamped",
            "swiglu_quantize.cuh",
            ("gate = min_nan(gate, limit);", ""),
            ("tiny-clamp", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
        fault(
            "up clamped above only",
            "swiglu_quantize.cuh",
            ("max_nan(min_nan(up, limit), -limit)", "min_nan(up, limit)"),
            ("tiny-clamp", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
        fault(
            "NaN swallowed by fminf",
            "swiglu_quantize.cuh",
            ("gate = min_nan(gate, limit);", "gate = fminf(gate, limit);"),
            ("tiny-special", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
        fault(
            "alpha forgotten",
            "swiglu_quantize.cuh",
            ("-__fmul_rn(alpha, gate)", "-gate"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
        fault(
            "beta forgotten",
            "swiglu_quantize.cuh",
            ("__fadd_rn(up, beta)", "up"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
        fault(
            "a tile begins one row late",
            "problem.cuh",
            ("w.row = (u32)tile_row[blockIdx.y];", "w.row = (u32)tile_row[blockIdx.y] + 1;"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "experts without rows leave no offset",
            "permute.cu",
            (
                "            if (expert < experts) {\n                first",
                "            if (expert < experts && rows) {\n                first",
            ),
            ("rows-ragged", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "uninitialised",
        ),
        fault(
            "output transposed wrongly under swap_ab",
            "gemm.cuh",
            ("store_one(p, w, y, x, sums.of[i][j][e]);", "store_one(p, w, y, x, sums.of[i][j][e ^ 1]);"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "rows of a fragment exchanged",
            "gemm.cuh",
            ("u32 x = x0 + i * 16 + e / 2 * 8,", "u32 x = x0 + i * 16 + (e / 2 ^ 1) * 8,"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "a stage is refilled while others read it",
            "gemm_cp_async.cu",
            ("        __syncthreads();\n        u32 next", "        u32 next"),
            ("tiny-exact", "8x64x64", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "race",
        ),
        fault(
            "a wait for one group too few",
            "gemm_cp_async.cu",
            ("\"n\"(STAGES - 2)", "\"n\"(STAGES - 1)"),
            ("tiny-exact", "8x64x64", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "race",
        ),
        fault(
            "tx-count of unpacked weights",
            "tma.cuh",
            ("TILE_N * TILE_K * W_BITS / 8)", "TILE_N * TILE_K)"),
            ("tiny-exact", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "deadlock",
        ),
        fault(
            "parity of the empty barriers",
            "tma.cuh",
            ("(round & 1) ^ 1", "round & 1"),
            ("tiny-exact", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "deadlock",
        ),
        fault(
            "the full barrier not waited for",
            "tma.cuh",
            ("        wait(full + 8 * s, round & 1);\n", ""),
            ("tiny-exact", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "uninitialised",
        ),
        fault(
            "stages never given back",
            "tma.cuh",
            (
                "        if (lane == 0)\n            asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(empty + 8 * s) : \"memory\");\n",
                "",
            ),
            ("k2880-exact", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "deadlock",
        ),
        fault(
            "weights of the neighbouring expert",
            "tma.cuh",
            ("\"r\"(from.slot), \"r\"(full", "\"r\"(from.slot ^ 1), \"r\"(full"),
            ("tiny-exact", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "",
        ),
        fault(
            "box of the tokens at the tile, not the row",
            "tma.cuh",
            ("\"r\"(from.row), \"r\"(full", "\"r\"(blockIdx.y * TILE_M), \"r\"(full"),
            ("rows-ragged", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "",
        ),
        fault(
            "ties to the highest index",
            "route.cuh",
            (
                "__reduce_min_sync(~0u, best != ~0u && best_key == last_key ? best : ~0u)",
                "__reduce_max_sync(~0u, best != ~0u && best_key == last_key ? best : 0)",
            ),
            ("ties", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Route,
            "",
        ),
        fault(
            "weights not normalised",
            "route.cuh",
            ("__fdiv_rn(e, sum)", "e"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Route,
            "",
        ),
        fault(
            "every token weighted as by its first expert",
            "finalize.cu",
            ("topk_weights[choice];", "topk_weights[token * top_k];"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Finalize,
            "",
        ),
        fault(
            "last expert of a token forgotten",
            "finalize.cu",
            ("slot < top_k; ++slot", "slot + 1 < top_k; ++slot"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Finalize,
            "",
        ),
        fault(
            "448 itself counted as too large",
            "mx.cuh",
            ("mantissa > LARGEST_MANTISSA", "mantissa >= LARGEST_MANTISSA"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "",
        ),
        fault(
            "sign in the greatest magnitude",
            "mx.cuh",
            ("__float_as_uint(x[i]) & 0x7FFFFFFFu", "__float_as_uint(x[i])"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "",
        ),
        fault(
            "greatest magnitude of half a block",
            "mx.cuh",
            ("    amax = max(amax, __shfl_xor_sync(~0u, amax, 2));\n", ""),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "",
        ),
        fault(
            "codes of a pair exchanged",
            "mx.cuh",
            ("\"f\"(high), \"f\"(low)", "\"f\"(low), \"f\"(high)"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "",
        ),
        fault(
            "rows sorted, but not stably",
            "permute.cu",
            (
                "row + __popc(chosen & lanes_before())",
                "row + __popc(chosen) - 1 - __popc(chosen & lanes_before())",
            ),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "",
        ),
        fault(
            "tokens of the wrong row",
            "permute.cu",
            ("(i32)(i / top_k)", "(i32)(i % top_k)"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "",
        ),
        fault(
            "rows behind the expert stored too",
            "problem.cuh",
            ("token >= w.rows || ", ""),
            ("rows-ragged", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "race",
        ),
        fault(
            "channels behind the last stored too",
            "problem.cuh",
            (" || w.column + channel >= p.n", ""),
            ("n-ragged", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc2,
            "race",
        ),
        fault(
            "padding of K left as it was",
            "quantize.cu",
            ("if (at >= k_padded)", "if (at >= k)"),
            ("k2880-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "",
        ),
        fault(
            "poison of the padding multiplied",
            "gemm_cp_async.cu",
            (
                "p = {a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, out, n, k_padded, k_used}",
                "p = {a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, out, n, k_padded, k_padded}",
            ),
            ("k2880-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "the 16 bytes of a row not swizzled by one reader",
            "gemm.cuh",
            ("chunk + (lane >> 4), X_ROW), SWAP_AB == 1", "(chunk ^ 1) + (lane >> 4), X_ROW), SWAP_AB == 1"),
            ("tiny-exact", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
        fault(
            "rows of another expert for FC2",
            "finalize.cu",
            ("row_of_choice[choice]", "choice"),
            ("tiny-real", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Finalize,
            "",
        ),
        fault(
            "quantize does not wait for its predecessor",
            "quantize.cu",
            ("    wait_for_predecessor();\n", ""),
            ("tiny-pdl", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Quantize,
            "dependency",
        ),
        fault(
            "the next launch's route overwrites what finalize still reads",
            "route.cuh",
            ("    wait_for_predecessor();\n", ""),
            ("tiny-pdl", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Route,
            "at the next launch of the stream",
        ),
        fault(
            "the GEMM reads before it waits",
            "gemm_tma.cu",
            (
                "    wait_for_predecessor();\n    if (blockIdx.y >= (u32)*tile_count)",
                "    if (blockIdx.y >= (u32)*tile_count)",
            ),
            ("tiny-pdl", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "dependency",
        ),
        fault(
            "no fence behind the initialisation of the barrier objects",
            "tma.cuh",
            (
                "        asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n        \
                 asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n",
                "",
            ),
            ("tiny-exact", "8x64x128", NATIVE, Load::Tma),
            Stage::Fc1,
            "no proxy fence",
        ),
    ];
    all.extend(variants::all());
    all.extend(handed_on::all());
    all.extend(routers::all());
    all.extend(format_faults::all());
    all
}

/// Changes that are legal.
pub(crate) fn legal() -> Vec<Fault> {
    [variants::legal(), routers::legal(), format_faults::legal()].concat()
}
