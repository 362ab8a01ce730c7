//! Entry points for tensor maps.
#![expect(unsafe_code, reason = "exported names")]

use emulator::{Im2col, Interleave, L2Promotion, OobFill, Swizzle, TensorMap, TensorType};

use crate::api::table::entry_points;
use crate::device::results::say;
use crate::program::pointers::{In, Out, host_bytes, put_host_bytes};
use crate::status::{Answer, Status};

fn values<T: Copy>(list: In<T>, count: u32) -> Result<Vec<T>, Status> {
    // SAFETY: the lists of a tensor map have an element for each dimension.
    (0..count as usize).map(|n| unsafe { list.nth(n) }).collect()
}

/// A tensor map with these dimensions, strides and element strides.
fn tensor(
    kind: u32,
    rank: u32,
    address: u64,
    (dims, strides, steps): (In<u64>, In<u64>, In<u32>),
    boxes: &[u32],
) -> Result<TensorMap, Status> {
    if rank == 0 || rank > 5 {
        return Err(Status::INVALID_VALUE);
    }
    let kind = TensorType::from_code(kind.into()).ok_or(Status::INVALID_VALUE)?;
    let mut made = TensorMap::dense(kind, address, &values(dims, rank)?, boxes);
    made.element_strides[..rank as usize].copy_from_slice(&values(steps, rank)?);
    made.strides[..rank as usize - 1].copy_from_slice(&values(strides, rank - 1)?);
    Ok(made)
}

fn styled(
    map: TensorMap,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Result<TensorMap, Status> {
    let bad = Status::INVALID_VALUE;
    Ok(TensorMap {
        interleave: Interleave::from_code(interleave.into()).ok_or(bad)?,
        swizzle: Swizzle::from_code(swizzle.into()).ok_or(bad)?,
        l2_promotion: L2Promotion::from_code(promotion.into()).ok_or(bad)?,
        oob_fill: OobFill::from_code(fill.into()).ok_or(bad)?,
        ..map
    })
}

/// Writes a tensor map.
///
/// # Safety
/// The place is null or has room for it.
unsafe fn encode(to: u64, function: &str, map: TensorMap) -> Answer {
    match map.encode() {
        // SAFETY: as promised by the caller.
        Ok(bytes) => unsafe { put_host_bytes(to, &bytes) },
        Err(error) => {
            say(&format!("{function}: {error}"));
            Err(Status::INVALID_VALUE)
        }
    }
}

entry_points! {
    TENSOR_MAP, TENSOR_MAP_CALLS;

    [cuTensorMapEncodeTiled: (Current, zeros INVALID_VALUE, since 12_000)]
    [_cuTensorMapEncodeTiled: (Current, zeros INVALID_VALUE)]
    fn (map: Out<u8>, kind: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, boxes: In<u32>, steps: In<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32) {
        let made = tensor(kind, rank, address, (dims, strides, steps), &values(boxes, rank)?)?;
        encode(map.address(), "cuTensorMapEncodeTiled", styled(made, interleave, swizzle, promotion, fill)?)
    }
    [cuTensorMapEncodeIm2col: (Current, zeros INVALID_VALUE, since 12_000)]
    fn (
        map: Out<u8>, kind: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, lower: In<i32>, upper: In<i32>, channels: u32, pixels: u32,
        steps: In<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) {
        let mut made = tensor(kind, rank, address, (dims, strides, steps), &[channels])?;
        let mut walk = Im2col { lower: [0; 3], upper: [0; 3], pixels };
        for n in 0..(made.rank.saturating_sub(2)).min(3) {
            walk.lower[n] = lower.nth(n)?;
            walk.upper[n] = upper.nth(n)?;
        }
        made.im2col = Some(walk);
        encode(map.address(), "cuTensorMapEncodeIm2col", styled(made, interleave, swizzle, promotion, fill)?)
    }
    [cuTensorMapReplaceAddress: (Current, zeros INVALID_VALUE, since 12_000)]
    fn (map: u64, address: u64) {
        let bytes = host_bytes(map, 128)?.first_chunk::<128>().ok_or(Status::INVALID_VALUE)?;
        let mut made = TensorMap::decode(bytes).map_err(|_| Status::INVALID_VALUE)?;
        made.address = address;
        put_host_bytes(map, &made.encode().map_err(|_| Status::INVALID_VALUE)?)
    }
}
