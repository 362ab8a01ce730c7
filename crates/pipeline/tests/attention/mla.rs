//! Records of latent attention: right outputs pass in every layout, and records that are read otherwise are explained.

use numerics::Format;
use numerics::random::{at, mix};
use pipeline::attention::{Judgement, dump, judge};
use record::Verdict;
use safetensors::tensor::Dtype;

use super::kernel::{File, bf16};

const PAGE: usize = 8;
const PAGES: usize = 5;
const HEADS: usize = 4;
const ROWS: usize = 6;
const MOST: usize = 12;

/// Where the parts of a record are: bytes of a row, of the footer a token, codes, elements that share a scale, and the element `d`.
struct Record {
    name: &'static str,
    row: usize,
    footer: usize,
    latent: usize,
    width: usize,
    values: usize,
    packed: bool,
    block: usize,
    rotary_at: usize,
    /// The byte of the scale of a block of a slot, in its page.
    scale_at: fn(slot: usize, block: usize) -> usize,
    scale: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    F32,
    Ue8m0,
    Ue4m3,
}

const RECORDS: &[Record] = &[
    Record {
        name: "fp8_ds_mla",
        row: 656,
        footer: 0,
        latent: 512,
        width: 576,
        values: 512,
        packed: false,
        block: 128,
        rotary_at: 528,
        scale_at: |slot, block| slot * 656 + 512 + block * 4,
        scale: Kind::F32,
    },
    Record {
        name: "fp8_nope",
        row: 528,
        footer: 0,
        latent: 512,
        width: 512,
        values: 512,
        packed: false,
        block: 128,
        rotary_at: 0,
        scale_at: |slot, block| slot * 528 + 512 + block * 4,
        scale: Kind::F32,
    },
    Record {
        name: "dsv4",
        row: 576,
        footer: 8,
        latent: 448,
        width: 512,
        values: 512,
        packed: false,
        block: 64,
        rotary_at: 448,
        scale_at: |slot, block| PAGE * 576 + slot * 8 + block,
        scale: Kind::Ue8m0,
    },
    Record {
        name: "dsv4_1",
        row: 512,
        footer: 16,
        latent: 512,
        width: 512,
        values: 512,
        packed: false,
        block: 32,
        rotary_at: 0,
        scale_at: |slot, block| PAGE * 512 + slot * 16 + block,
        scale: Kind::Ue8m0,
    },
    Record {
        name: "dsv4_1_interleaved",
        row: 528,
        footer: 0,
        latent: 512,
        width: 512,
        values: 512,
        packed: false,
        block: 32,
        rotary_at: 0,
        scale_at: |slot, block| slot * 528 + 512 + block,
        scale: Kind::Ue8m0,
    },
    Record {
        name: "dsv4_nvfp4",
        row: 352,
        footer: 32,
        latent: 448,
        width: 512,
        values: 512,
        packed: true,
        block: 16,
        rotary_at: 224,
        scale_at: |slot, block| PAGE * 352 + slot * 32 + block,
        scale: Kind::Ue4m3,
    },
    Record {
        name: "nvfp4_ds_mla",
        row: 352,
        footer: 0,
        latent: 512,
        width: 576,
        values: 512,
        packed: true,
        block: 16,
        rotary_at: 256,
        scale_at: |slot, block| slot * 352 + 320 + 8 * (block & 3) + (block >> 2),
        scale: Kind::Ue4m3,
    },
];

/// What a kernel reads wrongly.
#[derive(Default)]
struct Fault {
    powers: bool,
    linear: bool,
    no_padding: bool,
}

fn draw(stream: u64, index: usize) -> u64 {
    at(mix(stream), index as u64)
}

impl Record {
    fn stride(&self, padding: usize) -> usize {
        PAGE * (self.row + self.footer) + padding
    }

    /// A page after the other, with padding behind each.
    fn cache(&self, padding: usize) -> Vec<u8> {
        let stride = self.stride(padding);
        let mut bytes: Vec<u8> = (0..PAGES * stride).map(|n| draw(1, n) as u8).collect();
        for page in 0..PAGES {
            for slot in 0..PAGE {
                let row = page * stride + slot * self.row;
                if !self.packed {
                    // Codes of e4m3 without NaN.
                    bytes[row..row + self.latent]
                        .iter_mut()
                        .for_each(|code| *code = *code & 0x87 | 0x30 | *code & 8);
                }
                for d in self.latent..self.width {
                    let x = (draw(2, (page * PAGE + slot) * 64 + d) % 256) as f32 / 64.0 - 2.0;
                    if self.name == "nvfp4_ds_mla" {
                        bytes[row + self.rotary_at + d - self.latent] = 0x30 | (draw(3, row + d) % 16) as u8;
                    } else {
                        let at = row + self.rotary_at + (d - self.latent) * 2;
                        bytes[at..at + 2].copy_from_slice(&((bf16(x).to_bits() >> 16) as u16).to_le_bytes());
                    }
                }
                for block in 0..self.latent / self.block {
                    let at = page * stride + (self.scale_at)(slot, block);
                    let n = (page * PAGE + slot) * 64 + block;
                    match self.scale {
                        Kind::F32 => {
                            let scale = (1.0 + (draw(4, n) % 1000) as f32 / 1000.0) * 0.25;
                            bytes[at..at + 4].copy_from_slice(&scale.to_le_bytes());
                        }
                        Kind::Ue8m0 => bytes[at] = 124 + (draw(4, n) % 5) as u8,
                        Kind::Ue4m3 => bytes[at] = 0x28 + (draw(4, n) % 16) as u8,
                    }
                }
            }
        }
        bytes
    }

    fn element(&self, cache: &[u8], slot: usize, d: usize, padding: usize, fault: &Fault) -> f64 {
        let stride = self.stride(if fault.no_padding { 0 } else { padding });
        let (page, slot) = (slot / PAGE * stride, slot % PAGE);
        let row = page + slot * self.row;
        if d >= self.latent {
            let n = d - self.latent;
            if self.name == "nvfp4_ds_mla" {
                return Format::E4m3.decode(cache[row + self.rotary_at + n].into()).into();
            }
            let at = row + self.rotary_at + n * 2;
            return Format::Bf16.decode(u32::from(cache[at]) | u32::from(cache[at + 1]) << 8).into();
        }
        let code = match self.packed {
            true => Format::E2m1.decode(u32::from(cache[row + d / 2] >> (d % 2 * 4))),
            false => Format::E4m3.decode(cache[row + d].into()),
        };
        let block = d / self.block;
        let at = if fault.linear { slot * 352 + 320 + block } else { (self.scale_at)(slot, block) };
        let bytes = &cache[page + at..];
        let scale = match self.scale {
            Kind::F32 => f32::from_le_bytes(*bytes.first_chunk().unwrap()),
            Kind::Ue8m0 => Format::Ue8m0.decode(bytes[0].into()),
            Kind::Ue4m3 => Format::Ue4m3.decode(bytes[0].into()),
        };
        let scale = if fault.powers { scale.log2().floor().exp2() } else { scale };
        f64::from(code) * f64::from(scale)
    }

    /// A dump of a kernel with a fault.
    fn file(&self, padding: usize, fault: &Fault) -> File {
        let cache = self.cache(padding);
        let queries: Vec<f32> = (0..ROWS * HEADS * self.width)
            .map(|n| bf16((draw(5, n) % 512) as f32 / 2048.0 - 0.125))
            .collect();
        let mut indices = Vec::new();
        let mut out = Vec::new();
        let scale = f64::from(1.0 / (self.width as f32).sqrt());
        for row in 0..ROWS {
            let count = MOST - row;
            let slots: Vec<usize> = (0..count).map(|n| (n * 7 + row * 5) % (PAGES * PAGE)).collect();
            indices.extend((0..MOST).map(|n| slots.get(n).map_or(-1, |slot| *slot as i32)));
            for head in 0..HEADS {
                let query = &queries[(row * HEADS + head) * self.width..][..self.width];
                let keys: Vec<Vec<f64>> = slots
                    .iter()
                    .map(|slot| {
                        (0..self.width).map(|d| self.element(&cache, *slot, d, padding, fault)).collect()
                    })
                    .collect();
                let scores: Vec<f64> = keys
                    .iter()
                    .map(|key| scale * key.iter().zip(query).map(|(k, q)| k * f64::from(*q)).sum::<f64>())
                    .collect();
                let most = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(*score));
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                out.extend((0..self.values).map(|d| {
                    bf16(
                        (keys.iter().zip(&weights).map(|(key, weight)| key[d] * weight).sum::<f64>() / total)
                            as f32,
                    )
                }));
            }
        }
        let mut file = File::default();
        file.bf16("q", &[ROWS, HEADS, self.width], &queries);
        file.bf16("out", &[ROWS, HEADS, self.values], &out);
        let bytes = indices.iter().flat_map(|slot: &i32| slot.to_le_bytes()).collect();
        file.put("topk_indices", Dtype::I32, &[ROWS, MOST], bytes);
        let stride = self.stride(padding);
        file.put("kv_cache", Dtype::U8, &[PAGES, stride], cache);
        file.say("record", self.name);
        file.say("page_size", PAGE);
        file
    }
}

fn judged(file: &File) -> Judgement {
    judge(&dump::parse(&file.bytes()).unwrap()).unwrap()
}

#[test]
fn right_outputs_of_every_record_pass() {
    for record in RECORDS {
        for padding in [0, 64] {
            let judgement = judged(&record.file(padding, &Fault::default()));
            let output = &judgement.results[0];
            assert_eq!(
                (output.verdict, output.mismatches),
                (Verdict::Pass, 0),
                "{} {}",
                record.name,
                output.note
            );
        }
    }
}

#[test]
fn records_that_are_read_otherwise_are_explained() {
    let explained = |name: &str, padding: usize, fault: &Fault, words: &str| {
        let record = RECORDS.iter().find(|record| record.name == name).unwrap();
        let text = judged(&record.file(padding, fault)).diagnosis.unwrap().text();
        assert!(text.starts_with("explained, all") && text.contains(words), "{name} {words}: {text}");
    };
    let powers = Fault { powers: true, ..Fault::default() };
    explained("fp8_ds_mla", 0, &powers, "scales of 32 bits are read as powers of two");
    explained("fp8_nope", 0, &powers, "scales of 32 bits are read as powers of two");
    let no_padding = Fault { no_padding: true, ..Fault::default() };
    explained("nvfp4_ds_mla", 64, &no_padding, "the padding of pages is ignored");
    let linear = Fault { linear: true, ..Fault::default() };
    explained(
        "nvfp4_ds_mla",
        0,
        &linear,
        "the scales of records are read in another layout: in the order of their blocks",
    );
    // A record that is declared as another one of the same width.
    let record = RECORDS.iter().find(|record| record.name == "dsv4_1").unwrap();
    let mut file = record.file(0, &Fault::default());
    file.say("record", "dsv4_1_interleaved");
    let text = judged(&file).diagnosis.unwrap().text();
    assert!(text.contains("as dsv4_1"), "{text}");
}

/// Words of the message, and the change of the file that leads to it.
type Contradiction = (&'static str, fn(&mut File));

#[test]
fn contradictions_of_records_are_named() {
    let record = &RECORDS[0];
    let changes: [Contradiction; 5] = [
        ("`q` is [6, 4, 576]; expected 512 elements of a head, as a record `dsv4`", |f| {
            f.say("record", "dsv4")
        }),
        ("records need metadata page_size", |f| _ = f.metadata.remove("page_size")),
        ("at least 10496 bytes for a page of 16 slots", |f| f.say("page_size", 16)),
        ("`topk_indices[2]` is 999; the cache has 40 slots", |f| {
            let bytes = (0..72).flat_map(|n: i32| i32::to_le_bytes(if n == 2 { 999 } else { 0 })).collect();
            f.put("topk_indices", Dtype::I32, &[ROWS, MOST], bytes);
        }),
        ("`topk_length[5]` is 13; a row has 12 indices", |f| f.i32("topk_length", &[1, 1, 1, 1, 1, 13])),
    ];
    for (words, change) in changes {
        let mut file = record.file(0, &Fault::default());
        change(&mut file);
        let error = dump::parse(&file.bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}
