//! Grids of one stream (PTX ISA 9.7.13.13 `griddepcontrol`; CUDA's programmatic dependent launch): which may begin, and who
//! knows that which have ended.
//!
//! A grid begins when all before it have ended. A programmatic secondary begins earlier: once every CTA of the grid before
//! it has run `griddepcontrol.launch_dependents` or ended. Only `griddepcontrol.wait` makes it know what that grid did; where
//! nobody asked for an early launch, the launch itself does.

use std::ops::Range;

use super::program::{Kernel, Program};
use super::schedule::Launch;

/// A launch in a stream.
#[derive(Clone, Copy)]
pub struct InStream<'a> {
    /// The module.
    pub program: &'a Program,
    /// The kernel, of this module.
    pub kernel: &'a Kernel,
    /// Grid, block and parameters.
    pub launch: &'a Launch,
    /// Whether it may begin before the launch in front of it has ended, as the attribute for programmatic stream
    /// serialization allows.
    pub programmatic: bool,
    /// CTAs of a cluster in x, y, z, where the launch names them.
    pub cluster: Option<[u32; 3]>,
    /// Whether all its CTAs are resident together.
    pub cooperative: bool,
}

impl<'a> InStream<'a> {
    /// A launch without attributes.
    #[must_use]
    pub fn new(program: &'a Program, kernel: &'a Kernel, launch: &'a Launch) -> Self {
        Self { program, kernel, launch, programmatic: false, cluster: None, cooperative: false }
    }
}

/// One grid.
#[derive(Debug, Clone, Default)]
pub(super) struct Grid {
    pub(super) name: String,
    /// Its CTAs among all of the stream, counted from 1.
    pub(super) ctas: Range<u32>,
    /// CTAs in x, y, z.
    size: [u32; 3],
    /// CTAs of a cluster in x, y, z.
    pub(super) cluster: [u32; 3],
    pub(super) programmatic: bool,
    /// The address of the workspace of a cooperative launch; 0 without one.
    pub(super) workspace: u64,
    /// CTAs that have begun, have let dependents begin, and have ended.
    pub(super) begun: u32,
    pub(super) released: u32,
    pub(super) ended: u32,
    /// CTAs that are to begin: all, or those of the clusters that a thread runs.
    pub(super) until: u32,
    /// Whether a CTA ran `griddepcontrol.launch_dependents`.
    asked: bool,
    /// CTAs that waited for the grid in front before they let dependents begin.
    released_behind_wait: u32,
    /// CTAs of earlier grids that it knew to have ended when it began, and that it knows behind its wait.
    pub(super) known_at_start: Range<u32>,
    known: Option<Range<u32>>,
}

impl Grid {
    pub(super) fn total(&self) -> u32 {
        self.ctas.end - self.ctas.start
    }

    /// Where the CTA of a number is: clusters follow each other, and their CTAs by rank.
    pub(super) fn place(&self, n: u32) -> [u32; 3] {
        let unravel = |n: u32, [x, y, _]: [u32; 3]| [n % x, n / x % y, n / x / y];
        let together = self.together();
        let clusters = std::array::from_fn(|i| self.size[i] / self.cluster[i]);
        let (first, rank) = (unravel(n / together, clusters), unravel(n % together, self.cluster));
        std::array::from_fn(|i| first[i] * self.cluster[i] + rank[i])
    }

    /// CTAs of a cluster.
    pub(super) fn together(&self) -> u32 {
        self.cluster.iter().product()
    }

    fn done(&self) -> bool {
        self.ended == self.total()
    }
}

/// The grids of one stream, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    pub(super) grids: Vec<Grid>,
}

impl Stream {
    /// Of launches with clusters of these shapes.
    pub(super) fn new(launches: &[InStream<'_>], clusters: &[[u32; 3]]) -> Self {
        let mut first = 1u32;
        let grids = launches.iter().zip(clusters).map(|(l, cluster)| {
            let count: u64 = l.launch.grid.iter().map(|n| u64::from(*n)).product();
            let end = first.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            let ctas = first..end;
            first = end;
            let (name, size, until) = (l.kernel.name.clone(), l.launch.grid, ctas.end - ctas.start);
            let programmatic = l.programmatic;
            Grid { name, ctas, size, cluster: *cluster, programmatic, until, ..Grid::default() }
        });
        Self { grids: grids.collect() }
    }

    /// Whether a grid may run together with another.
    pub(super) fn overlaps(&self) -> bool {
        self.grids.iter().skip(1).any(|g| g.programmatic)
    }

    /// Whether all grids before this one have ended.
    pub(super) fn alone(&self, n: usize) -> bool {
        self.grids[..n].iter().all(Grid::done)
    }

    /// Whether CTAs of this grid may begin.
    pub(super) fn may_begin(&self, n: usize) -> bool {
        let grid = &self.grids[n];
        match n.checked_sub(1).map(|p| &self.grids[p]) {
            None => true,
            Some(primary) if grid.programmatic => {
                primary.begun == primary.total() && primary.released == primary.total()
            }
            Some(_) => self.alone(n),
        }
    }

    /// The first CTA of a grid is about to begin; whether it knows all that was done before.
    pub(super) fn begin(&mut self, n: usize) -> bool {
        let Some(primary) = n.checked_sub(1).map(|p| &self.grids[p]) else { return true };
        if self.grids[n].programmatic && primary.asked {
            // Where all of the primary waited before it let this grid begin, the grids in front of it have ended.
            let waited = primary.known.clone().filter(|_| primary.released_behind_wait == primary.total());
            self.grids[n].known_at_start = waited.unwrap_or_else(|| primary.known_at_start.clone());
            return false;
        }
        self.grids[n].known_at_start = Self::known_through(primary);
        self.alone(n)
    }

    /// Takes the next cluster of a grid, which then never begins; where its first CTA would have been.
    pub(super) fn cancel(&mut self, n: usize) -> Option<[u32; 3]> {
        let grid = &mut self.grids[n];
        let next = (grid.begun < grid.total()).then(|| grid.place(grid.begun));
        if next.is_some() {
            let together = grid.together();
            grid.begun += together;
            grid.released += together;
            grid.ended += together;
        }
        next
    }

    /// A CTA lets dependents begin; `waited` says whether it has waited for the grid in front.
    pub(super) fn release(&mut self, n: usize, waited: bool) {
        self.grids[n].asked = true;
        self.grids[n].released_behind_wait += u32::from(waited);
        self.grids[n].released += 1;
    }

    /// A CTA ends; `released` says whether it had let dependents begin.
    pub(super) fn end(&mut self, n: usize, released: bool) {
        self.grids[n].ended += 1;
        self.grids[n].released += u32::from(!released);
    }

    /// What a grid knows behind `griddepcontrol.wait`, and `None` while it must wait.
    pub(super) fn wait(&mut self, n: usize) -> Option<Range<u32>> {
        let Some(primary) = n.checked_sub(1).map(|p| &self.grids[p]) else { return Some(0..0) };
        if !primary.done() {
            return None;
        }
        let known = Self::known_through(primary);
        self.grids[n].known = Some(known.clone());
        Some(known)
    }

    /// A grid that has ended, and those that it knew to have ended.
    fn known_through(primary: &Grid) -> Range<u32> {
        let earlier = primary.known.as_ref().unwrap_or(&primary.known_at_start);
        if earlier.is_empty() { primary.ctas.clone() } else { earlier.start..primary.ctas.end }
    }

    /// The name and the first CTA of the grid that a CTA belongs to.
    pub(super) fn grid_of(&self, cta: u32) -> (&str, u32) {
        let grid = self.grids.iter().find(|g| g.ctas.contains(&cta));
        grid.map_or(("", cta), |g| (g.name.as_str(), g.ctas.start))
    }
}
