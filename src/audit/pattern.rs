//! Case-insensitive regular expressions in rule files.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, de::Error};

/// A compiled expression. An invalid one is a deserialization error with its position in the file.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

impl std::ops::Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        RegexBuilder::new(&text).case_insensitive(true).build().map(Self).map_err(D::Error::custom)
    }
}
