//! SGLang: FlashAttention 4 for SM12x, in CuTe DSL.

use safetensors::Dtype;

use crate::attention_dump::{judged, tensor};
use crate::cute_dsl::Source;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::{FLASH_ATTENTION_4_IMPORTS, SGLANG};
use crate::replay::Buffers;

static SOURCE: Source = Source {
    program: "sglang_cute_dsl.py",
    package: &SGLANG,
    folder: "sglang",
    imports: Some((&FLASH_ATTENTION_4_IMPORTS, "flash-attention-4-imports")),
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    let (source, bound) = (Origin::CuteDsl(&SOURCE), "docs/numerics.md, 14");
    Kernel { name, source, case, file: "fa4_sm120/flash_fwd.py", reference, bound, expected: Expected::Right }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("sglang/fa4", "fa4", |b| varlen(b, [53, 90], "-1", false)),
    kernel("sglang/fa4_window", "fa4_window", |b| varlen(b, [53, 195], "31", false)),
    kernel("sglang/fa4_sinks", "fa4_sinks", |b| varlen(b, [53, 90], "-1", true)),
];

/// Rows and keys of two requests; weights in bf16, and the sum of those before they are rounded.
fn varlen(b: &Buffers, [rows, keys]: [usize; 2], window: &'static str, sinks: bool) -> Result<f64, String> {
    let mut tensors = vec![
        tensor("q", Dtype::BF16, vec![rows, 4, 64]),
        tensor("k", Dtype::BF16, vec![keys, 2, 64]),
        tensor("v", Dtype::BF16, vec![keys, 2, 64]),
        tensor("cu_seqlens_q", Dtype::I32, vec![3]),
        tensor("cu_seqlens_k", Dtype::I32, vec![3]),
        tensor("o", Dtype::BF16, vec![rows, 4, 64]),
        tensor("lse", Dtype::F32, vec![4, rows]),
    ];
    if sinks {
        tensors.push(tensor("sinks", Dtype::BF16, vec![4]));
    }
    let said = [
        ("causal", "true"),
        ("window_left", window),
        ("sm_scale", "0.11"),
        ("kernel", "triton"),
        ("partials", "none"),
        ("tile", "32"),
        ("lse_base", "e"),
        ("lse_layout", "heads_rows"),
        ("lse_sink", "included"),
    ];
    judged(b, &tensors, &said)
}
