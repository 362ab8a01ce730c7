//! A writer of an NVFP4 or FP8 KV cache: the kernel that quantizes new keys and values into the pages of a paged cache.
//!
//! A value of the cache is an e2m1 code, times the ue4m3 scale of its 16 elements along the head, times the f32 scale of keys or of
//! values. The writer stores scale s = ue4m3(amax / (6 g)) and codes e2m1(x / (s g)), as vLLM's `nvfp4_kv_cache_kernels.cu` does.
//! With FP8 it stores x / g as e4m3 or e5m2, without block scales.
//!
//! | file | duty |
//! |---|---|
//! | `case.rs` | the cases of `cases/kv_cache/`: tokens, heads, pages, the kind of values |
//! | `configuration.rs` | layouts of a page, widths of a head, layouts of the values' scales |
//! | `problem.rs` | data and buffers of a case on a configuration, and where each element belongs |
//! | `judge.rs` | which scales and codes are right, with the bound |
//! | `family.rs` | what the rest of the tool calls |

mod case;
mod configuration;
pub mod family;
mod judge;
mod problem;
