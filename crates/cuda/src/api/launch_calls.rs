//! Entry points of both APIs for launches.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::launch_parameters::{Dim3, LaunchAttribute, attributed, packed, shape};
use crate::api::table::entry_points;
use crate::device::arguments::Pointers;
use crate::device::contexts;
use crate::device::registry::kernel;
use crate::device::state::device;
use crate::device::submit::launch;
use crate::device::work::Shape;
use crate::program::pointers::In;
use crate::status::Answer;

/// `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RuntimeConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: u64,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: u64,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// A driver launch, whose arguments are pointers or one packed buffer.
///
/// # Safety
/// The arguments are those that the kernel has, as [`Pointers::from_array`] and [`packed`] demand.
unsafe fn launch_with(stream: u64, symbol: u64, shape: Shape, arguments: In<u64>, extra: u64) -> Answer {
    // SAFETY: as promised by the caller.
    match unsafe { packed(extra) }? {
        Some(packed) => launch(stream, symbol, shape, &packed),
        // SAFETY: as above.
        None => launch(stream, symbol, shape, &unsafe { Pointers::from_array(arguments) }),
    }
}

entry_points! {
    LAUNCH, LAUNCH_CALLS;

    [cudaLaunchKernel, cudaLaunchKernel_ptsz, __cudaLaunchKernel, __cudaLaunchKernel_ptsz: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (
        symbol: u64, grid: Dim3, block: Dim3, arguments: In<u64>, shared: usize, stream: u64,
    ) { launch(stream, symbol, shape(grid.into(), block.into(), shared)?, &Pointers::from_array(arguments)) }
    [cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (
        symbol: u64, grid: Dim3, block: Dim3, arguments: In<u64>, shared: usize, stream: u64,
    ) {
        let shape = Shape { cooperative: true, ..shape(grid.into(), block.into(), shared)? };
        launch(stream, symbol, shape, &Pointers::from_array(arguments))
    }
    [cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz, _cudaLaunchKernelEx: (Primary, zeros INVALID_VALUE)]
    fn (config: In<RuntimeConfig>, symbol: u64, arguments: In<u64>) {
        let config = config.get()?;
        let mut shape = shape(config.grid.into(), config.block.into(), config.shared)?;
        attributed(&mut shape, config.attributes, config.count)?;
        launch(config.stream, symbol, shape, &Pointers::from_array(arguments))
    }
    [cuLaunchKernel, cuLaunchKernel_ptsz: (Init, zeros INVALID_HANDLE, since 4_000)]
    fn (
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64, arguments: In<u64>, extra: u64,
    ) { launch_with(stream, function, shape([gx, gy, gz], [bx, by, bz], shared as usize)?, arguments, extra) }
    [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz: (Init, zeros INVALID_HANDLE, since 9_000)]
    fn (
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64, arguments: In<u64>,
    ) {
        let shape = Shape { cooperative: true, ..shape([gx, gy, gz], [bx, by, bz], shared as usize)? };
        launch_with(stream, function, shape, arguments, 0)
    }
    [cuLaunchKernelEx, cuLaunchKernelEx_ptsz: (Init, zeros INVALID_VALUE, since 11_060)]
    fn (config: In<DriverConfig>, function: u64, arguments: In<u64>, extra: u64) {
        let config = config.get()?;
        contexts::stream_has_context(config.stream)?;
        let mut shape = shape(config.grid, config.block, config.shared as usize)?;
        attributed(&mut shape, config.attributes, config.count)?;
        launch_with(config.stream, function, shape, arguments, extra)
    }
    [cudaSetDoubleForDevice, cudaSetDoubleForHost: (Primary, zeros SUCCESS)]
    fn (_value: u64) { Ok(()) }
    [cudaFuncSetCacheConfig, cudaFuncSetSharedMemConfig: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    [cuFuncSetCacheConfig: (Init, zeros INVALID_HANDLE, since 3_000)]
    [cuFuncSetSharedMemConfig: (Init, zeros INVALID_HANDLE, since 4_020)]
    fn (symbol: u64, _config: c_int) { kernel(&mut *device()?, symbol).map(drop) }
}
