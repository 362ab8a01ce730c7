//! The operations of rows that kernels execute most, by name, and blocks of them.
//!
//! A row is a function that runs for a warp ([`Exec`]). Calling it, and asking between any two rows what the scheduler, an observer or a
//! rule wants, costs as much as the arithmetic of 32 lanes. The rows of these operations only compute registers from registers: nothing
//! can happen between them. A run of them is therefore executed at once ([`Block`]), in one function that is compiled for the vector
//! instructions of the machine and knows each operation. What an operation computes is written once, here; `exec` makes a row of it.
//!
//! The operation of a row is found by its function. Two operations with one function, which a compiler may make of equal ones, compute the
//! same; a function with two addresses is not found, and then its row runs by itself.

use std::sync::LazyLock;

use numerics::float::{self, may_be_tiny};
use numerics::{Path, Rounding};
use pulp::NullaryFnOnce;
use rustc_hash::FxHashMap;

use super::compare::{FTZ, finish};
use crate::front::program::{Exec, Row, UNGUARDED};
use crate::run::machine::{Flow, LANES, Machine, Registers};
use crate::run::vectors::{self, Lane};

/// What a lane computes.
macro_rules! lane {
    ($name:ident $imm:ident ($($source:ident: $ty:ty),+) $to:ty $quick:block) => {
        impl Lane<($($ty,)+), $to> for $name {
            #[inline(always)]
            fn quick($imm: u64, ($($source,)+): ($($ty,)+)) -> $to $quick
        }
    };
    ($name:ident $imm:ident ($($source:ident: $ty:ty),+) $to:ty $quick:block $result:ident $doubt:block $exact:block) => {
        impl Lane<($($ty,)+), $to> for $name {
            #[inline(always)]
            fn quick($imm: u64, ($($source,)+): ($($ty,)+)) -> $to $quick

            #[inline(always)]
            fn is_doubtful($result: $to) -> bool $doubt

            fn exact($imm: u64, ($($source,)+): ($($ty,)+)) -> $to $exact
        }
    };
}

/// `operations!`: by name, what a lane computes ([`Lane`]), as in [`by_lane!`](crate::run::vectors::by_lane); then tests of two registers,
/// and logic of two predicates.
macro_rules! operations {
    (
        lanes { $($(#[$doc:meta])* $name:ident $imm:ident ($($source:ident: $ty:ty),+) -> $to:ty $quick:block
            $(unless |$result:ident| $doubt:block => $exact:block)?;)+ }
        tests { $($(#[$test_doc:meta])* $test:ident $test_imm:ident ($a:ident, $b:ident: $of:ty) $holds:block)+ }
        predicates { $($(#[$logic_doc:meta])* $logic:ident ($p:ident, $q:ident) $both:block)+ }
    ) => {
        /// The operation of a row.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Operation {
            /// None of these.
            Other,
            $($(#[$doc])* $name,)+
            $($(#[$test_doc])* $test,)+
            $($(#[$logic_doc])* $logic,)+
        }

        $(
            struct $name;

            lane!($name $imm ($($source: $ty),+) $to $quick $($result $doubt $exact)?);
        )+

        $(
            struct $test;

            impl Test<$of> for $test {
                #[inline(always)]
                fn holds($test_imm: u64, $a: $of, $b: $of) -> bool $holds
            }
        )+

        $(
            struct $logic;

            impl Logic for $logic {
                #[inline(always)]
                fn both($p: u32, $q: u32) -> u32 $both
            }
        )+

        /// The functions of the operations.
        static ALL: &[(Operation, Exec)] = &[
            $((Operation::$name, vectors::run::<$name, ($($ty,)+), $to>),)+
            $((Operation::$test, |m, row| row_of_test::<$test, $of>(m, row)),)+
            $((Operation::$logic, |m, row| {
                combine::<$logic>(m.r, row, m.mask);
                Flow::Next
            }),)+
        ];

        /// Executes an operation for the lanes of a mask; returns false if it is none of these.
        #[inline(always)]
        fn step(operation: Operation, r: &mut Registers, row: &Row, mask: u32) -> bool {
            match operation {
                Operation::Other => return false,
                $(Operation::$name => vectors::compute::<$name, ($($ty,)+), $to>(r, row, mask),)+
                $(Operation::$test => test::<$test, $of>(r, row, mask),)+
                $(Operation::$logic => combine::<$logic>(r, row, mask),)+
            }
            true
        }
    };
}

operations! {
    lanes {
        /// `d = a`.
        MoveW _imm (a: u32) -> u32 { a };
        MoveD _imm (a: u64) -> u64 { a };
        /// `d = a + imm` in 32 bits, widened to 64.
        Widen imm (a: u32) -> u64 { u64::from(a.wrapping_add(imm as u32)) };
        SignExtend _imm (a: u32) -> u64 { i64::from(a as i32) as u64 };
        LowWord _imm (a: u64) -> u32 { a as u32 };
        AddW _imm (a: u32, b: u32) -> u32 { a.wrapping_add(b) };
        AddD _imm (a: u64, b: u64) -> u64 { a.wrapping_add(b) };
        SubtractW _imm (a: u32, b: u32) -> u32 { a.wrapping_sub(b) };
        SubtractD _imm (a: u64, b: u64) -> u64 { a.wrapping_sub(b) };
        MultiplyW _imm (a: u32, b: u32) -> u32 { a.wrapping_mul(b) };
        MultiplyWideU32 _imm (a: u32, b: u32) -> u64 { u64::from(a) * u64::from(b) };
        MultiplyWideS32 _imm (a: u32, b: u32) -> u64 { (i64::from(a as i32) * i64::from(b as i32)) as u64 };
        MultiplyAddW _imm (a: u32, b: u32, c: u32) -> u32 { a.wrapping_mul(b).wrapping_add(c) };
        MultiplyAddWideU32 _imm (a: u32, b: u32, c: u64) -> u64 { (u64::from(a) * u64::from(b)).wrapping_add(c) };
        MultiplyAddWideS32 _imm (a: u32, b: u32, c: u64) -> u64 {
            ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c)
        };
        NegateW _imm (a: u32) -> u32 { a.wrapping_neg() };
        MinU32 _imm (a: u32, b: u32) -> u32 { a.min(b) };
        MaxU32 _imm (a: u32, b: u32) -> u32 { a.max(b) };
        MinS32 _imm (a: u32, b: u32) -> u32 { (a as i32).min(b as i32) as u32 };
        MaxS32 _imm (a: u32, b: u32) -> u32 { (a as i32).max(b as i32) as u32 };
        AndW _imm (a: u32, b: u32) -> u32 { a & b };
        OrW _imm (a: u32, b: u32) -> u32 { a | b };
        XorW _imm (a: u32, b: u32) -> u32 { a ^ b };
        NotW _imm (a: u32) -> u32 { !a };
        AndD _imm (a: u64, b: u64) -> u64 { a & b };
        OrD _imm (a: u64, b: u64) -> u64 { a | b };
        /// Shift amounts are clamped to the width.
        ShiftLeftW _imm (a: u32, b: u32) -> u32 { if b < 32 { a << (b & 31) } else { 0 } };
        ShiftRightU32 _imm (a: u32, b: u32) -> u32 { if b < 32 { a >> (b & 31) } else { 0 } };
        ShiftRightS32 _imm (a: u32, b: u32) -> u32 { (a as i32 >> b.min(31)) as u32 };
        ShiftLeftD _imm (a: u64, b: u32) -> u64 { if b < 64 { a << (b & 63) } else { 0 } };
        FloatOfS32 _imm (a: u32) -> u32 { (a as i32 as f32).to_bits() };
        FloatOfU32 _imm (a: u32) -> u32 { (a as f32).to_bits() };
        /// Round to nearest even. The sign of `b` changes if the row subtracts.
        AddF32 imm (a: u32, b: u32) -> u32 {
            float::add_f32_nearest(a, b ^ super::float::sign(imm), false, false)
        };
        AddF32Flush imm (a: u32, b: u32) -> u32 {
            float::add_f32_nearest(a, b ^ super::float::sign(imm), true, false)
        };
        MultiplyF32 _imm (a: u32, b: u32) -> u32 { float::mul_f32_nearest(a, b, false, false) };
        MultiplyF32Flush _imm (a: u32, b: u32) -> u32 {
            float::mul_f32_nearest(a, b, true, false)
        } unless |quick| { may_be_tiny(quick) } => {
            float::mul_f32(a, b, Rounding::NearestEven, true, false)
        };
        MultiplyAddF32 _imm (a: u32, b: u32, c: u32) -> u32 { float::fma_f32_nearest(a, b, c, false, false) };
        MultiplyAddF32Flush _imm (a: u32, b: u32, c: u32) -> u32 {
            float::fma_f32_nearest(a, b, c, true, false)
        } unless |quick| { may_be_tiny(quick) } => {
            float::fma_f32(a, b, c, Rounding::NearestEven, true, false)
        };
        NegateF32 _imm (a: u32) -> u32 { float::neg_f32(a, false) };
    }
    tests {
        EqualW _imm (a, b: u32) { a == b }
        LessU32 _imm (a, b: u32) { a < b }
        LessS32 _imm (a, b: u32) { (a as i32) < b as i32 }
        EqualD _imm (a, b: u64) { a == b }
        LessU64 _imm (a, b: u64) { a < b }
        LessS64 _imm (a, b: u64) { (a as i64) < b as i64 }
        EqualF32 imm (a, b: u32) { flushed(imm, a) == flushed(imm, b) }
        LessF32 imm (a, b: u32) { flushed(imm, a) < flushed(imm, b) }
        AtMostF32 imm (a, b: u32) { flushed(imm, a) <= flushed(imm, b) }
    }
    predicates {
        And (p, q) { p & q }
        Or (p, q) { p | q }
        Xor (p, q) { p ^ q }
    }
}

/// A float, without its fraction if it is subnormal and the comparison flushes.
#[inline(always)]
fn flushed(imm: u64, a: u32) -> f32 {
    f32::from_bits(float::flush_f32(a, imm & FTZ != 0))
}

/// A comparison of two registers.
trait Test<T> {
    fn holds(imm: u64, a: T, b: T) -> bool;
}

/// Logic of two predicates.
trait Logic {
    fn both(p: u32, q: u32) -> u32;
}

#[inline(always)]
fn test<T: Test<S>, S: vectors::Held>(r: &mut Registers, row: &Row, mask: u32) {
    let (a, b, imm) = (&S::bank(r)[row.a as usize], &S::bank(r)[row.b as usize], row.imm);
    // A plain loop: the closure of a fold is a function of its own, which is not compiled for these vector instructions.
    let mut answer = 0u32;
    for i in 0..LANES {
        answer |= u32::from(T::holds(imm, a[i], b[i])) << i;
    }
    finish((r, mask), row, answer, 0);
}

/// Runs a test on the vector instructions of the launch.
fn row_of_test<T: Test<S>, S: vectors::Held>(m: &mut Machine<'_>, row: &Row) -> Flow {
    struct Once<'m, T, S>(&'m mut Registers, &'m Row, u32, std::marker::PhantomData<(T, S)>);
    impl<T: Test<S>, S: vectors::Held> NullaryFnOnce for Once<'_, T, S> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            test::<T, S>(self.0, self.1, self.2);
        }
    }
    let path: Path = m.world.path;
    path.run(Once::<T, S>(m.r, row, m.mask, std::marker::PhantomData));
    Flow::Next
}

/// `d = a op b` of predicates, each of which the row may negate.
#[inline(always)]
fn combine<L: Logic>(r: &mut Registers, row: &Row, mask: u32) {
    let flip = |bit: u64| 0u32.wrapping_sub((row.imm >> bit & 1) as u32);
    let bits = L::both(r.p[row.a as usize] ^ flip(0), r.p[row.b as usize] ^ flip(1));
    let p = &mut r.p[row.d as usize];
    *p = *p & !mask | bits & mask;
}

impl Operation {
    /// The function of a row with this operation.
    pub(crate) fn exec(self) -> Exec {
        let found = ALL.iter().find(|(operation, _)| *operation == self);
        found.map_or(|_, _| Flow::Next, |(_, exec)| *exec)
    }

    /// The operation of a row.
    fn of_row(row: &Row) -> Self {
        static BY_FUNCTION: LazyLock<FxHashMap<usize, Operation>> =
            LazyLock::new(|| ALL.iter().map(|(operation, exec)| (*exec as usize, *operation)).collect());
        BY_FUNCTION.get(&(row.exec as usize)).copied().unwrap_or(Self::Other)
    }
}

/// The operations of a kernel's rows.
pub(crate) struct Operations {
    by_row: Vec<Operation>,
    /// By row, how many rows from it on have operations.
    runs: Vec<u32>,
}

impl Operations {
    pub(crate) fn of_rows(rows: &[Row]) -> Self {
        let by_row: Vec<Operation> = rows.iter().map(Operation::of_row).collect();
        let mut runs = vec![0; rows.len()];
        let mut run = 0;
        for (length, operation) in runs.iter_mut().zip(&by_row).rev() {
            run = if *operation == Operation::Other { 0 } else { run + 1 };
            *length = run;
        }
        Self { by_row, runs }
    }

    /// How many rows from this one on a block may have.
    #[inline(always)]
    pub(crate) fn run(&self, pc: u32) -> u32 {
        self.runs.get(pc as usize).copied().unwrap_or(0)
    }
}

/// Rows with operations, one after another, for the lanes of a fragment.
pub(crate) struct Block<'a> {
    pub(crate) r: &'a mut Registers,
    pub(crate) operations: &'a Operations,
    pub(crate) rows: &'a [Row],
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) fragment: u32,
}

impl NullaryFnOnce for Block<'_> {
    /// How many rows it has executed: all, if they have operations.
    type Output = usize;

    #[inline(always)]
    fn call(self) -> usize {
        let Self { r, operations, rows, first, count, fragment } = self;
        let range = first..first + count;
        let (Some(rows), Some(by_row)) = (rows.get(range.clone()), operations.by_row.get(range)) else {
            return 0;
        };
        for (n, (row, operation)) in rows.iter().zip(by_row).enumerate() {
            let mask = if row.guard == UNGUARDED {
                fragment
            } else {
                fragment & (r.p[row.guard as usize] ^ row.negate)
            };
            if mask != 0 && !step(*operation, r, row, mask) {
                return n;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::global::Region;
    use crate::run::random::Random;

    /// Registers of four slots in each bank.
    fn registers(random: &mut Random) -> Registers {
        const SPECIAL: [u32; 12] = [
            0,
            1,
            0x8000_0000,
            0x7F80_0000,
            0xFF80_0000,
            0x7FC0_0001,
            0xFFA0_0000,
            0x0080_0000,
            0x8080_0000,
            0x007F_FFFF,
            0x3F80_0000,
            u32::MAX,
        ];
        let mut word = || match random.below(2) {
            0 => SPECIAL[random.below(SPECIAL.len())],
            _ => random.next() as u32,
        };
        Registers {
            w: (0..4).map(|_| std::array::from_fn(|_| word())).collect(),
            d: (0..4).map(|_| std::array::from_fn(|_| u64::from(word()) << 32 | u64::from(word()))).collect(),
            p: (0..4).map(|_| word()).collect(),
            carry: 0,
            written: Vec::new(),
            shadow: None,
            local: Region::default(),
            local_bytes: 0,
            most_local: 0,
        }
    }

    fn copy(r: &Registers) -> Registers {
        let (w, d, p) = (r.w.clone(), r.d.clone(), r.p.clone());
        Registers { w, d, p, written: Vec::new(), shadow: None, local: Region::default(), ..*r }
    }

    #[test]
    fn a_block_computes_what_its_operations_compute_lane_by_lane_on_every_path() {
        let mut random = Random(5);
        let imms = [0, 1, 2, 3, 16, 64, 65, 2 | 16, 4, 8 | 1, 64 | 32 | 1 << 32];
        for (operation, exec) in ALL {
            for round in 0..200 {
                let imm = imms[round % imms.len()];
                let guard = if round % 3 == 0 { 1 } else { UNGUARDED };
                let rows = [Row { d: 3, a: 0, b: 1, c: 2, imm, guard, ..Row::new(*exec) }];
                let operations = Operations::of_rows(&rows);
                let fragment = [!0, random.next() as u32][round % 2];
                let start = registers(&mut random);
                let mut wanted = copy(&start);
                let scalar = Path::available()[0];
                let run = |path: Path, r: &mut Registers, fragment: u32| {
                    let block =
                        Block { r, operations: &operations, rows: &rows, first: 0, count: 1, fragment };
                    assert_eq!(path.run(block), 1);
                };
                // A lane sees the registers as they were: none of them is a result of another lane.
                for lane in crate::run::machine::lanes(fragment) {
                    let mut alone = copy(&start);
                    run(scalar, &mut alone, 1 << lane);
                    wanted.w[3][lane] = alone.w[3][lane];
                    wanted.d[3][lane] = alone.d[3][lane];
                    for (to, from) in wanted.p.iter_mut().zip(&alone.p) {
                        *to = *to & !(1 << lane) | from & 1 << lane;
                    }
                }
                for path in Path::available() {
                    let mut got = copy(&start);
                    run(path, &mut got, fragment);
                    let all = |r: &Registers| (r.w.clone(), r.d.clone(), r.p.clone());
                    assert!(all(&got) == all(&wanted), "{operation:?} on {}, imm {imm:#x}", path.name());
                }
            }
        }
    }

    #[test]
    fn every_operation_is_found_by_its_function() {
        for (operation, exec) in ALL {
            assert_eq!(operation.exec() as usize, *exec as usize);
            // One with the same function computes the same.
            let found = Operation::of_row(&Row::new(*exec));
            assert_eq!(found.exec() as usize, *exec as usize, "{operation:?}");
        }
        let other = Row::new(|_, _| Flow::Retry);
        let rows = [
            Row::new(Operation::AddW.exec()),
            other,
            Row::new(Operation::And.exec()),
            Row::new(Operation::MoveD.exec()),
        ];
        let operations = Operations::of_rows(&rows);
        assert_eq!((0..5).map(|pc| operations.run(pc)).collect::<Vec<_>>(), [1, 0, 2, 1, 0]);
    }
}
