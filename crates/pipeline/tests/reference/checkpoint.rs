//! A layer of a checkpoint: a small file of gpt-oss's names, whole and in shards, and everything that can be wrong with one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pipeline::moe::case::{self, Case, GateUp, Routing};
use pipeline::moe::checkpoint::{CheckpointError, Layer};
use pipeline::moe::problem::{generate, of_layer};
use pipeline::moe::{Contract, judge, reference::route};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

use crate::all_pass;
use crate::device::{NATIVE, run};

const EXPERTS: usize = 4;
const HIDDEN: usize = 128;
const INTER: usize = 128;

/// Type, shape and bytes by name.
pub(crate) type File = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Bytes that differ by place and tensor; scales stay near one.
fn bytes(seed: usize, count: usize, scale: bool) -> Vec<u8> {
    let byte = |i: usize| ((i + seed).wrapping_mul(2_654_435_761) >> 13) as u8;
    (0..count).map(|i| if scale { 120 + byte(i) % 4 } else { byte(i) }).collect()
}

/// bf16 between -1 and 1.
fn floats(seed: usize, count: usize) -> Vec<u8> {
    let value = |b: u8| (f32::from(b) - 128.0) / 128.0;
    bytes(seed, count, false)
        .into_iter()
        .flat_map(|b| ((value(b).to_bits() >> 16) as u16).to_le_bytes())
        .collect()
}

/// A layer as Hugging Face's form names it.
fn layer(number: usize) -> File {
    let (e, h, i) = (EXPERTS, HIDDEN, INTER);
    let at = |part: &str| format!("model.layers.{number}.mlp.{part}");
    let n = number * 1000;
    BTreeMap::from([
        (
            at("experts.gate_up_proj_blocks"),
            (Dtype::U8, vec![e, 2 * i, h / 32, 16], bytes(n, e * i * h, false)),
        ),
        (
            at("experts.gate_up_proj_scales"),
            (Dtype::U8, vec![e, 2 * i, h / 32], bytes(n + 1, e * 2 * i * h / 32, true)),
        ),
        (at("experts.gate_up_proj_bias"), (Dtype::BF16, vec![e, 2 * i], floats(n + 2, e * 2 * i))),
        (
            at("experts.down_proj_blocks"),
            (Dtype::U8, vec![e, h, i / 32, 16], bytes(n + 3, e * h * i / 2, false)),
        ),
        (at("experts.down_proj_scales"), (Dtype::U8, vec![e, h, i / 32], bytes(n + 4, e * h * i / 32, true))),
        (at("experts.down_proj_bias"), (Dtype::BF16, vec![e, h], floats(n + 5, e * h))),
        (at("router.weight"), (Dtype::BF16, vec![e, h], floats(n + 6, e * h))),
        (at("router.bias"), (Dtype::BF16, vec![e], floats(n + 7, e))),
    ])
}

fn checkpoint() -> File {
    let mut file = layer(0);
    file.extend(layer(1));
    file
}

pub(crate) fn write(path: &Path, file: &File) {
    let mut views = Vec::new();
    for (name, (dtype, shape, data)) in file {
        views.push((name.clone(), TensorView::new(*dtype, shape.clone(), data).unwrap()));
    }
    serialize_to_file(views, None, path).unwrap();
}

fn real() -> Case {
    case::find("tiny-real").unwrap()
}

#[test]
fn a_layer_takes_the_place_of_made_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let file = checkpoint();
    write(&path, &file);
    let case = Case { routing: Routing::Random, ..real() };
    let problem = of_layer(&case, 1, &Layer::open(&path, 1).unwrap()).unwrap();
    // The router chooses, from the file's own weights.
    let inputs = &problem.inputs;
    let hidden = inputs.hidden_states.as_ref().unwrap();
    let logits = inputs.router_logits.as_ref().unwrap();
    let bf16 = |b: &[u8]| f64::from(f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16));
    let (weights, bias) =
        (&file["model.layers.1.mlp.router.weight"].2, &file["model.layers.1.mlp.router.bias"].2);
    for (token, expert) in [(0, 0), (5, 3)] {
        let row = weights[expert * HIDDEN * 2..].chunks(2).take(HIDDEN);
        let of = hidden.row(token).iter().map(|x| f64::from(f32::from_bits(u32::from(*x) << 16)));
        let sum: f64 = row.zip(of).map(|(w, x)| bf16(w) * x).sum::<f64>() + bf16(&bias[expert * 2..]);
        assert_eq!(logits.row(token)[expert], sum as f32);
    }
    // Only routed experts are read, each from its place.
    let ids = inputs.expert_ids.as_ref().unwrap();
    let chosen: Vec<usize> =
        logits.data.chunks(EXPERTS).flat_map(|row| route::top_k(row, case.top_k)).collect();
    assert!(ids.data.iter().all(|id| chosen.contains(&(*id as usize))));
    let (blocks, scales) = (inputs.w13_blocks.as_ref().unwrap(), inputs.w2_scales.as_ref().unwrap());
    let last = *ids.data.last().unwrap() as usize;
    let each = INTER * HIDDEN;
    let wanted = &file["model.layers.1.mlp.experts.gate_up_proj_blocks"].2[last * each..(last + 1) * each];
    assert_eq!(&blocks.data[blocks.data.len() - each..], wanted);
    let each = HIDDEN * INTER / 32;
    let wanted = &file["model.layers.1.mlp.experts.down_proj_scales"].2[last * each..(last + 1) * each];
    assert_eq!(&scales.data[scales.data.len() - each..], wanted);
    // A device that is right is found right.
    let contract = Contract::native(problem.dims, problem.settings);
    all_pass(&judge(&contract, &run(&problem, NATIVE)).unwrap(), "layer 1");

    // Halved kernels get the same channels at other places; the case's own routing stays where it names one.
    let halves = Case { gate_up: GateUp::UpFirst, ..case.clone() };
    let moved = of_layer(&halves, 1, &Layer::open(&path, 1).unwrap()).unwrap().inputs.w13_bias.unwrap();
    let bias = inputs.w13_bias.as_ref().unwrap();
    for channel in [0, 7, INTER - 1] {
        assert_eq!(moved.data[channel], bias.data[2 * channel + 1], "up");
        assert_eq!(moved.data[INTER + channel], bias.data[2 * channel], "gate");
    }
    let same = Case { routing: Routing::Same, ..case };
    let routed = of_layer(&same, 1, &Layer::open(&path, 0).unwrap()).unwrap().inputs;
    assert_eq!(routed.router_logits, generate(&same, 1).unwrap().inputs.router_logits);
}

#[test]
fn shards_and_the_original_names_are_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &checkpoint());
    let whole = of_layer(&real(), 1, &Layer::open(&path, 1).unwrap()).unwrap();

    let (mut map, mut shards) = (BTreeMap::new(), [File::new(), File::new()]);
    for (n, (name, tensor)) in checkpoint().into_iter().enumerate() {
        map.insert(name.clone(), format!("model-{}.safetensors", n % 2));
        shards[n % 2].insert(name, tensor);
    }
    for (n, shard) in shards.iter().enumerate() {
        write(&folder.path().join(format!("model-{n}.safetensors")), shard);
    }
    let index = folder.path().join("model.safetensors.index.json");
    let text =
        |map: &BTreeMap<String, String>| serde_json::json!({ "metadata": {}, "weight_map": map }).to_string();
    fs::write(&index, text(&map)).unwrap();
    assert_eq!(of_layer(&real(), 1, &Layer::open(&index, 1).unwrap()).unwrap(), whole);
    // An index that points at the wrong shard, at none, or is none.
    map.insert("model.layers.1.mlp.router.bias".into(), "model-9.safetensors".into());
    fs::write(&index, text(&map)).unwrap();
    assert!(matches!(Layer::open(&index, 1), Err(CheckpointError::File { .. })));
    let wrong = if map["model.layers.1.mlp.router.weight"].contains('0') { 1 } else { 0 };
    map.insert("model.layers.1.mlp.router.weight".into(), format!("model-{wrong}.safetensors"));
    fs::write(&index, text(&map)).unwrap();
    assert!(matches!(Layer::open(&index, 1), Err(CheckpointError::Missing { .. })));
    fs::write(&index, "{}").unwrap();
    assert!(
        Layer::open(&index, 1).unwrap_err().to_string().contains("not the index of a sharded checkpoint")
    );

    let names = [
        ("model.layers.1.", "block.1."),
        ("experts.gate_up_proj_blocks", "mlp1_weight.blocks"),
        ("experts.gate_up_proj_scales", "mlp1_weight.scales"),
        ("experts.gate_up_proj_bias", "mlp1_bias"),
        ("experts.down_proj_blocks", "mlp2_weight.blocks"),
        ("experts.down_proj_scales", "mlp2_weight.scales"),
        ("experts.down_proj_bias", "mlp2_bias"),
        ("router.", "gate."),
    ];
    let rename = |name: String| names.iter().fold(name, |name, (from, to)| name.replace(from, to));
    write(&path, &layer(1).into_iter().map(|(name, tensor)| (rename(name), tensor)).collect());
    assert_eq!(of_layer(&real(), 1, &Layer::open(&path, 1).unwrap()).unwrap(), whole);
}

/// The error of opening layer 1 of a checkpoint that `change` has changed.
fn wrong(change: impl FnOnce(&mut File)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("model.safetensors");
    let mut file = checkpoint();
    change(&mut file);
    write(&path, &file);
    Layer::open(&path, 1).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_named() {
    const BLOCKS: &str = "model.layers.1.mlp.experts.gate_up_proj_blocks";
    const BIAS: &str = "model.layers.1.mlp.experts.down_proj_bias";
    let has = |error: String, words: &[&str]| {
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let error = wrong(|f| {
        let tensor = f.remove(BIAS).unwrap();
        f.insert(BIAS.replace("bias", "biases"), tensor);
    });
    has(
        error,
        &["model.safetensors: tensor", BIAS, "the nearest is `model.layers.1.mlp.experts.down_proj_biases`"],
    );
    let error = wrong(|f| f.get_mut(BLOCKS).unwrap().0 = Dtype::I8);
    has(error, &[BLOCKS, "is I8, but a gpt-oss checkpoint has U8"]);
    let error = wrong(|f| {
        let tensor = f.get_mut(BIAS).unwrap();
        (tensor.1, tensor.2) = (vec![EXPERTS, HIDDEN - 1], vec![0; EXPERTS * (HIDDEN - 1) * 2]);
    });
    has(error, &[BIAS, "is [4, 127]; expected [4, 128]", BLOCKS]);
    let error = wrong(|f| f.get_mut(BLOCKS).unwrap().1 = vec![EXPERTS, 2 * INTER, HIDDEN / 64, 32]);
    has(error, &[BLOCKS, "expected [experts, 2 x inter, hidden / 32, 16]"]);
    let error = wrong(|f| f.get_mut(BLOCKS).unwrap().1 = vec![EXPERTS * 2 * INTER, HIDDEN / 2]);
    has(error, &[BLOCKS, "expected [experts, 2 x inter, hidden / 32, 16]"]);
    has(
        wrong(|f| f.retain(|name, _| name.contains("layers.0."))),
        &["there is no layer 1; it has layers 0 to 0"],
    );
    has(wrong(|f| f.retain(|name, _| name.contains("none"))), &["it has no expert tensors"]);
}

#[test]
fn a_file_that_is_cut_or_no_safetensors_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &checkpoint());
    let all = fs::read(&path).unwrap();
    for cut in [0, 7, 8, 100, all.len() / 2, all.len() - 1] {
        fs::write(&path, &all[..cut]).unwrap();
        let error = Layer::open(&path, 1).unwrap_err().to_string();
        assert!(error.contains("truncated") && error.contains("fetch it again"), "{cut}: {error}");
    }
    for text in ["not at all a safetensors file", "\u{2}\0\0\0\0\0\0\0{]", "\u{8}\0\0\0\0\0\0\0{\"a\": 1}"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(Layer::open(&path, 1), Err(CheckpointError::Format { .. })), "{text}");
    }
    // Offsets that do not fit the shape.
    let at = all.windows(14).position(|w| w == b"\"data_offsets\"").unwrap() + 16;
    let digit = at + all[at..].iter().position(u8::is_ascii_digit).unwrap();
    let mut changed = all.clone();
    changed[digit] = if all[digit] == b'9' { b'8' } else { all[digit] + 1 };
    fs::write(&path, &changed).unwrap();
    assert!(matches!(Layer::open(&path, 1), Err(CheckpointError::Format { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(Layer::open(&path, 1), Err(CheckpointError::File { .. })));
}

#[test]
fn a_case_that_does_not_fit_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &checkpoint());
    let layer = Layer::open(&path, 1).unwrap();
    for (name, words) in [
        ("wide-real", "its `hidden` is 512, but layer 1 has 128"),
        ("large-offsets", "its regime is `exact`"),
    ] {
        let error = of_layer(&case::find(name).unwrap(), 1, &layer).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(words), "{error}");
    }
    let error = of_layer(&Case { bias: false, ..real() }, 1, &layer).unwrap_err().to_string();
    assert!(error.contains("no biases"), "{error}");
}
