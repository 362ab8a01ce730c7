//! Maps element types to safetensors types and back.

use emulator::argument::Element;
use safetensors::tensor::Dtype;

const DTYPES: [(Element, Dtype); 17] = [
    (Element::Bool, Dtype::BOOL),
    (Element::U8, Dtype::U8),
    (Element::S8, Dtype::I8),
    (Element::U16, Dtype::U16),
    (Element::S16, Dtype::I16),
    (Element::U32, Dtype::U32),
    (Element::S32, Dtype::I32),
    (Element::U64, Dtype::U64),
    (Element::S64, Dtype::I64),
    (Element::F16, Dtype::F16),
    (Element::Bf16, Dtype::BF16),
    (Element::F32, Dtype::F32),
    (Element::F64, Dtype::F64),
    (Element::E4m3, Dtype::F8_E4M3),
    (Element::E5m2, Dtype::F8_E5M2),
    (Element::Ue8m0, Dtype::F8_E8M0),
    // Two per byte, the first in the low bits.
    (Element::E2m1, Dtype::F4),
];

/// Returns the safetensors type of an element type; `U8` for types that safetensors does not have.
pub(super) fn dtype(element: Element) -> Dtype {
    DTYPES.iter().find(|(e, _)| *e == element).map_or(Dtype::U8, |(_, dtype)| *dtype)
}

/// Returns the element type of a safetensors type, if there is one.
pub(super) fn element(dtype: Dtype) -> Option<Element> {
    DTYPES.iter().find(|(_, d)| *d == dtype).map(|(element, _)| *element)
}
