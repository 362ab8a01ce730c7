//! Vectors of eight or sixteen floats or integers, with the few operations that sums of products need.

/// Operations on `N` floats or integers at a time, each a single instruction, or one for each half, where one exists.
///
/// The main gain is in conversions: Rust's `as` saturates, which costs more than the conversion itself.
pub(crate) trait Wide<const N: usize>: Copy {
    type Floats: Copy;
    type Integers: Copy;

    fn floats(self, values: &[f32; N]) -> Self::Floats;
    fn integers(self, values: &[i32; N]) -> Self::Integers;
    fn array(self, integers: Self::Integers) -> [i32; N];
    fn bits(self, floats: Self::Floats) -> [u32; N];
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

/// A square of eight rows and columns.
pub(crate) type Block = [[u32; 8]; 8];

/// The transposition of a [`Block`]. A plain loop becomes scattered stores, which cost more than the sums.
pub(crate) trait Transpose: Copy {
    fn transposed(self, block: &Block) -> Block;
}

/// The portable implementation.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

/// Evaluates an expression for each index below `N`, of the caller, in a plain loop: a closure may be compiled separately, without the
/// features that `dispatch` enables.
macro_rules! each {
    ($n:ident => $value:expr) => {{
        let mut out = [Default::default(); N];
        for $n in 0..N {
            out[$n] = $value;
        }
        out
    }};
}

pub(crate) use each;

impl<const N: usize> Wide<N> for Plain {
    type Floats = [f32; N];
    type Integers = [i32; N];

    #[inline(always)]
    fn floats(self, values: &[f32; N]) -> [f32; N] {
        *values
    }

    #[inline(always)]
    fn integers(self, values: &[i32; N]) -> [i32; N] {
        *values
    }

    #[inline(always)]
    fn array(self, integers: [i32; N]) -> [i32; N] {
        integers
    }

    #[inline(always)]
    fn bits(self, floats: [f32; N]) -> [u32; N] {
        each!(n => floats[n].to_bits())
    }

    #[inline(always)]
    fn signs(self, integers: [i32; N]) -> u32 {
        (0..N).fold(0, |signs, n| signs | u32::from(integers[n] < 0) << n)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; N] {
        [value; N]
    }

    #[inline(always)]
    fn splat_integer(self, value: i32) -> [i32; N] {
        [value; N]
    }

    #[inline(always)]
    fn product(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        each!(n => a[n] * b[n])
    }

    #[inline(always)]
    fn truncated(self, floats: [f32; N]) -> [i32; N] {
        each!(n => floats[n] as i32)
    }

    #[inline(always)]
    fn power_of_two(self, exponents: [i32; N]) -> [f32; N] {
        each!(n => f32::from_bits((exponents[n].wrapping_add(127)).cast_unsigned() << 23))
    }

    #[inline(always)]
    fn sum(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        each!(n => a[n].wrapping_add(b[n]))
    }

    #[inline(always)]
    fn difference(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        each!(n => a[n].wrapping_sub(b[n]))
    }

    #[inline(always)]
    fn larger(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        each!(n => a[n].max(b[n]))
    }

    #[inline(always)]
    fn smaller(self, a: [i32; N], b: [i32; N]) -> [i32; N] {
        each!(n => a[n].min(b[n]))
    }
}

impl Transpose for Plain {
    #[inline(always)]
    fn transposed(self, block: &Block) -> Block {
        let mut out = [[0; 8]; 8];
        for row in 0..8 {
            for column in 0..8 {
                out[column][row] = block[row][column];
            }
        }
        out
    }
}

#[cfg(target_arch = "x86_64")]
impl Transpose for pulp::x86::V3 {
    #[inline(always)]
    fn transposed(self, block: &Block) -> Block {
        let rows: [std::arch::x86_64::__m256i; 8] = pulp::cast(*block);
        let mut pairs = rows;
        for n in 0..4 {
            pairs[2 * n] = self.avx2._mm256_unpacklo_epi32(rows[2 * n], rows[2 * n + 1]);
            pairs[2 * n + 1] = self.avx2._mm256_unpackhi_epi32(rows[2 * n], rows[2 * n + 1]);
        }
        // By column of each half: of rows 0 to 3, then of rows 4 to 7.
        let mut quads = rows;
        for n in 0..2 {
            for half in 0..2 {
                let (first, second) = (pairs[4 * n + half], pairs[4 * n + half + 2]);
                quads[4 * n + 2 * half] = self.avx2._mm256_unpacklo_epi64(first, second);
                quads[4 * n + 2 * half + 1] = self.avx2._mm256_unpackhi_epi64(first, second);
            }
        }
        let mut columns = rows;
        for n in 0..4 {
            columns[n] = self.avx2._mm256_permute2x128_si256::<0x20>(quads[n], quads[n + 4]);
            columns[n + 4] = self.avx2._mm256_permute2x128_si256::<0x31>(quads[n], quads[n + 4]);
        }
        pulp::cast(columns)
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide<8> for pulp::x86::V3 {
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

/// Two vectors of eight.
#[cfg(target_arch = "x86_64")]
impl Wide<16> for pulp::x86::V3 {
    type Floats = [pulp::f32x8; 2];
    type Integers = [pulp::i32x8; 2];

    #[inline(always)]
    fn floats(self, values: &[f32; 16]) -> Self::Floats {
        pulp::cast(*values)
    }

    #[inline(always)]
    fn integers(self, values: &[i32; 16]) -> Self::Integers {
        pulp::cast(*values)
    }

    #[inline(always)]
    fn array(self, integers: Self::Integers) -> [i32; 16] {
        pulp::cast(integers)
    }

    #[inline(always)]
    fn bits(self, floats: Self::Floats) -> [u32; 16] {
        pulp::cast(floats)
    }

    #[inline(always)]
    fn signs(self, [low, high]: Self::Integers) -> u32 {
        Wide::<8>::signs(self, low) | Wide::<8>::signs(self, high) << 8
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Floats {
        [self.splat_f32x8(value); 2]
    }

    #[inline(always)]
    fn splat_integer(self, value: i32) -> Self::Integers {
        [self.splat_i32x8(value); 2]
    }

    #[inline(always)]
    fn product(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        [self.mul_f32x8(a[0], b[0]), self.mul_f32x8(a[1], b[1])]
    }

    #[inline(always)]
    fn truncated(self, [low, high]: Self::Floats) -> Self::Integers {
        [self.convert_f32x8_to_i32x8(low), self.convert_f32x8_to_i32x8(high)]
    }

    #[inline(always)]
    fn power_of_two(self, [low, high]: Self::Integers) -> Self::Floats {
        [Wide::<8>::power_of_two(self, low), Wide::<8>::power_of_two(self, high)]
    }

    #[inline(always)]
    fn sum(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
        [self.wrapping_add_i32x8(a[0], b[0]), self.wrapping_add_i32x8(a[1], b[1])]
    }

    #[inline(always)]
    fn difference(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
        [self.wrapping_sub_i32x8(a[0], b[0]), self.wrapping_sub_i32x8(a[1], b[1])]
    }

    #[inline(always)]
    fn larger(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
        [self.max_i32x8(a[0], b[0]), self.max_i32x8(a[1], b[1])]
    }

    #[inline(always)]
    fn smaller(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
        [self.min_i32x8(a[0], b[0]), self.min_i32x8(a[1], b[1])]
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide<16> for pulp::x86::V4 {
    type Floats = pulp::f32x16;
    type Integers = pulp::i32x16;

    #[inline(always)]
    fn floats(self, values: &[f32; 16]) -> pulp::f32x16 {
        pulp::cast(*values)
    }

    #[inline(always)]
    fn integers(self, values: &[i32; 16]) -> pulp::i32x16 {
        pulp::cast(*values)
    }

    #[inline(always)]
    fn array(self, integers: pulp::i32x16) -> [i32; 16] {
        pulp::cast(integers)
    }

    #[inline(always)]
    fn bits(self, floats: pulp::f32x16) -> [u32; 16] {
        pulp::cast(floats)
    }

    #[inline(always)]
    fn signs(self, integers: pulp::i32x16) -> u32 {
        u32::from(self.avx512dq._mm512_movepi32_mask(pulp::cast(integers)))
    }

    #[inline(always)]
    fn splat(self, value: f32) -> pulp::f32x16 {
        self.splat_f32x16(value)
    }

    #[inline(always)]
    fn splat_integer(self, value: i32) -> pulp::i32x16 {
        self.splat_i32x16(value)
    }

    #[inline(always)]
    fn product(self, a: pulp::f32x16, b: pulp::f32x16) -> pulp::f32x16 {
        pulp::cast(self.avx512f._mm512_mul_ps(pulp::cast(a), pulp::cast(b)))
    }

    #[inline(always)]
    fn truncated(self, floats: pulp::f32x16) -> pulp::i32x16 {
        self.convert_f32x16_to_i32x16(floats)
    }

    #[inline(always)]
    fn power_of_two(self, exponents: pulp::i32x16) -> pulp::f32x16 {
        let biased = self.sum(exponents, self.splat_i32x16(127));
        pulp::cast(self.shl_const_i32x16::<23>(biased))
    }

    #[inline(always)]
    fn sum(self, a: pulp::i32x16, b: pulp::i32x16) -> pulp::i32x16 {
        pulp::cast(self.avx512f._mm512_add_epi32(pulp::cast(a), pulp::cast(b)))
    }

    #[inline(always)]
    fn difference(self, a: pulp::i32x16, b: pulp::i32x16) -> pulp::i32x16 {
        pulp::cast(self.avx512f._mm512_sub_epi32(pulp::cast(a), pulp::cast(b)))
    }

    #[inline(always)]
    fn larger(self, a: pulp::i32x16, b: pulp::i32x16) -> pulp::i32x16 {
        pulp::cast(self.avx512f._mm512_max_epi32(pulp::cast(a), pulp::cast(b)))
    }

    #[inline(always)]
    fn smaller(self, a: pulp::i32x16, b: pulp::i32x16) -> pulp::i32x16 {
        pulp::cast(self.avx512f._mm512_min_epi32(pulp::cast(a), pulp::cast(b)))
    }
}
