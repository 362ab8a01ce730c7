//! Packed integers in one register: `u16x2`, `s16x2`, `u8x4`, `s8x4` (PTX ISA 9.7.1).

use ptx::{Instruction, Type};

use super::Words;
use super::lanewise::{same, w};
use crate::front::decode::Decoder;
use crate::front::program::Exec;
use crate::front::words::Refusal;

const TYPES: [&str; 4] = ["u16x2", "s16x2", "u8x4", "s8x4"];

/// Whether the instruction works on such a register.
pub(super) fn is_packed(i: &Instruction) -> bool {
    i.modifiers.iter().any(|m| TYPES.contains(&m.as_str()))
}

/// `f` on each halfword, sign-extended.
#[inline(always)]
fn s16x2(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    let low = f(i32::from(a as i16), i32::from(b as i16)) as u32 & 0xFFFF;
    let high = f(a as i32 >> 16, b as i32 >> 16) as u32;
    low | high << 16
}

/// `f` on each halfword.
#[inline(always)]
fn u16x2(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(a & 0xFFFF, b & 0xFFFF) & 0xFFFF | f(a >> 16, b >> 16) << 16
}

/// `f` on each byte, sign-extended.
#[inline(always)]
fn s8x4(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|n| f(i32::from(a[n] as i8), i32::from(b[n] as i8)) as u8))
}

/// `f` on each byte.
#[inline(always)]
fn u8x4(a: u32, b: u32, f: impl Fn(i32, i32) -> i32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|n| f(i32::from(a[n]), i32::from(b[n])) as u8))
}

fn clamp_s16(x: i32) -> i32 {
    x.clamp(-0x8000, 0x7FFF)
}

fn clamp_s8(x: i32) -> i32 {
    x.clamp(-0x80, 0x7F)
}

fn clamp_u8(x: i32) -> i32 {
    x.clamp(0, 0xFF)
}

/// `add`, `sub`, `min`, `max`, `neg` and `abs` of packed integers.
pub(super) fn decode(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let ty = words.one_of(&TYPES).ok_or("a packed type is required")?;
    let (sat, relu) = (words.take("sat"), words.take("relu"));
    words.done()?;
    let exec: Exec = match (i.opcode.as_str(), ty, sat, relu) {
        ("add", "u16x2" | "s16x2", false, false) => w!(|a, b| u16x2(a, b, u32::wrapping_add)),
        ("add", "u8x4" | "s8x4", false, false) => w!(|a, b| u8x4(a, b, |x, y| x + y)),
        ("add", "u16x2", true, false) => w!(|a, b| u16x2(a, b, |x, y| (x + y).min(0xFFFF))),
        ("add", "s16x2", true, false) => w!(|a, b| s16x2(a, b, |x, y| clamp_s16(x + y))),
        ("add", "u8x4", true, false) => w!(|a, b| u8x4(a, b, |x, y| clamp_u8(x + y))),
        ("add", "s8x4", true, false) => w!(|a, b| s8x4(a, b, |x, y| clamp_s8(x + y))),
        ("sub", "u16x2" | "s16x2", false, false) => w!(|a, b| u16x2(a, b, u32::wrapping_sub)),
        ("sub", "u8x4" | "s8x4", false, false) => w!(|a, b| u8x4(a, b, |x, y| x - y)),
        ("sub", "u16x2", true, false) => w!(|a, b| u16x2(a, b, u32::saturating_sub)),
        ("sub", "s16x2", true, false) => w!(|a, b| s16x2(a, b, |x, y| clamp_s16(x - y))),
        ("sub", "u8x4", true, false) => w!(|a, b| u8x4(a, b, |x, y| clamp_u8(x - y))),
        ("sub", "s8x4", true, false) => w!(|a, b| s8x4(a, b, |x, y| clamp_s8(x - y))),
        ("min", "u16x2", false, false) => w!(|a, b| u16x2(a, b, Ord::min)),
        ("min", "s16x2", false, false) => w!(|a, b| s16x2(a, b, Ord::min)),
        ("min", "s16x2", false, true) => w!(|a, b| s16x2(a, b, |x, y| x.min(y).max(0))),
        ("min", "u8x4", false, false) => w!(|a, b| u8x4(a, b, Ord::min)),
        ("min", "s8x4", false, false) => w!(|a, b| s8x4(a, b, Ord::min)),
        ("min", "s8x4", false, true) => w!(|a, b| s8x4(a, b, |x, y| x.min(y).max(0))),
        ("max", "u16x2", false, false) => w!(|a, b| u16x2(a, b, Ord::max)),
        ("max", "s16x2", false, false) => w!(|a, b| s16x2(a, b, Ord::max)),
        ("max", "s16x2", false, true) => w!(|a, b| s16x2(a, b, |x, y| x.max(y).max(0))),
        ("max", "u8x4", false, false) => w!(|a, b| u8x4(a, b, Ord::max)),
        ("max", "s8x4", false, false) => w!(|a, b| s8x4(a, b, Ord::max)),
        ("max", "s8x4", false, true) => w!(|a, b| s8x4(a, b, |x, y| x.max(y).max(0))),
        ("neg", "s8x4", false, false) => {
            return same(d, i, Type::B32, 1, w!(|a| s8x4(a, 0, |x, _| -x)));
        }
        ("neg", "s16x2", false, false) => {
            return same(d, i, Type::B32, 1, w!(|a| s16x2(a, 0, |x, _| -x)));
        }
        _ => return Err(format!("{} on {ty} with these modifiers", i.opcode)),
    };
    same(d, i, Type::B32, 2, exec)
}
