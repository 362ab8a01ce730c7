//! Describes sets of toolkit versions in words.

/// Describes the versions in `chosen`, a subset of `all` (both ascending), as in `12.9.41 to 13.0.88, 13.5.37`; as `13.1.80 on` if a
/// run ends with the newest; as `all 16 toolkits` if all are chosen.
pub(crate) fn ranges(chosen: &[String], all: &[String]) -> String {
    if chosen.is_empty() {
        return "no toolkit".to_owned();
    }
    if chosen.len() == all.len() && all.len() > 1 {
        return if all.len() == 2 {
            "both toolkits".to_owned()
        } else {
            format!("all {} toolkits", all.len())
        };
    }
    let has: Vec<bool> = all.iter().map(|v| chosen.contains(v)).collect();
    let mut out: Vec<String> = Vec::new();
    let mut n = 0;
    while n < all.len() {
        if !has[n] {
            n += 1;
            continue;
        }
        let end = (n..all.len()).take_while(|m| has[*m]).last().unwrap_or(n);
        out.push(match (end == n, end + 1 == all.len()) {
            (true, _) => all[n].clone(),
            (false, true) => format!("{} on", all[n]),
            (false, false) => format!("{} to {}", all[n], all[end]),
        });
        n = end + 1;
    }
    out.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_versions_are_told_by_their_ends() {
        let all: Vec<String> = ["1", "2", "3", "4", "5"].map(str::to_owned).to_vec();
        let of = |list: &[&str]| ranges(&list.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>(), &all);
        assert_eq!(of(&["1", "2", "4"]), "1 to 2, 4");
        assert_eq!(of(&["3", "4", "5"]), "3 on");
        assert_eq!(of(&["5"]), "5");
        assert_eq!(of(&["1", "2", "3", "4", "5"]), "all 5 toolkits");
        assert_eq!(of(&[]), "no toolkit");
    }
}
