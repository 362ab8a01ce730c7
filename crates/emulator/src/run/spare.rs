//! Blocks of memory that one use leaves to the next: allocating and clearing them costs more than what they are used for.

use std::sync::Mutex;

/// Blocks that nobody uses, up to a number. They hold what their last user left.
pub(crate) struct Spare<T> {
    blocks: Mutex<Vec<Box<T>>>,
    most: usize,
}

impl<T> Spare<T> {
    /// At most so many bytes in blocks.
    pub(crate) const fn up_to(bytes: usize) -> Self {
        Self { blocks: Mutex::new(Vec::new()), most: bytes / size_of::<T>() }
    }

    /// A block with what its last user left, or a new one.
    pub(crate) fn take(&self, new: impl FnOnce() -> Box<T>) -> Box<T> {
        let spare = self.blocks.lock().ok().and_then(|mut blocks| blocks.pop());
        spare.unwrap_or_else(new)
    }

    /// Keeps blocks for others.
    pub(crate) fn give(&self, blocks: impl Iterator<Item = Box<T>>) {
        if let Ok(mut all) = self.blocks.lock() {
            let left = self.most.saturating_sub(all.len());
            all.extend(blocks.take(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_up_to_a_number() {
        static SPARE: Spare<u64> = Spare::up_to(16);
        SPARE.give((1..4).map(Box::new));
        let mut found: Vec<u64> = (0..3).map(|_| *SPARE.take(|| Box::new(0))).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2]);
    }
}
