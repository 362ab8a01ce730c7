//! Vectors of eight floats or integers, with the few operations that sums of products need.

/// Operations on eight floats or integers at a time, each a single instruction where one exists.
///
/// The main gain is in conversions: Rust's `as` saturates, which costs more than the conversion itself.
pub(crate) trait Eight: Copy {
    type Floats: Copy;
    type Integers: Copy;

    fn floats(self, values: &[f32; 8]) -> Self::Floats;
    fn integers(self, values: &[i32; 8]) -> Self::Integers;
    fn array(self, integers: Self::Integers) -> [i32; 8];
    fn bits(self, floats: Self::Floats) -> [u32; 8];
    /// Returns a bit mask of the negative numbers; bit 0 is the first.
    fn signs(self, integers: Self::Integers) -> u32;
    fn splat(self, value: f32) -> Self::Floats;
    fn splat_integer(self, value: i32) -> Self::Integers;
    fn product(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Truncates toward zero; magnitudes must be below 2^31.
    fn truncated(self, floats: Self::Floats) -> Self::Integers;
    /// Returns 2^i; the exponents must be those of normal floats.
    fn power_of_two(self, exponents: Self::Integers) -> Self::Floats;
    /// Wraps around.
    fn sum(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// Wraps around.
    fn difference(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    fn larger(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    fn smaller(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;

    /// Clamps to the range from `-limit` to `limit`.
    #[inline(always)]
    fn clamped(self, a: Self::Integers, limit: i32) -> Self::Integers {
        let below = self.smaller(a, self.splat_integer(limit));
        self.larger(below, self.splat_integer(-limit))
    }
}

/// The portable implementation.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

/// Evaluates an expression for each of eight indices.
macro_rules! each_of_8 {
    ($n:ident => $value:expr) => {{
        let mut out = [Default::default(); 8];
        for $n in 0..8 {
            out[$n] = $value;
        }
        out
    }};
}

impl Eight for Plain {
    type Floats = [f32; 8];
    type Integers = [i32; 8];

    #[inline(always)]
    fn floats(self, values: &[f32; 8]) -> [f32; 8] {
        *values
    }

    #[inline(always)]
    fn integers(self, values: &[i32; 8]) -> [i32; 8] {
        *values
    }

    #[inline(always)]
    fn array(self, integers: [i32; 8]) -> [i32; 8] {
        integers
    }

    #[inline(always)]
    fn bits(self, floats: [f32; 8]) -> [u32; 8] {
        each_of_8!(n => floats[n].to_bits())
    }

    #[inline(always)]
    fn signs(self, integers: [i32; 8]) -> u32 {
        (0..8).fold(0, |signs, n| signs | u32::from(integers[n] < 0) << n)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn splat_integer(self, value: i32) -> [i32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn product(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        each_of_8!(n => a[n] * b[n])
    }

    #[inline(always)]
    fn truncated(self, floats: [f32; 8]) -> [i32; 8] {
        each_of_8!(n => floats[n] as i32)
    }

    #[inline(always)]
    fn power_of_two(self, exponents: [i32; 8]) -> [f32; 8] {
        each_of_8!(n => f32::from_bits((exponents[n].wrapping_add(127)).cast_unsigned() << 23))
    }

    #[inline(always)]
    fn sum(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        each_of_8!(n => a[n].wrapping_add(b[n]))
    }

    #[inline(always)]
    fn difference(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        each_of_8!(n => a[n].wrapping_sub(b[n]))
    }

    #[inline(always)]
    fn larger(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        each_of_8!(n => a[n].max(b[n]))
    }

    #[inline(always)]
    fn smaller(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        each_of_8!(n => a[n].min(b[n]))
    }
}

#[cfg(target_arch = "x86_64")]
impl Eight for pulp::x86::V3 {
    type Floats = pulp::f32x8;
    type Integers = pulp::i32x8;

    #[inline(always)]
    fn floats(self, values: &[f32; 8]) -> pulp::f32x8 {
        pulp::cast(*values)
    }

    #[inline(always)]
    fn integers(self, values: &[i32; 8]) -> pulp::i32x8 {
        pulp::cast(*values)
    }

    #[inline(always)]
    fn array(self, integers: pulp::i32x8) -> [i32; 8] {
        pulp::cast(integers)
    }

    #[inline(always)]
    fn bits(self, floats: pulp::f32x8) -> [u32; 8] {
        pulp::cast(floats)
    }

    #[inline(always)]
    fn signs(self, integers: pulp::i32x8) -> u32 {
        self.avx._mm256_movemask_ps(pulp::cast(integers)).cast_unsigned()
    }

    #[inline(always)]
    fn splat(self, value: f32) -> pulp::f32x8 {
        self.splat_f32x8(value)
    }

    #[inline(always)]
    fn splat_integer(self, value: i32) -> pulp::i32x8 {
        self.splat_i32x8(value)
    }

    #[inline(always)]
    fn product(self, a: pulp::f32x8, b: pulp::f32x8) -> pulp::f32x8 {
        self.mul_f32x8(a, b)
    }

    #[inline(always)]
    fn truncated(self, floats: pulp::f32x8) -> pulp::i32x8 {
        self.convert_f32x8_to_i32x8(floats)
    }

    #[inline(always)]
    fn power_of_two(self, exponents: pulp::i32x8) -> pulp::f32x8 {
        let biased = self.wrapping_add_i32x8(exponents, self.splat_i32x8(127));
        pulp::cast(self.shl_const_i32x8::<23>(biased))
    }

    #[inline(always)]
    fn sum(self, a: pulp::i32x8, b: pulp::i32x8) -> pulp::i32x8 {
        self.wrapping_add_i32x8(a, b)
    }

    #[inline(always)]
    fn difference(self, a: pulp::i32x8, b: pulp::i32x8) -> pulp::i32x8 {
        self.wrapping_sub_i32x8(a, b)
    }

    #[inline(always)]
    fn larger(self, a: pulp::i32x8, b: pulp::i32x8) -> pulp::i32x8 {
        self.max_i32x8(a, b)
    }

    #[inline(always)]
    fn smaller(self, a: pulp::i32x8, b: pulp::i32x8) -> pulp::i32x8 {
        self.min_i32x8(a, b)
    }
}
