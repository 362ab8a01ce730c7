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
    /// Which elements are wrong, in words.
    pub extent: String,
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
            [] => lines.push(format!("unexplained: no hypothesis makes {all} right")),
            [one] => {
                lines.push(format!("explained, {all}: {}", one.what));
                lines.extend(one.same.iter().map(|what| format!("the same with this data: {what}")));
            }
            several => {
                lines.push(format!("{} explanations fit {all} equally:", several.len()));
                for one in several {
                    lines.push(format!("  {}", one.what));
                    lines.extend(one.same.iter().map(|what| format!("    the same with this data: {what}")));
                }
            }
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
        if let Some((name, percent)) = &self.next {
            lines.push(format!("next best, {percent} % of a sample: {name}"));
        }
        lines.push(format!("wrong: {}", self.extent));
        lines.join("\n") + "\n"
    }
}
