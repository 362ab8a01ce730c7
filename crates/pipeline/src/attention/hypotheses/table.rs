//! The table of hypotheses: what kernels for SM12x were seen to do, or nearly did.
//!
//! Public examples are named by repository and number: fi is flashinfer-ai/flashinfer, vl vllm-project/vllm, sg sgl-project/sglang,
//! fa Dao-AILab/flash-attention, lc ggml-org/llama.cpp.

mod masks;
mod operands;
mod pages;
mod scales;

use std::ops::Range;
use std::sync::Arc;

use super::Hypothesis;
use crate::attention::cache::Order;
use crate::attention::dump::Dump;
use crate::attention::element::Element;
use crate::attention::mla;
use crate::attention::mla::ScaleOf;
use crate::attention::problem::{HeadMap, WindowOf, WindowStart};
use crate::attention::semantics::{
    Arithmetic, Denominator, Empty, Kernel, Mask, MergeFault, SinkOf, Split, WrongMerge,
};

/// A dump with one change.
fn with(dump: &Dump, change: impl FnOnce(&mut Dump)) -> Dump {
    let mut other = dump.clone();
    change(&mut other);
    other
}

/// One variant without a detail.
fn one(dump: &Dump, change: impl FnOnce(&mut Dump)) -> Vec<(String, Dump)> {
    vec![(String::new(), with(dump, change))]
}

/// Variants by a number.
fn each<T: Copy>(
    dump: &Dump,
    values: impl IntoIterator<Item = (T, String)>,
    change: impl Fn(&mut Dump, T),
) -> Vec<(String, Dump)> {
    values.into_iter().map(|(value, detail)| (detail, with(dump, |d| change(d, value)))).collect()
}

const SIDES: [&str; 2] = ["keys", "values"];

/// Every hypothesis, the more frequent first.
pub(super) const ALL: &[Hypothesis] = &[
    Hypothesis {
        name: "the sinks are dropped",
        look: "whether the kernel receives the sinks, and whether the plan chose a variant that has them",
        seen: "vl 52148, fi 4070, modular 6198",
        variants: |dump| one(dump, |d| d.sinks.clear()),
    },
    Hypothesis {
        name: "the sink counts once for each split",
        look: "the merge of splits: the sink belongs to one of them, or to the merge",
        seen: "kin of kekzl/imp 1346",
        variants: |dump| {
            if dump.sinks.is_empty() {
                return Vec::new();
            }
            let counts = (2..=16).map(|n| (n, format!("{n} times")));
            each(dump, counts, |d, n| d.semantics.sink_count = f64::from(n))
        },
    },
    Hypothesis {
        name: "the sinks are scaled",
        look: "the factor of the sink: it is a raw logit, base e, to which no scale applies",
        seen: "local-inference-lab/b12x 119",
        variants: |dump| {
            let [_, k_scale, ..] = dump.scales;
            let log2 = std::f64::consts::LOG2_E;
            let factors = [
                (dump.sm_scale, "by sm_scale"),
                (1.0 / log2, "by ln 2: base e read as base 2"),
                (log2, "by log2 e twice"),
                (-1.0, "by -1"),
                (0.0, "by 0: they are read as zeros"),
                (0.5, "by one half"),
                (2.0, "by two"),
                (k_scale, "by k_scale"),
                (1.0 / k_scale, "by 1 / k_scale"),
                (dump.sm_scale * k_scale, "by sm_scale and k_scale"),
            ];
            let factors = factors.map(|(factor, detail)| (factor, detail.to_owned()));
            each(dump, factors, |d, factor| {
                d.sinks.iter_mut().for_each(|sink| *sink = (f64::from(*sink) * factor) as f32);
            })
        },
    },
    Hypothesis {
        name: "the sink of another head is used",
        look: "the index of the sink: it is the head of queries",
        seen: "modular 6591",
        variants: |dump| {
            let heads = dump.shape.heads;
            let group = heads / dump.shape.kv_heads.max(1);
            let sinks = dump.sinks.clone();
            let read = |detail: &str, index: &dyn Fn(usize) -> usize| {
                let found = |head: usize| sinks.get(index(head)).copied().unwrap_or_default();
                (detail.to_owned(), with(dump, |d| d.sinks = (0..sinks.len()).map(found).collect()))
            };
            let rows = [
                (SinkOf::Row, "the row of queries"),
                (SinkOf::PackedRow, "the row among those of its group"),
            ];
            let mut all = each(dump, rows.map(|(of, s)| (of, format!("{s} mod the heads"))), |d, of| {
                d.semantics.sink_of = of;
            });
            all.extend([
                read("head mod the size of a group", &|head| head % group),
                read("the head of keys", &|head| head / group),
                read("the next head", &|head| (head + 1) % heads),
                read("the previous head", &|head| (head + heads - 1) % heads),
                read("head 0", &|_| 0),
            ]);
            all.retain(|_| !dump.sinks.is_empty());
            all
        },
    },
    Hypothesis {
        name: "the window has another size",
        look: "whether the window counts the row's own key: FlashInfer's window_left does not, the window of Transformers does",
        seen: "",
        variants: |dump| {
            let Some(window) = dump.semantics.window else { return Vec::new() };
            let sizes = [(window + 1, "one key more"), (window.saturating_sub(1), "one key fewer")];
            let mut all: Vec<_> =
                each(dump, sizes.map(|(n, s)| (n, s.to_owned())), |d, n| d.semantics.window = Some(n));
            all.push(("there is none".to_owned(), with(dump, |d| d.semantics.window = None)));
            all.push((
                "twice as many keys".to_owned(),
                with(dump, |d| d.semantics.window = Some(2 * window)),
            ));
            all
        },
    },
    Hypothesis {
        name: "rows share the window of one row",
        look: "the first key of the window: each draft row has its own",
        seen: "fi 4137",
        variants: |dump| {
            let of =
                [(WindowOf::LastRow, "the last".to_owned()), (WindowOf::FirstRow, "the first".to_owned())];
            each(dump, of, |d, of| d.semantics.window_of = of)
        },
    },
    Hypothesis {
        name: "the window begins with a tile",
        look: "the mask of the first tile of a window: keys before the window are to be masked in it",
        seen: "",
        variants: |dump| {
            let Some(window) = dump.semantics.window else { return Vec::new() };
            // A tile in which every window begins is the same as no window.
            let most = dump.requests.iter().map(|request| request.keys.len()).max().unwrap_or(0);
            let most = most.saturating_sub(window);
            let mut tiles = vec![16, 32, 64, 128, dump.cache.page];
            tiles.sort_unstable();
            tiles.dedup();
            let mut all = Vec::new();
            for tile in tiles.into_iter().filter(|tile| (2..most).contains(tile)) {
                let of = WindowStart::TileOf(tile);
                all.push((of, format!("the keys before it in a tile of {tile} are seen")));
                let behind = WindowStart::TileBehind(tile);
                all.push((behind, format!("its keys in the first, partial tile of {tile} are not seen")));
            }
            each(dump, all, |d, start| d.semantics.window_start = start)
        },
    },
    Hypothesis {
        name: "another mask is applied",
        look: "the mask, and the offset of a chunk's queries: key j is visible to row i if j ≤ i + keys − rows",
        seen: "fi 4198, fi 4199, fi 3871",
        variants: |dump| {
            let masks = [
                (Mask::TopLeft, "causal from the top left: the offset of the queries is ignored"),
                (Mask::Causal, "causal"),
                (Mask::Full, "none"),
            ];
            each(dump, masks.map(|(mask, s)| (mask, s.to_owned())), |d, mask| d.semantics.mask = mask)
        },
    },
    Hypothesis {
        name: "the causal mask is shifted",
        look: "the comparison of key and row: ≤ or <",
        seen: "",
        variants: |dump| {
            if dump.semantics.mask != Mask::Causal {
                return Vec::new();
            }
            let shifts = [
                (1, "a row sees the key after its own".to_owned()),
                (-1, "a row does not see its own key".to_owned()),
            ];
            each(dump, shifts, |d, shift| d.requests.iter_mut().for_each(|request| request.beyond = shift))
        },
    },
    Hypothesis {
        name: "the bits of the mask are read otherwise",
        look: "the packing of the mask: lowest bit first, requests on bytes, rows without padding",
        seen: "fi 4198, fi 4199",
        variants: masks::mask_bits,
    },
    Hypothesis {
        name: "pages are read in the other order of heads and slots",
        look: "the strides of the cache: HND or NHD",
        seen: "vl 56550, vl 49012, vl 53979",
        variants: |dump| {
            let mut all = Vec::new();
            for (order, how) in [(Order::Nhd, "as NHD"), (Order::Hnd, "as HND")] {
                all.push(((order, 0..2), how.to_owned()));
                all.extend(
                    (0..2).map(|side| ((order, side..side + 1), format!("{} alone, {how}", SIDES[side]))),
                );
            }
            let read = |((order, sides), how): ((Order, Range<usize>), String)| {
                (how, with(dump, |d| d.cache.reorder(order, sides)))
            };
            all.into_iter().map(read).collect()
        },
    },
    Hypothesis {
        name: "keys and values are exchanged",
        look: "which half of the cache is which",
        seen: "vl 49011, vl 49818",
        variants: |dump| {
            let [keys, values] = &dump.cache.planes;
            if keys.width != values.width {
                return Vec::new();
            }
            vec![
                ("each for the other".to_owned(), with(dump, |d| d.cache.planes.swap(0, 1))),
                ("keys are read as values".to_owned(), with(dump, |d| d.cache.planes[1] = keys.clone())),
                ("values are read as keys".to_owned(), with(dump, |d| d.cache.planes[0] = values.clone())),
            ]
        },
    },
    Hypothesis {
        name: "one side is read with the strides of the other",
        look: "the strides that the kernel receives for keys and for values",
        seen: "fi 4044, FlagOpen/FlagAttention 45",
        variants: |dump| {
            let strides = [dump.cache.planes[0].strides, dump.cache.planes[1].strides];
            let of = |side: usize| {
                with(dump, |d| {
                    let offset = strides[side].offset;
                    d.cache.planes[side].strides = strides[1 - side];
                    d.cache.planes[side].strides.offset = offset;
                })
            };
            (0..2)
                .map(|side| (format!("{} with those of {}", SIDES[side], SIDES[1 - side]), of(side)))
                .collect()
        },
    },
    Hypothesis {
        name: "the padding of pages is ignored",
        look: "the stride of a page",
        seen: "fi 3856, vl 47783, vl 47895",
        variants: |dump| {
            one(dump, |d| {
                let (page, heads) = (d.cache.page, d.cache.heads);
                for plane in &mut d.cache.planes {
                    let dense = match plane.record {
                        Some((layout, _)) => layout.page(page),
                        None => page * heads * plane.element.bytes(plane.width),
                    };
                    plane.strides.page = plane.strides.page.min(dense);
                }
            })
        },
    },
    Hypothesis {
        name: "the table of pages is read wrongly",
        look: "the index into the table of pages",
        seen: "sg 36531, fi 2638, fi 3022",
        variants: pages::tables,
    },
    Hypothesis {
        name: "keys are left out",
        look: "the loop over tiles and splits: its end, and the merge",
        seen: "fi 4382, fa 2329, fi 1971",
        variants: pages::left_out,
    },
    Hypothesis {
        name: "results of splits are merged wrongly",
        look: "the merge: each split counts by 2 to the power of its logarithm",
        seen: "fi 4382",
        variants: |dump| {
            let most = dump.requests.iter().map(|request| request.keys.len()).max().unwrap_or(0);
            let parts = (2..=8.min(most)).map(|n| (Split::Parts(n), format!("{n} splits")));
            let mut sizes = vec![16, 32, 64, 128, 256, 512, 1024, 2048, dump.cache.page];
            sizes.sort_unstable();
            sizes.dedup();
            let sizes = sizes.into_iter().filter(|size| (2..most).contains(size));
            let sizes = sizes.map(|n| (Split::Keys(n), format!("splits of {n} keys")));
            let splits: Vec<(Split, String)> = parts.chain(sizes).collect();
            let faults = [
                (MergeFault::Averaged, "they are averaged"),
                (MergeFault::Added, "they are added"),
                (MergeFault::OwnMaximum, "sums are added that are relative to different maxima"),
                (MergeFault::TwoAsE, "logarithms of base 2 are read as those of base e"),
                (MergeFault::EAsTwo, "logarithms of base e are read as those of base 2"),
                (MergeFault::Reversed, "their weights are in reverse"),
                (MergeFault::LastTwice, "the last one counts twice"),
            ];
            let all = faults.iter().flat_map(|(fault, how)| {
                let merge = |(split, words): &(Split, String)| {
                    (WrongMerge { split: *split, fault: *fault }, format!("{how}, {words}"))
                };
                splits.iter().map(merge).collect::<Vec<_>>()
            });
            each(dump, all.collect::<Vec<_>>(), |d, merge| d.semantics.merge = Some(merge))
        },
    },
    Hypothesis {
        name: "the sum of the weights is not the divisor",
        look: "the row sum: its reduction over lanes and tiles, and the division behind the loop",
        seen: "fi 3838",
        variants: |dump| {
            let undivided = WrongMerge { split: Split::Parts(1), fault: MergeFault::Undivided };
            let mut all = vec![(undivided, "nothing is".to_owned())];
            let most = dump.requests.iter().map(|request| request.keys.len()).max().unwrap_or(0);
            for tile in [16, 32, 64, 128].into_iter().filter(|tile| *tile < most) {
                let merge = WrongMerge { split: Split::Keys(tile), fault: MergeFault::DivisorWithoutLast };
                all.push((merge, format!("it lacks the last tile of {tile} keys")));
            }
            each(dump, all, |d, merge| d.semantics.merge = Some(merge))
        },
    },
    Hypothesis {
        name: "low scores are taken as masked",
        look: "the finite number that stands for minus infinity",
        seen: "fi 4267, fi 4401, fi 4450",
        variants: |dump| {
            let sentinels = [(-5e4, "below -5e4"), (-1e5, "below -1e5"), (-1e4, "below -1e4")];
            each(dump, sentinels.map(|(x, s)| (x, s.to_owned())), |d, sentinel| {
                d.semantics.sentinel = Some(sentinel);
                d.semantics.empty = Empty::Zero;
            })
        },
    },
    Hypothesis {
        name: "values of hidden keys are multiplied by zero, which leaves NaN",
        look: "the values of masked keys: they are to be left out, or replaced by zeros",
        seen: "vl 30887",
        variants: |dump| one(dump, |d| d.semantics.reads_hidden = true),
    },
    Hypothesis {
        name: "keys are permuted in each 32",
        look: "the order in which the writer of an NVFP4 attention stores keys",
        seen: "fi 3640",
        variants: |dump| one(dump, |d| d.cache.is_permuted = true),
    },
    Hypothesis {
        name: "slots behind the last key are read",
        look: "the length of the last page",
        seen: "fi 5095",
        variants: |dump| {
            let page = dump.cache.page;
            let more = |d: &mut Dump, beyond: fn(usize, usize) -> usize| {
                for request in &mut d.requests {
                    let keys = request.keys.len();
                    let extra = beyond(keys, page);
                    request.keys.end += extra;
                    request.beyond += extra as i64;
                }
            };
            vec![
                (
                    "to the end of the page".to_owned(),
                    with(dump, |d| more(d, |k, p| k.next_multiple_of(p) - k)),
                ),
                ("one more".to_owned(), with(dump, |d| more(d, |_, _| 1))),
            ]
        },
    },
    Hypothesis {
        name: "heads of queries read another head of keys and values",
        look: "the head of keys and of values: it is the head of queries over the size of a group, and its stride",
        seen: "",
        variants: |dump| {
            let maps = [
                (HeadMap::Modulo, "the head of queries mod the heads of keys"),
                (HeadMap::First, "head 0 for all"),
                (HeadMap::Next, "the next one"),
                (HeadMap::Previous, "the previous one"),
                (HeadMap::Exchanged, "the other one of each pair"),
                (HeadMap::Reversed, "heads in reverse"),
            ];
            let mut all = Vec::new();
            for (map, how) in maps {
                all.push((how.to_owned(), with(dump, |d| d.shape.maps = [map; 2])));
                for side in 0..2 {
                    let detail = format!("of {} alone, {how}", SIDES[side]);
                    all.push((detail, with(dump, |d| d.shape.maps[side] = map)));
                }
            }
            all
        },
    },
    Hypothesis {
        name: "the block scales are read in another layout",
        look: "the layout of the scales that the writer stores and that the kernel reads",
        seen: "vl 50084, vl 50085, vl 50288, vl 46329, fi 3097",
        variants: scales::scale_orders,
    },
    Hypothesis {
        name: "the scales of records are read in another layout",
        look: "where the scales of a token are: in its row or behind its page, and in which order",
        seen: "vl 54563",
        variants: |dump| {
            let Some((stored, _)) = dump.cache.planes[0].record else { return Vec::new() };
            let mut all = vec![(
                "in the order of their blocks".to_owned(),
                with(dump, |d| {
                    for (_, reading) in d.cache.planes.iter_mut().filter_map(|plane| plane.record.as_mut()) {
                        reading.is_linear = stored == mla::Layout::Nvfp4;
                    }
                }),
            )];
            for layout in mla::Layout::ALL.iter().filter(|layout| layout.width() == stored.width()) {
                let other = with(dump, |d| {
                    for plane in &mut d.cache.planes {
                        plane.strides.slot = layout.row();
                        plane.record.iter_mut().for_each(|(of, _)| *of = *layout);
                    }
                });
                all.push((format!("as {}", layout.word()), other));
            }
            all
        },
    },
    Hypothesis {
        name: "records are read wrongly",
        look: "the scales of a record, one for each block of its codes, and its rotary part",
        seen: "",
        variants: |dump| {
            let scale = |scale: ScaleOf| move |reading: &mut mla::Reading| reading.scale = scale;
            type Change = Box<dyn Fn(&mut mla::Reading)>;
            let all: [(&str, Change); 5] = [
                ("their scales are missing", Box::new(scale(ScaleOf::Nothing))),
                ("a block has the scale of the next one", Box::new(scale(ScaleOf::Next))),
                ("a block has the scale of the one before", Box::new(scale(ScaleOf::Previous))),
                ("every block has the scale of the first", Box::new(scale(ScaleOf::First))),
                ("the rotary part is missing", Box::new(|reading| reading.without_rotary = true)),
            ];
            let read = |(what, change): (&str, Change)| {
                let other = with(dump, |d| {
                    for (_, reading) in d.cache.planes.iter_mut().filter_map(|plane| plane.record.as_mut()) {
                        change(reading);
                    }
                });
                (what.to_owned(), other)
            };
            all.into_iter().map(read).collect()
        },
    },
    Hypothesis {
        name: "the block scales of another place are used",
        look: "the index of the scale",
        seen: "fi 3608",
        variants: scales::scale_places,
    },
    Hypothesis {
        name: "values in columns are read as rows",
        look: "the layout of values: an mma that sums over keys in blocks needs the slots of an element beside one another",
        seen: "",
        variants: scales::columns_as_rows,
    },
    Hypothesis {
        name: "the nibbles of a byte are exchanged",
        look: "the order of e2m1 codes in a byte: the even element is in the low nibble",
        seen: "",
        variants: |dump| {
            if dump.cache.planes[0].element != Element::Nvfp4 {
                return Vec::new();
            }
            let sides: [(&[usize], String); 3] = [
                (&[0], "of keys".to_owned()),
                (&[1], "of values".to_owned()),
                (&[0, 1], "of both".to_owned()),
            ];
            each(dump, sides, |d, sides| {
                sides.iter().for_each(|side| d.cache.planes[*side].odd_first ^= true);
            })
        },
    },
    Hypothesis {
        name: "a scale of the cache is applied wrongly",
        look: "the scales of keys (a factor of scores) and of values (a factor of the output)",
        seen: "fi 1023, fi 3097, sg 18396, sg 20705",
        variants: scales::scales,
    },
    Hypothesis {
        name: "the scale of scores is wrong",
        look: "sm_scale, and the factor log2 e of base-2 kernels",
        seen: "fi 787",
        variants: |dump| {
            let log2 = std::f64::consts::LOG2_E;
            let scale = dump.sm_scale;
            let mut factors = vec![
                (1.0 / scale, "sm_scale is missing".to_owned()),
                (scale, "sm_scale is applied twice".to_owned()),
                (1.0 / log2, "log2 e is missing".to_owned()),
                (log2, "log2 e is applied twice".to_owned()),
            ];
            for width in [32.0_f64, 64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 512.0, 576.0] {
                let of_width = 1.0 / width.sqrt();
                if (of_width / scale - 1.0).abs() > 1e-3 {
                    factors.push((of_width / scale, format!("it is 1 / √{width}")));
                }
            }
            each(dump, factors, |d, factor| d.semantics.scale *= factor)
        },
    },
    Hypothesis {
        name: "the soft cap is applied wrongly",
        look: "whether the kernel receives the cap, and the order of scale, cap and slope",
        seen: "vl 56578",
        variants: operands::soft_caps,
    },
    Hypothesis {
        name: "the slopes of ALiBi are wrong",
        look: "whether the kernel receives the slopes, and their index",
        seen: "",
        variants: |dump| {
            if dump.slopes.is_empty() {
                return Vec::new();
            }
            let read = |detail: &str, change: &dyn Fn(&mut Vec<f32>)| {
                (detail.to_owned(), with(dump, |d| change(&mut d.slopes)))
            };
            let scale =
                |slopes: &mut Vec<f32>, factor: f32| slopes.iter_mut().for_each(|slope| *slope *= factor);
            vec![
                read("they are missing", &|slopes| slopes.clear()),
                read("of the next head", &|slopes| slopes.rotate_left(1)),
                read("of the heads in reverse", &|slopes| slopes.reverse()),
                read("of the other sign", &|slopes| scale(slopes, -1.0)),
                read("times log2 e twice", &|slopes| scale(slopes, std::f32::consts::LOG2_E)),
                read("without log2 e", &|slopes| scale(slopes, std::f32::consts::LN_2)),
            ]
        },
    },
    Hypothesis {
        name: "elements are read as another type",
        look: "the type of the cache that the kernel is compiled for",
        seen: "fi 4346",
        variants: |dump| {
            let other = |element: Element| match element {
                Element::Bf16 => Element::F16,
                Element::F16 => Element::Bf16,
                Element::E4m3 => Element::E5m2,
                Element::E5m2 => Element::E4m3,
                same => same,
            };
            let sides: [(&[usize], String); 3] =
                [(&[0, 1], String::new()), (&[0], "keys".to_owned()), (&[1], "values".to_owned())];
            each(dump, sides, |d, sides| {
                for side in sides {
                    let plane = &mut d.cache.planes[*side];
                    plane.element = other(plane.element);
                }
            })
        },
    },
    Hypothesis {
        name: "keys or values of a neighbouring slot are read",
        look: "the index of the slot",
        seen: "",
        variants: |dump| {
            let shift = |side: usize| {
                with(dump, |d| {
                    let strides = &mut d.cache.planes[side].strides;
                    strides.offset +=
                        if strides.slot > 0 && d.cache.page > 1 { strides.slot } else { strides.page };
                })
            };
            let mut all: Vec<_> =
                (0..2).map(|side| (format!("{} of the next slot", SIDES[side]), shift(side))).collect();
            if dump.cache.page > 1 {
                let shifts = [
                    (1, "next key, through the table of pages"),
                    (-1, "key before, through the table of pages"),
                ];
                for (by, which) in shifts {
                    let of = |side: usize| with(dump, |d| d.cache.key_shift[side] = by);
                    all.extend((0..2).map(|side| (format!("{} of the {which}", SIDES[side]), of(side))));
                }
            }
            all
        },
    },
    Hypothesis {
        name: "scales of 32 bits are read as powers of two",
        look: "the conversion of the scale: its mantissa counts",
        seen: "vl 54563, FlashMLA 184",
        variants: |dump| {
            one(dump, |d| {
                let floor = |x: f64| if x > 0.0 { libm::exp2(libm::floor(libm::log2(x))) } else { x };
                let [_, k, v, k_global, v_global] = d.scales;
                d.semantics.scale *= floor(k) / k * floor(k_global) / k_global;
                d.semantics.value_scale *= floor(v) / v * floor(v_global) / v_global;
                for (_, reading) in d.cache.planes.iter_mut().filter_map(|plane| plane.record.as_mut()) {
                    reading.is_power = true;
                }
                for factors in d.cache.planes.iter_mut().filter_map(|plane| plane.factors.as_mut()) {
                    let words = factors.bytes.as_chunks().0.iter().flat_map(|word| {
                        let word = u32::from_le_bytes(*word) & 0xFF80_0000;
                        word.to_le_bytes()
                    });
                    factors.bytes = Arc::new(words.collect());
                }
            })
        },
    },
    Hypothesis {
        name: "the accumulator of another row is not cleared",
        look: "where the accumulator is set to zero: once for each tile of rows",
        seen: "fi 5029",
        variants: |dump| {
            let backs =
                [1, 8, 16, 32, 64, 128].map(|n| (n, format!("the result of {n} rows before is added")));
            each(dump, backs, |d, back| d.semantics.stale = Some(back))
        },
    },
    Hypothesis {
        name: "other queries are read",
        look: "the strides of the queries, and the elements of a head that the kernel is compiled for",
        seen: "fi 4299, sparkinfer 330",
        variants: operands::queries,
    },
    Hypothesis {
        name: "the output is permuted",
        look: "the store of the accumulators: fragments, rows and heads",
        seen: "fa 2553",
        variants: operands::permutations,
    },
];

/// Roundings that a kernel may have without a fault, if they are declared.
pub(super) fn roundings(dump: &Dump) -> Vec<(String, Dump)> {
    let queries = dump.arithmetic.weights;
    // llama.cpp's queries are fp16 once they are scaled.
    // Those of records round the queries as well, once they are read.
    let kernels = Kernel::ALL.iter().filter(|of| match of {
        Kernel::LlamaCpp => queries == Element::F16,
        Kernel::SparseMla | Kernel::SparseMlaResidual | Kernel::SparseMlaSwapab => false,
        Kernel::Nvfp4Attention | Kernel::PrefillFp4 => false,
        _ => true,
    });
    let mut all: Vec<(String, Dump)> = kernels
        .map(|of| {
            let other = with(dump, |d| d.arithmetic = Arithmetic::of_kernel(*of, queries));
            (format!("`kernel` {}", of.word()), other)
        })
        .collect();
    for weights in [Element::E4m3, Element::E5m2] {
        let other = with(dump, |d| {
            d.arithmetic.weights = weights;
            d.arithmetic.denominator = Denominator::Either;
        });
        all.push((format!("`weights` {}", weights.word()), other));
    }
    all
}
