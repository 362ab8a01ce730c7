//! What explains wrong results: the answer of a search among hypotheses, in every family.

/// What explains the wrong elements of a result.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
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
    /// Why no explanation was sought, if none was.
    pub unsearched: Option<String>,
    /// The arithmetic of the first wrong element as a Python program, where it is short.
    pub arithmetic: Option<String>,
    /// Which elements are wrong, in words.
    pub extent: String,
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
    /// What the kernel did.
    pub what: String,
    /// Where to look.
    pub look: String,
    /// Public examples.
    pub seen: String,
    /// What would have given the same numbers.
    pub same: Vec<String>,
}

impl Diagnosis {
    /// Returns the diagnosis as lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let all = format!("all {} wrong values", self.wrong);
        let mut lines = Vec::new();
        match self.explanations.as_slice() {
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
            lines.push(format!("unexplained: no explanation of {all} was sought, as {why}"));
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
        if self.explanations.is_empty() && !self.undecided.is_empty() {
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
        lines.push(format!("wrong: {}", self.extent));
        if let Some(program) = &self.arithmetic {
            lines.push("the first wrong element in Python:".to_owned());
            lines.extend(program.lines().map(|line| format!("    {line}")));
        }
        lines.join("\n") + "\n"
    }
}
