//! Floating-point sums and products (PTX ISA 9.7.3, 9.7.4 and 9.7.7): `add`, `sub`, `mul`, `fma`, `mad` on `f32`,
//! `f32x2`, `f64`, and on `f32` with 16-bit operands.

use numerics::Rounding;
use numerics::convert::f16_to_f32;
use numerics::float::{self, may_be_tiny};
use ptx::{Instruction, Type};

use super::Words;
use super::lanewise::{by_lane, push};
use super::operations::Operation;
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

type Decoded = Result<(), Refusal>;

/// Rounding and the modifiers that change values, stored in a row's `imm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    pub(super) ftz: bool,
    pub(super) sat: bool,
}

// The flags of a row's `imm`, above the rounding.
const FTZ: u64 = 4;
const SAT: u64 = 8;

impl Mode {
    /// Takes `.rn`, `.rz`, `.rm`, `.rp`, `.ftz` and `.sat`.
    pub(super) fn take_from(words: &mut Words<'_>) -> Self {
        let rounding = rounding(words).unwrap_or(Rounding::NearestEven);
        Self { rounding, ftz: words.take("ftz"), sat: words.take("sat") }
    }

    pub(super) fn imm(self) -> u64 {
        let rounding = match self.rounding {
            Rounding::Zero => 1,
            Rounding::Up => 2,
            Rounding::Down => 3,
            _ => 0,
        };
        rounding | if self.ftz { FTZ } else { 0 } | if self.sat { SAT } else { 0 }
    }

    #[inline(always)]
    pub(super) fn from(imm: u64) -> Self {
        let rounding = match imm & 3 {
            1 => Rounding::Zero,
            2 => Rounding::Up,
            3 => Rounding::Down,
            _ => Rounding::NearestEven,
        };
        Self { rounding, ftz: imm & FTZ != 0, sat: imm & SAT != 0 }
    }

    pub(super) fn is_nearest(self) -> bool {
        self.rounding == Rounding::NearestEven
    }

    /// One of two operations that round to nearest even, without `.ftz` and with it.
    fn operation(self, plain: Operation, flush: Operation) -> Option<Exec> {
        (self.is_nearest() && !self.sat).then(|| if self.ftz { flush.exec() } else { plain.exec() })
    }
}

/// Takes a rounding modifier.
pub(super) fn rounding(words: &mut Words<'_>) -> Option<Rounding> {
    Some(match words.one_of(&["rn", "rz", "rm", "rp"])? {
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        _ => Rounding::NearestEven,
    })
}

/// A type in words, including the pair of floats that [`Type`] lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F32x2,
    F64,
    /// `f32` with operands of this type.
    Mixed(Type),
}

fn kind(words: &mut Words<'_>) -> Result<Kind, Refusal> {
    if words.take("f32x2") {
        return Ok(Kind::F32x2);
    }
    Ok(match (words.ty()?, words.maybe_ty()) {
        (Type::F32, None) => Kind::F32,
        (Type::F64, None) => Kind::F64,
        (Type::F32, Some(ty @ (Type::F16 | Type::Bf16))) => Kind::Mixed(ty),
        (ty, _) => return Err(format!("floating-point arithmetic on {ty}")),
    })
}

/// Both floats of a pair: `$f` on the low words and on the high ones.
macro_rules! pair {
    (|$($source:ident),+| $value:expr) => {{
        let low = { $(let $source = $source as u32;)+ $value };
        let high = { $(let $source = ($source >> 32) as u32;)+ $value };
        u64::from(low) | u64::from(high) << 32
    }};
}

/// Whether either float of a pair may be tiny.
#[inline(always)]
fn pair_may_be_tiny(pair: u64) -> bool {
    may_be_tiny(pair as u32) | may_be_tiny((pair >> 32) as u32)
}

#[inline(always)]
fn is_nan(bits: u64) -> bool {
    f64::from_bits(bits).is_nan()
}

#[inline(always)]
fn bf16_to_f32(x: u16) -> u32 {
    u32::from(x) << 16
}

/// The row of a function that rounds to nearest even, for a mode's `.ftz` and `.sat`. What kernels use has rows of its own, which spend
/// nothing on the other flags.
macro_rules! flagged {
    ($mode:ident, |$ftz:ident| $exec:expr) => {
        if $mode.ftz {
            const $ftz: bool = true;
            $exec
        } else {
            const $ftz: bool = false;
            $exec
        }
    };
    ($mode:ident, |$ftz:ident, $sat:ident| $exec:expr) => {
        if $mode.sat {
            const $sat: bool = true;
            flagged!($mode, |$ftz| $exec)
        } else {
            const $sat: bool = false;
            flagged!($mode, |$ftz| $exec)
        }
    };
}

pub(super) fn add(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    sum(d, i, false)
}

pub(super) fn sub(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    sum(d, i, true)
}

/// The sign bit of a float if the row subtracts: bit 4 of `imm`.
const SUBTRACT: u64 = 16;

#[inline(always)]
pub(super) fn sign(imm: u64) -> u32 {
    ((imm & SUBTRACT) << 27) as u32
}

fn sum(d: &mut Decoder<'_>, i: &Instruction, subtract: bool) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = Mode::take_from(&mut words);
    let kind = kind(&mut words)?;
    words.done()?;
    let imm = mode.imm() | if subtract { SUBTRACT } else { 0 };
    let (ty, exec): (Type, Exec) = match kind {
        Kind::F32 if let Some(exec) = mode.operation(Operation::AddF32, Operation::AddF32Flush) => {
            (Type::F32, exec)
        }
        Kind::F32 if mode.is_nearest() => (
            Type::F32,
            flagged!(mode, |FLUSH, CLAMP| by_lane!(imm; |a: u32, b: u32| -> u32 {
                float::add_f32_nearest(a, b ^ sign(imm), FLUSH, CLAMP)
            })),
        ),
        Kind::F32 => (
            Type::F32,
            flagged!(mode, |FLUSH, CLAMP| by_lane!(imm; |a: u32, b: u32| -> u32 {
                float::add_f32_directed(a, b ^ sign(imm), Mode::from(imm).rounding, FLUSH, CLAMP)
            } unless |quick| { FLUSH && may_be_tiny(quick) } => {
                float::add_f32(a, b ^ sign(imm), Mode::from(imm).rounding, FLUSH, CLAMP)
            })),
        ),
        Kind::F32x2 if !mode.sat && mode.is_nearest() => (
            Type::B64,
            flagged!(mode, |FLUSH| by_lane!(imm; |a: u64, b: u64| -> u64 {
                pair!(|a, b| float::add_f32_nearest(a, b ^ sign(imm), FLUSH, false))
            })),
        ),
        Kind::F32x2 if !mode.sat => (Type::B64, |m, row| {
            let (mode, sign) = (Mode::from(row.imm), sign(row.imm));
            m.wide2(row, |a, b| pair!(|a, b| float::add_f32(a, b ^ sign, mode.rounding, mode.ftz, false)))
        }),
        Kind::F64 if mode.is_nearest() && !mode.ftz && !mode.sat => {
            let exec = if subtract {
                by_lane!(|a: u64, b: u64| -> u64 {
                    (f64::from_bits(a) - f64::from_bits(b)).to_bits()
                } unless |quick| { is_nan(quick) } => {
                    float::sub_f64(a, b, Rounding::NearestEven)
                })
            } else {
                by_lane!(|a: u64, b: u64| -> u64 {
                    (f64::from_bits(a) + f64::from_bits(b)).to_bits()
                } unless |quick| { is_nan(quick) } => {
                    float::add_f64(a, b, Rounding::NearestEven)
                })
            };
            (Type::F64, exec)
        }
        Kind::F64 if !mode.ftz && !mode.sat => (Type::F64, sum_f64),
        Kind::Mixed(ty) if !mode.ftz => {
            let exec: Exec = match (ty, mode.is_nearest()) {
                (Type::F16, true) => by_lane!(imm; |a: u32, b: u32| -> u32 {
                    float::add_f32_nearest(f16_to_f32(a as u16), b ^ sign(imm), false, imm & SAT != 0)
                }),
                (_, true) => by_lane!(imm; |a: u32, b: u32| -> u32 {
                    float::add_f32_nearest(bf16_to_f32(a as u16), b ^ sign(imm), false, imm & SAT != 0)
                }),
                (Type::F16, false) => |m, row| sum_mixed(m, row, f16_to_f32),
                (_, false) => |m, row| sum_mixed(m, row, bf16_to_f32),
            };
            return push(d, i, Type::F32, &[ty, Type::F32], exec, imm);
        }
        _ => return Err(format!("{} with these modifiers on this type", i.opcode)),
    };
    push(d, i, ty, &[ty; 2], exec, imm)
}

fn sum_f64(m: &mut Machine<'_>, row: &Row) -> Flow {
    let mode = Mode::from(row.imm);
    if row.imm & SUBTRACT == 0 {
        m.wide2(row, |a, b| float::add_f64(a, b, mode.rounding))
    } else {
        m.wide2(row, |a, b| float::sub_f64(a, b, mode.rounding))
    }
}

#[inline(always)]
fn sum_mixed(m: &mut Machine<'_>, row: &Row, to: fn(u16) -> u32) -> Flow {
    let (mode, sign) = (Mode::from(row.imm), sign(row.imm));
    m.map2(row, |a, b| float::add_f32(to(a as u16), b ^ sign, mode.rounding, false, mode.sat))
}

pub(super) fn mul(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = Mode::take_from(&mut words);
    let kind = kind(&mut words)?;
    words.done()?;
    let (ty, exec): (Type, Exec) = match kind {
        Kind::F32 if let Some(exec) = mode.operation(Operation::MultiplyF32, Operation::MultiplyF32Flush) => {
            (Type::F32, exec)
        }
        Kind::F32 if mode.is_nearest() => (
            Type::F32,
            flagged!(mode, |FLUSH, CLAMP| by_lane!(_imm; |a: u32, b: u32| -> u32 {
                float::mul_f32_nearest(a, b, FLUSH, CLAMP)
            } unless |quick| { FLUSH && may_be_tiny(quick) } => {
                float::mul_f32(a, b, Rounding::NearestEven, FLUSH, CLAMP)
            })),
        ),
        Kind::F32 => (
            Type::F32,
            flagged!(mode, |FLUSH, CLAMP| by_lane!(imm; |a: u32, b: u32| -> u32 {
                float::mul_f32_directed(a, b, Mode::from(imm).rounding, FLUSH, CLAMP)
            } unless |quick| { FLUSH && may_be_tiny(quick) } => {
                float::mul_f32(a, b, Mode::from(imm).rounding, FLUSH, CLAMP)
            })),
        ),
        Kind::F32x2 if !mode.sat && mode.is_nearest() => (
            Type::B64,
            flagged!(mode, |FLUSH| by_lane!(_imm; |a: u64, b: u64| -> u64 {
                pair!(|a, b| float::mul_f32_nearest(a, b, FLUSH, false))
            } unless |quick| { FLUSH && pair_may_be_tiny(quick) } => {
                pair!(|a, b| float::mul_f32(a, b, Rounding::NearestEven, FLUSH, false))
            })),
        ),
        Kind::F32x2 if !mode.sat => (Type::B64, |m, row| {
            let mode = Mode::from(row.imm);
            m.wide2(row, |a, b| pair!(|a, b| float::mul_f32(a, b, mode.rounding, mode.ftz, false)))
        }),
        Kind::F64 if mode.is_nearest() && !mode.ftz && !mode.sat => (
            Type::F64,
            by_lane!(|a: u64, b: u64| -> u64 {
                (f64::from_bits(a) * f64::from_bits(b)).to_bits()
            } unless |quick| { is_nan(quick) } => {
                float::mul_f64(a, b, Rounding::NearestEven)
            }),
        ),
        Kind::F64 if !mode.ftz && !mode.sat => (Type::F64, |m, row| {
            let mode = Mode::from(row.imm);
            m.wide2(row, |a, b| float::mul_f64(a, b, mode.rounding))
        }),
        _ => return Err("mul with these modifiers on this type".to_owned()),
    };
    push(d, i, ty, &[ty; 2], exec, mode.imm())
}

/// `fma`, and `mad`, which also rounds once on every current target.
pub(super) fn fma(d: &mut Decoder<'_>, i: &Instruction) -> Decoded {
    let mut words = Words::from_instruction(i);
    let mode = Mode::take_from(&mut words);
    let kind = kind(&mut words)?;
    words.done()?;
    let (ty, exec): (Type, Exec) = match kind {
        Kind::F32
            if let Some(exec) = mode.operation(Operation::MultiplyAddF32, Operation::MultiplyAddF32Flush) =>
        {
            (Type::F32, exec)
        }
        Kind::F32 if mode.is_nearest() => (
            Type::F32,
            flagged!(mode, |FLUSH, CLAMP| by_lane!(_imm; |a: u32, b: u32, c: u32| -> u32 {
                float::fma_f32_nearest(a, b, c, FLUSH, CLAMP)
            } unless |quick| { FLUSH && may_be_tiny(quick) } => {
                float::fma_f32(a, b, c, Rounding::NearestEven, FLUSH, CLAMP)
            })),
        ),
        Kind::F32 => (
            Type::F32,
            flagged!(mode, |FLUSH, CLAMP| by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 {
                float::fma_f32_directed(a, b, c, Mode::from(imm).rounding, FLUSH, CLAMP)
            } unless |quick| { FLUSH && may_be_tiny(quick) } => {
                float::fma_f32(a, b, c, Mode::from(imm).rounding, FLUSH, CLAMP)
            })),
        ),
        Kind::F32x2 if !mode.sat && mode.is_nearest() => (
            Type::B64,
            flagged!(mode, |FLUSH| by_lane!(_imm; |a: u64, b: u64, c: u64| -> u64 {
                pair!(|a, b, c| float::fma_f32_nearest(a, b, c, FLUSH, false))
            } unless |quick| { FLUSH && pair_may_be_tiny(quick) } => {
                pair!(|a, b, c| float::fma_f32(a, b, c, Rounding::NearestEven, FLUSH, false))
            })),
        ),
        Kind::F32x2 if !mode.sat => (Type::B64, |m, row| {
            let mode = Mode::from(row.imm);
            m.wide3(row, |a, b, c| pair!(|a, b, c| float::fma_f32(a, b, c, mode.rounding, mode.ftz, false)))
        }),
        Kind::F64 if mode.is_nearest() && !mode.ftz && !mode.sat => (
            Type::F64,
            by_lane!(|a: u64, b: u64, c: u64| -> u64 {
                f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()
            } unless |quick| { is_nan(quick) } => {
                float::fma_f64(a, b, c, Rounding::NearestEven)
            }),
        ),
        Kind::F64 if !mode.ftz && !mode.sat => (Type::F64, |m, row| {
            let mode = Mode::from(row.imm);
            m.wide3(row, |a, b, c| float::fma_f64(a, b, c, mode.rounding))
        }),
        Kind::Mixed(ty) if !mode.ftz => {
            let exec: Exec = match (ty, mode.is_nearest()) {
                (Type::F16, true) => by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 {
                    let (a, b) = (f16_to_f32(a as u16), f16_to_f32(b as u16));
                    float::fma_f32_nearest(a, b, c, false, imm & SAT != 0)
                }),
                (_, true) => by_lane!(imm; |a: u32, b: u32, c: u32| -> u32 {
                    let (a, b) = (bf16_to_f32(a as u16), bf16_to_f32(b as u16));
                    float::fma_f32_nearest(a, b, c, false, imm & SAT != 0)
                }),
                (Type::F16, false) => |m, row| fma_mixed(m, row, f16_to_f32),
                (_, false) => |m, row| fma_mixed(m, row, bf16_to_f32),
            };
            return push(d, i, Type::F32, &[ty, ty, Type::F32], exec, mode.imm());
        }
        _ => return Err(format!("{} with these modifiers on this type", i.opcode)),
    };
    push(d, i, ty, &[ty; 3], exec, mode.imm())
}

#[inline(always)]
fn fma_mixed(m: &mut Machine<'_>, row: &Row, to: fn(u16) -> u32) -> Flow {
    let mode = Mode::from(row.imm);
    m.map3(row, |a, b, c| float::fma_f32(to(a as u16), to(b as u16), c, mode.rounding, false, mode.sat))
}
