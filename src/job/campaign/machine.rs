//! Runs the machine code of many kernels on the GPU, in one go where that works.

use std::sync::PoisonError;

use compiler::fuzz::{CTAS, THREADS, before};
use emulator::device::{Argument, Device as _, Failure, Launch};

use super::{Campaign, CampaignError, Case, Wrong};
use crate::gpu::GpuDevice;

impl Campaign<'_> {
    /// Runs entries of an image and compares their results; nothing without a GPU. After a failure the others run again in a context of
    /// their own, so that it loses one kernel.
    pub(super) fn run(
        &self,
        image: &[u8],
        kernels: &[(String, &Case)],
    ) -> Result<Vec<Option<Wrong>>, CampaignError> {
        let Some(device) = self.device else { return Ok(Vec::new()) };
        // A thread that panicked held no half of a message: the worker is asked to start over.
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Option<Wrong>> = kernels.iter().map(|_| None).collect();
        let mut groups: Vec<Vec<usize>> = vec![(0..kernels.len()).collect()];
        while let Some(mut group) = groups.pop() {
            let now: Vec<_> = group.iter().map(|n| &kernels[*n]).collect();
            match together(&mut device, image, &now) {
                Ok(results) => {
                    for (n, got) in group.into_iter().zip(results) {
                        all[n] = (got != kernels[n].1.expected).then_some(Wrong::Differs(got));
                    }
                }
                Err(Ended { failure: lost @ Failure::DeviceLost(_), .. }) => {
                    return Err(CampaignError::Device(lost));
                }
                Err(Ended { kernel: Some(at), failure }) => {
                    all[group.remove(at)] = Some(Wrong::Stopped(failure));
                    groups.extend((!group.is_empty()).then_some(group));
                }
                Err(Ended { kernel: None, failure }) if group.len() == 1 => {
                    all[group[0]] = Some(Wrong::Stopped(failure));
                }
                // It shows outside of a launch: which kernel it was, each alone tells.
                Err(Ended { kernel: None, .. }) => groups.extend(group.into_iter().map(|n| vec![n])),
            }
        }
        Ok(all)
    }
}

/// A failure, and the kernel in whose launch it was.
struct Ended {
    kernel: Option<usize>,
    failure: Failure,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self { kernel: None, failure }
    }
}

/// Launches kernels one after the other, so that it is known which one fails; their memory is one buffer, so that few messages carry it.
/// Returns the results of each. A failure loses the memory, and with it the results of the kernels before.
fn together(
    device: &mut GpuDevice,
    image: &[u8],
    kernels: &[&(String, &Case)],
) -> Result<Vec<Vec<u8>>, Ended> {
    device.reset()?;
    let (module, _) = device.load_image(image)?;
    let sizes = before(0).map(|part| part.len());
    let buffer = device.allocate(kernels.iter().flat_map(|(_, case)| &case.memory).copied().collect())?;
    let mut address = device.address(buffer)?;
    for (kernel, (entry, _)) in kernels.iter().enumerate() {
        let arguments = sizes
            .iter()
            .map(|size| {
                let part = address;
                address += *size as u64;
                Argument::Value(part.to_le_bytes().to_vec())
            })
            .collect();
        let launch = Launch {
            module,
            entry: entry.clone(),
            grid: [CTAS, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
            arguments,
            programmatic: false,
            cluster: [1; 3],
            cooperative: false,
        };
        device
            .run(std::slice::from_ref(&launch))
            .map_err(|stopped| Ended { kernel: Some(kernel), failure: stopped.failure })?;
    }
    let all: usize = sizes.iter().sum();
    Ok(device.read(buffer)?.chunks(all).map(|memory| memory[sizes[0]..].to_vec()).collect())
}
