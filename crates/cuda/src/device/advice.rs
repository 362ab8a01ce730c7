//! What a program has advised for ranges of managed memory. It changes where a GPU keeps pages, and no result: it is stored and returned.

use std::collections::BTreeSet;
use std::ops::Range;

/// Where managed memory may be: a GPU, or the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Home {
    Gpu(u8),
    Host,
}

/// A piece of advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Whether the range is mostly read.
    ReadMostly(bool),
    /// Where it should stay, if anywhere.
    Preferred(Option<Home>),
    /// Who accesses it, or no longer does.
    Accessed(Home, bool),
    /// Where it was moved to last.
    Prefetched(Home),
}

/// What holds for each byte of a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Advised {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: Option<Home>,
    pub(crate) accessed: BTreeSet<Home>,
    pub(crate) prefetched: Option<Home>,
}

/// All advice, in the order in which it was given.
#[derive(Debug, Default)]
pub(crate) struct Advices(Vec<(Range<u64>, Advice)>);

impl Advices {
    /// Adds advice.
    pub(crate) fn add(&mut self, range: Range<u64>, advice: Advice) {
        let same = |known: &Advice| match (known, advice) {
            (Advice::Accessed(one, _), Advice::Accessed(other, _)) => *one == other,
            (known, advice) => std::mem::discriminant(known) == std::mem::discriminant(&advice),
        };
        // What it replaces altogether need not be kept.
        self.0.retain(|(old, known)| !(same(known) && range.start <= old.start && old.end <= range.end));
        self.0.push((range, advice));
    }

    /// Forgets what was advised for memory that is freed.
    pub(crate) fn forget(&mut self, range: &Range<u64>) {
        self.0.retain(|(old, _)| old.end <= range.start || range.end <= old.start);
    }

    fn at(&self, address: u64) -> Advised {
        let mut all = Advised::default();
        for (_, advice) in self.0.iter().filter(|(range, _)| range.contains(&address)) {
            match *advice {
                Advice::ReadMostly(is) => all.read_mostly = is,
                Advice::Preferred(home) => all.preferred = home,
                Advice::Accessed(home, true) => _ = all.accessed.insert(home),
                Advice::Accessed(home, false) => _ = all.accessed.remove(&home),
                Advice::Prefetched(home) => all.prefetched = Some(home),
            }
        }
        all
    }

    /// What holds for all bytes of a range: where they differ, nothing does.
    pub(crate) fn common_to(&self, range: &Range<u64>) -> Advised {
        let mut all = self.at(range.start);
        let borders = self.0.iter().flat_map(|(advised, _)| [advised.start, advised.end]);
        for border in borders.filter(|border| range.contains(border)) {
            let here = self.at(border);
            all.read_mostly &= here.read_mostly;
            all.preferred = all.preferred.filter(|_| all.preferred == here.preferred);
            all.prefetched = all.prefetched.filter(|_| all.prefetched == here.prefetched);
            all.accessed = all.accessed.intersection(&here.accessed).copied().collect();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_for_a_part_does_not_hold_for_the_whole() {
        let mut all = Advices::default();
        all.add(0..100, Advice::ReadMostly(true));
        all.add(0..100, Advice::Preferred(Some(Home::Gpu(1))));
        all.add(0..100, Advice::Accessed(Home::Host, true));
        all.add(0..100, Advice::Accessed(Home::Gpu(0), true));
        all.add(50..60, Advice::Prefetched(Home::Host));
        all.add(60..70, Advice::Accessed(Home::Host, false));
        let whole = all.common_to(&(0..100));
        assert_eq!((whole.read_mostly, whole.preferred, whole.prefetched), (true, Some(Home::Gpu(1)), None));
        assert_eq!(whole.accessed, BTreeSet::from([Home::Gpu(0)]));
        assert_eq!(all.common_to(&(50..60)).prefetched, Some(Home::Host));
        all.add(10..20, Advice::ReadMostly(false));
        all.add(20..30, Advice::Preferred(None));
        assert_eq!((all.common_to(&(0..100)).read_mostly, all.common_to(&(0..100)).preferred), (false, None));
        assert_eq!(all.common_to(&(100..200)), Advised::default());
        all.forget(&(0..100));
        assert_eq!(all.common_to(&(0..100)), Advised::default());
    }
}
