//! Checks what the permutation hands on beside the rows: the experts' offsets, the rows of choices, and the tiles of the GEMM.

use std::collections::BTreeSet;

use emulator::device::Failure;

use super::Run;
use crate::moe::kernels::KernelStage;

impl Run<'_> {
    /// Whether a kernel of a later stage than the permutation reads this buffer.
    fn is_read_later(&self, name: &str) -> bool {
        let later = self.arguments.iter().filter(|(stage, _)| *stage > Some(KernelStage::Permute));
        later.flat_map(|(_, arguments)| arguments).any(|argument| argument == name)
    }

    /// Describes the first list that differs from what the stored choices require; lists that no later kernel reads may hold
    /// anything. `None` if all are right, or if a choice is out of range, which is the router's fault.
    pub(super) fn wrong_list(&self) -> Result<Option<String>, Failure> {
        let Some(ids) = &self.tensors.topk_ids else { return Ok(None) };
        let experts = self.dims.experts;
        let in_range = |id: &i32| usize::try_from(*id).ok().filter(|e| *e < experts);
        let Some(choices) = ids.data.iter().map(in_range).collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let mut offsets = vec![0_i32; experts + 1];
        for expert in &choices {
            offsets[expert + 1] += 1;
        }
        for expert in 0..experts {
            offsets[expert + 1] += offsets[expert];
        }
        let mut next = offsets.clone();
        let rows: Vec<i32> = choices
            .iter()
            .map(|expert| {
                next[*expert] += 1;
                next[*expert] - 1
            })
            .collect();
        for (name, wanted) in [("expert_offset", &offsets), ("row_of_choice", &rows)] {
            if !self.is_read_later(name) {
                continue;
            }
            let found = self.read_i32(name)?;
            if let Some(at) = (0..wanted.len()).find(|at| found.get(*at) != Some(&wanted[*at])) {
                let found = found.get(at).copied().unwrap_or_default();
                return Ok(Some(format!("{name}[{at}] is {found} instead of {}", wanted[at])));
            }
        }
        self.wrong_tile(&offsets)
    }

    /// Describes the first tile that differs from those that cover the rows of each expert. Their order is free.
    fn wrong_tile(&self, offsets: &[i32]) -> Result<Option<String>, Failure> {
        if !["tile_count", "tile_expert", "tile_row"].iter().all(|name| self.is_read_later(name)) {
            return Ok(None);
        }
        let height = i32::try_from(self.setup.config.tile.m).unwrap_or(i32::MAX);
        let mut wanted = BTreeSet::new();
        for (expert, ends) in (0..).zip(offsets.windows(2)) {
            let firsts = (ends[0]..ends[1]).step_by(usize::try_from(height).unwrap_or(1).max(1));
            wanted.extend(firsts.map(|first| (expert, first)));
        }
        let count = self.read_i32("tile_count")?.first().copied().unwrap_or_default();
        if usize::try_from(count).ok() != Some(wanted.len()) {
            return Ok(Some(format!("tile_count is {count} instead of {}", wanted.len())));
        }
        let (experts, rows) = (self.read_i32("tile_expert")?, self.read_i32("tile_row")?);
        for (at, tile) in experts.into_iter().zip(rows).take(wanted.len()).enumerate() {
            if !wanted.remove(&tile) {
                let (expert, row) = tile;
                return Ok(Some(format!(
                    "tile {at} begins at row {row} of expert {expert}, where none begins or another one does"
                )));
            }
        }
        let missing =
            wanted.first().map(|(expert, row)| format!("no tile begins at row {row} of expert {expert}"));
        Ok(missing)
    }
}
