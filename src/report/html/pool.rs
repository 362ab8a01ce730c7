//! Values stored once and referred to by index, and sequences as runs of equal values.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Values in the order of their first use.
#[derive(Default)]
pub(super) struct Pool {
    values: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Pool {
    /// Returns the index of a value, adding it if it is new.
    pub(super) fn index(&mut self, value: String) -> usize {
        if let Some(place) = self.places.get(&value) {
            return *place;
        }
        self.values.push(value.clone());
        self.places.insert(value, self.values.len() - 1);
        self.values.len() - 1
    }

    pub(super) fn into_values(self) -> Vec<String> {
        self.values
    }
}

/// Merges equal neighbours and counts them.
fn runs<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut out: Vec<(T, usize)> = Vec::new();
    for item in items {
        match out.last_mut() {
            Some((last, count)) if *last == item => *count += 1,
            _ => out.push((item, 1)),
        }
    }
    out
}

/// `R32NA2`: each letter, followed by its count if greater than one.
pub(super) fn letters(items: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    for (letter, count) in runs(items) {
        out.push(letter);
        if count > 1 {
            _ = write!(out, "{count}");
        }
    }
    out
}

/// `-*32,7,3*4`: each index, or `-` for none, followed by its count; empty if all are none.
pub(super) fn indices(items: impl Iterator<Item = Option<usize>>) -> String {
    let runs = runs(items);
    if runs.iter().all(|(item, _)| item.is_none()) {
        return String::new();
    }
    let each = runs.into_iter().map(|(item, count)| {
        let name = item.map_or_else(|| "-".to_owned(), |n| n.to_string());
        if count > 1 { format!("{name}*{count}") } else { name }
    });
    each.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted() {
        assert_eq!(letters("RRRNAA".chars()), "R3NA2");
        assert_eq!(letters("".chars()), "");
        assert_eq!(indices([None, None, Some(7), Some(7), Some(12), None].into_iter()), "-*2,7*2,12,-");
        assert_eq!(indices([None, None].into_iter()), "");
        let mut pool = Pool::default();
        assert_eq!(["a", "b", "a"].map(|v| pool.index(v.to_owned())), [0, 1, 0]);
        assert_eq!(pool.into_values(), ["a", "b"]);
    }
}
