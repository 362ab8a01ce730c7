//! A decode step over long caches of random bytes, to be timed: its kernels, its launches and the bytes that it must read.

use emulator::device::{Argument, Buffer, Device, Launch};
use numerics::random;
use record::ConfigurationName;

use super::cache::Plane;
use super::case::{Case, Layout, Length, Pages, Regime};
use super::configuration::{Configuration, Kernel, PAGED_TYPES, Types};
use super::family;
use super::generate;
use super::semantics::Mask;
use super::stages;
use crate::frame::RunError;
use crate::frame::compile::{Compiled, KernelSource};
use crate::frame::launch;
use crate::kernel::{KernelError, Library, Names};

/// Heads of queries, and of keys: a group of eight, as in gpt-oss and Llama.
const HEADS: [usize; 2] = [64, 8];
/// The widths of a head.
const WIDTHS: [usize; 2] = [64, 128];
/// Slots of a page.
const PAGE: usize = 16;
/// The fewest keys of a split that is worth a CTA.
const LEAST: usize = 640;
/// CTAs of a launch for each multiprocessor, so that those that end early leave none idle.
const CTAS: usize = 8;

/// A decode step: one row of each request of a batch.
#[derive(Debug, Clone)]
pub struct Step {
    case: Case,
    configuration: Configuration,
    planes: [Plane; 2],
}

/// The steps of every type of cache and width: `batch` requests of `keys` keys each on a device of so many multiprocessors.
#[must_use]
pub fn steps(batch: usize, keys: usize, multiprocessors: usize) -> Vec<Step> {
    let of = |width: usize| PAGED_TYPES.map(|types| Step::new(width, types, [batch, keys, multiprocessors]));
    WIDTHS.into_iter().flat_map(of).collect()
}

/// The splits of `keys` keys that each of so many lines has. Where keys allow fewer CTAs than [`CTAS`] for a multiprocessor, each has as many:
/// CTAs beyond that would run when all others have ended, and double the time.
fn splits(lines: usize, keys: usize, multiprocessors: usize) -> usize {
    let (lines, most) = (lines.max(1), (keys / LEAST).max(1));
    let wanted = (CTAS * multiprocessors).div_ceil(lines).max(1);
    if wanted <= most {
        return wanted;
    }
    let each = most * lines / multiprocessors.max(1);
    if each == 0 { most } else { (each * multiprocessors / lines).max(1) }
}

impl Step {
    fn new(width: usize, types: Types, [batch, keys, multiprocessors]: [usize; 3]) -> Self {
        let [heads, kv_heads] = HEADS;
        let splits = splits(batch * kv_heads, keys, multiprocessors);
        let case = Case {
            name: String::new(),
            about: String::new(),
            heads,
            kv_heads,
            requests: vec![Length { rows: 1, keys }; batch],
            page: PAGE,
            spare: 0,
            pages: Pages::Packed,
            layout: Layout::Nhd,
            mask: Mask::Causal,
            window: None,
            sinks: false,
            slopes: false,
            cap: None,
            swizzled: false,
            key_swizzled: false,
            split: Some(keys.div_ceil(splits).max(1)),
            natural: false,
            regime: Regime::Real,
            seed: 0,
            swept: false,
            sparse: false,
            configurations: Vec::new(),
        };
        let configuration = Configuration::plain(Kernel::Decode, width, types);
        let planes = generate::planes(&case, configuration);
        Self { case, configuration, planes }
    }

    /// The kernel configuration.
    #[must_use]
    pub fn configuration(&self) -> ConfigurationName {
        self.configuration.name()
    }

    /// The requests.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.case.rows()
    }

    /// The keys of a request, and the splits of these.
    #[must_use]
    pub fn keys(&self) -> [usize; 2] {
        [self.case.most_keys(), self.case.splits().1]
    }

    /// The bytes of all keys and values with their block scales, each of which a step must read once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |plane: &Plane| {
            plane.strides.page + plane.scales.as_ref().map_or(0, |scales| scales.strides.page)
        };
        (self.pages() * self.planes.iter().map(of).sum::<usize>()) as u64
    }

    /// Its kernel.
    ///
    /// # Errors
    /// [`KernelError`] if the library has none.
    pub fn source<'l>(&self, library: &'l Library) -> Result<KernelSource<'l>, KernelError> {
        let kernel = family::kernel(library, self.configuration.kernel.word())?;
        Ok(KernelSource { kernel, defines: self.configuration.defines() })
    }

    /// Creates the buffers on a device and returns the launch that computes the results of splits.
    ///
    /// # Errors
    /// [`RunError`] if the kernel's header does not fit its source, or the device cannot load it or hold the buffers.
    pub fn launch(&self, device: &mut dyn Device, compiled: &Compiled<'_>) -> Result<Launch, RunError> {
        let (kernel, ptx) = compiled.kernels.first().ok_or(RunError::Input("kernel"))?;
        let refused = |failure| RunError::Device { file: kernel.file.clone(), failure };
        let module = device.load(ptx).map_err(refused)?;
        let of_request = self.case.most_keys().div_ceil(PAGE).max(1);
        let scale = 1.0 / (self.configuration.width as f32).sqrt();
        let names =
            stages::names(&self.case, self.configuration, &self.planes, [0, of_request], [scale, 1.0, 1.0]);
        let buffers = self.buffers(device)?;
        let argument = |name: &str| argument(name, &buffers, &names);
        launch::prepared(device, kernel, module, &names, argument)
    }

    /// The pages of the cache.
    fn pages(&self) -> usize {
        self.batch() * self.case.most_keys().div_ceil(PAGE)
    }

    /// The buffers by name. Elements are small numbers, so that no sum overflows.
    fn buffers(&self, device: &mut dyn Device) -> Result<Vec<(&'static str, Buffer)>, RunError> {
        let (batch, pages) = (self.batch(), self.pages());
        let lines = batch * self.case.heads;
        let width = self.configuration.width;
        let most = if self.configuration.types == Types::Nvfp4 { 0xFF } else { 0x3F };
        let [keys, values] = [0, 1].map(|side| self.planes[side].strides.page * pages);
        let scales = self.planes[0].scales.as_ref().map_or(16, |scales| scales.strides.page * pages);
        let splits = self.case.splits().1;
        let mut buffers = Vec::new();
        let drawn = [
            ("queries", lines * width * 2, 0, 0x3F),
            ("keys", keys, 0, most),
            ("values", values, 0, most),
            ("key_scales", scales, 0x28, 0x3F),
            ("value_scales", scales, 0x28, 0x3F),
        ];
        for (seed, (name, len, least, most)) in (1..).zip(drawn) {
            buffers.push((name, device.allocate_random(len, seed, least, most)?));
        }
        let mut scattered: Vec<usize> = (0..pages).collect();
        scattered.sort_by_key(|page| random::at(0, *page as u64));
        let given = [
            ("table", stages::words(scattered)),
            ("lengths", stages::words(vec![self.case.most_keys(); batch])),
            ("starts", stages::words(0..=batch)),
            ("request_of", stages::words(0..batch)),
            ("mask", vec![0; 4]),
            ("mask_starts", vec![0; 4 * batch]),
            ("slopes", vec![0; 4 * self.case.heads]),
        ];
        for (name, bytes) in given {
            buffers.push((name, device.allocate(bytes)?));
        }
        for (name, len) in [("partial", lines * splits * width * 4), ("partial_lse", lines * splits * 4)] {
            buffers.push((name, device.allocate_unwritten(len)?));
        }
        Ok(buffers)
    }
}

/// The argument of a name: a buffer, or a value of 32 bits.
fn argument(name: &str, buffers: &[(&'static str, Buffer)], names: &Names) -> Option<Argument> {
    if let Some((_, buffer)) = buffers.iter().find(|(of, _)| *of == name) {
        return Some(Argument::Address(*buffer));
    }
    let value = u32::try_from(*names.get(name)?).ok()?;
    Some(Argument::Value(value.to_le_bytes().to_vec()))
}
