//! Every row of the table has a case of this repository in which it is the only answer: the output is the one that the row's change gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::table;
use crate::attention::case::built_in;
use crate::attention::configuration::{Configuration, Kernel, Types};
use crate::attention::dump::{self, Dump, Stored};
use crate::attention::export;
use crate::attention::generate::Data;
use crate::attention::judge::{bounds, judge};
use crate::frame::stream;
use crate::kernel::MmaPath;

/// Cases whose data differ in what they have: sinks, windows, masks, swizzled scales, padded pages, slopes, caps, low scores, records.
const CASES: &[&str] = &[
    "attention-real",
    "attention-sinks",
    "attention-window",
    "attention-tree",
    "attention-swizzled",
    "attention-capped",
    "attention-padded",
    "attention-every-key",
    "attention-low",
    "attention-equal",
    "attention-rings",
    "attention-tiles",
    "attention-mla-real",
    "attention-mla-sinks",
];

/// Variants of a row that are tried in each case.
const TRIED: usize = 4;

/// Dumps of the cases, with the right output.
fn right() -> Vec<(String, Dump)> {
    let mut all = Vec::new();
    for name in CASES {
        let case = Arc::new(built_in().cases.iter().find(|case| case.name == *name).unwrap().clone());
        let configurations = match case.sparse {
            true => vec![Configuration::plain(Kernel::Mla, 576, Types::Fp8DsMla)],
            false => [Types::Bf16, Types::E4m3, Types::Nvfp4]
                .map(|types| Configuration::plain(Kernel::Prefill, 64, types))
                .into_iter()
                .chain(Configuration::all().into_iter().filter(|of| {
                    // Its values are columns.
                    *name == "attention-real"
                        && of.is_fp4()
                        && of.width == 64
                        && of.path == Some(MmaPath::Portable)
                }))
                .collect(),
        };
        for configuration in configurations {
            let data = Data::new(&case, configuration, case.seed).unwrap();
            let bytes = export::bytes(&data, &stream::Stored::new(), "emulator").unwrap();
            let declared = dump::parse(&bytes).unwrap().remove(0);
            let with_output = |dump: Dump| {
                let output = Some(output(&dump, configuration.types));
                Dump { output, ..dump }
            };
            if *name == "attention-window" && configuration.types == Types::Bf16 {
                all.push((format!("{name} with one NaN"), with_output(with_one_nan(declared.clone()))));
            }
            all.push((format!("{name} {}", configuration.name()), with_output(declared)));
        }
    }
    let of_records = records();
    let output = Some(output(&of_records, Types::Bf16));
    all.push(("records in NVFP4".to_owned(), Dump { output, ..of_records }));
    all
}

/// The dump with one NaN among the values that no row sees: element 7 of the first key.
fn with_one_nan(mut dump: Dump) -> Dump {
    let (page, slot) = dump.cache.place(1, 0, 0).unwrap();
    let plane = &mut dump.cache.planes[1];
    let at = plane.strides.at(page, slot, 0).unwrap() + 14;
    let mut bytes = plane.bytes.as_ref().clone();
    for number in bytes.as_chunks_mut::<2>().0.iter_mut().filter(|number| number[1] & 0x7F == 0x7F) {
        *number = [0; 2];
    }
    bytes[at..at + 2].copy_from_slice(&[0xFF, 0x7F]);
    plane.bytes = Arc::new(bytes);
    dump
}

/// A dump of records in NVFP4 with scales of their own, without an output.
fn records() -> Dump {
    const RECORD: usize = 352;
    let bytes = |seed: u64, count: usize| (0..count).map(move |n| numerics::random::at(seed, n as u64) as u8);
    let mut cache: Vec<u8> = bytes(1, 16 * RECORD).collect();
    for record in cache.chunks_mut(RECORD) {
        // No NaN in the rotary part, and scales of 1/4 to 15/8.
        record[256..320].iter_mut().for_each(|code| *code = 0x20 | *code & 0x9F);
        record[320..].iter_mut().for_each(|scale| *scale = 0x28 + *scale % 24);
    }
    let queries: Vec<u8> = bytes(2, 2 * 4 * 576).flat_map(|byte| [0, 0x3C | byte & 0x83]).collect();
    let slots: Vec<u8> = (0..2 * 12).flat_map(|n: i32| (n * 5 % 16).to_le_bytes()).collect();
    let views = [
        ("q", Dtype::BF16, vec![2, 4, 576], queries),
        ("kv_cache", Dtype::U8, vec![2, 8 * RECORD], cache),
        ("topk_indices", Dtype::I32, vec![2, 12], slots),
    ];
    let views: Vec<_> = views
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()))
        .collect();
    let metadata = [("record", "nvfp4_ds_mla"), ("page_size", "8"), ("kernel", "fa2"), ("elements", "none")];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    dump::parse(&safetensors::serialize(views, Some(metadata)).unwrap()).unwrap().remove(0)
}

/// What a kernel stores that computes exactly what a dump says.
fn output(of: &Dump, types: Types) -> Stored {
    let element = types.queries();
    let exact = bounds(std::slice::from_ref(of)).unwrap().output;
    Stored {
        element,
        values: Arc::new(exact.iter().map(|(value, _)| element.nearest(*value) as f32).collect()),
    }
}

/// The dump of a kernel that does what a variant of a dump says; `None` if that reads beyond the cache.
fn wrong(right: &Dump, variant: &Dump) -> Option<Dump> {
    let stored = right.output.as_ref()?;
    let output = match variant.output == right.output {
        // A variant that reads the stored output in another order gives one that was stored in that order.
        false => variant.output.clone()?,
        true => {
            let exact = bounds(std::slice::from_ref(variant)).ok()?.output;
            let values = exact.iter().map(|(value, _)| stored.element.nearest(*value) as f32).collect();
            Stored { values: Arc::new(values), ..stored.clone() }
        }
    };
    Some(Dump { output: Some(output), ..right.clone() })
}

#[test]
fn every_row_of_the_table_is_the_only_answer_of_a_case() {
    let right = right();
    for (name, dump) in &right {
        let judgement = judge(std::slice::from_ref(dump)).unwrap();
        assert!(judgement.diagnosis.is_none(), "{name}: {}", judgement.diagnosis.unwrap().text());
    }
    let mut answers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for row in table::ALL {
        let is_only = |(name, dump): &(String, Dump)| {
            (row.variants)(dump).into_iter().take(TRIED).any(|(detail, variant)| {
                let Some(wrong) = wrong(dump, &variant) else { return false };
                let judgement = judge(&[wrong]).unwrap();
                let Some(found) = judgement.diagnosis else { return false };
                let all: Vec<&String> = found
                    .explanations
                    .iter()
                    .flat_map(|of| std::iter::once(&of.what).chain(&of.same))
                    .collect();
                let is_only = !all.is_empty() && all.iter().all(|what| what.starts_with(row.name));
                if !is_only {
                    answers.entry(row.name).or_default().push(format!("{name}, {detail}: {}", found.text()));
                }
                is_only
            })
        };
        if !right.iter().any(is_only) {
            missing.push(row.name);
        }
    }
    let answer =
        |name: &&str| format!("{name}:\n{}", answers.get(name).map(|all| all.join("\n")).unwrap_or_default());
    let shown: Vec<String> = missing.iter().map(answer).collect();
    assert!(missing.is_empty(), "rows without a case: {}", shown.join("\n"));
}
