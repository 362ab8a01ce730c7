//! Times decode steps of attention over long caches, and compares what they read with the measured bandwidth.

use emulator::device::{LaunchFailure, Timer};
use ptx::arch::{PtxIsa, Target};

use super::ceiling::{self, Effort};
use super::timing::{TimingError, range};
use crate::attention::timing::Step;
use crate::frame::RunError;
use crate::frame::compile::Compiler;
use crate::kernel::Library;
use crate::record::DecodeRow;

/// The stage of decode steps that reads the cache.
const STAGE: &str = "partials";

/// Decode steps that are timed, and how.
#[derive(Debug)]
pub struct Decodes<'a> {
    /// The steps.
    pub steps: &'a [Step],
    /// The kernel library.
    pub library: &'a Library,
    /// The compiler of the kernels.
    pub compiler: &'a Compiler<'a>,
    /// The PTX version and target of the kernel that flushes the caches.
    pub code: (PtxIsa, Target),
    /// Bytes to read before every launch, to flush the caches; must exceed their size.
    pub flush: usize,
    /// The warm-up runs and samples of a measurement.
    pub effort: Effort,
}

impl Decodes<'_> {
    /// Times every step on a device whose read bandwidth is so many bytes per second.
    ///
    /// # Errors
    /// [`TimingError`] of the first measurement that fails.
    pub fn on(&self, device: &mut dyn Timer, bandwidth: f64) -> Result<Vec<DecodeRow>, TimingError> {
        self.steps.iter().map(|step| self.one(device, bandwidth, step)).collect()
    }

    fn one(&self, device: &mut dyn Timer, bandwidth: f64, step: &Step) -> Result<DecodeRow, TimingError> {
        let source = step.source(self.library).map_err(RunError::from)?;
        let compiled = self.compiler.compiled(self.library, &[source]).map_err(RunError::from)?;
        device.reset()?;
        let launch = step.launch(device, &compiled)?;
        let (before, _) = ceiling::reader(device, self.code, self.flush, self.effort.ctas)?;
        let failed = |LaunchFailure { failure, .. }| TimingError::Decode {
            kernel: step.configuration().to_string(),
            batch: step.batch(),
            failure,
        };
        let one = std::slice::from_ref(&launch);
        let times = device.time(one, &before, self.effort.warm_up, self.effort.samples).map_err(failed)?;
        let times = times.into_iter().next().unwrap_or_default();
        let microseconds = 1e3 * ceiling::median(&times);
        let [keys, splits] = step.keys();
        let mut row = DecodeRow {
            configuration: step.configuration(),
            stage: STAGE.into(),
            batch: step.batch(),
            keys,
            splits,
            microseconds,
            range: range(&times),
            bytes: step.bytes(),
            of_bandwidth: 0.0,
            plain_read: Some(self.plain_read(device, step.bytes())?),
        };
        row.of_bandwidth = row.bandwidth() / bandwidth;
        Ok(row)
    }

    /// Times a kernel that only reads so many bytes, in microseconds.
    fn plain_read(&self, device: &mut dyn Timer, bytes: u64) -> Result<f64, TimingError> {
        device.reset()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (launch, _) = ceiling::short_reader(device, self.code, bytes)?;
        let (before, _) = ceiling::reader(device, self.code, self.flush, self.effort.ctas)?;
        Ok(1e3 * ceiling::median(&ceiling::timed(device, &launch, &before, self.effort)?))
    }
}
