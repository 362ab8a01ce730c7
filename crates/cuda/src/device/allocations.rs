//! What the device knows about a block of memory that the program allocated.

/// The kind of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cudaMalloc`.
    Device,
    /// `cudaMallocManaged`: accessible to the CPU as well.
    Managed,
    /// `cudaMallocHost`.
    Pinned,
    /// `cudaHostRegister`: host memory that kernels access at its own address.
    Registered,
    /// Memory of a graph node.
    Graph,
    /// Values of the conditional nodes of graphs.
    Conditions,
    /// A `__managed__` variable.
    ManagedVariable,
    /// Physical memory that is mapped to reserved addresses (`cuMemMap`).
    Mapped,
}

impl Kind {
    /// Whether the CPU accesses it at the same address.
    pub(crate) const fn on_host(self) -> bool {
        matches!(self, Self::Managed | Self::Pinned | Self::Registered | Self::ManagedVariable)
    }

    pub(crate) const fn is_managed(self) -> bool {
        matches!(self, Self::Managed | Self::ManagedVariable)
    }

    /// Whether it counts towards the memory of the device.
    pub(crate) const fn counts(self) -> bool {
        matches!(self, Self::Device | Self::Managed | Self::Graph)
    }

    /// Whether the program must free it.
    pub(crate) const fn is_owned(self) -> bool {
        matches!(self, Self::Device | Self::Managed | Self::Pinned)
    }
}

/// A block of memory that the program allocated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    pub(crate) len: usize,
    pub(crate) kind: Kind,
    /// The GPU that has it.
    pub(crate) gpu: u8,
    /// The pool from which it was allocated; 0 if none.
    pub(crate) pool: u64,
    /// What copies have done with it.
    pub(crate) copied: Copied,
}

/// What copies by the program have done with an allocation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    /// The number of launches before the last copy from the host; `None` before the first one.
    pub(crate) filled_after: Option<u64>,
    /// Whether a copy read from it.
    pub(crate) read: bool,
}

impl Allocation {
    pub(crate) fn new(len: usize, kind: Kind, gpu: u8) -> Self {
        Self { len, kind, gpu, pool: 0, copied: Copied::default() }
    }
}
