//! The table of changes: what a kernel with a fault would compute.

use std::sync::Arc;

use numerics::format::Format;

use super::Product;
use super::bound::ResultType;
use super::faults::{
    BIASES, Elsewhere, FRAGMENTS, LAST, MOST_TILES, OF_DEPTH, OF_INDEX, OF_SCALES, OF_STORES, OfFragment,
    PAIRS, PARTS, ROWS, Relaid, SCALES, STAGES, STORES, TILES,
};
use super::matrix::{Decoded, Matrix, Scaled, codes};

/// A change of a product.
pub(super) type Apply = Arc<dyn for<'p> Fn(&mut Altered<'p>) + Send + Sync>;

/// A row of the table.
pub(super) struct Change {
    /// What a kernel would do.
    pub(super) what: String,
    /// Where to look.
    pub(super) look: &'static str,
    /// Public examples.
    pub(super) seen: &'static str,
    /// The change itself.
    pub(super) apply: Apply,
}

/// What happens to a row of an operand when it is read. It depends on no other row.
#[derive(Clone)]
enum Edit {
    /// The element that is read for an element of K.
    Order(Arc<dyn Fn(usize) -> usize + Send + Sync>),
    /// Whether an element of K counts.
    Keep(Arc<dyn Fn(usize) -> bool + Send + Sync>),
    /// Codes that share a byte.
    Pairs(fn([u8; 2]) -> [u8; 2]),
}

/// How codes become values.
#[derive(Clone)]
pub(super) struct Scaling<'p> {
    element: Format,
    scale: Format,
    block: usize,
    scales: Scales<'p>,
    pub(super) global: f64,
    /// What each scale is multiplied by besides.
    twice: Option<Arc<dyn Fn(usize) -> bool + Send + Sync>>,
}

/// A matrix of scales [rows, blocks] as a kernel reads it, row-major. A scale is computed only where it is read: a sample reads few rows, and a
/// large operand has millions.
#[derive(Clone)]
struct Scales<'p> {
    rows: usize,
    blocks: usize,
    at: Arc<dyn Fn(usize) -> u8 + Send + Sync + 'p>,
}

impl<'p> Scales<'p> {
    fn new(of: &'p Scaled, rows: usize) -> Self {
        let stored = of.scales.as_slice();
        let blocks = stored.len() / rows.max(1);
        Self { rows, blocks, at: Arc::new(move |place| stored.get(place).copied().unwrap_or_default()) }
    }

    const fn count(&self) -> usize {
        self.rows * self.blocks
    }

    /// The scale of a block of a row; zero if there is none.
    fn scale(&self, row: usize, block: usize) -> u8 {
        let place = row * self.blocks + block;
        if place < self.count() { (self.at)(place) } else { 0 }
    }

    /// Replaces what is read at each place by what this returns for the place and a function that reads another one.
    fn read_by(&mut self, read: impl Fn(usize, &dyn Fn(usize) -> u8) -> u8 + Send + Sync + 'p) {
        let before = Arc::clone(&self.at);
        self.at = Arc::new(move |place| read(place, &*before));
    }

    /// Reads every scale from another place, of row, block, rows and blocks; its own, where the other does not exist.
    fn moved(&mut self, from: impl Fn(usize, usize, usize, usize) -> usize + Send + Sync + 'p) {
        let (rows, blocks, count) = (self.rows, self.blocks.max(1), self.count());
        self.read_by(move |at, read| {
            let place = from(at / blocks, at % blocks, rows, blocks);
            read(if place < count { place } else { at })
        });
    }

    /// Reads the codes of scales as others.
    fn recoded(&mut self, code: impl Fn(u8) -> u8 + Send + Sync + 'p) {
        self.read_by(move |place, read| code(read(place)));
    }
}

/// An operand as a kernel reads it.
#[derive(Clone)]
pub(super) struct Operand<'p> {
    matrix: &'p Matrix,
    /// The row that is read for a row; the last one is asked first.
    rows: Vec<fn(usize, usize) -> usize>,
    /// The row and the element of K whose code is read for those; the last one is asked first.
    fragments: Vec<OfFragment>,
    edits: Vec<Edit>,
    pub(super) scaling: Option<Scaling<'p>>,
    /// Whether it is read as declared.
    pub(super) is_declared: bool,
}

impl<'p> Operand<'p> {
    fn new(matrix: &'p Matrix) -> Self {
        let scaling = match matrix {
            Matrix::Scaled(of) => Some(Scaling {
                element: of.element,
                scale: of.scale,
                block: of.block.max(1),
                scales: Scales::new(of, matrix.rows()),
                global: of.global,
                twice: None,
            }),
            Matrix::Plain { .. } => None,
        };
        Self {
            matrix,
            rows: Vec::new(),
            fragments: Vec::new(),
            edits: Vec::new(),
            scaling,
            is_declared: true,
        }
    }

    /// Decodes rows.
    pub(super) fn decoded(&self, rows: &[usize]) -> Decoded {
        let (count, depth) = (self.matrix.rows(), self.matrix.depth());
        let mut out = Decoded::default();
        for row in rows {
            match (self.matrix, &self.scaling) {
                (Matrix::Scaled(of), Some(scaling)) => {
                    let mut line = self.line(&of.codes, *row, [count, depth]);
                    self.edits.iter().for_each(|edit| edit.of_codes(&mut line));
                    out.add_codes(&line, scaling.element, &scaling.factors(*row, depth), scaling.block);
                }
                (Matrix::Scaled(_), None) => {}
                (Matrix::Plain { values, .. }, _) => {
                    let mut line = self.line(values, *row, [count, depth]);
                    self.edits.iter().for_each(|edit| edit.of_elements(&mut line, 0.0));
                    out.add_values(&line);
                }
            }
        }
        out
    }

    /// The elements of a row, of so many rows and elements of K.
    fn line<T: Copy>(&self, all: &[T], row: usize, [rows, depth]: [usize; 2]) -> Vec<T> {
        let read = |row: usize| self.rows.iter().rev().fold(row, |row, from| from(row, rows));
        if self.fragments.is_empty() {
            let row = read(row);
            return all[row * depth..(row + 1) * depth].to_vec();
        }
        let chunk = self.matrix.chunk();
        let element = |k: usize| {
            let from = |at: (usize, usize), from: &OfFragment| {
                Some(from(at.0, at.1, chunk)).filter(|(row, k)| *row < rows && *k < depth).unwrap_or(at)
            };
            let (row, k) = self.fragments.iter().rev().fold((row, k), from);
            all[read(row) * depth + k]
        };
        (0..depth).map(element).collect()
    }

    /// Reads every scale from another place of the matrix of scales, by row and block, rows and blocks.
    fn moved(&mut self, from: impl Fn(usize, usize, usize, usize) -> usize + Send + Sync + 'p) {
        if let Some(scaling) = &mut self.scaling {
            scaling.scales.moved(from);
        }
    }
}

impl Edit {
    fn of_codes(&self, line: &mut [u8]) {
        match self {
            Self::Pairs(read) => line.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| *pair = read(*pair)),
            Self::Order(_) | Self::Keep(_) => self.of_elements(line, 0),
        }
    }

    fn of_elements<T: Copy>(&self, line: &mut [T], zero: T) {
        match self {
            Self::Order(from) => {
                let old = line.to_vec();
                line.iter_mut().enumerate().for_each(|(k, x)| *x = old.get(from(k)).copied().unwrap_or(*x));
            }
            Self::Keep(counts) => {
                line.iter_mut().enumerate().filter(|(k, _)| !counts(*k)).for_each(|(_, x)| *x = zero);
            }
            Self::Pairs(_) => {}
        }
    }
}

impl Scaling<'_> {
    /// The factor of each block of a row.
    fn factors(&self, row: usize, depth: usize) -> Vec<f64> {
        let (blocks, table) = (depth / self.block, codes(self.scale));
        let of = |block: usize| {
            let code = self.scales.scale(row, block);
            let twice = if self.twice.as_ref().is_some_and(|is| is(block)) { 2.0 } else { 1.0 };
            table[usize::from(code)].value * self.global * twice
        };
        (0..blocks).map(of).collect()
    }
}

/// What is added to an element by an accumulator that is not cleared: the sum of the row or the column so far before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stale {
    pub(super) of_rows: bool,
    pub(super) tile: usize,
}

/// A product as a kernel with changes computes it.
#[derive(Clone)]
pub(super) struct Altered<'p> {
    pub(super) operands: [Operand<'p>; 2],
    pub(super) bias: Option<Arc<Vec<f64>>>,
    /// What is added to each row.
    pub(super) row_bias: Option<Arc<Vec<f64>>>,
    /// Where an element is stored.
    pub(super) stored_at: Option<Elsewhere>,
    pub(super) stale: Option<Stale>,
    /// The type to which sums are rounded after each so many elements of K.
    pub(super) short_sums: Option<(ResultType, usize)>,
    /// Whether the result is cut to its type instead of rounded.
    pub(super) is_cut: bool,
    /// Rows or columns that hold zero.
    pub(super) zero: Option<Zero>,
    pub(super) factor: f64,
    pub(super) has_any_order: bool,
}

/// Rows, or columns, that hold zero from this one on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zero {
    pub(super) of_rows: bool,
    pub(super) from: usize,
}

impl<'p> Altered<'p> {
    pub(super) fn new(product: &'p Product) -> Self {
        Self {
            operands: [Operand::new(&product.a), Operand::new(&product.b)],
            bias: product.bias.clone().map(Arc::new),
            row_bias: None,
            stored_at: None,
            stale: None,
            short_sums: None,
            is_cut: false,
            zero: None,
            factor: 1.0,
            has_any_order: false,
        }
    }
}

/// A change of an operand; `X` in its words stands for the operand.
struct OfOperand {
    what: String,
    look: &'static str,
    seen: &'static str,
    apply: Arc<dyn for<'p> Fn(&mut Operand<'p>) + Send + Sync>,
}

fn of_operand(
    what: impl Into<String>,
    look: &'static str,
    apply: impl for<'p> Fn(&mut Operand<'p>) + Send + Sync + 'static,
) -> OfOperand {
    OfOperand { what: what.into(), look, seen: "", apply: Arc::new(apply) }
}

/// The names of the operands.
const NAMES: [&str; 2] = ["operand `a`", "operand `b`"];

/// Every change of a product, the more frequent first.
pub(super) fn table(product: &Product) -> Vec<Change> {
    let matrices = [&product.a, &product.b];
    let each = matrices.map(changes_of);
    let mut all = Vec::new();
    for (which, changes) in each.iter().enumerate() {
        all.extend(changes.iter().map(|of| of.at(NAMES[which], [which == 0, which == 1])));
    }
    // The same fault on both sides.
    let [first, second] = &each;
    let is_in_both = |of: &&OfOperand| second.iter().any(|other| other.what == of.what);
    if matches!(matrices, [Matrix::Scaled(_), Matrix::Scaled(_)]) {
        all.extend(first.iter().filter(is_in_both).map(|of| of.at("operands `a` and `b`", [true; 2])));
    }
    all.extend(other_scales(matrices));
    all.extend(parts_of_depth(product.a.depth()));
    all.extend(globals(matrices));
    if product.bias.is_some() {
        all.extend(biases(matrices));
    }
    all.extend(stores());
    all.extend(roundings(product));
    all.extend(zeros(product.shape()));
    all.extend(stale_sums(product.shape()));
    all
}

impl OfOperand {
    /// The change of these operands.
    fn at(&self, name: &str, which: [bool; 2]) -> Change {
        let apply = Arc::clone(&self.apply);
        Change {
            what: self.what.replace('X', name),
            look: self.look,
            seen: self.seen,
            apply: Arc::new(move |altered| {
                for (operand, is_changed) in altered.operands.iter_mut().zip(which) {
                    if is_changed {
                        operand.is_declared = false;
                        apply(operand);
                    }
                }
            }),
        }
    }
}

fn change(
    what: impl Into<String>,
    look: &'static str,
    apply: impl for<'p> Fn(&mut Altered<'p>) + Send + Sync + 'static,
) -> Change {
    Change { what: what.into(), look, seen: "", apply: Arc::new(apply) }
}

/// Changes of an operand.
fn changes_of(matrix: &Matrix) -> Vec<OfOperand> {
    let depth = matrix.depth();
    let mut all = Vec::new();
    if let Matrix::Scaled(of) = matrix {
        all.extend(layouts());
        all.extend(SCALES.into_iter().map(|(what, from)| {
            of_operand(format!("the scale {what} is taken, of the X"), OF_INDEX, move |operand| {
                operand.moved(move |row, block, rows, blocks| {
                    let (row, block) = from(row, block, rows, blocks);
                    row * blocks + block
                });
            })
        }));
        all.extend(scale_codes(of.scale));
        all.extend(scale_types(of));
        all.extend(element_types(of.element));
        if of.element == Format::E2m1 {
            all.extend(PAIRS.into_iter().map(|(what, look, read)| {
                of_operand(what, look, move |operand| operand.edits.push(Edit::Pairs(read)))
            }));
        }
    }
    let look = "the row that each thread or TMA box reads";
    all.extend(ROWS.into_iter().map(|(what, from)| {
        of_operand(format!("the X of {what} is read"), look, move |operand| {
            operand.rows.push(from);
            operand.moved(move |row, block, rows, blocks| from(row, rows) * blocks + block);
        })
    }));
    let fragment = "the fragment of the operand: ldmatrix, its address and its swizzle";
    for (what, by) in [
        ("neighbouring elements", 1),
        ("halves of each 16", 8),
        ("halves of each 32", 16),
        ("halves of each 64", 32),
    ] {
        if 2 * by <= depth {
            all.push(of_operand(format!("{what} of K of the X are exchanged"), fragment, move |operand| {
                operand.edits.push(Edit::Order(Arc::new(move |k| k ^ by)));
            }));
        }
    }
    all.extend(FRAGMENTS.into_iter().map(|(what, from)| {
        let look = "the fragment of the operand: ldmatrix, its address and its swizzle";
        of_operand(what, look, move |operand| operand.fragments.push(from))
    }));
    all.extend(stages(matrix));
    all
}

/// Scales that are stored in one layout and read as another.
fn layouts() -> Vec<OfOperand> {
    let seen = "vl 50084, fi 3097, fi 3608";
    let mut all = Vec::new();
    for relaid in Relaid::all() {
        let change = of_operand(relaid.words("X"), OF_SCALES, move |operand| {
            let Some(scaling) = &mut operand.scaling else { return };
            let (rows, blocks) = (scaling.scales.rows, scaling.scales.blocks);
            if relaid.fits(rows, blocks) {
                // What lies beyond is zero.
                scaling.scales.read_by(move |at, read| relaid.source(at, rows, blocks).map_or(0, read));
            }
        });
        all.push(OfOperand { seen, ..change });
    }
    all.push(of_operand("the scales of the X are read as [K, rows]", OF_SCALES, |operand| {
        operand.moved(|row, block, rows, _| block * rows + row);
    }));
    all.push(of_operand("the scales of the X are stored as [K, rows]", OF_SCALES, |operand| {
        operand.moved(|row, block, rows, blocks| {
            let flat = row * blocks + block;
            flat % rows * blocks + flat / rows
        });
    }));
    all
}

/// Scales whose codes are read as others.
fn scale_codes(scale: Format) -> Vec<OfOperand> {
    let each = |what: &str, look: &'static str, read: fn(u8) -> u8| {
        of_operand(format!("the scales of the X {what}"), look, move |operand| {
            if let Some(scaling) = &mut operand.scaling {
                scaling.scales.recoded(read);
            }
        })
    };
    let (left_out, bias) =
        ("whether the mma gets scales", "the bias of the scale's exponent, and factors of two beside it");
    if scale == Format::Ue4m3 {
        let mantissa = "the type of the scales: ue4m3 has a mantissa";
        return vec![
            each("are left out", left_out, |_| 0x38),
            each("are read as powers of two", mantissa, |x| x & 0x78),
            each("are twice as large", bias, |x| if (0x08..0x77).contains(&x) { x + 8 } else { x }),
            each("are half as large", bias, |x| if x >= 0x10 { x - 8 } else { x }),
        ];
    }
    let nan = "0xFF, which is NaN in ue8m0";
    vec![
        each("are left out", left_out, |_| 127),
        each("are twice as large", bias, |x| x.saturating_add(1).min(254)),
        each("are half as large", bias, |x| x.saturating_sub(1)),
        each("that are NaN are read as one", nan, |x| if x == 0xFF { 127 } else { x }),
        each("that are NaN are read as the largest number", nan, |x| if x == 0xFF { 254 } else { x }),
    ]
}

/// Scales that are read as another type, or for blocks of half the size.
fn scale_types(of: &Scaled) -> Vec<OfOperand> {
    let look = "the type of the scales: `ue8m0` or `ue4m3` in the mma, or in the conversion to f32";
    let (is, other, bits) = match of.scale {
        Format::Ue4m3 => ("ue4m3", ("ue8m0", Format::Ue8m0), 0xFF),
        _ => ("ue8m0", ("ue4m3", Format::Ue4m3), 0x7F),
    };
    let mut all =
        vec![of_operand(format!("the {is} scales of the X are read as {}", other.0), look, move |operand| {
            if let Some(scaling) = &mut operand.scaling {
                scaling.scale = other.1;
                scaling.scales.recoded(move |scale| scale & bits);
            }
        })];
    let look = "the elements of a scale: `.block16` or `.block32`, or the scale vector's size";
    if of.block == 32 {
        for (with, stride) in [("", 1), (", with rows of as many scales", 2)] {
            let what = format!("the scales of the X are read for blocks of 16 instead of 32{with}");
            all.push(of_operand(what, look, move |operand| {
                let Some(scaling) = &mut operand.scaling else { return };
                let (rows, blocks) = (scaling.scales.rows, scaling.scales.blocks.max(1));
                scaling.scales.read_by(move |at, read| {
                    let (row, n) = (at / (2 * blocks), at % (2 * blocks));
                    read((row * blocks * stride + n) % (rows * blocks))
                });
                scaling.scales.blocks = 2 * blocks;
                scaling.block = 16;
            }));
        }
    }
    all
}

/// Elements that are read as another type.
fn element_types(element: Format) -> Option<OfOperand> {
    let (other, name) = match element {
        Format::E4m3 => (Format::E5m2, "e5m2"),
        Format::E5m2 => (Format::E4m3, "e4m3"),
        Format::E2m3 => (Format::E3m2, "e3m2"),
        Format::E3m2 => (Format::E2m3, "e2m3"),
        _ => return None,
    };
    let look = "the types in the name of the mma";
    Some(of_operand(format!("elements of the X are read as {name}"), look, move |operand| {
        if let Some(scaling) = &mut operand.scaling {
            scaling.element = other;
        }
    }))
}

/// Tiles of K that are those of another stage.
fn stages(matrix: &Matrix) -> Vec<OfOperand> {
    let depth = matrix.depth();
    let block = match matrix {
        Matrix::Scaled(of) => Some(of.block.max(1)),
        Matrix::Plain { .. } => None,
    };
    let look = "the stages of the loop over K: which one is read, and whether its copy has ended";
    let mut all = Vec::new();
    for size in TILES.into_iter().filter(|size| depth >= 2 * size && depth.is_multiple_of(*size)) {
        let tiles = depth / size;
        for (what, from) in STAGES {
            for (of, with_codes, with_scales) in
                [("codes and scales", true, true), ("codes", true, false), ("scales", false, true)]
            {
                let scales = match block {
                    Some(block) if size.is_multiple_of(block) => with_scales.then_some(size / block),
                    None if with_codes && with_scales => None,
                    Some(_) | None => continue,
                };
                let of = if block.is_some() { of } else { "elements" };
                let what = format!("the {of} of {what} of {size} along K are read, of the X");
                all.push(of_operand(what, look, move |operand| {
                    if with_codes {
                        operand
                            .edits
                            .push(Edit::Order(Arc::new(move |k| from(k / size, tiles) * size + k % size)));
                    }
                    if let Some(width) = scales {
                        operand.moved(move |row, block, _, blocks| {
                            row * blocks + from(block / width, tiles) * width + block % width
                        });
                    }
                }));
            }
        }
    }
    all
}

/// One operand's scales for the other.
fn other_scales(matrices: [&Matrix; 2]) -> Vec<Change> {
    let [Matrix::Scaled(a), Matrix::Scaled(b)] = matrices else { return Vec::new() };
    if a.scale != b.scale || a.block != b.block {
        return Vec::new();
    }
    let of = |which: usize| {
        let look = "which scales each operand of the mma gets";
        change(
            format!("the scales of the {} are those of the other operand", NAMES[which]),
            look,
            move |altered| {
                let other = altered.operands.get(1 - which).and_then(|of| of.scaling.as_ref());
                let Some(others) = other.map(|of| of.scales.clone()) else { return };
                if let Some(operand) = altered.operands.get_mut(which) {
                    operand.is_declared = false;
                    if let Some(scaling) = &mut operand.scaling {
                        let count = others.count().max(1);
                        scaling.scales.at = Arc::new(move |place| (others.at)(place % count));
                    }
                }
            },
        )
    };
    vec![of(0), of(1)]
}

/// Parts of K that are left out, or count twice.
fn parts_of_depth(depth: usize) -> Vec<Change> {
    // A product of zero is none, whichever operand has it.
    let without = |what: String, counts: Arc<dyn Fn(usize) -> bool + Send + Sync>| {
        change(what, OF_DEPTH, move |altered| {
            let [operand, _] = &mut altered.operands;
            operand.is_declared = false;
            operand.edits.push(Edit::Keep(Arc::clone(&counts)));
        })
    };
    let mut all = Vec::new();
    for part in TILES.into_iter().filter(|part| depth > *part) {
        for (what, counts) in PARTS {
            let counts = Arc::new(move |k| counts(k, part, depth));
            all.push(without(format!("{what} {part} of K are left out"), counts));
        }
        for tile in (1..MOST_TILES).filter(|tile| (tile + 1) * part < depth) {
            let what = format!("tile {tile} of K, of {part} elements, is left out");
            all.push(without(what, Arc::new(move |k| k / part != tile)));
        }
    }
    all.push(without("the second half of K is left out".to_owned(), Arc::new(move |k| 2 * k < depth)));
    all.push(without("the first half of K is left out".to_owned(), Arc::new(move |k| 2 * k >= depth)));
    for part in [32, 64, 128, 256].into_iter().filter(|part| depth > *part) {
        for (what, is_last) in [("last", true), ("first", false)] {
            all.push(change(format!("the {what} {part} of K count twice"), OF_DEPTH, move |altered| {
                // Blocks have whole numbers of elements: a scale of twice the value does it.
                let [operand, _] = &mut altered.operands;
                operand.is_declared = false;
                let Some(scaling) = &mut operand.scaling else { return };
                let blocks = part / scaling.block;
                let all = depth / scaling.block;
                let is_in = move |block: usize| if is_last { block + blocks >= all } else { block < blocks };
                scaling.twice = Some(Arc::new(is_in));
            }));
        }
    }
    all
}

/// Changes of global scales, which are factors of the whole result.
fn globals(matrices: [&Matrix; 2]) -> Vec<Change> {
    let look = "the factors that alpha is made of: those of both operands";
    let scales = matrices.map(|matrix| match matrix {
        Matrix::Scaled(of) if of.global != 1.0 => Some(of.global),
        Matrix::Scaled(_) | Matrix::Plain { .. } => None,
    });
    let times = |what: String, factor: f64| change(what, look, move |altered| altered.factor *= factor);
    let kinds = |name: &str, x: f64| {
        [("left out", 1.0 / x), ("applied twice", x), ("inverted", 1.0 / (x * x))]
            .map(|(what, factor)| times(format!("the global scale of the {name} is {what}"), factor))
    };
    let mut all: Vec<Change> = scales
        .iter()
        .zip(NAMES)
        .filter_map(|(scale, name)| scale.map(|scale| kinds(name, scale)))
        .flatten()
        .collect();
    if let [Some(a), Some(b)] = scales {
        let both = a * b;
        for (what, factor) in
            [("left out", 1.0 / both), ("applied twice", both), ("inverted", 1.0 / (both * both))]
        {
            all.push(times(format!("the global scales of both operands are {what}"), factor));
        }
        if a != b {
            all.push(times(
                format!("the global scale of the {} is that of the other operand", NAMES[0]),
                b / a,
            ));
            all.push(times(
                format!("the global scale of the {} is that of the other operand", NAMES[1]),
                a / b,
            ));
        }
    }
    all
}

fn biases(matrices: [&Matrix; 2]) -> Vec<Change> {
    let look = "the bias: its index, its factor, and where it is added";
    let left_out = change("the bias is left out", look, |altered| altered.bias = None);
    let each = BIASES.into_iter().map(|(what, apply)| {
        change(format!("the bias is {what}"), look, move |altered| {
            if let Some(bias) = &mut altered.bias {
                apply(Arc::make_mut(bias).as_mut_slice());
            }
        })
    });
    let of_row = change("the bias of the row is added instead of that of the column", look, |altered| {
        altered.row_bias = altered.bias.take();
    });
    let alpha: f64 = matrices
        .iter()
        .map(|matrix| match matrix {
            Matrix::Scaled(of) => of.global,
            Matrix::Plain { .. } => 1.0,
        })
        .product();
    let look = "the order of the epilogue: alpha is a factor of the product alone";
    let scaled = change("the bias is multiplied by the global scales, too", look, move |altered| {
        if let Some(bias) = &mut altered.bias {
            Arc::make_mut(bias).iter_mut().for_each(|x| *x *= alpha);
        }
    });
    let scaled = (alpha != 1.0).then_some(scaled);
    [left_out].into_iter().chain(each).chain([of_row]).chain(scaled).collect()
}

/// Roundings that a kernel makes and should not.
fn roundings(product: &Product) -> Vec<Change> {
    let mut all = Vec::new();
    for (to, name) in [(ResultType::Bf16, "bf16"), (ResultType::F16, "f16")] {
        let look = "the type of the accumulator: `.f32` in the mma, and where it is kept between steps";
        for step in TILES.into_iter().filter(|step| *step < product.a.depth()) {
            let what = format!("sums are rounded to {name} after each {step} of K");
            all.push(change(what, look, move |altered| altered.short_sums = Some((to, step))));
        }
        if product.result != to {
            let (look, depth) = ("the conversion before the store", product.a.depth());
            let what = format!("the sum is rounded to {name} before it is stored");
            all.push(change(what, look, move |altered| altered.short_sums = Some((to, depth))));
        }
    }
    if matches!(product.result, ResultType::Bf16 | ResultType::F16) {
        let look = "the conversion before the store: `cvt.rn`, not a shift by 16 bits or `cvt.rz`";
        all.push(change("the result is cut to its type, not rounded", look, |altered| altered.is_cut = true));
    }
    all
}

/// Results that hold zero at their end.
fn zeros([rows, columns]: [usize; 2]) -> Vec<Change> {
    let look = "the predicates of the last tile: of its loads and of its stores";
    let mut all = Vec::new();
    for (of_rows, name, size) in [(true, "row", rows), (false, "column", columns)] {
        let tails = LAST.into_iter().map(|tile| size % tile);
        let mut counts: Vec<usize> =
            LAST.into_iter().chain(tails).filter(|n| (1..size).contains(n)).collect();
        counts.sort_unstable();
        counts.dedup();
        for count in counts {
            let last = if count == 1 {
                format!("the last {name} holds")
            } else {
                format!("the last {count} {name}s hold")
            };
            let what = format!("{last} zero: not stored, or computed of nothing");
            let from = size - count;
            all.push(change(what, look, move |altered| altered.zero = Some(Zero { of_rows, from })));
        }
    }
    all
}

fn stores() -> impl Iterator<Item = Change> {
    STORES.into_iter().map(|(what, at)| {
        change(format!("the result is stored with {what}"), OF_STORES, move |altered| {
            altered.stored_at = Some(at);
        })
    })
}

/// Accumulators that are not cleared.
fn stale_sums([rows, columns]: [usize; 2]) -> Vec<Change> {
    let look = "where the accumulator is set to zero: once for each tile";
    let mut all = Vec::new();
    for tile in [8, 16, 32, 64, 128, 256] {
        for (of_rows, name, size) in [(true, "rows", rows), (false, "columns", columns)] {
            if size > tile {
                all.push(change(
                    format!("the result of the {tile} {name} before is added"),
                    look,
                    move |altered| {
                        altered.stale = Some(Stale { of_rows, tile });
                    },
                ));
            }
        }
    }
    all
}
