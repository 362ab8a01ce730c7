//! Kernels of PTX that serve functions of a library: their arguments, and how they are launched.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::device::arguments::Packed;
use crate::device::state::device;
use crate::device::submit;
use crate::device::work::Shape;
use crate::program::image::Image;
use crate::status::Answer;

/// The kernels of a library.
#[derive(Debug)]
pub(super) struct Kernels {
    ptx: &'static str,
    /// The module for each GPU, once it is loaded.
    modules: LazyLock<Mutex<HashMap<u8, usize>>>,
}

impl Kernels {
    pub(super) const fn new(ptx: &'static str) -> Self {
        Self { ptx, modules: LazyLock::new(Mutex::default) }
    }

    /// Launches a kernel in a stream.
    pub(super) fn launch(
        &self,
        stream: u64,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 2],
        arguments: Arguments,
    ) -> Answer {
        let symbol = {
            let mut device = device()?;
            let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
            let gpu = device.streams.gpu(stream);
            let loaded = modules.get(&gpu).copied().filter(|number| device.modules.contains_key(number));
            let number =
                loaded.unwrap_or_else(|| device.load(Image::from(self.ptx.as_bytes().to_vec()), Some(gpu)));
            modules.insert(gpu, number);
            device.function(number, kernel)
        };
        let shape = Shape { grid, block: [block[0], block[1], 1], ..Shape::default() };
        submit::launch(stream, symbol, shape, &Packed(arguments.0))
    }
}

/// The arguments of a kernel, packed.
#[derive(Debug, Default)]
pub(super) struct Arguments(Vec<u8>);

impl Arguments {
    pub(super) fn put(mut self, bytes: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(bytes.len()), 0);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn long(self, value: i64) -> Self {
        self.put(&value.to_le_bytes())
    }

    pub(super) fn word(self, value: i32) -> Self {
        self.put(&value.to_le_bytes())
    }

    pub(super) fn address(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }
}

/// CTAs of `per` for `n`, as many as a grid may have.
pub(super) fn ctas(n: i64, per: i64, most: i64) -> u32 {
    (n.max(1) as u64).div_ceil(per as u64).min(most as u64) as u32
}

/// The most CTAs of a grid in its second and third direction.
pub(super) const MOST: i64 = 65_535;
