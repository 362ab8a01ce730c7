//! A position in PTX text that moves by words, comments and strings.

/// A position in the bytes of PTX text, which need not be UTF-8.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    text: &'a [u8],
    /// The position in bytes.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of a text.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the text from the position on.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the text from `start` to the position.
    #[must_use]
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Returns the byte before the position.
    #[must_use]
    pub fn before(&self) -> Option<u8> {
        self.at.checked_sub(1).and_then(|i| self.text.get(i)).copied()
    }

    /// Moves past the next `end`, or to the end of the text.
    pub fn behind(&mut self, end: &[u8]) {
        let Some((first, others)) = end.split_first() else { return };
        while let Some(i) = self.rest().iter().position(|b| b == first) {
            self.at += i + 1;
            if self.rest().starts_with(others) {
                self.at += others.len();
                return;
            }
        }
        self.at = self.text.len();
    }

    /// Moves past whitespace and comments.
    pub fn blank(&mut self) {
        loop {
            self.take_while(|b| b.is_ascii_whitespace());
            match self.rest() {
                [b'/', b'/', ..] => self.behind(b"\n"),
                [b'/', b'*', ..] => {
                    self.at += 2;
                    self.behind(b"*/");
                }
                _ => return,
            }
        }
    }

    /// Moves past the bytes that are `wanted` and returns them.
    pub fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let length = rest.iter().take_while(|b| wanted(**b)).count();
        self.at += length;
        &rest[..length]
    }

    /// Moves past the next word and returns it; empty if there is none.
    pub fn word(&mut self) -> &'a str {
        self.blank();
        let word = self.take_while(|b| b.is_ascii_alphanumeric() || b"_$.%".contains(&b));
        std::str::from_utf8(word).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_passed_and_words_end_where_they_end() {
        let mut cursor = Cursor::new(b" // .version 1.0\n/* x */ .version 9.0, \xff");
        assert_eq!((cursor.word(), cursor.word(), cursor.word()), (".version", "9.0", ""));
        assert_eq!((cursor.rest(), cursor.before()), (&b", \xff"[..], Some(b'0')));
        cursor.behind(b"*/");
        assert!(cursor.rest().is_empty());
        let mut open = Cursor::new(b"/* never closed");
        assert_eq!(open.word(), "");
    }
}
