//! Rows of vector instructions: what one lane computes, compiled for each set that a machine may have.
//!
//! [`by_lane!`] makes an `Exec` of what one lane computes. The loop over the lanes is compiled once per [`numerics::Path`], and a lane's
//! computation is inlined into it, so that the compiler turns it into vector instructions. It must have no branches. Inactive lanes
//! compute, too, and keep what they held; a computation therefore may not panic or have effects. Functions with branches, which gain
//! nothing, are rows of [`Machine::map2`] and its like: a plain loop over the active lanes. [`by_warp!`] makes one of what all lanes compute,
//! for functions that loop over them more than once; what holds for inactive lanes holds there, too.

use numerics::Path;
use pulp::NullaryFnOnce;

use crate::front::program::Row;
use crate::run::machine::{Flow, LANES, Machine, Registers};

/// What a register holds for a lane: an element of the 32-bit bank or of the 64-bit one.
pub(crate) trait Held: Copy + Default + 'static {
    fn bank(r: &Registers) -> &[[Self; LANES]];
    fn bank_mut(r: &mut Registers) -> &mut [[Self; LANES]];

    /// `new` if the lowest bit of `takes` is set, or else `old`: without a branch, so that a loop over lanes becomes vector instructions.
    fn taken(takes: u32, new: Self, old: Self) -> Self;
}

impl Held for u32 {
    #[inline(always)]
    fn bank(r: &Registers) -> &[[Self; LANES]] {
        &r.w
    }

    #[inline(always)]
    fn bank_mut(r: &mut Registers) -> &mut [[Self; LANES]] {
        &mut r.w
    }

    #[inline(always)]
    fn taken(takes: u32, new: Self, old: Self) -> Self {
        let all = 0u32.wrapping_sub(takes & 1);
        new & all | old & !all
    }
}

impl Held for u64 {
    #[inline(always)]
    fn bank(r: &Registers) -> &[[Self; LANES]] {
        &r.d
    }

    #[inline(always)]
    fn bank_mut(r: &mut Registers) -> &mut [[Self; LANES]] {
        &mut r.d
    }

    #[inline(always)]
    fn taken(takes: u32, new: Self, old: Self) -> Self {
        let all = 0u64.wrapping_sub(u64::from(takes & 1));
        new & all | old & !all
    }
}

/// The sources of a lane: a tuple, from the slots `a`, `b` and `c` of a row.
pub(crate) trait Sources: Copy {
    type Registers: Copy;
    type Places<'a>: Copy;

    /// A copy.
    fn read(r: &Registers, row: &Row) -> Self::Registers;

    fn places<'a>(r: &'a Registers, row: &Row) -> Self::Places<'a>;

    fn of_lane(places: Self::Places<'_>, lane: usize) -> Self;
}

macro_rules! sources {
    ($($ty:ident $slot:ident $n:tt),+) => {
        impl<$($ty: Held),+> Sources for ($($ty,)+) {
            type Registers = ($([$ty; LANES],)+);
            type Places<'a> = ($(&'a [$ty; LANES],)+);

            #[inline(always)]
            fn read(r: &Registers, row: &Row) -> Self::Registers {
                ($($ty::bank(r)[row.$slot as usize],)+)
            }

            #[inline(always)]
            fn places<'a>(r: &'a Registers, row: &Row) -> Self::Places<'a> {
                ($(&$ty::bank(r)[row.$slot as usize],)+)
            }

            #[inline(always)]
            fn of_lane(places: Self::Places<'_>, lane: usize) -> Self {
                ($(places.$n[lane],)+)
            }
        }
    };
}

sources!(A a 0);
sources!(A a 0, B b 1);
sources!(A a 0, B b 1, C c 2);

/// What one lane computes. `imm` is the row's.
pub(crate) trait Lane<S, D> {
    /// The result, right unless it is doubtful.
    fn quick(imm: u64, sources: S) -> D;

    /// Whether a lane with this quick result needs [`Lane::exact`] instead: rare, and cheap to tell.
    #[inline(always)]
    fn is_doubtful(_quick: D) -> bool {
        false
    }

    fn exact(imm: u64, sources: S) -> D {
        Self::quick(imm, sources)
    }
}

/// All lanes of a row.
struct Warp<'m, L, S, D> {
    r: &'m mut Registers,
    row: &'m Row,
    mask: u32,
    of: std::marker::PhantomData<(L, S, D)>,
}

impl<L: Lane<S, D>, S: Sources, D: Held> NullaryFnOnce for Warp<'_, L, S, D> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        compute::<L, S, D>(self.r, self.row, self.mask);
    }
}

/// Computes a row for the lanes of a mask. All lanes compute before one is written: the result may go to the register of a source, and a
/// loop that also writes there is not made of vector instructions.
#[inline(always)]
pub(crate) fn compute<L: Lane<S, D>, S: Sources, D: Held>(r: &mut Registers, row: &Row, mask: u32) {
    let (places, imm) = (S::places(r, row), row.imm);
    let mut out = [D::default(); LANES];
    let mut doubt = 0u32;
    for (lane, out) in out.iter_mut().enumerate() {
        *out = L::quick(imm, S::of_lane(places, lane));
        doubt |= u32::from(L::is_doubtful(*out));
    }
    if doubt != 0 {
        settle::<L, S, D>(imm, places, &mut out);
    }
    put(&mut D::bank_mut(r)[row.d as usize], &out, mask);
}

/// What all lanes compute, in loops over them.
pub(crate) trait WholeWarp<S: Sources, D> {
    fn all(sources: S::Registers) -> [D; LANES];
}

/// All lanes of a row, at once.
struct AtOnce<'m, L, S, D> {
    r: &'m mut Registers,
    row: &'m Row,
    mask: u32,
    of: std::marker::PhantomData<(L, S, D)>,
}

impl<L: WholeWarp<S, D>, S: Sources, D: Held> NullaryFnOnce for AtOnce<'_, L, S, D> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { r, row, mask, .. } = self;
        let out = L::all(S::read(r, row));
        put(&mut D::bank_mut(r)[row.d as usize], &out, mask);
    }
}

/// Gives the active lanes their results.
#[inline(always)]
fn put<D: Held>(to: &mut [D; LANES], out: &[D; LANES], mask: u32) {
    if mask == !0 {
        *to = *out;
    } else {
        for lane in 0..LANES {
            to[lane] = D::taken(mask >> lane, out[lane], to[lane]);
        }
    }
}

/// Replaces the doubtful results.
#[cold]
#[inline(never)]
fn settle<L: Lane<S, D>, S: Sources, D: Held>(imm: u64, places: S::Places<'_>, out: &mut [D; LANES]) {
    for (lane, out) in out.iter_mut().enumerate() {
        if L::is_doubtful(*out) {
            *out = L::exact(imm, S::of_lane(places, lane));
        }
    }
}

/// Runs a row of lanes on the vector instructions of the launch.
#[inline(always)]
pub(crate) fn run<L: Lane<S, D>, S: Sources, D: Held>(m: &mut Machine<'_>, row: &Row) -> Flow {
    let path: Path = m.world.path;
    path.run(Warp::<L, S, D> { r: m.r, row, mask: m.mask, of: std::marker::PhantomData });
    Flow::Next
}

/// As [`run`], for [`WholeWarp`].
#[inline(always)]
pub(crate) fn run_at_once<L: WholeWarp<S, D>, S: Sources, D: Held>(m: &mut Machine<'_>, row: &Row) -> Flow {
    let path: Path = m.world.path;
    path.run(AtOnce::<L, S, D> { r: m.r, row, mask: m.mask, of: std::marker::PhantomData });
    Flow::Next
}

/// `by_lane!(|a: u32, b: u64| -> u64 { … })`: an `Exec` of what a lane computes from its sources. `by_lane!(imm; |a: u32| …)` names the row's
/// `imm`. With `unless |quick| { … } => { … }`, a lane whose quick result is doubtful has that of the second block instead.
macro_rules! by_lane {
    (|$($source:ident: $ty:ty),+| -> $to:ty $quick:block $($rest:tt)*) => {
        $crate::run::vectors::by_lane!(_imm; |$($source: $ty),+| -> $to $quick $($rest)*)
    };
    ($imm:ident; |$($source:ident: $ty:ty),+| -> $to:ty $quick:block) => {{
        struct Of;
        impl $crate::run::vectors::Lane<($($ty,)+), $to> for Of {
            #[inline(always)]
            fn quick($imm: u64, ($($source,)+): ($($ty,)+)) -> $to $quick
        }
        $crate::run::vectors::run::<Of, ($($ty,)+), $to> as $crate::front::program::Exec
    }};
    ($imm:ident; |$($source:ident: $ty:ty),+| -> $to:ty $quick:block unless |$result:ident| $doubt:block => $exact:block) => {{
        struct Of;
        impl $crate::run::vectors::Lane<($($ty,)+), $to> for Of {
            #[inline(always)]
            fn quick($imm: u64, ($($source,)+): ($($ty,)+)) -> $to $quick

            #[inline(always)]
            fn is_doubtful($result: $to) -> bool $doubt

            fn exact($imm: u64, ($($source,)+): ($($ty,)+)) -> $to $exact
        }
        $crate::run::vectors::run::<Of, ($($ty,)+), $to> as $crate::front::program::Exec
    }};
}

/// `by_warp!(|a: u32, b: u64| -> u64 { … })`: an `Exec` of what all lanes compute, where the sources and the result are arrays over the lanes.
macro_rules! by_warp {
    (|$($source:ident: $ty:ty),+| -> $to:ty $value:block) => {{
        struct Of;
        impl $crate::run::vectors::WholeWarp<($($ty,)+), $to> for Of {
            #[inline(always)]
            fn all(($($source,)+): ($([$ty; $crate::run::machine::LANES],)+)) -> [$to; $crate::run::machine::LANES] $value
        }
        $crate::run::vectors::run_at_once::<Of, ($($ty,)+), $to> as $crate::front::program::Exec
    }};
}

pub(crate) use {by_lane, by_warp};
