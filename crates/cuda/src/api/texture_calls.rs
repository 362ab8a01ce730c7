//! Entry points of both APIs for texture and surface objects.
#![expect(unsafe_code, reason = "exported names")]

use emulator::texture::{
    Addressing, Arrangement, Channel, Image, Level, Sampling, TexelFormat, TextureObject,
};

use crate::api::array_calls::{ChannelFormat, driver_texel};
use crate::api::table::entry_points;
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

/// `cudaResourceDesc`: a kind, and a union of which 56 bytes have a meaning.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RuntimeResource {
    kind: u32,
    union: [u64; 7],
}

/// `CUDA_RESOURCE_DESC`, whose union is longer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DriverResource {
    kind: u32,
    union: [u64; 16],
    _flags: u32,
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RuntimeTexture {
    addressing: [u32; 3],
    filter: u32,
    /// `cudaTextureReadMode`.
    read: u32,
    srgb: u32,
    border: [f32; 4],
    normalised: u32,
    _anisotropy: u32,
    level_filter: u32,
    bias: f32,
    least: f32,
    most: f32,
    _no_optimization: u32,
    seamless: u32,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DriverTexture {
    addressing: [u32; 3],
    filter: u32,
    flags: u32,
    _anisotropy: u32,
    level_filter: u32,
    bias: f32,
    least: f32,
    most: f32,
    border: [f32; 4],
    _reserved: [u32; 12],
}

/// `CU_TRSF_READ_AS_INTEGER`, `CU_TRSF_NORMALIZED_COORDINATES` and `CU_TRSF_SRGB`.
const READ_AS_INTEGER: u32 = 1;
const NORMALISED: u32 = 2;
const SRGB: u32 = 16;
/// `CU_TRSF_SEAMLESS_CUBEMAP`: a filter across the edges of a cube.
const SEAMLESS: u32 = 64;

/// The image of linear memory.
fn linear(address: u64, format: TexelFormat, bytes: u64) -> Result<Image, Status> {
    let texels = u32::try_from(bytes / format.bytes()).map_err(|_| Status::INVALID_VALUE)?;
    if address == 0 || !address.is_multiple_of(format.bytes()) {
        return Err(Status::INVALID_VALUE);
    }
    let level = Level { address, size: [texels, 1, 1], pitch: bytes };
    Ok(Image { format, arrangement: Arrangement::Linear, levels: vec![level] })
}

/// The image of pitched memory.
fn pitched(address: u64, format: TexelFormat, [width, height, pitch]: [u64; 3]) -> Result<Image, Status> {
    let number = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0).ok_or(Status::INVALID_VALUE);
    let size = [number(width)?, number(height)?, 1];
    // As on a GPU, which reports these alignments (`textureAlignment`, `texturePitchAlignment`).
    if address == 0 || pitch < width * format.bytes() || !pitch.is_multiple_of(32) {
        return Err(Status::INVALID_VALUE);
    }
    let level = Level { address, size, pitch };
    Ok(Image { format, arrangement: Arrangement::Dimensions(2), levels: vec![level] })
}

fn array_image(array: u64) -> Result<Image, Status> {
    Ok(device()?.arrays.get(array)?.image.clone())
}

/// The format of a `cudaChannelFormatDesc` in the second to fourth words of a union.
fn format_of([_, a, b, c, ..]: [u64; 7]) -> Result<TexelFormat, Status> {
    let [x, y, z, w, kind] = [a, a >> 32, b, b >> 32, c].map(|word| word as u32 as i32);
    ChannelFormat { bits: [x, y, z, w], kind }.texel()
}

impl RuntimeResource {
    fn image(&self) -> Result<Image, Status> {
        let address = self.union[0];
        match self.kind {
            0 | 1 => array_image(address),
            2 => linear(address, format_of(self.union)?, self.union[4]),
            3 => pitched(address, format_of(self.union)?, [self.union[4], self.union[5], self.union[6]]),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

impl DriverResource {
    fn image(&self) -> Result<Image, Status> {
        let [address, format, rest @ ..] = self.union;
        let format = || driver_texel(format as u32, (format >> 32) as u32);
        match self.kind {
            0 | 1 => array_image(address),
            2 => linear(address, format()?, rest[0]),
            3 => pitched(address, format()?, [rest[0], rest[1], rest[2]]),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

fn addressing(modes: [u32; 3]) -> Result<[Addressing; 3], Status> {
    let known = [Addressing::Wrap, Addressing::Clamp, Addressing::Mirror, Addressing::Border];
    let mut all = [Addressing::Clamp; 3];
    for (to, mode) in all.iter_mut().zip(modes) {
        *to = *known.get(mode as usize).ok_or(Status::INVALID_VALUE)?;
    }
    Ok(all)
}

impl RuntimeTexture {
    fn sampling(&self) -> Result<Sampling, Status> {
        // A filter across the edges of a cube.
        if self.seamless != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(Sampling {
            addressing: addressing(self.addressing)?,
            linear: self.filter == 1,
            between_levels: self.level_filter == 1,
            normalised: self.normalised != 0,
            fractions: self.read == 1,
            srgb: self.srgb != 0,
            bias: self.bias,
            levels: [self.least, self.most],
            border: self.border,
        })
    }
}

impl DriverTexture {
    fn sampling(&self) -> Result<Sampling, Status> {
        if self.flags & SEAMLESS != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(Sampling {
            addressing: addressing(self.addressing)?,
            linear: self.filter == 1,
            between_levels: self.level_filter == 1,
            normalised: self.flags & NORMALISED != 0,
            fractions: self.flags & READ_AS_INTEGER == 0,
            srgb: self.flags & SRGB != 0,
            bias: self.bias,
            levels: [self.least, self.most],
            border: self.border,
        })
    }
}

/// Creates a texture. A view of an array in another format is not supported.
fn create_texture(to: Out<u64>, image: Image, sampling: Sampling, view: u64) -> Answer {
    if view != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let TexelFormat { channel, bits, .. } = image.format;
    let integers = channel != Channel::Float;
    // Only integers of 8 and 16 bits stand for fractions, and only floats are filtered.
    let fractions = sampling.fractions && integers;
    if fractions && bits == 32 || sampling.linear && integers && !fractions {
        return Err(Status::INVALID_VALUE);
    }
    create(to, TextureObject::Texture(image, Sampling { fractions, ..sampling }))
}

fn create(to: Out<u64>, object: TextureObject) -> Answer {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let mut device = device()?;
    let handle = Handle::Texture.make(device.textures_made);
    device.textures_made += 1;
    device.memory.textures.insert(handle, object);
    to.set(handle)
}

fn destroy(object: u64) -> Answer {
    if device()?.memory.textures.remove(object) { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

/// A surface is an array of which kernels may write.
fn create_surface(to: Out<u64>, kind: u32, image: Image) -> Answer {
    if kind != 0 {
        return Err(Status::INVALID_VALUE);
    }
    create(to, TextureObject::Surface(image))
}

entry_points! {
    TEXTURE, TEXTURE_CALLS;

    [cudaCreateTextureObject: (Primary, zeros INVALID_VALUE)]
    fn (texture: Out<u64>, resource: In<RuntimeResource>, description: In<RuntimeTexture>, view: u64) {
        create_texture(texture, resource.get()?.image()?, description.get()?.sampling()?, view)
    }
    [cuTexObjectCreate: (Current, zeros INVALID_VALUE, since 5_000)]
    fn (texture: Out<u64>, resource: In<DriverResource>, description: In<DriverTexture>, view: u64) {
        create_texture(texture, resource.get()?.image()?, description.get()?.sampling()?, view)
    }
    [cudaDestroyTextureObject: (Primary, zeros SUCCESS)]
    [cuTexObjectDestroy: (Current, zeros SUCCESS, since 5_000)]
    [cudaDestroySurfaceObject: (Primary, zeros SUCCESS)]
    [cuSurfObjectDestroy: (Current, zeros SUCCESS, since 5_000)]
    fn (object: u64) { if object == 0 { Ok(()) } else { destroy(object) } }
    [cudaCreateSurfaceObject: (Primary, zeros INVALID_VALUE)]
    fn (surface: Out<u64>, resource: In<RuntimeResource>) {
        let resource = resource.get()?;
        create_surface(surface, resource.kind, resource.image()?)
    }
    [cuSurfObjectCreate: (Current, zeros INVALID_VALUE, since 5_000)]
    fn (surface: Out<u64>, resource: In<DriverResource>) {
        let resource = resource.get()?;
        create_surface(surface, resource.kind, resource.image()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_headers() {
        assert_eq!((size_of::<RuntimeResource>(), size_of::<RuntimeTexture>()), (64, 72));
        assert_eq!((size_of::<DriverResource>(), size_of::<DriverTexture>()), (144, 104));
    }
}
