//! The codes of a tensor map (driver API `CUtensorMapDataType` and its like; PTX ISA 5.5): element types, interleaving, swizzling.

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
            pub fn of(code: u64) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Element type, by the codes of `CUtensorMapDataType`.
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
        /// `.b4x16`: sixteen 4-bit values in 8 bytes, without gaps.
        U4Align8 = 13,
        /// `.b4x16_p64`: sixteen 4-bit values in 8 bytes, and in shared memory 8 bytes of gap.
        U4Align16 = 14,
        /// `.b6x16_p32` (loads): sixteen 6-bit values in 12 bytes, and in shared memory 4 bytes of gap; `.b6p2x16` (stores):
        /// a byte for each in shared memory.
        U6Align16 = 15,
    }
}

codes! {
    /// `CUtensorMapInterleave`.
    Interleave {
        /// Elements of the first dimension lie together.
        None = 0,
        /// Slices of 16 bytes.
        B16 = 1,
        /// Slices of 32 bytes.
        B32 = 2,
    }
}

codes! {
    /// `CUtensorMapSwizzle`.
    Swizzle {
        /// Shared memory holds the box as it is.
        None = 0,
        /// Pieces of 16 bytes within 32.
        B32 = 1,
        /// Pieces of 16 bytes within 64.
        B64 = 2,
        /// Pieces of 16 bytes within 128.
        B128 = 3,
        /// Pieces of 32 bytes within 128.
        B128Atom32 = 4,
        /// The same, and the halves of each 16 bytes change places in every other 128.
        B128Atom32Flip8 = 5,
        /// Pieces of 64 bytes within 128.
        B128Atom64 = 6,
    }
}

codes! {
    /// `CUtensorMapL2promotion`; it says nothing here.
    #[expect(missing_docs, reason = "each is the promotion of its name")]
    L2Promotion {
        None = 0,
        B64 = 1,
        B128 = 2,
        B256 = 3,
    }
}

codes! {
    /// `CUtensorMapFloatOOBfill`: what a load finds outside the tensor.
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

    /// Bits of an element in shared memory, its share of gaps included.
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

    /// Whether sixteen elements fill 16 bytes of shared memory but fewer of global memory.
    #[must_use]
    pub fn unpacks(self) -> bool {
        matches!(self, Self::U4Align16 | Self::U6Align16)
    }
}

impl Interleave {
    /// Bytes of a pixel in one slice: what the first dimension counts. 0 without interleaving.
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
    /// Bytes within which pieces change places: also what one row of a box takes in shared memory. 0 for none.
    #[must_use]
    pub fn span(self) -> u64 {
        match self {
            Self::None => 0,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 | Self::B128Atom32 | Self::B128Atom32Flip8 | Self::B128Atom64 => 128,
        }
    }

    /// Where the bytes of an address go: the pattern is one of addresses, not of boxes.
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
