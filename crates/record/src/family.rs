//! Families of kernels, and the names that each gives its stages, configurations and places.
//!
//! The record knows no family: it holds their names as text, and [`FamilyRow`] says what a reader needs to show them.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a report says about a family of kernels that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyRow {
    /// Its name in rows: `moe`.
    pub name: String,
    /// The heading of its sections: `MXFP4 fused-MoE pipeline`.
    pub title: String,
    /// What the first word of a configuration names: `tile`.
    pub leading: String,
    /// The stages, in execution order.
    pub stages: Vec<StageRow>,
    /// The command that runs every configuration, where the default set leaves some out; empty if there is none.
    #[serde(default)]
    pub all: String,
}

/// A stage of a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageRow {
    /// Its name in results: `fc1`.
    pub name: StageName,
    /// What it does.
    pub about: String,
}

/// Defines a name in the vocabulary of a family, written as text.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema
        )]
        #[serde(transparent)]
        pub struct $name(Cow<'static, str>);

        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn text(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Cow::Owned(text))
            }
        }

        impl From<&'static str> for $name {
            fn from(text: &'static str) -> Self {
                Self(Cow::Borrowed(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }
    )* };
}

names! {
    /// The name of a stage in its family: `fc1`.
    StageName

    /// The name of a kernel configuration in its family: words, the most important first, such as `128x64x128 swap_ab native tma`.
    ConfigurationName

    /// The place of an element of a stage's output: axes of its family and indices from 0, such as `expert=2 row=7 col=11`.
    Place
}

impl ConfigurationName {
    /// Returns its words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ')
    }

    /// Returns its first word, by which reports group configurations: the tile of a GEMM.
    #[must_use]
    pub fn leading(&self) -> &str {
        self.words().next().unwrap_or_default()
    }

    /// Whether every word of `part` is one of its words.
    #[must_use]
    pub fn has(&self, part: &str) -> bool {
        part.split_whitespace().all(|word| self.words().any(|own| own == word))
    }
}

impl Place {
    /// Names a place by its axes and indices.
    #[must_use]
    pub fn at(axes: &[(&str, usize)]) -> Self {
        let parts: Vec<String> = axes.iter().map(|(axis, index)| format!("{axis}={index}")).collect();
        Self(Cow::Owned(parts.join(" ")))
    }

    /// Returns the index along an axis; `None` if the place has none.
    #[must_use]
    pub fn index(&self, axis: &str) -> Option<usize> {
        let parts = self.0.split(' ').filter_map(|part| part.split_once('='));
        parts.filter(|(name, _)| *name == axis).find_map(|(_, index)| index.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_the_words_of_its_name() {
        let name = ConfigurationName::from("128x64x128 swap_ab native tma");
        assert_eq!((name.leading(), name.words().count()), ("128x64x128", 4));
        assert!(name.has("128x64x128") && name.has("native swap_ab") && name.has(""));
        assert!(!name.has("128x64") && !name.has("128x64x128 portable"));
    }

    #[test]
    fn a_place_has_the_indices_that_it_was_made_of() {
        let place = Place::at(&[("expert", 2), ("row", 7), ("col", 11)]);
        assert_eq!(place.to_string(), "expert=2 row=7 col=11");
        assert_eq!((place.index("row"), place.index("head")), (Some(7), None));
        let read: Place = serde_json::from_str(&serde_json::to_string(&place).unwrap()).unwrap();
        assert_eq!(read, place);
    }
}
