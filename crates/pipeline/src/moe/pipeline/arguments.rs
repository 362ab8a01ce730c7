//! The arguments of a launch: sizes from the kernel's header, buffers and tensor maps by name.

use emulator::device::{Argument, Launch, MapElement, TensorMapSpec};

use super::{Fc, Ready, Run};
use crate::frame::RunError;
use crate::frame::launch;
use crate::kernel::Names;
use crate::moe::layout::{KPad, padded};
use crate::moe::{admission, slots};

impl Run<'_> {
    pub(super) fn prepare(&self, ready: &Ready<'_>, fc: Option<Fc>) -> Result<Launch, RunError> {
        let names = self.names(fc);
        let argument = |name: &str| self.argument(name, fc, &names);
        launch::prepared(&*self.device, ready.kernel, ready.module, &names, argument)
    }

    /// Columns and K of the GEMM that a launch computes or feeds.
    fn extents(&self, fc: Fc) -> (usize, usize) {
        match fc {
            Fc::One => (self.dims.fc1_cols(), self.dims.hidden),
            Fc::Two => (self.dims.hidden, self.dims.inter),
        }
    }

    /// The values of expressions: sizes of the batch and of the model; of a GEMM, or of what feeds it, its columns `n`, the elements of a
    /// row `k`, those with their padding `k_padded` and those that are multiplied `k_used`; the tile, the tiles in flight (`stages`), the
    /// bytes of each and the warps that multiply; the most tiles of tokens that a routing of these rows can need.
    fn names(&self, fc: Option<Fc>) -> Names {
        let (d, c) = (self.dims, &self.setup.config);
        let mut names: Vec<(&'static str, usize)> = vec![
            ("tokens", d.tokens),
            ("experts", d.experts),
            ("top_k", d.top_k),
            ("rows", d.rows()),
            ("choices", d.rows()),
            ("hidden", d.hidden),
            ("inter", d.inter),
            ("tile_m", c.tile.m as usize),
            ("tile_n", c.tile.n as usize),
            ("tile_k", c.tile.k as usize),
            ("stages", c.stages as usize),
            ("stage_bytes", c.stage_bytes() as usize),
            ("warps", c.warps() as usize),
            ("most_tiles", self.most_tiles()),
        ];
        if let Some(fc) = fc {
            let (n, k) = self.extents(fc);
            let used = if self.setup.k_pad == KPad::Zeros { padded(k) } else { k };
            names.extend([("n", n), ("k", k), ("k_padded", padded(k)), ("k_used", used)]);
        }
        names.into_iter().map(|(name, value)| (name, value as u64)).collect()
    }

    /// Returns the value of an argument's name in this launch.
    fn argument(&self, name: &str, fc: Option<Fc>, names: &Names) -> Option<Argument> {
        let of = |one: &'static str, two: &'static str| match fc {
            Some(Fc::One) => Some(one),
            Some(Fc::Two) => Some(two),
            None => None,
        };
        let buffer = match name {
            "a_codes" => of("a1_codes", "a2_codes")?,
            "a_scales" => of("a1_scales", "a2_scales")?,
            "w_codes" => of("w13_codes", "w2_codes")?,
            "w_scales" => of("w13_scales", "w2_scales")?,
            "bias" => of("w13_gemm_bias", "w2_gemm_bias")?,
            "a_global" => of("a1_global", "a2_global")?,
            "token_scale" => of("a1_token_scale", "a2_token_scale")?,
            "global" => of("w13_factor", "w2_factor")?,
            "out" => of("fc1_out", "fc2_out")?,
            other => other,
        };
        if let Some(buffer) = self.buffers.get(buffer) {
            return Some(Argument::Address(*buffer));
        }
        if let Some(value) = names.get(name) {
            return Some(Argument::Value(u32::try_from(*value).ok()?.to_le_bytes().to_vec()));
        }
        let s = &self.problem.settings;
        // At most the element counts of tensors, which are 32-bit indices.
        let number = |n: usize| Argument::Value((n as u32).to_le_bytes().to_vec());
        match name {
            "alpha" => Some(Argument::Value(s.alpha.to_le_bytes().to_vec())),
            "beta" => Some(Argument::Value(s.beta.to_le_bytes().to_vec())),
            "limit" => Some(Argument::Value(s.limit.to_le_bytes().to_vec())),
            "routed_experts" => Some(number(self.dims.routed())),
            "chosen" => Some(number(self.dims.chosen())),
            "groups" => Some(number(s.router.groups.map_or(1, |g| g.count))),
            "groups_kept" => Some(number(s.router.groups.map_or(1, |g| g.kept))),
            "routed_scaling" => Some(Argument::Value(s.router.scaling.to_le_bytes().to_vec())),
            "a_map" => self.token_map(fc?),
            "w_map" => self.weight_map(fc?),
            _ => None,
        }
    }

    fn token_map(&self, fc: Fc) -> Option<Argument> {
        let format = self.problem.settings.pair.activation();
        let bytes = format.bytes(padded(self.extents(fc).1)) as u64;
        let tokens = admission::token_box(&self.setup.config);
        let buffer = *self.buffers.get(if fc == Fc::One { "a1_codes" } else { "a2_codes" })?;
        Some(Argument::Map(TensorMapSpec {
            buffer,
            element: tokens.element,
            dims: vec![bytes, self.dims.rows() as u64],
            strides: vec![bytes],
            box_dims: tokens.dims,
            swizzle: tokens.swizzle,
        }))
    }

    /// Experts, channels and K, in bytes or, if the copy unpacks them, in elements.
    fn weight_map(&self, fc: Fc) -> Option<Argument> {
        let (n, k) = self.extents(fc);
        let format = self.problem.settings.pair.weight();
        let (n, bytes) = (n as u64, format.bytes(padded(k)) as u64);
        let weights = admission::weight_box(&self.setup.config);
        let experts = slots::count(&self.slots().ok()?) as u64;
        let buffer = *self.buffers.get(if fc == Fc::One { "w13_codes" } else { "w2_codes" })?;
        let width = if weights.element == MapElement::U8 { bytes } else { 2 * bytes };
        Some(Argument::Map(TensorMapSpec {
            buffer,
            element: weights.element,
            dims: vec![width, n, experts],
            strides: vec![bytes, bytes * n],
            box_dims: weights.dims,
            swizzle: weights.swizzle,
        }))
    }
}
