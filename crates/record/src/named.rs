//! Words of a record as typed values. A word that this build does not know is kept as written.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use ptx::arch::{Requirement, Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type whose values are single words in the record.
pub trait Word: Sized {
    /// Parses a word; `None` if this build does not know it.
    fn read(word: &str) -> Option<Self>;

    /// Returns the word of a value.
    fn text(&self) -> Cow<'_, str>;
}

/// Implements [`Word`] through `Display` and `FromStr`.
macro_rules! as_displayed {
    ($($name:ty),*) => { $(
        impl Word for $name {
            fn read(word: &str) -> Option<Self> {
                word.parse().ok()
            }

            fn text(&self) -> Cow<'_, str> {
                self.to_string().into()
            }
        }
    )* };
}
as_displayed!(Requirement, Target, ToolkitVersion);

/// A value that is a word in the record: typed if this build parses the word and writes it back identically, text otherwise.
/// Records of other versions may contain words that this version does not know; they are kept, compared and shown as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Named<T>(Form<T>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form<T> {
    Known(T),
    Other(String),
}

impl<T> Named<T> {
    /// Returns the value; `None` for a word that this build does not know.
    #[must_use]
    pub const fn known(&self) -> Option<&T> {
        match &self.0 {
            Form::Known(value) => Some(value),
            Form::Other(_) => None,
        }
    }
}

impl<T: Word> Named<T> {
    /// Returns the word.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Form::Known(value) => value.text(),
            Form::Other(text) => Cow::Borrowed(text),
        }
    }
}

impl<T: Word> From<T> for Named<T> {
    fn from(value: T) -> Self {
        Self(Form::Known(value))
    }
}

impl<T: Word> From<&str> for Named<T> {
    fn from(text: &str) -> Self {
        // Only a word that is written back identically is typed, so that reading and writing a record does not change it.
        match T::read(text) {
            Some(value) if value.text() == text => Self(Form::Known(value)),
            _ => Self(Form::Other(text.to_owned())),
        }
    }
}

impl<T: Word + PartialEq> PartialEq<T> for Named<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(other)
    }
}

/// Orders by the words, so that unknown words are sorted among the known ones.
impl<T: Word + Eq> Ord for Named<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text().cmp(&other.text())
    }
}

impl<T: Word + Eq> PartialOrd for Named<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Word> fmt::Display for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl<T: Word> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text())
    }
}

impl<'de, T: Word> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(from)?.as_str()))
    }
}

impl<T> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Named".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

/// A word that may be absent, written as an empty string.
pub(super) mod or_empty {
    use super::{Cow, Deserialize, Deserializer, Named, Serializer, Word};

    pub(crate) fn serialize<T: Word, S: Serializer>(
        value: &Option<Named<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.as_ref().map_or(Cow::Borrowed(""), Named::text))
    }

    pub(crate) fn deserialize<'de, T: Word, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Named<T>>, D::Error> {
        let text = String::deserialize(from)?;
        Ok((!text.is_empty()).then(|| Named::from(text.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_they_were_read() {
        for (text, known) in [("sm_121a", true), ("121a", false), ("sm_999", false), ("", false)] {
            let target = Named::<Target>::from(text);
            assert_eq!((target.known().is_some(), target.to_string().as_str()), (known, text));
            let json = serde_json::to_string(&target).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Named<Target>>(&json).unwrap(), target);
        }
        let (a, b) = (Named::<Target>::from("sm_120"), Named::<Target>::from("sm_12"));
        assert!(b < a && a == "sm_120".parse::<Target>().unwrap());
        assert_eq!(format!("{a:<8}|"), "sm_120  |");
    }
}
