//@ about: "Clamped SwiGLU, act = g * sigmoid(alpha * g) * (u + beta), quantized to the activations' format in the same pass; e^x by ex2.approx."
//@ stage: activation
//@ entry: swiglu_quantize
//@ needs: [cvt_e4m3x2, ex2_approx_f32]
//@ formats: {nvfp4: {needs: [ex2_approx_f32]}, mxfp4: {needs: [ex2_approx_f32]}, mxfp8: {needs: [cvt_e4m3x2, ex2_approx_f32]}, bf16xmxfp4: {needs: [ex2_approx_f32]}, bf16xnvfp4: {needs: [ex2_approx_f32]}}
//@ grid: ["ceil_div(k_padded / 32, 32)", "rows"]
//@ block: "128"
//@ args: [fc1_out, w13_bias, expert_slot, row_expert, expert_offset, a_global, token_scale, a_codes, a_scales, k, k_padded, alpha, beta, limit]
//@ defines: {EX2_APPROX: "1"}
//@ contract: {exp: ex2_approx, deterministic: true}
#include "swiglu_quantize.cuh"
