//! The operands of forms: their kinds, and whether an operand is of a kind.
//!
//! | kind | |
//! |---|---|
//! | `r1` | a register of the first type; `r:u32`: of this type. A bit type fits any type of its size, an integer any integer, a float only itself |
//! | `v1` | the same, or a number of that type |
//! | `a1`, `m1` | the same, or the address of a variable; that or a special register |
//! | `y1`, `x1` | a register or a part of one, such as `%r1.b2`; the same or a number |
//! | `r1+`, `v1+` | the same, or a wider register |
//! | `r1*2`, `r1=`, `r1^` | a register of twice the width; of the same size, whatever its class; of at least 32 bits |
//! | `p`, `n`, `q` | a predicate; one that may be negated; that or a number |
//! | `#`, `#=128`, `#0..64/8` | a number; this one; a multiple of 8 in a range. `v1(0..15)` limits the numbers of a typed operand |
//! | `_` | nothing: the result is discarded |
//! | `[]`, `[g]`, `[s]` | an address; of global, of shared memory |
//! | `[u]` | an address that `.unified` may follow if it is generic or of global memory |
//! | `[5v:s32]`, `[Dv:s32]` | an address with five coordinates; with as many as `.1d` to `.5d` says |
//! | `{2r1}` | a vector of two registers of one type; `{2~r1}`: of any types that fit; `{Nr1}`: of any number; `{Vr1}`: of as many as `.v2`, `.v4`, `.v8` says, or no vector without these words |
//! | `r1_` | the kind or `_` |
//! | `L` | a name |
//! | `*` | anything: the decoder checks it |
//!
//! `A|B` is a pair, `A/B` one of two kinds. `?A` may be missing; `word>A` is there if and only if the instruction has this modifier.

use ptx::{AddressBase, Immediate, Instruction, Operand, Type};

use super::classes::{Class, Width, fits, held, packed, shape};
use super::special::special_sizes;

/// The meaning of a name, as far as the syntax depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Register(Type),
    Special,
    Variable(VariableSpace),
    Unknown,
}

/// The state space of a variable, as far as an address decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariableSpace {
    Global,
    Const,
    Shared,
    /// `.local`, and `.param` of a function's body.
    Frame,
    /// A parameter of the kernel.
    Param,
}

/// The names that an instruction sees.
pub(crate) trait Names {
    fn named(&self, name: &str) -> Named;

    /// Why a name means nothing.
    fn unknown(&self, name: &str) -> String;

    /// Whether the target has only 64-bit addresses: from sm_90 on.
    fn has_wide_addresses(&self) -> bool;
}

/// An operand of a form.
#[derive(Debug)]
pub(super) struct Slot {
    /// The modifier with which it is there.
    with: Option<&'static str>,
    optional: bool,
    kinds: Vec<Kind>,
    text: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Of {
    /// The type modifier of this position.
    Nth(usize),
    Fixed(&'static str),
}

/// The numbers that a position takes.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u64,
    most: u64,
    step: u64,
}

const ANY: Range = Range { least: 0, most: u64::MAX, step: 1 };

impl Range {
    /// `0..15`, `0..2048/32`, `=128`.
    fn written(text: &str) -> Self {
        let number = |text: &str| text.parse().unwrap_or(0);
        if let Some(only) = text.strip_prefix('=') {
            return Self { least: number(only), most: number(only), step: 1 };
        }
        let Some((least, most)) = text.split_once("..") else { return ANY };
        let (most, step) = most.split_once('/').unwrap_or((most, "1"));
        Self {
            least: number(least),
            most: if most.is_empty() { u64::MAX } else { number(most) },
            step: number(step),
        }
    }

    fn has(self, bits: u64) -> bool {
        (self.least..=self.most).contains(&bits) && bits.is_multiple_of(self.step)
    }

    fn described(self) -> String {
        let step = if self.step == 1 { String::new() } else { format!(", a multiple of {}", self.step) };
        match (self.least, self.most) {
            (0, u64::MAX) => format!("a number{step}"),
            (least, most) if least == most => format!("the number {least}"),
            (least, u64::MAX) => format!("a number from {least} on{step}"),
            (least, most) => format!("a number from {least} to {most}{step}"),
        }
    }
}

/// What a typed operand may be other than a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Registers,
    Numbers,
    /// Numbers, special registers and addresses of variables.
    Moved,
    /// Numbers and addresses of variables.
    Addresses,
    /// Parts of registers, such as `%r1.b2`.
    Parts,
    /// Parts of registers, and numbers.
    PartsOrNumbers,
}

#[derive(Debug, Clone, Copy)]
enum Count {
    Fixed(usize),
    /// As many as the vector modifier says.
    ByWord,
    /// The decoder counts.
    Open,
}

#[derive(Debug)]
enum Kind {
    Typed {
        of: Of,
        width: Width,
        takes: Takes,
        range: Range,
    },
    Predicate,
    /// A predicate that may be negated, or a number.
    Condition {
        numbers: bool,
    },
    Number(Range),
    Sink,
    /// An address, in this space if one is named.
    Address(Option<VariableSpace>),
    /// An address that `.unified` may follow.
    UnifiedAddress,
    Coordinates {
        count: Option<usize>,
        element: Box<Kind>,
    },
    /// Registers of one type unless `mixed`, in which case their size decides.
    Vector {
        count: Count,
        mixed: bool,
        element: Box<Kind>,
    },
    Pair(Box<Kind>, Box<Kind>),
    /// The kind, or `_`.
    OrSink(Box<Kind>),
    Name,
    Anything,
}

impl Slot {
    /// The slot for programs that write instructions.
    pub(super) fn listed(&self) -> super::ListedOperand {
        super::ListedOperand { with: self.with, optional: self.optional, kinds: self.text }
    }

    pub(super) fn written(text: &'static str) -> Self {
        let (with, rest) = match text.split_once('>') {
            Some((word, rest)) => (Some(word), rest),
            None => (None, text),
        };
        let optional = rest.starts_with('?');
        let rest = rest.strip_prefix('?').unwrap_or(rest);
        // A slash in parentheses belongs to a range.
        let mut depth = 0usize;
        let kinds = rest.split(|c: char| {
            depth = match c {
                '(' => depth + 1,
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
            c == '/' && depth == 0 && !rest.starts_with('#')
        });
        Self { with, optional, kinds: kinds.map(Kind::written).collect(), text: rest }
    }
}

impl Kind {
    fn written(text: &'static str) -> Self {
        if let Some(kind) = text.strip_suffix('_').filter(|kind| !kind.is_empty() && !kind.contains('|')) {
            return Self::OrSink(Box::new(Self::written(kind)));
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            let digits = inner.chars().take_while(char::is_ascii_digit).count();
            let (count, element) = match inner.as_bytes() {
                [b'V', ..] => (Count::ByWord, &inner[1..]),
                [b'N', ..] => (Count::Open, &inner[1..]),
                _ => (Count::Fixed(inner[..digits].parse().unwrap_or(0)), &inner[digits..]),
            };
            let mixed = element.starts_with('~');
            let element = element.strip_prefix('~').unwrap_or(element);
            return Self::Vector { count, mixed, element: Box::new(Self::written(element)) };
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return match inner.as_bytes() {
                [] => Self::Address(None),
                [b'u'] => Self::UnifiedAddress,
                [b'g'] => Self::Address(Some(VariableSpace::Global)),
                [b's'] => Self::Address(Some(VariableSpace::Shared)),
                [count, ..] => Self::Coordinates {
                    count: count.is_ascii_digit().then(|| usize::from(count - b'0')),
                    element: Box::new(Self::written(&inner[1..])),
                },
            };
        }
        if let Some((first, second)) = text.split_once('|') {
            return Self::Pair(Box::new(Self::written(first)), Box::new(Self::written(second)));
        }
        if let Some(range) = text.strip_prefix('#') {
            return Self::Number(Range::written(range));
        }
        match text {
            "p" => return Self::Predicate,
            "q" => return Self::Condition { numbers: true },
            "n" => return Self::Condition { numbers: false },
            "_" => return Self::Sink,
            "L" => return Self::Name,
            "*" => return Self::Anything,
            _ => {}
        }
        let takes = match text.as_bytes().first() {
            Some(b'v') => Takes::Numbers,
            Some(b'm') => Takes::Moved,
            Some(b'a') => Takes::Addresses,
            Some(b'x') => Takes::PartsOrNumbers,
            Some(b'y') => Takes::Parts,
            _ => Takes::Registers,
        };
        let (rest, range) = match text[1..].strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((rest, range)) => (rest, Range::written(range)),
            None => (&text[1..], ANY),
        };
        let widths =
            [("+", Width::SameOrMore), ("*2", Width::Twice), ("=", Width::Size), ("^", Width::Packed)];
        let found = widths.iter().find_map(|(sign, width)| Some((rest.strip_suffix(sign)?, *width)));
        let (rest, width) = found.unwrap_or((rest, Width::Same));
        let of = match rest.strip_prefix(':') {
            Some(word) => Of::Fixed(word),
            None => Of::Nth(rest.parse::<usize>().unwrap_or(1) - 1),
        };
        Self::Typed { of, width, takes, range }
    }

    fn holds(&self, names: &impl Names, i: &Instruction, types: &[&str], operand: &Operand) -> bool {
        match self {
            Self::Anything => true,
            Self::Name => matches!(operand, Operand::Name(_)),
            Self::Sink => matches!(operand, Operand::Sink),
            Self::Predicate => match operand {
                Operand::Name(name) => {
                    matches!(names.named(name), Named::Register(Type::Pred) | Named::Unknown)
                }
                _ => false,
            },
            Self::Condition { numbers } => match operand {
                Operand::Name(name) if matches!(name.as_str(), "WARP_SZ" | "%is_explicit_cluster") => {
                    *numbers
                }
                Operand::Name(name) | Operand::Not(name) => {
                    matches!(names.named(name), Named::Register(Type::Pred) | Named::Unknown)
                }
                Operand::Immediate(Immediate::Integer { .. }) => *numbers,
                _ => false,
            },
            Self::Number(range) => match operand {
                Operand::Immediate(Immediate::Integer { bits, .. }) => range.has(*bits),
                Operand::Name(name) => name == "WARP_SZ" && range.has(32),
                _ => false,
            },
            Self::UnifiedAddress => match operand {
                Operand::Address(address) => is_base(names, i, &address.base, None),
                Operand::Qualified(address, word) => {
                    let spaces =
                        |word: &String| named_space(word).is_some_and(|has| has != VariableSpace::Global);
                    word == "unified"
                        && !i.modifiers.iter().any(spaces)
                        && is_base(names, i, &address.base, None)
                }
                _ => false,
            },
            Self::Address(space) => match operand {
                Operand::Address(address) => is_base(names, i, &address.base, *space),
                _ => false,
            },
            Self::Coordinates { count, element } => match operand {
                Operand::Composite(address, parts) => {
                    let dimensions =
                        || i.modifiers.iter().find_map(|m| m.strip_suffix('d')?.parse::<usize>().ok());
                    let count = count.or_else(dimensions);
                    is_base(names, i, &address.base, None)
                        && matches!(parts.as_slice(), [Operand::Vector(list)]
                            if Some(list.len()) == count && list.iter().all(|o| element.holds(names, i, types, o)))
                }
                _ => false,
            },
            Self::Vector { count, mixed, element } => {
                let by_word = i.modifiers.iter().find_map(|m| m.strip_prefix('v')?.parse::<usize>().ok());
                match (operand, count) {
                    (Operand::Vector(list), count) => {
                        let counted = match count {
                            Count::Fixed(count) => list.len() == *count,
                            Count::ByWord => list.len() == by_word.unwrap_or(1),
                            Count::Open => true,
                        };
                        counted && vector(names, list, *mixed, |o| element.holds(names, i, types, o))
                    }
                    (other, Count::ByWord) => by_word.is_none() && element.holds(names, i, types, other),
                    _ => false,
                }
            }
            Self::OrSink(kind) => matches!(operand, Operand::Sink) || kind.holds(names, i, types, operand),
            Self::Pair(first, second) => match operand {
                Operand::Pair(a, b) => {
                    let sinks = matches!((&**a, &**b), (Operand::Sink, Operand::Sink));
                    !sinks && first.holds(names, i, types, a) && second.holds(names, i, types, b)
                }
                _ => false,
            },
            Self::Typed { of, width, takes, range } => {
                let word = match of {
                    Of::Nth(n) => types.get(*n).copied().unwrap_or_default(),
                    Of::Fixed(word) => word,
                };
                let wanted = if *width == Width::Packed { Some(packed(word)) } else { shape(word) };
                wanted.is_none_or(|wanted| typed(names, wanted, (*width, *takes, *range), operand))
            }
        }
    }
}

/// Whether the elements of a vector are of a kind. ptxas gives a vector the type of its registers: bits if one holds bits, and
/// otherwise all are of one class.
fn vector(names: &impl Names, list: &[Operand], mixed: bool, holds: impl Fn(&Operand) -> bool) -> bool {
    let register = |operand: &Operand| match operand {
        Operand::Name(name) => match names.named(name) {
            Named::Register(ty) => held(ty),
            _ => None,
        },
        _ => None,
    };
    if list.iter().all(|operand| matches!(operand, Operand::Sink)) {
        return false;
    }
    if mixed {
        return list.iter().all(holds);
    }
    let registers: Vec<(Class, usize)> = list.iter().filter_map(register).collect();
    let bits = registers.iter().find(|(class, _)| *class == Class::Bits);
    let Some(joint) = bits.or(registers.first()) else { return list.iter().all(holds) };
    let alike = registers.iter().all(|(class, bytes)| {
        *bytes == joint.1 && *class != Class::Predicate && (bits.is_some() || *class == joint.0)
    });
    alike && list.iter().all(|operand| register(operand).is_some_and(|has| has != *joint) || holds(operand))
}

/// Instructions whose addresses of global memory have 64 bits; the others extend smaller ones.
const WIDE: [&str; 9] =
    ["ld", "ldu", "st", "atom", "red", "mbarrier", "prefetch", "prefetchu", "applypriority"];

/// Whether the base of an address is one. ptxas takes numbers as addresses of local memory only.
fn is_base(names: &impl Names, i: &Instruction, base: &AddressBase, space: Option<VariableSpace>) -> bool {
    let AddressBase::Name(name) = base else { return i.has("local") };
    let spaces: Vec<VariableSpace> = i.modifiers.iter().filter_map(|word| named_space(word)).collect();
    match names.named(name) {
        Named::Register(ty) => match held(ty) {
            Some((Class::Bits | Class::Integer | Class::Pair, bytes)) => {
                let smaller =
                    WIDE.contains(&i.opcode.as_str()) && !i.has("bulk") && names.has_wide_addresses();
                let global = spaces.is_empty() || spaces == [VariableSpace::Global];
                if smaller && global {
                    bytes == 8
                } else {
                    matches!(bytes, 4 | 8) || !i.has("bulk") && bytes < 8
                }
            }
            _ => false,
        },
        Named::Special => false,
        Named::Variable(has) => match space {
            Some(space) => has == space,
            None if spaces.is_empty() => !matches!(has, VariableSpace::Const | VariableSpace::Param),
            None => {
                let parameter = has == VariableSpace::Frame && spaces.contains(&VariableSpace::Param);
                parameter || spaces.contains(&has)
            }
        },
        Named::Unknown => true,
    }
}

/// The state space that a modifier names.
fn named_space(word: &str) -> Option<VariableSpace> {
    Some(match word.split("::").next().unwrap_or(word) {
        "global" => VariableSpace::Global,
        "const" => VariableSpace::Const,
        "shared" => VariableSpace::Shared,
        "local" => VariableSpace::Frame,
        "param" => VariableSpace::Param,
        _ => return None,
    })
}

fn typed(names: &impl Names, wanted: (Class, usize), kind: (Width, Takes, Range), operand: &Operand) -> bool {
    let (class, bytes) = wanted;
    let (width, takes, range) = kind;
    let numbers = !matches!(takes, Takes::Registers | Takes::Parts);
    let parts = matches!(takes, Takes::Parts | Takes::PartsOrNumbers);
    match operand {
        Operand::Name(name) => match names.named(name) {
            Named::Register(_) if name.contains('.') && !parts => false,
            Named::Register(ty) => held(ty).is_some_and(|has| fits(has, wanted, width)),
            Named::Special => {
                let sized = special_sizes(name).contains(&bytes) || width == Width::SameOrMore;
                takes == Takes::Moved && sized && matches!(class, Class::Bits | Class::Integer)
            }
            Named::Variable(_) => {
                matches!(takes, Takes::Moved | Takes::Addresses)
                    && matches!(class, Class::Bits | Class::Integer)
            }
            Named::Unknown if name == "WARP_SZ" => {
                numbers && range.has(32) && matches!(class, Class::Bits | Class::Integer | Class::Predicate)
            }
            Named::Unknown => true,
        },
        Operand::Not(name) => {
            class == Class::Predicate && numbers && names.named(name) == Named::Register(Type::Pred)
        }
        Operand::Negate(name) => parts && matches!(names.named(name), Named::Register(_)),
        Operand::Offset(..) => numbers && matches!(class, Class::Bits | Class::Integer),
        Operand::Immediate(_) if matches!(width, Width::Size | Width::Packed) => numbers,
        Operand::Immediate(number) => {
            numbers
                && match (number, class) {
                    (Immediate::Integer { bits, .. }, _) if !range.has(*bits) => false,
                    (Immediate::Integer { .. }, Class::Bits | Class::Integer | Class::Predicate) => true,
                    (Immediate::F32(_), Class::Bits) => bytes == 4 || width == Width::SameOrMore,
                    (Immediate::F64(_), Class::Bits) => bytes == 8,
                    (Immediate::F32(_) | Immediate::F64(_), Class::Float) => bytes >= 4,
                    (Immediate::F32(_) | Immediate::F64(_), Class::Packed) => false,
                    _ => false,
                }
        }
        _ => false,
    }
}

/// Checks the operands of an instruction.
///
/// # Errors
/// How many operands match, and what is wrong with the next one.
pub(super) fn check(
    names: &impl Names,
    slots: &[Slot],
    i: &Instruction,
    types: &[&str],
) -> Result<(), (usize, String)> {
    let there = |slot: &&Slot| slot.with.is_none_or(|word| i.has(word));
    let slots: Vec<&Slot> = slots.iter().filter(there).collect();
    let most = slots.len();
    let least = slots.iter().filter(|slot| !slot.optional).count();
    let given = i.operands.len();
    if given < least || given > most {
        let count = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let word = if most == 1 { "operand is" } else { "operands are" };
        return Err((0, format!("{count} {word} expected, {given} given")));
    }
    // Optional operands are taken in order as long as there are enough.
    let mut spare = given - least;
    let mut at = 0;
    for slot in slots {
        if slot.optional && spare == 0 {
            continue;
        }
        let Some(operand) = i.operands.get(at) else { break };
        if slot.kinds.iter().any(|kind| kind.holds(names, i, types, operand)) {
            at += 1;
            spare -= usize::from(slot.optional);
        } else if slot.optional {
            continue;
        } else {
            return Err((1 + at, format!("operand {}: {} is expected", at + 1, described(slot, types))));
        }
    }
    if at < given {
        return Err((1 + at, format!("operand {} is not expected", at + 1)));
    }
    Ok(())
}

/// A kind of operand for a message.
fn described(slot: &Slot, types: &[&str]) -> String {
    let one = |kind: &Kind| match kind {
        Kind::Typed { of, width, takes, range } => {
            let word = match of {
                Of::Nth(n) => types.get(*n).copied().unwrap_or_default(),
                Of::Fixed(word) => word,
            };
            let wide = match width {
                Width::Same | Width::Size | Width::Packed => "",
                Width::Twice => " of twice the width",
                Width::SameOrMore => " or a wider one",
            };
            let or = if matches!(takes, Takes::Registers | Takes::Parts) {
                String::new()
            } else {
                format!(" or {}", range.described())
            };
            format!("a register that holds .{word}{wide}{or}")
        }
        Kind::Predicate => "a predicate".to_owned(),
        Kind::Condition { .. } => "a predicate, negated or not".to_owned(),
        Kind::Number(range) => range.described(),
        Kind::Sink => "`_`".to_owned(),
        Kind::Address(_) | Kind::UnifiedAddress => "an address".to_owned(),
        Kind::Coordinates { count: Some(count), .. } => format!("an address with {count} coordinates"),
        Kind::Coordinates { count: None, .. } => "an address with a coordinate for each dimension".to_owned(),
        Kind::Vector { count: Count::Fixed(count), .. } => format!("a vector of {count} that the form takes"),
        Kind::Vector { .. } => "the vector or register that the form takes".to_owned(),
        Kind::OrSink(_) => "a register or `_`".to_owned(),
        Kind::Pair(..) => "a pair of registers".to_owned(),
        Kind::Name => "a name".to_owned(),
        Kind::Anything => slot.text.to_owned(),
    };
    slot.kinds.iter().map(one).collect::<Vec<_>>().join(" or ")
}

/// Checks the text of an operand.
#[cfg(test)]
pub(super) fn well_formed(text: &str) -> Result<(), String> {
    let starts = |text: &str| {
        text.starts_with(['r', 'v', 'a', 'm', 'x', 'y', 'p', 'n', 'q', '#', '_', '[', '{', 'L', '*', '?'])
    };
    let body = text.split_once('>').map_or(text, |(_, body)| body);
    let slot = Slot::written(Box::leak(text.to_owned().into_boxed_str()));
    if starts(body) && slot.kinds.iter().all(kind_of) { Ok(()) } else { Err(format!("the operand `{text}`")) }
}

#[cfg(test)]
fn kind_of(kind: &Kind) -> bool {
    match kind {
        Kind::Typed { of: Of::Nth(n), .. } => *n < 4,
        Kind::Typed { of: Of::Fixed(word), .. } => shape(word).is_some(),
        Kind::Coordinates { element, .. } | Kind::Vector { element, .. } | Kind::OrSink(element) => {
            kind_of(element)
        }
        Kind::Pair(first, second) => kind_of(first) && kind_of(second),
        _ => true,
    }
}
