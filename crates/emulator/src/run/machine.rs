//! The state that a row executes on: its warp's registers, its CTA and the grid's memory.

use crate::api::trap::{Fault, Rule};
use crate::front::program::{Kernel, Row};
use crate::memory::global::Region;
use crate::memory::spans::{KEPT, KeptReach};
use crate::memory::window::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_START, SHARED_WINDOW, Window, window_of};
use crate::rules::order::{Strong, Touch};
use crate::rules::races::{At, GlobalAccess};
use crate::rules::remarks::Stored;
use crate::rules::undefined::{Loaded, Shadow, stores};
use crate::run::cluster::{Peers, RANK_SHIFT};
use crate::run::cta::Cta;
pub(crate) use crate::run::world::{Tolerated, World};

pub(crate) const LANES: usize = 32;

/// How a fragment continues after a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// At the next row.
    Next,
    /// At the given row.
    Jump(u32),
    /// `taken` lanes continue at `target`, the others at the next row.
    Split { taken: u32, target: u32 },
    /// The masked lanes exit.
    Exit,
    /// The fragment runs this row again once something has changed in its CTA or in memory.
    Retry,
    /// The masked lanes continue at the next row when the barrier completes.
    Barrier(u32),
    /// As [`Flow::Next`]; some registers of the warp have just become undefined.
    Undefined,
    /// At the next row, after other warps have had their turn.
    Yield,
    /// Diverged lanes reconverge here.
    Join,
    /// The row runs again once all of these lanes of the warp have arrived here.
    Converge(u32),
    /// The row is `.aligned`; it runs again once all live lanes of the warp have arrived here.
    Align,
    /// The masked lanes call a function.
    Call,
    /// The masked lanes return from a function.
    Return,
    /// A fault, stored in `m.fault`.
    Fault,
}

/// The register banks of one warp.
pub(crate) struct Registers {
    pub(crate) w: Vec<[u32; LANES]>,
    pub(crate) d: Vec<[u64; LANES]>,
    pub(crate) p: Vec<u32>,
    /// The carry of extended-precision arithmetic, one bit per lane.
    pub(crate) carry: u32,
    /// Per watched register, the lanes that have written it.
    pub(crate) written: Vec<u32>,
    /// Undefined bits of registers; `None` until the first one appears.
    pub(crate) shadow: Option<Box<Shadow>>,
    /// Local memory, one lane after another.
    pub(crate) local: Region,
    /// Local memory of one lane: a multiple of 64.
    pub(crate) local_bytes: usize,
    /// The maximum of `local_bytes`.
    pub(crate) most_local: usize,
}

/// The running warp and everything that it can access.
pub(crate) struct Machine<'a> {
    /// Lanes that execute the row.
    pub(crate) mask: u32,
    /// Lanes of the fragment, before the guard is applied.
    pub(crate) fragment: u32,
    /// Lanes of the warp that have not exited.
    pub(crate) live: u32,
    pub(crate) warp: u32,
    pub(crate) r: &'a mut Registers,
    pub(crate) cta: &'a mut Cta,
    /// The other CTAs of the cluster.
    pub(crate) peers: Peers<'a>,
    pub(crate) world: &'a mut World,
    pub(crate) kernel: &'a Kernel,
    /// Whether waits that may time out do so now, because nothing else can make progress.
    pub(crate) impatient: bool,
    /// Rows with strong accesses in this turn.
    pub(crate) strong_rows: u32,
    /// How the current accesses are strong, if they are; tracked only if accesses are observed.
    pub(crate) strong: Option<Strong>,
    pub(crate) fault: Option<Fault>,
    /// The current row; of a block of rows that only compute, none of which can fail, the first.
    pub(crate) pc: u32,
    /// Remarks about the current row, each with its lane.
    pub(crate) lane_remarks: Vec<(usize, String)>,
    /// Which of the bytes that the row loaded are undefined, if any.
    pub(crate) loaded: Option<Box<Loaded>>,
    /// Set while a store is repeated on masks of undefined bits, to mark memory as unwritten.
    pub(crate) unmarks: Option<stores::Unmark>,
    /// Patterns of addresses that accesses of this turn have found.
    pub(crate) reaches: [KeptReach; KEPT],
}

/// A state space as named by an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    /// Shared memory of this CTA.
    Shared,
    /// Shared memory of any CTA of the cluster.
    Cluster,
    Local,
    Const,
    Param,
}

impl Space {
    const ALL: [Self; 7] =
        [Self::Generic, Self::Global, Self::Shared, Self::Local, Self::Const, Self::Param, Self::Cluster];

    /// Its number in a field of a row.
    pub(crate) fn number(self) -> u32 {
        Self::ALL.iter().position(|space| *space == self).unwrap_or_default() as u32
    }

    /// The space with a number.
    #[inline]
    pub(crate) fn numbered(number: u32) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }
}

/// The active lanes of a mask.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            lane
        })
    })
}

/// Calls `f` with each lane of a mask; a full mask uses a plain loop that can be vectorised.
#[inline(always)]
pub(crate) fn each(mask: u32, mut f: impl FnMut(usize)) {
    if mask == !0 {
        for i in 0..LANES {
            f(i);
        }
    } else {
        for i in lanes(mask) {
            f(i);
        }
    }
}

impl Machine<'_> {
    pub(crate) fn fail(&mut self, fault: Fault) -> Flow {
        self.fault = Some(fault);
        Flow::Fault
    }

    /// `d = f(a)` in the 32-bit bank.
    #[inline(always)]
    pub(crate) fn map1(&mut self, row: &Row, f: impl Fn(u32) -> u32) -> Flow {
        let a = self.r.w[row.a as usize];
        let d = &mut self.r.w[row.d as usize];
        each(self.mask, |i| d[i] = f(a[i]));
        Flow::Next
    }

    /// `d = f(a, b)` in the 32-bit bank.
    #[inline(always)]
    pub(crate) fn map2(&mut self, row: &Row, f: impl Fn(u32, u32) -> u32) -> Flow {
        let (a, b) = (self.r.w[row.a as usize], self.r.w[row.b as usize]);
        let d = &mut self.r.w[row.d as usize];
        each(self.mask, |i| d[i] = f(a[i], b[i]));
        Flow::Next
    }

    /// `d = f(a, b, c)` in the 32-bit bank.
    #[inline(always)]
    pub(crate) fn map3(&mut self, row: &Row, f: impl Fn(u32, u32, u32) -> u32) -> Flow {
        let (a, b, c) = (self.r.w[row.a as usize], self.r.w[row.b as usize], self.r.w[row.c as usize]);
        let d = &mut self.r.w[row.d as usize];
        each(self.mask, |i| d[i] = f(a[i], b[i], c[i]));
        Flow::Next
    }

    /// `d = f(a)` in the 64-bit bank.
    #[inline(always)]
    pub(crate) fn wide1(&mut self, row: &Row, f: impl Fn(u64) -> u64) -> Flow {
        let a = self.r.d[row.a as usize];
        let d = &mut self.r.d[row.d as usize];
        each(self.mask, |i| d[i] = f(a[i]));
        Flow::Next
    }

    /// `d = f(a, b)` in the 64-bit bank.
    #[inline(always)]
    pub(crate) fn wide2(&mut self, row: &Row, f: impl Fn(u64, u64) -> u64) -> Flow {
        let (a, b) = (self.r.d[row.a as usize], self.r.d[row.b as usize]);
        let d = &mut self.r.d[row.d as usize];
        each(self.mask, |i| d[i] = f(a[i], b[i]));
        Flow::Next
    }

    /// `d = f(a, b, c)` in the 64-bit bank.
    #[inline(always)]
    pub(crate) fn wide3(&mut self, row: &Row, f: impl Fn(u64, u64, u64) -> u64) -> Flow {
        let (a, b, c) = (self.r.d[row.a as usize], self.r.d[row.b as usize], self.r.d[row.c as usize]);
        let d = &mut self.r.d[row.d as usize];
        each(self.mask, |i| d[i] = f(a[i], b[i], c[i]));
        Flow::Next
    }

    /// Sets the masked lanes of predicate `slot` from `bits`.
    #[inline(always)]
    pub(crate) fn set_predicate(&mut self, slot: u32, bits: u32) {
        let p = &mut self.r.p[slot as usize];
        *p = (*p & !self.mask) | (bits & self.mask);
    }

    /// Returns the window of an address in `space`, and the offset in it. Shared offsets of this CTA are below 2^[`RANK_SHIFT`];
    /// those of other CTAs of the cluster are not.
    #[inline]
    pub(crate) fn split(&self, space: Space, address: u64) -> Result<(Window, u64), Fault> {
        Ok(match space {
            Space::Generic => match window_of(address) {
                (Window::Shared, at) => (Window::Shared, at ^ self.cta.member.base()),
                other => other,
            },
            Space::Global => {
                let (window, at) = window_of(address);
                if window != Window::Global {
                    return Err(Fault::new(
                        Rule::WrongSpace,
                        format!("{address:#x} is a {window} address, used as a global one"),
                    ));
                }
                (window, at)
            }
            Space::Shared | Space::Cluster => {
                if address >= 1 << 32 {
                    let what = format!("{address:#x} is a generic address, used as a shared one");
                    return Err(Fault::new(Rule::WrongSpace, what));
                }
                (Window::Shared, address ^ self.cta.member.base())
            }
            Space::Local => (Window::Local, address & 0xFFFF_FFFF),
            Space::Const => (Window::Const, address),
            Space::Param => (Window::Param, address),
        })
    }

    /// Checks that `address` is a multiple of `len`.
    #[inline(always)]
    pub(crate) fn aligned(address: u64, len: usize) -> Result<(), Fault> {
        if address.is_multiple_of(len as u64) {
            return Ok(());
        }
        Err(Fault::new(Rule::Misaligned, format!("address {address:#x} is not a multiple of {len}")))
    }

    /// Returns the offset in shared memory of `len` bytes at a shared address.
    #[inline]
    pub(crate) fn shared_at(&self, address: u64, len: usize) -> Result<usize, Fault> {
        let at = address.wrapping_sub(u64::from(SHARED_START));
        let (size, end, gap) = (self.cta.shared_end as u64, at.saturating_add(len as u64), &self.cta.gap);
        if at < size && end <= size {
            if at >= gap.end as u64 || end <= gap.start as u64 || gap.is_empty() {
                return Ok(at as usize);
            }
            let what = format!(
                "{len} bytes at shared address {address:#x}, between the static variables and dynamic shared memory, \
                 which begins at {:#x}",
                self.cta.dynamic_at
            );
            return Err(Fault::new(Rule::OutOfBounds, what));
        }
        if address >> RANK_SHIFT != 0 {
            return Err(self.elsewhere(address, len));
        }
        if self.kernel.reserved && address + len as u64 <= u64::from(SHARED_START) {
            return Ok(self.cta.shared_end + address as usize);
        }
        Err(Fault::new(
            Rule::OutOfBounds,
            format!(
                "{len} bytes at shared address {address:#x}; the CTA has {} bytes from {SHARED_START:#x}",
                self.cta.shared_end
            ),
        ))
    }

    /// Runs `f` with its accesses marked strong: atomics, `.volatile`, `.relaxed` and the like.
    pub(crate) fn strongly<T>(&mut self, strong: Strong, f: impl FnOnce(&mut Self) -> T) -> T {
        self.strong_rows += 1;
        self.set_strong(Some(strong));
        let result = f(self);
        self.set_strong(None);
        result
    }

    fn set_strong(&mut self, strong: Option<Strong>) {
        if let Some(races) = &mut self.cta.races {
            races.set_strong(strong);
        } else if self.world.apart.is_none() {
            return;
        }
        self.strong = strong;
    }

    /// Reports an access to shared memory to the race detector; a strong access may also synchronise.
    #[inline]
    fn note_shared(&mut self, at: usize, len: usize, write: bool) -> Result<(), Fault> {
        let Some(strong) = self.strong else { return self.cta.note(at, len, write, self.warp) };
        let (address, warp) = (crate::copies::pending::shared_address(at), self.warp);
        if !write && let Some(races) = &mut self.cta.races {
            races.observe(address, len, warp, strong, At::Shared);
            if strong.order.acquires {
                self.cta.meet(warp, !0);
            }
        }
        self.cta.note(at, len, write, warp)?;
        if write && let Some(races) = &mut self.cta.races {
            races.publish(address, len, warp, strong, At::Shared);
        }
        Ok(())
    }

    /// The epoch of the CTA, and the warp.
    #[inline]
    pub(crate) fn in_epoch(&self) -> (u32, u32) {
        (self.cta.races.as_ref().map_or(0, |races| races.epoch()), self.warp)
    }

    /// Takes note of an access whose conflicts are looked for apart from the race detector, and of whether it may have met one of its own
    /// warp. A strong access orders others, which only the detector knows.
    #[inline]
    pub(crate) fn met_apart(&mut self, own: bool) {
        if self.strong.is_some() {
            self.world.communicate();
        }
        if own && let Some(races) = &self.cta.races {
            races.meet_own_warp();
        }
    }

    /// Reports an access to global memory to the race detector.
    #[inline]
    fn note_global(&mut self, address: u64, len: usize, write: bool) -> Result<(), Fault> {
        if self.strong.is_some() && !write {
            self.world.communicate();
        }
        match self.world.global.find(address, len) {
            Some(place) => {
                if let Some(own) = self.world.touch_at(place, len, write, self.in_epoch()) {
                    self.met_apart(own);
                    return Ok(());
                }
            }
            None => self.world.communicate(),
        }
        let Some(races) = &mut self.cta.races else { return Ok(()) };
        let World { races: world, stream, .. } = &mut *self.world;
        if let Some(strong) = self.strong.filter(|_| !write) {
            races.observe(address, len, self.warp, strong, At::Global(world));
        }
        world.access(races, GlobalAccess { address, len, write }, self.warp, stream)?;
        if !write && self.strong.is_some_and(|strong| strong.order.acquires) {
            self.cta.meet(self.warp, !0);
        } else if let Some(strong) = self.strong.filter(|_| write) {
            races.publish(address, len, self.warp, strong, At::Global(world));
        } else if self.strong.is_some_and(|strong| strong.touch == Touch::Load)
            && let Some(what) = races.observes_unordered(address, self.warp, world)
        {
            self.lane_remarks.push((self.mask.trailing_zeros() as usize % LANES, what));
        }
        Ok(())
    }

    /// Runs `read` with the rule that nothing in this grid writes what it reads, if all conflicts are looked for among clusters that run
    /// apart. Otherwise the race detector checks that ([`Races::read_only`](crate::rules::races::Races::read_only)), and nothing is done here.
    pub(crate) fn read_only_apart<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.world.apart.as_deref_mut().filter(|apart| apart.checks_all())?.set_read_only(true);
        let result = read(self);
        if let Some(apart) = self.world.apart.as_deref_mut() {
            apart.set_read_only(false);
        }
        Some(result)
    }

    /// Reads `N` bytes for a lane; unwritten bytes are a fault.
    #[inline]
    pub(crate) fn read<const N: usize>(
        &mut self,
        space: Space,
        address: u64,
        lane: usize,
    ) -> Result<[u8; N], Fault> {
        let bytes = self.load(space, address, lane)?;
        if self.loaded.take().is_none() {
            return Ok(bytes);
        }
        let (window, at) = self.split(space, address)?;
        let fault = self.undefined_in_memory(window, at, address, N).at(lane);
        self.tolerate(fault).map(|()| bytes)
    }

    fn never_written(window: Window, address: u64, len: usize) -> Fault {
        let what = format!("{len} bytes at {window} address {address:#x} that were never written");
        Fault::new(Rule::Uninitialised, what)
    }

    /// Reads `N` bytes for a lane; unwritten bytes are undefined ([`Machine::loaded`]).
    #[inline]
    pub(crate) fn load<const N: usize>(
        &mut self,
        space: Space,
        address: u64,
        lane: usize,
    ) -> Result<[u8; N], Fault> {
        Self::aligned(address, N)?;
        let (window, at) = self.split(space, address)?;
        let check = self.world.check_init;
        let (region, at) = match window {
            Window::Global => {
                let (index, place) = self.world.global.locate(at, N)?;
                self.watch_global(at, N, false, Some(lane));
                if let Err(fault) = self.note_global(at, N, false) {
                    self.reads_same(true, at, N, fault)?;
                }
                (self.world.global.region(index), place)
            }
            Window::Shared => {
                if at >> RANK_SHIFT != 0 {
                    return self.read_peer(space, at);
                }
                let at = self.shared_at(at, N)?;
                self.watch_shared(None, at, N, false, Some(lane));
                if let Err(fault) = self.note_shared(at, N, false) {
                    self.reads_same(false, at as u64, N, fault)?;
                }
                (&self.cta.shared, at)
            }
            Window::Local => {
                let size = self.r.local_bytes;
                if at + N as u64 > size as u64 {
                    let what = format!("{N} bytes at local address {at:#x}; a thread has {size} bytes");
                    return Err(Fault::new(Rule::OutOfBounds, what));
                }
                (&self.r.local, lane * size + at as usize)
            }
            Window::Const => (&self.world.constants, at as usize),
            Window::Param => {
                let bytes = self.world.params.get(at as usize..).and_then(|b| b.first_chunk::<N>());
                return bytes.copied().ok_or_else(|| {
                    Fault::new(Rule::OutOfBounds, format!("{N} bytes at parameter address {at:#x}"))
                });
            }
        };
        let Some(bytes) = region.get::<N>(at) else {
            return Err(Fault::new(Rule::OutOfBounds, format!("{N} bytes at {window} address {address:#x}")));
        };
        if check && !region.is_written(at, N) {
            let unwritten = (0..N).fold(0, |bits, n| bits | u32::from(!region.is_written(at + n, 1)) << n);
            // A preceding grid may be about to write them.
            let early = window == Window::Global && self.world.in_front(self.cta, self.warp);
            if self.world.check_loads || early {
                return Err(Self::never_written(window, address, N));
            }
            self.reads_unwritten(lane, unwritten);
        }
        Ok(bytes)
    }

    /// Writes bytes for a lane.
    #[inline]
    pub(crate) fn write<const N: usize>(
        &mut self,
        space: Space,
        address: u64,
        lane: usize,
        bytes: [u8; N],
    ) -> Result<(), Fault> {
        if let Some(store) = self.unmarks {
            return self.unmark(space, address, lane, bytes, store);
        }
        Self::aligned(address, N)?;
        let (window, at) = self.split(space, address)?;
        match window {
            Window::Global => {
                let (index, place) = self.world.global.locate(at, N)?;
                self.world.maps.check(at, N)?;
                self.watch_global(at, N, true, Some(lane));
                let again = !self.lane_remarks.is_empty()
                    && !self.world.checks_apart()
                    && self.stores_same_again(at, &bytes);
                if !again && let Err(fault) = self.note_global(at, N, true) {
                    self.stores_same(Stored::Global { address: at, new: &bytes }, lane, fault)?;
                }
                if let Some(drafts) = &mut self.cta.drafts
                    && drafts.watches_global()
                {
                    drafts.stored(at, N, self.warp, lane);
                }
                let region = self.world.global.region_mut(index);
                if let Some(races) = &self.cta.races {
                    races.settle_store(|| region.changes(place, &bytes));
                }
                region.put(place, &bytes);
                self.world.global.sums.written(at, N);
            }
            Window::Shared => {
                if at >> RANK_SHIFT != 0 {
                    return self.write_peer(space, at, bytes, lane);
                }
                let at = self.shared_at(at, N)?;
                self.watch_shared(None, at, N, true, Some(lane));
                if let Err(fault) = self.note_shared(at, N, true) {
                    self.stores_same(Stored::Shared { at, new: &bytes }, lane, fault)?;
                }
                self.cta.wrote(at, N, self.warp * 32 + lane as u32);
                if let Some(drafts) = &mut self.cta.drafts {
                    drafts.stored(crate::copies::pending::shared_address(at), N, self.warp, lane);
                }
                if let Some(races) = &self.cta.races {
                    races.settle_store(|| self.cta.shared.changes(at, &bytes));
                }
                self.cta.shared.put(at, &bytes);
            }
            Window::Local => {
                let size = self.r.local_bytes;
                if at + N as u64 > size as u64 {
                    let what = format!("{N} bytes at local address {at:#x}; a thread has {size} bytes");
                    return Err(Fault::new(Rule::OutOfBounds, what));
                }
                self.r.local.put(lane * size + at as usize, &bytes);
            }
            Window::Const | Window::Param => {
                let what = format!("{N} bytes written to {window} address {address:#x}, which is read-only");
                return Err(Fault::new(Rule::WrongSpace, what));
            }
        }
        Ok(())
    }

    /// Converts an address of a state space to a generic address.
    pub(crate) fn generic(space: Space, address: u64) -> u64 {
        match space {
            Space::Generic | Space::Global => address,
            Space::Shared | Space::Cluster => SHARED_WINDOW + (address & 0xFFFF_FFFF),
            Space::Local => LOCAL_WINDOW + address,
            Space::Param => PARAM_WINDOW + address,
            Space::Const => crate::memory::window::CONST_WINDOW + address,
        }
    }
}
