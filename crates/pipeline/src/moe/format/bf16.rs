//! bf16 activations for quantized weights: no scales.

use super::{Description, Element};
use crate::moe::reference::formats::to_bf16;

/// The format.
pub(super) const DESCRIPTION: Description = Description {
    element: Element::Bf16,
    scale: None,
    quantize: |_, _, values| (0, values.iter().map(|x| to_bf16(*x)).collect()),
    scales: |_, _, _, _| vec![0],
    slack: 0.0,
};
