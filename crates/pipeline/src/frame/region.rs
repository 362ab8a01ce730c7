//! Where elements are: the smallest description of a set of places, axis by axis.

use std::collections::BTreeSet;

/// The most axes of a place.
pub const AXES: usize = 4;

/// An element: its index along each axis, in the order of the family's axes; zeros behind the last one.
pub type Place = [u32; AXES];

/// The indices along an axis, described by what tells them from the other indices that were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Span {
    /// Every index.
    All,
    /// The only index that was looked at.
    Only(u32),
    /// From the first to the last.
    Range(u32, u32),
    /// Those whose remainder by the modulus is between the second and the third.
    Remainder(u32, u32, u32),
    /// A few.
    List(Vec<u32>),
    /// Nothing that is short: so many, from the first to the last.
    Scattered(usize, u32, u32),
}

/// The most indices that are listed.
const LISTED: usize = 8;

/// Moduli of tiles and fragments.
const MODULI: [u32; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

impl Span {
    /// Describes indices among all that were looked at.
    fn new(found: &BTreeSet<u32>, all: &BTreeSet<u32>) -> Self {
        let (Some(first), Some(last)) = (found.first().copied(), found.last().copied()) else {
            return Self::Scattered(0, 0, 0);
        };
        if found.len() == all.len() {
            return if all.len() == 1 { Self::Only(first) } else { Self::All };
        }
        let holds = |span: &Self| all.iter().all(|index| span.contains(*index) == found.contains(index));
        let remainders = MODULI.iter().filter_map(|modulus| {
            let of: BTreeSet<u32> = found.iter().map(|index| index % modulus).collect();
            let (least, most) = (*of.first()?, *of.last()?);
            // All remainders describe nothing.
            (most - least + 1 < *modulus).then_some(Self::Remainder(*modulus, least, most))
        });
        let short = [Self::Range(first, last)].into_iter().chain(remainders).find(holds);
        short.unwrap_or_else(|| match found.len() {
            0..=LISTED => Self::List(found.iter().copied().collect()),
            count => Self::Scattered(count, first, last),
        })
    }

    fn contains(&self, index: u32) -> bool {
        match self {
            Self::All | Self::Only(_) | Self::Scattered(..) => true,
            Self::Range(first, last) => (first..=last).contains(&&index),
            Self::Remainder(modulus, least, most) => (least..=most).contains(&&(index % modulus)),
            Self::List(indices) => indices.contains(&index),
        }
    }

    /// Whether it tells its indices from others.
    const fn is_short(&self) -> bool {
        matches!(self, Self::Range(..) | Self::Remainder(..) | Self::List(_))
    }

    fn words(&self, axis: &str) -> String {
        match self {
            Self::All => format!("every {axis}"),
            Self::Only(one) => format!("{axis} {one}"),
            Self::Range(one, last) if one == last => format!("{axis} {one}"),
            Self::Range(first, last) => format!("{axis}s {first} to {last}"),
            Self::Remainder(modulus, least, most) if least == most => {
                format!("every {axis} with {axis} mod {modulus} = {least}")
            }
            Self::Remainder(modulus, least, most) => {
                format!("every {axis} with {axis} mod {modulus} in {least} to {most}")
            }
            Self::List(indices) => {
                let list: Vec<String> = indices.iter().map(u32::to_string).collect();
                format!("{axis}s {}", list.join(", "))
            }
            Self::Scattered(count, first, last) => format!("{count} {axis}s from {first} to {last}"),
        }
    }
}

/// The smallest box of indices that holds a set of places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    spans: Vec<Span>,
}

impl Region {
    /// Describes the indices along each axis: those found, and all that were looked at.
    #[must_use]
    pub fn from_indices(axes: impl IntoIterator<Item = [BTreeSet<u32>; 2]>) -> Self {
        Self { spans: axes.into_iter().map(|[found, all]| Span::new(&found, &all)).collect() }
    }

    /// Whether a place is in it. An axis along which no short description was found admits every index.
    #[must_use]
    pub fn contains(&self, place: &Place) -> bool {
        self.spans.iter().zip(place).all(|(span, index)| span.contains(*index))
    }

    /// Whether it leaves out some of what was looked at.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.spans.iter().any(Span::is_short)
    }

    /// Every axis in words.
    #[must_use]
    pub fn words(&self, axes: &[&str]) -> String {
        let words: Vec<String> = self.spans.iter().zip(axes).map(|(span, axis)| span.words(axis)).collect();
        words.join(", ")
    }

    /// The axes that tell it from the rest, in words.
    #[must_use]
    pub fn distinctive_words(&self, axes: &[&str]) -> String {
        let short = self.spans.iter().zip(axes).filter(|(span, _)| span.is_short());
        short.map(|(span, axis)| span.words(axis)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes places among all that were looked at.
    fn region(places: &[Place], all: &[Place]) -> Region {
        let along = |places: &[Place], axis: usize| -> BTreeSet<u32> {
            places.iter().map(|place| place[axis]).collect()
        };
        Region::from_indices((0..2).map(|axis| [along(places, axis), along(all, axis)]))
    }

    fn places(rows: impl IntoIterator<Item = u32>, columns: &[u32]) -> Vec<Place> {
        rows.into_iter().flat_map(|row| columns.iter().map(move |column| [row, *column, 0, 0])).collect()
    }

    #[test]
    fn sets_are_described_by_what_tells_them_apart() {
        let all = places(0..64, &[0, 1, 2, 3]);
        let words = |found: &[Place]| region(found, &all).words(&["row", "column"]);
        assert_eq!(words(&places(0..64, &[2])), "every row, column 2");
        assert_eq!(words(&places(16..32, &[0, 1, 2, 3])), "rows 16 to 31, every column");
        assert_eq!(
            words(&places((0..64).filter(|row| row % 16 >= 8), &[1, 2])),
            "every row with row mod 16 in 8 to 15, columns 1 to 2"
        );
        assert_eq!(words(&places([3, 5, 40], &[0, 2])), "rows 3, 5, 40, every column with column mod 2 = 0");
    }

    #[test]
    fn what_is_sampled_decides_between_descriptions() {
        // Of rows 0, 10, 20, … those from 30 on are found: nothing was looked at between 20 and 30.
        let all = places((0..8).map(|n| n * 10), &[0]);
        let found = places((3..8).map(|n| n * 10), &[0]);
        let region = region(&found, &all);
        assert!(region.is_part() && region.contains(&[35, 0, 0, 0]) && !region.contains(&[20, 0, 0, 0]));
        assert_eq!(region.distinctive_words(&["row", "column"]), "rows 30 to 70");
    }
}
