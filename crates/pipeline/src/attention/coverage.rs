//! Fault coverage: the places of the inputs at which a change is exposed by data that a kernel got right.
//!
//! A change is exposed if the result that follows from it, rounded to its type, is outside the bound of an element or of a logarithm.
//! Every byte is changed in its lowest bit, which moves the number least; of a byte with two codes both are changed.

use std::collections::BTreeMap;

use numerics::Format;
use serde::{Deserialize, Serialize};

use super::case::Regime;
use super::element::{BLOCK, Element};
use super::generate::Data;
use super::mla;
use super::problem::Request;
use super::reference::{Expected, Line, Reference, Row};
use super::semantics::Mask;

/// What a place holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Place {
    /// A byte of a key.
    Key,
    /// A byte of a value.
    Value,
    /// The scale of a block of a key.
    KeyScale,
    /// The scale of a block of a value.
    ValueScale,
    /// An entry of the table of pages.
    Page,
    /// A bit of a custom mask.
    Mask,
    /// A sink.
    Sink,
    /// A byte of a record: its key and its value change together.
    Record,
}

/// Places at which a change is exposed, and all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) exposed: u64,
    pub(super) total: u64,
}

/// A head of a row with its results.
struct Found {
    /// The row of the queries, and the head.
    at: (usize, usize),
    line: Line,
    row: Row,
    /// What each element of the output may be, if it is a number.
    ranges: Vec<Option<(f64, f64)>>,
}

/// A key of a request.
#[derive(Clone, Copy)]
struct At {
    request: usize,
    /// Its number in the request, and its row among all keys.
    key: usize,
    row: usize,
    head: usize,
}

/// A key, and the heads of rows that see it.
struct Seen<'f> {
    at: At,
    /// With the place of the key among those that the row sees. The heads in which it has the largest share come first: they expose most changes.
    by: Vec<(&'f Found, usize)>,
}

impl Found {
    /// The share of a key in the sum of weights.
    fn share(&self, index: usize) -> f64 {
        self.line.keys[index].2 / self.line.total
    }
}

/// The least relative change of a scale of 32 bits that counts. The binary32 sum of a score of 576 products may err by 2^-14 of it, its weight and
/// its logarithm by as much again each, and the elements of a scale may be an eighth of the score.
const LEAST: f64 = 1.0 / 512.0;

/// The data of a trial, and the results that follow from them.
pub(super) struct Exposure<'a> {
    data: &'a Data,
    /// By request and head of keys.
    found: BTreeMap<(usize, usize), Vec<Found>>,
}

impl<'a> Exposure<'a> {
    /// Computes the results.
    pub(super) fn new(data: &'a Data) -> Self {
        let reference = Reference::new(&data.problem, data.arithmetic());
        let element = data.configuration.types.queries();
        let mut found: BTreeMap<(usize, usize), Vec<Found>> = BTreeMap::new();
        for (request, of) in data.problem.requests.iter().enumerate() {
            for row in 0..of.rows.len() {
                for head in 0..data.case.heads {
                    let Some(line) = reference.line(of, row, head) else { continue };
                    let at = (of.rows.start + row, head);
                    let row = reference.row(of, row, head);
                    let kv_head = data.problem.shape.kv_head(0, head);
                    let ranges = row.output.iter().map(|of| of.range(element)).collect();
                    found.entry((request, kv_head)).or_default().push(Found { at, line, row, ranges });
                }
            }
        }
        Self { data, found }
    }

    /// Counts the places of each kind.
    pub(super) fn counts(&self) -> BTreeMap<Place, Count> {
        let mut counts: BTreeMap<Place, Count> = BTreeMap::new();
        let mut count = |place: Place, exposed: bool| {
            let of = counts.entry(place).or_default();
            of.exposed += u64::from(exposed);
            of.total += 1;
        };
        for head in 0..self.data.problem.sinks.len() {
            count(Place::Sink, self.sink(head));
        }
        if !matches!(self.data.case.regime, Regime::Equal | Regime::OneHot) {
            // Of a byte that counts among many others a change is seldom exposed.
            return counts;
        }
        let blocks = self.data.configuration.width / BLOCK;
        for seen in &self.keys() {
            let at = seen.at;
            if let Some(layout) = self.data.configuration.record() {
                let mla::Fields { scales_at, rotary_at, .. } = layout.fields();
                for byte in 0..layout.row() {
                    // The lowest bit of a code, the highest one of a byte of a scale.
                    let flip = if (scales_at..rotary_at).contains(&byte) { 0x80 } else { 1 };
                    if let Some(exposed) = self.record(layout, seen, byte, flip) {
                        count(Place::Record, exposed);
                    }
                }
                continue;
            }
            let is_transposed = self.data.cache.planes[1].transposed;
            let rows = if is_transposed { &[Place::Key][..] } else { &[Place::Key, Place::Value] };
            let scales =
                if is_transposed { &[Place::KeyScale][..] } else { &[Place::KeyScale, Place::ValueScale] };
            if is_transposed {
                for d in 0..self.data.configuration.width {
                    count(Place::Value, self.code_of_column(at, d));
                    if at.key.is_multiple_of(BLOCK) {
                        count(Place::ValueScale, self.scale_of_column(at, d));
                    }
                }
            }
            for side in rows.iter().copied() {
                for byte in 0..self.data.configuration.types.cache().bytes(self.data.configuration.width) {
                    count(side, self.codes(seen, side, byte));
                }
            }
            if self.data.cache.planes[0].scales.is_some() {
                for block in 0..blocks {
                    for side in scales.iter().copied() {
                        count(side, self.scale(seen, side, block, |byte| byte ^ 1));
                    }
                }
            }
        }
        for (request, pages) in self.data.cache.table.iter().enumerate() {
            (0..pages.len()).for_each(|page| count(Place::Page, self.page(request, page)));
        }
        for (request, of) in self.data.problem.requests.iter().enumerate() {
            if self.data.case.mask == Mask::Custom {
                for bit in 0..of.rows.len() * of.keys.len() {
                    count(Place::Mask, self.bit(request, of, bit / of.keys.len(), bit % of.keys.len()));
                }
            }
        }
        counts
    }

    /// The keys that some row sees, for each head.
    fn keys(&self) -> Vec<Seen<'_>> {
        let mut all = Vec::new();
        for (request, of) in self.data.problem.requests.iter().enumerate() {
            for (key, row) in of.keys.clone().enumerate() {
                for head in 0..self.data.case.kv_heads {
                    let found = self.found.get(&(request, head)).map_or(&[][..], Vec::as_slice);
                    let index = |found: &Found| found.line.keys.binary_search_by_key(&row, |key| key.0).ok();
                    let mut by: Vec<(&Found, usize)> =
                        found.iter().filter_map(|found| Some((found, index(found)?))).collect();
                    by.sort_by(|(a, i), (b, j)| b.share(*j).total_cmp(&a.share(*i)));
                    if !by.is_empty() {
                        all.push(Seen { at: At { request, key, row, head }, by });
                    }
                }
            }
        }
        all
    }

    /// A byte of a key or a value.
    fn stored(&self, at: At, side: Place, byte: usize) -> u8 {
        let plane = &self.data.cache.planes[usize::from(side == Place::Value)];
        let (page, slot) = self.place(at);
        let first = plane.strides.at(page, slot, at.head);
        first.and_then(|first| plane.bytes.get(first + byte).copied()).unwrap_or_default()
    }

    /// Whether the lowest bit of each code of a byte is exposed by itself.
    fn codes(&self, seen: &Seen<'_>, side: Place, byte: usize) -> bool {
        let old = self.stored(seen.at, side, byte);
        let is_packed = self.data.configuration.types.cache() == Element::Nvfp4;
        let exposes = |new: u8| self.byte(seen, side, byte, new) == Some(true);
        exposes(old ^ 1) && (!is_packed || exposes(old ^ 0x10))
    }

    /// Whether another byte instead of one of a key or a value is exposed; `None` if it changes no number, as the sign of a zero.
    fn byte(&self, seen: &Seen<'_>, side: Place, byte: usize, new: u8) -> Option<bool> {
        let at = seen.at;
        let plane = &self.data.cache.planes[usize::from(side == Place::Value)];
        let (page, slot) = self.place(at);
        let first = plane.strides.at(page, slot, at.head)?;
        let row = plane.bytes.get(first..first + plane.element.bytes(plane.width))?;
        let mut changed = row.to_vec();
        changed[byte] = new;
        let scale = |d: usize| {
            let scales = plane.scales.as_ref()?;
            let of = scales.at(page, slot, at.head, d / BLOCK, plane.width / BLOCK)?;
            Some(Format::Ue4m3.decode(u32::from(*scales.bytes.get(of)?)))
        };
        let value = |bytes: &[u8], d: usize| {
            f64::from(plane.element.value(bytes, d).unwrap_or(f32::NAN) * scale(d).unwrap_or(1.0))
        };
        let bits = plane.element.bits();
        let elements = byte * 8 / bits..(byte * 8 + 8).div_ceil(bits);
        let differences: Vec<(usize, f64)> =
            elements.map(|d| (d, value(&changed, d) - value(row, d))).collect();
        if differences.iter().all(|(_, difference)| *difference == 0.0) {
            return None;
        }
        Some(match side {
            Place::Value => self.value(seen, &differences),
            _ => self.key(seen, &differences),
        })
    }

    /// Whether a change of the scale of a block is exposed.
    fn scale(&self, seen: &Seen<'_>, side: Place, block: usize, change: impl Fn(u8) -> u8) -> bool {
        let at = seen.at;
        let plane = &self.data.cache.planes[usize::from(side == Place::ValueScale)];
        let (page, slot) = self.place(at);
        let (Some(scales), Some(first)) = (&plane.scales, plane.strides.at(page, slot, at.head)) else {
            return false;
        };
        let of = scales.at(page, slot, at.head, block, plane.width / BLOCK);
        let Some(old) = of.and_then(|of| scales.bytes.get(of).copied()) else { return false };
        let decode = |byte: u8| f64::from(Format::Ue4m3.decode(byte.into()));
        let difference = decode(change(old)) - decode(old);
        let row = plane.bytes.get(first..).unwrap_or_default();
        let of_element =
            |d: usize| (d, f64::from(plane.element.value(row, d).unwrap_or(f32::NAN)) * difference);
        let all: Vec<(usize, f64)> = (block * BLOCK..(block + 1) * BLOCK).map(of_element).collect();
        match side {
            Place::ValueScale => self.value(seen, &all),
            _ => self.key(seen, &all),
        }
    }

    /// The code and the scale of an element of a value whose slots are beside one another.
    fn stored_of_column(&self, at: At, d: usize) -> Option<(u8, u8)> {
        let plane = &self.data.cache.planes[1];
        let (page, slot) = self.place(at);
        let [code, scale] = plane.transposed_at((page, slot, at.head), self.data.case.page, d)?;
        let byte = *plane.bytes.get(code)?;
        Some((byte >> (slot % 2 * 4) & 15, *plane.scales.as_ref()?.bytes.get(scale)?))
    }

    /// Whether a change of the lowest bit of such a code is exposed.
    fn code_of_column(&self, at: At, d: usize) -> bool {
        let Some((code, scale)) = self.stored_of_column(at, d) else { return false };
        let value =
            |code: u8| f64::from(Format::E2m1.decode(code.into()) * Format::Ue4m3.decode(scale.into()));
        self.column((at.request, at.head), d, &[(at.row, value(code ^ 1) - value(code))])
    }

    /// Whether a change of the lowest bit of the scale that a key shares with those behind it is exposed.
    fn scale_of_column(&self, at: At, d: usize) -> bool {
        let keys = at.key..(at.key + BLOCK).min(self.data.problem.requests[at.request].keys.len());
        let moved = keys.filter_map(|key| {
            let of_key = At { key, row: at.row + key - at.key, ..at };
            let (code, scale) = self.stored_of_column(of_key, d)?;
            let value = |scale: u8| Format::E2m1.decode(code.into()) * Format::Ue4m3.decode(scale.into());
            let by = value(scale ^ 1) - value(scale);
            Some((of_key.row, f64::from(by)))
        });
        self.column((at.request, at.head), d, &moved.collect::<Vec<_>>())
    }

    /// Whether an output exposes that elements of some values move: the row of each among all keys, and by how much.
    fn column(&self, at: (usize, usize), d: usize, moved: &[(usize, f64)]) -> bool {
        let element = self.data.configuration.types.queries();
        let scale = self.data.problem.semantics.value_scale;
        let all = self.found.get(&at).map_or(&[][..], Vec::as_slice);
        all.iter().any(|found| {
            let share = |row: &usize| {
                let index = found.line.keys.binary_search_by_key(row, |key| key.0);
                index.map_or(0.0, |index| found.line.keys[index].2 / found.line.total * scale)
            };
            let by: f64 = moved.iter().map(|(row, by)| share(row) * by).sum();
            match found.row.output[d] {
                Expected::Number { value, .. } => {
                    !found.row.output[d].accepts(element.nearest(value + by), element)
                }
                _ => false,
            }
        })
    }

    fn place(&self, at: At) -> (usize, usize) {
        self.data.cache.place(0, at.request, at.key).unwrap_or((usize::MAX, 0))
    }

    /// Whether a change of these bits of a byte of a record is exposed; `None` if it changes no number, or a scale by less than [`LEAST`].
    fn record(&self, layout: mla::Layout, seen: &Seen<'_>, byte: usize, flip: u8) -> Option<bool> {
        let plane = &self.data.cache.planes[0];
        let (page, slot) = self.place(seen.at);
        let first = plane.strides.at(page, slot, 0)?;
        let row = plane.bytes.get(first..first + layout.row())?;
        let mla::Fields { latent, block, scales_at, rotary_at } = layout.fields();
        let elements = match byte {
            byte if byte < scales_at => byte..byte + 1,
            byte if byte < rotary_at => {
                let first = (byte - scales_at) / 4 * block;
                first..first + block
            }
            byte => {
                let d = latent + (byte - rotary_at) / 2;
                d..d + 1
            }
        };
        let mut changed = row.to_vec();
        changed[byte] ^= flip;
        let value = |bytes: &[u8], d: usize| {
            let reading = mla::Reading::default();
            f64::from(layout.value(bytes, (0, 0), (0, 1), d, reading).unwrap_or(f32::NAN))
        };
        let differences: Vec<(usize, f64)> =
            elements.map(|d| (d, value(&changed, d) - value(row, d))).collect();
        let counts = |&(d, difference): &(usize, f64)| {
            let is_scale = (scales_at..rotary_at).contains(&byte);
            difference.is_nan() || difference.abs() > if is_scale { LEAST * value(row, d).abs() } else { 0.0 }
        };
        if !differences.iter().any(counts) {
            return None;
        }
        let of_value: Vec<(usize, f64)> =
            differences.iter().copied().filter(|(d, _)| *d < self.data.configuration.value_width()).collect();
        Some(self.key(seen, &differences) || self.value(seen, &of_value))
    }

    /// Whether differences of elements of a key are exposed by a logarithm.
    fn key(&self, seen: &Seen<'_>, differences: &[(usize, f64)]) -> bool {
        let scale = self.data.problem.semantics.scale * std::f64::consts::LOG2_E;
        seen.by.iter().any(|&(found, index)| {
            let (_, t, weight) = found.line.keys[index];
            let query = self.data.problem.query(found.at.0, found.at.1);
            let product: f64 = differences.iter().map(|(d, x)| f64::from(query[*d]) * x).sum();
            let new = libm::exp2(t + product * scale - found.line.most);
            Self::by_lse(found, found.line.total - weight + new)
        })
    }

    /// Whether a sum of weights is told from the right one by the logarithm.
    fn by_lse(found: &Found, total: f64) -> bool {
        // A NaN is no number that the bound accepts.
        let lse = Element::F32.nearest(found.line.most + libm::log2(total));
        !found.row.lse[1].accepts(lse, Element::F32)
    }

    /// Whether differences of elements of a value are exposed by an output.
    fn value(&self, seen: &Seen<'_>, differences: &[(usize, f64)]) -> bool {
        let element = self.data.configuration.types.queries();
        let scale = self.data.problem.semantics.value_scale;
        seen.by.iter().any(|&(found, index)| {
            let share = found.share(index) * scale;
            differences.iter().any(|(d, difference)| match (found.row.output[*d], found.ranges[*d]) {
                (Expected::Number { value, .. }, Some((least, most))) => {
                    // A NaN is no number that the bound accepts.
                    !(least..=most).contains(&element.nearest(value + share * difference))
                }
                _ => false,
            })
        })
    }

    /// Whether another page of the cache instead of this one is exposed: that of another entry, or one that nobody has.
    fn page(&self, request: usize, page: usize) -> bool {
        let of = &self.data.problem.requests[request];
        let slots = if self.data.cache.by_slot { 1 } else { self.data.case.page };
        let keys = page * slots..((page + 1) * slots).min(of.keys.len());
        // Some row gets its result from one of its keys alone: another page has another value there, or NaN.
        (0..self.data.case.kv_heads).any(|head| {
            self.found.get(&(request, head)).is_some_and(|all| {
                all.iter().any(|found| {
                    found.line.keys.iter().any(|(row, _, weight)| {
                        keys.contains(&(row - of.keys.start)) && weight / found.line.total > 0.5
                    })
                })
            })
        })
    }

    /// Whether a bit of a custom mask is exposed: a key more or fewer.
    fn bit(&self, request: usize, of: &Request, row: usize, key: usize) -> bool {
        let at_row = of.rows.start + row;
        let all = self.found.range((request, 0)..(request + 1, 0)).flat_map(|(_, all)| all);
        all.filter(|found| found.at.0 == at_row).any(|found| {
            let row = of.keys.start + key;
            let total = match found.line.keys.binary_search_by_key(&row, |key| key.0) {
                Ok(index) => found.line.total - found.line.keys[index].2,
                // Where all scores are equal a further key has the weight of the others.
                Err(_) => found.line.total + found.line.keys.first().map_or(0.0, |key| key.2),
            };
            Self::by_lse(found, total)
        })
    }

    /// Whether a sink that is not there is exposed.
    fn sink(&self, head: usize) -> bool {
        let of_head = self.found.values().flatten().filter(|found| found.at.1 == head);
        let sink = f64::from(self.data.problem.sinks[head]) * std::f64::consts::LOG2_E;
        of_head
            .into_iter()
            .any(|found| Self::by_lse(found, found.line.total - libm::exp2(sink - found.line.most)))
    }
}

/// Random faults, each of one byte of a cache: how many there are, and how many these data expose.
pub(super) fn faults(data: &Data, count: u64, draw: impl Fn(u64) -> u64) -> Count {
    let exposure = Exposure::new(data);
    let keys = exposure.keys();
    let width = data.configuration.types.cache().bytes(data.configuration.width);
    let blocks = if data.cache.planes[0].scales.is_some() { data.configuration.width / BLOCK } else { 0 };
    let mut found = Count::default();
    let mut n = 0;
    while found.total < count {
        let bits = draw(n);
        n += 1;
        let seen = &keys[(bits % keys.len() as u64) as usize];
        let place = (bits >> 20) as usize;
        let byte = place % (width + blocks);
        let flip = ((bits >> 48) % 255 + 1) as u8;
        let is_key = bits >> 60 & 1 == 0;
        let record = data.configuration.record().map(|layout| (layout, place % layout.row()));
        let exposed = match (record, byte.checked_sub(width)) {
            (Some((layout, byte)), _) => exposure.record(layout, seen, byte, flip),
            (None, None) => {
                let side = if is_key { Place::Key } else { Place::Value };
                exposure.byte(seen, side, byte, exposure.stored(seen.at, side, byte) ^ flip)
            }
            (None, Some(block)) => {
                let side = if is_key { Place::KeyScale } else { Place::ValueScale };
                // The sign of a ue4m3 is no part of its value.
                Some(exposure.scale(seen, side, block, |byte| byte ^ (flip & 0x7F).max(1)))
            }
        };
        if let Some(exposed) = exposed {
            found.total += 1;
            found.exposed += u64::from(exposed);
        }
    }
    found
}

/// The best of several data: of each kind of place, those that expose most.
pub(super) fn best(all: impl Iterator<Item = BTreeMap<Place, Count>>) -> Count {
    let mut best: BTreeMap<Place, Count> = BTreeMap::new();
    for counts in all {
        for (place, count) in counts {
            let known = best.entry(place).or_insert(count);
            if count.exposed * known.total > known.exposed * count.total {
                *known = count;
            }
        }
    }
    best.values().fold(Count::default(), |sum, count| Count {
        exposed: sum.exposed + count.exposed,
        total: sum.total + count.total,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::case::built_in;
    use super::super::configuration::{Configuration, Kernel, PAGED_TYPES, Types, WIDTHS};
    use super::*;

    fn data(case: &str, width: usize, types: Types) -> Data {
        let case = built_in().cases.iter().find(|of| of.name == case).unwrap().clone();
        let configuration = Configuration::plain(Kernel::Decode, width, types);
        Data::new(&Arc::new(case.clone()), configuration, case.seed).unwrap()
    }

    #[test]
    fn every_byte_of_every_cache_is_exposed() {
        for types in &PAGED_TYPES {
            for width in WIDTHS {
                let data = data("attention-every-key", width, *types);
                for (place, Count { exposed, total }) in Exposure::new(&data).counts() {
                    assert_eq!(exposed, total, "{place:?} {types:?} {width}");
                }
            }
        }
        let data = data("attention-every-key", 128, Types::E5m2);
        for (place, Count { exposed, total }) in Exposure::new(&data).counts() {
            assert_eq!(exposed, total, "{place:?}");
        }
    }

    #[test]
    fn every_byte_that_the_kernel_of_block_scaled_mma_reads_is_exposed() {
        let case = built_in().cases.iter().find(|of| of.name == "attention-every-key").unwrap().clone();
        let all: Vec<Configuration> =
            Configuration::all().into_iter().filter(Configuration::is_fp4).collect();
        assert_eq!(all.len(), 4);
        for configuration in all {
            let data = Data::new(&Arc::new(case.clone()), configuration, case.seed).unwrap();
            let counts = Exposure::new(&data).counts();
            let keys: usize = case.requests.iter().map(|of| of.keys * case.kv_heads).sum();
            assert_eq!(counts[&Place::Value].total, (keys * configuration.width) as u64);
            for (place, Count { exposed, total }) in counts {
                assert_eq!(exposed, total, "{place:?} {}", configuration.name());
            }
        }
    }

    #[test]
    fn every_byte_of_every_record_is_exposed() {
        let case = built_in().cases.iter().find(|of| of.name == "attention-mla-one-hot").unwrap().clone();
        let configuration = Configuration::all().into_iter().find(|of| of.kernel == Kernel::Mla).unwrap();
        let data = Data::new(&Arc::new(case.clone()), configuration, case.seed).unwrap();
        let counts = Exposure::new(&data).counts();
        assert_eq!(
            counts[&Place::Record].total,
            case.requests.iter().map(|of| of.keys as u64 * (656 - 4)).sum::<u64>()
        );
        for (place, Count { exposed, total }) in counts {
            assert_eq!(exposed, total, "{place:?}");
        }
    }

    #[test]
    fn masks_and_sinks_are_exposed() {
        for (case, place) in [("attention-tree-equal", Place::Mask), ("attention-sinks", Place::Sink)] {
            let Count { exposed, total } = Exposure::new(&data(case, 128, Types::Bf16)).counts()[&place];
            assert!(exposed == total && total > 0, "{case}: {exposed} of {total}");
        }
    }

    #[test]
    fn random_faults_are_exposed() {
        for types in PAGED_TYPES.iter().chain(&[Types::E5m2]) {
            let data = data("attention-every-key", 128, *types);
            let found = faults(&data, 10_000, |n| numerics::random::at(1, n));
            assert_eq!((found.exposed, found.total), (10_000, 10_000), "{types:?}");
        }
    }
}
