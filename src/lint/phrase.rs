//! Describes versions in words: sets of toolkits, and what a message of ptxas requires.

use ptx::arch::PtxIsa;

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

/// The remedy for messages such as `Feature 'x' requires PTX ISA .version 9.1 or later`: the highest version that they name.
pub(super) fn needed_version(message: &str, also: &[String]) -> Option<String> {
    let named = |text: &str| {
        let rest = text.split_once("requires PTX ISA .version ")?.1;
        rest.split_whitespace().next()?.parse::<PtxIsa>().ok()
    };
    let texts = also.iter().map(String::as_str).chain([message]);
    texts.filter_map(named).max().map(version_of_form)
}

/// The remedy for a form that a version of PTX introduced.
pub(super) fn version_of_form(version: PtxIsa) -> String {
    let ptxas = version.cuda().map_or_else(String::new, |cuda| format!(" (ptxas {cuda} or later)"));
    format!("This instruction needs `.version {version}`{ptxas}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_that_a_message_requires_is_named() {
        let one = "Feature '.ue8m0 with .scale_vec::4X' requires PTX ISA .version 9.1 or later";
        let other = "Feature 'mma' requires PTX ISA .version 8.7 or later".to_owned();
        let sentence = "This instruction needs `.version 9.1` (ptxas 13.1 or later).";
        assert_eq!(needed_version(one, std::slice::from_ref(&other)).as_deref(), Some(sentence));
        assert_eq!(needed_version(&other, &[one.to_owned()]).as_deref(), Some(sentence));
        assert_eq!(needed_version("PTX .version 8.7 does not support .target sm_121", &[]), None);
    }

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
