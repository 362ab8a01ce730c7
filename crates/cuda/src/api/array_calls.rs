//! Entry points of both APIs for arrays: creation, description, copies.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use emulator::texture::{Channel, TexelFormat};

use crate::api::parameters::Extent3D;
use crate::api::table::entry_points;
use crate::device::arrays::{Array, Size};
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::device::submit::submit;
use crate::device::work::{CopyWork, Extent, Memory, Side, Work};
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

/// `cudaChannelFormatDesc`: the bits of each channel, and what they are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelFormat {
    pub(crate) bits: [c_int; 4],
    pub(crate) kind: c_int,
}

impl ChannelFormat {
    /// The format of a texel.
    pub(crate) fn texel(self) -> Result<TexelFormat, Status> {
        let channels = self.bits.iter().take_while(|bits| **bits > 0).count() as u32;
        let bits = self.bits[0] as u32;
        let alike = self.bits.iter().take(channels as usize).all(|other| *other as u32 == bits);
        let channel = match self.kind {
            0 => Channel::Signed,
            1 => Channel::Unsigned,
            2 => Channel::Float,
            // Compressed and planar formats.
            _ => return Err(Status::NOT_SUPPORTED),
        };
        let known = matches!(bits, 8 | 16 | 32) && matches!(channels, 1 | 2 | 4) && alike;
        if known && !(channel == Channel::Float && bits == 8) {
            Ok(TexelFormat { channel, bits, channels })
        } else {
            Err(Status::INVALID_VALUE)
        }
    }

    fn from_texel(format: TexelFormat) -> Self {
        let kind = match format.channel {
            Channel::Signed => 0,
            Channel::Unsigned => 1,
            Channel::Float => 2,
        };
        let bits =
            std::array::from_fn(|n| if n < format.channels as usize { format.bits as c_int } else { 0 });
        Self { bits, kind }
    }
}

/// The format of a `CUarray_format` with so many channels.
pub(crate) fn driver_texel(format: u32, channels: u32) -> Result<TexelFormat, Status> {
    let (channel, bits) = match format {
        1 => (Channel::Unsigned, 8),
        2 => (Channel::Unsigned, 16),
        3 => (Channel::Unsigned, 32),
        8 => (Channel::Signed, 8),
        9 => (Channel::Signed, 16),
        10 => (Channel::Signed, 32),
        16 => (Channel::Float, 16),
        32 => (Channel::Float, 32),
        0 => return Err(Status::INVALID_VALUE),
        _ => return Err(Status::NOT_SUPPORTED),
    };
    if matches!(channels, 1 | 2 | 4) {
        Ok(TexelFormat { channel, bits, channels })
    } else {
        Err(Status::INVALID_VALUE)
    }
}

/// The `CUarray_format` of a texel.
const fn driver_format(format: TexelFormat) -> u32 {
    match (format.channel, format.bits) {
        (Channel::Unsigned, 8) => 1,
        (Channel::Unsigned, 16) => 2,
        (Channel::Unsigned, _) => 3,
        (Channel::Signed, 8) => 8,
        (Channel::Signed, 16) => 9,
        (Channel::Signed, _) => 10,
        (Channel::Float, 16) => 16,
        (Channel::Float, _) => 32,
    }
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Descriptor3D {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

fn create(to: Out<u64>, kind: Handle, format: TexelFormat, size: Size, levels: u32, flags: u32) -> Answer {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let made = device()?.create_array(kind, format, size, levels, flags)?;
    to.set(made)
}

fn described<T>(array: u64, of: impl FnOnce(&Array) -> T) -> Result<T, Status> {
    Ok(of(device()?.arrays.get(array)?))
}

fn free(array: u64) -> Answer {
    let mut device = device()?;
    device.streams.unsafe_call()?;
    device.free_array(array)
}

/// The driver has no array of this handle.
fn destroy(array: u64) -> Answer {
    if array == 0 { Err(Status::INVALID_HANDLE) } else { free(array).map_err(|_| Status::INVALID_HANDLE) }
}

fn side_of(array: u64, at: [usize; 2], extent: [usize; 2]) -> Result<Side, Status> {
    device()?.array_side(array, [at[0], at[1], 0], [extent[0], extent[1], 1])
}

/// The side of a copy that lies in other memory.
const fn rows(address: u64, pitch: usize, height: usize) -> Side {
    Side { address, pitch, slice: pitch.saturating_mul(height), memory: Memory::Any }
}

/// A copy of rows between an array and other memory, or between arrays.
///
/// # Safety
/// As [`submit`], here and below.
unsafe fn copy(stream: Option<u64>, to: Side, from: Side, [width, height]: [usize; 2]) -> Answer {
    if stream.is_none() {
        device()?.streams.unsafe_call()?;
    }
    let work = CopyWork { to, from, extent: Extent { width, height, depth: 1 } };
    // SAFETY: as promised by the caller.
    unsafe { submit(stream.unwrap_or(0), Work::Copy(work)) }
}

/// The rows of an array that `count` bytes from a place fill: whole rows, or a part of one.
fn filled(array: u64, x: usize, count: usize) -> Result<[usize; 2], Status> {
    let width = described(array, |array| array.image.levels[0].pitch as usize)?;
    if x.checked_add(count).is_some_and(|end| end <= width) {
        return Ok([count, 1]);
    }
    // Bytes beyond the first row go on at the beginning of the next one, which a box does not describe.
    if x != 0 || !count.is_multiple_of(width) {
        return Err(Status::INVALID_VALUE);
    }
    Ok([width, count / width])
}

entry_points! {
    ARRAY, ARRAY_CALLS;

    [cudaMallocArray: (Primary, zeros INVALID_VALUE)]
    fn (array: Out<u64>, format: In<ChannelFormat>, width: usize, height: usize, flags: u32) {
        create(array, Handle::Array, format.get()?.texel()?, [width, height, 0], 1, flags)
    }
    [cudaMalloc3DArray: (Primary, zeros INVALID_VALUE)]
    fn (array: Out<u64>, format: In<ChannelFormat>, extent: Extent3D, flags: u32) {
        let Extent3D { width, height, depth } = extent;
        create(array, Handle::Array, format.get()?.texel()?, [width, height, depth], 1, flags)
    }
    [cudaMallocMipmappedArray: (Primary, zeros INVALID_VALUE)]
    fn (array: Out<u64>, format: In<ChannelFormat>, extent: Extent3D, levels: u32, flags: u32) {
        let Extent3D { width, height, depth } = extent;
        create(array, Handle::Mipmap, format.get()?.texel()?, [width, height, depth], levels, flags)
    }
    [cuArrayCreate_v2: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (array: Out<u64>, descriptor: In<Descriptor>) {
        let Descriptor { width, height, format, channels } = descriptor.get()?;
        create(array, Handle::Array, driver_texel(format, channels)?, [width, height, 0], 1, 0)
    }
    [cuArray3DCreate_v2: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (array: Out<u64>, descriptor: In<Descriptor3D>) {
        let Descriptor3D { width, height, depth, format, channels, flags } = descriptor.get()?;
        create(array, Handle::Array, driver_texel(format, channels)?, [width, height, depth], 1, flags)
    }
    [cuMipmappedArrayCreate: (Current, zeros INVALID_VALUE, since 5_000)]
    fn (array: Out<u64>, descriptor: In<Descriptor3D>, levels: u32) {
        let Descriptor3D { width, height, depth, format, channels, flags } = descriptor.get()?;
        create(array, Handle::Mipmap, driver_texel(format, channels)?, [width, height, depth], levels, flags)
    }
    [cudaGetMipmappedArrayLevel: (Primary, zeros INVALID_VALUE)]
    fn (to: Out<u64>, mipmap: u64, level: u32) {
        let made = device()?.array_of_level(mipmap, level)?;
        to.set(made)
    }
    [cuMipmappedArrayGetLevel: (Current, zeros INVALID_HANDLE, since 5_000)]
    fn (to: Out<u64>, mipmap: u64, level: u32) {
        described(mipmap, |_| ()).map_err(|_| Status::INVALID_HANDLE)?;
        let made = device()?.array_of_level(mipmap, level)?;
        to.set(made)
    }
    [cudaFreeArray, cudaFreeMipmappedArray: (Primary, zeros SUCCESS)]
    fn (array: u64) { free(array) }
    [cuArrayDestroy: (Current, zeros INVALID_HANDLE, since 2_000)]
    [cuMipmappedArrayDestroy: (Current, zeros INVALID_HANDLE, since 5_000)]
    fn (array: u64) { destroy(array) }
    [cudaArrayGetInfo: (Primary, zeros INVALID_VALUE)]
    fn (format: Out<ChannelFormat>, extent: Out<Extent3D>, flags: Out<u32>, array: u64) {
        let (texel, [width, height, depth], found) =
            described(array, |array| (array.image.format, array.size, array.flags))?;
        format.set_if(ChannelFormat::from_texel(texel));
        extent.set_if(Extent3D { width, height, depth });
        flags.set_if(found);
        Ok(())
    }
    [cudaGetChannelDesc: (Primary, zeros INVALID_VALUE)]
    fn (format: Out<ChannelFormat>, array: u64) {
        format.set(ChannelFormat::from_texel(described(array, |array| array.image.format)?))
    }
    [cuArrayGetDescriptor_v2: (Current, zeros INVALID_HANDLE, since 3_020)]
    fn (descriptor: Out<Descriptor>, array: u64) {
        let (texel, [width, height, _]) =
            described(array, |array| (array.image.format, array.size)).map_err(|_| Status::INVALID_HANDLE)?;
        descriptor.set(Descriptor { width, height, format: driver_format(texel), channels: texel.channels })
    }
    [cuArray3DGetDescriptor_v2: (Current, zeros INVALID_HANDLE, since 3_020)]
    fn (descriptor: Out<Descriptor3D>, array: u64) {
        let (texel, [width, height, depth], flags) =
            described(array, |array| (array.image.format, array.size, array.flags)).map_err(|_| Status::INVALID_HANDLE)?;
        let (format, channels) = (driver_format(texel), texel.channels);
        descriptor.set(Descriptor3D { width, height, depth, format, channels, flags })
    }

    [cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds: (Primary, zeros INVALID_VALUE)]
    fn (array: u64, x: usize, y: usize, from: u64, from_pitch: usize, width: usize, height: usize, _kind: c_int) {
        copy(None, side_of(array, [x, y], [width, height])?, rows(from, from_pitch, height), [width, height])
    }
    [cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (array: u64, x: usize, y: usize, from: u64, from_pitch: usize, width: usize, height: usize, _kind: c_int, stream: u64) {
        copy(Some(stream), side_of(array, [x, y], [width, height])?, rows(from, from_pitch, height), [width, height])
    }
    [cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds: (Primary, zeros INVALID_VALUE)]
    fn (to: u64, to_pitch: usize, array: u64, x: usize, y: usize, width: usize, height: usize, _kind: c_int) {
        copy(None, rows(to, to_pitch, height), side_of(array, [x, y], [width, height])?, [width, height])
    }
    [cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (to: u64, to_pitch: usize, array: u64, x: usize, y: usize, width: usize, height: usize, _kind: c_int, stream: u64) {
        copy(Some(stream), rows(to, to_pitch, height), side_of(array, [x, y], [width, height])?, [width, height])
    }
    [cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds: (Primary, zeros INVALID_VALUE)]
    fn (array: u64, x: usize, y: usize, from_array: u64, from_x: usize, from_y: usize, width: usize, height: usize, _kind: c_int) {
        let size = [width, height];
        copy(None, side_of(array, [x, y], size)?, side_of(from_array, [from_x, from_y], size)?, size)
    }
    [cudaMemcpyToArray, cudaMemcpyToArray_ptds: (Primary, zeros INVALID_VALUE)]
    fn (array: u64, x: usize, y: usize, from: u64, len: usize, _kind: c_int) {
        let size = filled(array, x, len)?;
        copy(None, side_of(array, [x, y], size)?, rows(from, size[0], size[1]), size)
    }
    [cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (array: u64, x: usize, y: usize, from: u64, len: usize, _kind: c_int, stream: u64) {
        let size = filled(array, x, len)?;
        copy(Some(stream), side_of(array, [x, y], size)?, rows(from, size[0], size[1]), size)
    }
    [cudaMemcpyFromArray, cudaMemcpyFromArray_ptds: (Primary, zeros INVALID_VALUE)]
    fn (to: u64, array: u64, x: usize, y: usize, len: usize, _kind: c_int) {
        let size = filled(array, x, len)?;
        copy(None, rows(to, size[0], size[1]), side_of(array, [x, y], size)?, size)
    }
    [cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (to: u64, array: u64, x: usize, y: usize, len: usize, _kind: c_int, stream: u64) {
        let size = filled(array, x, len)?;
        copy(Some(stream), rows(to, size[0], size[1]), side_of(array, [x, y], size)?, size)
    }
    // Offsets are bytes of the first row.
    [cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    [cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (array: u64, x: usize, from: u64, len: usize) {
        let size = filled(array, x, len)?;
        copy(None, side_of(array, [x, 0], size)?, rows(from, size[0], size[1]), size)
    }
    [cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (array: u64, x: usize, from: u64, len: usize, stream: u64) {
        let size = filled(array, x, len)?;
        copy(Some(stream), side_of(array, [x, 0], size)?, rows(from, size[0], size[1]), size)
    }
    [cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    [cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (to: u64, array: u64, x: usize, len: usize) {
        let size = filled(array, x, len)?;
        copy(None, rows(to, size[0], size[1]), side_of(array, [x, 0], size)?, size)
    }
    [cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz: (Init, zeros INVALID_VALUE, since 3_020)]
    fn (to: u64, array: u64, x: usize, len: usize, stream: u64) {
        let size = filled(array, x, len)?;
        copy(Some(stream), rows(to, size[0], size[1]), side_of(array, [x, 0], size)?, size)
    }
    [cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds: (Current, zeros INVALID_VALUE, since 3_020)]
    fn (array: u64, x: usize, from_array: u64, from_x: usize, len: usize) {
        let size = filled(array, x, len)?;
        if filled(from_array, from_x, len)? != size { return Err(Status::INVALID_VALUE); }
        copy(None, side_of(array, [x, 0], size)?, side_of(from_array, [from_x, 0], size)?, size)
    }
}
