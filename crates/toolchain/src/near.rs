//! Finds names similar to an unknown one, for suggestions in error messages.

/// Maximum number of suggestions.
const OFFERED: usize = 8;

/// Returns the names most similar to `wanted`: first those that contain it or that it contains, then
/// those a few edits away.
#[must_use]
pub fn matches<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let allowed = (wanted.chars().count() / 3).max(2);
    let mut ranked: Vec<(usize, usize, &str)> = names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let distance = distance(&wanted, &lower);
            let contains = !wanted.is_empty() && (lower.contains(&wanted) || wanted.contains(&lower));
            let class = if contains && lower.starts_with(&wanted) {
                0
            } else if distance <= 2 {
                1
            } else if contains {
                2
            } else {
                3
            };
            (class < 3 || distance <= allowed).then_some((class, distance, name))
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(OFFERED).map(|(_, _, name)| name.to_owned()).collect()
}

/// Returns the name with the fewest edits from `wanted`; the first if several tie.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.min_by_key(|name| distance(wanted, name))
}

/// The edit distance of two texts (Levenshtein).
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_fragments_find_their_name() {
        let names =
            ["mma.mxf4.2X", "mma.mxf8f6f4.1X.e4m3.e2m1", "mma.mxf8f6f4.1X.e5m2.e2m1", "tcgen05.alloc"];
        let near = |wanted: &str| matches(wanted, names.iter().copied());
        assert_eq!(near("tcgen5.aloc"), ["tcgen05.alloc"]);
        assert_eq!(near("mma.mxf8f6f4"), names[1..3]);
        assert_eq!(near("E2M1"), names[1..3]);
        assert!(near("wgmma.fence.sync").is_empty());
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!([distance("", "abc"), distance("kitten", "sitting"), distance("a", "a")], [3, 3, 0]);
    }
}
