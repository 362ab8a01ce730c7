//! What a router computes from its logits: scores, keys of the choice, and weights of the chosen (docs/numerics.md, 3).

use super::activation::{Value, exp};
use super::finalize::softmax;
use super::interval::{Interval, UNIT};
use crate::moe::case::{Router, Scores};
use crate::moe::contract::ExpBound;

/// The error of 1/2 + 1/2·tanh(x/2) in f32 against the sigmoid: tanh errs by two units in the last place, the sum by half a one.
const TANH_FORM: f64 = 2.0 * UNIT;

/// What a kernel may add to the sum of weights to keep it from being zero.
const EPSILON: f64 = 1e-20;

/// The scores of all experts.
#[must_use]
pub fn scores(router: &Router, logits: &[f32], bound: &ExpBound) -> Vec<Value> {
    match router.scores {
        Scores::SoftmaxChosen => logits
            .iter()
            .map(|l| if l.is_nan() { Value::Nan } else { Value::Within(Interval::point(f64::from(*l))) })
            .collect(),
        Scores::SoftmaxAll => softmax(logits, bound).map_or_else(
            || vec![Value::Nan; logits.len()],
            |all| all.into_iter().map(Value::Within).collect(),
        ),
        Scores::Sigmoid => logits.iter().map(|l| sigmoid(*l, bound)).collect(),
    }
}

/// 1/(1 + e^-x), or the same by tanh.
fn sigmoid(x: f32, bound: &ExpBound) -> Value {
    if x.is_nan() {
        return Value::Nan;
    }
    if x.is_infinite() {
        return Value::Within(Interval::point(if x > 0.0 { 1.0 } else { 0.0 }));
    }
    let one = Interval::point(1.0);
    let of = one.over(one.plus(exp(Interval::point(-f64::from(x)), bound)).rounded()).rounded();
    Value::Within(Interval { lo: (of.lo - TANH_FORM).max(0.0), hi: (of.hi + TANH_FORM).min(1.0) })
}

/// The keys of the choice: scores, each with its bias, if any.
#[must_use]
pub fn keys(scores: &[Value], bias: &[f32]) -> Vec<Value> {
    if bias.is_empty() {
        return scores.to_vec();
    }
    let key = |(score, bias): (&Value, &f32)| match score {
        Value::Within(_) | Value::Nan if bias.is_nan() => Value::Nan,
        Value::Within(score) => Value::Within(score.plus(Interval::point(f64::from(*bias))).rounded()),
        other => *other,
    };
    scores.iter().zip(bias).map(key).collect()
}

/// The weights of the experts `ids`.
#[must_use]
pub fn weights(router: &Router, logits: &[f32], ids: &[usize], bound: &ExpBound) -> Vec<Value> {
    let chosen: Vec<f32> = ids.iter().filter_map(|id| logits.get(*id).copied()).collect();
    let mut out = match router.scores {
        Scores::SoftmaxChosen => softmax(&chosen, bound).map_or_else(
            || vec![Value::Nan; chosen.len()],
            |weights| weights.into_iter().map(Value::Within).collect(),
        ),
        Scores::SoftmaxAll => {
            let all = scores(router, logits, bound);
            ids.iter().filter_map(|id| all.get(*id).copied()).collect()
        }
        Scores::Sigmoid => scores(router, &chosen, bound),
    };
    if router.renormalise && router.scores != Scores::SoftmaxChosen {
        out = renormalised(&out);
    }
    if router.scaling == 1.0 {
        return out;
    }
    let scaling = Interval::point(f64::from(router.scaling));
    out.into_iter()
        .map(|weight| match weight {
            Value::Within(weight) => Value::Within(weight.times(scaling).rounded()),
            other => other,
        })
        .collect()
}

/// Divides each by the sum of all.
fn renormalised(weights: &[Value]) -> Vec<Value> {
    let all = |value| vec![value; weights.len()];
    let mut sum = Interval::point(0.0);
    for weight in weights {
        match weight {
            Value::Within(weight) => sum = sum.plus(*weight),
            other => return all(*other),
        }
    }
    let sum = sum.widened(UNIT * 1.01 * weights.len().saturating_sub(1) as f64);
    if sum.lo <= 0.0 {
        // All of them may have been rounded to zero: 0/0, or 0 over the epsilon.
        return all(Value::Open);
    }
    let sum = Interval { lo: sum.lo, hi: sum.hi + EPSILON }.rounded();
    weights
        .iter()
        .map(|weight| match weight {
            // A quotient, or a product with the rounded reciprocal.
            Value::Within(weight) => Value::Within(weight.over(sum).rounded().rounded()),
            other => *other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moe::case::Groups;

    fn within(value: Value) -> Interval {
        match value {
            Value::Within(interval) => interval,
            other => panic!("{other:?}"),
        }
    }

    fn f32_sigmoid(x: f32) -> f32 {
        1.0 / (1.0 + (-x).exp())
    }

    #[test]
    fn both_forms_of_the_sigmoid_are_within_and_a_thousandth_off_is_not() {
        for step in -400..=400 {
            let x = step as f32 / 16.0;
            let of = within(sigmoid(x, &ExpBound::EX2_APPROX));
            for found in [f32_sigmoid(x), 0.5 * (0.5 * x).tanh() + 0.5] {
                assert!(of.lo <= f64::from(found) && f64::from(found) <= of.hi, "{x}: {found} in {of:?}");
            }
            assert!(of.hi - of.lo < 1e-6, "{x}: {of:?}");
        }
    }

    #[test]
    fn weights_follow_every_switch() {
        let logits = [2.0, -1.0, 0.5, 1.0];
        let ids = [0, 3];
        let of = |router: Router| -> Vec<f64> {
            weights(&router, &logits, &ids, &ExpBound::FMA)
                .into_iter()
                .map(within)
                .map(|i| f64::midpoint(i.lo, i.hi))
                .collect()
        };
        let near = |found: &[f64], wanted: [f64; 2]| {
            assert!(found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < 1e-6), "{found:?} {wanted:?}");
        };
        let exps: Vec<f64> = logits.iter().map(|l| f64::from(*l).exp()).collect();
        let all: f64 = exps.iter().sum();
        let plain = Router::GPT_OSS;
        near(&of(plain), [exps[0] / (exps[0] + exps[3]), exps[3] / (exps[0] + exps[3])]);
        let raw = Router { scores: Scores::SoftmaxAll, renormalise: false, ..plain };
        near(&of(raw), [exps[0] / all, exps[3] / all]);
        near(
            &of(Router { renormalise: true, ..raw }),
            [exps[0] / (exps[0] + exps[3]), exps[3] / (exps[0] + exps[3])],
        );
        let (a, b) = (f64::from(f32_sigmoid(2.0)), f64::from(f32_sigmoid(1.0)));
        let sigmoid = Router { scores: Scores::Sigmoid, renormalise: false, ..plain };
        near(&of(sigmoid), [a, b]);
        near(
            &of(Router { renormalise: true, scaling: 2.5, ..sigmoid }),
            [2.5 * a / (a + b), 2.5 * b / (a + b)],
        );
    }

    #[test]
    fn what_is_not_a_number_says_so() {
        let sigmoid = Router { scores: Scores::Sigmoid, ..Router::GPT_OSS };
        let bound = ExpBound::FMA;
        assert_eq!(weights(&sigmoid, &[f32::NAN, 1.0], &[0, 1], &bound), [Value::Nan; 2]);
        let each = Router { renormalise: false, ..sigmoid };
        assert_eq!(
            weights(&each, &[f32::NAN, f32::INFINITY], &[0, 1], &bound)[1],
            Value::Within(Interval::point(1.0))
        );
        // The sum may be zero.
        assert_eq!(weights(&sigmoid, &[-200.0, -200.0], &[0, 1], &bound), [Value::Open; 2]);
        let all = Router { scores: Scores::SoftmaxAll, ..sigmoid };
        assert_eq!(scores(&all, &[1.0, f32::INFINITY], &bound), [Value::Nan; 2]);
    }

    #[test]
    fn impossible_routers_are_refused() {
        let groups = |count, kept| Router {
            scores: Scores::Sigmoid,
            groups: Some(Groups { count, kept, score: crate::moe::case::GroupScore::TopTwo }),
            ..Router::GPT_OSS
        };
        assert_eq!(groups(8, 4).check(256, 8), Ok(()));
        for (router, experts, top_k) in [
            (groups(7, 4), 256, 8),
            (groups(8, 9), 256, 8),
            (groups(8, 1), 32, 8),
            (groups(8, 8), 8, 2),
            (Router { correction_bias: true, ..Router::GPT_OSS }, 8, 2),
            (Router { renormalise: false, ..Router::GPT_OSS }, 8, 2),
            (Router { scaling: 0.0, ..Router::GPT_OSS }, 8, 2),
        ] {
            assert!(router.check(experts, top_k).is_err(), "{router:?}");
        }
    }
}
