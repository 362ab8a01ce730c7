//! Every library's layout and names hold the same problem; what is not declared is tried and said.

use pipeline::attention::{dump, judge};
use record::Verdict;
use safetensors::tensor::Dtype;

use super::kernel::{File, Knobs, Kv, World, file, run};

fn base() -> (World, File) {
    let world = World { hnd: true, ..World::new(7) };
    let file = file(&world, &run(&world, &Knobs::right(&world)));
    (world, file)
}

fn take(file: &mut File, name: &str) -> (Dtype, Vec<usize>, Vec<u8>) {
    let at = file.tensors.iter().position(|(found, ..)| found == name).unwrap();
    let (_, dtype, shape, bytes) = file.tensors.remove(at);
    (dtype, shape, bytes)
}

fn note(file: &File) -> String {
    let judgement = judge(&dump::parse(&file.bytes()).unwrap()).unwrap();
    let output = &judgement.results[0];
    assert_eq!(output.verdict, Verdict::Pass, "{} {:?}", output.note, judgement.diagnosis.map(|d| d.text()));
    output.note.clone()
}

#[test]
fn stacked_caches_and_tables_of_every_library_are_read() {
    let (world, mut file) = base();
    let (dtype, shape, keys) = take(&mut file, "k_cache");
    let (_, _, values) = take(&mut file, "v_cache");
    let page = keys.len() / shape[0];
    let row = world.width * 2;
    let interleave = |unit: usize| -> Vec<u8> {
        keys.chunks(unit).zip(values.chunks(unit)).flat_map(|(k, v)| [k, v].concat()).collect()
    };
    let [pages, heads, slots, width] = shape.as_slice() else { panic!("{shape:?}") };
    // FlashInfer's, vLLM's older and vLLM's newer form.
    file.put("kv_cache", dtype, &[*pages, 2, *heads, *slots, *width], interleave(page));
    note(&file);
    file.put(
        "kv_cache",
        dtype,
        &[2, *pages, *heads, *slots, *width],
        [keys.clone(), values.clone()].concat(),
    );
    note(&file);
    file.put("kv_cache", dtype, &[*pages, *heads, *slots, 2 * width], interleave(row));
    note(&file);
    // vLLM's and SGLang's table.
    let table = world.table();
    let most = table.iter().map(Vec::len).max().unwrap() + 1;
    let padded: Vec<usize> =
        table.iter().flat_map(|pages| (0..most).map(|n| pages.get(n).copied().unwrap_or(9999))).collect();
    for name in ["kv_indices", "kv_indptr", "kv_last_page_len", "qo_indptr"] {
        take(&mut file, name);
    }
    file.i32("page_table", &padded);
    file.tensors.last_mut().unwrap().2 = vec![table.len(), most];
    file.i32("cache_seqlens", &world.requests.iter().map(|(_, keys)| *keys).collect::<Vec<_>>());
    file.i32("cu_seqlens_q", &[0, 5, 6, 24]);
    note(&file);
}

#[test]
fn strides_and_ragged_tensors_are_read() {
    let (world, mut file) = base();
    let (dtype, _, keys) = take(&mut file, "k_cache");
    let (_, _, values) = take(&mut file, "v_cache");
    // One flat tensor each, whose pages have other strides.
    let page = world.page * world.kv_heads * world.width;
    let padded = |bytes: &[u8], padding: usize| -> Vec<u8> {
        bytes.chunks(page * 2).flat_map(|page| [page, &vec![0xFF; padding * 2]].concat()).collect()
    };
    let (k, v) = (padded(&keys, 32), padded(&values, 96));
    file.put("k_cache", dtype, &[k.len() / 2], k);
    file.put("v_cache", dtype, &[v.len() / 2], v);
    file.say("k_strides", format!("{},{},{}", page + 32, world.width, world.page * world.width));
    file.say("v_strides", format!("{},{},{}", page + 96, world.width, world.page * world.width));
    file.say("page_size", world.page);
    file.say("kv_heads", world.kv_heads);
    note(&file);
    // Ragged keys and values: [keys, heads, elements].
    let mut ragged = [Vec::new(), Vec::new()];
    for (request, (_, count)) in world.requests.iter().enumerate() {
        for key in 0..*count {
            let in_page = world.table()[request][key / world.page];
            for head in 0..world.kv_heads {
                let row = (in_page * world.kv_heads + head) * world.page + key % world.page;
                let bytes = row * world.width * 2..(row + 1) * world.width * 2;
                ragged[0].extend_from_slice(&keys[bytes.clone()]);
                ragged[1].extend_from_slice(&values[bytes]);
            }
        }
    }
    for name in ["k_cache", "v_cache", "kv_indices", "kv_indptr", "kv_last_page_len"] {
        take(&mut file, name);
    }
    for key in ["k_strides", "v_strides", "page_size", "kv_heads", "kv_layout"] {
        file.metadata.remove(key);
    }
    let [keys, values] = ragged;
    let shape = [keys.len() / (world.kv_heads * world.width * 2), world.kv_heads, world.width];
    file.put("k", dtype, &shape, keys);
    file.put("v", dtype, &shape, values);
    file.i32("cu_seqlens_k", &[0, 70, 111, 161]);
    note(&file);
}

#[test]
fn what_is_not_declared_is_tried_and_said() {
    let (_, mut file) = base();
    file.metadata.remove("kv_layout");
    file.metadata.remove("causal");
    let note_of = note(&file);
    assert!(note_of.contains("kv_layout and mask are not declared"), "{note_of}");
    assert!(note_of.contains("kv_layout HND, mask causal fits"), "{note_of}");
    let world =
        World { kv: Kv::Nvfp4, scales: [0.11, 0.23], swizzled: [false, true], hnd: true, ..World::new(8) };
    let mut file = super::kernel::file(&world, &run(&world, &Knobs::right(&world)));
    for key in ["k_scale_layout", "v_scale_layout"] {
        file.metadata.remove(key);
    }
    let note_of = note(&file);
    assert!(note_of.contains("k_scale_layout linear, v_scale_layout swizzled fits"), "{note_of}");
}

#[test]
fn masks_of_drafts_are_read_in_every_form() {
    let world = World { requests: vec![(6, 30), (3, 20)], causal: false, ..World::new(9) };
    let sees = |row: usize, draft: usize| draft == row || draft < row && (row + draft).is_multiple_of(2);
    let knobs = Knobs {
        keys_of: |_, (rows, keys), row| {
            let past = keys - rows;
            let sees = |draft: usize| draft == row || draft < row && (row + draft).is_multiple_of(2);
            (0..keys).filter(|key| *key < past || sees(key - past)).collect()
        },
        ..Knobs::right(&world)
    };
    let stored = run(&world, &knobs);
    let with = |put: &dyn Fn(&mut File)| {
        let mut file = file(&world, &stored);
        file.metadata.remove("causal");
        put(&mut file);
        note(&file);
    };
    let bits: Vec<Vec<bool>> = world
        .requests
        .iter()
        .map(|(rows, keys)| {
            let past = keys - rows;
            (0..rows * keys).map(|n| n % keys < past || sees(n / keys, n % keys - past)).collect()
        })
        .collect();
    with(&|file| {
        let bytes: Vec<u8> = bits.concat().into_iter().map(u8::from).collect();
        file.put("custom_mask", Dtype::BOOL, &[bytes.len()], bytes);
    });
    let pack = |bits: &[bool]| -> Vec<u8> {
        bits.chunks(8).map(|byte| byte.iter().enumerate().map(|(n, bit)| u8::from(*bit) << n).sum()).collect()
    };
    with(&|file| {
        let packed: Vec<Vec<u8>> = bits.iter().map(|bits| pack(bits)).collect();
        file.i32("mask_indptr", &[0, packed[0].len(), packed[0].len() + packed[1].len()]);
        let bytes = packed.concat();
        file.put("packed_custom_mask", Dtype::U8, &[bytes.len()], bytes);
    });
    // XQA's: a word for each row, of its drafts alone.
    with(&|file| {
        let words: Vec<u8> = world
            .requests
            .iter()
            .flat_map(|(rows, _)| {
                (0..*rows).map(|row| (0..*rows).filter(|d| sees(row, *d)).map(|d| 1_u32 << d).sum::<u32>())
            })
            .flat_map(u32::to_le_bytes)
            .collect();
        file.put("draft_mask", Dtype::U8, &[words.len()], words);
    });
}
