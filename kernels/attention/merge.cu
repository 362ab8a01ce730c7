//@ about: "Merges the splits of each head of each row, with the sink and the scale of values."
//@ family: attention
//@ stage: merge
//@ entry: attention_merge
//@ needs: []
//@ grid: ["rows", "heads"]
//@ block: "64"
//@ args: [partial, partial_lse, sinks, out, lse, heads, splits, has_sinks, value_scale, natural]
//@ contract: {deterministic: true}
#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(64)
attention_merge(const float* partial, const float* partial_lse, const float* sinks, u16* out, float* lse, u32 heads,
                u32 splits, u32 has_sinks, u32 value_scale, u32 natural)
{
    wait_for_predecessor();
    u32 row = blockIdx.x, head = blockIdx.y;
    u64 first = ((u64)row * heads + head) * splits;
    // The sink is a raw logit, base e.
    float sink = has_sinks ? sinks[head] * LOG2_E : -INFINITE;
    float most = sink;
    for (u32 s = 0; s < splits; ++s)
        most = fmaxf(most, partial_lse[first + s]);
    float shift = most == -INFINITE ? 0.0f : most;
    float total = exp2_approx(sink - shift);
    for (u32 s = 0; s < splits; ++s)
        total += exp2_approx(partial_lse[first + s] - shift);
    float inverse = total > 0.0f ? 1.0f / total : 0.0f;
    for (u32 d = threadIdx.x; d < HEAD; d += blockDim.x) {
        float sum = 0.0f;
        for (u32 s = 0; s < splits; ++s)
            sum = fmaf(exp2_approx(partial_lse[first + s] - shift), partial[(first + s) * HEAD + d], sum);
        float x = sum * inverse * __uint_as_float(value_scale);
        out[((u64)row * heads + head) * HEAD + d] = (u16)pack(x, 0.0f);
    }
    if (threadIdx.x == 0) {
        float log2 = total > 0.0f ? most + log2_approx(total) : -INFINITE;
        lse[(u64)row * heads + head] = natural ? log2 * 0.6931471805599453f : log2;
    }
}
