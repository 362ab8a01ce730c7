//! How instructions handle undefined bits: which operands decide something, and how the results depend on the others.

use ptx::{Instruction, Operand};

use crate::front::registers::{Bank, Place};
use crate::run::livelock::outside;

/// How undefined bits of the sources become undefined bits of the results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// An undefined bit in a lane makes all of the lane's results undefined.
    Lane,
    /// An undefined bit in any lane makes all lanes undefined: the lanes exchange values.
    Warp,
    /// The row moves bits without changing them. The other operands specify the positions.
    Moves {
        by: Box<[Place]>,
    },
    /// Each bit of the result depends on the bits at its position.
    Bitwise,
    /// Integer arithmetic: bits above the lowest undefined one.
    Upward,
    /// Integer arithmetic with the carry of extended precision: bits above the lowest undefined one, and the carry.
    Chain {
        reads: bool,
    },
    /// Elements of this many bits, each on its own.
    Elements(u32),
    /// Two numbers become elements of this many bits; the first is the upper one.
    Pair(u32),
    /// Elements of the first width become elements of the second.
    Widths(u32, u32),
    /// Like [`Propagation::Lane`]; the row adds the lanes that divide by zero.
    Quotient,
    /// The selected side; `by` selects it if no predicate does.
    Select {
        by: Option<Place>,
    },
    Compare {
        equal: bool,
        with: Option<(Combine, Place, bool)>,
    },
    Ballot,
    Matrix,
    /// The row itself sets the undefined bits of its results.
    Load,
    /// Undefined bytes become unwritten memory.
    Store,
    /// Memory changed by an undefined operand becomes unwritten; its previous content is defined.
    Atomic {
        bytes: usize,
    },
}

/// How `setp` combines its result with a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    And,
    Or,
    Xor,
}

/// How an instruction affects what others can observe ([`outside`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It computes, reads memory that only the launch changes, or waits.
    Nothing,
    /// It loads from the address that it names.
    Loads,
    /// It stores to the address that it names.
    Stores,
    /// It asks whether a phase is complete, which may time out at random.
    Polls,
    /// Anything else.
    Acts,
}

/// The role of an operand that decides something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Address,
    Operand,
}

/// An instruction from the point of view of definedness. A 128-bit register is two places.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub(crate) rule: Propagation,
    /// Operands that must be defined.
    pub(crate) decides: Box<[(Place, Role)]>,
    /// The other sources.
    pub(crate) reads: Box<[Place]>,
    pub(crate) writes: Box<[Place]>,
    /// The results of the 32-bit bank that are narrower than 32 bits: slots and bits.
    pub(crate) narrow: Box<[(u32, u32)]>,
    /// The sources of the 32-bit bank that are narrower than 32 bits: slots and bits.
    pub(crate) narrow_sources: Box<[(u32, u32)]>,
    /// Whether it only computes registers from registers, lane by lane.
    pub(crate) pure: bool,
    pub(crate) outside: Outside,
}

/// The operands of an instruction: its sources in order, including address bases, and its results.
pub(crate) struct Named<'a> {
    pub(crate) reads: &'a [Place],
    pub(crate) bases: &'a [Place],
    pub(crate) writes: &'a [Place],
    pub(crate) narrow: &'a [(u32, u32)],
    pub(crate) narrow_sources: &'a [(u32, u32)],
}

/// The halves of a 128-bit register.
fn places(all: &[Place]) -> Vec<Place> {
    let halves = |(bank, slot): &Place| match bank {
        Bank::Q => vec![(Bank::D, *slot), (Bank::D, slot + 1)],
        _ => vec![(*bank, *slot)],
    };
    all.iter().flat_map(halves).collect()
}

/// Removes each of `taken` from `from` once.
fn without(from: &mut Vec<Place>, taken: &[Place]) {
    for place in taken {
        if let Some(at) = from.iter().position(|p| p == place) {
            from.remove(at);
        }
    }
}

impl Effect {
    /// Returns the effect of an instruction; `slot` finds the place of an operand: a register or a constant's slot.
    pub(crate) fn of_instruction(
        i: &Instruction,
        named: &Named<'_>,
        mut slot: impl FnMut(&Operand) -> Option<Place>,
    ) -> Self {
        let mut place = |n: usize| slot(i.operands.get(n)?);
        let has = |word: &str| i.modifiers.iter().any(|m| m == word);
        let (rule, control) = rule(i, &has, &mut place);
        let (mut reads, bases) = (places(named.reads), places(named.bases));
        without(&mut reads, &bases);
        let pure = matches!(control, Control::Nothing)
            && !named.writes.is_empty()
            && matches!(
                rule,
                Propagation::Lane
                    | Propagation::Moves { .. }
                    | Propagation::Bitwise
                    | Propagation::Upward
                    | Propagation::Elements(_)
                    | Propagation::Pair(_)
                    | Propagation::Widths(..)
                    | Propagation::Quotient
                    | Propagation::Select { .. }
                    | Propagation::Compare { .. }
            );
        let mut decides: Vec<(Place, Role)> = bases.into_iter().map(|p| (p, Role::Address)).collect();
        match control {
            Control::Nothing => {}
            Control::These(operands) => {
                let operands: Vec<Place> = operands.iter().filter_map(|n| place(*n)).collect();
                let operands = places(&operands);
                without(&mut reads, &operands);
                decides.extend(operands.into_iter().map(|p| (p, Role::Operand)));
            }
            Control::Everything => decides.extend(reads.drain(..).map(|p| (p, Role::Operand))),
        }
        if let Propagation::Moves { by } = &rule {
            without(&mut reads, by);
        }
        if let Propagation::Compare { with: Some((_, c, _)), .. } = &rule {
            without(&mut reads, &[*c]);
        }
        // The same register in both roles: its bits cannot be both data and a decision.
        let rule = match rule {
            Propagation::Moves { by } if by.iter().any(|p| reads.contains(p)) => {
                reads.extend_from_slice(&by);
                Propagation::Lane
            }
            rule => rule,
        };
        Self {
            rule,
            decides: decides.into(),
            reads: reads.into(),
            writes: places(named.writes).into(),
            narrow: named.narrow.into(),
            narrow_sources: named.narrow_sources.into(),
            pure,
            outside: outside(i),
        }
    }
}

/// The operands that must be defined, in addition to addresses.
enum Control {
    Nothing,
    These(&'static [usize]),
    Everything,
}

/// Bits of an integer type's name.
fn integer(word: &str) -> Option<u32> {
    let bits = word.strip_prefix(['u', 's'])?.parse().ok()?;
    [8, 16, 32, 64].contains(&bits).then_some(bits)
}

/// Bits of an element of a pair, in `cvt` notation.
fn pair(word: &str) -> Option<u32> {
    Some(match word.strip_suffix("x2")? {
        "f16" | "bf16" => 16,
        "e4m3" | "e5m2" | "e2m3" | "e3m2" | "ue8m0" | "s2f6" => 8,
        "e2m1" => 4,
        _ => return None,
    })
}

fn rule(
    i: &Instruction,
    has: &impl Fn(&str) -> bool,
    place: &mut impl FnMut(usize) -> Option<Place>,
) -> (Propagation, Control) {
    let mut by =
        |operands: &[usize]| Propagation::Moves { by: operands.iter().filter_map(|n| place(*n)).collect() };
    let last = i.modifiers.last().map_or("", String::as_str);
    let nothing = |rule| (rule, Control::Nothing);
    let elements = i.modifiers.iter().find_map(|m| match m.as_str() {
        "f32x2" => Some(32),
        "f16x2" | "bf16x2" | "u16x2" | "s16x2" => Some(16),
        "u8x4" | "s8x4" => Some(8),
        _ => None,
    });
    match i.opcode.as_str() {
        "mov" if last == "pred" => nothing(Propagation::Bitwise),
        "mov" | "brev" | "movmatrix" => nothing(by(&[])),
        "shl" | "shr" => nothing(by(&[2])),
        "shf" | "prmt" => nothing(by(&[3])),
        "bfe" => nothing(by(&[2, 3])),
        "bfi" => nothing(by(&[3, 4])),
        "shfl" => (by(&[]), Control::These(&[2, 3, 4])),
        "and" | "or" | "xor" | "not" => nothing(Propagation::Bitwise),
        "lop3" if !has("or") && !has("and") => nothing(Propagation::Bitwise),
        "selp" => nothing(Propagation::Select { by: None }),
        "slct" => nothing(Propagation::Select { by: place(3) }),
        "div" | "rem" if integer(last).is_some() => nothing(Propagation::Quotient),
        "setp" => nothing(compare(i, has, place)),
        "cvt" => nothing(conversion(i, has)),
        "addc" | "subc" | "madc" => nothing(Propagation::Chain { reads: true }),
        "add" | "sub" | "mad" if has("cc") => nothing(Propagation::Chain { reads: false }),
        "add" | "sub" | "mul" | "mad" if integer(last).is_some() && !has("hi") && !has("sat") => {
            nothing(Propagation::Upward)
        }
        "ld" | "ldu" | "ldmatrix" => nothing(Propagation::Load),
        "st" if !has("async") && !has("bulk") => nothing(Propagation::Store),
        "stmatrix" => nothing(Propagation::Store),
        "atom" if has("cas") => (Propagation::Atomic { bytes: atom_bytes(last, has) }, Control::These(&[2])),
        "atom" => nothing(Propagation::Atomic { bytes: atom_bytes(last, has) }),
        "red" if !has("async") => nothing(Propagation::Atomic { bytes: atom_bytes(last, has) }),
        "vote" if has("ballot") => (Propagation::Ballot, Control::These(&[2])),
        "vote" | "match" | "redux" => (Propagation::Warp, Control::These(&[2])),
        "mma" => nothing(Propagation::Matrix),
        "wmma" if has("mma") => nothing(Propagation::Warp),
        "bar"
        | "barrier"
        | "mbarrier"
        | "cp"
        | "clusterlaunchcontrol"
        | "tensormap"
        | "wmma"
        | "elect"
        | "red"
        | "st"
        | "call" => (Propagation::Lane, Control::Everything),
        _ if i.operands.is_empty() || !writes(i) => (Propagation::Lane, Control::Everything),
        _ => nothing(elements.map_or(Propagation::Lane, Propagation::Elements)),
    }
}

/// Whether an instruction without its own rule has a result: those without one are known.
fn writes(i: &Instruction) -> bool {
    !matches!(
        i.opcode.as_str(),
        "bra"
            | "brx"
            | "exit"
            | "ret"
            | "trap"
            | "brkpt"
            | "nanosleep"
            | "prefetch"
            | "prefetchu"
            | "applypriority"
            | "discard"
            | "fence"
            | "membar"
            | "setmaxnreg"
            | "griddepcontrol"
            | "pmevent"
    )
}

/// Bytes of a lane that an atomic operation changes.
fn atom_bytes(last: &str, has: &impl Fn(&str) -> bool) -> usize {
    let element = if last.ends_with("x2") {
        4
    } else {
        last.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse::<usize>().unwrap_or(32) / 8
    };
    let count = [("v2", 2), ("v4", 4), ("v8", 8)].into_iter().find(|(word, _)| has(word));
    element * count.map_or(1, |(_, n)| n)
}

fn compare(
    i: &Instruction,
    has: &impl Fn(&str) -> bool,
    place: &mut impl FnMut(usize) -> Option<Place>,
) -> Propagation {
    let combine = [("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)];
    let combine = combine.into_iter().find(|(word, _)| has(word)).map(|(_, how)| how);
    let negated = matches!(i.operands.get(3), Some(Operand::Not(_)));
    let with = combine.and_then(|how| Some((how, place(3)?, negated)));
    let last = i.modifiers.last().map_or("", String::as_str);
    let whole = integer(last).is_some() || matches!(last, "b16" | "b32" | "b64");
    Propagation::Compare { equal: whole && (has("eq") || has("ne")), with }
}

fn conversion(i: &Instruction, has: &impl Fn(&str) -> bool) -> Propagation {
    let [.., to, from] = i.modifiers.as_slice() else { return Propagation::Lane };
    match (integer(to), integer(from)) {
        (Some(_), Some(_)) if !has("sat") && !has("pack") => {
            return Propagation::Moves { by: Box::default() };
        }
        _ => {}
    }
    match (pair(to), pair(from)) {
        (Some(bits), None) if from == "f32" && i.operands.len() == 3 && !has("rs") => Propagation::Pair(bits),
        (Some(to), Some(from)) if i.operands.len() == 2 => Propagation::Widths(from, to),
        _ => Propagation::Lane,
    }
}
