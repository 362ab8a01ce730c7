//! Hypotheses on logarithms beside an output that is right: another reading of them, or another number in their place.

use crate::attention::dump::{Dump, LseQuantity, LseReading};
use crate::attention::judge::lse_words;

/// What is wrong.
pub(super) const NAME: &str = "the logarithms";
/// Where to look.
pub(super) const LOOK: &str = "the base, the layout and the sink of the LSE that the caller expects";
pub(super) const LOOK_OF_OFFSET: &str =
    "the maximum that is added to the logarithm of the sum, and the factor of the weights";
/// Public examples.
pub(super) const SEEN: &str = "fi 4485, fi 5119, vl 47079, vllm-flash-attn 87";

/// The dump with another reading.
fn read_as(dump: &Dump, reading: LseReading) -> Dump {
    let mut other = dump.clone();
    other.lse.iter_mut().for_each(|lse| lse.readings = vec![reading]);
    other
}

/// Every other reading, and every other number that a kernel may store.
pub(super) fn readings(dump: &Dump, declared: LseReading) -> Vec<(String, Dump)> {
    let all = LseReading::all(!dump.sinks.is_empty());
    let others = all.into_iter().filter(|reading| *reading != declared).map(|reading| {
        (format!("are {}, not {}", lse_words(reading), lse_words(declared)), read_as(dump, reading))
    });
    let quantities = [
        (LseQuantity::Negated, "have the other sign"),
        (LseQuantity::Maximum, "are the largest score alone: the logarithm of the sum is not added"),
        (LseQuantity::BesideMaximum, "are those of sums relative to the largest score, which is not added"),
        (LseQuantity::Sum, "are sums relative to the largest score: their logarithm is not taken"),
    ];
    let quantities = quantities
        .into_iter()
        .map(|(quantity, what)| (what.to_owned(), read_as(dump, LseReading { quantity, ..declared })));
    others.chain(quantities).collect()
}

/// The dump whose logarithms are too large by a constant.
pub(super) fn shifted(dump: &Dump, declared: LseReading, by: f64) -> (String, Dump) {
    let what = format!("are each too large by {by:.5}, as if the sum had a factor");
    (what, read_as(dump, LseReading { quantity: LseQuantity::Shifted(by), ..declared }))
}
