//! Targets and versions are strings in every format that is written.

use super::{PtxIsa, Target, ToolkitVersion};

/// Serialises a type through `Display` and `FromStr`: targets and versions are strings in every format that is written.
macro_rules! as_text {
    ($($type:ty => $example:literal),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schemars")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "examples": [$example] })
            }
        }
    )*};
}

as_text!(Target => "sm_121a", PtxIsa => "9.5", ToolkitVersion => "13.5.37");
