//! Globs over variant ids: `*` matches any run of characters, `?` matches one; other characters match themselves.

use regex::Regex;

/// A glob that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a usable filter: it is too long")]
pub struct FilterError(String);

/// A compiled glob.
#[derive(Debug, Clone)]
pub struct Filter(Regex);

impl Filter {
    /// Compiles `glob`. Without `*` or `?`, the glob matches as a prefix that ends at a dot or at the end, so that a
    /// stem or family selects everything below it.
    ///
    /// # Errors
    /// [`FilterError`] when the glob is too large to compile.
    pub fn new(glob: &str) -> Result<Self, FilterError> {
        let mut pattern = String::from("^");
        for c in glob.chars() {
            match c {
                '*' => pattern.push_str(".*"),
                '?' => pattern.push('.'),
                c => pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            }
        }
        pattern.push_str(if glob.contains(['*', '?']) { "$" } else { "($|[.@])" });
        Regex::new(&pattern).map(Self).map_err(|_| FilterError(glob.to_owned()))
    }

    /// Whether the glob matches `id` or `<family>/<id>`.
    #[must_use]
    pub fn matches(&self, family: &str, id: &str) -> bool {
        self.0.is_match(id) || self.0.is_match(&format!("{family}/{id}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_ids_and_families() {
        let m = |glob: &str, id: &str| Filter::new(glob).unwrap().matches("mma", id);
        assert!(m("mma.*", "mma.mxf4.2X") && m("*mxf4*", "mma.mxf4.2X") && m("mma/*", "wmma.x"));
        assert!(m("mma.mxf4", "mma.mxf4.2X") && m("mma.mxf4.2X", "mma.mxf4.2X") && m("x", "x@as-written"));
        assert!(m("mma.mxf4.?X", "mma.mxf4.2X"));
        assert!(!m("mma.mxf4", "mma.mxf4nvf4.2X") && !m("mma[.]*", "mma.x") && !m("?", "ab") && !m("", "ab"));
    }
}
