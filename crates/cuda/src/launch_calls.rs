//! Entry points of both APIs for launches.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::{Answer, In, Pointers, entry_points};
use crate::contexts;
use crate::graph_parameters::packed;
use crate::launch::Shape;
use crate::registration::Dim3;
use crate::status::Status;
use crate::work::launch;

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

/// `cudaLaunchAttribute` and `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

impl LaunchAttribute {
    pub(crate) const fn of(id: u32, value: [u32; 16]) -> Self {
        Self { id, pad: 0, value }
    }
}

/// Applies launch attributes to a launch.
///
/// # Safety
/// The list has `count` elements.
pub(crate) unsafe fn attributed(shape: &mut Shape, attributes: In<LaunchAttribute>, count: u32) -> Answer {
    for n in 0..count as usize {
        // SAFETY: as promised by the caller.
        let attribute = unsafe { attributes.nth(n) }?;
        let [x, y, z, ..] = attribute.value;
        match attribute.id {
            2 => shape.cooperative = x != 0,
            4 if [x, y, z] != [0, 0, 0] => shape.cluster = Some([x.max(1), y.max(1), z.max(1)]),
            // Other attributes change no result; a programmatic launch may begin when its predecessor has ended.
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn shape(grid: [u32; 3], block: [u32; 3], shared: usize) -> Result<Shape, Status> {
    let shared_bytes = u32::try_from(shared).map_err(|_| Status::INVALID_VALUE)?;
    Ok(Shape { grid, block, shared_bytes, ..Shape::default() })
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
    launch_function;

    fn cudaLaunchKernel | cudaLaunchKernel_ptsz | __cudaLaunchKernel | __cudaLaunchKernel_ptsz(
        symbol: u64, grid: Dim3, block: Dim3, arguments: In<u64>, shared: usize, stream: u64,
    ) { launch(stream, symbol, shape(grid.into(), block.into(), shared)?, &Pointers::from_array(arguments)) }
    fn cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz(
        symbol: u64, grid: Dim3, block: Dim3, arguments: In<u64>, shared: usize, stream: u64,
    ) {
        let shape = Shape { cooperative: true, ..shape(grid.into(), block.into(), shared)? };
        launch(stream, symbol, shape, &Pointers::from_array(arguments))
    }
    fn cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz | _cudaLaunchKernelEx(config: In<RuntimeConfig>, symbol: u64, arguments: In<u64>) {
        let config = config.get()?;
        let mut shape = shape(config.grid.into(), config.block.into(), config.shared)?;
        attributed(&mut shape, config.attributes, config.count)?;
        launch(config.stream, symbol, shape, &Pointers::from_array(arguments))
    }
    fn cuLaunchKernel | cuLaunchKernel_ptsz(
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64, arguments: In<u64>, extra: u64,
    ) { launch_with(stream, function, shape([gx, gy, gz], [bx, by, bz], shared as usize)?, arguments, extra) }
    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz(
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64, arguments: In<u64>,
    ) {
        let shape = Shape { cooperative: true, ..shape([gx, gy, gz], [bx, by, bz], shared as usize)? };
        launch_with(stream, function, shape, arguments, 0)
    }
    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz(config: In<DriverConfig>, function: u64, arguments: In<u64>, extra: u64) {
        let config = config.get()?;
        contexts::stream_has_context(config.stream)?;
        let mut shape = shape(config.grid, config.block, config.shared as usize)?;
        attributed(&mut shape, config.attributes, config.count)?;
        launch_with(config.stream, function, shape, arguments, extra)
    }
    fn cudaSetDoubleForDevice | cudaSetDoubleForHost(_value: u64) { Ok(()) }
    fn cudaFuncSetCacheConfig | cuFuncSetCacheConfig | cudaFuncSetSharedMemConfig | cuFuncSetSharedMemConfig(_symbol: u64, _config: c_int) { Ok(()) }
}
