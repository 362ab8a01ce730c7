//! Limits of a launch: block, grid, parameters and shared memory of the target.

use crate::api::trap::Stop;
use crate::front::program::Kernel;
use crate::run::cluster::shape;
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

/// Why CUDA refuses a launch with this grid, block and cluster, and this much shared memory, on a GPU of this architecture; `None` if it does not.
#[must_use]
pub fn refused_configuration(
    kernel: &Kernel,
    launch: &Launch,
    cluster: Option<[u32; 3]>,
    arch: u32,
) -> Option<String> {
    let misfit = |kernel| match shape(kernel, cluster, launch.grid, arch) {
        Err(Stop::Launch(why)) => Some(why),
        _ => None,
    };
    refused_block(kernel, launch, arch).or_else(|| misfit(kernel))
}

fn refused_block(kernel: &Kernel, launch: &Launch, arch: u32) -> Option<String> {
    let Launch { grid, block, .. } = launch;
    let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
    if grid.contains(&0) || threads == 0 {
        return Some(format!("grid {grid:?} and block {block:?} must not contain zeros"));
    }
    if threads > 1024 || block[2] > 64 {
        return Some(format!(
            "a block of {block:?} has {threads} threads; the limit is 1024 threads, and 64 in z"
        ));
    }
    if grid[1] > 65535 || grid[2] > 65535 || grid[0] > i32::MAX as u32 {
        return Some(format!("grid {grid:?} exceeds 2^31-1 x 65535 x 65535"));
    }
    if let Some(required) = kernel.required_threads.filter(|required| required != block) {
        return Some(format!("{} requires .reqntid {required:?}, not a block of {block:?}", kernel.name));
    }
    if let Some(most) = kernel.max_threads.filter(|most| threads > *most) {
        return Some(format!("{} allows .maxntid {most} threads, not {threads}", kernel.name));
    }
    let shared = u64::from(kernel.shared_bytes) + u64::from(launch.shared_bytes);
    let limit = shared_limit(arch);
    (shared > u64::from(limit))
        .then(|| format!("{shared} bytes of shared memory; the limit of sm_{arch} is {limit}"))
}

/// Checks that a kernel for this architecture can be launched this way.
pub(crate) fn check(kernel: &Kernel, launch: &Launch, arch: u32) -> Result<(), Stop> {
    let fail = |what: String| Err(Stop::Launch(what));
    if let Some(why) = refused_block(kernel, launch, arch) {
        return fail(why);
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
    Ok(())
}
