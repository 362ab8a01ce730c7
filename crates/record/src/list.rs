//! Lists in sentences.

/// Formats a list: `a`, `a and b`, `a, b and c`; empty for none.
#[must_use]
pub fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}
