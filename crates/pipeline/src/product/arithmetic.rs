//! The arithmetic of one wrong element of a product, as a Python program that needs nothing else.

use std::fmt::Write;

use numerics::format::Format;

use super::Product;
use super::matrix::Matrix;

/// Elements of K up to which a program is short enough to be read.
const MOST_DEPTH: usize = 256;

/// The row of an operand that an element needs.
pub(crate) enum Row<'a> {
    /// Codes, one each, with the scales of blocks of so many.
    Scaled { element: Format, codes: Vec<u8>, scale: Format, block: usize, scales: &'a [u8] },
    /// Values that are multiplied as they are.
    Plain(Vec<f64>),
}

/// An element of a product.
pub(crate) struct Element<'a> {
    /// The name of each operand, and its row.
    pub(crate) rows: [(&'static str, Row<'a>); 2],
    /// What the sum is multiplied by.
    pub(crate) factors: Vec<f64>,
    /// What is added to it.
    pub(crate) bias: Option<f64>,
    /// What the kernel stored.
    pub(crate) stored: f64,
}

impl Row<'_> {
    const fn depth(&self) -> usize {
        match self {
            Self::Scaled { codes, .. } => codes.len(),
            Self::Plain(values) => values.len(),
        }
    }
}

/// A number as Python reads it.
fn number(x: f64) -> String {
    if x.is_finite() { format!("{x:?}") } else { format!("float('{x}')") }
}

/// The function that decodes a format of at most 8 bits.
fn decoder(format: Format) -> Option<String> {
    let name = format.name();
    let (exponent, mantissa) = match format {
        Format::Ue8m0 => return Some(format!("def {name}(code):\n    return 2.0 ** (code - 127)\n")),
        Format::E2m1 => (2, 1),
        Format::E2m3 => (2, 3),
        Format::E3m2 => (3, 2),
        Format::E4m3 | Format::Ue4m3 => (4, 3),
        Format::E5m2 => (5, 2),
        Format::F16 | Format::Bf16 | Format::Tf32 | Format::F32 => return None,
    };
    let (hidden, largest) = (1 << mantissa, (1 << exponent) - 1);
    let unit = (1 << (exponent - 1)) - 1 + mantissa;
    let (all, below, lowest) = (exponent + mantissa, hidden - 1, 1 - unit);
    Some(format!(
        "def {name}(code):\n    sign, e, m = code >> {all}, code >> {mantissa} & {largest}, code & {below}\n    \
         return (-1) ** sign * (m * 2.0**{lowest} if e == 0 else ({hidden} + m) * 2.0 ** (e - {unit}))\n"
    ))
}

impl Element<'_> {
    /// The program that computes the element exactly and prints it beside what is stored; `None` if K is long.
    pub(crate) fn program(&self) -> Option<String> {
        let depth = self.rows[0].1.depth();
        if depth == 0 || depth > MOST_DEPTH {
            return None;
        }
        let (mut decoders, mut operands, mut product) = (Vec::new(), String::new(), Vec::new());
        for (name, row) in &self.rows {
            match row {
                Row::Plain(values) => {
                    let values: Vec<String> = values.iter().map(|x| number(*x)).collect();
                    operands += &format!("{name} = [{}]\n", values.join(", "));
                    product.push(format!("{name}[k]"));
                }
                Row::Scaled { element, codes, scale, block, scales } => {
                    decoders.extend([decoder(*element)?, decoder(*scale)?]);
                    let (is_digit, mut hex) = (element.bits() == 4, String::new());
                    for code in codes {
                        // Writing to a string cannot fail.
                        let _ = if is_digit { write!(hex, "{code:x}") } else { write!(hex, "{code:02x}") };
                    }
                    operands += &match is_digit {
                        true => format!("{name} = [int(code, 16) for code in '{hex}']\n"),
                        false => format!("{name} = bytes.fromhex('{hex}')\n"),
                    };
                    operands += &format!("s{name} = {scales:?}\n");
                    let (element, scale) = (element.name(), scale.name());
                    product.push(format!("{element}({name}[k]) * {scale}(s{name}[k // {block}])"));
                }
            }
        }
        decoders.sort_unstable();
        decoders.dedup();
        let factors: String = self.factors.iter().map(|x| format!(" * {}", number(*x))).collect();
        let bias = self.bias.map(|x| format!(" + {}", number(x))).unwrap_or_default();
        Some(format!(
            "{}{operands}total = sum({} for k in range({depth}))\nprint('exact', total{factors}{bias}, 'stored', {})\n",
            decoders.concat(),
            product.join(" * "),
            number(self.stored)
        ))
    }
}

impl Matrix {
    /// A row of it, and its global scale, if it has one.
    fn row(&self, row: usize) -> Option<(Row<'_>, Option<f64>)> {
        let of = |depth: usize| row * depth..(row + 1) * depth;
        Some(match self {
            Self::Plain { depth, values } => (Row::Plain(values.get(of(*depth))?.to_vec()), None),
            Self::Scaled(matrix) => {
                let codes = matrix.codes.get(of(matrix.depth))?.to_vec();
                let scales = matrix.scales.get(of(matrix.depth / matrix.block.max(1)))?;
                let (element, scale, block) = (matrix.element, matrix.scale, matrix.block);
                let global = Some(matrix.global).filter(|of| *of != 1.0);
                (Row::Scaled { element, codes, scale, block, scales }, global)
            }
        })
    }
}

impl Product {
    /// The program that computes an element; `None` if K is long.
    pub(super) fn program(&self, row: usize, column: usize, stored: f64) -> Option<String> {
        let ((a, of_a), (b, of_b)) = (self.a.row(row)?, self.b.row(column)?);
        let bias = self.bias.as_ref().and_then(|bias| bias.get(column)).copied();
        let factors = of_a.into_iter().chain(of_b).collect();
        Element { rows: [("a", a), ("b", b)], factors, bias, stored }.program()
    }
}
