//! The compiler of the machine code that a device ran.

use std::borrow::Cow;
use std::fmt;

use ptx::arch::ToolkitVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The record's name for the driver's compiler.
const JIT: &str = "the driver's JIT";

/// The prefix of a version.
const PTXAS: &str = "ptxas ";

/// The compiler of the code that a device ran. In the record: `ptxas 13.5.37`, `the driver's JIT`, or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeBy {
    /// No code was generated: the emulator runs PTX.
    #[default]
    Nobody,
    /// This ptxas.
    Ptxas(ToolkitVersion),
    /// The driver's JIT compiler.
    Jit,
    /// Text that this build does not recognise.
    Other(String),
}

impl CodeBy {
    /// Returns its text in the record.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Nobody => Cow::Borrowed(""),
            Self::Ptxas(version) => Cow::Owned(format!("{PTXAS}{version}")),
            Self::Jit => Cow::Borrowed(JIT),
            Self::Other(text) => Cow::Borrowed(text),
        }
    }

    /// Returns the toolkit as named in expectations files and lists of toolkits: `13.5.37`, `the driver's JIT`; empty if
    /// there is none.
    #[must_use]
    pub fn toolkit(&self) -> Cow<'_, str> {
        match self {
            Self::Ptxas(version) => Cow::Owned(version.to_string()),
            Self::Other(text) => Cow::Borrowed(text.trim_start_matches(PTXAS)),
            other => other.text(),
        }
    }

    /// Returns the version of ptxas.
    #[must_use]
    pub const fn version(&self) -> Option<ToolkitVersion> {
        match self {
            Self::Ptxas(version) => Some(*version),
            _ => None,
        }
    }

    /// Whether no code was generated.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        *self == Self::Nobody
    }
}

impl From<&str> for CodeBy {
    fn from(text: &str) -> Self {
        let version = || text.strip_prefix(PTXAS)?.parse().ok().map(Self::Ptxas);
        match text {
            "" => Self::Nobody,
            JIT => Self::Jit,
            other => version().filter(|v| v.text() == other).unwrap_or_else(|| Self::Other(other.to_owned())),
        }
    }
}

impl fmt::Display for CodeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl Serialize for CodeBy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for CodeBy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(from)?.as_str()))
    }
}

impl JsonSchema for CodeBy {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CodeBy".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_are_written_as_they_were_read() {
        for (text, toolkit) in [
            ("", ""),
            ("ptxas 13.5.37", "13.5.37"),
            ("the driver's JIT", "the driver's JIT"),
            ("ptxas 13.5", "13.5"),
            ("somebody", "somebody"),
        ] {
            let code = CodeBy::from(text);
            assert_eq!((code.text().as_ref(), code.toolkit().as_ref()), (text, toolkit));
        }
        assert_eq!(CodeBy::from("ptxas 13.5").version(), None);
    }
}
