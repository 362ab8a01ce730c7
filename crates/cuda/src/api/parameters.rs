//! C structs that describe copies and graph nodes, and their conversion to work.
#![expect(unsafe_code, reason = "structs of a C program")]

use std::ffi::c_int;

use crate::api::launch_parameters::packed;
use crate::api::refusals::refuse_as_cuda;
use crate::device::arguments::Pointers;
use crate::device::conditionals::CONDITIONAL;
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::device::submit::kernel_work;
use crate::device::work::{CopyWork, Extent, FillWork, HostFunction, KernelWork, Memory, Shape, Side, Work};
use crate::program::pointers::In;
use crate::status::Status;

/// `cudaExtent`; the width is in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent3D {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

impl From<Extent3D> for Extent {
    fn from(of: Extent3D) -> Self {
        Self { width: of.width, height: of.height, depth: of.depth }
    }
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pitched {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Pitched {
    /// The side of a copy that begins at byte x, row y, slice z.
    fn side(&self, [x, y, z]: [usize; 3]) -> Side {
        let slice = self.pitch.wrapping_mul(self.height);
        let at = z.wrapping_mul(slice).wrapping_add(y.wrapping_mul(self.pitch)).wrapping_add(x);
        Side { address: self.address.wrapping_add(at as u64), pitch: self.pitch, slice, memory: Memory::Any }
    }

    /// Fills a box with one byte value.
    pub(crate) fn fill(&self, value: u32, extent: Extent3D) -> FillWork {
        let to = Side { memory: Memory::Device, ..self.side([0; 3]) };
        FillWork { to, value, element: 1, extent: extent.into() }
    }
}

/// One side of a copy between boxes: in an array, or in pitched memory.
struct BoxSide<'a> {
    array: u64,
    at: [usize; 3],
    pitched: &'a Pitched,
}

/// The copy between two boxes of the runtime. If one of them is in an array, the width is in texels of it; the other one must be in an array
/// of texels of the same size, or in memory, where x is in bytes.
fn box_copy(to: &BoxSide<'_>, from: &BoxSide<'_>, extent: Extent3D) -> Result<CopyWork, Status> {
    let texel = |array: u64| -> Result<usize, Status> {
        if array == 0 {
            return Ok(1);
        }
        Ok(device()?.arrays.get(array)?.image.format.bytes() as usize)
    };
    let (to_texel, from_texel) = (texel(to.array)?, texel(from.array)?);
    if to.array != 0 && from.array != 0 && to_texel != from_texel {
        return Err(Status::INVALID_VALUE);
    }
    let width = extent.width.checked_mul(to_texel.max(from_texel)).ok_or(Status::INVALID_VALUE)?;
    let side = |side: &BoxSide<'_>, texel: usize| -> Result<Side, Status> {
        if side.array == 0 {
            return Ok(side.pitched.side(side.at));
        }
        let [x, y, z] = side.at;
        let at = [x.checked_mul(texel).ok_or(Status::INVALID_VALUE)?, y, z];
        device()?.array_side(side.array, at, [width, extent.height, extent.depth])
    };
    let extent = Extent { width, ..extent.into() };
    Ok(CopyWork { to: side(to, to_texel)?, from: side(from, from_texel)?, extent })
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memcpy3D {
    from_array: u64,
    from_at: [usize; 3],
    from: Pitched,
    to_array: u64,
    to_at: [usize; 3],
    to: Pitched,
    extent: Extent3D,
    kind: u32,
}

impl Memcpy3D {
    pub(crate) fn work(&self) -> Result<CopyWork, Status> {
        let to = BoxSide { array: self.to_array, at: self.to_at, pitched: &self.to };
        let from = BoxSide { array: self.from_array, at: self.from_at, pitched: &self.from };
        let work = box_copy(&to, &from, self.extent)?;
        let arrays = self.to_array != 0 || self.from_array != 0;
        // An array is memory of the device, whatever the call declares.
        if arrays { Ok(work) } else { work.of_kind(self.kind) }
    }

    /// Describes the work of a copy, for queries of a node.
    pub(crate) fn from_work(work: &CopyWork) -> Self {
        let pitched = |side: &Side| Pitched {
            address: side.address,
            pitch: side.pitch,
            width: work.extent.width,
            height: side.slice.checked_div(side.pitch).unwrap_or(0),
        };
        let Extent { width, height, depth } = work.extent;
        Self {
            from_array: 0,
            from_at: [0; 3],
            from: pitched(&work.from),
            to_array: 0,
            to_at: [0; 3],
            to: pitched(&work.to),
            extent: Extent3D { width, height, depth },
            // `cudaMemcpyDefault`: the addresses determine the direction.
            kind: 4,
        }
    }
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub(crate) const DEVICE_LOCATION: c_int = 1;

/// `cudaMemLocation` and `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// `cudaMemAccessDesc` and `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessDescriptor {
    pub(crate) location: Location,
    pub(crate) flags: u32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memcpy3DPeer {
    from_array: u64,
    from_at: [usize; 3],
    from: Pitched,
    from_device: u32,
    to_array: u64,
    to_at: [usize; 3],
    to: Pitched,
    to_device: u32,
    extent: Extent3D,
}

impl Memcpy3DPeer {
    pub(crate) fn work(&self) -> Result<CopyWork, Status> {
        if self.from_device != 0 || self.to_device != 0 {
            return Err(Status::INVALID_DEVICE);
        }
        let to = BoxSide { array: self.to_array, at: self.to_at, pitched: &self.to };
        let from = BoxSide { array: self.from_array, at: self.from_at, pitched: &self.from };
        Ok(box_copy(&to, &from, self.extent)?.between(Memory::Device, Memory::Device))
    }
}

/// `CU_MEMORYTYPE_ARRAY`.
const ARRAY: u32 = 3;

/// The address of one side of a driver copy, by its memory type: 1 host, 2 device, 4 unified.
fn base(kind: u32, host: u64, device: u64) -> Result<u64, Status> {
    match kind {
        1 => Ok(host),
        2 | 4 => Ok(device),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// What a memory type says about an address.
const fn declared(kind: u32) -> Memory {
    if kind == 2 || kind == ARRAY { Memory::Device } else { Memory::Any }
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy2D {
    from: Side2D,
    to: Side2D,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Side2D {
    x: usize,
    y: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

impl Side2D {
    fn place(&self, width: usize, height: usize) -> Result<(u64, usize), Status> {
        if self.kind == ARRAY {
            let side = device()?.array_side(self.array, [self.x, self.y, 0], [width, height, 1])?;
            return Ok((side.address, side.pitch));
        }
        // Without a pitch, rows are contiguous.
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let at = self.y.wrapping_mul(pitch).wrapping_add(self.x);
        Ok((base(self.kind, self.host, self.device)?.wrapping_add(at as u64), pitch))
    }
}

impl Copy2D {
    pub(crate) fn work(&self) -> Result<CopyWork, Status> {
        let Self { from, to, width, height } = *self;
        let work = CopyWork::rows(to.place(width, height)?, from.place(width, height)?, width, height);
        Ok(work.between(declared(to.kind), declared(from.kind)))
    }
}

/// `CUDA_MEMCPY3D`, and `CUDA_MEMCPY3D_PEER`, which has a context in a field that is reserved here.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy3D {
    from: Side3D,
    to: Side3D,
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Side3D {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    context: u64,
    pitch: usize,
    height: usize,
}

impl Side3D {
    fn side(&self, copy: &Copy3D) -> Result<Side, Status> {
        if self.kind == ARRAY {
            let extent = [copy.width, copy.height, copy.depth];
            return device()?.array_side(self.array, [self.x, self.y, self.z], extent);
        }
        let pitch = if self.pitch == 0 { copy.width } else { self.pitch };
        let height = if self.height == 0 { copy.height } else { self.height };
        let held = Pitched { address: base(self.kind, self.host, self.device)?, pitch, width: 0, height };
        Ok(held.side([self.x, self.y, self.z]))
    }

    fn from_side(side: &Side) -> Self {
        let height = side.slice.checked_div(side.pitch).unwrap_or(0);
        let (pitch, device) = (side.pitch, side.address);
        Self { x: 0, y: 0, z: 0, level: 0, kind: 4, host: 0, device, array: 0, context: 0, pitch, height }
    }
}

impl Copy3D {
    pub(crate) fn work(&self) -> Result<CopyWork, Status> {
        let extent = Extent { width: self.width, height: self.height, depth: self.depth };
        let work = CopyWork { to: self.to.side(self)?, from: self.from.side(self)?, extent };
        Ok(work.between(declared(self.to.kind), declared(self.from.kind)))
    }

    pub(crate) fn from_work(work: &CopyWork) -> Self {
        let Extent { width, height, depth } = work.extent;
        Self { from: Side3D::from_side(&work.from), to: Side3D::from_side(&work.to), width, height, depth }
    }
}

/// `cudaMemsetParams` and `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct FillParameters {
    to: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

impl FillParameters {
    pub(crate) fn work(&self) -> Result<Work, Status> {
        let to = (self.to, self.pitch);
        let fill = FillWork::rows(to, self.value, self.element as usize, self.width, self.height)?;
        Ok(Work::Fill(fill))
    }

    pub(crate) fn from_work(work: &FillWork) -> Self {
        let FillWork { to, value, element, extent } = *work;
        let width = extent.width.checked_div(element).unwrap_or(0);
        Self { to: to.address, pitch: to.pitch, value, element: element as u32, width, height: extent.height }
    }
}

/// `cudaHostNodeParams` and `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostParameters {
    pub(crate) function: HostFunction,
    pub(crate) data: u64,
}

impl HostParameters {
    pub(crate) fn work(&self) -> Work {
        Work::Host { function: self.function, data: self.data }
    }
}

/// `cudaKernelNodeParams` and `CUDA_KERNEL_NODE_PARAMS`; newer forms add a handle that is used if `function` is null.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelParameters {
    pub(crate) function: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) pointers: In<u64>,
    pub(crate) extra: u64,
}

impl KernelParameters {
    /// Returns the launch; cluster and cooperative mode are kept from the node's previous launch.
    ///
    /// # Safety
    /// The arguments are those that the kernel has, as [`Pointers::from_array`] and [`packed`] demand.
    pub(crate) unsafe fn work(&self, before: Option<&KernelWork>, kernel: u64) -> Result<KernelWork, Status> {
        let held = before.map(|b| b.shape.clone()).unwrap_or_default();
        let shape = Shape { grid: self.grid, block: self.block, shared_bytes: self.shared, ..held };
        let symbol = if self.function == 0 { kernel } else { self.function };
        // SAFETY: as promised by the caller.
        match unsafe { packed(self.extra) }? {
            Some(packed) => kernel_work(symbol, shape, &packed),
            // SAFETY: as above.
            None => kernel_work(symbol, shape, &unsafe { Pointers::from_array(self.pointers) }),
        }
    }
}

/// The API that a struct belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Driver,
    Runtime,
}

/// Bytes before the union of `cudaGraphNodeParams`.
pub(crate) const UNION: u64 = 16;
/// Offsets in `cudaMemAllocNodeParams`: the size in bytes, and the address, which is an output.
const ALLOCATION: (u64, u64) = (88 + 16, 88 + 24);

/// Returns the work of the `cudaGraphNodeParams` or `CUgraphNodeParams` at an address. For a memory node, also returns the place to which
/// the caller writes the allocated address.
///
/// # Safety
/// The address is null or that of such a struct of this API, whose union holds what its type says.
pub(crate) unsafe fn any_work(
    at: u64,
    api: Api,
    allocate: impl FnOnce(usize) -> Result<u64, Status>,
) -> Result<(Work, Option<u64>), Status> {
    /// Reads a part of the struct.
    ///
    /// # Safety
    /// As [`any_work`].
    unsafe fn part<T: Copy>(at: u64) -> Result<T, Status> {
        // SAFETY: as promised by the caller.
        unsafe { In::<T>::at(at) }.get()
    }
    // SAFETY: the type precedes the union.
    let kind = unsafe { part::<u32>(at)? };
    let body = at + UNION;
    // SAFETY: the first word of the union, in the types that have one number.
    let word = || unsafe { part::<u64>(body) };
    // SAFETY: each type of node reads the part of the union that belongs to it.
    let work = unsafe {
        match kind {
            0 => {
                let kernel = if api == Api::Driver { part(body + 56)? } else { 0 };
                Work::Launch(Box::new(part::<KernelParameters>(body)?.work(None, kernel)?))
            }
            // Flags and a context precede the copy.
            1 if api == Api::Driver => Work::Copy(part::<Copy3D>(body + 16)?.work()?),
            1 => Work::Copy(part::<Memcpy3D>(body + 16)?.work()?),
            2 => part::<FillParameters>(body)?.work()?,
            3 => part::<HostParameters>(body)?.work(),
            4 => Work::Child(Handle::Graph.index(word()?).ok_or(Status::INVALID_VALUE)? as u64),
            5 => Work::Empty,
            6 => Work::Wait(word()?),
            7 => Work::Record(word()?),
            10 => {
                let len = part::<usize>(body + ALLOCATION.0)?;
                return Ok((Work::Allocate(allocate(len)?, len), Some(body + ALLOCATION.1)));
            }
            11 => Work::Free(word()?),
            CONDITIONAL => return Err(refuse_as_cuda("the parameters of a conditional node do not change")),
            _ => return Err(Status::NOT_SUPPORTED),
        }
    };
    Ok((work, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_headers() {
        assert_eq!((size_of::<Memcpy3D>(), size_of::<Memcpy3DPeer>()), (160, 168));
        assert_eq!((size_of::<Copy2D>(), size_of::<Copy3D>()), (128, 200));
        assert_eq!((size_of::<KernelParameters>(), size_of::<FillParameters>()), (56, 40));
    }

    #[test]
    fn a_copy_is_what_its_struct_says() {
        let side = |address| Side { address, pitch: 64, slice: 256, memory: Memory::Any };
        let work = CopyWork {
            to: side(0x1000),
            from: side(0x9000),
            extent: Extent { width: 16, height: 3, depth: 2 },
        };
        assert_eq!(Memcpy3D::from_work(&work).work(), Ok(work));
        assert_eq!(Copy3D::from_work(&work).work(), Ok(work));
    }
}
