//! A table of pages by number, in two levels: pages far apart cost no memory in between.

/// Pages per entry of the upper level.
const GROUP: usize = 4096;

/// The lower level.
type Group<T> = Vec<Option<Box<T>>>;

/// The pages of a sparsely used address range.
pub(crate) struct Pages<T>(Vec<Group<T>>);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pages<T> {
    #[inline]
    pub(crate) fn get_mut(&mut self, page: usize) -> Option<&mut T> {
        self.0.get_mut(page / GROUP)?.get_mut(page % GROUP)?.as_deref_mut()
    }

    pub(crate) fn get_or_insert_with(&mut self, page: usize, new: impl FnOnce() -> T) -> &mut T {
        let (group, at) = (page / GROUP, page % GROUP);
        if self.0.len() <= group {
            self.0.resize_with(group + 1, Vec::new);
        }
        let group = &mut self.0[group];
        if group.len() <= at {
            group.resize_with(at + 1, || None);
        }
        group[at].get_or_insert_with(|| Box::new(new()))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_far_apart_are_found_and_nothing_lies_between() {
        let mut pages = Pages::default();
        for page in [0, 5, 4095, 4096, 1 << 24] {
            assert_eq!(pages.get_mut(page), None);
            *pages.get_or_insert_with(page, || 0) += page;
        }
        for page in [0, 5, 4095, 4096, 1 << 24] {
            assert_eq!(pages.get_mut(page).copied(), Some(page));
            assert_eq!(*pages.get_or_insert_with(page, || 7), page);
        }
        assert!(pages.get_mut(1).is_none() && pages.get_mut((1 << 24) + 1).is_none());
        assert!(pages.0.iter().map(Vec::len).sum::<usize>() < 3 * GROUP);
        pages.clear();
        assert_eq!(pages.get_mut(0), None);
    }
}
