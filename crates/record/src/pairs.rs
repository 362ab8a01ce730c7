//! Sets of pair indices, written as ranges: `0-5,8`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An ascending set of indices into the record's pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairSet(Vec<(usize, usize)>);

impl PairSet {
    /// Adds `index`, which must exceed every index added before.
    pub fn push(&mut self, index: usize) {
        match self.0.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => self.0.push((index, index)),
        }
    }

    /// Whether `index` is in the set.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Iterates over the indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Returns the highest index.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.0.last().map(|(_, last)| *last)
    }
}

impl fmt::Display for PairSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

impl FromStr for PairSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not an ascending list of ranges such as 0-5,8");
        let mut set = Vec::<(usize, usize)>::new();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range: (usize, usize) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
            if range.0 > range.1 || set.last().is_some_and(|(_, end)| range.0 <= *end) {
                return Err(bad());
            }
            set.push(range);
        }
        Ok(Self(set))
    }
}

impl Serialize for PairSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PairSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for PairSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PairSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$", "examples": ["0-5,8"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_set_reads_back(indices in proptest::collection::btree_set(0_usize..300, 0..60)) {
            let mut set = PairSet::default();
            for i in &indices {
                set.push(*i);
            }
            let back: PairSet = set.to_string().parse().unwrap();
            assert_eq!(back, set);
            assert_eq!(set.iter().collect::<Vec<_>>(), indices.iter().copied().collect::<Vec<_>>());
            assert!((0..300).all(|i| set.contains(i) == indices.contains(&i)));
            assert_eq!(set.last(), indices.last().copied());
        }
    }

    #[test]
    fn disorder_is_refused() {
        for text in ["5-3", "3,2", "1-4,4", "a", "1-", "-1", "1--2"] {
            assert!(text.parse::<PairSet>().is_err(), "{text}");
        }
    }
}
