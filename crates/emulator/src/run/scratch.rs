//! Buffers of instructions that are reused from one to the next.

/// Buffers of matrix instructions, reused from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) a: Vec<u32>,
    pub(crate) b: Vec<u32>,
    pub(crate) c: Vec<u32>,
    pub(crate) d: Vec<u32>,
    pub(crate) a_scales: Vec<u32>,
    pub(crate) b_scales: Vec<u32>,
    /// The columns of B that one row of a sparse A is multiplied with.
    pub(crate) chosen: Vec<u32>,
}
