//! The device code of an image: the PTX that the GPU runs best, and what else there is, for messages.

use std::sync::Arc;

use devcode::{CodeKind, Found, Limits, scan_bytes};
use ptx::arch::{Suffix, Target};

use crate::device::kept_ptx::kept_ptx;
use emulator::gpus::Gpu;

/// The device code of a fatbin, a PTX text or a cubin.
#[derive(Debug, Default)]
pub(crate) struct DeviceCode {
    /// The PTX that the GPU runs.
    pub(crate) text: Option<Arc<str>>,
    /// Kernels that exist as machine code, with its target.
    pub(crate) machine_code: Vec<String>,
    /// The targets of PTX that the GPU cannot run.
    pub(crate) other_targets: Vec<Target>,
    /// Whether there is code for link-time optimization (`-dlto`), which is not PTX.
    pub(crate) has_lto: bool,
    /// The number of pieces of code.
    pub(crate) pieces: usize,
    /// The name of the source file, if the fatbin has one.
    pub(crate) source: Option<String>,
    /// The library that contains it, if it is not the program's.
    pub(crate) library: Option<String>,
    /// The objects of the program that have no PTX for the GPU.
    pub(crate) missing: Vec<String>,
}

impl DeviceCode {
    /// Reads an image.
    pub(crate) fn read(image: Vec<u8>, gpu: &Gpu) -> Self {
        let mut reading = Reading::default();
        scan_bytes("image", image, &Limits::default(), &mut |found| reading.add(found, gpu));
        reading.ended()
    }

    /// Reads an image that may be an archive: the code of each member.
    pub(crate) fn read_members(name: &str, image: Vec<u8>, gpu: &Gpu) -> Vec<(String, Self)> {
        let mut members: Vec<(String, Reading)> = Vec::new();
        scan_bytes(name, image, &Limits::default(), &mut |found| {
            let Found::Entry { entry, .. } = &found else { return };
            let file = &*entry.place.file;
            if members.last().is_none_or(|(known, _)| known != file) {
                members.push((file.to_owned(), Reading::default()));
            }
            if let Some((_, reading)) = members.last_mut() {
                reading.add(found, gpu);
            }
        });
        members.into_iter().map(|(name, reading)| (name, reading.ended())).collect()
    }
}

/// Device code while it is read.
#[derive(Default)]
struct Reading {
    best: Option<(u32, Arc<str>)>,
    /// The PTX of machine code whose compiler kept it.
    kept: Option<String>,
    code: DeviceCode,
}

impl Reading {
    fn add(&mut self, found: Found<'_>, gpu: &Gpu) {
        let Found::Entry { entry, code: bytes } = found else { return };
        let Self { best, kept, code } = self;
        code.pieces += 1;
        code.source = code.source.take().or_else(|| entry.name.clone());
        code.has_lto |= entry.kind == CodeKind::LtoIr;
        if entry.kind != CodeKind::Ptx {
            *kept = kept.take().or_else(|| kept_ptx(bytes));
            let kernels = entry.kernels.iter().map(|k| format!("{} ({})", k.name, entry.target_text()));
            code.machine_code.extend(kernels);
            return;
        }
        let Some(target) = entry.target() else { return };
        let Some(rank) = rank(target, gpu.arch()) else {
            code.other_targets.push(target);
            return;
        };
        if let Ok(text) = std::str::from_utf8(bytes)
            && best.as_ref().is_none_or(|(known, _)| *known < rank)
        {
            *best = Some((rank, text.trim_end_matches('\0').into()));
        }
    }

    fn ended(self) -> DeviceCode {
        let Self { best, kept, mut code } = self;
        code.text = best.map(|(_, text)| text).or(kept.map(Arc::from));
        code
    }
}

/// How well PTX for a target matches a GPU; `None` if the GPU cannot run it.
pub(crate) fn rank(target: Target, arch: u32) -> Option<u32> {
    let number = u32::from(target.number);
    let fits = match target.suffix {
        Suffix::Arch => number == arch,
        Suffix::Family => number <= arch && number / 10 == arch / 10,
        Suffix::Base => number <= arch,
    };
    fits.then_some(number * 4 + target.suffix as u32 % 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_ptx_that_the_gpu_runs_is_chosen() {
        let rank = |target: &str, arch| rank(Target::written(target).unwrap(), arch);
        assert!(rank("sm_121a", 121) > rank("sm_120f", 121) && rank("sm_120f", 121) > rank("sm_90", 121));
        for refused in ["sm_120a", "sm_90a", "sm_100f"] {
            assert_eq!(rank(refused, 121), None, "{refused}");
        }
        assert!(rank("sm_121", 120).is_none() && rank("sm_90a", 90).is_some());
    }
}
