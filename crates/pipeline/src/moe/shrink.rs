//! Smaller cases, among which the smallest that fails is searched.

use crate::moe::case::{Case, Regime, Router, Routing};

/// The cases one step smaller, the largest steps first.
pub(super) fn steps(case: &Case) -> Vec<Case> {
    let mut case = case.clone();
    // Without the model's name the sizes must speak for themselves; they do.
    case.model = None;
    case.known_failures.clear();
    let case = &case;
    let mut out = Vec::new();
    let mut push = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        if smaller != *case && possible(&smaller) {
            out.push(smaller);
        }
    };
    if case.routing != Routing::Rows {
        push(&|c| c.tokens = 1);
        push(&|c| c.tokens /= 2);
        push(&|c| c.tokens -= 1);
        push(&|c| c.experts = c.top_k);
        push(&|c| c.experts = (c.experts / 2).max(c.top_k));
        push(&|c| c.experts = (c.experts - 1).max(c.top_k));
        push(&|c| c.top_k = 1);
        push(&|c| c.top_k -= 1);
    }
    push(&|c| c.shared_experts = 0);
    push(&|c| c.router = Router::default());
    push(&|c| c.router.groups = None);
    push(&|c| c.hidden = 32);
    push(&|c| c.hidden = c.hidden / 64 * 32);
    push(&|c| c.hidden -= 32);
    push(&|c| c.inter = 32);
    push(&|c| c.inter = c.inter / 64 * 32);
    push(&|c| c.inter -= 32);
    push(&|c| c.bias = false);
    push(&|c| c.seed = 0);
    out
}

/// Cases with other data, and with enough of it to tell layouts and tiles apart, each with its data in words. Where the case sets the
/// rows of every expert, its sizes stay.
pub(super) fn more_telling(case: &Case) -> Vec<(String, Case)> {
    let plain = Case { model: None, known_failures: Vec::new(), bias: true, ..case.clone() };
    let mut out = Vec::new();
    for (regime, ahead) in [(Regime::Real, 1), (Regime::Exact, 2)] {
        let seed = case.seed.wrapping_add(ahead);
        let words = format!("the data of regime {} and seed {seed}", regime.word());
        out.push((words, Case { regime, seed, ..plain.clone() }));
    }
    if case.routing != Routing::Rows {
        let larger = Case {
            regime: Regime::Real,
            routing: Routing::Random,
            seed: case.seed.wrapping_add(3),
            tokens: case.tokens.max(24),
            experts: case.experts.max(4),
            hidden: case.hidden.max(256),
            inter: case.inter.max(256),
            ..plain
        };
        let words = format!(
            "a case of {} tokens, hidden {}, inter {}, {} experts and seed {}",
            larger.tokens, larger.hidden, larger.inter, larger.experts, larger.seed
        );
        out.push((words, larger));
    }
    out.retain(|(_, other)| other != case && possible(other));
    out
}

fn possible(case: &Case) -> bool {
    [case.tokens, case.hidden, case.inter, case.experts, case.top_k].iter().all(|n| *n > 0)
        && case.top_k <= case.experts
        && case.router.check(case.experts, case.top_k).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_smaller_fails_in_the_same_way() {
        let case = crate::moe::case::library().cases.into_iter().find(|c| c.name == "wide-real").unwrap();
        // A fault that needs three tokens and a K of 96.
        let fails = |c: &Case| c.tokens >= 3 && c.hidden >= 96;
        let mut small = case;
        while let Some(smaller) = steps(&small).into_iter().find(fails) {
            small = smaller;
        }
        assert_eq!((small.tokens, small.hidden, small.inter, small.experts, small.top_k), (3, 96, 32, 1, 1));
        assert!(!small.bias && small.seed == 0);
    }
}
