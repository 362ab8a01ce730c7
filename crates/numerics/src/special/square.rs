//! The truncated squarer in front of every interpolation.

/// The two parts of a 17-bit number that [`of_halves`] takes: its low bits, and the bits from the second one on.
#[inline(always)]
pub(super) const fn halves(x: u32) -> (u16, u16) {
    (x as u16, (x >> 2) as u16)
}

/// Returns the square of a 17-bit number divided by 2^19: each row of partial products is truncated below bit 18, and the
/// sum below bit 19. Rows have 15 bits and their sum 16, so that the vectors of a loop over lanes hold words of 16 bits.
#[inline(always)]
pub(super) const fn of_halves(low: u16, shifted: u16) -> u16 {
    // Bit 16 selects the last row; those of bits 0 and 1 lie below bit 18.
    let mut sum = shifted & 0u16.wrapping_sub(shifted >> 14);
    let mut bit = 2;
    while bit < 16 {
        sum = sum.wrapping_add(shifted >> (16 - bit) & 0u16.wrapping_sub(low >> bit & 1));
        bit += 1;
    }
    sum >> 1
}

/// The contribution of the operand's upper nine bits, indexed by them.
static UPPER: [u16; 1 << 9] = upper();
/// The cross terms of bits 11 to 16 and the lower eight bits, indexed by both.
static LOWER: [u8; 1 << 14] = lower();

const fn upper() -> [u16; 1 << 9] {
    let mut table = [0; 1 << 9];
    let mut h = 0;
    while h < table.len() {
        let mut i = 0;
        while i < 9 {
            if h >> i & 1 == 1 {
                table[h] += ((h << 8) >> (10 - i)) as u16;
            }
            i += 1;
        }
        h += 1;
    }
    table
}

const fn lower() -> [u8; 1 << 14] {
    let mut table = [0; 1 << 14];
    let mut k = 0;
    while k < table.len() {
        let (top, low) = (k >> 8, k & 0xFF);
        let mut i = 0;
        while i < 6 {
            // Bit i + 2 of the operand times the top bits, and bit i of the top bits times the lower eight.
            if low >> (i + 2) & 1 == 1 {
                table[k] += (top >> (5 - i)) as u8;
            }
            if top >> i & 1 == 1 {
                table[k] += (low >> (7 - i)) as u8;
            }
            i += 1;
        }
        k += 1;
    }
    table
}

/// [`of_halves`] of one number, which takes two entries of tables less time.
#[inline(always)]
pub(super) fn of_one(x: u32) -> u16 {
    let upper = UPPER[(x >> 8 & 0x1FF) as usize];
    let lower = LOWER[(x >> 3 & 0x3F00 | x & 0xFF) as usize];
    (upper + u16::from(lower)) >> 1
}

#[cfg(test)]
mod tests {

    #[test]
    fn squares_are_the_sum_of_the_rows() {
        for x in 0..1 << 17 {
            let rows = (0..17).filter(|i| x >> i & 1 == 1).map(|i| x >> (18 - i)).sum::<u32>() >> 1;
            let (low, shifted) = super::halves(x);
            let squares = [super::of_halves(low, shifted), super::of_one(x)];
            assert_eq!(squares.map(u32::from), [rows; 2], "{x:#x}");
        }
    }
}
