//! Limits of a launch: block, grid, parameters and shared memory of the target.

use crate::api::trap::Stop;
use crate::front::program::Kernel;
use crate::run::launch::Launch;

/// Maximum static shared memory in bytes that ptxas accepts.
const STATIC_LIMIT: u32 = 49_152;

/// Maximum shared memory per block in bytes (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
fn shared_limit(arch: u32) -> u32 {
    let kibibytes = match arch {
        ..70 => 48,
        70..75 => 96,
        75..80 => 64,
        80 | 87 | 88 => 163,
        86 | 89 => 99,
        90..120 => 227,
        _ => 99,
    };
    kibibytes * 1024
}

/// Checks that a kernel for this architecture can be launched this way.
pub(crate) fn check(kernel: &Kernel, launch: &Launch, arch: u32) -> Result<(), Stop> {
    let fail = |what: String| Err(Stop::Launch(what));
    let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
    if launch.grid.contains(&0) || threads == 0 {
        return fail(format!("grid {:?} and block {:?} must not contain zeros", launch.grid, launch.block));
    }
    if threads > 1024 || launch.block[2] > 64 {
        return fail(format!(
            "a block of {:?} has {threads} threads; the limit is 1024 threads, and 64 in z",
            launch.block
        ));
    }
    if launch.grid[1] > 65535 || launch.grid[2] > 65535 || launch.grid[0] > i32::MAX as u32 {
        return fail(format!("grid {:?} exceeds 2^31-1 x 65535 x 65535", launch.grid));
    }
    if let Some(required) = kernel.required_threads.filter(|r| *r != launch.block) {
        return fail(format!(
            "{} requires .reqntid {required:?}, not a block of {:?}",
            kernel.name, launch.block
        ));
    }
    if let Some(most) = kernel.max_threads.filter(|most| threads > *most) {
        return fail(format!("{} allows .maxntid {most} threads, not {threads}", kernel.name));
    }
    if launch.params.len() != kernel.param_bytes {
        return fail(format!(
            "{} takes {} bytes of parameters, not {}",
            kernel.name,
            kernel.param_bytes,
            launch.params.len()
        ));
    }
    for parameter in kernel.params.iter().filter(|p| p.align > 1) {
        let bytes = launch.params.get(parameter.offset..).and_then(|b| b.first_chunk::<8>());
        let address = bytes.map_or(0, |b| u64::from_le_bytes(*b));
        if parameter.size == 8 && !address.is_multiple_of(parameter.align) {
            return fail(format!(
                "{}: parameter `{}` is declared as a multiple of {} (.ptr .align), but is {address:#x}",
                kernel.name, parameter.name, parameter.align
            ));
        }
    }
    if kernel.shared_bytes > STATIC_LIMIT {
        return fail(format!(
            "{} declares {} bytes of static shared memory; the limit is {STATIC_LIMIT}",
            kernel.name, kernel.shared_bytes
        ));
    }
    let shared = u64::from(kernel.shared_bytes) + u64::from(launch.shared_bytes);
    let limit = shared_limit(arch);
    if shared > u64::from(limit) {
        return fail(format!("{shared} bytes of shared memory; the limit of sm_{arch} is {limit}"));
    }
    Ok(())
}
