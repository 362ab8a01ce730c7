//! Data of asynchronous copies (PTX ISA 9.7.9.27): reduction, packing, rounding.

use std::borrow::Cow;

use numerics::convert::f32_to;
use numerics::format::Format;
use numerics::round::Rounding;

use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Piece, Store};
use crate::run::machine::World;

/// The bytes that a piece of a store writes, given its source bytes in shared memory.
pub(crate) fn outgoing<'a>(store: &Store, piece: &Piece, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match store.pack6 {
        true => Cow::Owned(pack6(bytes)),
        false => Cow::Borrowed(bytes.get(piece.skip..piece.skip + piece.taken).unwrap_or_default()),
    }
}

pub(crate) fn store_piece(
    store: &Store,
    piece: &Piece,
    bytes: &[u8],
    world: &mut World,
) -> Result<(), Fault> {
    if piece.taken == 0 {
        return Ok(());
    }
    let bytes = &*outgoing(store, piece, bytes);
    world.touch(piece.address, bytes.len(), true);
    let (index, at) = world.global.locate(piece.address, bytes.len())?;
    if let Some(reduce) = store.reduce {
        let region = world.global.region(index);
        if world.check_init && !region.is_written(at, bytes.len()) {
            let what =
                format!("{} bytes at {:#x} that were never written are reduced", bytes.len(), piece.address);
            return Err(Fault::new(Rule::Uninitialised, what));
        }
        let mut new = bytes.to_vec();
        let old = region.gather(at, piece.taken).unwrap_or_default().into_owned();
        reduce.apply(&mut new, &old);
        world.global.region_mut(index).put(at, &new);
        match reduce.sum() {
            Some(ty) => world.global.sums.add_all(piece.address, ty, &old, bytes),
            None => world.global.sums.written(piece.address, new.len()),
        }
        return Ok(());
    }
    world.global.region_mut(index).put(at, bytes);
    world.global.sums.written(piece.address, bytes.len());
    Ok(())
}

/// Packs sixteen 6-bit values of one byte each into twelve bytes.
fn pack6(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(4)
        .flat_map(|four| {
            let bits = four.iter().enumerate().fold(0u32, |t, (i, b)| t | u32::from(b & 63) << (6 * i));
            bits.to_le_bytes().into_iter().take(3)
        })
        .collect()
}

/// Rounds elements to TF32. Measured on an H100: to nearest even, subnormals preserved, NaNs canonical.
pub(crate) fn to_tf32(bytes: &mut [u8]) {
    for element in bytes.chunks_exact_mut(4) {
        let mut word = [0; 4];
        word.copy_from_slice(element);
        let value = f32::from_bits(u32::from_le_bytes(word));
        let bits = f32_to(Format::Tf32, value, Rounding::NearestEven, false, false);
        element.copy_from_slice(&bits.to_le_bytes());
    }
}
