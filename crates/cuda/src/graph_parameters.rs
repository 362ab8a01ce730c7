//! C structs that describe copies and graph nodes, and their conversion to work.

use crate::api::{In, Packed, Pointers, host_bytes};
use crate::device::Handle;
use crate::launch::Shape;
use crate::status::Status;
use crate::work::{CopyWork, Extent, FillWork, HostFunction, KernelWork, Side, Work, kernel_work};

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
        Side { address: self.address.wrapping_add(at as u64), pitch: self.pitch, slice }
    }

    /// Fills a box with one byte value.
    pub(crate) fn fill(&self, value: u32, extent: Extent3D) -> FillWork {
        FillWork { to: self.side([0; 3]), value, element: 1, extent: extent.into() }
    }
}

/// Arrays cannot be created, so any array handle is invalid.
fn no_array(array: u64) -> Result<(), Status> {
    if array == 0 { Ok(()) } else { Err(Status::INVALID_VALUE) }
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
        no_array(self.from_array | self.to_array)?;
        Ok(CopyWork {
            to: self.to.side(self.to_at),
            from: self.from.side(self.from_at),
            extent: self.extent.into(),
        })
    }

    /// Describes the work of a copy, for queries of a node.
    pub(crate) fn of(work: &CopyWork) -> Self {
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
        no_array(self.from_array | self.to_array)?;
        if self.from_device != 0 || self.to_device != 0 {
            return Err(Status::INVALID_DEVICE);
        }
        Ok(CopyWork {
            to: self.to.side(self.to_at),
            from: self.from.side(self.from_at),
            extent: self.extent.into(),
        })
    }
}

/// The address of one side of a driver copy, by its memory type: 1 host, 2 device, 4 unified.
fn base(kind: u32, host: u64, device: u64) -> Result<u64, Status> {
    match kind {
        1 => Ok(host),
        2 | 4 => Ok(device),
        _ => Err(Status::INVALID_VALUE),
    }
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
    fn place(&self, width: usize) -> Result<(u64, usize), Status> {
        // Without a pitch, rows are contiguous.
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let at = self.y.wrapping_mul(pitch).wrapping_add(self.x);
        Ok((base(self.kind, self.host, self.device)?.wrapping_add(at as u64), pitch))
    }
}

impl Copy2D {
    pub(crate) fn work(&self) -> Result<CopyWork, Status> {
        let Self { from, to, width, height } = *self;
        Ok(CopyWork::rows(to.place(width)?, from.place(width)?, width, height))
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
        let pitch = if self.pitch == 0 { copy.width } else { self.pitch };
        let height = if self.height == 0 { copy.height } else { self.height };
        let held = Pitched { address: base(self.kind, self.host, self.device)?, pitch, width: 0, height };
        Ok(held.side([self.x, self.y, self.z]))
    }

    fn of(side: &Side) -> Self {
        let height = side.slice.checked_div(side.pitch).unwrap_or(0);
        let (pitch, device) = (side.pitch, side.address);
        Self { x: 0, y: 0, z: 0, level: 0, kind: 4, host: 0, device, array: 0, context: 0, pitch, height }
    }
}

impl Copy3D {
    pub(crate) fn work(&self) -> Result<CopyWork, Status> {
        let extent = Extent { width: self.width, height: self.height, depth: self.depth };
        Ok(CopyWork { to: self.to.side(self)?, from: self.from.side(self)?, extent })
    }

    pub(crate) fn of(work: &CopyWork) -> Self {
        let Extent { width, height, depth } = work.extent;
        Self { from: Side3D::of(&work.from), to: Side3D::of(&work.to), width, height, depth }
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

    pub(crate) fn of(work: &FillWork) -> Self {
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
    pub(crate) fn work(&self, before: Option<&KernelWork>, kernel: u64) -> Result<KernelWork, Status> {
        let held = before.map(|b| b.shape.clone()).unwrap_or_default();
        let shape = Shape { grid: self.grid, block: self.block, shared_bytes: self.shared, ..held };
        let symbol = if self.function == 0 { kernel } else { self.function };
        match packed(self.extra)? {
            Some(packed) => kernel_work(symbol, shape, &packed),
            None => kernel_work(symbol, shape, &Pointers(self.pointers)),
        }
    }
}

/// The arguments in one buffer (`CU_LAUNCH_PARAM_BUFFER_POINTER`): pairs of key and value; 1 is the buffer, 2 a pointer to its size, 0 the
/// end.
pub(crate) fn packed(extra: u64) -> Result<Option<Packed>, Status> {
    if extra == 0 {
        return Ok(None);
    }
    let (mut buffer, mut size) = (0, 0);
    let list = In::<u64>::at(extra);
    for n in 0..4 {
        match (list.nth(2 * n)?, n) {
            (1, _) => buffer = list.nth(2 * n + 1)?,
            (2, _) => size = In::<usize>::at(list.nth(2 * n + 1)?).get()?,
            _ => break,
        }
    }
    Ok(Some(Packed(host_bytes(buffer, size)?.to_vec())))
}

/// The API that a struct belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Driver,
    Runtime,
}

/// Bytes before the union of `cudaGraphNodeParams`.
const UNION: u64 = 16;
/// Offsets in `cudaMemAllocNodeParams`: the size in bytes, and the address, which is an output.
const ALLOCATION: (u64, u64) = (88 + 16, 88 + 24);

/// Returns the work of the `cudaGraphNodeParams` or `CUgraphNodeParams` at an address. For a memory node, also returns the place to which
/// the caller writes the allocated address.
pub(crate) fn any_work(
    at: u64,
    api: Api,
    allocate: impl FnOnce(usize) -> Result<u64, Status>,
) -> Result<(Work, Option<u64>), Status> {
    let kind = In::<u32>::at(at).get()?;
    let body = at + UNION;
    let word = || In::<u64>::at(body).get();
    let work = match kind {
        0 => {
            let kernel = if api == Api::Driver { In::<u64>::at(body + 56).get()? } else { 0 };
            Work::Launch(Box::new(In::<KernelParameters>::at(body).get()?.work(None, kernel)?))
        }
        // Flags and a context precede the copy.
        1 if api == Api::Driver => Work::Copy(In::<Copy3D>::at(body + 16).get()?.work()?),
        1 => Work::Copy(In::<Memcpy3D>::at(body + 16).get()?.work()?),
        2 => In::<FillParameters>::at(body).get()?.work()?,
        3 => In::<HostParameters>::at(body).get()?.work(),
        4 => Work::Child(Handle::Graph.index(word()?).ok_or(Status::INVALID_VALUE)? as u64),
        5 => Work::Empty,
        6 => Work::Wait(word()?),
        7 => Work::Record(word()?),
        10 => {
            let len = In::<usize>::at(body + ALLOCATION.0).get()?;
            return Ok((Work::Allocate(allocate(len)?, len), Some(body + ALLOCATION.1)));
        }
        11 => Work::Free(word()?),
        _ => return Err(Status::NOT_SUPPORTED),
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
        let side = |address| Side { address, pitch: 64, slice: 256 };
        let work = CopyWork {
            to: side(0x1000),
            from: side(0x9000),
            extent: Extent { width: 16, height: 3, depth: 2 },
        };
        assert_eq!(Memcpy3D::of(&work).work(), Ok(work));
        assert_eq!(Copy3D::of(&work).work(), Ok(work));
    }
}
