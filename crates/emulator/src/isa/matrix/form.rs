//! The operands of an `mma`: the table of legal shapes, types, kinds and scales.

use numerics::tensor_core::{BitOp, Integer, MmaForm, MmaShape, Sparsity};
use numerics::{Format, Rounding};

use crate::front::words::Refusal;
use crate::isa::Words;

/// The arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    Float(MmaForm),
    Integer {
        a: Integer,
        b: Integer,
        satfinite: bool,
    },
    Bits(BitOp),
    Double(Rounding),
    /// Volta's four products of 8×8×4; `c` is the format of C, which may be `f16` if D is `f32`.
    Quads {
        form: MmaForm,
        c: Format,
        a_rows: bool,
        b_rows: bool,
    },
}

/// An `mma` as its modifiers specify it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) numbers: Numbers,
    /// With the full K.
    pub(super) shape: MmaShape,
    /// Bits of an element's container in a register, the same for A and B.
    pub(super) bits: u32,
    /// Bits of an element of C and of D.
    pub(super) c_bits: u32,
    /// Bits below the code, and bits of the code, in the containers of A and B.
    pub(super) containers: [(u32, u32); 2],
    pub(super) sparse: Option<Sparsity>,
    /// Sparse: whether indices of the metadata must ascend.
    pub(super) ordered: bool,
}

/// `m16n8k32`.
pub(super) fn parse_shape(word: &str) -> Option<MmaShape> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(MmaShape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
}

const FLOATS: [&str; 5] = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"];

impl Form {
    /// Reads the modifiers of `mma`, except `.sync.aligned`.
    pub(super) fn read(mut words: Words<'_>) -> Result<Self, Refusal> {
        let shape = words.left().iter().copied().find(|w| parse_shape(w).is_some());
        let shape = shape.ok_or("mma requires a shape")?;
        words.take(shape);
        let shape = parse_shape(shape).unwrap_or(MmaShape { m: 0, n: 0, k: 0 });
        let ordered = words.take("sp::ordered_metadata");
        let sparse = words.take("sp") || ordered;
        let rows = [words.one_of(&["row", "col"]), words.one_of(&["row", "col"])];
        let kind = words.prefixed("kind::");
        let block_scale = words.take("block_scale");
        let vector = words.prefixed("scale_vec::");
        let satfinite = words.take("satfinite");
        let op = if words.take("popc") { words.one_of(&["and", "xor"]) } else { None };
        let rounding = words.one_of(&["rn", "rz", "rm", "rp"]);
        let types = words.left().to_vec();
        let (types, scale) = match types.as_slice() {
            [d, a, b, c] => ([*d, *a, *b, *c], None),
            [d, a, b, c, s] if block_scale => ([*d, *a, *b, *c], Some(*s)),
            _ => return Err(format!("the types of an mma cannot be `{}`", types.join("."))),
        };
        let [d, a, _, c] = types;
        let quad = [shape.m, shape.n, shape.k] == [8, 8, 4] && a == "f16";
        if rows != [Some("row"), Some("col")] && !(quad && rows.iter().all(Option::is_some)) {
            return Err("A is .row and B is .col".to_owned());
        }
        if d != c && !(quad && d == "f32" && c == "f16") {
            return Err(format!("C is .{c} and D is .{d}"));
        }
        let form = Unchecked { shape, sparse, ordered, kind, scale, vector, types };
        let found = form.find(op, satfinite, rounding, [rows[0] == Some("row"), rows[1] == Some("row")])?;
        let used = |what: bool, name: &str| {
            if what { Err(format!("`.{name}` does not belong to this mma")) } else { Ok(()) }
        };
        used(satfinite && !matches!(found.numbers, Numbers::Integer { .. }), "satfinite")?;
        used(op.is_some() && !matches!(found.numbers, Numbers::Bits(_)), "popc")?;
        used(rounding.is_some() && !matches!(found.numbers, Numbers::Double(_)), "rn")?;
        used(block_scale != scale.is_some(), "block_scale")?;
        Ok(found)
    }

    /// Scale chunks along K; 0 without scales.
    pub(super) fn chunks(&self) -> usize {
        match self.numbers {
            Numbers::Float(MmaForm { scale: Some((_, chunks)), .. }) => chunks as usize,
            _ => 0,
        }
    }
}

/// The modifiers not yet read.
struct Unchecked<'a> {
    shape: MmaShape,
    sparse: bool,
    ordered: bool,
    kind: Option<&'a str>,
    scale: Option<&'a str>,
    vector: Option<&'a str>,
    /// D, A, B, C.
    types: [&'a str; 4],
}

impl Unchecked<'_> {
    fn find(
        &self,
        op: Option<&str>,
        satfinite: bool,
        rounding: Option<&str>,
        rows: [bool; 2],
    ) -> Result<Form, Refusal> {
        let [_, a, b, _] = self.types;
        if let Some(kind) = self.kind {
            return self.of_kind(kind);
        }
        if self.scale.is_some() || self.vector.is_some() {
            return Err("block scales belong to a .kind::mx…".to_owned());
        }
        let fp8 = |t: &str| t == "e4m3" || t == "e5m2";
        match (a, b) {
            ("f16", "f16") if self.shape.m == 8 => self.quads(rows),
            ("f16", "f16") => self.float(&[8, 16], &[16, 32], &["f16", "f32"]),
            ("bf16", "bf16") => self.float(&[8, 16], &[16, 32], &["f32"]),
            ("tf32", "tf32") => self.float(&[4, 8], &[8, 16], &["f32"]),
            _ if fp8(a) && fp8(b) => self.float(&[16, 32], &[32, 64], &["f16", "f32"]),
            ("f64", "f64") => self.double(rounding),
            ("b1", "b1") => self.bits(op),
            _ => match (Integer::parse(a), Integer::parse(b)) {
                (Some(a), Some(b)) if a.bits() == b.bits() => self.integer(a, b, satfinite),
                _ => Err(format!("no mma multiplies .{a} with .{b} without a .kind")),
            },
        }
    }

    fn refuse(&self) -> Refusal {
        let MmaShape { m, n, k } = self.shape;
        let [d, a, b, _] = self.types;
        let sparse = if self.sparse { "sparse " } else { "" };
        format!("no {sparse}mma m{m}n{n}k{k} of .{a} and .{b} gives .{d}")
    }

    /// Checks K against that of dense and sparse forms.
    fn check(&self, m: &[usize], dense: &[usize], sparse: &[usize]) -> Result<(), Refusal> {
        let k = if self.sparse { sparse } else { dense };
        if self.shape.n == 8 && m.contains(&self.shape.m) && k.contains(&self.shape.k) {
            Ok(())
        } else {
            Err(self.refuse())
        }
    }

    fn form(&self, numbers: Numbers, bits: u32, c_bits: u32) -> Form {
        let sparse = match bits {
            32 => Sparsity::OneOfTwo,
            4 => Sparsity::PairsOfEight,
            _ => Sparsity::TwoOfFour,
        };
        Form {
            numbers,
            shape: self.shape,
            bits,
            c_bits,
            containers: [(0, bits); 2],
            sparse: self.sparse.then_some(sparse),
            ordered: self.ordered,
        }
    }

    fn float_form(
        &self,
        bits: u32,
        scale: Option<(Format, u32)>,
        accumulators: &[&str],
    ) -> Result<Form, Refusal> {
        let [d, a, b, _] = self.types;
        let format =
            |name: &str| Format::parse(name).ok_or_else(|| format!("`.{name}` is not a float format"));
        if !accumulators.contains(&d) {
            return Err(self.refuse());
        }
        let (a, b, accumulator) = (format(a)?, format(b)?, format(d)?);
        let c_bits = accumulator.bits();
        let form = MmaForm { shape: self.shape, a, b, accumulator, scale };
        let mut found = self.form(Numbers::Float(form), bits, c_bits);
        if bits == 8 {
            found.containers = [a, b].map(|f| (if f == Format::E2m1 { 2 } else { 0 }, f.bits()));
        }
        Ok(found)
    }

    fn float(&self, dense: &[usize], sparse: &[usize], accumulators: &[&str]) -> Result<Form, Refusal> {
        self.check(&[16], dense, sparse)?;
        let bits = Format::parse(self.types[1]).map_or(0, Format::bits);
        self.float_form(bits, None, accumulators)
    }

    fn quads(&self, [a_rows, b_rows]: [bool; 2]) -> Result<Form, Refusal> {
        self.check(&[8], &[4], &[])?;
        let mut form = self.float_form(16, None, &["f16", "f32"])?;
        if let Numbers::Float(float) = form.numbers {
            let c = if self.types[3] == "f16" { Format::F16 } else { Format::F32 };
            form.numbers = Numbers::Quads { form: float, c, a_rows, b_rows };
        }
        Ok(form)
    }

    fn double(&self, rounding: Option<&str>) -> Result<Form, Refusal> {
        match self.shape {
            MmaShape { m: 8, n: 8, k: 4 } | MmaShape { m: 16, n: 8, k: 4 | 8 | 16 } if !self.sparse => {}
            _ => return Err(self.refuse()),
        }
        let rounding = match rounding {
            None | Some("rn") => Rounding::NearestEven,
            Some("rz") => Rounding::Zero,
            Some("rm") => Rounding::Down,
            Some(_) => Rounding::Up,
        };
        // A double is one element of one register, like 32-bit elements.
        Ok(self.form(Numbers::Double(rounding), 32, 32))
    }

    fn integer(&self, a: Integer, b: Integer, satfinite: bool) -> Result<Form, Refusal> {
        let [d, ..] = self.types;
        match (a.bits(), self.shape.m) {
            (8, 8) => self.check(&[8], &[16], &[])?,
            (8, _) => self.check(&[16], &[16, 32], &[32, 64])?,
            (_, 8) => self.check(&[8], &[32], &[])?,
            _ => self.check(&[16], &[32, 64], &[64, 128])?,
        }
        if d != "s32" {
            return Err(self.refuse());
        }
        Ok(self.form(Numbers::Integer { a, b, satfinite }, a.bits(), 32))
    }

    fn bits(&self, op: Option<&str>) -> Result<Form, Refusal> {
        match self.shape.m {
            8 => self.check(&[8], &[128], &[])?,
            _ => self.check(&[16], &[128, 256], &[])?,
        }
        let op = match op {
            Some("and") => BitOp::And,
            Some(_) => BitOp::Xor,
            None => return Err("single bits require .and.popc or .xor.popc".to_owned()),
        };
        if self.types[0] != "s32" {
            return Err(self.refuse());
        }
        Ok(self.form(Numbers::Bits(op), 1, 32))
    }

    fn of_kind(&self, kind: &str) -> Result<Form, Refusal> {
        let [_, a, b, _] = self.types;
        if self.sparse && !self.ordered {
            return Err(format!("sparse .kind::{kind} requires .sp::ordered_metadata"));
        }
        let scale = match self.scale {
            None => None,
            Some("ue8m0") => Some(Format::Ue8m0),
            Some("ue4m3") => Some(Format::Ue4m3),
            Some(other) => return Err(format!("`.{other}` is not a scale format")),
        };
        let chunks = match (kind, scale, self.vector) {
            ("f8f6f4", None, None) => 0,
            ("mxf8f6f4", Some(Format::Ue8m0), None | Some("1X")) => 1,
            ("mxf4", Some(Format::Ue8m0), None | Some("2X")) => 2,
            ("mxf4nvf4", Some(Format::Ue8m0), Some("2X")) => 2,
            ("mxf4nvf4", Some(_), Some("4X")) => 4,
            _ => {
                let scale = self.scale.unwrap_or("no scales");
                let vector = self.vector.unwrap_or("default");
                return Err(format!("no .kind::{kind} with {scale} and scale_vec {vector}"));
            }
        };
        let scale = scale.map(|format| (format, chunks));
        if kind == "mxf4" || kind == "mxf4nvf4" {
            self.check(&[16], &[64], &[128])?;
            if [a, b] != ["e2m1", "e2m1"] {
                return Err(self.refuse());
            }
            return self.float_form(4, scale, &["f32"]);
        }
        self.check(&[16], &[32], &[64])?;
        if !FLOATS.contains(&a) || !FLOATS.contains(&b) {
            return Err(self.refuse());
        }
        self.float_form(8, scale, if kind == "f8f6f4" { &["f16", "f32"] } else { &["f32"] })
    }
}
