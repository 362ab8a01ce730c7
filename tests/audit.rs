//! The room `audit`: what it reads out of files of every form, and what it makes of files that are damaged or made to harm.
//!
//! `tests/audit/data` holds what NVIDIA's tools made of `two.ptx`: cubins of ptxas 13.5.37 and 12.9.86, and what `fatbinary` 13.5.37
//! made of cubins for sm_121a, sm_121f and sm_80 and of the PTX for sm_121a and sm_121f, with each compression and with
//! `--concat`. Their answers here are those of `cuobjdump` 13.5.37.

#[cfg(test)]
#[path = "audit/build.rs"]
mod build;
#[cfg(test)]
#[path = "audit/damage.rs"]
mod damage;
#[cfg(test)]
#[path = "audit/formats.rs"]
mod formats;
#[cfg(test)]
#[path = "audit/mutations.rs"]
mod mutations;
#[cfg(test)]
#[path = "audit/toolkits.rs"]
mod toolkits;
