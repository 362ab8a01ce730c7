//! Evaluates preprocessor conditions: integer expressions over macros.

use std::collections::BTreeMap;

/// The value of a condition is unknown, or the condition is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unknown;

/// Macros by name.
#[derive(Debug, Default)]
pub(super) struct Macros {
    /// The body of each macro; `None` for a function-like macro.
    of: BTreeMap<String, Option<String>>,
}

impl Macros {
    pub(super) fn define(&mut self, name: &str, body: &str) {
        self.of.insert(name.to_owned(), Some(body.to_owned()));
    }

    pub(super) fn define_function(&mut self, name: &str) {
        self.of.insert(name.to_owned(), None);
    }

    pub(super) fn undefine(&mut self, name: &str) {
        self.of.remove(name);
    }

    /// Whether a name is defined. Predefined names, which begin with two underscores, are unknown.
    pub(super) fn is_defined(&self, name: &str) -> Result<bool, Unknown> {
        match self.of.contains_key(name) {
            false if name.starts_with("__") => Err(Unknown),
            known => Ok(known),
        }
    }
}

/// Evaluates a condition.
pub(super) fn evaluate(text: &str, macros: &Macros) -> Result<i64, Unknown> {
    let mut tokens = Vec::new();
    expand(text, macros, &mut Vec::new(), &mut tokens)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let value = parser.conditional()?;
    if parser.at == tokens.len() { Ok(value) } else { Err(Unknown) }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(i64),
    Sign(&'static str),
}

const SIGNS: [&str; 23] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!",
    "~", "?", ":", "(",
];

/// Tokenizes `text` and expands macros. `open` holds the macros being expanded, which are not expanded again.
fn expand<'t>(
    text: &'t str,
    macros: &'t Macros,
    open: &mut Vec<&'t str>,
    out: &mut Vec<Token>,
) -> Result<(), Unknown> {
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if is_word(first) {
            let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
            rest = after.trim_start();
            if first.is_ascii_digit() {
                out.push(Token::Number(number(word)?));
            } else if word == "defined" {
                let (name, after) = defined(rest)?;
                out.push(Token::Number(i64::from(macros.is_defined(name)?)));
                rest = after;
            } else if open.contains(&word) {
                out.push(Token::Number(0));
            } else {
                match macros.of.get(word) {
                    Some(Some(body)) => {
                        open.push(word);
                        expand(body, macros, open, out)?;
                        open.pop();
                    }
                    None if word == "true" => out.push(Token::Number(1)),
                    None if !word.starts_with("__") => out.push(Token::Number(0)),
                    _ => return Err(Unknown),
                }
            }
        } else {
            let signs = SIGNS.iter().copied().chain([")"]);
            let sign = signs.into_iter().find(|s| rest.starts_with(s)).ok_or(Unknown)?;
            out.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Ok(())
}

/// Splits off the name after `defined`, with or without parentheses.
fn defined(rest: &str) -> Result<(&str, &str), Unknown> {
    let word =
        |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    match rest.strip_prefix('(') {
        Some(inside) => {
            let (name, after) = inside.split_once(')').ok_or(Unknown)?;
            Ok((name.trim(), after))
        }
        None => Ok(rest.split_at(word(rest))),
    }
}

fn number(word: &str) -> Result<i64, Unknown> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], 16),
        Some("0b" | "0B") => (&digits[2..], 2),
        _ if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    i64::from_str_radix(digits, radix).map_err(|_| Unknown)
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
}

/// Binary operators, lowest precedence first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn take(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Sign(sign)) = self.tokens.get(self.at) else { return None };
        signs.contains(sign).then(|| self.at += 1)?;
        Some(sign)
    }

    fn conditional(&mut self) -> Result<i64, Unknown> {
        let value = self.binary(0)?;
        if self.take(&["?"]).is_none() {
            return Ok(value);
        }
        let first = self.conditional()?;
        self.take(&[":"]).ok_or(Unknown)?;
        let second = self.conditional()?;
        Ok(if value != 0 { first } else { second })
    }

    fn binary(&mut self, level: usize) -> Result<i64, Unknown> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut value = self.binary(level + 1)?;
        while let Some(sign) = self.take(signs) {
            let right = self.binary(level + 1)?;
            value = apply(sign, value, right).ok_or(Unknown)?;
        }
        Ok(value)
    }

    fn unary(&mut self) -> Result<i64, Unknown> {
        if let Some(sign) = self.take(&["!", "-", "~", "+"]) {
            let value = self.unary()?;
            return Ok(match sign {
                "!" => i64::from(value == 0),
                "-" => value.wrapping_neg(),
                "~" => !value,
                _ => value,
            });
        }
        if self.take(&["("]).is_some() {
            let value = self.conditional()?;
            return self.take(&[")"]).map(|_| value).ok_or(Unknown);
        }
        let Some(Token::Number(value)) = self.tokens.get(self.at) else { return Err(Unknown) };
        self.at += 1;
        Ok(*value)
    }
}

fn apply(sign: &str, a: i64, b: i64) -> Option<i64> {
    let shift = u32::try_from(b).ok();
    Some(match sign {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<<" => a.checked_shl(shift?)?,
        ">>" => a.checked_shr(shift?)?,
        "+" => a.checked_add(b)?,
        "-" => a.checked_sub(b)?,
        "*" => a.checked_mul(b)?,
        "/" => a.checked_div(b)?,
        "%" => a.checked_rem(b)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_c() {
        let mut macros = Macros::default();
        macros.define("TILE_K", "256");
        macros.define("SUM", "1 + 2");
        macros.define("SELF", "SELF + 1");
        macros.define("EMPTY", "");
        macros.define_function("F");
        for (text, value) in [
            ("TILE_K == 256", Ok(1)),
            ("TILE_K > 128 && !defined(NONE)", Ok(1)),
            ("defined TILE_K || 0", Ok(1)),
            // The body is substituted as text.
            ("SUM * 2", Ok(5)),
            ("(SUM) * 2", Ok(6)),
            ("SELF", Ok(1)),
            ("NONE", Ok(0)),
            ("1 ? 2 : 3 ? 4 : 5", Ok(2)),
            ("-1 < 0 == 1", Ok(1)),
            ("0x10u | 010 | 0b1", Ok(25)),
            ("~0 & 7 ^ 2", Ok(5)),
            ("1 << 4 >> 2", Ok(4)),
            ("F(1)", Err(Unknown)),
            ("__CUDA_ARCH__", Err(Unknown)),
            ("1 / (TILE_K - 256)", Err(Unknown)),
            ("", Err(Unknown)),
            ("1 2", Err(Unknown)),
            ("EMPTY", Err(Unknown)),
            ("'a'", Err(Unknown)),
        ] {
            assert_eq!(evaluate(text, &macros), value, "{text}");
        }
    }
}
