//! `mma` of every shape and type that the table of forms lists, dense, sparse and with block scales.

use emulator::{ListedForm, listed_forms};

use super::gadgets::Unit;
use super::random::Random;

/// The forms of `mma`.
pub(super) struct Matrices {
    forms: Vec<ListedForm>,
    /// Whether only block-scaled ones are written.
    scaled: bool,
}

/// Metadata of sparse operands that every type admits: the first two of each group of four, or the last two.
const METADATA: [&str; 2] = ["0x44444444", "0xEEEEEEEE"];

/// The modifier of block-scaled forms.
const BLOCK_SCALE: &str = "block_scale";

impl Matrices {
    pub(super) fn new(isa: (u32, u32)) -> Self {
        let usable = |form: &ListedForm| form.opcode == "mma" && form.since <= isa;
        Self { forms: listed_forms().into_iter().filter(usable).collect(), scaled: false }
    }

    /// Only the block-scaled ones.
    pub(super) fn scaled(self) -> Self {
        let is_scaled = |form: &ListedForm| {
            form.name.contains(&BLOCK_SCALE)
                || form.groups.iter().any(|g| g.words.iter().any(|(word, _)| *word == BLOCK_SCALE))
        };
        Self { forms: self.forms.into_iter().filter(is_scaled).collect(), scaled: true }
    }

    /// Writes one `mma`; none if the drawn words do not go together.
    pub(super) fn write(&self, random: &mut Random, isa: (u32, u32)) -> Option<Unit> {
        let form = random.choose(&self.forms)?;
        let mut words = vec!["mma"];
        words.extend(&form.name);
        let mut types = Vec::new();
        for group in &form.groups {
            let known: Vec<&'static str> =
                group.words.iter().filter(|(_, since)| *since <= isa).map(|(w, _)| *w).collect();
            if known.is_empty() || (group.optional && random.one_in(2)) {
                if !group.optional {
                    return None;
                }
                continue;
            }
            let word = random.word(&known);
            words.push(word);
            if group.is_type {
                types.push(word);
            }
        }
        let [to, a, b, c] = types.as_slice() else { return None };
        let shape = words.iter().find_map(|word| numbers(word))?;
        let sparse = words.iter().any(|word| word.starts_with("sp"));
        let scaled = words.contains(&BLOCK_SCALE);
        if self.scaled && !scaled {
            return None;
        }
        let text = words.join(".");
        let k = if sparse { shape[2] / 2 } else { shape[2] };
        // m8n8k4 of f16 is four products of 8 lanes each; b1 and f64 are counted as all others are.
        let quarter = if words.contains(&"m8n8k4") && *a == "f16" { 4 } else { 1 };
        let packed = words.iter().any(|word| word.starts_with("kind::mxf4"));
        let mut operands = vec![
            registers(to, shape[0] * shape[1] * quarter, true, packed, random)?,
            registers(a, shape[0] * k * quarter, false, packed, random)?,
            registers(b, shape[1] * shape[2] * quarter, false, packed, random)?,
            registers(c, shape[0] * shape[1] * quarter, false, packed, random)?,
        ];
        let mut before = String::new();
        if sparse {
            before = format!("mov.b32 t3, {};\n", METADATA[random.below(2)]);
            operands.extend(["t3".to_owned(), "0".to_owned()]);
        }
        if scaled {
            for _ in 0..2 {
                operands.extend([format!("{{r{}}}", random.below(12)), "{0, 0}".to_owned()]);
            }
        }
        Some(Unit::new(format!("{before}{text} {};", operands.join(", ")), text))
    }
}

/// The numbers of a shape such as `m16n8k32`.
fn numbers(word: &str) -> Option<[usize; 3]> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// The registers of a lane for so many elements of a type; results are different ones. `packed`: whether `e2m1` has 4 bits; kinds of mixed
/// types pad it, and types of 6 bits, to bytes.
fn registers(ty: &str, elements: usize, result: bool, packed: bool, random: &mut Random) -> Option<String> {
    let bits = match ty {
        "f64" => 64,
        "f32" | "s32" | "tf32" => 32,
        "f16" | "bf16" => 16,
        "s4" | "u4" => 4,
        "e2m1" if packed => 4,
        "b1" => 1,
        _ => 8,
    };
    list(bits, elements, result, random)
}

fn list(bits: usize, elements: usize, result: bool, random: &mut Random) -> Option<String> {
    let wide = bits == 64;
    let (letter, pool, width) = if wide { ('d', 8, 64) } else { ('r', 12, 32) };
    let count = (elements * bits).div_ceil(32 * width);
    if count == 0 || (result && count > pool) {
        return None;
    }
    let first = random.below(pool);
    let name = |n: usize, random: &mut Random| {
        if result { (first + n) % pool } else { random.below(pool) }
    };
    let names: Vec<String> = (0..count).map(|n| format!("{letter}{}", name(n, random))).collect();
    Some(format!("{{{}}}", names.join(", ")))
}
