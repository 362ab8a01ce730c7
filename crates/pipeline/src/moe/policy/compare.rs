//! Compares policies: for token counts and routings, what each policy chooses and wastes.

use super::{ExpertCounts, HostKnown, POLICIES, Policy, Waste};

/// How tokens choose experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Round robin: all experts get equally many rows.
    Even,
    /// The e-th expert is chosen in proportion to 1/(e+1), as in skewed traffic; no token chooses an expert twice.
    Skewed,
    /// Every token chooses the same experts.
    Same,
}

impl Shape {
    /// Every routing.
    pub const ALL: [Self; 3] = [Self::Even, Self::Skewed, Self::Same];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Skewed => "skewed",
            Self::Same => "same",
        }
    }
}

/// Rows per expert with a routing; they add up to tokens · top-k, and no expert has more rows than there are tokens.
#[must_use]
pub fn counts_of(shape: Shape, host: HostKnown) -> ExpertCounts {
    let experts = host.experts.max(host.top_k) as usize;
    let (tokens, rows) = (u64::from(host.tokens), u64::from(host.rows()));
    let mut counts = vec![0u64; experts];
    match shape {
        Shape::Even => {
            for (expert, count) in counts.iter_mut().enumerate() {
                *count = rows / experts as u64 + u64::from((expert as u64) < rows % experts as u64);
            }
        }
        Shape::Same => counts.iter_mut().take(host.top_k as usize).for_each(|count| *count = tokens),
        Shape::Skewed => {
            // Every row goes to the expert that is furthest below its share: the one with the least (count + 1)·(e + 1).
            for _ in 0..rows {
                let next = counts.iter().enumerate().filter(|(_, count)| **count < tokens);
                let next =
                    next.min_by_key(|(expert, count)| (**count + 1) * (*expert as u64 + 1)).map(|(e, _)| e);
                if let Some(count) = next.and_then(|e| counts.get_mut(e)) {
                    *count += 1;
                }
            }
        }
    }
    ExpertCounts(counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect())
}

/// A policy's choice for one batch.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// The policy.
    pub policy: &'static Policy,
    /// What the host knows.
    pub host: HostKnown,
    /// How tokens choose.
    pub shape: Shape,
    /// Rows of the largest expert.
    pub most: u32,
    /// Rows of the chosen tile.
    pub m: u32,
    /// The cost of that choice.
    pub waste: Waste,
}

/// Every policy on every batch and routing, by routing.
#[must_use]
pub fn compare(tokens: &[u32], top_k: u32, experts: u32) -> Vec<Compared> {
    static TABLE: [Policy; POLICIES.len()] = POLICIES;
    let mut out = Vec::new();
    for shape in Shape::ALL {
        for tokens in tokens {
            let host = HostKnown { tokens: *tokens, top_k, experts };
            let counts = counts_of(shape, host);
            for policy in &TABLE {
                let m = policy.m(host, &counts);
                out.push(Compared { policy, host, shape, most: counts.most(), m, waste: counts.waste(m) });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_under_every_shape() {
        for tokens in [0, 1, 3, 64, 1000] {
            let host = HostKnown { tokens, top_k: 4, experts: 32 };
            for shape in Shape::ALL {
                let counts = counts_of(shape, host);
                assert_eq!(counts.0.iter().sum::<u32>(), host.rows(), "{shape:?} {tokens}");
                assert!(counts.most() <= tokens, "{shape:?} {tokens}");
            }
        }
        let skewed = counts_of(Shape::Skewed, HostKnown { tokens: 100, top_k: 4, experts: 32 });
        assert!(skewed.0.is_sorted_by(|a, b| a >= b) && skewed.0[0] == 100 && skewed.0[31] < 5, "{skewed:?}");
    }

    #[test]
    fn a_decoded_token_wastes_what_the_plan_says() {
        // SM120 MoE tile expansion plan (JIT), 2: one token per expert in a tile of 128 rows is 99.2 % padding.
        let counts = counts_of(Shape::Even, HostKnown { tokens: 1, top_k: 8, experts: 128 });
        let percent = 100.0 * counts.waste(128).share();
        assert!((percent - 99.2).abs() < 0.05, "{percent}");
        assert_eq!(counts.waste(8).tiles, 8);
    }

    #[test]
    fn every_policy_answers_every_batch() {
        let rows = compare(&[1, 64, 512], 4, 128);
        assert_eq!(rows.len(), 3 * 3 * POLICIES.len());
        // Those that read the counts differ if experts differ; the host's numbers give one answer per batch.
        let of = |name: &str, shape| {
            let found =
                rows.iter().find(|r| r.policy.name == name && r.shape == shape && r.host.tokens == 64);
            found.map(|r| r.m).unwrap()
        };
        assert_ne!(of("threshold", Shape::Even), of("threshold", Shape::Same));
        assert_eq!(of("two_tiles", Shape::Even), of("two_tiles", Shape::Same));
    }
}
