//@ about: "Clamped SwiGLU, act = g * sigmoid(alpha * g) * (u + beta), quantized to the activations' format in the same pass."
//@ stage: activation
//@ entry: swiglu_quantize
//@ needs: [cvt_e4m3x2]
//@ formats: {nvfp4: {}, mxfp4: {}, mxfp8: {needs: [cvt_e4m3x2]}, bf16xmxfp4: {}, bf16xnvfp4: {}}
//@ grid: ["ceil_div(k_padded / 32, 32)", "rows"]
//@ block: "128"
//@ args: [fc1_out, w13_bias, expert_slot, row_expert, expert_offset, a_global, token_scale, a_codes, a_scales, k, k_padded, alpha, beta, limit]
//@ contract: {exp: fma, deterministic: true}
#include "swiglu_quantize.cuh"
