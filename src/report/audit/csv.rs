//! One row per kernel, piece of device code and device.

use super::super::csv::table;
use crate::record::{AuditEntry, AuditTable, Shown};

/// The columns.
const HEADER: [&str; 9] = ["path", "entry", "kind", "target", "kernel", "for", "verdict", "native", "reason"];

/// The audit as CSV (RFC 4180, LF).
///
/// `verdict` is that of the row's own piece of code; if another piece of the file provides the kernel, `reason` names it. A piece
/// without kernels has one row for each device. `native` is what the opcodes show: `native`, `emulated`, `none`, `unknown`.
#[must_use]
pub fn audit_csv(audit: &AuditTable) -> String {
    // Kernels in the order of entries: the images of a kernel are spread over them.
    let mut of: Vec<Vec<(usize, usize)>> = vec![Vec::new(); audit.entries.len()];
    for (kernel, row) in audit.kernels.iter().enumerate() {
        for (image, row) in row.images.iter().enumerate() {
            of[row.entry].push((kernel, image));
        }
    }
    let header = std::iter::once(HEADER.map(str::to_owned).to_vec());
    let rows = audit.entries.iter().zip(&of).flat_map(|(entry, kernels)| {
        let none = kernels.is_empty().then_some(None);
        let each = none.into_iter().chain(kernels.iter().copied().map(Some));
        each.flat_map(move |kernel| {
            (0..audit.devices.len()).map(move |device| line(audit, entry, kernel, device))
        })
    });
    table(header.chain(rows))
}

fn line(
    audit: &AuditTable,
    entry: &AuditEntry,
    kernel: Option<(usize, usize)>,
    device: usize,
) -> Vec<String> {
    let (mut verdict, mut reason) = (entry.verdicts[device], audit.reasons[entry.reasons[device]].clone());
    let (mut name, mut native) = (String::new(), Shown::Unknown);
    if let Some((kernel, image)) = kernel {
        let row = &audit.kernels[kernel];
        name.clone_from(&row.name);
        native = row.images[image].shown.unwrap_or(Shown::Unknown);
        if row.by[device] == image {
            verdict = row.verdicts[device];
            reason.clone_from(&audit.reasons[row.reasons[device]]);
        } else if row.verdicts[device].runs() {
            let other = &audit.entries[row.images[row.by[device]].entry];
            reason.push_str(&format!("; entry {} ({}) serves this kernel", other.index, other.target));
        }
    }
    vec![
        audit.files[entry.file].path.clone(),
        entry.index.to_string(),
        entry.kind.clone(),
        entry.target.clone(),
        name,
        audit.devices[device].name.clone(),
        verdict.word().to_owned(),
        native.word().to_owned(),
        reason,
    ]
}
