//! Instructions on registers alone, drawn from the emulator's table of forms: any line of it whose operands are registers and numbers.

use std::collections::HashMap;

use emulator::{ListedForm, ListedOperand, listed_forms};
use ptx::arch::{PtxIsa, Target};

use super::random::Random;

/// Opcodes whose operands or effects the table of forms does not describe fully; `gadgets.rs` and `matrices.rs` write those that are
/// emulated, with what keeps them defined.
const ELSEWHERE: [&str; 50] = [
    "ld",
    "ldu",
    "st",
    "atom",
    "red",
    "cp",
    "bra",
    "brx",
    "exit",
    "ret",
    "trap",
    "brkpt",
    "nanosleep",
    "setmaxnreg",
    "griddepcontrol",
    "pmevent",
    "bar",
    "barrier",
    "membar",
    "fence",
    "shfl",
    "vote",
    "match",
    "redux",
    "activemask",
    "elect",
    "mbarrier",
    "prefetch",
    "prefetchu",
    "applypriority",
    "discard",
    "createpolicy",
    "mapa",
    "getctarank",
    "cvta",
    "isspacep",
    "ldmatrix",
    "stmatrix",
    "movmatrix",
    "mma",
    "wmma",
    "tex",
    "tld4",
    "txq",
    "suld",
    "sust",
    "sured",
    "suq",
    "istypep",
    "call",
];

/// Opcodes that belong to copies, clusters and tensors.
const ELSEWHERE_TOO: [&str; 4] = ["multimem", "tensormap", "clusterlaunchcontrol", "alloca"];

/// The registers of a kernel, by width: their names' first letter and number.
pub(super) const REGISTERS: [(u32, &str, usize); 3] = [(16, "h", 8), (32, "r", 12), (64, "d", 8)];
/// The predicates `p0` to `p3`.
pub(super) const PREDICATES: usize = 4;

/// The forms that a target has, and what is known of them.
pub(super) struct Forms {
    forms: Vec<ListedForm>,
    /// The indices of the forms of each row of the instruction table.
    pub(super) rows: Vec<(&'static str, Vec<usize>)>,
    /// Whether the emulator takes an opcode with its modifiers and so many operands for this target.
    taken: HashMap<(String, usize), bool>,
    isa: PtxIsa,
    target: Target,
}

/// A drawn instruction.
pub(super) struct Drawn {
    pub(super) text: String,
    /// Opcode and modifiers.
    pub(super) form: String,
    /// The number of operands: `min.f32` of three numbers is of later targets than that of two.
    operands: usize,
}

impl Forms {
    pub(super) fn new(isa: PtxIsa, target: Target) -> Self {
        let own = (u32::from(isa.major), u32::from(isa.minor));
        let usable = |form: &ListedForm| {
            let elsewhere = ELSEWHERE.contains(&form.opcode) || ELSEWHERE_TOO.contains(&form.opcode);
            form.since <= own && !elsewhere && form.operands.iter().all(is_simple)
        };
        let forms: Vec<ListedForm> = listed_forms().into_iter().filter(usable).collect();
        let mut rows: Vec<(&'static str, Vec<usize>)> = Vec::new();
        for (n, form) in forms.iter().enumerate() {
            // Words that every instruction of the form has, such as `pack` of `cvt.pack`.
            let fixed = form.groups.iter().filter(|g| !g.optional && !g.is_type && g.words.len() == 1);
            let words: Vec<&str> = form.name.iter().copied().chain(fixed.map(|g| g.words[0].0)).collect();
            let row = super::coverage::row_of_words(form.opcode, &words);
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, list)) => list.push(n),
                None => rows.push((row, vec![n])),
            }
        }
        Self { forms, rows, taken: HashMap::new(), isa, target }
    }

    /// Draws an instruction of a row that the target has; none after many attempts.
    pub(super) fn draw(&mut self, row: usize, random: &mut Random) -> Option<Drawn> {
        let list = self.rows.get(row)?.1.clone();
        for _ in 0..24 {
            let index = *random.choose(&list)?;
            let Some(drawn) = self.write(index, random) else { continue };
            if self.is_taken(&drawn) {
                return Some(drawn);
            }
        }
        None
    }

    /// Writes an instruction of a form.
    fn write(&self, index: usize, random: &mut Random) -> Option<Drawn> {
        let form = self.forms.get(index)?;
        let own = (u32::from(self.isa.major), u32::from(self.isa.minor));
        let (mut words, mut types) = (vec![form.opcode], Vec::new());
        words.extend(&form.name);
        for group in &form.groups {
            let known: Vec<&'static str> =
                group.words.iter().filter(|(_, since)| *since <= own).map(|(word, _)| *word).collect();
            let skipped = known.is_empty() || (group.optional && random.one_in(2));
            if skipped && !group.optional {
                return None;
            }
            let word = if skipped { "" } else { random.word(&known) };
            if group.is_type {
                types.push(word);
            }
            if !word.is_empty() {
                words.push(word);
            }
        }
        let form_text = words.join(".");
        let mut operands = Vec::new();
        for slot in &form.operands {
            if slot.with.is_some_and(|word| !words.contains(&word)) || (slot.optional && random.one_in(2)) {
                continue;
            }
            let kinds: Vec<&str> = kinds_of(slot.kinds);
            let usable: Vec<&&str> = kinds.iter().filter(|kind| is_simple_kind(kind)).collect();
            operands.push(operand(random.choose(&usable)?, &types, form.opcode, random)?);
        }
        let text = format!("{form_text} {};", operands.join(", "));
        Some(Drawn { text, form: form_text, operands: operands.len() })
    }

    fn is_taken(&mut self, drawn: &Drawn) -> bool {
        // Which parts of registers a video instruction takes depends on all of its operands; `set` may have a predicate.
        let by_form = !drawn.form.starts_with('v') && !drawn.form.starts_with("set.");
        let key = (drawn.form.clone(), drawn.operands);
        let known = self.taken.get(&key).copied().filter(|_| by_form);
        known.unwrap_or_else(|| {
            let taken = emulator::load(&probe(&drawn.text, self.isa, self.target)).is_ok();
            // Another draw of the same form may have operands that fit.
            if taken {
                self.taken.insert(key, true);
            }
            taken
        })
    }
}

/// A module with one instruction.
fn probe(instruction: &str, isa: PtxIsa, target: Target) -> String {
    format!(
        ".version {isa}\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n{}{instruction}\nret;\n}}\n",
        declarations()
    )
}

/// The registers of every kernel.
pub(super) fn declarations() -> String {
    let mut out = String::new();
    for (width, letter, count) in REGISTERS {
        out.push_str(&format!(".reg .b{width} {letter}<{count}>;\n"));
    }
    out.push_str(&format!(".reg .pred p<{PREDICATES}>;\n"));
    out
}

fn kinds_of(text: &'static str) -> Vec<&'static str> {
    let mut depth = 0usize;
    text.split(|c: char| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        c == '/' && depth == 0 && !text.starts_with('#')
    })
    .collect()
}

fn is_simple(operand: &ListedOperand) -> bool {
    kinds_of(operand.kinds).iter().any(|kind| is_simple_kind(kind))
}

/// Whether an operand is a register, a number, or a vector or pair of registers.
fn is_simple_kind(kind: &str) -> bool {
    let first = kind.as_bytes().first().copied().unwrap_or(b'*');
    matches!(first, b'r' | b'v' | b'm' | b'a' | b'x' | b'y' | b'p' | b'q' | b'n' | b'#')
        && !kind.contains("raw")
        || (first == b'{' && kind.as_bytes().get(1).is_some_and(u8::is_ascii_digit) && !kind.contains("b8"))
}

/// Writes an operand of a kind.
fn operand(kind: &str, types: &[&str], opcode: &str, random: &mut Random) -> Option<String> {
    if let Some((first, second)) = kind.split_once('|') {
        let first = operand(first, types, opcode, random)?;
        let mut other = operand(second, types, opcode, random)?;
        // Which of two results the same register gets is open.
        while other == first {
            other = operand(second, types, opcode, random)?;
        }
        return Some(format!("{first}|{other}"));
    }
    if let Some(inner) = kind.strip_prefix('{').and_then(|k| k.strip_suffix('}')) {
        let digits = inner.chars().take_while(char::is_ascii_digit).count();
        let count: usize = inner[..digits].parse().ok()?;
        // Of one register `mov` makes no vector.
        if count == 1 && opcode == "mov" {
            return None;
        }
        let element = inner[digits..].trim_start_matches('~');
        let mut parts = Vec::new();
        for _ in 0..count {
            // Results of one vector are different registers.
            let mut part = operand(element, types, opcode, random)?;
            while element.starts_with('r') && parts.contains(&part) {
                part = operand(element, types, opcode, random)?;
            }
            parts.push(part);
        }
        return Some(format!("{{{}}}", parts.join(", ")));
    }
    let kind = kind.trim_end_matches('_');
    if let Some(range) = kind.strip_prefix('#') {
        return Some(number_in(range, random).to_string());
    }
    match kind {
        "p" => return Some(format!("p{}", random.below(PREDICATES))),
        "q" | "n" => {
            let sign = if random.one_in(3) { "!" } else { "" };
            return Some(format!("{sign}p{}", random.below(PREDICATES)));
        }
        _ => {}
    }
    typed(kind, types, opcode, random)
}

fn number_in(range: &str, random: &mut Random) -> u64 {
    if let Some(only) = range.strip_prefix('=') {
        return only.parse().unwrap_or(0);
    }
    match range.split_once("..") {
        Some((least, most)) => {
            let least = least.parse().unwrap_or(0);
            let most = most.split('/').next().and_then(|m| m.parse().ok()).unwrap_or(255);
            least + random.bits() % (most - least + 1u64)
        }
        None => random.bits() & 0xFF,
    }
}

/// A register of a type, or a number.
fn typed(kind: &str, types: &[&str], opcode: &str, random: &mut Random) -> Option<String> {
    let letter = kind.as_bytes().first().copied()?;
    let (rest, range) = match kind[1..].strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((rest, range)) => (rest, Some(range)),
        None => (&kind[1..], None),
    };
    let sign = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == ':');
    let rest = rest.strip_suffix(sign).unwrap_or(rest);
    let ty = match rest.strip_prefix(':') {
        Some(ty) => ty,
        None => types.get(rest.parse::<usize>().unwrap_or(1) - 1).copied()?,
    };
    let mut width = width_of(ty)?;
    match sign {
        "*2" => width *= 2,
        "^" => width = width.max(32),
        "+" if random.one_in(3) && !ty.starts_with('f') => width = (width * 2).min(64),
        _ => {}
    }
    // Registers of 8 bits are not among those of the kernel: wider ones hold them where that is allowed.
    let width = if width < 16 { if sign == "+" { 16 } else { return None } } else { width };
    let takes_numbers = matches!(letter, b'v' | b'm' | b'a' | b'x');
    if takes_numbers
        && (range.is_some() && random.one_in(2) || random.one_in(6))
        && let Some(number) = number(ty, range, random)
    {
        return Some(number);
    }
    let (_, name, count) = REGISTERS.into_iter().find(|(bits, ..)| *bits == width)?;
    let register = format!("{name}{}", random.below(count));
    let has_part = matches!(letter, b'x' | b'y') && width == 32 && random.one_in(2);
    Some(if has_part { format!("{register}{}", part(letter, opcode, random)) } else { register })
}

/// A part of a register that a video instruction may name.
fn part(letter: u8, opcode: &str, random: &mut Random) -> String {
    if letter == b'x' {
        return format!(".{}", random.word(&["b0", "b1", "b2", "b3", "h0", "h1"]));
    }
    // A mask of a result, or a selection of sources: the decoder's answer for the form is kept only if it fits.
    if opcode.ends_with('2') { ".h10".to_owned() } else { ".b3210".to_owned() }
}

fn number(ty: &str, range: Option<&str>, random: &mut Random) -> Option<String> {
    if let Some(range) = range {
        return Some(number_in(range, random).to_string());
    }
    let x = random.number();
    Some(match ty {
        "f32" => format!("0f{:08X}", x as u32),
        "f64" => format!("0d{x:016X}"),
        "b16" | "u16" => format!("{}", x & 0xFFFF),
        "s16" => format!("{}", x as u16 as i16),
        "b32" | "u32" => format!("0x{:x}", x as u32),
        "s32" => format!("{}", x as u32 as i32),
        "b64" | "u64" => format!("0x{x:x}"),
        "s64" => format!("{}", x as i64),
        _ => return None,
    })
}

/// The bits of a type.
pub(super) fn width_of(ty: &str) -> Option<u32> {
    Some(match ty {
        "b8" | "u8" | "s8" => 8,
        "b16" | "u16" | "s16" | "f16" | "bf16" | "e4m3x2" | "e5m2x2" | "e2m3x2" | "e3m2x2" | "ue8m0x2"
        | "s2f6x2" | "e2m1x4" | "e2m1p4x4" => 16,
        "b32" | "u32" | "s32" | "f32" | "tf32" | "f16x2" | "bf16x2" | "u16x2" | "s16x2" | "u8x4" | "s8x4"
        | "e4m3x4" | "e5m2x4" | "e2m3x4" | "e3m2x4" | "ue8m0x4" => 32,
        "b64" | "u64" | "s64" | "f64" | "f32x2" => 64,
        "e2m1x2" => 8,
        _ => return None,
    })
}
