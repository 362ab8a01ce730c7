//! Known miscompiles in machine code: structures that ptxas writes only where it is wrong. Nothing is executed.

mod listing;

pub use listing::{Function, Line, functions};

/// A structure in machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    /// After a branch on a value that differs between lanes, lanes run an instruction of the whole warp without having met.
    NotMet,
    /// What follows a guarded comparison runs without its guard.
    LostGuard,
    /// Lanes that retry an atomic operation count an enclosing loop down in one uniform register.
    SharedCounter,
    /// The sign of a packed pair is taken for the sign of an f32.
    PackedSign,
    /// The numbers of a packed sum in shared memory are added from different registers.
    SplitSum,
}

/// A place of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The structure.
    pub structure: Structure,
    /// The function.
    pub function: String,
    /// The address of the instruction in the function.
    pub address: u64,
    /// The opcode there.
    pub opcode: String,
}

impl Structure {
    /// All structures.
    pub const ALL: [Self; 5] =
        [Self::NotMet, Self::LostGuard, Self::SharedCounter, Self::PackedSign, Self::SplitSum];

    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotMet => "not_met",
            Self::LostGuard => "lost_guard",
            Self::SharedCounter => "shared_counter",
            Self::PackedSign => "packed_sign",
            Self::SplitSum => "split_sum",
        }
    }

    /// What is wrong, in one sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NotMet => {
                "a branch depends on the result of MOVM or on the predicate of SHFL, which differ between lanes; no BSSY and BSYNC, and no WARPSYNC, lets the lanes meet before this instruction of the whole warp"
            }
            Self::LostGuard => {
                "the comparison before it has a guard, but this conversion of its result has none, and changes the old value where the guard is false"
            }
            Self::SharedCounter => {
                "lanes that succeed and lanes that retry the atomic operation both subtract from this uniform register, which counts a loop: it may pass 0"
            }
            Self::SplitSum => {
                "the lower and the upper number of the pair are added by an instruction each, and not from the two halves of one register"
            }
            Self::PackedSign => {
                "the constant was negated as an f32, but the instruction negates every packed value of the register: all but the highest have the wrong sign"
            }
        }
    }

    /// The known miscompiles that have it.
    #[must_use]
    pub const fn miscompiles(self) -> &'static [&'static str] {
        match self {
            Self::NotMet => &["movmatrix_uniform", "shfl_uniform_predicate"],
            Self::LostGuard => &["guarded_set"],
            Self::SharedCounter => &["shared_atomic_loop"],
            Self::PackedSign => &["packed_constant_sign"],
            Self::SplitSum => &["split_packed_add"],
        }
    }
}

/// Whether an instruction of a function, by its index, has a structure.
type Rule = fn(&Function, usize) -> bool;

/// Every structure in a listing of `nvdisasm -c`, by function and address.
#[must_use]
pub fn structures(listing: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for function in functions(listing) {
        let rules: [(Structure, Rule); 5] = [
            (Structure::NotMet, is_not_met),
            (Structure::LostGuard, lost_its_guard),
            (Structure::SharedCounter, is_shared_counter),
            (Structure::PackedSign, has_packed_sign),
            (Structure::SplitSum, adds_split_halves),
        ];
        for (at, line) in function.code.iter().enumerate() {
            for (structure, rule) in rules {
                if rule(&function, at) {
                    let (address, opcode) = (line.address, line.opcode.clone());
                    places.push(Place { structure, function: function.name.clone(), address, opcode });
                }
            }
        }
    }
    places
}

/// Whether an instruction needs the whole warp.
fn is_collective(line: &Line) -> bool {
    matches!(
        line.root(),
        "VOTE"
            | "SHFL"
            | "MATCH"
            | "REDUX"
            | "LDSM"
            | "STSM"
            | "MOVM"
            | "HMMA"
            | "IMMA"
            | "QMMA"
            | "OMMA"
            | "DMMA"
            | "BMMA"
    )
}

/// The last instruction before `at` that writes a register, in the same block.
fn writer(function: &Function, at: usize, register: &str) -> Option<usize> {
    let begin = function.labels.values().copied().filter(|label| *label <= at).max().unwrap_or_default();
    (begin..at).rev().find(|n| function.code[*n].writes(register))
}

/// Whether a register or predicate comes from MOVM or from the predicate of SHFL, through instructions of the block.
fn differs_between_lanes(function: &Function, at: usize, register: &str, depth: usize) -> bool {
    let Some(place) = writer(function, at, register) else { return false };
    let line = &function.code[place];
    match line.root() {
        "MOVM" => true,
        "SHFL" => register.starts_with('P') && register != "PT",
        _ if depth == 0 => false,
        _ => line.operands.iter().skip(1).any(|operand| {
            let name = operand.trim_start_matches(['!', '-', '~', '|']).trim_end_matches('|');
            let name = name.split('.').next().unwrap_or_default();
            let is_register =
                name.starts_with(['R', 'P']) && !matches!(name, "RZ" | "PT") && !line.writes(name);
            // `LOP3.LUT P0, R7, R0, …` writes two and reads the rest; a register may be both.
            let both = line.operands.iter().filter(|o| *o == operand).count() > 1;
            (is_register || both) && differs_between_lanes(function, place, name, depth - 1)
        }),
    }
}

/// A collective to which a branch on such a value leads, or over which it jumps, while no BSSY is open and nothing lets the lanes meet.
fn is_not_met(function: &Function, at: usize) -> bool {
    if !is_collective(&function.code[at]) {
        return false;
    }
    // Back to the last instruction at which the lanes met.
    let meets = |line: &Line| matches!(line.root(), "BSYNC" | "WARPSYNC" | "BSSY" | "BAR");
    let first = (0..at).rev().find(|n| meets(&function.code[*n])).map_or(0, |n| n + 1);
    (first..at).any(|n| {
        let line = &function.code[n];
        let target = line.label().and_then(|label| function.labels.get(label));
        let forward = target.is_some_and(|target| *target > n && *target <= at);
        let guard = line.guard.as_deref().map(|g| g.trim_start_matches('!'));
        line.opcode == "BRA" && forward && guard.is_some_and(|g| differs_between_lanes(function, n, g, 4))
    })
}

/// A conversion without guard of a register that a guarded `SEL R, RZ, 0xffffffff` or a merge after HSET2 wrote.
fn lost_its_guard(function: &Function, at: usize) -> bool {
    let line = &function.code[at];
    let extends = line.root() == "PRMT" && line.operands.get(2).is_some_and(|o| o == "0x9910");
    if line.guard.is_some() || !(line.root() == "IABS" || extends) {
        return false;
    }
    let Some(source) = line.operands.get(1) else { return false };
    let Some(place) = writer(function, at, source) else { return false };
    let select = &function.code[place];
    let is_mask = select.root() == "SEL" && select.operands.get(2).is_some_and(|o| o == "0xffffffff");
    if is_mask && select.guard.is_some() {
        return true;
    }
    // `SEL R0, R0, R9, P0`: the result of HSET2 where the guard holds, else the old value.
    let merged = select.root() == "SEL" && select.operands.len() == 4 && !is_mask;
    merged
        && select.operands.get(1).is_some_and(|result| {
            writer(function, place, result).is_some_and(|n| function.code[n].root() == "HSET2")
        })
}

/// A uniform register that counts down between the BSSY and the BSYNC of the loop around an atomic operation.
fn is_shared_counter(function: &Function, at: usize) -> bool {
    let line = &function.code[at];
    let counter = line.operands.first();
    let counts = line.root() == "UIADD3"
        && line.operands.iter().skip(1).any(|o| Some(o) == counter)
        && line.operands.iter().any(|o| o == "-0x1");
    let code = &function.code;
    // A region that is open here: regions between its BSSY and this place have been closed.
    let retried = |region: usize| {
        let Some(barrier) = code[region].operands.first() else { return false };
        let ends = |n: &usize| code[*n].root() == "BSYNC" && code[*n].operands.first() == Some(barrier);
        let tries = |n: &usize| code[*n].opcode.starts_with("ATOMS.CAS");
        let again = |n: &usize| code[*n].opcode == "BRA" && code[*n].guard.is_some();
        !(region..at).any(|n| ends(&n))
            && (at..code.len()).any(|n| ends(&n))
            && (region..at).find(tries).is_some_and(|t| (t..at).any(|n| again(&n)))
    };
    counts && (0..at).any(|n| code[n].root() == "BSSY" && retried(n))
}

/// A compare-and-swap of a pair whose numbers were added one by one, from halves that are not those of one register. ptxas adds a pair as a whole where it
/// knows it as one, also if both numbers are the same.
fn adds_split_halves(function: &Function, at: usize) -> bool {
    let line = &function.code[at];
    let written = |n: usize, register: &str| {
        let register = register.split('.').next().unwrap_or_default();
        writer(function, n, register).map(|n| (n, &function.code[n]))
    };
    let Some((pair_at, pair)) = line.operands.last().and_then(|value| written(at, value)) else {
        return false;
    };
    let (Some(low), Some(selector), Some(high)) =
        (pair.operands.get(1), pair.operands.get(2), pair.operands.get(3))
    else {
        return false;
    };
    if !line.opcode.starts_with("ATOMS.CAS") || pair.root() != "PRMT" || selector != "0x5410" {
        return false;
    }
    // The register and half of the addend of a sum: its other operand is the number in memory.
    let addend = |sum: &str| {
        let (_, sum) = written(pair_at, sum).filter(|(_, sum)| sum.root() == "HADD2")?;
        let (register, half) = sum.operands.get(2)?.split_once('.')?;
        Some((register.to_owned(), half.trim_start_matches("reuse.").to_owned()))
    };
    match (addend(low), addend(high)) {
        (Some((low, first)), Some((high, second))) => low != high || first != "H0_H0" || second != "H1_H1",
        _ => false,
    }
}

/// A negated factor of a product of packed values that was loaded as a constant.
fn has_packed_sign(function: &Function, at: usize) -> bool {
    let line = &function.code[at];
    let packed = matches!(line.root(), "HMMA" | "QMMA") && !line.opcode.contains("TF32");
    packed
        && line.operands.iter().skip(1).take(2).filter_map(|o| o.strip_prefix('-')).any(|register| {
            (0..at).rev().find(|n| function.code[*n].writes(register)).is_some_and(|n| {
                let source = &function.code[n];
                let moves = matches!(source.root(), "MOV" | "IMAD" | "UMOV" | "HFMA2" | "CS2R");
                moves
                    && source
                        .operands
                        .iter()
                        .skip(1)
                        .all(|o| !o.trim_start_matches('-').starts_with('R') || o.contains("RZ"))
            })
        })
}
