//! Numbers that are fitted to wrong elements, in the plainest words.

/// A number between two bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The number.
    pub value: f64,
    /// What it is.
    pub words: String,
}

impl Fitted {
    fn new(value: f64, words: impl Into<String>) -> Self {
        Self { value, words: words.into() }
    }

    /// Returns the first of these numbers that is within the bounds.
    pub fn among(all: impl IntoIterator<Item = (f64, String)>, least: f64, most: f64) -> Option<Self> {
        let found = all.into_iter().find(|(value, _)| (least..=most).contains(value));
        found.map(|(value, words)| Self { value, words })
    }

    /// Returns the plainest number within the bounds: a small one, its inverse, log2 e, or the one with the fewest digits.
    #[must_use]
    pub fn between(least: f64, most: f64) -> Self {
        let log2 = std::f64::consts::LOG2_E;
        let named = [(-1.0, "-1"), (0.5, "one half"), (2.0, "two"), (0.25, "one quarter"), (4.0, "four")]
            .into_iter()
            .chain([(log2, "log2 e"), (1.0 / log2, "ln 2")])
            .map(|(value, words)| (value, words.to_owned()));
        let small = (3..=32).map(|n| (f64::from(n), n.to_string()));
        let inverse = (3..=32).map(|n| (1.0 / f64::from(n), format!("1 / {n}")));
        let plain = named.chain(small).chain(inverse);
        Self::among(plain, least, most).unwrap_or_else(|| Self::shortest(least, most))
    }

    /// Returns the decimal number with the fewest digits within the bounds.
    fn shortest(least: f64, most: f64) -> Self {
        let middle = f64::midpoint(least, most);
        let text = |digits: usize| format!("{middle:.digits$e}");
        let found = (0..16).map(text).filter_map(|text| text.parse::<f64>().ok());
        let value = found.into_iter().find(|x| (least..=most).contains(x)).unwrap_or(middle);
        Self::new(value, value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_plain_as_their_bounds_allow() {
        assert_eq!(Fitted::between(1.9, 2.1), Fitted::new(2.0, "two"));
        assert_eq!(Fitted::between(0.124, 0.126), Fitted::new(0.125, "1 / 8"));
        assert_eq!(Fitted::between(0.701, 0.709), Fitted::new(0.705, "0.705"));
    }
}
