//! Keys and values in the layouts of libraries: ragged, paged, stacked, with strides.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    AttentionError, BLOCK, Cache, Element, Factors, File, Order, Plane, ScaleOf, ScaleOrder, Scales, Strides,
    ValueOrder, Written, mla,
};

const SIDES: [&str; 2] = ["keys", "values"];

/// A tensor of both sides, or of one.
struct Region {
    /// Our name of the tensor.
    tensor: &'static str,
    strides: Strides,
    width: usize,
}

impl File<'_> {
    /// The cache, and the width of a value.
    pub(super) fn cache(&mut self, width: usize) -> Result<(Cache, usize), AttentionError> {
        if self.get("k").is_some() || self.get("v").is_some() {
            if let Some(paged) =
                ["k_cache", "v_cache", "kv_cache"].into_iter().find(|name| self.get(name).is_some())
            {
                return Err(self.both("k", paged));
            }
            return self.ragged_cache(width);
        }
        match self.word("record", mla::Layout::ALL, mla::Layout::word)? {
            Some(layout) => self.records(layout, width),
            None => self.paged_cache(width),
        }
    }

    /// Records of latent attention: `kv_cache`, bytes, [pages, …] with all bytes of a page, padding included.
    fn records(&mut self, layout: mla::Layout, width: usize) -> Result<(Cache, usize), AttentionError> {
        let shape = self.need("kv_cache", "records are in one tensor")?.shape().to_vec();
        if width != layout.width() {
            let wanted =
                format!("{} elements of a head, as a record `{}` has", layout.width(), layout.word());
            return Err(self.wrong_shape("q", wanted));
        }
        let missing = || AttentionError::Missing {
            name: "kv_cache",
            remedy: "records need metadata page_size, the slots of a page".to_owned(),
        };
        let page: usize = self.number("page_size")?.ok_or_else(missing)?;
        let bytes = self.bytes("kv_cache");
        let of_page = bytes.len() / shape.first().copied().unwrap_or(1).max(1);
        if shape.len() < 2 || of_page < layout.page(page) {
            let wanted =
                format!("[pages, …] with at least {} bytes for a page of {page} slots", layout.page(page));
            return Err(self.wrong_shape("kv_cache", wanted));
        }
        let value_width = self.number("value_width")?.unwrap_or(layout.value_width());
        if value_width > layout.width() {
            return Err(self.wrong_key("value_width", format!("at most {}", layout.width())));
        }
        let plane = |width: usize| Plane {
            name: "kv_cache",
            element: Element::E4m3,
            bytes: Arc::clone(&bytes),
            strides: Strides { offset: 0, page: of_page, slot: layout.row(), head: 0 },
            width,
            scales: None,
            factors: None,
            odd_first: false,
            scale_of: ScaleOf::Own,
            scale_shift: 0,
            transposed: false,
            record: Some((layout, mla::Reading::default())),
        };
        let planes = [plane(width), plane(value_width)];
        let cache = Cache {
            planes,
            heads: 1,
            page,
            table: Vec::new(),
            by_slot: false,
            is_permuted: false,
            key_shift: [0; 2],
            value_table: None,
        };
        Ok((cache, value_width))
    }

    /// What a writer stored.
    pub(super) fn written(&mut self) -> Result<Written, AttentionError> {
        let remedy = "`slot_mapping` needs the new keys and values, [tokens, heads, elements]";
        let shape = self.need("k", remedy)?.shape().to_vec();
        let values = self.need("v", remedy)?.shape().to_vec();
        let &[tokens, heads, width] = shape.as_slice() else {
            return Err(self.wrong_shape("k", "[tokens, heads, elements]"));
        };
        if values != shape {
            return Err(self.wrong_shape("v", format!("{shape:?}, as `k` is")));
        }
        let (cache, value_width) = self.paged_cache(width)?;
        if (cache.heads, value_width) != (heads, width) {
            return Err(self.wrong_shape(
                "k",
                format!("{} heads of {value_width} elements, as the cache has", cache.heads),
            ));
        }
        let slots = self.integers("slot_mapping")?.unwrap_or_default();
        if slots.len() != tokens {
            return Err(self.wrong_shape("slot_mapping", format!("{tokens} elements, one for each token")));
        }
        let plane = &cache.planes[0];
        let pages =
            plane.bytes.len().saturating_sub(plane.strides.offset).div_ceil(plane.strides.page.max(1));
        for (token, slot) in slots.iter().enumerate() {
            if *slot >= (pages * cache.page) as i64 {
                let wanted = format!("the cache has {pages} pages of {} slots: export all of it", cache.page);
                return Err(self.wrong_value("slot_mapping", token, *slot, wanted));
            }
        }
        let mut owners = BTreeMap::new();
        for (token, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
            if let Some(other) = owners.insert(*slot, token) {
                let wanted = format!(
                    "token {other} has it, too, so that either may be in the cache: dump one of them"
                );
                return Err(self.wrong_value("slot_mapping", token, *slot, wanted));
            }
        }
        let [_, k_scale, v_scale, k_global, v_global] = self.scales()?;
        let factors = match plane.element {
            Element::Nvfp4 => [k_scale * k_global, v_scale * v_global],
            _ => [k_scale, v_scale],
        };
        let sources = [Arc::new(self.floats("k")?), Arc::new(self.floats("v")?)];
        Ok(Written { cache, sources, slots, factors, case: self.metadata_value("case").map(str::to_owned) })
    }

    /// A cache of pages, and the width of a value.
    fn paged_cache(&mut self, width: usize) -> Result<(Cache, usize), AttentionError> {
        let stacked = self.get("kv_cache").is_some();
        if stacked && (self.get("k_cache").is_some() || self.get("v_cache").is_some()) {
            return Err(AttentionError::Twice { first: "kv_cache".into(), second: "k_cache".into() });
        }
        if !stacked {
            let remedy = "keys are needed: `k` with `v`, `k_cache` with `v_cache`, or `kv_cache`";
            self.need("k_cache", remedy)?;
            self.need("v_cache", "`k_cache` needs the values as well")?;
        }
        let name = if stacked { "kv_cache" } else { "k_cache" };
        let element = self.element(name, "kv_format")?;
        let order = match self.word("kv_layout", Order::ALL, Order::word)? {
            Some(order) => order,
            None => {
                // Strides say it all.
                if self.metadata_value("k_strides").is_none() {
                    self.undeclared("kv_layout", vec!["NHD", "HND"]);
                }
                Order::Nhd
            }
        };
        let (page, heads, [keys, values]) =
            if stacked { self.stacked(element, order, width)? } else { self.apart(element, order, width)? };
        let value_width = values.width;
        let columns = self.columns(element, stacked, page)?;
        let mut planes = [
            self.plane(0, keys, element, (page, heads, order))?,
            self.plane(1, values, element, (page, heads, order))?,
        ];
        if columns {
            let of = |slots_of_byte| Strides::of_columns(page, heads, value_width, slots_of_byte);
            planes[1].transposed = true;
            planes[1].strides = of(2);
            planes[1].scales.iter_mut().for_each(|scales| scales.strides = of(BLOCK));
        }
        for (side, key) in [(0, "k_strides"), (1, "v_strides")] {
            if let Some(strides) = self.strides(key, element)? {
                planes[side].strides = strides;
            }
        }
        Ok((
            Cache {
                planes,
                heads,
                page,
                table: Vec::new(),
                by_slot: false,
                is_permuted: false,
                key_shift: [0; 2],
                value_table: None,
            },
            value_width,
        ))
    }

    /// Whether values are declared to be columns of slots.
    fn is_columns(&self) -> Result<bool, AttentionError> {
        Ok(self.word("v_order", ValueOrder::ALL, ValueOrder::word)? == Some(ValueOrder::Columns))
    }

    /// Whether values are columns of slots, as a cache may have them.
    fn columns(&self, element: Element, stacked: bool, page: usize) -> Result<bool, AttentionError> {
        if !self.is_columns()? {
            return Ok(false);
        }
        let wanted = match () {
            () if element != Element::Nvfp4 => "rows: columns are of NVFP4 caches".to_owned(),
            () if stacked => "rows: columns need `k_cache` and `v_cache`, for keys are rows".to_owned(),
            () if !page.is_multiple_of(BLOCK) => {
                format!("rows: {BLOCK} slots share a scale of a column, and a page has {page}")
            }
            () => return Ok(true),
        };
        Err(self.wrong_key("v_order", wanted))
    }

    /// `k` and `v`: [keys, heads, elements].
    fn ragged_cache(&mut self, width: usize) -> Result<(Cache, usize), AttentionError> {
        let remedy = "`k` and `v` belong together";
        let shapes = [self.need("k", remedy)?.shape().to_vec(), self.need("v", remedy)?.shape().to_vec()];
        let element = self.element("k", "kv_format")?;
        let (&[keys, heads, of_keys], &[of_values, v_heads, of_row]) =
            (shapes[0].as_slice(), shapes[1].as_slice())
        else {
            let name = if shapes[0].len() == 3 { "v" } else { "k" };
            return Err(self.wrong_shape(name, "[keys, heads, elements]"));
        };
        if (of_values, v_heads) != (keys, heads) {
            return Err(self.wrong_shape("v", format!("[{keys}, {heads}, elements], as `k` is")));
        }
        let unpack = |stored: usize| if element == Element::Nvfp4 { stored * 2 } else { stored };
        if unpack(of_keys) != width {
            return Err(self.wrong_shape("k", format!("{width} elements of a head, as `q` has")));
        }
        let value_width = unpack(of_row);
        let mut plane = |side: usize, tensor: &'static str, width: usize| {
            let strides = Strides::dense(Order::Nhd, 1, heads, element.bytes(width));
            self.plane(side, Region { tensor, strides, width }, element, (1, heads, Order::Nhd))
        };
        let planes = [plane(0, "k", width)?, plane(1, "v", value_width)?];
        // Each key is a page of one slot.
        let table = vec![(0..keys).collect()];
        Ok((
            Cache {
                planes,
                heads,
                page: 1,
                table,
                by_slot: false,
                is_permuted: false,
                key_shift: [0; 2],
                value_table: None,
            },
            value_width,
        ))
    }

    /// The number of slots and heads of a page, whose middle dimensions are these.
    fn page_of(&self, order: Order, middle: [usize; 2]) -> Result<(usize, usize), AttentionError> {
        let (page, heads) = match order {
            Order::Nhd => (middle[0], middle[1]),
            Order::Hnd => (middle[1], middle[0]),
        };
        Ok((self.number("page_size")?.unwrap_or(page), self.number("kv_heads")?.unwrap_or(heads)))
    }

    /// `k_cache` and `v_cache`: four dimensions, or any number of them with strides.
    fn apart(
        &mut self,
        element: Element,
        order: Order,
        width: usize,
    ) -> Result<(usize, usize, [Region; 2]), AttentionError> {
        let shape = self.need("k_cache", "")?.shape().to_vec();
        let of_values = self.need("v_cache", "")?.shape().to_vec();
        let unpack = |stored: usize| if element == Element::Nvfp4 { stored * 2 } else { stored };
        if self.metadata_value("k_strides").is_some() {
            let missing = |key: &'static str| AttentionError::Missing {
                name: key,
                remedy: "`k_strides` needs metadata page_size and kv_heads".to_owned(),
            };
            let page = self.number("page_size")?.ok_or_else(|| missing("page_size"))?;
            let heads = self.number("kv_heads")?.ok_or_else(|| missing("kv_heads"))?;
            let region = |tensor| Region {
                tensor,
                strides: Strides::dense(order, page, heads, element.bytes(width)),
                width,
            };
            return Ok((page, heads, [region("k_cache"), region("v_cache")]));
        }
        let &[_, a, b, stored] = shape.as_slice() else {
            return Err(self.wrong_shape(
                "k_cache",
                "[pages, slots, heads, elements] or [pages, heads, slots, elements], or strides in the metadata",
            ));
        };
        if unpack(stored) != width {
            return Err(self.wrong_shape("k_cache", format!("{width} elements of a head, as `q` has")));
        }
        let (page, heads) = self.page_of(order, [a, b])?;
        let is_columns = self.is_columns()?;
        let value_width = match *of_values.as_slice() {
            [pages, of_heads, elements, slots] if is_columns => {
                if (pages, of_heads, slots) != (shape[0], heads, page / 2) {
                    let wanted =
                        format!("[{}, {heads}, elements, {}], as v_order is columns", shape[0], page / 2);
                    return Err(self.wrong_shape("v_cache", wanted));
                }
                elements
            }
            [.., of_row] if of_values.len() == 4 && of_values[..3] == shape[..3] => unpack(of_row),
            _ => {
                let wanted = format!("{:?} and the elements of a value", &shape[..3]);
                return Err(self.wrong_shape("v_cache", wanted));
            }
        };
        self.fits("k_cache", order, [a, b], (page, heads))?;
        let region = |tensor, width: usize| Region {
            tensor,
            strides: Strides::dense(order, page, heads, element.bytes(width)),
            width,
        };
        Ok((page, heads, [region("k_cache", width), region("v_cache", value_width)]))
    }

    /// Checks that declared slots and heads are those of the shape.
    fn fits(
        &self,
        name: &str,
        order: Order,
        [a, b]: [usize; 2],
        (page, heads): (usize, usize),
    ) -> Result<(), AttentionError> {
        let said = match order {
            Order::Nhd => (a, b),
            Order::Hnd => (b, a),
        };
        // Without a declared layout either dimension may be the slots; the product must be right.
        let fits = match self.metadata_value("kv_layout") {
            Some(_) => said == (page, heads),
            None => a * b == page * heads,
        };
        if fits {
            return Ok(());
        }
        let wanted = format!(
            "{page} slots and {heads} heads by the metadata: correct page_size, kv_heads or kv_layout"
        );
        Err(self.wrong_shape(name, wanted))
    }

    /// `kv_cache`: keys and values on dimension 1, on dimension 0 or in halves of the last one.
    fn stacked(
        &mut self,
        element: Element,
        order: Order,
        width: usize,
    ) -> Result<(usize, usize, [Region; 2]), AttentionError> {
        let shape = self.need("kv_cache", "")?.shape().to_vec();
        let unpack = |stored: usize| if element == Element::Nvfp4 { stored * 2 } else { stored };
        let row = element.bytes(width);
        let at = match self.metadata_value("stacked") {
            Some("pages") => Some(0),
            Some("sides") => Some(1),
            Some("halves") => Some(2),
            Some(_) => {
                let wanted =
                    "pages ([pages, 2, …]), sides ([2, pages, …]) or halves ([pages, …, 2·elements])";
                return Err(self.wrong_key("stacked", wanted));
            }
            None => match shape.as_slice() {
                [2, 2, ..] => None,
                [_, 2, _, _, _] => Some(0),
                [2, _, _, _, _] => Some(1),
                [_, _, _, _] => Some(2),
                _ => None,
            },
        };
        let wanted = "[pages, 2, …], [2, pages, …] or [pages, …, 2·elements]; where two fit, metadata `stacked` pages, sides or halves says which";
        let (middle, stored, dims) = match (at, shape.as_slice()) {
            (Some(0), &[_, 2, a, b, stored]) => ([a, b], stored, (1, 2)),
            (Some(1), &[2, pages, a, b, stored]) => ([a, b], stored, (pages, 1)),
            (Some(2), &[_, a, b, stored]) if stored % 2 == 0 => ([a, b], stored / 2, (0, 0)),
            _ => return Err(self.wrong_shape("kv_cache", wanted)),
        };
        if unpack(stored) != width {
            return Err(self.wrong_shape("kv_cache", format!("{width} elements of a head, as `q` has")));
        }
        let (page, heads) = self.page_of(order, middle)?;
        self.fits("kv_cache", order, middle, (page, heads))?;
        let plane = page * heads * row;
        let strides = |side: usize| match dims {
            // Halves of each head's row.
            (0, _) => {
                let dense = Strides::dense(order, page, heads, 2 * row);
                Strides { offset: side * row, ..dense }
            }
            (apart, pages) => {
                let dense = Strides::dense(order, page, heads, row);
                Strides { offset: side * plane * apart, page: plane * pages, ..dense }
            }
        };
        let region = |side| Region { tensor: "kv_cache", strides: strides(side), width };
        Ok((page, heads, [region(0), region(1)]))
    }

    /// `offset,page,slot,head` or `page,slot,head`, in elements.
    fn strides(&self, key: &str, element: Element) -> Result<Option<Strides>, AttentionError> {
        let Some(said) = self.metadata_value(key) else { return Ok(None) };
        let wanted = || {
            self.wrong_key(key, "page,slot,head or offset,page,slot,head in elements, such as 8192,128,2048")
        };
        let parts: Vec<usize> = said
            .split(',')
            .map(|part| part.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(|_| wanted())?;
        // More than any memory: products with them must not overflow.
        if parts.iter().any(|part| *part > 1 << 40) {
            return Err(wanted());
        }
        let parts: Vec<usize> = parts.into_iter().map(|elements| element.bytes(elements)).collect();
        match *parts.as_slice() {
            [page, slot, head] => Ok(Some(Strides { offset: 0, page, slot, head })),
            [offset, page, slot, head] => Ok(Some(Strides { offset, page, slot, head })),
            _ => Err(wanted()),
        }
    }

    /// A plane with its scales.
    fn plane(
        &mut self,
        side: usize,
        region: Region,
        element: Element,
        (page, heads, order): (usize, usize, Order),
    ) -> Result<Plane, AttentionError> {
        let (of_blocks, of_side) = (["k_scales", "v_scales"][side], ["k_scale", "v_scale"][side]);
        let data = self.bytes(region.tensor);
        let mut scales = None;
        if element == Element::Nvfp4 {
            let remedy = format!("the ue4m3 scales of the {}' blocks of 16 are needed", SIDES[side]);
            self.need(of_blocks, &remedy)?;
            let bytes = self.bytes(of_blocks);
            let blocks = region.width / BLOCK;
            let count = bytes.len();
            let pages = data.len() / (page * heads * element.bytes(region.width)).max(1);
            if !count.is_multiple_of((page * heads * blocks).max(1)) || count < page * heads * blocks {
                let wanted =
                    format!("{blocks} bytes for each of {heads} heads of {page} slots of {pages} pages");
                return Err(self.wrong_shape(of_blocks, wanted));
            }
            let strides = Strides::dense(order, page, heads, blocks);
            let key = ["k_scale_layout", "v_scale_layout"][side];
            let declared = self.word(key, ScaleOrder::ALL, ScaleOrder::word)?;
            let is_columns = side == 1 && self.is_columns()?;
            if is_columns && declared.is_some_and(|order| order != ScaleOrder::Linear) {
                return Err(self.wrong_key(key, "linear: scales of columns have no tiles"));
            }
            if declared.is_none() && !is_columns && page.is_multiple_of(4) && blocks.is_multiple_of(4) {
                self.undeclared(key, vec!["linear", "swizzled"]);
            }
            scales = Some(Scales { bytes, strides, order: declared.unwrap_or(ScaleOrder::Linear) });
        } else if self.get(of_blocks).is_some() {
            return Err(self.wrong_type(of_blocks, "absent: only NVFP4 has scales of blocks"));
        }
        // A stacked tensor has both sides.
        let sides = if region.tensor == "kv_cache" { 2 } else { 1 };
        let rows = data.len() / element.bytes(region.width).max(1) / sides;
        let factors = self.factors(of_side, rows, (page, heads, order))?;
        Ok(Plane {
            name: region.tensor,
            element,
            bytes: data,
            strides: region.strides,
            width: region.width,
            scales,
            factors,
            odd_first: false,
            scale_of: ScaleOf::Own,
            scale_shift: 0,
            transposed: false,
            record: None,
        })
    }

    /// `k_scale` or `v_scale` with more than one number: one for each head, or for each slot and head.
    fn factors(
        &self,
        name: &'static str,
        rows: usize,
        (page, heads, order): (usize, usize, Order),
    ) -> Result<Option<Factors>, AttentionError> {
        let floats = self.floats(name)?;
        if let Some(index) = floats.iter().position(|x| !x.is_finite() || *x < 0.0) {
            let wanted = "a scale is a positive number; slots without one have 0 or 1";
            return Err(self.wrong_number(name, index, floats[index], wanted));
        }
        let bytes = || Arc::new(floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        match floats.len() {
            0 | 1 => Ok(None),
            len if len == heads => Ok(Some(Factors {
                bytes: bytes(),
                strides: Strides { offset: 0, page: 0, slot: 0, head: 4 },
            })),
            len if len == rows => {
                Ok(Some(Factors { bytes: bytes(), strides: Strides::dense(order, page, heads, 4) }))
            }
            _ => {
                let wanted = format!("one number, {heads} for the heads, or {rows} for slots and heads");
                Err(self.wrong_shape(name, wanted))
            }
        }
    }
}
