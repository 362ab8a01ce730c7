//! Splits CUDA C++ into tokens with their positions: enough to edit a token, without types or macros.
//!
//! Comments are not tokens, a string is one token, and of preprocessor lines only the body of a `#define` has
//! tokens.

use std::ops::Range;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or a keyword.
    Word,
    /// A number, with its suffix.
    Number,
    /// A string or character literal, including its quotes.
    Text,
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    /// Any other operator or separator.
    Sign,
    /// The beginning or end of a preprocessor line, which no expression crosses.
    Boundary,
}

/// A token and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The byte range in the text.
    pub(super) at: Range<usize>,
}

/// Operators of more than one character, longest first.
const SIGNS: [&str; 23] = [
    "<<=", ">>=", "...", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "->", "::", "+=", "-=",
    "*=", "/=", "%=", "|=", "&=", "^=",
];

/// Replaces comments with spaces; all other bytes keep their position.
#[must_use]
pub fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            quote @ (b'"' | b'\'') => {
                at = end_of_text(bytes, at, quote);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                text[at + 2..].find("*/").map_or(bytes.len(), |n| at + n + 4)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Only whole comments were replaced, so the text is still valid UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the end of a line; a trailing backslash continues it.
fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() && (bytes[at] != b'\n' || at > 0 && bytes[at - 1] == b'\\') {
        at += 1;
    }
    at
}

/// Returns the position after the closing quote of the literal at `from`. An apostrophe after a digit is a
/// digit separator.
fn end_of_text(bytes: &[u8], from: usize, quote: u8) -> usize {
    if quote == b'\'' && from > 0 && bytes[from - 1].is_ascii_hexdigit() {
        return from + 1;
    }
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != quote && bytes[at] != b'\n' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let code = without_comments(text);
    let bytes = code.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    let mut line_begins = true;
    // The end of the current preprocessor line.
    let mut directive_ends = None;
    while at < bytes.len() {
        if directive_ends.is_some_and(|end| at >= end) {
            out.push(Token { kind: Kind::Boundary, at: at..at });
            directive_ends = None;
        }
        let byte = bytes[at];
        if byte == b'\n' {
            line_begins = true;
            at += 1;
            continue;
        }
        if byte.is_ascii_whitespace() || byte == b'\\' {
            at += 1;
            continue;
        }
        if byte == b'#' && line_begins && directive_ends.is_none() {
            let end = end_of_line(bytes, at);
            out.push(Token { kind: Kind::Boundary, at: at..at });
            directive_ends = Some(end);
            at = body_of_define(&code[at..end]).map_or(end, |n| at + n);
            continue;
        }
        line_begins = false;
        let token = token(&code, at);
        at = token.at.end;
        out.push(token);
    }
    out.push(Token { kind: Kind::Boundary, at: at..at });
    out
}

/// Returns the position of the body of `#define NAME(parameters) body`; `None` for any other directive.
fn body_of_define(line: &str) -> Option<usize> {
    let rest = line.strip_prefix('#')?.trim_start().strip_prefix("define")?.trim_start();
    let name = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    let mut body = &rest[name..];
    if body.starts_with('(') {
        body = &body[body.find(')')? + 1..];
    }
    Some(line.len() - body.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn token(code: &str, at: usize) -> Token {
    let rest = &code[at..];
    let bytes = code.as_bytes();
    let (kind, end) = match bytes[at] {
        quote @ (b'"' | b'\'') => (Kind::Text, end_of_text(bytes, at, quote)),
        b'(' | b'[' | b'{' => (Kind::Open, at + 1),
        b')' | b']' | b'}' => (Kind::Close, at + 1),
        b'0'..=b'9' => (Kind::Number, at + number(rest)),
        c if c.is_ascii_alphabetic() || c == b'_' => {
            (Kind::Word, at + rest.find(|c| !is_word(c)).unwrap_or(rest.len()))
        }
        _ => {
            let long = SIGNS.iter().find(|s| rest.starts_with(**s)).map(|s| s.len());
            (Kind::Sign, at + long.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8)))
        }
    };
    Token { kind, at: at..end }
}

/// Returns the length of a number: digits, letters and points, and the sign of an exponent.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let hex = rest.starts_with("0x") || rest.starts_with("0X");
    let mut n = 1;
    while n < bytes.len() {
        let exponent = !hex && matches!(bytes[n - 1], b'e' | b'E') && matches!(bytes[n], b'+' | b'-');
        if !(bytes[n].is_ascii_alphanumeric() || matches!(bytes[n], b'.' | b'\'') || exponent) {
            break;
        }
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).into_iter().filter(|t| t.kind != Kind::Boundary).map(|t| &text[t.at]).collect()
    }

    #[test]
    fn comments_are_spaces_and_strings_stay() {
        let text = "a /* b\nc */ + \"// no /* comment\" // d\n'/' e";
        let code = without_comments(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code, "a     \n     + \"// no /* comment\"     \n'/' e");
        assert_eq!(without_comments("x // é\ny"), "x      \ny");
        assert_eq!(without_comments("x /* open"), "x        ");
    }

    #[test]
    fn signs_are_as_long_as_they_can_be() {
        assert_eq!(
            words("a<<=b>>1<=c->d::e++^=f^g"),
            ["a", "<<=", "b", ">>", "1", "<=", "c", "->", "d", "::", "e", "++", "^=", "f", "^", "g"]
        );
        assert_eq!(words("0x7FFFu-1.5e-3f+1'000"), ["0x7FFFu", "-", "1.5e-3f", "+", "1'000"]);
        assert_eq!(words("f(\"a\\\"b\", 'c')"), ["f", "(", "\"a\\\"b\"", ",", "'c'", ")"]);
    }

    #[test]
    fn of_directives_only_the_body_of_a_define_is_code() {
        let text = "#if A < 1\n#define F(X) \\\n    g(X + 1)\n#include \"h\"\n  # pragma once\nx = 1 # 2;\n";
        assert_eq!(words(text), ["g", "(", "X", "+", "1", ")", "x", "=", "1", "#", "2", ";"]);
        // A boundary separates the body from the following text.
        let kinds: Vec<Kind> = tokens("#define A 1\nb").into_iter().map(|t| t.kind).collect();
        assert_eq!(kinds, [Kind::Boundary, Kind::Number, Kind::Boundary, Kind::Word, Kind::Boundary]);
    }
}
