//! MXFP4: e2m1 with a ue8m0 scale per 32 elements (OCP MX 1.0).

use super::{BlockScale, Description, Element};
use crate::moe::reference::quantize::{self, Target};

/// The format.
pub(super) const DESCRIPTION: Description = Description {
    element: Element::E2m1,
    scale: Some(BlockScale::Ue8m0),
    quantize: |rule, _, values| quantize::mx_block(Target::E2M1, rule, values),
    scales: |rule, _, _, amax| {
        let (first, last) = quantize::mx_scales(Target::E2M1, rule, amax);
        (first..=last).collect()
    },
    slack: 0.0,
};
