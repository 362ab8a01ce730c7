//! What is read out of files of every form, and what it makes of files that are damaged or made to harm.
//!
//! `tests/data` holds what NVIDIA's tools made of `two.ptx`: cubins of ptxas 13.5.37 and 12.9.86, and what `fatbinary` 13.5.37
//! made of cubins for sm_121a, sm_121f and sm_80 and of the PTX for sm_121a and sm_121f, with each compression and with
//! `--concat`. Their answers here are those of `cuobjdump` 13.5.37.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod build;
mod damage;
mod formats;
mod mutations;
