//! The axes of a tensor in terms of a problem's dimensions.

use super::{Form, Tensors};
use crate::moe::case::{Format, FormatPair};
use crate::moe::dims::{BLOCK, Dims};
use crate::moe::error::MoeError;

/// An axis of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axis {
    /// T.
    Tokens,
    /// Experts that the router chooses from.
    Experts,
    /// E', the experts whose weights are present.
    Present,
    /// k.
    TopK,
    /// R = T·k.
    Rows,
    /// H.
    Hidden,
    /// Bytes of H activations.
    HiddenCodes,
    /// Their scales.
    HiddenScales,
    /// Bytes of H weights.
    HiddenBytes,
    /// Their scales.
    HiddenBlocks,
    /// 2·I.
    Fc1Cols,
    /// I.
    Inter,
    /// Bytes of I activations.
    InterCodes,
    /// Their scales.
    InterScales,
    /// Bytes of I weights.
    InterBytes,
    /// Their scales.
    InterBlocks,
}

impl Axis {
    /// Its name in docs/dump.md.
    const fn words(self) -> &'static str {
        match self {
            Self::Tokens => "T",
            Self::Experts => "E",
            Self::Present => "E'",
            Self::TopK => "k",
            Self::Rows => "R",
            Self::Hidden => "H",
            Self::HiddenCodes => "bytes of H activations",
            Self::HiddenScales => "scales of H activations",
            Self::HiddenBytes => "bytes of H weights",
            Self::HiddenBlocks => "scales of H weights",
            Self::Fc1Cols => "2I",
            Self::Inter => "I",
            Self::InterCodes => "bytes of I activations",
            Self::InterScales => "scales of I activations",
            Self::InterBytes => "bytes of I weights",
            Self::InterBlocks => "scales of I weights",
        }
    }
}

/// Dimensions found so far, each with the tensor that determined it.
#[derive(Default)]
struct Found {
    entries: Vec<(Axis, usize, &'static str)>,
}

impl Found {
    fn get(&self, axis: Axis) -> Option<(usize, &'static str)> {
        self.entries.iter().find(|(a, ..)| *a == axis).map(|(_, size, by)| (*size, *by))
    }
}

/// An axis as a multiple of a basic one: `(basic, numerator, denominator)`; the numerator is 0 if the format has no scales.
const fn basis(axis: Axis, pair: FormatPair) -> (Axis, usize, usize) {
    match axis {
        Axis::HiddenCodes => bytes(Axis::Hidden, pair.activation()),
        Axis::HiddenScales => scales(Axis::Hidden, pair.activation()),
        Axis::HiddenBytes => bytes(Axis::Hidden, pair.weight()),
        Axis::HiddenBlocks => scales(Axis::Hidden, pair.weight()),
        Axis::Fc1Cols => (Axis::Inter, 2, 1),
        Axis::InterCodes => bytes(Axis::Inter, pair.activation()),
        Axis::InterScales => scales(Axis::Inter, pair.activation()),
        Axis::InterBytes => bytes(Axis::Inter, pair.weight()),
        Axis::InterBlocks => scales(Axis::Inter, pair.weight()),
        other => (other, 1, 1),
    }
}

const fn bytes(of: Axis, format: Format) -> (Axis, usize, usize) {
    match format.element().bits() {
        4 => (of, 1, 2),
        bits => (of, bits / 8, 1),
    }
}

const fn scales(of: Axis, format: Format) -> (Axis, usize, usize) {
    match format.scale() {
        Some(scale) => (of, 1, scale.block()),
        None => (of, 0, 1),
    }
}

fn mismatch(form: &Form, found: &[usize], axis: usize, wanted: &str, why: String) -> MoeError {
    let shown: Vec<String> = form
        .axes
        .iter()
        .enumerate()
        .map(|(n, _)| {
            if n == axis { wanted.to_owned() } else { found.get(n).map_or("?".to_owned(), usize::to_string) }
        })
        .collect();
    MoeError::Shape {
        name: form.name.to_owned(),
        found: found.to_vec(),
        wanted: format!("[{}]", shown.join(", ")),
        why,
    }
}

/// Dimensions from shapes.
pub(super) fn deduce(tensors: &Tensors, pair: FormatPair) -> Result<Dims, MoeError> {
    let mut found = Found::default();
    for (form, shape) in tensors.shapes() {
        rank(form, shape)?;
        for (at, (axis, size)) in form.axes.iter().zip(shape).enumerate() {
            let (basic, up, down) = basis(*axis, pair);
            if up == 0 {
                let why = format!("{} has no such scales", pair.activation().word());
                return Err(mismatch(form, shape, at, "nothing", why));
            }
            if size % up != 0 {
                return Err(mismatch(
                    form,
                    shape,
                    at,
                    "an even number",
                    "gates and ups are as many, and a bf16 has two bytes".to_owned(),
                ));
            }
            let size = size.checked_mul(down).unwrap_or(usize::MAX) / up;
            match found.get(basic) {
                None => found.entries.push((basic, size, form.name)),
                Some((known, by)) if known != size => {
                    let wanted = (known * up / down).to_string();
                    return Err(mismatch(form, shape, at, &wanted, format!("as `{by}` says")));
                }
                Some(_) => {}
            }
        }
    }
    let get = |axis| found.get(axis).map_or(0, |(size, _)| size);
    let (tokens, rows) = (get(Axis::Tokens), get(Axis::Rows));
    let mut top_k = get(Axis::TopK);
    if top_k == 0 && tokens > 0 {
        top_k = rows / tokens;
    }
    // Without logits, the weights of all experts determine their number, and ids a lower bound.
    let mut experts = get(Axis::Experts);
    if experts == 0 {
        let ids = [&tensors.expert_ids, &tensors.topk_ids, &tensors.row_expert];
        let largest = ids.into_iter().flatten().flat_map(|a| &a.data).copied().max().unwrap_or(-1);
        let present = if tensors.expert_ids.is_none() { get(Axis::Present) } else { 0 };
        experts = usize::try_from(largest.saturating_add(1)).unwrap_or(0).max(present);
    }
    let dims = Dims { tokens, hidden: get(Axis::Hidden), inter: get(Axis::Inter), experts, top_k, shared: 0 };
    for (name, size) in [("hidden", dims.hidden), ("inter", dims.inter)] {
        if size % BLOCK != 0 {
            return Err(MoeError::Invalid(format!(
                "{name} is {size}, which is not a multiple of {BLOCK}, the elements of an MX scale"
            )));
        }
    }
    if tokens > 0 {
        check(tensors, &dims, pair)?;
    }
    Ok(dims)
}

fn rank(form: &Form, shape: &[usize]) -> Result<(), MoeError> {
    if form.axes.len() == shape.len() {
        return Ok(());
    }
    let axes: Vec<&str> = form.axes.iter().map(|axis| axis.words()).collect();
    let wanted = format!("{} dimensions [{}]", form.axes.len(), axes.join(", "));
    let why = "docs/dump.md".to_owned();
    Err(MoeError::Shape { name: form.name.to_owned(), found: shape.to_vec(), wanted, why })
}

/// Checks shapes against dimensions; axes that are 0 in `dims` are free.
pub(super) fn check(tensors: &Tensors, dims: &Dims, pair: FormatPair) -> Result<(), MoeError> {
    let present = tensors.expert_ids.as_ref().map_or(dims.experts, |ids| ids.data.len());
    let size = |axis: Axis| -> usize {
        let (basic, up, down) = basis(axis, pair);
        let size = match basic {
            Axis::Tokens => dims.tokens,
            Axis::Experts => dims.routed(),
            Axis::Present => present,
            Axis::TopK => dims.top_k,
            Axis::Rows => dims.tokens.saturating_mul(dims.top_k),
            Axis::Hidden => dims.hidden,
            _ => dims.inter,
        };
        size.saturating_mul(up) / down
    };
    for (form, shape) in tensors.shapes() {
        rank(form, shape)?;
        for (at, (axis, found)) in form.axes.iter().zip(shape).enumerate() {
            let wanted = size(*axis);
            if wanted != 0 && wanted != *found {
                let why = format!("{} of {}", axis.words(), dims.words());
                return Err(mismatch(form, shape, at, &wanted.to_string(), why));
            }
        }
    }
    Ok(())
}
