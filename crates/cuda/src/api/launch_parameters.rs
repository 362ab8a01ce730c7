//! C structs that describe launches, and their conversion.
#![expect(unsafe_code, reason = "structs of a C program")]

use crate::device::arguments::Packed;
use crate::device::state::device;
use crate::device::work::Shape;
use crate::program::pointers::{In, host_bytes};
use crate::status::{Answer, Status};

/// `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

impl From<Dim3> for [u32; 3] {
    fn from(dim: Dim3) -> Self {
        [dim.x, dim.y, dim.z]
    }
}

/// `cudaLaunchAttributeAccessPolicyWindow`.
pub(crate) const ACCESS_POLICY_WINDOW: u32 = 1;

/// What is said of a program that asks for persistence in L2.
pub(crate) const PERSISTENCE: &str = "the program asks for persistence in L2 (cudaLimitPersistingL2CacheSize, an access policy window, \
                                      cudaCtxResetPersistingL2Cache): it changes times and no result, and does nothing here";

/// `cudaLaunchAttribute` and `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

impl LaunchAttribute {
    pub(crate) const fn with_id(id: u32, value: [u32; 16]) -> Self {
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
            ACCESS_POLICY_WINDOW => device()?.results.remark(PERSISTENCE.to_owned()),
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

/// The arguments in one buffer (`CU_LAUNCH_PARAM_BUFFER_POINTER`): pairs of key and value; 1 is the buffer, 2 a pointer to its size, 0 the
/// end.
///
/// # Safety
/// The address is null or that of such pairs, which point to a buffer of the size that they name.
pub(crate) unsafe fn packed(extra: u64) -> Result<Option<Packed>, Status> {
    if extra == 0 {
        return Ok(None);
    }
    let (mut buffer, mut size) = (0, 0);
    // SAFETY: as promised by the caller; a key other than 1 and 2 ends the pairs.
    let word = |n: usize| unsafe { In::<u64>::at(extra).nth(n) };
    for n in 0..4 {
        match word(2 * n)? {
            1 => buffer = word(2 * n + 1)?,
            // SAFETY: as promised by the caller.
            2 => size = unsafe { In::<usize>::at(word(2 * n + 1)?) }.get()?,
            _ => break,
        }
    }
    // SAFETY: as promised by the caller.
    Ok(Some(Packed(unsafe { host_bytes(buffer, size) }?.to_vec())))
}
