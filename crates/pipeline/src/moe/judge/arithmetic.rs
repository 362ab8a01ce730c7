//! The arithmetic of one wrong element of a GEMM, as a Python program that needs nothing else.

use std::fmt::Write;

use super::gemms::Fc;
use super::{Inputs, Skip};
use crate::moe::format::{BlockScale, Element};
use crate::moe::reference::formats::bf16;
use crate::moe::reference::gemm::Operands;
use crate::moe::stage::Stage;

/// Elements of K up to which a program is short enough to be read.
const MOST_DEPTH: usize = 128;

/// The decoders that a program may need.
const fn element_decoder(element: Element) -> &'static str {
    match element {
        Element::E2m1 => {
            "def e2m1(bytes, k):\n    code = bytes[k // 2] >> k % 2 * 4 & 15\n    return (-1) ** (code >> 3) * [0, 0.5, 1, 1.5, 2, 3, 4, 6][code & 7]\n"
        }
        Element::E4m3 => {
            "def e4m3(bytes, k):\n    sign, e, m = bytes[k] >> 7, bytes[k] >> 3 & 15, bytes[k] & 7\n    return (-1) ** sign * (m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7))\n"
        }
        Element::Bf16 => {
            "def bf16(bytes, k):\n    return struct.unpack('<f', b'\\0\\0' + bytes[2 * k : 2 * k + 2])[0]\n"
        }
    }
}

const fn scale_decoder(scale: BlockScale) -> &'static str {
    match scale {
        BlockScale::Ue8m0 => "def ue8m0(code):\n    return 2.0 ** (code - 127)\n",
        BlockScale::Ue4m3 => {
            "def ue4m3(code):\n    e, m = code >> 3 & 15, code & 7\n    return m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)\n"
        }
    }
}

const fn element_name(element: Element) -> &'static str {
    match element {
        Element::E2m1 => "e2m1",
        Element::E4m3 => "e4m3",
        Element::Bf16 => "bf16",
    }
}

const fn scale_name(scale: BlockScale) -> &'static str {
    match scale {
        BlockScale::Ue8m0 => "ue8m0",
        BlockScale::Ue4m3 => "ue4m3",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Inputs<'_> {
    /// The program that computes an element of a GEMM exactly; `None` for other stages, or if K is long.
    pub(super) fn arithmetic(&self, stage: Stage, row: usize, column: usize) -> Option<String> {
        let (fc, stored) = match stage {
            Stage::Fc1 => (Fc::One, &self.tensors.fc1_out),
            Stage::Fc2 => (Fc::Two, &self.tensors.fc2_out),
            _ => return None,
        };
        let found = stored.as_ref()?.row(row).get(column).copied()?;
        let expert = *self.row_experts().ok()?.get(row)?;
        self.program(fc, (row, expert, column), found).ok().flatten()
    }

    fn program(
        &self,
        fc: Fc,
        (row, expert, column): (usize, usize, usize),
        found: u16,
    ) -> Result<Option<String>, Skip> {
        let Operands { pair, codes, scales, weights, weight_scales, globals, token_scales, bias } =
            self.operands(fc)?;
        let at = *self.weights_of(row, expert)?;
        let columns = weights.shape.get(1).copied().unwrap_or_default();
        let weight_row = at * columns + column;
        let sides = [
            ("a", pair.activation(), codes.row(row), scales.map(|scales| scales.row(row))),
            ("w", pair.weight(), weights.row(weight_row), Some(weight_scales.row(weight_row))),
        ];
        let depth = codes.row(row).len() * 8 / pair.activation().element().bits();
        if depth > MOST_DEPTH || depth == 0 {
            return Ok(None);
        }
        let mut text = String::new();
        let mut decoders: Vec<&str> = Vec::new();
        let mut product: Vec<String> = Vec::new();
        let mut operands = String::new();
        for (name, format, bytes, scales) in sides {
            let element = format.element();
            decoders.push(element_decoder(element));
            operands += &format!("{name} = bytes.fromhex('{}')\n", hex(bytes));
            product.push(format!("{}({name}, k)", element_name(element)));
            if let (Some(scale), Some(scales)) = (format.scale(), scales) {
                decoders.push(scale_decoder(scale));
                operands += &format!("s{name} = {scales:?}\n");
                product.push(format!("{}(s{name}[k // {}])", scale_name(scale), format.block()));
            }
        }
        let single = |array: Option<&crate::moe::tensors::Array<f32>>, at: usize| {
            array.and_then(|array| array.data.get(at).copied())
        };
        let factors = [single(globals[0], at), single(globals[1], at), single(token_scales, row)];
        let factors: Vec<String> = factors.into_iter().flatten().map(|x| format!(" * {x:?}")).collect();
        let bias = single(bias, weight_row).map(|x| format!(" + {x:?}")).unwrap_or_default();
        decoders.sort_unstable();
        decoders.dedup();
        if decoders.iter().any(|text| text.contains("struct.")) {
            text += "import struct\n";
        }
        text += &decoders.concat();
        text += &operands;
        text += &format!("total = sum({} for k in range({depth}))\n", product.join(" * "));
        text += &format!("print('exact', total{}{bias}, 'stored', {:?})\n", factors.concat(), bf16(found));
        Ok(Some(text))
    }
}
