//! Grids of one stream (PTX ISA 9.7.13.13 `griddepcontrol`; CUDA programmatic dependent launch): when each begins and what it sees.
//!
//! A grid begins when all grids before it have ended. A programmatic secondary grid may begin earlier: once every CTA of its
//! primary has run `griddepcontrol.launch_dependents` or ended. Only `griddepcontrol.wait` then makes the primary's writes visible
//! to it; if no CTA requested an early launch, the launch itself does.

use std::ops::Range;

use crate::front::program::{Kernel, Program};
use crate::run::launch::Launch;
use crate::work;

/// A launch in a stream.
#[derive(Clone, Copy)]
pub struct InStream<'a> {
    /// The module.
    pub program: &'a Program,
    /// The kernel, from this module.
    pub kernel: &'a Kernel,
    /// Grid, block and parameters.
    pub launch: &'a Launch,
    /// Whether it may begin before the preceding launch has ended (launch attribute for programmatic stream serialization).
    pub programmatic: bool,
    /// CTAs per cluster in x, y, z, if the launch sets them.
    pub cluster: Option<[u32; 3]>,
    /// Whether all its CTAs must be resident together.
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
pub(crate) struct Grid {
    pub(crate) name: String,
    /// Numbers of its CTAs within the stream, from 1.
    pub(crate) ctas: Range<u32>,
    /// CTAs in x, y, z.
    size: [u32; 3],
    /// CTAs per cluster in x, y, z.
    pub(crate) cluster: [u32; 3],
    pub(crate) programmatic: bool,
    /// The address of a cooperative launch's workspace; 0 if there is none.
    pub(crate) workspace: u64,
    /// Number of CTAs that have begun, that have released dependents (or ended), and that have ended.
    pub(crate) begun: u32,
    pub(crate) released: u32,
    pub(crate) ended: u32,
    /// CTAs to begin: all, or those of the clusters that a thread runs.
    pub(crate) until: u32,
    /// Whether a CTA ran `griddepcontrol.launch_dependents`.
    asked: bool,
    /// CTAs that had waited for the preceding grid before they released dependents.
    released_behind_wait: u32,
    /// CTAs of earlier grids known to have ended: when this grid began, and after its wait.
    pub(crate) known_at_start: Range<u32>,
    known: Option<Range<u32>>,
}

impl Grid {
    pub(crate) fn total(&self) -> u32 {
        self.ctas.end - self.ctas.start
    }

    /// Coordinates of the CTA with this number: clusters are numbered in order, their CTAs by rank.
    pub(crate) fn place(&self, n: u32) -> [u32; 3] {
        let unravel = |n: u32, [x, y, _]: [u32; 3]| [n % x, n / x % y, n / x / y];
        let together = self.together();
        let clusters = std::array::from_fn(|i| self.size[i] / self.cluster[i]);
        let (first, rank) = (unravel(n / together, clusters), unravel(n % together, self.cluster));
        std::array::from_fn(|i| first[i] * self.cluster[i] + rank[i])
    }

    /// CTAs of a cluster.
    pub(crate) fn together(&self) -> u32 {
        self.cluster.iter().product()
    }

    fn done(&self) -> bool {
        self.ended == self.total()
    }
}

/// The grids of one stream, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    pub(crate) grids: Vec<Grid>,
    overlaps: bool,
}

impl Stream {
    /// A stream of launches with these cluster shapes.
    pub(crate) fn new(launches: &[InStream<'_>], clusters: &[[u32; 3]]) -> Self {
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
        let overlaps = launches.iter().skip(1).any(|launch| launch.programmatic);
        Self { grids: grids.collect(), overlaps }
    }

    /// Whether any grid may overlap another.
    pub(crate) fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Whether all grids before this one have ended.
    pub(crate) fn alone(&self, n: usize) -> bool {
        for grid in self.grids[..n].iter().rev() {
            work::count(1);
            if !grid.done() {
                return false;
            }
            // It began when all grids before it had ended.
            if !grid.programmatic {
                return true;
            }
        }
        true
    }

    /// Whether CTAs of this grid may begin.
    pub(crate) fn may_begin(&self, n: usize) -> bool {
        let grid = &self.grids[n];
        match n.checked_sub(1).map(|p| &self.grids[p]) {
            None => true,
            Some(primary) if grid.programmatic => {
                primary.begun == primary.total() && primary.released == primary.total()
            }
            Some(_) => self.alone(n),
        }
    }

    /// Begins a grid with its first CTA; returns whether all earlier work is visible to it.
    pub(crate) fn begin(&mut self, n: usize) -> bool {
        let Some(primary) = n.checked_sub(1).map(|p| &self.grids[p]) else { return true };
        if self.grids[n].programmatic && primary.asked {
            // If every CTA of the primary waited before it released this grid, the grids before the primary have ended.
            let waited = primary.known.clone().filter(|_| primary.released_behind_wait == primary.total());
            self.grids[n].known_at_start = waited.unwrap_or_else(|| primary.known_at_start.clone());
            return false;
        }
        self.grids[n].known_at_start = Self::known_through(primary);
        self.alone(n)
    }

    /// Cancels the next cluster of a grid, which then never begins; returns the coordinates of its first CTA.
    pub(crate) fn cancel(&mut self, n: usize) -> Option<[u32; 3]> {
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

    /// A CTA releases dependents; `waited` tells whether it has waited for the preceding grid.
    pub(crate) fn release(&mut self, n: usize, waited: bool) {
        self.grids[n].asked = true;
        self.grids[n].released_behind_wait += u32::from(waited);
        self.grids[n].released += 1;
    }

    /// A CTA ends; `released` tells whether it had released dependents.
    pub(crate) fn end(&mut self, n: usize, released: bool) {
        self.grids[n].ended += 1;
        self.grids[n].released += u32::from(!released);
    }

    /// Returns the CTAs that a grid knows to have ended after `griddepcontrol.wait`; `None` while it must wait.
    pub(crate) fn wait(&mut self, n: usize) -> Option<Range<u32>> {
        let Some(primary) = n.checked_sub(1).map(|p| &self.grids[p]) else { return Some(0..0) };
        if !primary.done() {
            return None;
        }
        let known = Self::known_through(primary);
        self.grids[n].known = Some(known.clone());
        Some(known)
    }

    /// The CTAs of a grid that has ended, and of the grids that it knew to have ended.
    fn known_through(primary: &Grid) -> Range<u32> {
        let earlier = primary.known.as_ref().unwrap_or(&primary.known_at_start);
        if earlier.is_empty() { primary.ctas.clone() } else { earlier.start..primary.ctas.end }
    }

    /// The name of the grid that a CTA belongs to, and the grid's first CTA.
    pub(crate) fn grid_of(&self, cta: u32) -> (&str, u32) {
        let grid = self.grids.iter().find(|g| g.ctas.contains(&cta));
        grid.map_or(("", cta), |g| (g.name.as_str(), g.ctas.start))
    }
}
