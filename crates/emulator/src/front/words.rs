//! The modifiers of an instruction during decoding: remaining ones are rejected.

use ptx::{Instruction, Type};

/// The reason why an instruction cannot be decoded.
pub(crate) type Refusal = String;

/// Modifiers not read yet.
pub(crate) struct Words<'a> {
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn from_instruction(i: &'a Instruction) -> Self {
        Self { left: i.modifiers.iter().map(String::as_str).collect() }
    }

    /// Takes a word, wherever it is.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        match self.left.iter().position(|w| *w == word) {
            Some(at) => {
                self.left.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the first of these words that is present.
    pub(crate) fn one_of(&mut self, words: &[&str]) -> Option<&'a str> {
        let at = self.left.iter().position(|w| words.contains(w))?;
        Some(self.left.remove(at))
    }

    /// Takes the first word with this prefix, and returns the rest of it.
    pub(crate) fn prefixed(&mut self, prefix: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|w| w.starts_with(prefix))?;
        self.left.remove(at).strip_prefix(prefix)
    }

    /// Takes the first type.
    pub(crate) fn ty(&mut self) -> Result<Type, Refusal> {
        self.maybe_ty().ok_or_else(|| "no type modifier".to_owned())
    }

    /// Takes the first type, if there is one.
    pub(crate) fn maybe_ty(&mut self) -> Option<Type> {
        let at = self.left.iter().position(|w| scalar(w).is_some())?;
        scalar(self.left.remove(at))
    }

    /// The words not taken yet.
    pub(crate) fn left(&self) -> &[&'a str] {
        &self.left
    }

    /// Checks that everything has been read.
    pub(crate) fn done(self) -> Result<(), Refusal> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => Err(format!("the modifier `.{word}` is not emulated here")),
        }
    }
}

/// The type a word names.
pub(crate) fn scalar(word: &str) -> Option<Type> {
    Type::named(word).filter(|ty| !matches!(ty, Type::TexRef | Type::SamplerRef | Type::SurfRef))
}
