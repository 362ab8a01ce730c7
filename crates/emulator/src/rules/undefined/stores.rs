//! Stores of undefined bytes: memory that becomes unwritten, and the record of those to global memory, which may outlive the grid.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::api::trap::{Cause, Fault, Rule};
use crate::front::program::Row;
use crate::memory::window::Window;
use crate::rules::remarks::earlier;
use crate::run::cluster::RANK_SHIFT;
use crate::run::machine::{LANES, Machine, Space, lanes};

/// A store whose undefined bytes are being marked as unwritten: its row, and the row that caused them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unmark {
    pub(crate) pc: u32,
    pub(crate) from: u32,
}

/// Undefined bytes that one instruction stored to global memory.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// From the lowest address to the end of the highest.
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) cause: Cause,
    pub(crate) cta: [u32; 3],
    pub(crate) warp: u32,
    pub(crate) lane: usize,
}

impl Stored {
    /// What the same instruction stored elsewhere. The first CTA of the grid is reported.
    pub(crate) fn join(&mut self, other: Self) {
        let (low, high) = (self.low.min(other.low), self.high.max(other.high));
        if earlier(other.cta, self.cta) {
            *self = other;
        }
        (self.low, self.high) = (low, high);
    }
}

/// By grid and row.
pub(crate) type Stores = BTreeMap<(usize, u32), Stored>;

impl Machine<'_> {
    /// Marks as unwritten what a lane stored where `bits`, the mask of undefined bits, is not zero.
    #[cold]
    pub(crate) fn unmark<const N: usize>(
        &mut self,
        space: Space,
        address: u64,
        lane: usize,
        bits: [u8; N],
        store: Unmark,
    ) -> Result<(), Fault> {
        let (window, at) = self.split(space, address)?;
        for n in (0..N).filter(|n| bits[*n] != 0) {
            match window {
                Window::Global => {
                    let (index, place) = self.world.global.locate(at + n as u64, 1)?;
                    self.world.global.region_mut(index).undefine(place, 1);
                    self.remember(at + n as u64, lane, store);
                }
                Window::Shared if at >> RANK_SHIFT != 0 => self.unmark_peer(space, at + n as u64)?,
                Window::Shared => {
                    let place = self.shared_at(at + n as u64, 1)?;
                    self.cta.shared.undefine(place, 1);
                }
                Window::Local => {
                    let place = lane * self.r.local_bytes + at as usize + n;
                    self.r.local.unmark(place, 1);
                }
                Window::Const | Window::Param => {}
            }
        }
        Ok(())
    }

    /// Marks as unwritten what lanes changed by an operand with undefined bits.
    pub(crate) fn unmark_atomic(
        &mut self,
        row: &Row,
        address: &[u64; LANES],
        undefined: u32,
        bytes: usize,
        store: Unmark,
    ) -> Result<(), Fault> {
        for lane in lanes(undefined) {
            for n in 0..bytes as u64 {
                let at = address[lane].wrapping_add(row.imm) + n;
                self.unmark(Space::numbered(row.b), at, lane, [0xFF], store)?;
            }
        }
        Ok(())
    }

    /// The fault of an operand in memory whose bytes are undefined: if a store left them so, what that store depends on.
    #[cold]
    pub(crate) fn undefined_in_memory(&mut self, window: Window, at: u64, address: u64, len: usize) -> Fault {
        let left = match window {
            Window::Global => self
                .world
                .global
                .locate(at, len)
                .is_ok_and(|(n, place)| self.world.global.region(n).has_undefined(place, len)),
            Window::Shared => {
                self.shared_at(at, len).is_ok_and(|place| self.cta.shared.has_undefined(place, len))
            }
            _ => false,
        };
        if !left {
            let what = format!("{len} bytes at {window} address {address:#x} that were never written");
            return Fault::new(Rule::Uninitialised, what);
        }
        let what = format!(
            "{len} bytes at {window} address {address:#x} hold undefined bits that a store left there"
        );
        if window != Window::Global {
            return Fault::new(Rule::Uninitialised, what);
        }
        let grid = self.cta.grid;
        let stored =
            self.world.undefined.iter().find(|((of, _), s)| *of == grid && s.low <= at && at < s.high);
        match (stored, self.world.global.left_undefined(at)) {
            (Some((_, stored)), _) => {
                Fault { cause: Some(stored.cause), ..Fault::new(Rule::Uninitialised, what) }
            }
            (None, Some(left)) => Fault::new(Rule::Uninitialised, format!("{what}, in {}", left.trap.place)),
            (None, None) => Fault::new(Rule::Uninitialised, what),
        }
    }

    fn remember(&mut self, at: u64, lane: usize, store: Unmark) {
        let cause = self.cause(store.from);
        let (cta, warp) = (self.cta.id, self.warp);
        let stored = Stored { low: at, high: at + 1, cause, cta, warp, lane };
        match self.world.undefined.entry((self.cta.grid, store.pc)) {
            Entry::Vacant(entry) => {
                entry.insert(stored);
            }
            Entry::Occupied(mut entry) => entry.get_mut().join(stored),
        }
    }
}
