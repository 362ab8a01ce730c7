//! Splits text into tokens. A fault ends the list, so the parser reports the first fault, lexical or syntactic.

use super::ast::Span;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or an opcode: `add`, `%r1`, `$L__BB0_2`, `_`.
    Word,
    /// A dot and the following word, including `::`: `.shared::cta`, `.2d`.
    Dotted,
    /// Starts with a digit; parsed by [`super::parser`].
    Number,
    /// A string in double quotes.
    Text,
    /// One character.
    Mark(u8),
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `&&`
    And,
    /// `||`
    Or,
    /// The end of the text.
    End,
    /// An invalid token; the last of its list.
    Bad,
}

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its position.
    pub(super) span: Span,
}

/// The tokens of a text: the last is [`Kind::End`] or [`Kind::Bad`].
#[derive(Debug)]
pub(super) struct Tokens {
    /// In the order of the text.
    pub(super) list: Vec<Token>,
    /// The description of a valid token, for [`Kind::Bad`].
    pub(super) wanted: &'static str,
}

/// Tokenises a text shorter than 4 GiB.
pub(super) fn tokens(text: &str) -> Tokens {
    // PTX averages about five bytes per token.
    let mut lexer = Lexer { bytes: text.as_bytes(), at: 0, list: Vec::with_capacity(text.len() / 5 + 8) };
    let wanted = lexer.run();
    Tokens { list: lexer.list, wanted }
}

/// The kind and length of a token.
type Cut = Result<(Kind, usize), &'static str>;

struct Lexer<'t> {
    bytes: &'t [u8],
    at: usize,
    list: Vec<Token>,
}

impl Lexer<'_> {
    fn run(&mut self) -> &'static str {
        loop {
            let gap = self.gap();
            let start = self.at;
            match gap.and_then(|()| self.cut()) {
                Ok((kind, length)) => {
                    self.at += length;
                    self.push(kind, start, self.at);
                    if kind == Kind::End {
                        return "";
                    }
                }
                Err(wanted) => {
                    // Take the whole character, so that the span can be sliced out of the text.
                    let tail = self.bytes.iter().skip(start + 1).take_while(|b| **b & 0xC0 == 0x80).count();
                    self.push(Kind::Bad, start, (start + 1 + tail).min(self.bytes.len()));
                    return wanted;
                }
            }
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let place = |at| u32::try_from(at).unwrap_or(u32::MAX);
        self.list.push(Token { kind, span: Span { start: place(start), end: place(end) } });
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips whitespace and comments; an unterminated comment is a fault at its start.
    fn gap(&mut self) -> Result<(), &'static str> {
        loop {
            match self.byte(0) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C => self.at += 1,
                b'/' if self.byte(1) == b'/' => {
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                b'/' if self.byte(1) == b'*' => {
                    let rest = self.bytes.get(self.at + 2..).unwrap_or_default();
                    let end = rest.windows(2).position(|w| w == b"*/");
                    self.at += 4 + end.ok_or("`*/` at the end of the comment")?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn cut(&self) -> Cut {
        let first = self.byte(0);
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => Ok((Kind::Word, self.word(1))),
            // A lone `%` is the remainder operator.
            b'%' if is_word(self.byte(1)) => Ok((Kind::Word, self.word(1))),
            b'.' => self.dotted(),
            b'0'..=b'9' => Ok((Kind::Number, self.number())),
            b'"' => self.text(),
            0 if self.at >= self.bytes.len() => Ok((Kind::End, 0)),
            _ => self.mark(first),
        }
    }

    /// The length of a word whose first `from` bytes are known.
    fn word(&self, from: usize) -> usize {
        let rest = self.bytes.get(self.at + from..).unwrap_or_default();
        from + rest.iter().position(|b| !is_word(*b)).unwrap_or(rest.len())
    }

    fn dotted(&self) -> Cut {
        let mut length = self.word(1);
        if length == 1 {
            return Err("a word after the dot");
        }
        while self.byte(length) == b':' && self.byte(length + 1) == b':' && is_word(self.byte(length + 2)) {
            length = self.word(length + 2);
        }
        Ok((Kind::Dotted, length))
    }

    /// The length of a number and everything that could belong to it; the parser validates it.
    fn number(&self) -> usize {
        let mut length = self.word(1);
        let radix = self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'X' | b'f' | b'F' | b'd' | b'D');
        if radix {
            return length;
        }
        if self.byte(length) == b'.' {
            length = self.word(length + 1);
        }
        let sign = matches!(self.byte(length - 1), b'e' | b'E') && matches!(self.byte(length), b'+' | b'-');
        if sign && self.byte(length + 1).is_ascii_digit() {
            length = self.word(length + 1);
        }
        length
    }

    /// A backslash is an ordinary character, as in `"C:\dir\"`.
    fn text(&self) -> Cut {
        let mut length = 1;
        loop {
            match self.byte(length) {
                b'"' => return Ok((Kind::Text, length + 1)),
                b'\n' => break,
                0 if self.at + length >= self.bytes.len() => break,
                _ => length += 1,
            }
        }
        Err("`\"` at the end of the string, on the same line")
    }

    fn mark(&self, first: u8) -> Cut {
        let double = match [first, self.byte(1)] {
            [b'<', b'<'] => Kind::ShiftLeft,
            [b'>', b'>'] => Kind::ShiftRight,
            [b'=', b'='] => Kind::Equal,
            [b'!', b'='] => Kind::NotEqual,
            [b'<', b'='] => Kind::LessEqual,
            [b'>', b'='] => Kind::GreaterEqual,
            [b'&', b'&'] => Kind::And,
            [b'|', b'|'] => Kind::Or,
            _ if b"{}()[]<>,;:|!~+-*/%&^?=@".contains(&first) => return Ok((Kind::Mark(first), 1)),
            _ => return Err("PTX"),
        };
        Ok((double, 2))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        tokens(text).list.iter().map(|t| &text[t.span.start as usize..t.span.end as usize]).collect()
    }

    #[test]
    fn words_keep_their_qualifiers() {
        assert_eq!(
            cut("ld.shared::cta.b32 %r1,[a];"),
            ["ld", ".shared::cta", ".b32", "%r1", ",", "[", "a", "]", ";", ""]
        );
        assert_eq!(cut(".im2col::w::128.2d l: :"), [".im2col::w::128", ".2d", "l", ":", ":", ""]);
    }

    #[test]
    fn numbers_end_where_they_end() {
        assert_eq!(
            cut("8.8 1.5e-3 0x1E+5 0f3F800000 5U-1"),
            ["8.8", "1.5e-3", "0x1E", "+", "5", "0f3F800000", "5U", "-", "1", ""]
        );
    }

    #[test]
    fn comments_are_gaps() {
        assert_eq!(cut("a// x\nb/* \" \n */c /**/ d //"), ["a", "b", "c", "d", ""]);
    }

    #[test]
    fn a_fault_ends_the_list() {
        for (text, wanted) in [
            ("a /* b", "`*/` at the end of the comment"),
            ("a \"b\n", "`\"` at the end of the string, on the same line"),
            ("a é b", "PTX"),
            ("a . b", "a word after the dot"),
        ] {
            let found = tokens(text);
            assert_eq!(found.wanted, wanted, "{text}");
            let last = found.list.last().map(|t| t.kind);
            assert_eq!((last, found.list.len()), (Some(Kind::Bad), 2), "{text}");
        }
    }
}
