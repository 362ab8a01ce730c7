// The operand formats that a kernel is compiled for: A_FORMAT of activations and W_FORMAT of weights.
#pragma once

#define FORMAT_MXFP8 0
#define FORMAT_MXFP4 1
#define FORMAT_NVFP4 2
#define FORMAT_BF16 3

#ifndef A_FORMAT
#define A_FORMAT FORMAT_MXFP8
#define W_FORMAT FORMAT_MXFP4
#endif

// Bits of an element. No macro here has parameters: `gate --changed` evaluates conditions without them.
#define A_BITS (A_FORMAT == FORMAT_MXFP8 ? 8 : A_FORMAT == FORMAT_BF16 ? 16 : 4)
#define W_BITS (W_FORMAT == FORMAT_MXFP8 ? 8 : W_FORMAT == FORMAT_BF16 ? 16 : 4)
// Elements that share a scale in the quantizer, and along K in a GEMM.
#define A_BLOCK (A_FORMAT == FORMAT_NVFP4 ? 16 : 32)
#define SCALE_BLOCK (W_FORMAT == FORMAT_NVFP4 ? 16 : 32)
// Elements that a word of four scales covers.
#define WORD_K (4 * SCALE_BLOCK)
// Four scales with the value 1.
#define UNIT_SCALES (W_FORMAT == FORMAT_NVFP4 ? 0x38383838u : 0x7F7F7F7Fu)
// Whether the sums are multiplied by an f32 per expert.
#define HAS_GLOBAL (A_FORMAT == FORMAT_NVFP4 || W_FORMAT == FORMAT_NVFP4)
