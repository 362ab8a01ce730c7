//! What explains wrong results: the answer of a search among hypotheses, in every family.

/// What explains the wrong elements of a result.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Diagnosis {
    /// The number of wrong elements.
    pub wrong: u64,
    /// The wrong elements on which explanations were verified.
    pub verified: u64,
    /// Everything that explains all of them, each in a sentence.
    pub explanations: Vec<Explanation>,
    /// The best of the others, and the share of the wrong elements that it explains, in percent.
    pub next: Option<(String, u64)>,
    /// What would fit, but of which the bounds decide too little.
    pub undecided: Vec<String>,
    /// Roundings that are not declared and within which every element is: if the kernel rounds so, nothing is wrong.
    pub roundings: Vec<String>,
    /// Whether every wrong value that is known is 0.
    pub is_zero: bool,
    /// Why no explanation was sought, if none was.
    pub unsearched: Option<String>,
    /// The arithmetic of the first wrong element as a Python program, where it is short.
    pub arithmetic: Option<String>,
    /// Which elements are wrong, in words.
    pub extent: String,
    /// What runs of the same kernels on other data say of the explanations, each in a sentence.
    pub settled: Vec<String>,
    /// Which input would tell the explanations apart if it held other values.
    pub question: Option<String>,
    /// The tensors that are not there and that would show more.
    pub wanted: Vec<String>,
}

/// The most alternatives that are listed.
const LISTED: usize = 3;

/// The first of these, and how many more there are.
fn listed(all: &[String]) -> String {
    let more = all.len().saturating_sub(LISTED);
    let first = all.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
    if more == 0 { first } else { format!("{first}; and {more} more") }
}

/// An explanation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Explanation {
    /// What the kernel did, and in which region, if that is a part of the result.
    pub what: String,
    /// What the kernel did.
    pub cause: String,
    /// Where to look.
    pub look: String,
    /// Public examples.
    pub seen: String,
    /// What would have given the same numbers.
    pub same: Vec<String>,
}

impl Explanation {
    /// Returns it with another cause.
    fn with_cause(&self, other: &Self) -> Self {
        // The region, if there is one, comes first.
        let region = self.what.strip_suffix(self.cause.as_str()).unwrap_or_default();
        Self { what: format!("{region}{}", other.cause), same: Vec::new(), ..other.clone() }
    }
}

impl Diagnosis {
    /// Returns every cause that fits.
    fn causes(&self) -> impl Iterator<Item = &str> {
        let each = self.explanations.iter();
        each.flat_map(|one| std::iter::once(&one.cause).chain(&one.same)).map(String::as_str)
    }

    /// Whether one cause alone explains what is wrong.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.causes().count() == 1
    }

    /// Keeps the causes that also explain what the same kernels do wrong on `data`. If none does, all of them stay, and a sentence says so:
    /// then they fit by chance, or the kernels have a second fault.
    pub fn narrow_by(&mut self, other: &Self, data: &str) {
        if other.unsearched.is_some() {
            return;
        }
        if other.explanations.is_empty() {
            if other.undecided.is_empty() && !self.explanations.is_empty() {
                self.settled
                    .push(format!("the same kernels on {data}: wrong, and no hypothesis explains it"));
            }
            return;
        }
        if self.explanations.is_empty() {
            let what = other.causes().collect::<Vec<_>>().join("; or ");
            self.settled.push(format!("the same kernels on {data}: {what}"));
            return;
        }
        // The causes of the other diagnosis, each with its place and examples.
        let of_other = |cause: &str| {
            let found = other
                .explanations
                .iter()
                .find(|one| one.cause == cause || one.same.iter().any(|same| same == cause))?;
            Some(Explanation { cause: cause.to_owned(), ..found.clone() })
        };
        let (mut kept, mut refuted) = (Vec::new(), Vec::new());
        for one in &self.explanations {
            let mut left: Vec<Explanation> = Vec::new();
            for cause in std::iter::once(&one.cause).chain(&one.same) {
                match of_other(cause) {
                    Some(found) => left.push(found),
                    None => refuted.push(cause.clone()),
                }
            }
            let mut left = left.into_iter();
            if let Some(first) = left.next() {
                let same = left.map(|found| found.cause).collect();
                kept.push(Explanation { same, ..one.with_cause(&first) });
            }
        }
        if kept.is_empty() {
            let what = other.causes().collect::<Vec<_>>().join("; or ");
            self.settled.push(format!("the same kernels on {data}: none of these, but {what}"));
        } else if !refuted.is_empty() {
            self.explanations = kept;
            self.settled.push(format!("refuted by the same kernels on {data}: {}", listed(&refuted)));
        }
    }

    /// Returns the diagnosis as lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let all = match self.wrong {
            1 => "the one wrong value".to_owned(),
            wrong => format!("all {wrong} wrong values"),
        };
        let mut lines = Vec::new();
        match self.explanations.as_slice() {
            [] if self.is_zero => lines.push(format!(
                "not computed, {all}: each is 0, as memory is that no kernel has stored to; look whether the kernel runs and where it stores"
            )),
            [] if self.unsearched.is_some() => {}
            [] => lines.push(format!("unexplained: no hypothesis is shown to make {all} right")),
            [one] => {
                lines.push(format!("explained, {all}: {}", one.what));
                if !one.same.is_empty() {
                    lines.push(format!("the same with this data: {}", listed(&one.same)));
                }
            }
            several => {
                lines.push(format!("{} explanations fit {all} equally:", several.len()));
                for one in several {
                    lines.push(format!("  {}", one.what));
                    if !one.same.is_empty() {
                        lines.push(format!("    the same with this data: {}", listed(&one.same)));
                    }
                }
            }
        }
        if let Some(why) = &self.unsearched {
            lines.push(format!("unexplained: no explanation was sought, as {why}"));
        }
        if let [one] = self.explanations.as_slice() {
            lines.push(format!("look at {}", one.look));
            if !one.seen.is_empty() {
                lines.push(format!("seen in {}", one.seen));
            }
        }
        if self.verified < self.wrong && !self.explanations.is_empty() {
            lines.push(format!("verified on {} of them", self.verified));
        }
        if self.explanations.is_empty() && !self.undecided.is_empty() && !self.is_zero {
            let what = listed(&self.undecided);
            lines.push(format!(
                "these would fit, but the bounds decide too little, so declare what the kernel rounds: {what}"
            ));
        }
        if self.explanations.is_empty() && !self.roundings.is_empty() {
            let what = listed(&self.roundings);
            lines.push(format!("every element is within roundings that are not declared; if the kernel rounds so, declare it, and nothing is wrong: {what}"));
        }
        if let Some((name, percent)) = self.next.as_ref().filter(|_| self.explanations.is_empty()) {
            lines.push(format!("next best, {percent} % of a sample: {name}"));
        }
        lines.extend(self.settled.iter().cloned());
        lines.extend(self.question.iter().filter(|_| !self.is_unique()).cloned());
        if !self.is_unique() && !self.wanted.is_empty() {
            let names: Vec<String> = self.wanted.iter().map(|name| format!("`{name}`")).collect();
            lines.push(format!("tensors that would show more if they were there: {}", names.join(", ")));
        }
        lines.push(format!("wrong: {}", self.extent));
        if let Some(program) = &self.arithmetic {
            lines.push("the first wrong element in Python:".to_owned());
            lines.extend(program.lines().map(|line| format!("    {line}")));
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation(cause: &str, same: &[&str]) -> Explanation {
        Explanation {
            what: format!("in rows 1 to 2 alone: {cause}"),
            cause: cause.to_owned(),
            look: format!("where {cause} is"),
            seen: String::new(),
            same: same.iter().map(|cause| (*cause).to_owned()).collect(),
        }
    }

    fn diagnosis(explanations: Vec<Explanation>) -> Diagnosis {
        Diagnosis { wrong: 3, verified: 3, explanations, ..Diagnosis::default() }
    }

    #[test]
    fn causes_that_other_data_refute_are_dropped() {
        let mut first = diagnosis(vec![explanation("a", &["b", "c"]), explanation("d", &[])]);
        assert!(!first.is_unique());
        first.narrow_by(&diagnosis(vec![explanation("b", &[])]), "case x");
        assert!(first.is_unique());
        let text = first.text();
        assert!(text.starts_with("explained, all 3 wrong values: in rows 1 to 2 alone: b\n"), "{text}");
        assert!(text.contains("look at where b is\n"), "{text}");
        assert!(text.contains("refuted by the same kernels on case x: a; c; d\n"), "{text}");
    }

    #[test]
    fn causes_that_no_other_data_confirm_are_kept_and_doubted() {
        let mut first = diagnosis(vec![explanation("a", &["b"])]);
        first.narrow_by(&diagnosis(vec![explanation("z", &[])]), "case x");
        first.narrow_by(&diagnosis(Vec::new()), "case y");
        assert_eq!(first.causes().collect::<Vec<_>>(), ["a", "b"]);
        let text = first.text();
        assert!(text.contains("the same kernels on case x: none of these, but z\n"), "{text}");
        assert!(
            text.contains("the same kernels on case y: wrong, and no hypothesis explains it\n"),
            "{text}"
        );
    }

    #[test]
    fn tensors_are_wanted_where_no_single_cause_is_left() {
        let wanted = vec!["fc1_out".to_owned(), "a2_codes".to_owned()];
        let says = |explanations| Diagnosis { wanted: wanted.clone(), ..diagnosis(explanations) }.text();
        let line = "tensors that would show more if they were there: `fc1_out`, `a2_codes`\n";
        assert!(says(Vec::new()).contains(line) && says(vec![explanation("a", &["b"])]).contains(line));
        assert!(!says(vec![explanation("a", &[])]).contains("tensors"));
    }

    #[test]
    fn zeros_that_nothing_explains_were_not_stored() {
        let undecided = vec!["the global scale is inverted".to_owned()];
        let zeros = Diagnosis { is_zero: true, undecided, ..diagnosis(Vec::new()) };
        let text = zeros.text();
        assert!(text.starts_with("not computed, all 3 wrong values: each is 0"), "{text}");
        assert!(!text.contains("inverted"), "{text}");
        let explained = Diagnosis { explanations: vec![explanation("a", &[])], ..zeros };
        assert!(explained.text().starts_with("explained, all 3 wrong values"), "{}", explained.text());
    }

    #[test]
    fn other_data_explain_what_one_case_does_not() {
        let mut first = diagnosis(Vec::new());
        first.narrow_by(&diagnosis(vec![explanation("a", &[])]), "case x");
        assert!(first.text().contains("the same kernels on case x: a\n"));
    }
}
