//! Textures and surfaces: what a host describes when it creates one, and what kernels know by its handle.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What the bits of a channel are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A floating-point number of 16 or 32 bits.
    Float,
}

/// The format of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TexelFormat {
    /// What the bits of a channel are.
    pub channel: Channel,
    /// Bits of a channel: 8, 16 or 32.
    pub bits: u32,
    /// 1, 2 or 4.
    pub channels: u32,
}

impl TexelFormat {
    /// Size of a texel in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        u64::from(self.bits / 8 * self.channels)
    }
}

/// How the texels of an image are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Linear memory, which a kernel fetches from by an integer.
    Linear,
    /// One, two or three dimensions.
    Dimensions(u8),
    /// Images of one or two dimensions, one after the other.
    Layers(u8),
    /// Six faces of a cube.
    Cube,
    /// Cubes, one after the other.
    Cubes,
}

impl Arrangement {
    /// The dimensions of one image.
    #[must_use]
    pub fn dimensions(self) -> usize {
        match self {
            Self::Linear => 1,
            Self::Dimensions(n) | Self::Layers(n) => usize::from(n),
            Self::Cube | Self::Cubes => 2,
        }
    }
}

/// One mipmap level in global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Its address.
    pub address: u64,
    /// Texels in x, y and z; the number of layers or faces in z if the image has them. 1 in dimensions that it lacks.
    pub size: [u32; 3],
    /// Bytes between rows.
    pub pitch: u64,
}

/// Texels in global memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The format of a texel.
    pub format: TexelFormat,
    /// How they are arranged.
    pub arrangement: Arrangement,
    /// The mipmap levels, the largest first.
    pub levels: Vec<Level>,
}

/// What a coordinate outside the image means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// The image is repeated.
    Wrap,
    /// The texel at the edge.
    Clamp,
    /// The image is repeated, every other one mirrored.
    Mirror,
    /// The border colour.
    Border,
}

/// How a texture is sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// For each dimension, what a coordinate outside the image means.
    pub addressing: [Addressing; 3],
    /// Whether neighbouring texels are averaged.
    pub linear: bool,
    /// Whether neighbouring mipmap levels are averaged.
    pub between_levels: bool,
    /// Whether coordinates are fractions of the image's size.
    pub normalised: bool,
    /// Whether integers are read as fractions.
    pub fractions: bool,
    /// Whether the first three channels are sRGB.
    pub srgb: bool,
    /// Added to the mipmap level.
    pub bias: f32,
    /// The least and the greatest mipmap level.
    pub levels: [f32; 2],
    /// The texel outside of an image with [`Addressing::Border`].
    pub border: [f32; 4],
}

/// What a handle stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum TextureObject {
    /// A texture.
    Texture(Image, Sampling),
    /// A surface: the first level of an image.
    Surface(Image),
}

/// The textures and surfaces that kernels know, by handle.
#[derive(Debug, Clone, Default)]
pub struct Textures(Arc<BTreeMap<u64, Arc<TextureObject>>>);

impl Textures {
    /// Makes a handle known.
    pub fn insert(&mut self, handle: u64, object: TextureObject) {
        Arc::make_mut(&mut self.0).insert(handle, Arc::new(object));
    }

    /// Forgets a handle; returns whether it was known.
    pub fn remove(&mut self, handle: u64) -> bool {
        Arc::make_mut(&mut self.0).remove(&handle).is_some()
    }

    /// What a handle stands for.
    #[must_use]
    pub fn get(&self, handle: u64) -> Option<&Arc<TextureObject>> {
        self.0.get(&handle)
    }
}
