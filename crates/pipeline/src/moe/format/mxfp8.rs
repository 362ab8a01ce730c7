//! MXFP8: e4m3 with a ue8m0 scale per 32 elements (OCP MX 1.0).

use super::{BlockScale, Description, Element};
use crate::moe::reference::quantize::{self, Target};

/// The format.
pub(super) const DESCRIPTION: Description = Description {
    element: Element::E4m3,
    scale: Some(BlockScale::Ue8m0),
    quantize: |rule, _, values| quantize::mx_block(Target::E4M3, rule, values),
    scales: |rule, _, _, amax| {
        let (first, last) = quantize::mx_scales(Target::E4M3, rule, amax);
        (first..=last).collect()
    },
    slack: 0.0,
};
