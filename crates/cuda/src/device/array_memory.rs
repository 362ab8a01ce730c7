//! The memory of arrays: it is allocated with them, and copies find their place in it.

use emulator::texture::{Arrangement, Image, Level, TexelFormat};

use crate::device::allocations::Kind;
use crate::device::arrays::{Array, Size};
use crate::device::handles::Handle;
use crate::device::state::Device;
use crate::device::work::{Memory, Side};
use crate::status::{Answer, Status};

/// `cudaArrayLayered` and `CUDA_ARRAY3D_LAYERED`.
const LAYERED: u32 = 1;
/// `cudaArrayCubemap` and `CUDA_ARRAY3D_CUBEMAP`.
const CUBEMAP: u32 = 4;

/// How the texels of an array of this size and these flags are arranged.
fn arrangement([_, height, depth]: Size, flags: u32) -> Result<Arrangement, Status> {
    Ok(match (flags & CUBEMAP != 0, flags & LAYERED != 0) {
        (true, false) if depth == 6 => Arrangement::Cube,
        (true, true) if depth > 0 && depth.is_multiple_of(6) => Arrangement::Cubes,
        (true, _) => return Err(Status::INVALID_VALUE),
        (false, true) if depth == 0 => return Err(Status::INVALID_VALUE),
        (false, true) => Arrangement::Layers(if height == 0 { 1 } else { 2 }),
        (false, false) if depth > 0 && height == 0 => return Err(Status::INVALID_VALUE),
        (false, false) => Arrangement::Dimensions(1 + u8::from(height > 0) + u8::from(depth > 0)),
    })
}

impl Device {
    /// Creates an array with so many mipmap levels.
    pub(crate) fn create_array(
        &mut self,
        kind: Handle,
        format: TexelFormat,
        size: Size,
        levels: u32,
        flags: u32,
    ) -> Result<u64, Status> {
        let arrangement = arrangement(size, flags)?;
        let number = |n: usize| u32::try_from(n.max(1)).map_err(|_| Status::INVALID_VALUE);
        let whole = [number(size[0])?, number(size[1])?, number(size[2])?];
        let longest = whole.iter().take(arrangement.dimensions()).max().copied().unwrap_or(1);
        if size[0] == 0 || levels == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let most = u32::BITS - longest.leading_zeros();
        let mut offset = 0u64;
        let mut made = Vec::new();
        for n in 0..levels.min(most) {
            // Only the dimensions of an image become smaller, not the number of its layers.
            let size = std::array::from_fn(|d| {
                if d < arrangement.dimensions() { (whole[d] >> n).max(1) } else { whole[d] }
            });
            let pitch = u64::from(size[0]) * format.bytes();
            made.push(Level { address: offset, size, pitch });
            let bytes =
                pitch.checked_mul(u64::from(size[1])).and_then(|rows| rows.checked_mul(u64::from(size[2])));
            // Texels of 16 bytes are aligned.
            offset = bytes
                .and_then(|b| offset.checked_add(b)?.checked_next_multiple_of(16))
                .ok_or(Status::OUT_OF_MEMORY)?;
        }
        let len = usize::try_from(offset).map_err(|_| Status::OUT_OF_MEMORY)?;
        let address = self.allocate(len, Kind::Device)?;
        made.iter_mut().for_each(|level| level.address += address);
        let image = Image { format, arrangement, levels: made };
        let array = Array { image, size, flags, owned: Some(address), level_handles: Vec::new() };
        Ok(self.arrays.insert(kind, array))
    }

    /// The array that is one level of a mipmapped array.
    pub(crate) fn array_of_level(&mut self, mipmap: u64, level: u32) -> Result<u64, Status> {
        let whole = self.arrays.get(mipmap)?;
        let held = *whole.image.levels.get(level as usize).ok_or(Status::INVALID_VALUE)?;
        let dimensions = whole.image.arrangement.dimensions();
        let size = std::array::from_fn(|d| match whole.size[d] {
            0 => 0,
            _ if d < dimensions => held.size[d] as usize,
            layers => layers,
        });
        let image = Image { levels: vec![held], ..whole.image.clone() };
        let array = Array { image, size, flags: whole.flags, owned: None, level_handles: Vec::new() };
        let handle = self.arrays.insert(Handle::Array, array);
        self.arrays.add_level(mipmap, handle);
        Ok(handle)
    }

    /// Frees an array; 0 is ignored.
    pub(crate) fn free_array(&mut self, array: u64) -> Answer {
        if array == 0 {
            return Ok(());
        }
        let gone = self.arrays.remove(array).ok_or(Status::INVALID_VALUE)?;
        for level in gone.level_handles {
            self.arrays.remove(level);
        }
        gone.owned.map_or(Ok(()), |address| self.free(address))
    }

    /// The side of a copy that lies in an array: x and the width are in bytes.
    pub(crate) fn array_side(&self, array: u64, at: [usize; 3], extent: [usize; 3]) -> Result<Side, Status> {
        let image = &self.arrays.get(array)?.image;
        let level = image.levels[0];
        let row = level.size[0] as usize * image.format.bytes() as usize;
        let limits = [row, level.size[1] as usize, level.size[2] as usize];
        for n in 0..3 {
            if at[n].checked_add(extent[n]).is_none_or(|end| end > limits[n]) {
                return Err(Status::INVALID_VALUE);
            }
        }
        let (pitch, rows) = (level.pitch as usize, level.size[1] as usize);
        let offset = (at[2] * rows + at[1]) * pitch + at[0];
        Ok(Side {
            address: level.address + offset as u64,
            pitch,
            slice: pitch * rows,
            memory: Memory::Device,
        })
    }
}
