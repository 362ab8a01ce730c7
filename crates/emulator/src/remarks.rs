//! What breaks no rule and is worth a remark.

use super::machine::Machine;
use super::program::Row;

/// Something that is right and worth a remark: where, what, and how often.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) cta: [u32; 3],
    pub(super) warp: u32,
    pub(super) lane: usize,
    pub(super) what: String,
    pub(super) times: u64,
}

impl Machine<'_> {
    /// Remarks what was said while a row ran.
    #[inline]
    pub(super) fn remark(&mut self, row: &Row) {
        if !self.said.is_empty() {
            self.remark_said(row);
        }
    }

    #[cold]
    fn remark_said(&mut self, row: &Row) {
        let rows = &self.kernel.rows;
        let bytes = std::ptr::from_ref(row).addr().wrapping_sub(rows.as_ptr().addr());
        let pc = u32::try_from(bytes / size_of::<Row>()).unwrap_or(u32::MAX);
        if let Some((lane, what)) = self.said.drain(..).next() {
            let (cta, warp) = (self.cta.id, self.warp);
            let said = self.world.remarks.entry((self.cta.grid, pc));
            said.or_insert(Said { cta, warp, lane, what, times: 0 }).times += 1;
        }
    }
}
