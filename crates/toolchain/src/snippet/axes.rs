//! Axis values and conditions on them, as written in YAML.

use std::fmt;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// One axis value; numbers keep their spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value(pub String);

/// One value or a list of values: `e2m1` or `[e2m1, e2m3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values(pub Vec<String>);

/// Axis name → values; true for a variant if every named axis has one of its values.
pub type Condition = IndexMap<String, Values>;

/// The axis values of one variant, in the order written.
pub type Assignment = Vec<(String, String)>;

/// Whether `condition` holds for `assignment`.
#[must_use]
pub(super) fn holds(condition: &Condition, assignment: &[(String, String)]) -> bool {
    condition
        .iter()
        .all(|(axis, values)| assignment.iter().any(|(name, value)| name == axis && values.0.contains(value)))
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word or an integer")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<String, E> {
        Ok(n.to_string())
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<String, E> {
        Ok(n.to_string())
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(Self)
    }
}

// Not an untagged enum: those lose line and column.
impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;

        impl<'de> Visitor<'de> for ListVisitor {
            type Value = Vec<String>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an axis value or a list of axis values")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
                ScalarVisitor.visit_str(text).map(|v| vec![v])
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Vec<String>, E> {
                ScalarVisitor.visit_u64(n).map(|v| vec![v])
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Vec<String>, E> {
                ScalarVisitor.visit_i64(n).map(|v| vec![v])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
                let mut values = Vec::new();
                while let Some(Value(value)) = seq.next_element()? {
                    values.push(value);
                }
                Ok(values)
            }
        }

        deserializer.deserialize_any(ListVisitor).map(Self)
    }
}
