//! Writes the data and results of a trial in the dump format of attention.

use std::collections::HashMap;
use std::path::Path;

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, TensorView};

use super::cache::ValueOrder;
use super::case::Layout;
use super::element::{BLOCK, Element};
use super::generate::Data;
use super::semantics::{Kernel, Mask};
use crate::frame::stream::Stored;
use crate::kernel::FactorRule;

/// A tensor: its name, type, shape and bytes.
type Tensor = (&'static str, Dtype, Vec<usize>, Vec<u8>);

const fn dtype(element: Element) -> Dtype {
    match element {
        Element::F32 => Dtype::F32,
        Element::Bf16 => Dtype::BF16,
        Element::F16 => Dtype::F16,
        Element::E4m3 => Dtype::F8_E4M3,
        Element::E5m2 => Dtype::F8_E5M2,
        Element::Nvfp4 => Dtype::U8,
    }
}

fn integers(name: &'static str, shape: Vec<usize>, values: impl IntoIterator<Item = i32>) -> Tensor {
    (name, Dtype::I32, shape, values.into_iter().flat_map(i32::to_le_bytes).collect())
}

fn floats(name: &'static str, values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    (name, Dtype::F32, vec![values.len()], bytes)
}

fn signed(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Writes the data of a case with what its kernels stored.
pub(super) fn write(data: &Data, stored: &Stored, target: &str, path: &Path) -> Result<(), SafeTensorError> {
    std::fs::write(path, bytes(data, stored, target)?).map_err(SafeTensorError::IoError)
}

/// Returns the bytes of such a file.
pub(super) fn bytes(data: &Data, stored: &Stored, target: &str) -> Result<Vec<u8>, SafeTensorError> {
    let tensors = tensors(data, stored);
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        TensorView::new(*dtype, shape.clone(), bytes).map(|view| (*name, view))
    });
    let views = views.collect::<Result<Vec<_>, _>>()?;
    safetensors::serialize(views, Some(metadata(data, target)))
}

fn tensors(data: &Data, stored: &Stored) -> Vec<Tensor> {
    let (case, problem, cache) = (&data.case, &data.problem, &data.cache);
    let width = data.configuration.value_width();
    let element = data.configuration.types.queries();
    let lines = [case.rows(), case.heads, width];
    let of_queries = vec![case.rows(), case.heads, data.configuration.width];
    let requests = problem.requests.len();
    let most = cache.table.iter().map(Vec::len).max().unwrap_or(0);
    let pages = cache
        .table
        .iter()
        .flat_map(|pages| (0..most).map(|at| pages.get(at).map_or(-1, |page| signed(*page))));
    let starts = problem.requests.iter().map(|request| signed(request.rows.start));
    let lengths = problem.requests.iter().map(|request| signed(request.keys.len()));
    // A kernel of quantized queries is judged from those that were stored.
    let queries = match data.configuration.is_fp4() {
        true => {
            let used = data.of_stored(stored).queries;
            ("q", Dtype::F32, of_queries, used.iter().flat_map(|x| x.to_le_bytes()).collect())
        }
        false => ("q", dtype(element), of_queries, data.queries.clone()),
    };
    let mut tensors = vec![
        queries,
        integers("qo_indptr", vec![requests + 1], starts.chain([signed(case.rows())])),
        integers(if case.sparse { "topk_indices" } else { "block_table" }, vec![requests, most], pages),
        integers(if case.sparse { "topk_length" } else { "seq_lens" }, vec![requests], lengths),
    ];
    tensors.extend(data.configuration.is_fp4().then(|| floats("q_scale", &[data.query_factor])));
    for (name, buffer, shape) in [("out", "out", lines.to_vec()), ("lse", "lse", lines[..2].to_vec())] {
        if let Some(bytes) = stored.get(buffer) {
            tensors.push((
                name,
                if name == "out" { dtype(element) } else { Dtype::F32 },
                shape,
                bytes.clone(),
            ));
        }
    }
    if data.configuration.record().is_some() {
        let (bytes, page) = (&cache.planes[0].bytes, cache.planes[0].strides.page);
        tensors.push(("kv_cache", Dtype::U8, vec![bytes.len() / page, page], bytes.as_ref().clone()));
        tensors.extend(case.sinks.then(|| floats("sinks", &problem.sinks)));
        return tensors;
    }
    for (side, (codes, scales, factor)) in
        [("k_cache", "k_scales", "k_scale"), ("v_cache", "v_scales", "v_scale")].into_iter().enumerate()
    {
        let plane = &cache.planes[side];
        let bytes = plane.bytes.as_ref().clone();
        let count = bytes.len() / dtype(plane.element).bitsize().div_ceil(8);
        tensors.push((codes, dtype(plane.element), vec![count], bytes));
        if let Some(of) = &plane.scales {
            tensors.push((scales, Dtype::U8, vec![of.bytes.len()], of.bytes.as_ref().clone()));
        }
        let factor_of = if side == 0 { data.key_scale } else { data.value_scale };
        if !matches!(plane.element, Element::Bf16 | Element::F16) {
            tensors.push(floats(factor, &[factor_of]));
        }
    }
    if case.sinks {
        tensors.push(floats("sinks", &problem.sinks));
    }
    if case.slopes {
        tensors.push(floats("alibi_slopes", &problem.slopes));
    }
    if case.mask == Mask::Custom {
        tensors.push(("packed_custom_mask", Dtype::U8, vec![data.mask.len()], data.mask.clone()));
        let first = data.mask_starts.iter().map(|start| signed(*start));
        tensors.push(integers("mask_indptr", vec![requests + 1], first.chain([signed(data.mask.len())])));
    }
    tensors
}

fn metadata(data: &Data, target: &str) -> HashMap<String, String> {
    let case = &data.case;
    let order = if case.layout == Layout::Nhd { "NHD" } else { "HND" };
    let mut said = HashMap::new();
    let mut say = |key: &str, value: String| said.insert(key.to_owned(), value);
    say("family", super::FAMILY.to_owned());
    say("case", case.name.clone());
    say("configuration", data.configuration.name().to_string());
    say("target", target.to_owned());
    if let Some(layout) = data.configuration.record() {
        say("record", layout.word().to_owned());
    } else {
        say("kv_layout", order.to_owned());
        say("kv_format", data.configuration.types.cache().word().to_owned());
        say("kv_heads", case.kv_heads.to_string());
    }
    say("page_size", case.page.to_string());
    say("mask", case.mask.word().to_owned());
    say("window", case.window.map_or(-1, |window| window as i64).to_string());
    say("sm_scale", data.sm_scale.to_string());
    say("soft_cap", case.cap.unwrap_or(0.0).to_string());
    say("lse_base", if case.natural { "e" } else { "2" }.to_owned());
    say("lse_layout", "rows_heads".to_owned());
    say("lse_sink", "included".to_owned());
    say("empty", "zero".to_owned());
    // What the kernels of this repository round.
    let arithmetic = data.arithmetic();
    if let Some(two_level) = arithmetic.two_level {
        let factor = if two_level.running { FactorRule::RunningMaximum } else { FactorRule::TileMaximum };
        say("kernel", Kernel::PrefillFp4.word().to_owned());
        say("split", two_level.split.to_string());
        say("factor", factor.word().to_owned());
        say("sum", arithmetic.sum.word().to_owned());
        say("v_order", ValueOrder::Columns.word().to_owned());
    } else {
        say("kernel", Kernel::Fa2.word().to_owned());
    }
    say("partials", "f32".to_owned());
    say("elements", "none".to_owned());
    say("tile", data.configuration.tile().to_string());
    if data.configuration.record().is_some() {
        return said;
    }
    for (key, side) in [("k_strides", 0), ("v_strides", 1)] {
        let plane = &data.cache.planes[side];
        let elements = |bytes: usize| bytes * 8 / plane.element.bits();
        let of = plane.strides;
        let all = [of.offset, of.page, of.slot, of.head].map(|bytes| elements(bytes).to_string());
        say(key, all.join(","));
    }
    if data.cache.planes[0].scales.is_some() && data.configuration.width.is_multiple_of(4 * BLOCK) {
        let sides = [("k_scale_layout", case.key_swizzled), ("v_scale_layout", case.swizzled)];
        let rows = sides.into_iter().enumerate().filter(|(side, _)| !data.cache.planes[*side].transposed);
        for (key, is_swizzled) in rows.map(|(_, side)| side) {
            say(key, if is_swizzled { "swizzled" } else { "linear" }.to_owned());
        }
    }
    said
}
