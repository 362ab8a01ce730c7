//! Enumerations of a tensor map (driver API `CUtensorMapDataType` and others; PTX ISA 5.5): element type, interleaving, swizzling.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$each])* $variant = $code,)*
        }

        impl $name {
            /// The value with this code.
            #[must_use]
            pub fn from_code(code: u64) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Element type, with the codes of `CUtensorMapDataType`.
    #[expect(missing_docs, reason = "each is the type of its name")]
    TensorType {
        U8 = 0,
        U16 = 1,
        U32 = 2,
        S32 = 3,
        U64 = 4,
        S64 = 5,
        F16 = 6,
        F32 = 7,
        F64 = 8,
        Bf16 = 9,
        F32Ftz = 10,
        Tf32 = 11,
        Tf32Ftz = 12,
        /// `.b4x16`: sixteen 4-bit values in 8 bytes, without padding.
        U4Align8 = 13,
        /// `.b4x16_p64`: sixteen 4-bit values in 8 bytes, followed in shared memory by 8 bytes of padding.
        U4Align16 = 14,
        /// `.b6x16_p32` (loads): sixteen 6-bit values in 12 bytes, followed in shared memory by 4 bytes of padding; `.b6p2x16`
        /// (stores): one byte each in shared memory.
        U6Align16 = 15,
    }
}

codes! {
    /// `CUtensorMapInterleave`.
    Interleave {
        /// No interleaving: elements of the first dimension are contiguous.
        None = 0,
        /// 16-byte slices.
        B16 = 1,
        /// 32-byte slices.
        B32 = 2,
    }
}

codes! {
    /// `CUtensorMapSwizzle`.
    Swizzle {
        /// No swizzle.
        None = 0,
        /// 16-byte atoms within 32 bytes.
        B32 = 1,
        /// 16-byte atoms within 64 bytes.
        B64 = 2,
        /// 16-byte atoms within 128 bytes.
        B128 = 3,
        /// 32-byte atoms within 128 bytes.
        B128Atom32 = 4,
        /// 32-byte atoms within 128 bytes, with the halves of each 16 bytes swapped in every other 128 bytes.
        B128Atom32Flip8 = 5,
        /// 64-byte atoms within 128 bytes.
        B128Atom64 = 6,
    }
}

codes! {
    /// `CUtensorMapL2promotion`; it has no effect in the emulator.
    #[expect(missing_docs, reason = "each is the promotion of its name")]
    L2Promotion {
        None = 0,
        B64 = 1,
        B128 = 2,
        B256 = 3,
    }
}

codes! {
    /// `CUtensorMapFloatOOBfill`: the values that a load reads outside the tensor.
    OobFill {
        /// Zeros.
        Zeros = 0,
        /// NaNs.
        Nan = 1,
    }
}

impl TensorType {
    /// Bits of an element in global memory.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::U4Align8 | Self::U4Align16 => 4,
            Self::U6Align16 => 6,
            Self::U8 => 8,
            Self::U16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::S32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 32,
            Self::U64 | Self::S64 | Self::F64 => 64,
        }
    }

    /// Bits of an element in shared memory, including its share of the padding.
    #[must_use]
    pub fn shared_bits(self) -> u64 {
        match self {
            Self::U4Align16 | Self::U6Align16 => 8,
            other => other.bits(),
        }
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub fn is_float(self) -> bool {
        use TensorType::{Bf16, F16, F32, F32Ftz, F64, Tf32, Tf32Ftz};
        matches!(self, F16 | F32 | F64 | Bf16 | F32Ftz | Tf32 | Tf32Ftz)
    }

    /// Whether sixteen elements occupy 16 bytes in shared memory but fewer in global memory.
    #[must_use]
    pub fn unpacks(self) -> bool {
        matches!(self, Self::U4Align16 | Self::U6Align16)
    }
}

impl Interleave {
    /// Bytes of one pixel in a slice, the unit of the first dimension; 0 without interleaving.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::B16 => 16,
            Self::B32 => 32,
        }
    }
}

impl Swizzle {
    /// Size in bytes of the block within which atoms are permuted, which is also the pitch of a box row in shared memory; 0 without
    /// swizzle.
    #[must_use]
    pub fn span(self) -> u64 {
        match self {
            Self::None => 0,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 | Self::B128Atom32 | Self::B128Atom32Flip8 | Self::B128Atom64 => 128,
        }
    }

    /// Maps a shared address to its swizzled address: the pattern depends on address bits, not on the box.
    #[must_use]
    pub fn place(self, address: u64) -> u64 {
        let rows = |bits: u64| address >> 7 & ((1 << bits) - 1);
        match self {
            Self::None => address,
            Self::B32 => address ^ rows(1) << 4,
            Self::B64 => address ^ rows(2) << 4,
            Self::B128 => address ^ rows(3) << 4,
            Self::B128Atom32 => address ^ rows(2) << 5,
            Self::B128Atom32Flip8 => address ^ rows(2) << 5 ^ rows(1) << 3,
            Self::B128Atom64 => address ^ rows(1) << 6,
        }
    }
}
