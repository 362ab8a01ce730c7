//! NVFP4 layers of ModelOpt and compressed-tensors, small and whole, and what can be wrong with one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use numerics::tensor_core::Model;
use pipeline::kernel::MmaPath;
use pipeline::moe::case::{Case, FormatPair, GateUp};
use pipeline::moe::checkpoint::{CheckpointError, GlobalScale, Layer, Nvfp4Layer, Projection, Writer};
use pipeline::moe::problem::of_layer;
use pipeline::moe::{Contract, judge};
use safetensors::Dtype;
use tempfile::TempDir;

use crate::all_pass;
use crate::checkpoint::{File, write};
use crate::device::{run, to_bf16};
use crate::pairs::Unit;

const EXPERTS: usize = 3;
const HIDDEN: usize = 64;
const INTER: usize = 32;

fn bytes(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|i| ((i + 131 * seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn scalar(value: f32) -> (Dtype, Vec<usize>, Vec<u8>) {
    (Dtype::F32, vec![1], value.to_le_bytes().to_vec())
}

/// Names of codes, global scale and input scale.
const MODEL_OPT: [&str; 3] = ["weight", "weight_scale_2", "input_scale"];
const COMPRESSED: [&str; 3] = ["weight_packed", "weight_global_scale", "input_global_scale"];

fn layer(number: usize, [codes, global, input]: [&str; 3]) -> File {
    let at = format!("model.layers.{number}.mlp.");
    let mut file = File::new();
    for expert in 0..EXPERTS {
        for (part, rows, depth) in
            [("gate_proj", INTER, HIDDEN), ("up_proj", INTER, HIDDEN), ("down_proj", HIDDEN, INTER)]
        {
            let seed = number * 100 + expert * 10 + part.len();
            let name = |tensor: &str| format!("{at}experts.{expert}.{part}.{tensor}");
            file.insert(name(codes), (Dtype::U8, vec![rows, depth / 2], bytes(seed, rows * depth / 2)));
            file.insert(
                name("weight_scale"),
                (Dtype::F8_E4M3, vec![rows, depth / 16], bytes(seed + 1, rows * depth / 16)),
            );
            file.insert(name(global), scalar(0.5 + expert as f32));
            file.insert(name(input), scalar(4.0));
        }
    }
    file.insert(
        format!("{at}gate.weight"),
        (Dtype::BF16, vec![EXPERTS, HIDDEN], vec![0; 2 * EXPERTS * HIDDEN]),
    );
    let bias = [1.0_f32, -0.5, 0.25].iter().flat_map(|x| x.to_le_bytes()).collect();
    file.insert(format!("{at}gate.e_score_correction_bias"), (Dtype::F32, vec![EXPERTS], bias));
    file
}

/// The layer, and the folder that holds its file.
fn opened(file: &File, number: usize) -> (TempDir, Result<Nvfp4Layer, CheckpointError>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    write(&path, file);
    let layer = Nvfp4Layer::open(&path, number);
    (dir, layer)
}

#[test]
fn both_layouts_give_the_same_matrices_with_their_own_global_scales() {
    for (names, writer) in [(MODEL_OPT, Writer::ModelOpt), (COMPRESSED, Writer::CompressedTensors)] {
        let mut file = layer(0, names);
        file.extend(layer(3, names));
        let (_dir, layer) = opened(&file, 3);
        let layer = layer.unwrap();
        assert_eq!((layer.writer(), layer.sizes()), (writer, (HIDDEN, INTER, EXPERTS)));
        let at = "model.layers.3.mlp.experts.2.down_proj.";
        let matrix = layer.matrix(2, Projection::Down).unwrap();
        assert_eq!(matrix.shape, (HIDDEN, INTER));
        assert_eq!(matrix.codes, file[&format!("{at}{}", names[0])].2);
        assert_eq!(matrix.scales, file[&format!("{at}weight_scale")].2);
        let (global, input, factor) = match writer {
            Writer::ModelOpt => (GlobalScale::Factor(2.5), GlobalScale::Factor(4.0), 2.5),
            Writer::CompressedTensors => (GlobalScale::Divisor(2.5), GlobalScale::Divisor(4.0), 0.4),
        };
        assert_eq!((matrix.global, matrix.input), (global, Some(input)));
        assert!((matrix.global.factor() - factor).abs() < 1e-15);
        assert_eq!(layer.correction_bias().unwrap(), Some(vec![1.0, -0.5, 0.25]));
        assert_eq!(layer.router().unwrap().len(), EXPERTS * HIDDEN);
        let other = layer.matrix(2, Projection::Gate).unwrap();
        assert_eq!(other.codes, file[&format!("model.layers.3.mlp.experts.2.gate_proj.{}", names[0])].2);
        assert!(layer.matrix(3, Projection::Gate).is_err());
    }
}

#[test]
fn input_scales_and_the_correction_bias_may_be_missing() {
    let mut file = layer(0, MODEL_OPT);
    file.retain(|name, _| !name.ends_with("input_scale") && !name.ends_with("bias"));
    let (_dir, layer) = opened(&file, 0);
    let layer = layer.unwrap();
    assert_eq!(layer.matrix(0, Projection::Up).unwrap().input, None);
    assert_eq!(layer.correction_bias().unwrap(), None);
}

#[test]
fn a_sharded_checkpoint_is_read_by_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let all = layer(0, COMPRESSED);
    let mut shards: [File; 2] = Default::default();
    let mut map = BTreeMap::new();
    for (n, (name, tensor)) in all.into_iter().enumerate() {
        map.insert(name.clone(), format!("{}.safetensors", n % 2));
        shards[n % 2].insert(name, tensor);
    }
    for (n, shard) in shards.iter().enumerate() {
        write(&dir.path().join(format!("{n}.safetensors")), shard);
    }
    let index: PathBuf = dir.path().join("model.safetensors.index.json");
    std::fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
    let layer = Nvfp4Layer::open(&index, 0).unwrap();
    assert_eq!(layer.matrix(1, Projection::Up).unwrap().global, GlobalScale::Divisor(1.5));
}

#[test]
fn errors_name_the_file_and_the_tensor() {
    let at = "model.layers.0.mlp.experts.1.up_proj.";
    let wrong = |change: &dyn Fn(&mut File), number: usize| {
        let mut file = layer(0, MODEL_OPT);
        change(&mut file);
        let (_dir, layer) = opened(&file, number);
        match layer {
            Err(error) => error.to_string(),
            Ok(layer) => layer.matrix(1, Projection::Up).unwrap_err().to_string(),
        }
    };
    let has = |said: String, words: &[&str]| {
        for word in [&["model.safetensors"], words].concat() {
            assert!(said.contains(word), "{said}: {word}");
        }
    };
    let name = |part: &str| format!("{at}{part}");
    has(wrong(&|_| {}, 7), &["there is no layer 7", "it has layers 0 to 0"]);
    has(
        wrong(&|f| drop(f.remove(&name("weight_scale"))), 0),
        &["experts.1.up_proj.weight_scale", "is missing"],
    );
    has(
        wrong(&|f| f.retain(|n, _| !n.contains("experts.1.")), 0),
        &["experts.1.gate_proj.weight", "is missing"],
    );
    has(
        wrong(&|f| f.get_mut(&name("weight_scale")).unwrap().0 = Dtype::U8, 0),
        &["up_proj.weight_scale", "U8", "NVFP4 checkpoint of ModelOpt has F8_E4M3"],
    );
    let short = |f: &mut File| {
        let tensor = f.get_mut(&name("weight_scale")).unwrap();
        tensor.1 = vec![INTER, HIDDEN / 32];
        tensor.2.truncate(INTER * HIDDEN / 32);
    };
    has(wrong(&short, 0), &["up_proj.weight_scale", "[32, 2]", "expected [32, 4]"]);
    for bad in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        let zero = |f: &mut File| drop(f.insert(name("weight_scale_2"), scalar(bad)));
        has(wrong(&zero, 0), &["up_proj.weight_scale_2", "a global scale is finite and above 0"]);
    }
    let two = |f: &mut File| drop(f.insert(name("weight_scale_2"), (Dtype::F32, vec![2], vec![0; 8])));
    has(wrong(&two, 0), &["up_proj.weight_scale_2", "[2]", "one global scale"]);
    let far = |f: &mut File| {
        drop(f.insert("model.layers.0.mlp.experts.99999999999.up_proj.weight".to_owned(), scalar(1.0)));
    };
    has(wrong(&far, 0), &["experts.3.gate_proj.weight", "is missing"]);
}

/// A case that the layer's weights fit.
fn case(pair: FormatPair) -> Case {
    crate::case(&format!(
        "about: x\nformat: {}\ntokens: 6\nhidden: {HIDDEN}\ninter: {INTER}\nexperts: {EXPERTS}\ntop_k: 2\nrouting: random\n\
         regime: real\nbias: false\nrouter: {{ scores: sigmoid, correction_bias: true }}\n",
        pair.word()
    ))
}

/// Weights as a model has them: all scales finite, global scales by which the products of hidden states are near one.
fn usable(names: [&str; 3]) -> File {
    let mut file = layer(0, names);
    for (name, (_, _, data)) in &mut file {
        let divisor = names == COMPRESSED;
        if name.ends_with("weight_scale") {
            data.iter_mut().for_each(|byte| *byte = 0x48 + *byte % 16);
        } else if name.ends_with(names[1]) || name.ends_with(names[2]) {
            let expert: u8 = if name.contains("experts.1.") { 1 } else { 3 };
            let factor = f32::from(expert) / if name.ends_with(names[1]) { 1024.0 } else { 512.0 };
            data.copy_from_slice(&(if divisor { 1.0 / factor } else { factor }).to_le_bytes());
        } else if name.ends_with("gate.weight") {
            let value = |n: usize| ((n % 7) as f32 - 3.0) / 16.0;
            *data = (0..EXPERTS * HIDDEN).flat_map(|n| to_bf16(value(n)).to_le_bytes()).collect();
        }
    }
    file
}

#[test]
fn a_layer_takes_the_place_of_made_weights() {
    for names in [MODEL_OPT, COMPRESSED] {
        let file = usable(names);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        write(&path, &file);
        let layer = Layer::open(&path, 0).unwrap();
        for (pair, unit) in [
            (FormatPair::Nvfp4, Unit { pair: FormatPair::Nvfp4, path: MmaPath::Native, model: Model::Sm120 }),
            (
                FormatPair::Bf16Nvfp4,
                Unit { pair: FormatPair::Bf16Nvfp4, path: MmaPath::Portable, model: Model::Sm90 },
            ),
        ] {
            for gate_up in [GateUp::Interleaved, GateUp::GateFirst, GateUp::UpFirst] {
                let case = Case { gate_up, ..case(pair) };
                let problem = of_layer(&case, 1, &layer).unwrap();
                let inputs = &problem.inputs;
                assert_eq!(*inputs.correction_bias.as_ref().unwrap().data, [1.0, -0.5, 0.25]);
                assert_eq!(inputs.a1_global.is_some(), pair == FormatPair::Nvfp4);
                let ids = &inputs.expert_ids.as_ref().unwrap().data;
                let last = ids.len() - 1;
                let of = |part: &str, row: usize| {
                    let name = format!("model.layers.0.mlp.experts.{}.{part}.{}", ids[last], names[0]);
                    file[&name].2[row * HIDDEN / 2..(row + 1) * HIDDEN / 2].to_vec()
                };
                let blocks = inputs.w13_blocks.as_ref().unwrap();
                let row = |row: usize| blocks.row(last * 2 * INTER + row).to_vec();
                let (gate, up) = match gate_up {
                    GateUp::Interleaved => (10, 11),
                    GateUp::GateFirst => (5, INTER + 5),
                    GateUp::UpFirst => (INTER + 5, 5),
                };
                assert_eq!((row(gate), row(up)), (of("gate_proj", 5), of("up_proj", 5)), "{gate_up:?}");
                let expected = if ids[last] == 1 { 1.0 } else { 3.0 } / 1024.0;
                let global = inputs.w13_global.as_ref().unwrap().data[last];
                assert!((global / expected - 1.0).abs() <= f32::EPSILON, "{global}");
                let sum = unit.accumulation();
                let contract =
                    Contract { fc1: sum, fc2: sum, ..Contract::native(problem.dims, problem.settings) };
                all_pass(&judge(&contract, &run(&problem, unit)).unwrap(), &format!("{pair:?} {gate_up:?}"));
            }
        }
    }
}

#[test]
fn a_shared_expert_comes_last() {
    let mut file = usable(MODEL_OPT);
    for (name, tensor) in usable(MODEL_OPT) {
        if name.contains("experts.2.") {
            file.insert(name.replace("experts.2.", "shared_experts."), tensor);
        }
    }
    let (_dir, opened) = opened(&file, 0);
    let opened = opened.unwrap();
    assert_eq!((opened.sizes().2, opened.shared()), (EXPERTS, 1));
    assert_eq!(opened.matrix(EXPERTS, Projection::Up).unwrap(), opened.matrix(2, Projection::Up).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    write(&path, &file);
    let shared = Case { shared_experts: 1, ..case(FormatPair::Nvfp4) };
    let problem = of_layer(&shared, 1, &Layer::open(&path, 0).unwrap()).unwrap();
    assert_eq!(problem.inputs.expert_ids.as_ref().unwrap().data.last(), Some(&(EXPERTS as i32)));
}

#[test]
fn a_case_or_layer_that_does_not_fit_is_told() {
    let fit = |change: &dyn Fn(&mut File), case: Case| {
        let mut file = usable(MODEL_OPT);
        change(&mut file);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        write(&path, &file);
        of_layer(&case, 1, &Layer::open(&path, 0).unwrap()).unwrap_err().to_string()
    };
    let nvfp4 = || case(FormatPair::Nvfp4);
    let no_input = |f: &mut File| f.retain(|name, _| !name.ends_with("input_scale"));
    let no_correction = |f: &mut File| f.retain(|name, _| !name.ends_with("correction_bias"));
    let apart = |f: &mut File| {
        for expert in 0..EXPERTS {
            f.insert(format!("model.layers.0.mlp.experts.{expert}.up_proj.weight_scale_2"), scalar(0.25));
        }
    };
    let mut plain = nvfp4();
    plain.router.correction_bias = false;
    for (said, words) in [
        (fit(&|_| {}, case(FormatPair::Mxfp8Mxfp4)), "its weights are mxfp4, but the layer's are NVFP4"),
        (fit(&|_| {}, Case { bias: true, ..nvfp4() }), "it has biases, but the layer has none"),
        (
            fit(&|_| {}, Case { shared_experts: 1, ..nvfp4() }),
            "it has 1 shared experts, but the layer has 0 in NVFP4",
        ),
        (fit(&no_input, nvfp4()), "no input scales for NVFP4 activations; use --format bf16xnvfp4"),
        (fit(&no_correction, nvfp4()), "its router has a correction bias, but the layer's has none"),
        (fit(&|_| {}, plain), "its router has no correction bias, but the layer's has one"),
        (fit(&apart, nvfp4()), "but 0.25 for up_proj; the kernels take one for both"),
    ] {
        assert!(said.contains(words) && said.contains("model.safetensors"), "{said}: {words}");
    }
}
