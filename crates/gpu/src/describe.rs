//! A description of a GPU: the facts that reports and admission need.

use ptx::arch::{Suffix, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces the driver version if `exec` simulates the GPU.
pub(super) const SIMULATED: &str = "simulated by sm121probe exec";

/// A GPU and its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Description {
    /// GPUs that CUDA shows.
    pub gpus: usize,
    /// Its number for CUDA.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Major and minor compute capability.
    pub capability: (u16, u16),
    /// The CUDA version that the driver brings, as `13.0`.
    pub cuda: String,
    /// The driver version, such as `580.159.04`; empty if the system does not report it.
    pub driver: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of it that are free.
    pub free: u64,
    /// Multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of shared memory of a CTA, with opt-in.
    pub shared_optin: i32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_multiprocessor: i32,
    /// Bytes of shared memory that the system keeps of every CTA.
    pub shared_reserved: i32,
    /// Registers of a CTA.
    pub registers: i32,
    /// Threads of a CTA.
    pub threads: i32,
    /// Threads of a multiprocessor.
    pub threads_multiprocessor: i32,
    /// Bytes of the L2 cache.
    pub l2: i32,
    /// The attributes by which GPUs of one family differ, by name; -1 where the driver does not know one.
    pub attributes: Vec<(String, i32)>,
}

impl Description {
    /// Returns the architecture-specific target, such as `sm_121a`.
    #[must_use]
    pub const fn target(&self) -> Target {
        Target { number: 10 * self.capability.0 + self.capability.1, suffix: Suffix::Arch }
    }

    /// Whether `exec` simulates this GPU, which then runs PTX only.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.driver == SIMULATED
    }

    /// Returns the base architecture, such as `sm_121`.
    #[must_use]
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }
}
