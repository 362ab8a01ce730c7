//! Enums whose variants have one word each in files, records, metadata and reports.

/// Defines an enum with a word for each variant. Additional derives are given as `#[derive(…)]` among its attributes.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$item])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns its word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the value of a word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|w| w.word() == word)
            }
        }

        impl $crate::Word for $name {
            fn read(word: &str) -> Option<Self> {
                Self::from_word(word)
            }

            fn text(&self) -> std::borrow::Cow<'_, str> {
                self.word().into()
            }
        }
    };
}
