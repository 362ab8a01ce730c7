//! Runs the machine code of many kernels on the GPU, in one go where that works.

use std::sync::PoisonError;

use compiler::fuzz::{CTAS, THREADS, before};
use emulator::device::{Argument, Device as _, Failure, Launch};

use super::{Campaign, CampaignError, Case, Wrong};
use crate::gpu::GpuDevice;

impl Campaign<'_> {
    /// Runs entries of an image and compares their results; nothing without a GPU. If the launches fail together, each runs alone in a
    /// context of its own, so that one failure loses one kernel.
    pub(super) fn run(
        &self,
        image: &[u8],
        kernels: &[(String, &Case)],
    ) -> Result<Vec<Option<Wrong>>, CampaignError> {
        let Some(device) = self.device else { return Ok(Vec::new()) };
        // A thread that panicked held no half of a message: the worker is asked to start over.
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        match together(&mut device, image, kernels) {
            Ok(results) => Ok(results
                .into_iter()
                .zip(kernels)
                .map(|(got, (_, case))| (got != case.expected).then_some(Wrong::Differs(got)))
                .collect()),
            Err(lost @ Failure::DeviceLost(_)) => Err(CampaignError::Device(lost)),
            Err(failure) if kernels.len() == 1 => Ok(vec![Some(Wrong::Stopped(failure))]),
            Err(_) => {
                let mut all = Vec::new();
                for (entry, case) in kernels {
                    let kernel = [(entry.clone(), *case)];
                    all.push(match together(&mut device, image, &kernel) {
                        Ok(results) => results
                            .into_iter()
                            .next()
                            .and_then(|got| (got != case.expected).then_some(Wrong::Differs(got))),
                        Err(lost @ Failure::DeviceLost(_)) => return Err(CampaignError::Device(lost)),
                        Err(failure) => Some(Wrong::Stopped(failure)),
                    });
                }
                Ok(all)
            }
        }
    }
}

/// Launches all kernels in one stream; their memory is one buffer, so that few messages carry it. Returns the results of each.
fn together(
    device: &mut GpuDevice,
    image: &[u8],
    kernels: &[(String, &Case)],
) -> Result<Vec<Vec<u8>>, Failure> {
    device.reset()?;
    let (module, _) = device.load_image(image)?;
    let sizes = before(0).map(|part| part.len());
    let buffer = device.allocate(kernels.iter().flat_map(|(_, case)| &case.memory).copied().collect())?;
    let mut address = device.address(buffer)?;
    let mut launches = Vec::new();
    for (entry, _) in kernels {
        let arguments = sizes
            .iter()
            .map(|size| {
                let part = address;
                address += *size as u64;
                Argument::Value(part.to_le_bytes().to_vec())
            })
            .collect();
        launches.push(Launch {
            module,
            entry: entry.clone(),
            grid: [CTAS, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
            arguments,
            programmatic: false,
            cluster: [1; 3],
            cooperative: false,
        });
    }
    device.run(&launches)?;
    let all: usize = sizes.iter().sum();
    Ok(device.read(buffer)?.chunks(all).map(|memory| memory[sizes[0]..].to_vec()).collect())
}
