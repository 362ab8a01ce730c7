//! A problem: queries, keys and values as numbers, whatever stored them, and which keys each row sees.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::element::Element;
use super::semantics::{Mask, Semantics, SinkOf};

/// The number of heads and their widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Heads of queries; a multiple of `kv_heads`.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a query and of a key.
    pub width: usize,
    /// Elements of a value.
    pub value_width: usize,
    /// Which head of keys a head of queries reads, and which of values.
    pub maps: [HeadMap; 2],
}

/// Which head of keys and values a head of queries reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadMap {
    /// Heads of queries in groups of neighbours, as every library has them.
    Grouped,
    /// Head h reads head h mod n: a fault.
    Modulo,
    /// Every head reads head 0: a fault.
    First,
    /// Heads read the one behind their own: a fault.
    Next,
    /// Heads read the one before their own: a fault.
    Previous,
    /// The two heads of each pair are exchanged: a fault.
    Exchanged,
    /// Heads are in reverse: a fault.
    Reversed,
}

impl Shape {
    /// The head of keys (side 0) or of values (side 1) that a head of queries reads.
    pub const fn kv_head(&self, side: usize, head: usize) -> usize {
        let (count, own) = (self.kv_heads, head / (self.heads / self.kv_heads));
        match self.maps[side] {
            HeadMap::Grouped => own,
            HeadMap::Modulo => head % count,
            HeadMap::First => 0,
            HeadMap::Next => (own + 1) % count,
            HeadMap::Previous => (own + count - 1) % count,
            HeadMap::Exchanged if own ^ 1 < count => own ^ 1,
            HeadMap::Exchanged => own,
            HeadMap::Reversed => count - 1 - own,
        }
    }
}

/// A request: rows of queries, and the keys of its sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its rows of the queries.
    pub rows: Range<usize>,
    /// Its keys, in the order of the sequence, as rows of [`Side`].
    pub keys: Range<usize>,
    /// The position of its first row in the sequence: keys − rows, below zero if there are fewer keys than rows.
    pub position: i64,
    /// Keys beyond its own that each row sees in a causal mask: none, unless a kernel counts wrongly.
    pub beyond: i64,
    /// Where its bits begin in the custom mask, and how many there are for each row.
    pub mask: usize,
    /// Bits of a row of the custom mask.
    pub mask_stride: usize,
    /// Of a sparse attention, the place of each key in the list of its row, where entries that name no key count as well; empty if none do.
    pub places: Vec<usize>,
}

impl Request {
    /// The place of a key, in its own numbers, in the order in which a kernel reads them.
    pub fn place(&self, key: usize) -> usize {
        self.places.get(key).copied().unwrap_or(key)
    }
}

/// Keys that a kernel leaves out: a fault, unless none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// None.
    Nothing,
    /// Those before this key.
    Before(usize),
    /// Those after the last whole tile of this many.
    Tail(usize),
    /// All but the first so many.
    AfterFirst(usize),
    /// Those of the last part: so many parts of equally many keys, a multiple of this.
    LastPart(usize, usize),
    /// All but those of the last part.
    AllButLastPart(usize, usize),
    /// Of pieces of so many keys, those whose number divided by the second leaves the third.
    Pieces(usize, usize, usize),
    /// All but those of a split: the first one, and how many there are.
    AllButSplit(usize, usize),
}

impl LeftOut {
    /// The keys, of this many, between the first and the last that are not left out.
    fn kept(self, keys: usize) -> Range<usize> {
        let last_part = |parts: usize, multiple: usize| {
            let part = keys.div_ceil(parts.max(1)).next_multiple_of(multiple.max(1));
            (parts.saturating_sub(1) * part).min(keys)
        };
        match self {
            Self::Nothing => 0..keys,
            Self::Before(key) => key.min(keys)..keys,
            Self::Tail(tile) => 0..keys / tile.max(1) * tile.max(1),
            Self::AfterFirst(count) => 0..count.min(keys),
            Self::LastPart(parts, multiple) => 0..last_part(parts, multiple),
            Self::AllButLastPart(parts, multiple) => last_part(parts, multiple)..keys,
            Self::Pieces(..) => 0..keys,
            Self::AllButSplit(first, count) => first.min(keys)..(first + count).min(keys),
        }
    }

    /// Whether it keeps some of this many keys.
    pub fn leaves_some(self, keys: usize) -> bool {
        self.kept(keys).any(|key| !self.skips(key))
    }

    /// Whether it leaves out a key that is between the first and the last of those it keeps.
    const fn skips(self, key: usize) -> bool {
        match self {
            Self::Pieces(size, every, rest) if size > 0 && every > 0 => key / size % every == rest,
            _ => false,
        }
    }
}

/// Which keys begin the window of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowStart {
    /// Exactly the first one.
    Exact,
    /// The first of its tile of this many keys: a fault.
    TileOf(usize),
    /// The first of the next tile of this many keys: a fault.
    TileBehind(usize),
}

/// Where the window of a row ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowOf {
    /// At its own position.
    Row,
    /// At the position of the first row of its request: a fault.
    FirstRow,
    /// At the position of the last row of its request: a fault.
    LastRow,
}

/// Keys or values: [keys, heads, width].
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// The elements with the scales of their blocks: exact in binary32, since a code and its scale have at most 8 significant bits together.
    pub elements: Vec<f32>,
    /// A factor for each key and head; empty if there is none.
    pub factors: Vec<f32>,
    /// The scale of each block of elements of each key and head, if the elements of records have one; and elements of a block.
    pub block_scales: Vec<f32>,
    /// Elements that share such a scale.
    pub block: usize,
    /// The type to which a kernel may round elements before it multiplies them, where a code times its scale is no number of it.
    pub rounded: Option<Element>,
    /// The exponent of the lowest bit of each key and head, once it was asked for.
    pub lowest_bits: OnceLock<Vec<i32>>,
}

impl Side {
    /// The elements of a head of a key.
    pub fn row(&self, key: usize, head: usize, heads: usize, width: usize) -> &[f32] {
        let at = (key * heads + head) * width;
        self.elements.get(at..at + width).unwrap_or_default()
    }

    /// The exponent of the lowest bit that is set in any element of each key and head, of this width.
    pub fn lowest_bits(&self, width: usize) -> &[i32] {
        self.lowest_bits.get_or_init(|| self.elements.chunks(width.max(1)).map(lowest_bit).collect())
    }

    /// The scales of the blocks of a head of a key.
    pub fn scales_of(&self, key: usize, head: usize, heads: usize, blocks: usize) -> &[f32] {
        let at = (key * heads + head) * blocks;
        self.block_scales.get(at..at + blocks).unwrap_or_default()
    }

    /// The factor of a head of a key.
    pub fn factor(&self, key: usize, head: usize, heads: usize) -> f64 {
        self.factors.get(key * heads + head).map_or(1.0, |factor| f64::from(*factor))
    }
}

/// The exponent of the lowest bit that is set in any of the numbers; large if all are zero.
pub(super) fn lowest_bit(numbers: &[f32]) -> i32 {
    let of = |x: &f32| {
        let bits = x.to_bits();
        let (exponent, mantissa) = ((bits >> 23 & 0xFF) as i32, bits & 0x7F_FFFF);
        match (exponent, mantissa) {
            (0, 0) => i32::MAX / 4,
            (0, _) => mantissa.trailing_zeros() as i32 - 149,
            _ => (mantissa | 1 << 23).trailing_zeros() as i32 + exponent - 150,
        }
    };
    numbers.iter().map(of).min().unwrap_or(i32::MAX / 4)
}

/// A problem of attention.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Heads and widths.
    pub shape: Shape,
    /// What is computed.
    pub semantics: Semantics,
    /// The requests. Rows that belong to none are not judged.
    pub requests: Vec<Request>,
    /// Queries: [rows, heads, width].
    pub queries: Arc<Vec<f32>>,
    /// Keys.
    pub keys: Arc<Side>,
    /// Values.
    pub values: Arc<Side>,
    /// The sink of each head of queries, base e; empty if there is none.
    pub sinks: Vec<f32>,
    /// The slope of each head of queries; empty if there is none.
    pub slopes: Vec<f32>,
    /// The bits of the custom masks.
    pub mask: Arc<Vec<bool>>,
}

impl Problem {
    /// The keys of a request, in its own numbers, that its row `row` sees.
    pub fn visible(&self, request: &Request, row: usize) -> impl Iterator<Item = usize> + '_ {
        let keys = request.keys.len();
        let position = request.position + row as i64;
        let end = match self.semantics.mask {
            Mask::Full | Mask::Custom => keys as i64,
            Mask::Causal => position + 1 + request.beyond,
            Mask::TopLeft => row as i64 + 1,
        };
        let at = match self.semantics.window_of {
            WindowOf::Row => position,
            WindowOf::FirstRow => request.position,
            WindowOf::LastRow => request.position + request.rows.len() as i64 - 1,
        };
        let first = self.semantics.window.map_or(0, |window| at + 1 - window as i64);
        let left_out = self.semantics.left_out;
        let kept = left_out.kept(keys);
        let end = usize::try_from(end).unwrap_or(0).min(kept.end);
        let first = usize::try_from(first).unwrap_or(0);
        let first = match self.semantics.window_start {
            WindowStart::Exact => first,
            WindowStart::TileOf(tile) => first / tile.max(1) * tile.max(1),
            WindowStart::TileBehind(tile) => first.next_multiple_of(tile.max(1)),
        };
        let first = first.max(kept.start).min(end);
        let bits = request.mask + row * request.mask_stride;
        let custom = self.semantics.mask == Mask::Custom;
        let shows = move |key: &usize| !custom || self.mask.get(bits + key).copied().unwrap_or(false);
        (first..end).filter(move |key| !left_out.skips(*key)).filter(shows)
    }

    /// The elements of a head of a row of the queries.
    pub fn query(&self, row: usize, head: usize) -> &[f32] {
        let at = (row * self.shape.heads + head) * self.shape.width;
        self.queries.get(at..at + self.shape.width).unwrap_or_default()
    }

    /// The sink of a head of a row of a request.
    pub fn sink(&self, row: usize, head: usize) -> Option<f64> {
        let heads = self.shape.heads;
        let group = heads / self.shape.kv_heads.max(1);
        let index = match self.semantics.sink_of {
            SinkOf::Head => head,
            SinkOf::Row => row % heads,
            SinkOf::PackedRow => (row * group + head % group) % heads,
        };
        // Minus infinity is no sink.
        self.sinks.get(index).filter(|sink| **sink > f32::NEG_INFINITY).map(|sink| f64::from(*sink))
    }

    /// The number of rows of the queries.
    pub fn rows(&self) -> usize {
        self.queries.len() / (self.shape.heads * self.shape.width).max(1)
    }
}
