//! What a file declares: requests, masks, results, semantics and arithmetic.

use std::sync::Arc;

use safetensors::Dtype;

use super::{
    Arithmetic, AttentionError, Base, Cache, Denominator, Element, Empty, FactorRule, File, Folded, Kernel,
    Lists, LseQuantity, LseReading, Mask, ProductSum, Request, Semantics, Shape, Stored, StoredLse, TwoLevel,
    mla,
};

/// The pages of each request, of keys and of values, and its length.
struct Paged {
    tables: [Vec<Vec<usize>>; 2],
    lengths: Vec<usize>,
}

impl File<'_> {
    /// The requests: rows of queries, lengths and pages.
    pub(super) fn lists(&self, rows: usize, cache: &Cache) -> Result<Lists, AttentionError> {
        if let Some(lists) = self.sparse(rows, cache)? {
            return Ok(lists);
        }
        let of_rows = self.ranges("qo_indptr", rows, "rows of queries")?;
        if let Some(Paged { tables, lengths }) = self.pages(cache)? {
            let of_rows = match of_rows {
                Some(of_rows) => of_rows,
                // Without pointers every request has as many rows as the others, one when it decodes.
                None if rows.is_multiple_of(lengths.len().max(1)) => {
                    let each = rows / lengths.len().max(1);
                    (0..lengths.len()).map(|at| at * each..(at + 1) * each).collect()
                }
                None => return Err(self.ragged(rows, lengths.len())),
            };
            if of_rows.len() != lengths.len() {
                let wanted = format!("{} elements, one more than requests with keys", lengths.len() + 1);
                return Err(self.wrong_shape("qo_indptr", wanted));
            }
            return Ok(Lists {
                rows: of_rows,
                lengths,
                by_slot: false,
                pages: Some(tables),
                places: Vec::new(),
            });
        }
        let keys = cache.table.first().map_or(0, Vec::len);
        let of_keys = self.ranges("kv_indptr", keys, "keys")?;
        let of_keys = match of_keys {
            Some(of_keys) => of_keys,
            None => std::iter::once(0..keys).collect(),
        };
        let of_rows = match of_rows {
            Some(of_rows) => of_rows,
            None if of_keys.len() == 1 => std::iter::once(0..rows).collect(),
            None if rows == of_keys.len() => (0..rows).map(|row| row..row + 1).collect(),
            None => return Err(self.ragged(rows, of_keys.len())),
        };
        if of_rows.len() != of_keys.len() {
            return Err(
                self.wrong_shape("qo_indptr", format!("{} elements, as `kv_indptr` has", of_keys.len() + 1))
            );
        }
        let lengths = of_keys.iter().map(ExactSizeIterator::len).collect();
        let table: Vec<Vec<usize>> = of_keys.into_iter().map(Iterator::collect).collect();
        Ok(Lists {
            rows: of_rows,
            lengths,
            by_slot: false,
            pages: Some([table.clone(), table]),
            places: Vec::new(),
        })
    }

    /// The slots that each row of a sparse attention reads: every row is a request of its own.
    fn sparse(&self, rows: usize, cache: &Cache) -> Result<Option<Lists>, AttentionError> {
        let Some(all) = self.integers("topk_indices")? else { return Ok(None) };
        let shape = self.need("topk_indices", "")?.shape().to_vec();
        // Some libraries have a dimension for the head of keys.
        let (found, most) = match *shape.as_slice() {
            [found, most] | [found, 1, most] => (found, most),
            _ => return Err(self.wrong_shape("topk_indices", "[rows, slots]")),
        };
        if found != rows {
            return Err(self.wrong_shape("topk_indices", format!("{rows} rows, as `q` has")));
        }
        let lengths = self.integers("topk_length")?;
        if let Some(lengths) = &lengths
            && lengths.len() != rows
        {
            return Err(self.wrong_shape("topk_length", format!("{rows} elements, one for each row")));
        }
        let plane = &cache.planes[0];
        let left = plane.bytes.len().saturating_sub(plane.strides.offset);
        let slots = left.div_ceil(plane.strides.page.max(1)) * cache.page;
        let (mut table, mut places) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let count = match lengths.as_ref().map(|lengths| lengths[row]) {
                None => most,
                Some(length) => {
                    usize::try_from(length).ok().filter(|count| *count <= most).ok_or_else(|| {
                        self.wrong_value("topk_length", row, length, format!("a row has {most} indices"))
                    })?
                }
            };
            let (mut of_row, mut places_of_row) = (Vec::new(), Vec::new());
            for index in row * most..row * most + count {
                // −1 pads a row.
                match all.get(index).copied().unwrap_or(-1) {
                    -1 => {}
                    slot if usize::try_from(slot).is_ok_and(|slot| slot < slots) => {
                        of_row.push(slot as usize);
                        places_of_row.push(index - row * most);
                    }
                    slot => {
                        let wanted = format!("the cache has {slots} slots, and -1 pads a row");
                        return Err(self.wrong_value("topk_indices", index, slot, wanted));
                    }
                }
            }
            table.push(of_row);
            places.push(places_of_row);
        }
        let lengths = table.iter().map(Vec::len).collect();
        let rows = (0..rows).map(|row| row..row + 1).collect();
        Ok(Some(Lists { rows, lengths, by_slot: true, pages: Some([table.clone(), table]), places }))
    }

    fn ragged(&self, rows: usize, requests: usize) -> AttentionError {
        AttentionError::Missing {
            name: "qo_indptr",
            remedy: format!("{rows} rows of queries cannot be divided among {requests} requests without it"),
        }
    }

    /// The pages of each request, of keys and of values, and its length, in either form of table.
    fn pages(&self, cache: &Cache) -> Result<Option<Paged>, AttentionError> {
        let page = cache.page.max(1);
        if let Some(indices) = self.integers("kv_indices")? {
            if self.get("block_table").is_some() {
                return Err(self.both("kv_indices", "block_table"));
            }
            self.need("kv_indptr", "`kv_indices` needs the first index of each request")?;
            let ranges = self.ranges("kv_indptr", indices.len(), "indices of pages")?.unwrap_or_default();
            let last = self.integers("kv_last_page_len")?;
            if last.is_none() && page > 1 {
                self.need("kv_last_page_len", "the keys in the last page of each request are needed")?;
            }
            if let Some(last) = &last
                && last.len() != ranges.len()
            {
                let wanted = format!("{} elements, one for each request", ranges.len());
                return Err(self.wrong_shape("kv_last_page_len", wanted));
            }
            let (mut table, mut lengths) = (Vec::new(), Vec::new());
            for (request, range) in ranges.into_iter().enumerate() {
                // The last page of a request without pages is not used.
                let length = match last.as_ref().map(|last| last[request]) {
                    _ if range.is_empty() => 0,
                    None => range.len(),
                    Some(keys) if (1..=page as i64).contains(&keys) => {
                        (range.len() - 1) * page + keys as usize
                    }
                    Some(keys) => {
                        let wanted = format!("a page has {page} slots, so that it must be 1 to {page}");
                        return Err(self.wrong_value("kv_last_page_len", request, keys, wanted));
                    }
                };
                lengths.push(length);
                table.push(self.checked("kv_indices", &indices, range, cache)?);
            }
            return Ok(Some(Paged { tables: [table.clone(), table], lengths }));
        }
        let Some(all) = self.integers("block_table")? else { return Ok(None) };
        let shape = self.need("block_table", "")?.shape().to_vec();
        // XQA has pages of keys and of values apart: [requests, 2, pages].
        let (requests, sides, most) = match *shape.as_slice() {
            [requests, most] => (requests, 1, most),
            [requests, 2, most] => (requests, 2, most),
            _ => return Err(self.wrong_shape("block_table", "[requests, pages] or [requests, 2, pages]")),
        };
        self.need("seq_lens", "`block_table` needs the keys of each request")?;
        let lengths = self.integers("seq_lens")?.unwrap_or_default();
        if lengths.len() != requests {
            let wanted = format!("{requests} elements, as `block_table` has rows");
            return Err(self.wrong_shape("seq_lens", wanted));
        }
        let mut tables = [Vec::new(), Vec::new()];
        let mut keys = Vec::new();
        for (request, length) in lengths.into_iter().enumerate() {
            let Ok(length_of) = usize::try_from(length) else {
                return Err(self.wrong_value("seq_lens", request, length, "it must not be negative"));
            };
            let pages = length_of.div_ceil(page);
            if pages > most {
                let wanted = format!(
                    "{most} pages of {page} slots hold fewer keys: export the whole table, or correct page_size"
                );
                return Err(self.wrong_value("seq_lens", request, length, wanted));
            }
            keys.push(length_of);
            for (side, table) in tables.iter_mut().enumerate() {
                let first = (request * sides + side.min(sides - 1)) * most;
                table.push(self.checked("block_table", &all, first..first + pages, cache)?);
            }
        }
        Ok(Some(Paged { tables, lengths: keys }))
    }

    /// Page numbers that exist.
    fn checked(
        &self,
        name: &str,
        all: &[i64],
        range: std::ops::Range<usize>,
        cache: &Cache,
    ) -> Result<Vec<usize>, AttentionError> {
        let plane = &cache.planes[0];
        let left = plane.bytes.len().saturating_sub(plane.strides.offset);
        let pages = left.div_ceil(plane.strides.page.max(1));
        let of = |index: usize| {
            let page = all.get(index).copied().unwrap_or(-1);
            match usize::try_from(page) {
                Ok(page) if page < pages => Ok(page),
                _ => Err(self.wrong_value(
                    name,
                    index,
                    page,
                    format!("the cache has {pages} pages: correct the table, or export the whole cache"),
                )),
            }
        };
        range.map(of).collect()
    }

    /// The bits of custom masks, in one of three forms.
    pub(super) fn mask(&self, requests: &mut [Request]) -> Result<Vec<bool>, AttentionError> {
        let total: usize = requests.iter().map(|request| request.rows.len() * request.keys.len()).sum();
        if let Some(view) = self.get("custom_mask") {
            if !matches!(view.dtype(), Dtype::BOOL | Dtype::U8 | Dtype::I8) {
                return Err(self.wrong_type("custom_mask", "BOOL or U8, a byte for each row and key"));
            }
            if view.data().len() != total {
                let wanted =
                    format!("{total} elements: rows times keys of each request, one after the other");
                return Err(self.wrong_shape("custom_mask", wanted));
            }
            return Ok(view.data().iter().map(|byte| *byte != 0).collect());
        }
        if let Some(view) = self.get("packed_custom_mask") {
            let bytes = view.data();
            let pointers = self.integers("mask_indptr")?;
            let (mut bits, mut next) = (Vec::with_capacity(total), 0);
            for (index, request) in requests.iter_mut().enumerate() {
                // Each request begins on a byte.
                let first = match &pointers {
                    Some(pointers) => {
                        pointers.get(index).and_then(|at| usize::try_from(*at).ok()).ok_or_else(|| {
                            self.wrong_shape("mask_indptr", format!("at least {} elements", index + 1))
                        })?
                    }
                    None => next,
                };
                let size = request.rows.len() * request.keys.len();
                next = first + size.div_ceil(8);
                let Some(of_request) = bytes.get(first..next) else {
                    let wanted =
                        format!("at least {next} bytes: bit row·keys + key of each request, lowest first");
                    return Err(self.wrong_shape("packed_custom_mask", wanted));
                };
                request.mask = bits.len();
                bits.extend((0..size).map(|bit| of_request[bit / 8] >> (bit % 8) & 1 == 1));
            }
            return Ok(bits);
        }
        self.draft_mask(requests)
    }

    /// The masks of draft tokens as XQA reads them: 32-bit words for each row, of its draft columns alone.
    fn draft_mask(&self, requests: &mut [Request]) -> Result<Vec<bool>, AttentionError> {
        let Some(view) = self.get("draft_mask") else { return Ok(Vec::new()) };
        let bytes = view.data();
        let (mut bits, mut first) = (Vec::new(), 0);
        for request in requests {
            let (rows, keys) = (request.rows.len(), request.keys.len());
            let words = rows.div_ceil(32);
            let Some(of_request) = bytes.get(first..first + rows * words * 4) else {
                let wanted = "ceil(rows / 32) words of 32 bits for each row: bit j of row i for draft token j, lowest first";
                return Err(self.wrong_shape("draft_mask", wanted));
            };
            first += rows * words * 4;
            request.mask = bits.len();
            let drafts = keys.saturating_sub(rows);
            for row in 0..rows {
                for key in 0..keys {
                    let bit = key.wrapping_sub(drafts);
                    let at = row * words * 4 + bit / 8;
                    let set = || of_request.get(at).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
                    bits.push(key < drafts || set());
                }
            }
        }
        Ok(bits)
    }

    pub(super) fn output(&self, rows: usize, shape: Shape) -> Result<Option<Stored>, AttentionError> {
        let Some(view) = self.get("out") else { return Ok(None) };
        let wanted = [rows, shape.heads, shape.value_width];
        let flat = [rows, shape.heads * shape.value_width];
        if view.shape() != wanted && view.shape() != flat {
            return Err(self.wrong_shape("out", format!("{wanted:?}: rows, heads, elements of a value")));
        }
        let element = match view.dtype() {
            Dtype::BF16 => Element::Bf16,
            Dtype::F16 => Element::F16,
            Dtype::F32 => Element::F32,
            _ => return Err(self.wrong_type("out", "BF16, F16 or F32")),
        };
        Ok(Some(Stored { element, values: Arc::new(self.floats("out")?) }))
    }

    pub(super) fn lse(
        &self,
        rows: usize,
        heads: usize,
        has_sinks: bool,
    ) -> Result<Option<StoredLse>, AttentionError> {
        let bases = match self.word("lse_base", Base::ALL, Base::word)? {
            Some(base) => vec![base],
            None => Base::ALL.to_vec(),
        };
        let Some(view) = self.get("lse") else { return Ok(None) };
        let by_rows = view.shape() == [rows, heads];
        let by_heads = view.shape() == [heads, rows];
        let declared = match self.metadata_value("lse_layout") {
            None => None,
            Some("rows_heads" | "tokens_heads") => Some(false),
            Some("heads_rows" | "heads_tokens") => Some(true),
            Some(_) => return Err(self.wrong_key("lse_layout", "rows_heads or heads_rows")),
        };
        let fits = match declared {
            Some(true) => by_heads,
            Some(false) => by_rows,
            None => by_rows || by_heads,
        };
        if !fits {
            return Err(self.wrong_shape("lse", format!("[{rows}, {heads}] or, by head, [{heads}, {rows}]")));
        }
        let values = Arc::new(self.floats("lse")?);
        let by_head = match declared {
            Some(by_head) => vec![by_head],
            None if by_rows && by_heads && rows > 1 => vec![false, true],
            None => vec![!by_rows],
        };
        let sinks = match self.metadata_value("lse_sink") {
            Some("included") => vec![true],
            Some("excluded") if has_sinks => vec![false],
            Some("excluded") => {
                return Err(self.wrong_key("lse_sink", "included: there is no tensor `sinks`"));
            }
            Some(_) => return Err(self.wrong_key("lse_sink", "included or excluded")),
            None if has_sinks => vec![true, false],
            None => vec![true],
        };
        let mut readings = Vec::new();
        for base in &bases {
            for by_head in &by_head {
                readings.extend(sinks.iter().map(|sink| LseReading {
                    base: *base,
                    by_head: *by_head,
                    sink: *sink,
                    quantity: LseQuantity::Logarithm,
                }));
            }
        }
        Ok(Some(StoredLse { values, readings }))
    }

    pub(super) fn semantics(
        &mut self,
        shape: Shape,
        requests: &[Request],
        has_mask: bool,
    ) -> Result<Semantics, AttentionError> {
        let positive = |key: &str, x: f64| match x.is_finite() && x > 0.0 {
            true => Ok(x),
            false => Err(self.wrong_key(key, "a positive number")),
        };
        let scale = match self.number::<f64>("sm_scale")? {
            // A scale is a binary32 in every library.
            Some(scale) => f64::from(positive("sm_scale", scale)? as f32),
            None => f64::from((1.0 / (shape.width as f64).sqrt()) as f32),
        };
        let cap = match self.number::<f64>("soft_cap")? {
            Some(0.0) | None => None,
            Some(cap) => Some(positive("soft_cap", cap)?),
        };
        let [of_queries, of_keys, of_values, global_of_keys, global_of_values] = self.scales()?;
        let scale = scale * of_queries * of_keys * global_of_keys;
        let value_scale = of_values * global_of_values;
        let window = self.window()?;
        let empty = self.word("empty", Empty::ALL, Empty::word)?.unwrap_or(Empty::Any);
        let declared = self.word("mask", Mask::ALL, Mask::word)?;
        let causal = self.flag("causal")?;
        if declared.is_some() && causal.is_some() {
            return Err(AttentionError::Twice { first: "mask".to_owned(), second: "causal".to_owned() });
        }
        let declared = declared.or(causal.map(|causal| if causal { Mask::Causal } else { Mask::Full }));
        let mask = match declared {
            Some(Mask::Custom) if !has_mask => {
                let remedy = "metadata mask is custom: export the bits as well".to_owned();
                return Err(AttentionError::Missing { name: "custom_mask", remedy });
            }
            // A custom mask replaces the causal one in FlashInfer and XQA.
            _ if has_mask => Mask::Custom,
            Some(mask) => mask,
            None => {
                if requests.iter().any(|request| request.rows.len() > 1) {
                    self.undeclared("mask", vec!["causal", "none"]);
                }
                Mask::Causal
            }
        };
        Ok(Semantics { mask, window, cap, empty, ..Semantics::plain(scale, value_scale) })
    }

    /// The factors of whole tensors: of queries, keys and values, and the global ones of keys and values.
    pub(super) fn scales(&self) -> Result<[f64; 5], AttentionError> {
        let of = |name: &'static str| {
            // Several factors belong to heads or slots: the cache has them.
            let several = matches!(name, "k_scale" | "v_scale") && self.floats(name)?.len() > 1;
            Ok::<f64, AttentionError>(if several { 1.0 } else { self.scalar(name)?.unwrap_or(1.0) })
        };
        Ok([of("q_scale")?, of("k_scale")?, of("v_scale")?, of("k_global")?, of("v_global")?])
    }

    /// The most keys that a row sees, from any library's name for it.
    fn window(&self) -> Result<Option<usize>, AttentionError> {
        let all = ["window", "window_left", "sliding_window"];
        let said: Vec<&str> = all.into_iter().filter(|key| self.metadata_value(key).is_some()).collect();
        let key = match said.as_slice() {
            [] => return Ok(None),
            [key] => *key,
            [first, second, ..] => {
                let (first, second) = ((*first).to_owned(), (*second).to_owned());
                return Err(AttentionError::Twice { first, second });
            }
        };
        let window = self.number::<i64>(key)?.unwrap_or(-1);
        // FlashInfer's and FlashAttention's number excludes the row's own key; −1 is no window.
        let keys = if key == "window_left" { window + i64::from(window >= 0) } else { window };
        match usize::try_from(keys) {
            Ok(0) if key == "sliding_window" => Ok(None),
            Ok(0) => Err(self.wrong_key(key, "at least the row's own key, or -1 for no window")),
            Ok(keys) => Ok(Some(keys)),
            Err(_) if window == -1 => Ok(None),
            Err(_) => Err(self.wrong_key(key, "a number of keys, or -1 for none")),
        }
    }

    pub(super) fn arithmetic(
        &mut self,
        queries: Element,
        width: usize,
        record: Option<mla::Layout>,
    ) -> Result<Arithmetic, AttentionError> {
        let kernel = self.word("kernel", Kernel::ALL, Kernel::word)?.unwrap_or(Kernel::Any);
        let mut of = Arithmetic::of_kernel(kernel, queries);
        if of.folded.is_some() {
            if !record.is_some_and(mla::Layout::has_fp8) {
                return Err(
                    self.wrong_key("kernel", "one of caches of keys and values: `record` names no e4m3")
                );
            }
            match self.metadata_value("queries") {
                Some("fp8_e4m3") => {}
                Some("bf16") => of.short_queries = false,
                Some(_) => return Err(self.wrong_key("queries", "fp8_e4m3 or bf16")),
                None => self.undeclared("queries", vec!["fp8_e4m3", "bf16"]),
            }
        }
        if let Some(products) = self.word("products", Element::ALL, Element::word)? {
            of.products = Some(products);
        }
        if let Some(weights) = self.word("weights", Element::ALL, Element::word)? {
            of.weights = weights;
        }
        if let Some(denominator) = self.word("denominator", Denominator::ALL, Denominator::word)? {
            of.denominator = denominator;
        }
        of.partials = match self.metadata_value("partials") {
            None => of.partials,
            Some("none") => None,
            Some(_) => self.word("partials", Element::ALL, Element::word)?,
        };
        match self.metadata_value("elements") {
            None => {}
            Some("none") => (of.elements, of.exact_elements) = (None, true),
            Some(_) => of.elements = self.word("elements", Element::ALL, Element::word)?,
        }
        if kernel == Kernel::Xqa {
            of.merges = Arithmetic::merges_of_xqa(width, of.partials.is_some());
        }
        if let Some(tile) = self.number::<usize>("tile")? {
            if tile == 0 {
                return Err(self.wrong_key("tile", "at least one key"));
            }
            of.tile = tile;
            of.folded = of.folded.map(|folded| Folded { tile, ..folded });
            if kernel == Kernel::PrefillFp4 {
                // Tiles that begin at multiples of their keys may have fewer at both ends.
                of.tile = tile.div_ceil(2);
                of.two_level = of.two_level.map(|two_level| TwoLevel { tile, ..two_level });
            }
        }
        self.two_level(kernel, of)
    }

    /// What is declared of weights that are quantized at two levels.
    fn two_level(&self, kernel: Kernel, mut of: Arithmetic) -> Result<Arithmetic, AttentionError> {
        let declared = ["split", "factor", "sum"].into_iter().find(|key| self.metadata_value(key).is_some());
        if let Some(key) = declared
            && kernel != Kernel::PrefillFp4
        {
            return Err(self.wrong_key(key, "absent: it is known of every `kernel` but prefill_fp4"));
        }
        let split: Option<usize> = self.number("split")?;
        if split == Some(0) {
            return Err(self.wrong_key("split", "at least one key"));
        }
        let running = match self.word("factor", FactorRule::ALL, FactorRule::word)? {
            Some(FactorRule::Argument) => {
                return Err(self.wrong_key("factor", "tile_maximum or running_maximum"));
            }
            factor => factor == Some(FactorRule::RunningMaximum),
        };
        if let Some(two_level) = of.two_level.as_mut().filter(|_| kernel == Kernel::PrefillFp4) {
            two_level.running = running;
            two_level.split = split.unwrap_or(two_level.split);
        }
        if let Some(sum) = self.word("sum", ProductSum::ALL, ProductSum::word)? {
            of.sum = sum;
        }
        Ok(of)
    }
}
