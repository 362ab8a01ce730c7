//! The tensors of the pipeline: names, types and shapes of the dump format (docs/dump.md).
//!
//! Everything is logical: row-major, unswizzled, unpadded. Weights of experts that no token chose may be omitted; then
//! `expert_ids` names the remaining experts, by row.

mod axes;
mod dump;
mod elements;

pub use axes::Axis;
pub use dump::{Dump, read, write};
pub use elements::Elements;

use super::dims::Dims;
use super::error::MoeError;
use crate::moe::case::FormatPair;

/// A tensor: `data` has as many elements as `shape` requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Array<T> {
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Elements, row-major; a bf16 is stored as its bits.
    pub data: Elements<T>,
}

impl<T: Clone> Array<T> {
    /// Returns a tensor whose elements all equal `value`.
    #[must_use]
    pub fn filled(shape: &[usize], value: T) -> Self {
        Self { shape: shape.to_vec(), data: vec![value; shape.iter().product()].into() }
    }
}

impl<T> Array<T> {
    /// Returns a tensor of these elements.
    ///
    /// # Errors
    /// [`MoeError::Shape`] if their number does not match `shape`.
    pub fn new(name: &str, shape: &[usize], data: Vec<T>) -> Result<Self, MoeError> {
        if shape.iter().product::<usize>() == data.len() {
            return Ok(Self { shape: shape.to_vec(), data: data.into() });
        }
        Err(MoeError::Shape {
            name: name.to_owned(),
            found: vec![data.len()],
            wanted: format!("{shape:?}"),
            why: "as many elements as the shape says".to_owned(),
        })
    }

    /// Returns row `at` of a matrix, or of the last dimension of a deeper tensor; empty beyond the end.
    #[must_use]
    pub fn row(&self, at: usize) -> &[T] {
        let width = self.shape.last().copied().unwrap_or(0);
        self.data.get(at * width..(at + 1) * width).unwrap_or_default()
    }
}

impl<T: Clone> Array<T> {
    /// Returns the tensor with these indices of an axis alone; as it is if it has no such axis.
    fn taking(&self, axes: &[Axis], axis: Axis, indices: &[usize]) -> Self {
        let Some(at) = axes.iter().position(|of| *of == axis).filter(|at| *at < self.shape.len()) else {
            return self.clone();
        };
        let (outer, length) = (&self.shape[..at], self.shape[at]);
        let inner: usize = self.shape[at + 1..].iter().product();
        let kept: Vec<usize> = indices.iter().copied().filter(|index| *index < length).collect();
        let mut data = Vec::with_capacity(outer.iter().product::<usize>() * kept.len() * inner);
        for part in self.data.chunks((length * inner).max(1)) {
            for index in &kept {
                data.extend_from_slice(part.get(index * inner..(index + 1) * inner).unwrap_or_default());
            }
        }
        let mut shape = self.shape.clone();
        shape[at] = kept.len();
        Self { shape, data: data.into() }
    }
}

/// A tensor's name, type and axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Its name in a dump.
    pub name: &'static str,
    /// Its safetensors type.
    pub dtype: safetensors::Dtype,
    /// Its axes, slowest first.
    pub axes: &'static [Axis],
}

/// The fields of [`Tensors`], each with its type and axes.
macro_rules! tensors {
    ($($(#[$doc:meta])* $name:ident: $element:ty as $dtype:ident [$($axis:ident),*],)*) => {
        /// Any subset of the tensors of a run. A bf16 is stored as its bits.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Tensors {
            $($(#[$doc])* pub $name: Option<Array<$element>>,)*
        }

        impl Tensors {
            /// Every tensor of the format.
            pub const FORMS: &'static [Form] = &[$(Form {
                name: stringify!($name),
                dtype: safetensors::Dtype::$dtype,
                axes: &[$(Axis::$axis),*],
            }),*];

            /// Whether the tensor called `name` is present.
            #[must_use]
            pub fn has(&self, name: &str) -> bool {
                match name {
                    $(stringify!($name) => self.$name.is_some(),)*
                    _ => false,
                }
            }

            /// Returns the tensors with these indices of an axis alone, in this order. An index beyond an axis is left out.
            #[must_use]
            pub fn taking(&self, axis: Axis, indices: &[usize]) -> Self {
                Self { $($name: self.$name.as_ref().map(|of| of.taking(&[$(Axis::$axis),*], axis, indices)),)* }
            }

            /// Returns the tensors of these names alone.
            #[must_use]
            pub fn only(mut self, names: &[&str]) -> Self {
                $(if !names.contains(&stringify!($name)) {
                    self.$name = None;
                })*
                self
            }

            /// The shapes of the tensors present.
            pub(in crate::moe) fn shapes(&self) -> Vec<(&'static Form, &[usize])> {
                let shapes = [$(self.$name.as_ref().map(|a| a.shape.as_slice())),*];
                Self::FORMS.iter().zip(shapes).filter_map(|(form, shape)| Some((form, shape?))).collect()
            }

            /// The tensors present, as bytes for writing.
            fn views(&self) -> Vec<dump::View<'_>> {
                let views = [$(self.$name.as_ref().map(|a| dump::View::new(&a.shape, dump::Element::elements(&a.data)))),*];
                Self::FORMS.iter().zip(views).filter_map(|(form, view)| Some(view?.called(form))).collect()
            }

            /// A digest of every tensor present, with its name and shape; `None` if they have more than `limit` bytes.
            #[must_use]
            pub fn digest(&self, limit: usize) -> Option<String> {
                dump::digest(&self.views(), limit)
            }

            /// Sets the tensor called `name` from little-endian bytes; returns `false` if the format has no such name.
            pub(in crate::moe) fn set(&mut self, name: &str, shape: Vec<usize>, bytes: &[u8]) -> bool {
                match name {
                    $(stringify!($name) => {
                        self.$name = Some(Array { shape, data: <$element as dump::Element>::read(bytes).into() });
                        true
                    })*
                    _ => false,
                }
            }

            /// Takes every tensor that `other` has.
            pub fn extend(&mut self, other: Self) {
                $(if other.$name.is_some() { self.$name = other.$name; })*
            }
        }
    };
}

tensors! {
    /// Hidden states [T, H].
    hidden_states: u16 as BF16 [Tokens, Hidden],
    /// Router logits [T, E].
    router_logits: f32 as F32 [Tokens, Experts],
    /// The router's correction, added to scores for the choice only `[E]`; zeros if absent.
    correction_bias: f32 as F32 [Experts],
    /// The experts of each token [T, k], best first.
    topk_ids: i32 as I32 [Tokens, TopK],
    /// Their weights [T, k].
    topk_weights: f32 as F32 [Tokens, TopK],
    /// The experts whose weights are present [E']; if absent, all in order.
    expert_ids: i32 as I32 [Present],
    /// Weights of the first GEMM [E', 2I, bytes of H]; e2m1 has the low nibble first.
    w13_blocks: u8 as U8 [Present, Fc1Cols, HiddenBytes],
    /// Their scales [E', 2I, blocks of H].
    w13_scales: u8 as U8 [Present, Fc1Cols, HiddenBlocks],
    /// The factor on codes and scales of each expert [E'], if the format has a global scale.
    w13_global: f32 as F32 [Present],
    /// Their bias [E', 2I]; zeros if absent.
    w13_bias: f32 as F32 [Present, Fc1Cols],
    /// Weights of the second GEMM [E', H, bytes of I].
    w2_blocks: u8 as U8 [Present, Hidden, InterBytes],
    /// Their scales [E', H, blocks of I].
    w2_scales: u8 as U8 [Present, Hidden, InterBlocks],
    /// Their global scales [E'].
    w2_global: f32 as F32 [Present],
    /// Their bias [E', H]; zeros if absent.
    w2_bias: f32 as F32 [Present, Hidden],
    /// The token of each permuted row, `[R]`.
    row_token: i32 as I32 [Rows],
    /// The expert of each permuted row, `[R]`.
    row_expert: i32 as I32 [Rows],
    /// The permuted hidden states as the first GEMM reads them [R, bytes of H].
    a1_codes: u8 as U8 [Rows, HiddenCodes],
    /// Their scales [R, blocks of H].
    a1_scales: u8 as U8 [Rows, HiddenScales],
    /// The factor on codes and scales of each expert's rows [E'], if the format has a global scale: an input.
    a1_global: f32 as F32 [Present],
    /// The factor on codes and block scales of each row `[R]`, if tokens have global scales.
    a1_token_scale: f32 as F32 [Rows],
    /// The result of the first GEMM [R, 2I].
    fc1_out: u16 as BF16 [Rows, Fc1Cols],
    /// The result of the activation [R, bytes of I].
    a2_codes: u8 as U8 [Rows, InterCodes],
    /// Their scales [R, blocks of I].
    a2_scales: u8 as U8 [Rows, InterScales],
    /// Their global scales [E'].
    a2_global: f32 as F32 [Present],
    /// The global scales of its rows `[R]`, if tokens have some.
    a2_token_scale: f32 as F32 [Rows],
    /// The second GEMM's input instead of `a2_codes`, if the host replaced it.
    injected_a2_codes: u8 as U8 [Rows, InterCodes],
    /// Their scales.
    injected_a2_scales: u8 as U8 [Rows, InterScales],
    /// Their global scales, if tokens have some.
    injected_a2_token_scale: f32 as F32 [Rows],
    /// The result of the second GEMM [R, H].
    fc2_out: u16 as BF16 [Rows, Hidden],
    /// The result [T, H].
    output: u16 as BF16 [Tokens, Hidden],
}

impl Tensors {
    /// Returns the dimensions that the shapes of operands of these formats determine; 0 for the others.
    ///
    /// # Errors
    /// [`MoeError::Shape`] if two tensors contradict each other.
    pub fn dims(&self, pair: FormatPair) -> Result<Dims, MoeError> {
        axes::deduce(self, pair)
    }

    /// Checks that every tensor present has the shape that `dims` requires.
    ///
    /// # Errors
    /// [`MoeError::Shape`] for the first one that does not.
    pub fn check(&self, dims: &Dims, pair: FormatPair) -> Result<(), MoeError> {
        axes::check(self, dims, pair)
    }
}
