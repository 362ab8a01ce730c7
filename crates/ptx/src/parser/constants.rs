//! Numbers and constant expressions, folded during parsing.

use super::super::ast::Immediate;
use super::super::lexer::{Kind, Token};
use super::{Parsed, Parser};

/// A signed constant as 64 bits.
fn signed(value: i64) -> Immediate {
    Immediate::Integer { bits: value.cast_unsigned(), unsigned: false }
}

/// The only name that is a number: the number of threads per warp.
pub(super) const WARP_SIZE: &str = "WARP_SZ";

/// The precedence of a binary operator, as in C; the ternary operator binds weakest.
pub(super) fn binding(kind: Kind) -> Option<u8> {
    Some(match kind {
        Kind::Or => 1,
        Kind::And => 2,
        Kind::Mark(b'|') => 3,
        Kind::Mark(b'^') => 4,
        Kind::Mark(b'&') => 5,
        Kind::Equal | Kind::NotEqual => 6,
        Kind::Mark(b'<' | b'>') | Kind::LessEqual | Kind::GreaterEqual => 7,
        Kind::ShiftLeft | Kind::ShiftRight => 8,
        Kind::Mark(b'+' | b'-') => 9,
        Kind::Mark(b'*' | b'/' | b'%') => 10,
        _ => return None,
    })
}

impl Parser<'_> {
    /// Parses a constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Immediate> {
        self.nested(|p| {
            let condition = p.binary(1)?;
            if !p.is(b'?') {
                return Ok(condition);
            }
            let at = p.next();
            let first = p.constant()?;
            p.expect(b':')?;
            let second = p.constant()?;
            p.choose(at, condition, first, second)
        })
    }

    /// Parses a constant expression whose value is an integer, as bits.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<u64> {
        let at = self.token();
        match self.constant()? {
            Immediate::Integer { bits, .. } => Ok(bits),
            _ => Err(self.wrong_at(at, what)),
        }
    }

    /// Parses a number that fits into 32 bits.
    pub(super) fn small(&mut self, what: &str) -> Parsed<u32> {
        let at = self.token();
        if at.kind != Kind::Number {
            return Err(self.wrong(what));
        }
        let value = self.literal()?;
        match value {
            Immediate::Integer { bits, .. } => u32::try_from(bits).map_err(|_| self.wrong_at(at, what)),
            _ => Err(self.wrong_at(at, what)),
        }
    }

    /// Parses `+4`, `+-4`, `+2*4` after a symbol; 0 if there is no offset.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        if self.is(b'-') {
            return Err(self.wrong("`+`; a negative offset is written `+-4`"));
        }
        if !self.eat(b'+') {
            return Ok(0);
        }
        if self.kind() == Kind::Word && !self.at_warp_size() {
            return Err(self.wrong("a constant offset; PTX does not add registers to addresses"));
        }
        Ok(self.integer("an offset in whole bytes")?.cast_signed())
    }

    /// Whether the current token is [`WARP_SIZE`].
    pub(super) fn at_warp_size(&self) -> bool {
        let token = self.token();
        token.kind == Kind::Word && self.slice(token.span) == WARP_SIZE
    }

    /// Parses operators of at least precedence `least`. Chains are parsed in a loop, so only brackets nest.
    fn binary(&mut self, least: u8) -> Parsed<Immediate> {
        let mut left = self.unary()?;
        while let Some(tight) = binding(self.kind()).filter(|b| *b >= least) {
            let operator = self.next();
            let right = self.nested(|p| p.binary(tight + 1))?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Immediate> {
        let at = self.token();
        match at.kind {
            Kind::Number => self.literal(),
            Kind::Mark(b'(') => {
                self.next();
                self.nested(Self::parenthesis)
            }
            Kind::Mark(b'-') => {
                self.next();
                // The literal alone would exceed i64 and be unsigned.
                if self.slice(self.token().span) == "9223372036854775808" {
                    self.next();
                    return Ok(signed(i64::MIN));
                }
                Ok(match self.nested(Self::unary)? {
                    Immediate::Integer { bits, unsigned } => {
                        Immediate::Integer { bits: bits.wrapping_neg(), unsigned }
                    }
                    Immediate::F32(value) => Immediate::F32(-value),
                    Immediate::F64(value) => Immediate::F64(-value),
                })
            }
            Kind::Mark(b'+') => {
                self.next();
                self.nested(Self::unary)
            }
            Kind::Mark(b'~') => {
                self.next();
                match self.nested(Self::unary)? {
                    Immediate::Integer { bits, unsigned } => Ok(Immediate::Integer { bits: !bits, unsigned }),
                    _ => Err(self.wrong_at(at, "an integer under `~`")),
                }
            }
            Kind::Mark(b'!') => {
                self.next();
                match self.nested(Self::unary)? {
                    Immediate::Integer { bits, .. } => Ok(signed(i64::from(bits == 0))),
                    _ => Err(self.wrong_at(at, "an integer under `!`")),
                }
            }
            Kind::Word if self.at_warp_size() => {
                self.next();
                Ok(signed(32))
            }
            _ => Err(self.wrong("a number")),
        }
    }

    /// Parses after `(`: the operand of a cast, or an expression.
    fn parenthesis(&mut self) -> Parsed<Immediate> {
        let Some(cast) = self.dotted() else {
            let inner = self.constant()?;
            self.expect(b')')?;
            return Ok(inner);
        };
        let unsigned = match cast {
            "s64" => false,
            "u64" => true,
            _ => return Err(self.wrong("`.s64` or `.u64`")),
        };
        self.next();
        self.expect(b')')?;
        let at = self.token();
        match self.unary()? {
            Immediate::Integer { bits, .. } => Ok(Immediate::Integer { bits, unsigned }),
            _ => Err(self.wrong_at(at, "an integer after the cast")),
        }
    }

    fn choose(&self, at: Token, condition: Immediate, a: Immediate, b: Immediate) -> Parsed<Immediate> {
        let Immediate::Integer { bits: condition, .. } = condition else {
            return Err(self.wrong_at(at, "an integer before `?`"));
        };
        let taken = if condition == 0 { b } else { a };
        Ok(match (taken, a, b) {
            (
                Immediate::Integer { bits, .. },
                Immediate::Integer { unsigned: u, .. },
                Immediate::Integer { unsigned: v, .. },
            ) => Immediate::Integer { bits, unsigned: u || v },
            _ => taken,
        })
    }

    fn apply(&self, operator: Token, left: Immediate, right: Immediate) -> Parsed<Immediate> {
        match (left, right) {
            (Immediate::Integer { bits: a, unsigned: u }, Immediate::Integer { bits: b, unsigned: v }) => {
                integers(operator.kind, (a, u), (b, v))
                    .ok_or_else(|| self.wrong_at(operator, "a divisor other than 0"))
            }
            (Immediate::F64(a), Immediate::F64(b)) => floats(operator.kind, a, b)
                .ok_or_else(|| self.wrong_at(operator, "an operator of floating-point constants")),
            _ => Err(self.wrong_at(operator, "two integers or two decimal floating-point constants")),
        }
    }

    /// Parses one number.
    pub(super) fn literal(&mut self) -> Parsed<Immediate> {
        let token = self.next();
        let text = self.slice(token.span);
        match read(text) {
            Some(value) => Ok(value),
            None if text.bytes().all(|b| b.is_ascii_digit()) => {
                Err(self.wrong_at(token, "a number of 64 bits"))
            }
            None => Err(self.wrong_at(token, "a number of at most 64 bits, or a float such as `0f3F800000`")),
        }
    }
}

/// Integer operators (PTX ISA 4.5.5): the result is unsigned if either operand is; comparisons yield signed results.
/// `None` for a division by 0.
fn integers(operator: Kind, (a, u): (u64, bool), (b, v): (u64, bool)) -> Option<Immediate> {
    let unsigned = u || v;
    let (x, y) = (a.cast_signed(), b.cast_signed());
    let truth = |holds: bool| Some(signed(i64::from(holds)));
    let by_sign =
        |as_unsigned: u64, as_signed: i64| if unsigned { as_unsigned } else { as_signed.cast_unsigned() };
    let order = if unsigned { a.cmp(&b) } else { x.cmp(&y) };
    let shift = u32::try_from(b).unwrap_or(u32::MAX);
    let bits = match operator {
        Kind::Or => return truth(a != 0 || b != 0),
        Kind::And => return truth(a != 0 && b != 0),
        Kind::Equal => return truth(a == b),
        Kind::NotEqual => return truth(a != b),
        Kind::Mark(b'<') => return truth(order.is_lt()),
        Kind::Mark(b'>') => return truth(order.is_gt()),
        Kind::LessEqual => return truth(order.is_le()),
        Kind::GreaterEqual => return truth(order.is_ge()),
        // A shift has the type of its left operand.
        Kind::ShiftLeft => {
            return Some(Immediate::Integer { bits: a.checked_shl(shift).unwrap_or(0), unsigned: u });
        }
        Kind::ShiftRight if u => {
            return Some(Immediate::Integer { bits: a.checked_shr(shift).unwrap_or(0), unsigned: u });
        }
        Kind::ShiftRight => return Some(signed(x >> shift.min(63))),
        Kind::Mark(b'|') => a | b,
        Kind::Mark(b'^') => a ^ b,
        Kind::Mark(b'&') => a & b,
        Kind::Mark(b'+') => a.wrapping_add(b),
        Kind::Mark(b'-') => a.wrapping_sub(b),
        Kind::Mark(b'*') => a.wrapping_mul(b),
        Kind::Mark(b'/' | b'%') if b == 0 => return None,
        Kind::Mark(b'/') => by_sign(a / b, x.wrapping_div(y)),
        _ => by_sign(a.checked_rem(b)?, x.wrapping_rem(y)),
    };
    Some(Immediate::Integer { bits, unsigned })
}

fn floats(operator: Kind, a: f64, b: f64) -> Option<Immediate> {
    let truth = |holds: bool| Some(signed(i64::from(holds)));
    Some(Immediate::F64(match operator {
        Kind::Mark(b'+') => a + b,
        Kind::Mark(b'-') => a - b,
        Kind::Mark(b'*') => a * b,
        Kind::Mark(b'/') => a / b,
        Kind::Mark(b'<') => return truth(a < b),
        Kind::Mark(b'>') => return truth(a > b),
        Kind::LessEqual => return truth(a <= b),
        Kind::GreaterEqual => return truth(a >= b),
        Kind::Equal => return truth(a == b),
        Kind::NotEqual => return truth(a != b),
        _ => return None,
    }))
}

/// Parses a literal (PTX ISA 4.5.1 and 4.5.2).
fn read(text: &str) -> Option<Immediate> {
    let hex = |digits: &str, length: usize| {
        let good = digits.len() == length && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if good { u64::from_str_radix(digits, 16).ok() } else { None }
    };
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return Some(Immediate::F32(f32::from_bits(u32::try_from(hex(digits, 8)?).ok()?)));
    }
    if let Some(digits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return Some(Immediate::F64(f64::from_bits(hex(digits, 16)?)));
    }
    let body = text.strip_suffix('U').unwrap_or(text);
    let (digits, radix) = match body.as_bytes() {
        [b'0', b'x' | b'X', ..] => (body.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (body.get(2..)?, 2),
        // `0.5` and `0e1` are floats, not octal.
        [b'0', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => (body.get(1..)?, 8),
        _ if body.bytes().all(|b| b.is_ascii_digit()) => (body, 10),
        _ => {
            let float = |b: u8| b.is_ascii_digit() || b".eE+-".contains(&b);
            return if text.bytes().all(float) { text.parse().ok().map(Immediate::F64) } else { None };
        }
    };
    // `from_str_radix` would accept a sign.
    let bits = if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }?;
    Some(Immediate::Integer { bits, unsigned: body.len() < text.len() || i64::try_from(bits).is_err() })
}
