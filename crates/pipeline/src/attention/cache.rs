//! Keys and values in memory: pages, strides, codes and scales, and how they are read.
//!
//! Every layout is a set of strides: HND and NHD, halves of one tensor, padded pages, and ragged tensors without pages, whose pages have
//! one slot. Offsets and strides are in bytes, so that regions of one page may hold codes and scales.

use std::sync::Arc;

use super::element::{BLOCK, Element};
use super::error::AttentionError;
use super::mla;
use super::problem::Side;

record::words! {
    /// The order of the dimensions of a page.
    Order {
        /// [pages, slots, heads, elements]
        Nhd "NHD",
        /// [pages, heads, slots, elements]
        Hnd "HND",
    }
}

record::words! {
    /// How the values of a page lie in memory.
    ValueOrder {
        /// The elements of a slot are beside one another.
        Rows "rows",
        /// The slots of an element are: [pages, heads, elements, slots] in NVFP4, and a scale for 16 slots.
        Columns "columns",
    }
}

record::words! {
    /// The order of the block scales of a page.
    ScaleOrder {
        /// Those of a slot after those of its predecessor.
        Linear "linear",
        /// 4×4 tiles in the plane of slots and blocks, as trtllm-gen reads the values' scales: with S blocks and G = S / 4 the scale of
        /// slot t and block s is in row (t & ~3) + s / G, column (s mod G)·4 + (t & 3).
        Swizzled "swizzled",
        /// 64-row chunks, as FlashInfer's NVFP4 attention has them: column c of row r at (c / 4)·256 + (r mod 16)·16 + (r mod 64) / 16·4 + c mod 4.
        Rows64 "rows64",
        /// The 128×4 tiles of the scales of GEMMs.
        Tiles128 "128x4",
    }
}

/// Where elements are, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// The first element of the first page.
    pub offset: usize,
    /// From a page to the next.
    pub page: usize,
    /// From a slot to the next.
    pub slot: usize,
    /// From a head to the next.
    pub head: usize,
}

impl Strides {
    /// Pages without gaps, of heads of `row` bytes.
    pub const fn dense(order: Order, slots: usize, heads: usize, row: usize) -> Self {
        let (slot, head) = match order {
            Order::Nhd => (heads * row, row),
            Order::Hnd => (row, slots * row),
        };
        Self { offset: 0, page: slots * heads * row, slot, head }
    }

    /// Pages of columns of slots without gaps: heads of `elements` columns, with `slots_of_byte` slots in a byte.
    pub const fn of_columns(slots: usize, heads: usize, elements: usize, slots_of_byte: usize) -> Self {
        let head = elements * slots / slots_of_byte;
        Self { offset: 0, page: heads * head, slot: 0, head }
    }

    /// The first byte of a head of a slot; `None` beyond every memory.
    pub(super) fn at(&self, page: usize, slot: usize, head: usize) -> Option<usize> {
        let page = page.checked_mul(self.page)?;
        self.offset.checked_add(page)?.checked_add(slot * self.slot + head * self.head)
    }
}

/// Which block's scale an element gets; of values in columns which column's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleOf {
    /// Its own.
    #[default]
    Own,
    /// That of the other one of its pair: a fault.
    Pair,
    /// That of the one before; the first has its own: a fault.
    Before,
    /// That of the first block of a row or, of columns, of their page: a fault.
    First,
}

impl ScaleOf {
    /// The number of the block or column, of `count`, whose scale number `n` gets.
    const fn index_read(self, n: usize, count: usize) -> usize {
        match self {
            Self::Pair if n ^ 1 < count => n ^ 1,
            Self::Before if n > 0 => n - 1,
            Self::First => 0,
            _ => n,
        }
    }
}

/// Block scales.
#[derive(Debug, Clone, PartialEq)]
pub struct Scales {
    /// The tensor.
    pub bytes: Arc<Vec<u8>>,
    /// Where they are.
    pub strides: Strides,
    /// Their order within a page.
    pub order: ScaleOrder,
}

impl Scales {
    /// The place of the scale of a block, of `blocks` of a head.
    pub(super) fn at(
        &self,
        page: usize,
        slot: usize,
        head: usize,
        block: usize,
        blocks: usize,
    ) -> Option<usize> {
        let row = |row: usize| self.strides.at(page, row, head);
        Some(match self.order {
            ScaleOrder::Linear => row(slot)? + block,
            ScaleOrder::Swizzled => {
                let group = (blocks / 4).max(1);
                row((slot & !3) + block / group)? + block % group * 4 + (slot & 3)
            }
            ScaleOrder::Rows64 => {
                let chunk = slot / 64 * 64 * blocks;
                row(0)? + chunk + block / 4 * 256 + slot % 16 * 16 + slot % 64 / 16 * 4 + block % 4
            }
            ScaleOrder::Tiles128 => {
                let tile = slot / 128 * 128 * blocks;
                row(0)? + tile + block / 4 * 512 + slot % 32 * 16 + slot % 128 / 32 * 4 + block % 4
            }
        })
    }
}

/// A factor of each slot and head.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// The tensor, binary32.
    pub bytes: Arc<Vec<u8>>,
    /// Where they are.
    pub strides: Strides,
}

/// Keys or values in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// The tensor's name, for errors.
    pub name: &'static str,
    /// The type of its elements.
    pub element: Element,
    /// The tensor.
    pub bytes: Arc<Vec<u8>>,
    /// Where they are.
    pub strides: Strides,
    /// The elements of a head.
    pub width: usize,
    /// Block scales.
    pub scales: Option<Scales>,
    /// Factors of slots and heads.
    pub factors: Option<Factors>,
    /// Whether the odd elements are in the low nibbles.
    pub odd_first: bool,
    /// Which block's or column's scale an element gets: its own, unless a kernel has a fault.
    pub scale_of: ScaleOf,
    /// How many keys behind a key the one is whose scales and factors it gets: none, unless a kernel has a fault.
    pub scale_shift: i64,
    /// Whether the slots of an element are beside one another: e2m1 codes [heads, elements, slots] in each page, and a scale for 16 slots,
    /// as an mma that sums over keys in blocks needs them ([`ValueOrder::Columns`]). The strides of slots are then not used.
    pub transposed: bool,
    /// The layout of records, of which these are the first elements, and how their scales are read.
    pub record: Option<(mla::Layout, mla::Reading)>,
}

/// A cache, or ragged keys and values.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// Keys and values.
    pub planes: [Plane; 2],
    /// Heads.
    pub heads: usize,
    /// Slots of a page.
    pub page: usize,
    /// The pages of each request.
    pub table: Vec<Vec<usize>>,
    /// Whether the table names slots, counted over all pages, instead of pages.
    pub by_slot: bool,
    /// Whether keys are read as if they were stored in the order of FlashInfer's NVFP4 attention, permuted in each 32: a fault.
    pub is_permuted: bool,
    /// How many keys behind a key the one is that is read for it, of keys and of values: none, unless a kernel has a fault.
    pub key_shift: [i64; 2],
    /// The pages of its values, if they are others.
    pub value_table: Option<Vec<Vec<usize>>>,
}

/// A page, a slot and a head.
type At = (usize, usize, usize);

impl Plane {
    /// Appends a head of a slot, with the scales of another or of its own; the first byte that is missing on an error.
    fn append(&self, at: At, scale: At, slots: usize, to: &mut Vec<f32>) -> Result<(), usize> {
        let (page, slot, head) = at;
        if self.transposed {
            for d in 0..self.width {
                let [code, _] = self.transposed_at(at, slots, d).ok_or(usize::MAX)?;
                let (column, scale) = match self.scale_of {
                    ScaleOf::First => (d, (scale.0, 0, scale.2)),
                    of => (of.index_read(d, self.width), scale),
                };
                let [_, scale] = self.transposed_at(scale, slots, column).ok_or(usize::MAX)?;
                let bytes = self.bytes.get(code..=code).ok_or(code)?;
                let scales = self.scales.as_ref().map_or(&[][..], |scales| scales.bytes.as_slice());
                let scale = numerics::Format::Ue4m3.decode(u32::from(*scales.get(scale).ok_or(scale)?));
                to.push(
                    self.element.value(bytes, (slot % 2) ^ usize::from(self.odd_first)).ok_or(code)? * scale,
                );
            }
            return Ok(());
        }
        let first = self.strides.at(page, slot, head).ok_or(usize::MAX)?;
        if let Some((layout, reading)) = self.record {
            let of_page = self.strides.at(page, 0, 0).ok_or(usize::MAX)?;
            for d in 0..self.width {
                let value = layout.value(&self.bytes, (of_page, first), (slot, slots), d, reading);
                to.push(value.ok_or(first + layout.row())?);
            }
            return Ok(());
        }
        let end = first.checked_add(self.element.bytes(self.width)).ok_or(usize::MAX)?;
        let bytes = self.bytes.get(first..end).ok_or(end)?;
        let blocks = self.width / BLOCK;
        for d in 0..self.width {
            let of = if self.odd_first { d ^ 1 } else { d };
            let value = self.element.value(bytes, of).ok_or(end)?;
            let scale = match &self.scales {
                None => 1.0,
                Some(scales) => {
                    let (page, slot, head) = scale;
                    let block = self.scale_of.index_read(d / BLOCK, blocks);
                    let at = scales.at(page, slot, head, block, blocks).ok_or(usize::MAX)?;
                    numerics::Format::Ue4m3.decode(u32::from(*scales.bytes.get(at).ok_or(at)?))
                }
            };
            to.push(value * scale);
        }
        Ok(())
    }

    /// Appends the scales of a head of a slot of records; a slot beyond the tensor has none.
    fn append_scales(&self, (page, slot, head): At, slots: usize, to: &mut Vec<f32>) {
        let Some((layout, reading)) = self.record else { return };
        let fields = layout.fields();
        let places = self.strides.at(page, 0, 0).zip(self.strides.at(page, slot, head));
        let Some(places) = places else { return };
        let of = |block| layout.scale(&self.bytes, places, (slot, slots), block, reading);
        to.extend((0..fields.latent / fields.block).filter_map(of));
    }

    /// The bytes with the code and with the scale of an element of a slot in a transposed plane.
    pub(super) fn transposed_at(&self, (page, slot, head): At, slots: usize, d: usize) -> Option<[usize; 2]> {
        let column = d * slots + slot;
        let code = self.strides.at(page, 0, head)? + column / 2;
        let scale = self.scales.as_ref()?.strides.at(page, 0, head)? + column / BLOCK;
        Some([code, scale])
    }

    fn factor(&self, (page, slot, head): At) -> Option<f32> {
        let factors = self.factors.as_ref()?;
        Element::F32.value(factors.bytes.get(factors.strides.at(page, slot, head)?..)?, 0)
    }
}

impl Cache {
    /// Lets the pages of these sides be read in another order of their dimensions.
    pub(super) fn reorder(&mut self, order: Order, sides: std::ops::Range<usize>) {
        let (slots, heads) = (self.page, self.heads);
        let set = |strides: &mut Strides, row: usize| {
            // A plane of a stacked tensor keeps its offset and the stride of its pages.
            let dense = Strides::dense(order, slots, heads, row);
            *strides = Strides { slot: dense.slot, head: dense.head, ..*strides };
        };
        // Columns have their heads one after the other in every order.
        let planes = self.planes.get_mut(sides).unwrap_or_default();
        for plane in planes.iter_mut().filter(|plane| !plane.transposed) {
            set(&mut plane.strides, plane.element.bytes(plane.width));
            if let Some(scales) = &mut plane.scales {
                set(&mut scales.strides, plane.width / BLOCK);
            }
            if let Some(factors) = plane.factors.as_mut().filter(|factors| factors.strides.slot > 0) {
                set(&mut factors.strides, 4);
            }
        }
    }

    /// The page and the slot of a key of a request; `None` if its table ends before.
    pub(super) fn place(&self, side: usize, request: usize, key: usize) -> Option<(usize, usize)> {
        let table = if side == 1 { self.value_table.as_ref().unwrap_or(&self.table) } else { &self.table };
        let page = self.page.max(1);
        let permuted = |key: usize| key / 32 * 32 + key % 32 / 8 * 2 + key % 8 / 2 * 8 + key % 2;
        let key = if self.is_permuted && side == 0 { permuted(key) } else { key };
        let entries = table.get(request)?.len() * if self.by_slot { 1 } else { page };
        // At the ends of its table a key stays itself.
        let shifted = usize::try_from(key as i64 + self.key_shift.get(side)?).ok();
        let key = shifted.filter(|other| *other < entries).unwrap_or(key);
        if self.by_slot {
            let slot = *table.get(request)?.get(key)?;
            return Some((slot / page, slot % page));
        }
        Some((*table.get(request)?.get(key / page)?, key % page))
    }

    /// Reads the keys or values (`side` 0 or 1) of these requests: `(request, number of keys)` each.
    pub fn gather(
        &self,
        side: usize,
        requests: impl Iterator<Item = (usize, usize)>,
    ) -> Result<Side, AttentionError> {
        let plane = &self.planes[side];
        let is_exact = plane.record.is_none_or(|(layout, _)| layout.is_exact());
        let rounded = (!is_exact).then_some(Element::Bf16);
        let block = plane.record.map_or(0, |(layout, _)| layout.fields().block);
        let mut out = Side { rounded, block, ..Side::default() };
        for (request, keys) in requests {
            for key in 0..keys {
                let wrong = |wanted: String, found: usize| AttentionError::Value {
                    name: plane.name.to_owned(),
                    index: key,
                    found: i64::try_from(found).unwrap_or(i64::MAX),
                    wanted,
                };
                let Some((page, slot)) = self.place(side, request, key) else {
                    return Err(wrong(
                        format!(
                            "request {request} has {keys} keys, but no page for this one: correct the table or the length"
                        ),
                        key,
                    ));
                };
                // At the ends of a sequence a key has its own.
                let neighbour = usize::try_from(key as i64 + plane.scale_shift).ok().filter(|of| *of < keys);
                let of_scale =
                    neighbour.and_then(|key| self.place(side, request, key)).unwrap_or((page, slot));
                for head in 0..self.heads {
                    let (at, scale) = ((page, slot, head), (of_scale.0, of_scale.1, head));
                    plane.append(at, scale, self.page, &mut out.elements).map_err(|byte| {
                        wrong(
                            format!(
                                "page {page}, slot {slot}, head {head} of request {request} ends beyond the {} bytes of the tensor: correct the table, the strides or the layout",
                                plane.bytes.len()
                            ),
                            byte,
                        )
                    })?;
                    if plane.record.is_some() {
                        plane.append_scales(at, self.page, &mut out.block_scales);
                    }
                    if plane.factors.is_some() {
                        out.factors.push(plane.factor(scale).unwrap_or(f32::NAN));
                    }
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_order_of_scales_is_a_bijection() {
        for order in ScaleOrder::ALL {
            for blocks in [4, 8, 16] {
                let slots = 128;
                let strides = Strides::dense(Order::Hnd, slots, 2, blocks);
                let scales = Scales { bytes: Arc::default(), strides, order: *order };
                let places: BTreeSet<usize> = (0..slots)
                    .flat_map(|slot| (0..blocks).map(move |block| (slot, block)))
                    .map(|(slot, block)| scales.at(0, slot, 1, block, blocks).unwrap())
                    .collect();
                let expected: BTreeSet<usize> = (slots * blocks..2 * slots * blocks).collect();
                assert_eq!(places, expected, "{order:?} {blocks}");
            }
        }
    }

    #[test]
    fn the_swizzle_of_values_is_flat_in_a_plane_of_hnd() {
        let blocks = 8;
        let strides = Strides::dense(Order::Hnd, 16, 1, blocks);
        let scales = Scales { bytes: Arc::default(), strides, order: ScaleOrder::Swizzled };
        for slot in 0..16 {
            for block in 0..blocks {
                let flat = 4 * blocks * (slot / 4) + 4 * block + slot % 4;
                assert_eq!(scales.at(0, slot, 0, block, blocks), Some(flat));
            }
        }
    }

    #[test]
    fn offsets_beyond_32_bits_are_found() {
        let strides = Strides { offset: 0, page: 1 << 20, slot: 128, head: 64 };
        assert_eq!(strides.at(5000, 1, 1), Some((5000 << 20) + 192));
        assert_eq!(strides.at(usize::MAX, 0, 0), None);
    }
}
