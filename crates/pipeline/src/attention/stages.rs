//! The launches of a problem, and the verdicts of its stages: quantized queries where a configuration has them, results of splits, then
//! the merged output.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use record::{Place, StageName, StageResult};

use super::cache::Plane;
use super::case::{Case, Layout, Pages};
use super::configuration::{Configuration, Kernel, OUTPUT, PARTIALS, QUERIES, Types};
use super::element::{BLOCK, Element};
use super::generate::Data;
use super::judge::{Pair, Tally};
use super::problem::{LeftOut, Problem};
use super::quantize::Quantized;
use super::reference::Reference;
use super::semantics::{Arithmetic, Base, Mask};
use crate::frame::spread;
use crate::frame::stream::{self, Content, Step, Stored};
use crate::kernel::Names;

/// Rows of a tile of the prefill kernel: a row of queries and a head of its group each.
const TILE_M: usize = 64;

pub(super) fn words(values: impl IntoIterator<Item = usize>) -> Vec<u8> {
    values.into_iter().flat_map(|x| (x as u32).to_le_bytes()).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    if values.is_empty() { vec![0; 4] } else { values.iter().flat_map(|x| x.to_le_bytes()).collect() }
}

impl Data {
    /// The tiles of the prefill kernel: the request and the first packed row of each.
    fn tiles(&self) -> Vec<(usize, usize)> {
        let rows = self.case.requests.iter().map(|request| request.rows * self.case.group());
        rows.enumerate().flat_map(|(n, rows)| (0..rows).step_by(TILE_M).map(move |row| (n, row))).collect()
    }

    /// Whether values are in the tensor of keys.
    fn has_one_tensor(&self) -> bool {
        self.case.layout == Layout::Halves || self.configuration.record().is_some()
    }

    /// The most pages of a request.
    fn most_pages(&self) -> usize {
        self.cache.table.iter().map(Vec::len).max().unwrap_or(0).max(1)
    }

    /// The pages of the device that the pages of the host are.
    fn places(&self) -> Vec<usize> {
        let plane = &self.cache.planes[0];
        let pages = plane.bytes.len() / plane.strides.page;
        match self.case.pages {
            Pages::Packed => (0..pages).collect(),
            Pages::Spread => {
                spread::places(self.cache.page * self.cache.heads * self.configuration.width, pages)
            }
        }
    }

    /// What a buffer of pages of so many bytes holds on the device.
    fn paged(&self, bytes: &[u8], page: usize) -> Content {
        if self.case.pages == Pages::Packed {
            return Content::Input(bytes.to_vec());
        }
        let places = self.places();
        let last = places.iter().max().map_or(0, |last| last + 1);
        let pieces =
            places.iter().zip(bytes.chunks(page)).map(|(place, piece)| (place * page, piece.to_vec()));
        Content::Sparse(last * page, pieces.collect())
    }

    /// The pages of each request on the device; of a sparse case its slots, counted over all pages.
    fn device_table(&self) -> impl Iterator<Item = usize> + '_ {
        let (places, page, most) = (self.places(), self.cache.page, self.most_pages());
        let of_device = move |at: usize| match self.cache.by_slot {
            true => places[at / page] * page + at % page,
            false => places[at],
        };
        // Behind the last page of a request is no page that exists.
        let line = move |pages: &'_ Vec<usize>| -> Vec<usize> {
            (0..most).map(|at| pages.get(at).map_or(usize::MAX, |page| of_device(*page))).collect()
        };
        self.cache.table.iter().flat_map(line)
    }

    /// The values of the expressions and of the arguments of both launches.
    pub(super) fn names(&self) -> Names {
        let counts = [self.tiles().len(), self.most_pages()];
        names(
            &self.case,
            self.configuration,
            &self.cache.planes,
            counts,
            [self.scale, self.value_scale, self.query_factor],
        )
    }

    /// The queries that a kernel quantized.
    fn quantized(stored: &Stored) -> Option<Quantized> {
        let of = |name: &str| stored.get(name).cloned();
        Some(Quantized { codes: of("query_codes")?, scales: of("query_scales")? })
    }

    /// Judges the quantized queries, element by element.
    fn queries(&self, stored: &Stored) -> Tally {
        let Some(quantized) = Self::quantized(stored) else { return Tally::default() };
        let heads = self.case.heads;
        let one = |(request, row, head): (usize, usize, usize)| {
            let line = self.problem.requests[request].rows.start + row;
            let at = (Pair { request, row, head }, line * heads + head);
            quantized.judge(&self.given(line, head), self.query_factor, at)
        };
        self.lines().into_par_iter().map(one).reduce(Tally::default, Tally::join)
    }

    /// The problem of the kernel of partial results: what was stored before it replaces what should be.
    pub(super) fn of_stored(&self, stored: &Stored) -> Problem {
        let problem = self.problem.clone();
        match Self::quantized(stored) {
            Some(quantized) => Problem { queries: Arc::new(quantized.values()), ..problem },
            None => problem,
        }
    }

    /// Every head of every row of every request.
    fn lines(&self) -> Vec<(usize, usize, usize)> {
        let requests = self.problem.requests.iter().enumerate();
        requests
            .flat_map(|(request, of)| {
                let heads = self.case.heads;
                (0..of.rows.len()).flat_map(move |row| (0..heads).map(move |head| (request, row, head)))
            })
            .collect()
    }

    /// Judges the result of each split against the reference on its own keys, without sink and scale of values.
    fn partials(&self, stored: &Stored) -> Tally {
        let (chunk, splits) = self.case.splits();
        let mut tally = Tally::default();
        let of_stored = self.of_stored(stored);
        let (Some(partial), Some(lse)) = (stored.get("partial"), stored.get("partial_lse")) else {
            return tally;
        };
        for split in 0..splits {
            let mut problem = Problem { sinks: Vec::new(), ..of_stored.clone() };
            problem.semantics.value_scale = 1.0;
            problem.semantics.left_out = LeftOut::AllButSplit(split * chunk, chunk);
            let arithmetic = Arithmetic { partials: None, ..self.arithmetic() };
            tally = tally.join(self.rows(&problem, arithmetic, |line| {
                let at = line * splits + split;
                (partial, Element::F32, at, lse, Base::Two)
            }));
        }
        tally
    }

    /// Judges the output against the reference from the inputs, or from quantized queries as they are stored.
    fn merged(&self, stored: &Stored) -> Tally {
        let (Some(out), Some(lse)) = (stored.get("out"), stored.get("lse")) else { return Tally::default() };
        let base = if self.case.natural { Base::E } else { Base::Two };
        let element = self.configuration.types.queries();
        self.rows(&self.of_stored(stored), self.arithmetic(), |line| (out, element, line, lse, base))
    }

    /// Judges every head of every row: `find` returns the bytes of outputs, their type, the index of the row in them, the bytes of
    /// logarithms and their base.
    fn rows<'s>(
        &self,
        problem: &Problem,
        arithmetic: Arithmetic,
        find: impl Fn(usize) -> (&'s Vec<u8>, Element, usize, &'s Vec<u8>, Base) + Sync,
    ) -> Tally {
        let reference = Reference::new(problem, arithmetic);
        let heads = self.case.heads;
        let width = self.configuration.value_width();
        let one = |(request, row, head): (usize, usize, usize)| {
            let of = &problem.requests[request];
            let expected = reference.row(of, row, head);
            let (bytes, element, at, lse, base) = find((of.rows.start + row) * heads + head);
            let pair = Pair { request, row, head };
            let mut tally = Tally::default();
            let value = |bytes: &[u8], element: Element, n: usize| {
                f64::from(element.value(bytes, n).unwrap_or(f32::NAN))
            };
            for (d, expected) in expected.output.iter().enumerate() {
                tally.add((pair, d), expected, value(bytes, element, at * width + d), element);
            }
            let of_lse = expected.lse[1].in_base(base);
            tally.add_lse((pair, width), &of_lse, value(lse, Element::F32, at));
            tally
        };
        self.lines().into_par_iter().map(one).reduce(Tally::default, Tally::join)
    }
}

/// The values of the expressions and of the arguments of both launches: of a case on a configuration, with the number of tiles and the most
/// pages of a request, the factor of scores and that of values.
pub(super) fn names(
    case: &Case,
    configuration: Configuration,
    planes: &[Plane; 2],
    [tiles, most_pages]: [usize; 2],
    [scale_of_scores, value_scale, query_factor]: [f32; 3],
) -> Names {
    let (chunk, splits) = case.splits();
    let bits = |x: f32| x.to_bits() as usize;
    let [keys, values] = planes;
    let scale = |side: usize| planes[side].scales.as_ref().map(|scales| scales.strides);
    let of = |side: usize| {
        let strides = scale(side);
        [
            strides.map_or(0, |strides| strides.page),
            strides.map_or(0, |strides| strides.slot),
            strides.map_or(0, |strides| strides.head),
        ]
    };
    let (key_scales, value_scales) = (of(0), of(1));
    let names = [
        ("rows", case.rows()),
        ("tiles", tiles),
        ("tile", configuration.tile()),
        ("head", configuration.value_width()),
        ("group", case.group()),
        ("heads", case.heads),
        ("kv_heads", case.kv_heads),
        ("page", case.page),
        ("most_pages", most_pages),
        ("chunk", chunk),
        ("splits", splits),
        ("window", case.window.unwrap_or(0)),
        ("causal", usize::from(case.mask == Mask::Causal)),
        ("custom", usize::from(case.mask == Mask::Custom)),
        ("sloped", usize::from(case.slopes)),
        ("scale", bits(scale_of_scores)),
        ("cap", bits(case.cap.unwrap_or(0.0))),
        ("key_page", keys.strides.page),
        ("key_slot", keys.strides.slot),
        ("key_head", keys.strides.head),
        ("key_scale_page", key_scales[0]),
        ("key_scale_slot", key_scales[1]),
        ("key_scale_head", key_scales[2]),
        ("value_page", values.strides.page),
        ("value_slot", values.strides.slot),
        ("value_head", values.strides.head),
        ("value_scale_page", value_scales[0]),
        ("value_scale_slot", value_scales[1]),
        ("value_scale_head", value_scales[2]),
        ("key_swizzled", usize::from(case.key_swizzled && keys.scales.is_some())),
        ("query_factor", bits(query_factor)),
        ("value_swizzled", usize::from(case.swizzled && values.scales.is_some())),
        ("value_offset", values.strides.offset),
        ("has_sinks", usize::from(case.sinks)),
        ("value_scale", bits(value_scale)),
        ("natural", usize::from(case.natural)),
    ];
    names.into_iter().map(|(name, value)| (name, value as u64)).collect()
}

impl stream::Problem for Data {
    fn buffers(&self) -> Vec<(&'static str, Content)> {
        let Self { case, cache, problem, .. } = self;
        let (_, splits) = case.splits();
        let lines = case.rows() * case.heads;
        let width = self.configuration.value_width();
        let starts = problem.requests.iter().map(|request| request.rows.start);
        let of_rows = problem.requests.iter().enumerate().flat_map(|(n, of)| of.rows.clone().map(move |_| n));
        let scales = |side: usize| {
            let scales = cache.planes[side].scales.as_ref();
            let none = || Content::Input(vec![0; 16]);
            scales.map_or_else(none, |scales| self.paged(&scales.bytes, scales.strides.page))
        };
        let codes = |side: usize| self.paged(&cache.planes[side].bytes, cache.planes[side].strides.page);
        let input = |bytes: Vec<u8>| Content::Input(bytes);
        let tiles = self.tiles();
        let mut buffers = vec![
            ("queries", input(self.queries.clone())),
            ("keys", codes(0)),
            ("key_scales", scales(0)),
            ("value_scales", scales(1)),
            ("table", input(words(self.device_table()))),
            ("lengths", input(words(problem.requests.iter().map(|request| request.keys.len())))),
            ("starts", input(words(starts.chain([case.rows()])))),
            ("request_of", input(words(of_rows))),
            ("tile_request", input(words(tiles.iter().map(|(request, _)| *request)))),
            ("tile_row", input(words(tiles.iter().map(|(_, row)| *row)))),
            ("mask", input(self.mask.clone())),
            ("mask_starts", input(words(self.mask_starts.iter().copied()))),
            ("slopes", input(floats(&problem.slopes))),
            ("sinks", input(floats(&problem.sinks))),
            ("partial", Content::Output(lines * splits * width * 4)),
            ("partial_lse", Content::Output(lines * splits * 4)),
            ("out", Content::Output(lines * width * 2)),
            ("lse", Content::Output(lines * 4)),
        ];
        if self.configuration.is_fp4() {
            let elements = lines * self.configuration.width;
            buffers.push(("query_codes", Content::Output(elements / 2)));
            buffers.push(("query_scales", Content::Output(elements / BLOCK)));
        }
        if !self.has_one_tensor() {
            buffers.push(("values", codes(1)));
        }
        buffers
    }

    fn needs(&self, input: &str) -> bool {
        let kernel = self.configuration.kernel;
        let has_scales = |side: usize| self.cache.planes[side].scales.is_some();
        match input {
            "mask" | "mask_starts" => self.case.mask == Mask::Custom,
            "slopes" => self.case.slopes,
            "sinks" => self.case.sinks,
            "key_scales" => has_scales(0),
            "value_scales" => has_scales(1),
            "request_of" => kernel == Kernel::Decode,
            "tile_request" | "tile_row" => matches!(kernel, Kernel::Prefill | Kernel::PrefillFp4),
            "starts" => kernel != Kernel::Mla,
            _ => true,
        }
    }

    fn steps(&self) -> Vec<Step> {
        let names = self.names();
        let values = if self.has_one_tensor() { "keys" } else { "values" };
        let step = |(kernel, stage): (usize, &str)| {
            let buffers = if stage == PARTIALS { vec![("values", values)] } else { Vec::new() };
            Step { stage: stage.to_owned().into(), kernel, names: names.clone(), buffers }
        };
        let stages = self.configuration.launches().into_iter().map(|launched| launched.stage);
        stages.enumerate().map(step).collect()
    }

    fn bytes_of(&self, stage: &StageName, place: &Place) -> Option<(&'static str, Range<usize>)> {
        let at = |axis: &str| place.index(axis);
        let request = self.problem.requests.get(at("request")?)?;
        let line = (request.rows.start + at("row")?) * self.case.heads + at("head")?;
        let width = self.configuration.value_width();
        let element = |buffer: &'static str, index: usize, bytes: usize| {
            Some((buffer, index * bytes..(index + 1) * bytes))
        };
        // A logarithm stands behind the elements of its row. Of several splits the place does not tell which.
        match at("d") {
            Some(d) if *stage == *OUTPUT && d < width => element("out", line * width + d, 2),
            _ if *stage == *OUTPUT => element("lse", line, 4),
            Some(d) if *stage == *PARTIALS && self.case.splits().1 == 1 && d < width => {
                element("partial", line * width + d, 4)
            }
            _ => None,
        }
    }

    fn stage_of(&self, buffer: &str) -> StageName {
        match buffer {
            "query_codes" | "query_scales" => QUERIES.into(),
            "partial" | "partial_lse" => PARTIALS.into(),
            _ => OUTPUT.into(),
        }
    }

    fn judge(&self, stored: &Stored) -> Vec<StageResult> {
        let queries = self.configuration.is_fp4().then(|| self.queries(stored).result(QUERIES, ""));
        let partials = self.partials(stored).result(PARTIALS, "");
        queries.into_iter().chain([partials, self.merged(stored).result(OUTPUT, "")]).collect()
    }
}

/// Whether the kernel of a configuration reads tables as a case has them.
pub(super) fn fits(case: &Case, configuration: Configuration) -> bool {
    case.sparse == (configuration.kernel == Kernel::Mla)
}

/// Why no kernel computes a case on a configuration; `None` if one does.
pub(super) fn blocked(case: &Case, configuration: Configuration) -> Option<String> {
    if !fits(case, configuration) {
        let reason = if case.sparse {
            "the kernel has no table of slots for each row"
        } else {
            "the kernel reads a table of slots for each row, of sparse cases"
        };
        return Some(reason.to_owned());
    }
    if configuration.is_fp4() {
        let lacking = match () {
            () if !case.page.is_multiple_of(BLOCK) => Some(format!(
                "{BLOCK} keys share a scale of values, and pages of {} slots divide them",
                case.page
            )),
            () if case.layout == Layout::Halves => {
                Some("its values are columns of keys, which have no place beside a key".to_owned())
            }
            () if case.swizzled => {
                Some("scales of its values belong to keys: they have no 4x4 tiles".to_owned())
            }
            () => None,
        };
        if lacking.is_some() {
            return lacking;
        }
    }
    let blocks = configuration.width / BLOCK;
    // Tiles of 4 slots by 4 blocks.
    let swizzled = case.swizzled || case.key_swizzled;
    let uneven = configuration.types == Types::Nvfp4 && swizzled && !blocks.is_multiple_of(4);
    uneven.then(|| format!("{blocks} blocks of a head are no multiple of 4, which swizzled scales need"))
}

/// The values of the expressions of headers that say what a CTA takes.
pub(super) fn sizes(case: &Case, configuration: Configuration) -> Names {
    let names =
        [("tile", configuration.tile()), ("head", configuration.value_width()), ("group", case.group())];
    names.into_iter().map(|(name, value)| (name, value as u64)).collect()
}

/// Problems of other data for the same launches.
pub(super) fn shared(data: Data) -> Arc<dyn stream::Problem> {
    Arc::new(data)
}
