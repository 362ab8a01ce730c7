//! The race detector of global memory: threads are warps within a CTA, CTAs within a grid, grids within a stream.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Races;
use super::accesses::{Accesses, Mark, Order};
use super::chain::Chains;
use super::copies::Copies;
use super::page::{PAGE, Page};
use super::pages::Pages;
use super::proxy::ProxyFences;
use super::publish::Releases;
use super::same::Same;
use super::sync::Place;
use crate::api::trap::{Fault, Rule};
use crate::memory::window::GLOBAL_BASE;
use crate::rules::shadow::{LINE, OfLine, WordsOfLine};
use crate::run::stream::Stream;

/// A warp of a CTA at a time: the CTA from 1 (0 is none), the warp's clock, and the warp with flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Who(pub(super) [u32; 3]);

/// The access was strong.
pub(super) const STRONG: u32 = 32;
/// Its scope includes other CTAs.
pub(super) const WIDE: u32 = 128;
/// An asynchronous copy did it; its number replaces the clock.
pub(super) const COPIED: u32 = 64;
/// It is half of a read-modify-write.
pub(super) const MODIFIES: u32 = 512;
/// What it reads is ordered before what follows.
pub(super) const OBSERVES: u32 = 2048;

impl Who {
    pub(super) fn cta(self) -> u32 {
        self.0[0]
    }

    pub(super) fn clock(self) -> u32 {
        self.0[1]
    }

    pub(super) fn warp(self) -> u32 {
        self.0[2] & 31
    }

    /// Whether this warp did it, and not through a copy.
    pub(super) fn is_of(self, warp: u32) -> bool {
        self.0[2] & (COPIED | 31) == warp
    }

    pub(super) fn strong(self) -> bool {
        self.0[2] & STRONG != 0
    }

    /// Whether both are by the same warp at the same time.
    pub(super) fn is(self, other: Self) -> bool {
        (self.cta(), self.clock(), self.warp()) == (other.cta(), other.clock(), other.warp())
    }

    fn modifies(self) -> bool {
        self.0[2] & MODIFIES != 0
    }

    pub(super) fn observes(self) -> bool {
        self.0[2] & OBSERVES != 0
    }

    pub(super) fn is_copy(self) -> bool {
        self.0[2] & COPIED != 0
    }
}

impl Mark for Who {
    const MIXED: Self = Self([0, 0, u32::MAX]);

    #[inline]
    fn exists(self) -> bool {
        self.cta() != 0
    }

    #[inline]
    fn same_warp(self, other: Self) -> bool {
        self.cta() == other.cta() && other.is_of(self.warp())
    }

    #[inline]
    fn thread(self) -> (u32, u32) {
        (self.cta(), self.0[2] & 31)
    }

    #[inline]
    fn clock(self) -> u32 {
        self.0[1]
    }

    #[inline]
    fn morally_strong(self, other: Self) -> bool {
        let both = self.0[2] & other.0[2];
        both & WIDE != 0 || both & STRONG != 0 && self.cta() == other.cta()
    }

    #[inline]
    fn same_cta(self, other: Self) -> bool {
        self.cta() == other.cta()
    }

    #[inline]
    fn strength(self) -> u32 {
        u32::from(self.strong()) + u32::from(self.0[2] & WIDE != 0)
    }

    fn copied(self) -> bool {
        self.is_copy()
    }

    #[inline]
    fn wrote(self) -> bool {
        self.0[2] & WROTE != 0
    }

    fn as_earlier(self) -> Self {
        let [cta, clock, warp] = self.0;
        Self([cta, clock, warp | WROTE])
    }
}

/// In a slot for reads: it was a strong write that nothing orders before the last one.
const WROTE: u32 = 256;

/// `None`, or the byte of an access, the unordered access, and whether that one wrote.
type Found = Result<(), (usize, Who, bool)>;

/// Per CTA, the warps that have waited for the preceding grid: when, and for which CTAs.
pub(super) type Waited = HashMap<u32, Vec<(u32, u32, Range<u32>)>>;

/// The shadow of global memory: pages that the launch has accessed.
#[derive(Default)]
pub(crate) struct GlobalRaces {
    /// Starting at the first global address.
    pub(super) pages: Pages<Page>,
    /// What CTAs have released to others, by word of memory.
    pub(super) places: FxHashMap<u64, Place>,
    /// Tensor maps that were released to the tensormap proxy.
    pub(super) releases: Releases,
    /// The warps that have waited for the preceding grid.
    pub(super) waited: Waited,
    /// Unordered stores of the same value.
    pub(super) same: Same<Who>,
    pub(super) chains: Chains<Who>,
    /// Asynchronous copies.
    pub(crate) copies: Copies,
    pub(super) proxy_fences: ProxyFences,
}

impl GlobalRaces {
    /// Makes everything done so far known to all.
    pub(crate) fn forget(&mut self) {
        self.pages.clear();
        self.chains = Chains::default();
        self.copies = Copies::default();
        self.proxy_fences = ProxyFences::default();
    }

    /// Makes bytes remember only this write.
    pub(super) fn set(&mut self, address: u64, len: usize, write: Who) {
        self.put(address, len, Accesses::written(write));
    }

    /// Inspects what a byte remembers.
    pub(super) fn look(&mut self, address: u64, with: impl Fn(&Accesses<Who>)) {
        let Some(at) = address.checked_sub(GLOBAL_BASE).map(|at| at as usize) else { return };
        if let Some(page) = self.pages.get_mut(at / PAGE) {
            let look = |shadow: &mut Accesses<Who>| {
                with(shadow);
                Ok::<(), std::convert::Infallible>(())
            };
            // This step cannot fail.
            let _ = page.update(at % PAGE, 1, look);
        }
    }

    /// Whether bytes of one page are remembered and all pass a test.
    pub(super) fn all(
        &mut self,
        address: u64,
        len: usize,
        test: impl Fn(&mut Accesses<Who>) -> Result<(), ()>,
    ) -> bool {
        let Some(at) = address.checked_sub(GLOBAL_BASE).map(|at| at as usize) else { return false };
        at % PAGE + len <= PAGE
            && self.pages.get_mut(at / PAGE).is_some_and(|page| page.update(at % PAGE, len, test).is_ok())
    }

    /// Makes bytes remember only this.
    pub(super) fn put(&mut self, address: u64, len: usize, shadow: Accesses<Who>) {
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return };
        let (mut at, end) = (start as usize, start as usize + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let page = match self.pages.get_mut(at / PAGE) {
                Some(page) => page,
                None => new_page(&mut self.pages, at / PAGE),
            };
            page.set(at % PAGE, next - at, shadow);
            at = next;
        }
    }

    /// The last access to bytes of this range.
    pub(super) fn users(&mut self, address: u64, len: usize) -> Vec<Who> {
        let found = RefCell::new(Vec::new());
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return Vec::new() };
        let note = |shadow: &mut Accesses<Who>| {
            let mut found = found.borrow_mut();
            for (who, _) in shadow.all() {
                if who.cta() != 0 && !found.contains(&who) {
                    found.push(who);
                }
            }
            Ok::<(), std::convert::Infallible>(())
        };
        for page in start as usize / PAGE..(start as usize + len) / PAGE {
            if let Some(page) = self.pages.get_mut(page) {
                // This step cannot fail.
                let _ = page.update(0, PAGE, note);
            }
        }
        found.into_inner()
    }

    /// Whether one of these bytes was written in this launch.
    pub(crate) fn written(&mut self, address: u64, len: usize) -> bool {
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return false };
        let (mut at, end) = (start as usize, start as usize + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let seen = |shadow: &mut Accesses<Who>| if shadow.write.cta() == 0 { Ok(()) } else { Err(()) };
            if let Some(page) = self.pages.get_mut(at / PAGE)
                && page.update(at % PAGE, next - at, seen).is_err()
            {
                return true;
            }
            at = next;
        }
        false
    }

    /// Which of these CTAs wrote one of these bytes in this launch, and the offset from `address`.
    pub(crate) fn writer_among(
        &mut self,
        ctas: &Range<u32>,
        address: u64,
        len: usize,
    ) -> Option<(usize, Who)> {
        let start = address.checked_sub(GLOBAL_BASE)? as usize;
        let (mut at, end) = (start, start + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let by = |shadow: &mut Accesses<Who>| {
                if ctas.contains(&shadow.write.cta()) { Err(shadow.write) } else { Ok(()) }
            };
            if let Some(page) = self.pages.get_mut(at / PAGE)
                && let Err((n, who)) = page.update(at % PAGE, next - at, by)
            {
                return Some((at + n - start, who));
            }
            at = next;
        }
        None
    }

    /// The writers of these bytes in this launch.
    pub(super) fn writers(&mut self, address: u64, len: usize) -> Vec<Who> {
        let found = RefCell::new(Vec::new());
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return Vec::new() };
        let (mut at, end) = (start as usize, start as usize + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let note = |shadow: &mut Accesses<Who>| {
                let mut found = found.borrow_mut();
                if shadow.write.cta() != 0 && !found.contains(&shadow.write) {
                    found.push(shadow.write);
                }
                Ok::<(), std::convert::Infallible>(())
            };
            if let Some(page) = self.pages.get_mut(at / PAGE) {
                // This step cannot fail.
                let _ = page.update(at % PAGE, next - at, note);
            }
            at = next;
        }
        found.into_inner()
    }

    /// Records an access of a warp.
    pub(crate) fn access(
        &mut self,
        cta: &Races,
        access: GlobalAccess,
        warp: u32,
        stream: &Stream,
    ) -> Result<(), Fault> {
        self.note(cta, cta.who(warp), access, stream)
    }

    /// Records a weak access of a warp to words of lines, which are counted from the `first` one of the memory from [`GLOBAL_BASE`]. Returns false if it is unusual or a race:
    /// then [`GlobalRaces::access`], byte by byte, tells. What has been recorded by then is recorded again, which changes nothing.
    pub(crate) fn access_lines(
        &mut self,
        cta: &Races,
        (first, lines): (usize, &[WordsOfLine]),
        write: bool,
        warp: u32,
    ) -> bool {
        let who = cta.who(warp);
        if who.strong() {
            return false;
        }
        let order = GlobalOrder {
            who,
            cta,
            waited: &self.waited,
            copies: &self.copies,
            asked: Cell::new((Who::default(), false)),
            observed: |_| false,
            own_warp: &cta.own_warp,
        };
        lines.iter().all(|of| {
            let (page, line) = page_of(&mut self.pages, first + of.line as usize);
            !write && page.read_bytes(line, of.bytes(), who)
                || page.update_words(line, of.words, |kept| kept.step(write, &order)).is_ok()
        })
    }

    pub(super) fn note(
        &mut self,
        cta: &Races,
        who: Who,
        access: GlobalAccess,
        stream: &Stream,
    ) -> Result<(), Fault> {
        self.find(cta, who, access).map_err(|(n, other, wrote)| {
            clash(access.address + n as u64, who, access.write, other, wrote, &cta.grid, stream)
        })
    }

    /// Records an access, or returns the byte, counted from the first, with the unordered access and whether that one wrote.
    #[inline]
    pub(super) fn find(&mut self, cta: &Races, who: Who, access: GlobalAccess) -> Found {
        if who.strong() && !who.copied() {
            return self.find_observed(cta, who, access, 4);
        }
        if !access.write && !who.is_copy() && self.reads_alone(who, access) {
            return Ok(());
        }
        let found = self.walk(cta, who, access, |_| false);
        if found.is_err() && !self.chains.is_empty() {
            return self.find_observed(cta, who, access, 1);
        }
        found
    }

    /// Records a weak read of part of a line that only this warp has touched.
    #[inline]
    fn reads_alone(&mut self, who: Who, access: GlobalAccess) -> bool {
        let Some(at) = access.address.checked_sub(GLOBAL_BASE).map(|at| at as usize) else { return false };
        let page = match self.pages.get_mut(at / PAGE) {
            Some(page) => page,
            None => new_page(&mut self.pages, at / PAGE),
        };
        page.read(at % PAGE, access.len, who)
    }

    /// Records a read with what strong reads have observed, in pieces of this many bytes; returns what it conflicts with.
    fn find_observed(&mut self, cta: &Races, who: Who, access: GlobalAccess, piece: u64) -> Found {
        let mut chains = std::mem::take(&mut self.chains);
        let (mut at, end) = (access.address, access.address + access.len as u64);
        let mut found = Ok(());
        while at < end && found.is_ok() {
            let next = end.min((at / piece + 1) * piece);
            let part = GlobalAccess { address: at, len: (next - at) as usize, ..access };
            let ordered = |write| chains.orders(at, write, |read| cta.knows(read, who.warp()));
            let offset = (at - access.address) as usize;
            found =
                self.walk(cta, who, part, ordered).map_err(|(n, other, wrote)| (n + offset, other, wrote));
            if found.is_ok() && who.strong() && !who.is_copy() {
                if access.write {
                    chains.write(at, who, who.modifies());
                } else if who.observes() {
                    chains.read(at, who);
                }
            }
            at = next;
        }
        self.chains = chains;
        found
    }

    /// Records the access, of bytes for which `observed` tells whether a read that observed a write orders it.
    #[inline]
    fn walk(&mut self, cta: &Races, who: Who, access: GlobalAccess, observed: impl Fn(Who) -> bool) -> Found {
        let GlobalAccess { address, len, write } = access;
        let order = GlobalOrder {
            who,
            cta,
            waited: &self.waited,
            copies: &self.copies,
            asked: Cell::new((Who::default(), false)),
            observed,
            own_warp: &cta.own_warp,
        };
        let Some(start) = address.checked_sub(GLOBAL_BASE) else { return Ok(()) };
        let (mut at, end) = (start as usize, start as usize + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let page = match self.pages.get_mut(at / PAGE) {
                Some(page) => page,
                None => new_page(&mut self.pages, at / PAGE),
            };
            let found = page.update(at % PAGE, next - at, |kept| kept.step(write, &order));
            found.map_err(|(n, (other, wrote))| (at + n - start as usize, other, wrote))?;
            at = next;
        }
        Ok(())
    }
}

/// The order of earlier accesses to global memory before one by `who`.
pub(super) struct GlobalOrder<'a, F> {
    pub(super) who: Who,
    pub(super) cta: &'a Races,
    pub(super) waited: &'a Waited,
    pub(super) copies: &'a Copies,
    /// The last copy looked up, and whether it has completed: neighbouring bytes were mostly accessed by one copy.
    pub(super) asked: Cell<(Who, bool)>,
    /// Whether the warp has observed a write.
    pub(super) observed: F,
    pub(super) own_warp: &'a Cell<bool>,
}

impl<F: Fn(Who) -> bool> Order<Who> for GlobalOrder<'_, F> {
    #[inline]
    fn by(&self) -> Who {
        self.who
    }

    #[inline]
    fn modifies(&self) -> bool {
        self.who.modifies()
    }

    #[inline]
    fn meets_own_warp(&self) {
        self.own_warp.set(true);
    }

    #[inline]
    fn knows(&self, other: Who) -> bool {
        if !other.is_copy() {
            return self.cta.knows(other, self.who.warp());
        }
        if other.is(self.who) {
            return true;
        }
        if self.asked.get().0 != other {
            self.asked.set((other, self.copies.known(other, self.cta, self.who.warp())));
        }
        self.asked.get().1
    }

    #[inline]
    fn follows(&self, other: Who, wrote: bool) -> bool {
        if self.cta.grid.contains(&other.cta()) {
            wrote && (self.observed)(other)
        } else {
            self.cta.knows_end(other.cta(), self.who.warp(), self.waited)
        }
    }
}

/// The page of a line of memory, and the line in it.
#[inline(always)]
fn page_of(pages: &mut Pages<Page>, line: usize) -> (&mut Page, usize) {
    const LINES: usize = PAGE / LINE;
    let (page, line) = (line / LINES, line % LINES);
    (pages.get_or_insert_with(page, Page::new), line)
}

/// Applies `step` to words of a line of memory, as [`Page::update_words`] does.
pub(super) fn words<E>(
    pages: &mut Pages<Page>,
    line: usize,
    words: u32,
    step: impl Fn(&mut Accesses<Who>) -> Result<(), E>,
) -> Result<(), E> {
    let (page, line) = page_of(pages, line);
    page.update_words(line, words, step)
}

#[cold]
fn new_page(pages: &mut Pages<Page>, page: usize) -> &mut Page {
    pages.get_or_insert_with(page, Page::new)
}

/// An access to global memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalAccess {
    pub(crate) address: u64,
    pub(crate) len: usize,
    pub(crate) write: bool,
}

/// The fault of two unordered accesses to global memory; between grids, the wait is missing.
#[cold]
fn clash(
    address: u64,
    who: Who,
    write: bool,
    other: Who,
    wrote: bool,
    grid: &Range<u32>,
    stream: &Stream,
) -> Fault {
    let mine = if write { "a write" } else { "a read" };
    let did = if wrote { "wrote" } else { "read" };
    if grid.contains(&other.cta()) {
        let them = if other.cta() == who.cta() {
            format!("warp {}", other.warp())
        } else {
            format!("warp {} of CTA number {}", other.warp(), other.cta() - grid.start)
        };
        let what =
            format!("{mine} of global address {address:#x}, which {them} {did} with no ordering in between");
        let what = if who.strong() && other.strong() {
            format!("{what}; both are strong, but not with scopes that include each other's thread")
        } else if other.copied() {
            format!("{what}: that was an asynchronous copy, whose completion must be waited for")
        } else {
            what
        };
        return Fault::new(Rule::Race, what).against((0, address), wrote, (other.cta(), other.warp()));
    }
    let (name, first) = stream.grid_of(other.cta());
    let them = format!("warp {} of CTA number {} of kernel `{name}`", other.warp(), other.cta() - first);
    let what = if other.cta() < grid.start {
        format!("{mine} of global address {address:#x} before `griddepcontrol.wait`, which {them} {did}")
    } else {
        format!("{mine} of global address {address:#x}, which {them} {did} before its `griddepcontrol.wait`")
    };
    Fault::new(Rule::Dependency, what).against((0, address), wrote, (other.cta(), other.warp()))
}
