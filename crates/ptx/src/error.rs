//! Syntax errors, with line and column.

use super::ast::Span;

/// A position in a text, counted from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineColumn {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A text that is not PTX.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The byte range of the offending text.
    pub span: Span,
    /// The syntax that would be valid there.
    pub expected: String,
    /// The text found there.
    pub found: String,
}

impl SyntaxError {
    /// Creates the error for a span of a text.
    pub(super) fn at(text: &str, span: Span, expected: impl Into<String>, found: impl Into<String>) -> Self {
        let LineColumn { line, column } = line_column(text, span.start as usize);
        Self { line, column, span, expected: expected.into(), found: found.into() }
    }
}

/// Returns line and column of a byte offset in a text; an offset past the end counts as the end.
#[must_use]
pub fn line_column(text: &str, offset: usize) -> LineColumn {
    let before = text.get(..boundary(text, offset)).unwrap_or_default();
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    LineColumn { line, column }
}

/// Returns the line of a text in which a span starts, without its line terminator.
#[must_use]
pub fn source_line(text: &str, span: Span) -> &str {
    let (before, after) = text.split_at(boundary(text, span.start as usize));
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = before.len() + after.find('\n').unwrap_or(after.len());
    text.get(start..end).unwrap_or_default().trim_end_matches('\r')
}

/// The last character boundary at or before an offset.
fn boundary(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let text = "é = 1\nsecond\r\n";
        let place = |offset| {
            let at = line_column(text, offset);
            (at.line, at.column)
        };
        assert_eq!(place(0), (1, 1));
        assert_eq!(place(1), (1, 1), "the middle of a character is its start");
        assert_eq!(place(2), (1, 2));
        assert_eq!(place(7), (2, 1));
        assert_eq!(place(99), (3, 1));
        assert_eq!(source_line(text, Span { start: 9, end: 10 }), "second");
        assert_eq!(source_line(text, Span { start: 1, end: 1 }), "é = 1");
        assert_eq!(source_line(text, Span { start: 99, end: 100 }), "");
    }
}
