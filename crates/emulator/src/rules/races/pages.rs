//! A table of pages by number, in three levels: pages far apart cost no memory in between.

/// Pages per entry of the middle level.
const GROUP: usize = 1 << 10;

/// Groups per entry of the upper level. Page numbers have 37 bits at most (addresses of 47 bits, pages of 1,024 bytes), so the upper level
/// has at most 2^15 entries, which even memory of the host at the end of the address space costs less than a megabyte.
const SPAN: usize = 1 << 12;

/// The lower level.
type Group<T> = Vec<Option<Box<T>>>;

/// The pages of a sparsely used address range.
pub(crate) struct Pages<T>(Vec<Vec<Group<T>>>);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The indices of a page in the three levels.
const fn split(page: usize) -> (usize, usize, usize) {
    (page / GROUP / SPAN, page / GROUP % SPAN, page % GROUP)
}

/// The entry of this index, created with all before it.
#[inline(always)]
fn entry<T: Default>(all: &mut Vec<T>, at: usize) -> &mut T {
    #[cold]
    fn extend<T: Default>(all: &mut Vec<T>, len: usize) {
        all.resize_with(len, T::default);
    }
    if all.len() <= at {
        extend(all, at + 1);
    }
    &mut all[at]
}

impl<T> Pages<T> {
    #[inline]
    pub(crate) fn get_mut(&mut self, page: usize) -> Option<&mut T> {
        let (span, group, at) = split(page);
        self.0.get_mut(span)?.get_mut(group)?.get_mut(at)?.as_deref_mut()
    }

    #[inline(always)]
    pub(crate) fn get_or_insert_with(&mut self, page: usize, new: impl FnOnce() -> T) -> &mut T {
        let (span, group, at) = split(page);
        let group = entry(entry(&mut self.0, span), group);
        entry(group, at).get_or_insert_with(|| Box::new(new()))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of all levels.
    fn entries<T>(pages: &Pages<T>) -> usize {
        let groups = pages.0.iter().flatten();
        pages.0.len() + pages.0.iter().map(Vec::len).sum::<usize>() + groups.map(Vec::len).sum::<usize>()
    }

    #[test]
    fn pages_far_apart_are_found_and_nothing_lies_between() {
        let mut pages = Pages::default();
        let far = [0, 5, GROUP - 1, GROUP, GROUP * SPAN - 1, 1 << 24];
        for page in far {
            assert_eq!(pages.get_mut(page), None);
            *pages.get_or_insert_with(page, || 0) += page;
        }
        for page in far {
            assert_eq!(pages.get_mut(page).copied(), Some(page));
            assert_eq!(*pages.get_or_insert_with(page, || 7), page);
        }
        assert!(pages.get_mut(1).is_none() && pages.get_mut((1 << 24) + 1).is_none());
        assert!(entries(&pages) < 4 * GROUP + 3 * SPAN);
        pages.clear();
        assert_eq!(pages.get_mut(0), None);
    }

    #[test]
    fn a_page_of_the_hosts_memory_costs_less_than_fifty_thousand_entries() {
        // The last page below 2^47, the end of a process's addresses.
        let page = (1usize << 47) / 1024 - 1;
        let mut pages = Pages::default();
        *pages.get_or_insert_with(page, || 0) += 1;
        assert_eq!(pages.get_mut(page).copied(), Some(1));
        assert!(entries(&pages) < 50_000, "{}", entries(&pages));
    }
}
