//! Hypotheses on pages and keys: tables that are read wrongly, keys that are left out.

use super::each;
use super::with;
use crate::attention::dump::Dump;
use crate::attention::problem::LeftOut;

/// The most pages that are left out alone, and the most entries of a table that are read wrongly alone.
const SINGLE_PAGES: usize = 64;
const SINGLE_ENTRIES: usize = 32;

/// Tables whose pages are repeated, shifted, of another request or not used.
pub(super) fn tables(dump: &Dump) -> Vec<(String, Dump)> {
    let table = &dump.cache.table;
    let read = |of: &dyn Fn(usize, usize) -> Option<usize>| {
        let other = table.iter().enumerate().map(|(request, pages)| {
            (0..pages.len()).map(|at| of(request, at).unwrap_or(pages[at])).collect()
        });
        with(dump, |d| d.cache.table = other.collect())
    };
    let page = |request: usize, at: usize| table.get(request)?.get(at).copied();
    let most = table.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = vec![
        ("the first page for all".to_owned(), read(&|request, _| page(request, 0))),
        ("the previous page".to_owned(), read(&|request, at| page(request, at.saturating_sub(1)))),
        ("the next page".to_owned(), read(&|request, at| page(request, at + 1))),
        ("pages in the order of the cache".to_owned(), read(&|request, at| Some(page(request, 0)? + at))),
        ("as if it were not there".to_owned(), read(&|request, at| Some(request * most + at))),
        (
            "the pages of the next request".to_owned(),
            read(&|request, at| page((request + 1) % table.len(), at)),
        ),
        ("the pages of request 0".to_owned(), read(&|_, at| page(0, at))),
    ];
    // One entry alone, of all requests that have it.
    for wrong in (0..most).take(SINGLE_ENTRIES) {
        let single = |of: &dyn Fn(usize) -> Option<usize>| {
            read(&|request, at| if at == wrong { of(request) } else { None })
        };
        let next = |request: usize| (request + 1) % table.len();
        let entries: [(&str, Dump); 6] = [
            ("page 0 of the cache", single(&|_| Some(0))),
            ("its first entry", single(&|request| page(request, 0))),
            ("its entry before", single(&|request| page(request, wrong.checked_sub(1)?))),
            ("its next entry", single(&|request| page(request, wrong + 1))),
            ("the next page of the cache", single(&|request| page(request, wrong).map(|page| page + 1))),
            ("the entry of the next request", single(&|request| page(next(request), wrong))),
        ];
        all.extend(entries.map(|(what, dump)| (format!("entry {wrong} alone is {what}"), dump)));
    }
    for slots in [1, 8, 16, 32, 64, 128, 256, dump.cache.heads].into_iter().filter(|n| *n != dump.cache.page)
    {
        if !dump.cache.by_slot && dump.cache.page > 1 {
            all.push((format!("as if a page had {slots} slots"), with(dump, |d| d.cache.page = slots)));
        }
    }
    if let Some(values) = &dump.cache.value_table {
        all.push(("those of keys for values".to_owned(), with(dump, |d| d.cache.value_table = None)));
        let of_values = with(dump, |d| d.cache.table.clone_from(values));
        all.push(("those of values for keys".to_owned(), of_values));
    }
    all
}

/// Keys that a loop or a merge leaves out.
pub(super) fn left_out(dump: &Dump) -> Vec<(String, Dump)> {
    let page = dump.cache.page;
    let mut all = vec![
        (LeftOut::Before(1), "the first key".to_owned()),
        (LeftOut::Before(page), "the first page".to_owned()),
    ];
    for tile in [16, 32, 64, 128].into_iter().filter(|tile| *tile != page) {
        all.push((LeftOut::Before(tile), format!("the first {tile}")));
    }
    for tile in [16, 32, 64, 128, page] {
        all.push((LeftOut::Tail(tile), format!("those behind the last whole tile of {tile}")));
    }
    let mut multiples = vec![1, 16, 32, 64, 128, 256, page];
    multiples.sort_unstable();
    multiples.dedup();
    for multiple in multiples {
        let of =
            if multiple == 1 { String::new() } else { format!(" whose lengths are multiples of {multiple}") };
        for parts in 2..=8 {
            let last =
                (LeftOut::LastPart(parts, multiple), format!("those of the last of {parts} splits{of}"));
            let all_but = LeftOut::AllButLastPart(parts, multiple);
            all.extend([last, (all_but, format!("all but those of the last of {parts} splits{of}"))]);
        }
    }
    let mut pieces = vec![(page, "page"), (1, "key")];
    pieces.extend([(16, "tile of 16"), (32, "tile of 32"), (64, "tile of 64"), (128, "tile of 128")]);
    for (size, what) in pieces {
        for rest in 0..2 {
            let which = ["even", "odd"][rest];
            all.push((LeftOut::Pieces(size, 2, rest), format!("every {what} with an {which} number")));
        }
    }
    // One page alone, of all requests that have it.
    let most = dump.cache.table.iter().map(Vec::len).max().unwrap_or(0);
    for at in (1..most).take(SINGLE_PAGES) {
        all.push((LeftOut::Pieces(page, usize::MAX, at), format!("those of page {at} of the table")));
    }
    for count in [1, page, 16, 32, 64, 128, 256] {
        all.push((LeftOut::AfterFirst(count), format!("all but the first {count}")));
    }
    // A kernel that leaves out every key of a request stores nothing that this could tell from other faults.
    let keys: Vec<usize> =
        dump.requests.iter().map(|request| request.keys.len()).filter(|n| *n > 0).collect();
    let leaves_some = |left: &LeftOut| keys.iter().all(|keys| left.leaves_some(*keys));
    all.retain(|(left, _)| !matches!(left, LeftOut::Tail(1)) && leaves_some(left));
    each(dump, all, |d, left| d.semantics.left_out = left)
}
