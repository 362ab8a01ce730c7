//! Plans the cells to judge: variants × (toolkit, target, arch).

use ptx::arch::{Suffix, Target};

use crate::snippet::{Filter, Library};
use crate::toolkit::Toolkit;
use record::AS_WRITTEN;

/// The targets and variants that the user selects.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// PTX targets; each is assembled with the same `-arch`.
    pub targets: Vec<Target>,
    /// Variants, by glob; all when empty.
    pub filters: Vec<Filter>,
}

/// Why there is nothing to judge.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// No variant was chosen.
    #[error("no variant matches the filter; `sm121probe matrix --list` lists all {available}")]
    NothingSelected {
        /// Number of variants available.
        available: usize,
    },
    /// One of the filters chooses no variant, so the selection is smaller than asked.
    #[error("no variant matches `{filter}`; `sm121probe matrix --list` lists all {available}")]
    UselessFilter {
        /// The glob.
        filter: String,
        /// Number of variants available.
        available: usize,
    },
}

/// One row of the matrix.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The variant's id, or `<stem>@as-written`.
    pub(super) id: String,
    /// Index into the library's variants; `None` for the file as written.
    pub(super) variant: Option<usize>,
    /// Index into the library's snippets.
    pub(super) snippet: usize,
}

/// The cells of one pair.
#[derive(Debug, Clone)]
pub(super) struct PlannedPair {
    /// Index into the toolkits.
    pub(super) toolkit: usize,
    pub(super) target: Target,
    pub(super) arch: Target,
    /// Indices into the rows.
    pub(super) rows: Vec<usize>,
}

/// Every cell that a run judges.
#[derive(Debug)]
pub struct Plan {
    pub(super) rows: Vec<Row>,
    pub(super) pairs: Vec<PlannedPair>,
}

impl Plan {
    /// Selects rows and pairs.
    ///
    /// # Errors
    /// [`PlanError`] if no variant is selected.
    pub fn new(library: &Library, toolkits: &[&Toolkit], selection: &Selection) -> Result<Self, PlanError> {
        let chosen = |snippet: usize, id: &str| {
            let family = &library.snippets[snippet].family;
            selection.filters.is_empty() || selection.filters.iter().any(|f| f.matches(family, id))
        };
        let mut rows: Vec<Row> = Vec::new();
        for (n, v) in library.variants.iter().enumerate() {
            if chosen(v.snippet, &v.id) {
                rows.push(Row { id: v.id.clone(), variant: Some(n), snippet: v.snippet });
                let as_written = format!("{}{AS_WRITTEN}", v.id);
                if library.snippets[v.snippet].as_written.is_some() {
                    rows.push(Row { id: as_written, variant: None, snippet: v.snippet });
                }
            }
        }
        if rows.is_empty() {
            return Err(PlanError::NothingSelected { available: library.variants.len() });
        }
        rows.sort_by(|a, b| a.id.cmp(&b.id));

        let of = |keep: &dyn Fn(&Row) -> bool| -> Vec<usize> {
            (0..rows.len()).filter(|i| keep(&rows[*i])).collect()
        };
        let variants = of(&|row| row.variant.is_some());
        let crossing = of(&|row| row.variant.is_some() && library.snippets[row.snippet].header.cross_arch);
        let mut pairs = Vec::new();
        for (t, _) in toolkits.iter().enumerate() {
            for target in &selection.targets {
                pairs.push(PlannedPair {
                    toolkit: t,
                    target: *target,
                    arch: *target,
                    rows: variants.clone(),
                });
            }
        }
        for (t, _) in toolkits.iter().enumerate() {
            for target in &selection.targets {
                for arch in selection.targets.iter().filter(|arch| is_crossed(*target, **arch)) {
                    if !crossing.is_empty() {
                        pairs.push(PlannedPair {
                            toolkit: t,
                            target: *target,
                            arch: *arch,
                            rows: crossing.clone(),
                        });
                    }
                }
            }
        }
        for (n, row) in rows.iter().enumerate() {
            let Some(written) =
                library.snippets[row.snippet].as_written.as_ref().filter(|_| row.variant.is_none())
            else {
                continue;
            };
            for (t, _) in toolkits.iter().enumerate() {
                let target = written.target;
                match pairs.iter_mut().find(|p| p.toolkit == t && p.target == target && p.arch == target) {
                    Some(pair) => pair.rows.push(n),
                    None => pairs.push(PlannedPair { toolkit: t, target, arch: target, rows: vec![n] }),
                }
            }
        }
        Ok(Self { rows, pairs })
    }

    /// The number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.pairs.iter().map(|p| p.rows.len()).sum()
    }
}

/// Whether PTX for `target` is also assembled with `arch`: within a family, and for sm_120a and sm_121a, the targets of
/// the GPUs themselves, from every target.
fn is_crossed(target: Target, arch: Target) -> bool {
    target != arch && (target.same_family(arch) || (arch.is_sm12x() && arch.suffix == Suffix::Arch))
}
