//! Entry points for tensor maps.
#![expect(unsafe_code, reason = "exported names")]

use emulator::{Interleave, L2Promotion, OobFill, Swizzle, TensorMap, TensorType};

use crate::api::{In, entry_points, host_bytes, put_host_bytes};
use crate::status::Status;

entry_points! {
    tensor_map_function;

    fn cuTensorMapEncodeTiled | _cuTensorMapEncodeTiled(map: u64, kind: u32, rank: u32, address: u64, dims: In<u64>, strides: In<u64>, boxes: In<u32>, steps: In<u32>, interleave: u32, swizzle: u32, promotion: u32, fill: u32) {
        let bad = Status::INVALID_VALUE;
        let rank = rank as usize;
        if rank == 0 || rank > 5 { return Err(bad); }
        let (mut sizes, mut box_sizes) = (Vec::new(), Vec::new());
        for n in 0..rank {
            sizes.push(dims.nth(n)?);
            box_sizes.push(boxes.nth(n)?);
        }
        let kind = TensorType::of(kind.into()).ok_or(bad)?;
        let mut made = TensorMap::dense(kind, address, &sizes, &box_sizes);
        for n in 0..rank {
            made.element_strides[n] = steps.nth(n)?;
            if n + 1 < rank {
                made.strides[n] = strides.nth(n)?;
            }
        }
        made.interleave = Interleave::of(interleave.into()).ok_or(bad)?;
        made.swizzle = Swizzle::of(swizzle.into()).ok_or(bad)?;
        made.l2_promotion = L2Promotion::of(promotion.into()).ok_or(bad)?;
        made.oob_fill = OobFill::of(fill.into()).ok_or(bad)?;
        match made.encode() {
            Ok(bytes) => put_host_bytes(map, &bytes),
            Err(error) => {
                crate::results::say(&format!("cuTensorMapEncodeTiled: {error}"));
                Err(bad)
            }
        }
    }
    fn cuTensorMapReplaceAddress(map: u64, address: u64) {
        let bytes = host_bytes(map, 128)?.first_chunk::<128>().ok_or(Status::INVALID_VALUE)?;
        let mut made = TensorMap::decode(bytes).map_err(|_| Status::INVALID_VALUE)?;
        made.address = address;
        put_host_bytes(map, &made.encode().map_err(|_| Status::INVALID_VALUE)?)
    }
}
