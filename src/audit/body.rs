//! Recognises code without any effect: bodies that are empty, or that only print and end the kernel with a trap.
//!
//! Of PTX, the scan lists the effects. An instruction of sm_75 and later has 16 bytes; the low 9 bits of the first word are its opcode, and the 3 bits above tell where operands come
//! from. The tables have been read from nvdisasm 13.5 for sm_80, sm_90, sm_100, sm_103, sm_120 and sm_121, which agree. An opcode that is not
//! in them counts as an effect, so that a kernel is never called empty because of an unknown instruction.

use devcode::{Effects, Kernel};

/// Architectures with these opcodes.
const ARCHITECTURES: std::ops::Range<u16> = 75..130;

/// Bytes of an instruction.
const INSTRUCTION: usize = 16;

const OPCODE: u64 = 0x1ff;
const FORM: u64 = 0xe00;
/// The form with an immediate operand and no register: a branch or call to a fixed place.
const FIXED: u64 = 0x800;

const BPT: u64 = 0x15c;
const CALL_ABS: u64 = 0x143;
const CALL_REL: u64 = 0x144;

/// Control flow, and what waits for nothing: BRA, BRX, BRXU, BSSY, BSYNC, EXIT, LEPC, NOP, RET, WARPSYNC.
const CONTROL: [u64; 10] = [0x147, 0x149, 0x158, 0x145, 0x141, 0x14d, 0x14e, 0x118, 0x150, 0x148];

/// Loads of constants (LDC, LDCU, ULDC) and the stack (LDL, STL), where arguments of calls are.
const STACK_AND_CONSTANTS: [u64; 5] = [0x182, 0x1ac, 0x0b9, 0x183, 0x187];

/// Moves and special registers: MOV, UMOV, CS2R, CS2UR, P2R, R2P, R2UR, S2R, S2UR, SEL, USEL, PRMT, UPRMT.
const MOVES: [u64; 13] =
    [0x002, 0x082, 0x005, 0x0cb, 0x003, 0x004, 0x0ca, 0x119, 0x1c3, 0x007, 0x087, 0x016, 0x096];

/// Arithmetic on registers, from integers to binary64; none of the matrix instructions.
const ARITHMETIC: [u64; 71] = [
    // FSEL, FMNMX, FSETP, ISETP, IADD3, LEA, LOP3, IABS, VABSDIFF, VABSDIFF4, IMNMX, SHF, PLOP3
    0x008, 0x009, 0x00b, 0x00c, 0x010, 0x011, 0x012, 0x013, 0x014, 0x015, 0x017, 0x019, 0x01c,
    // FMUL, FADD, FFMA, IMAD, IDP, DMUL, DSETP, DADD, DFMA
    0x020, 0x021, 0x023, 0x024, 0x025, 0x027, 0x026, 0x028, 0x02a, 0x029, 0x02b,
    // HADD2, HFMA2, HMUL2, HSET2, HSETP2, IADD, VIADD, F2FP, HMNMX2, I2FP, VIADDMNMX, VIMNMX
    0x030, 0x031, 0x035, 0x032, 0x033, 0x034, 0x036, 0x03e, 0x040, 0x045, 0x046, 0x048,
    // FLO, FCHK, F2F, F2I, I2F, FRND, MUFU, POPC
    0x100, 0x102, 0x104, 0x110, 0x105, 0x111, 0x106, 0x112, 0x107, 0x113, 0x108, 0x109,
    // UVIMNMX, UFSEL, UFSETP, UFADD, UFFMA, UFMUL, UI2F, UF2F, UF2I, UFRND, UI2FP
    0x04a, 0x051, 0x053, 0x054, 0x055, 0x056, 0x05a, 0x05b, 0x05c, 0x05d, 0x05e,
    // UIMNMX, UISETP, UIADD3, UIMAD, ULEA, ULOP3, USHF, UFLO, UBREV, UPOPC
    0x085, 0x08c, 0x090, 0x097, 0x0a4, 0x0a5, 0x091, 0x092, 0x099, 0x0bd, 0x0be, 0x0bf,
];

/// Functions of the driver without a result that a later kernel or the host could use.
const PRINTS: &str = "vprintf";
const FAILS: &str = "__assertfail";

/// What the machine code of a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// It may have an effect.
    Works,
    /// It has no effect.
    Empty,
    /// Its only effects are these.
    Only(Ends),
}

/// How a kernel without a result is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    prints: bool,
    fails: bool,
    traps: bool,
}

impl Ends {
    /// `only calls __assertfail and traps`.
    pub(super) fn words(self) -> String {
        let calls = match (self.prints, self.fails) {
            (true, true) => Some("calls vprintf and __assertfail"),
            (true, false) => Some("prints (vprintf)"),
            (false, true) => Some("calls __assertfail"),
            (false, false) => None,
        };
        let all: Vec<&str> = calls.into_iter().chain(self.traps.then_some("traps")).collect();
        format!("only {}", all.join(" and "))
    }
}

impl Body {
    /// Judges PTX by its effects.
    pub(super) fn of_ptx(kernel: &Kernel) -> Self {
        let Effects { others, traps, calls } = &kernel.effects;
        // A declaration has no instruction.
        if *others || kernel.instructions.is_empty() {
            return Self::Works;
        }
        Self::ending(calls.iter().map(String::as_str), *traps)
    }

    /// Returns what a body does that calls these functions and has no other effect.
    fn ending<'a>(callees: impl Iterator<Item = &'a str>, traps: bool) -> Self {
        let (mut prints, mut fails) = (false, false);
        for callee in callees {
            match callee {
                PRINTS => prints = true,
                FAILS => fails = true,
                _ => return Self::Works,
            }
        }
        if prints || fails || traps { Self::Only(Ends { prints, fails, traps }) } else { Self::Empty }
    }

    /// Reads machine code for the architecture `number`. `callees` are the functions that the kernel calls; `None` if they are unknown.
    pub(super) fn of_machine_code(code: &[u8], number: u16, callees: Option<&[String]>) -> Self {
        if !ARCHITECTURES.contains(&number) || code.is_empty() || !code.len().is_multiple_of(INSTRUCTION) {
            return Self::Works;
        }
        let (mut traps, mut calls) = (false, false);
        for instruction in code.chunks_exact(INSTRUCTION) {
            let Some(word) = instruction.first_chunk() else { return Self::Works };
            let word = u64::from_le_bytes(*word);
            match word & OPCODE {
                BPT => traps = true,
                CALL_ABS => calls = true,
                // Into the section of the kernel, or to a function that the call graph names.
                CALL_REL if word & FORM == FIXED => {}
                opcode => {
                    let known = [&CONTROL[..], &STACK_AND_CONSTANTS, &MOVES, &ARITHMETIC];
                    if !known.iter().any(|table| table.contains(&opcode)) {
                        return Self::Works;
                    }
                }
            }
        }
        match callees {
            Some(callees) if !calls || !callees.is_empty() => {
                Self::ending(callees.iter().map(String::as_str), traps)
            }
            None if !calls => Self::ending(std::iter::empty(), traps),
            // It calls what nothing names.
            _ => Self::Works,
        }
    }
}
