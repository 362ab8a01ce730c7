//! Globs over names: `*` matches any characters, `?` matches one. Other special characters of globs are rejected.

use serde::{Deserialize, Deserializer, de::Error};

/// A compiled glob, which matches whole names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Parses a glob.
    ///
    /// # Errors
    /// A message, for an empty glob and for characters that are special in other globs.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty glob matches nothing; omit the key to match everything".to_owned());
        }
        if let Some(sign) = text.chars().find(|c| "[]{}!\\".contains(*c)) {
            return Err(format!(
                "`{sign}` is not supported in the glob `{text}`: `*` matches any characters, `?` matches one"
            ));
        }
        if text.contains("**") {
            return Err(format!("`**` means the same as `*` in the glob `{text}`: write `*`"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the glob as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the glob matches all of `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        // Greedy matching that backtracks to the last `*`: at most pattern length times name length steps.
        let (glob, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut g, mut n, mut star) = (0, 0, None);
        while n < name.len() {
            match glob.get(g) {
                Some(b'*') => {
                    star = Some((g, n));
                    g += 1;
                }
                Some(c) if *c == b'?' || *c == name[n] => (g, n) = (g + 1, n + 1),
                _ => match star {
                    Some((at, from)) => {
                        star = Some((at, from + 1));
                        (g, n) = (at + 1, from + 1);
                    }
                    None => return false,
                },
            }
        }
        glob[g..].iter().all(|c| *c == b'*')
    }

    /// Returns the glob as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        let m = |glob: &str, name: &str| Glob::new(glob).unwrap().matches(name);
        assert!(
            m("mma.*", "mma.mxf4.2X") && m("*mxf4*", "mma.mxf4.2X") && m("*", "") && m("a*b*c", "axxbxbyc")
        );
        assert!(m("13.?.*", "13.5.37") && m("x", "x") && m("*.2X", "a.2X.2X"));
        assert!(!m("mma", "mma.x") && !m("?", "ab") && !m("a*b", "a") && !m("*a", "ab") && !m("?", ""));
    }

    #[test]
    fn signs_of_other_globs_are_refused() {
        for glob in ["", "a[bc]", "{a,b}", "a**b", "!a", "a\\*"] {
            assert!(Glob::new(glob).is_err(), "{glob}");
        }
    }
}
