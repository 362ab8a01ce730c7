//! The generic address space: a window for each state space, and global memory below them. The layout is this emulator's own.

/// Generic addresses of the state-space windows; global allocations lie below all of them.
/// The first address of global memory.
pub const GLOBAL_BASE: u64 = 0x10_0000_0000;
pub(crate) const CONST_WINDOW: u64 = 0x7a00_0000_0000;
pub(crate) const PARAM_WINDOW: u64 = 0x7b00_0000_0000;
pub(crate) const LOCAL_WINDOW: u64 = 0x7c00_0000_0000;
pub(crate) const SHARED_WINDOW: u64 = 0x7d00_0000_0000;
/// Addresses of functions, behind all windows: nothing can be loaded from there.
const CODE_WINDOW: u64 = 0x7e00_0000_0000;
/// Bytes between the addresses of modules, and of their functions.
const MODULE_BYTES: u64 = 1 << 24;
const FUNCTION_BYTES: u64 = 16;
const WINDOW: u64 = 0x100_0000_0000;

/// Start of shared memory; above 0, so that a null pointer is out of bounds.
pub(crate) const SHARED_START: u32 = 1024;

/// The state space that a generic address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    Global,
    Const,
    Param,
    Local,
    Shared,
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Const => "constant",
            Self::Param => "parameter",
            Self::Local => "local",
            Self::Shared => "shared",
        })
    }
}

/// The address of a function by its number in the module. The text of a module places it, so that the address in memory that another
/// launch left means the same function, and a function of another module is told apart (but for one in 65536 modules).
pub(crate) fn code_address(module: u16, function: u32) -> u64 {
    CODE_WINDOW + MODULE_BYTES * u64::from(module) + FUNCTION_BYTES * u64::from(function) % MODULE_BYTES
}

/// Whether an address may be that of a function.
pub(crate) fn is_code(address: u64) -> bool {
    address.checked_sub(CODE_WINDOW).is_some_and(|at| at < WINDOW && at.is_multiple_of(FUNCTION_BYTES))
}

/// The window of a generic address, and the offset within it.
#[inline]
pub(crate) fn window_of(address: u64) -> (Window, u64) {
    match address {
        a if a < CONST_WINDOW => (Window::Global, a),
        a if a < CONST_WINDOW + WINDOW => (Window::Const, a - CONST_WINDOW),
        a if a < PARAM_WINDOW + WINDOW => (Window::Param, a - PARAM_WINDOW),
        a if a < LOCAL_WINDOW + WINDOW => (Window::Local, a - LOCAL_WINDOW),
        a if a < SHARED_WINDOW + WINDOW => (Window::Shared, a - SHARED_WINDOW),
        a => (Window::Global, a),
    }
}
