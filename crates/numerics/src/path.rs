//! Selects the vector instructions of the hot loops: the best set that the processor supports, or one that a test forces.
//!
//! The loops are compiled once per set. The sets differ in vector width, but results must be bit-identical.

use std::cell::Cell;

use pulp::{Arch, NullaryFnOnce, WithSimd};

use crate::wide::{Plain, Transpose, Wide};

/// A set of vector instructions.
#[derive(Debug, Clone, Copy)]
pub struct Path(Arch);

thread_local! {
    static FORCED: Cell<Option<Arch>> = const { Cell::new(None) };
}

impl Path {
    /// Every path that this processor supports, the scalar one first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let found = [
            Some(Arch::Scalar),
            pulp::x86::V3::try_new().map(Arch::V3),
            pulp::x86::V4::try_new().map(Arch::V4),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let found = [Some(Arch::Scalar), Some(Arch::new())];
        found.into_iter().flatten().map(Self).collect()
    }

    /// The name: `Scalar`, `V3` (AVX2 and FMA) or `V4` (AVX-512).
    #[must_use]
    pub fn name(self) -> String {
        let name = format!("{:?}", self.0);
        name.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    /// The path of the current thread: the one that is forced, or else the best.
    #[must_use]
    pub fn current() -> Self {
        Self(FORCED.get().unwrap_or_default())
    }

    /// Runs a short loop on this path. A caller of many such loops asks for the path once.
    ///
    /// Vectors have at most 256 bits: wider ones gain little over 32 lanes, and every set is one more to compile.
    #[inline(always)]
    pub fn run<Op: NullaryFnOnce>(self, op: Op) -> Op::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Arch::V3(simd) => simd.vectorize(op),
            #[cfg(target_arch = "x86_64")]
            Arch::V4(simd) => pulp::x86::V3::vectorize(*simd, op),
            // NEON is part of the target.
            _ => op.call(),
        }
    }

    /// Runs `f` with this path forced for all hot loops of the current thread.
    pub fn force<T>(self, f: impl FnOnce() -> T) -> T {
        /// Restores the previously forced path, even if `f` panics.
        struct Back(Option<Arch>);
        impl Drop for Back {
            fn drop(&mut self) {
                FORCED.set(self.0);
            }
        }
        let _back = Back(FORCED.replace(Some(self.0)));
        f()
    }
}

/// Runs a hot loop on the current path.
#[inline]
pub fn dispatch<Op: WithSimd>(op: Op) -> Op::Output {
    FORCED.get().unwrap_or_default().dispatch(op)
}

/// A hot loop that processes eight or sixteen numbers at a time.
pub(crate) trait WideLoop {
    type Output;

    fn run(self, eight: impl Wide<8> + Transpose, sixteen: impl Wide<16>) -> Self::Output;
}

struct With<L, E, S>(L, E, S);

impl<L: WideLoop, E: Wide<8> + Transpose, S: Wide<16>> NullaryFnOnce for With<L, E, S> {
    type Output = L::Output;

    #[inline(always)]
    fn call(self) -> L::Output {
        self.0.run(self.1, self.2)
    }
}

/// [`dispatch`] for a [`WideLoop`].
#[inline]
pub(crate) fn dispatch_wide<L: WideLoop>(hot: L) -> L::Output {
    let arch = FORCED.get().unwrap_or_default();
    match arch {
        #[cfg(target_arch = "x86_64")]
        Arch::V3(simd) => arch.dispatch(With(hot, simd, simd)),
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) => arch.dispatch(With(hot, *simd, simd)),
        _ => arch.dispatch(With(hot, Plain, Plain)),
    }
}
