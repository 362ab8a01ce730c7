//! The tensors of the pipeline: names, types and shapes of the dump format (docs/dump.md).
//!
//! Everything is logical: row-major, unswizzled, unpadded. Experts that no token chose may be left out of the weights; then
//! `expert_ids` names the experts that are there, by rows.

mod axes;
mod dump;

pub use axes::Axis;
pub use dump::{Dump, read, write};

use super::dims::Dims;
use super::error::MoeError;
use crate::case::FormatPair;

/// A tensor: `data` has as many elements as `shape` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Array<T> {
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Elements, row-major. bf16 are their bits.
    pub data: Vec<T>,
}

impl<T: Clone> Array<T> {
    /// A tensor of one value.
    #[must_use]
    pub fn filled(shape: &[usize], value: T) -> Self {
        Self { shape: shape.to_vec(), data: vec![value; shape.iter().product()] }
    }
}

impl<T> Array<T> {
    /// A tensor of these elements.
    ///
    /// # Errors
    /// [`MoeError::Shape`] when there are more or fewer than `shape` says.
    pub fn new(name: &str, shape: &[usize], data: Vec<T>) -> Result<Self, MoeError> {
        if shape.iter().product::<usize>() == data.len() {
            return Ok(Self { shape: shape.to_vec(), data });
        }
        Err(MoeError::Shape {
            name: name.to_owned(),
            found: vec![data.len()],
            wanted: format!("{shape:?}"),
            why: "as many elements as the shape says".to_owned(),
        })
    }

    /// Row `at` of a matrix, or of the last dimension of anything deeper; empty beyond the end.
    #[must_use]
    pub fn row(&self, at: usize) -> &[T] {
        let width = self.shape.last().copied().unwrap_or(0);
        self.data.get(at * width..(at + 1) * width).unwrap_or_default()
    }
}

/// A tensor's name, type and axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Its name in a dump.
    pub name: &'static str,
    /// Its type as safetensors writes it.
    pub dtype: safetensors::Dtype,
    /// Its axes, slowest first.
    pub axes: &'static [Axis],
}

/// The fields of [`Tensors`], each with its type and axes.
macro_rules! tensors {
    ($($(#[$doc:meta])* $name:ident: $element:ty as $dtype:ident [$($axis:ident),*],)*) => {
        /// Any subset of the tensors of a run. bf16 are their bits.
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

            /// The shapes of the tensors that are there.
            fn shapes(&self) -> Vec<(&'static Form, &[usize])> {
                let shapes = [$(self.$name.as_ref().map(|a| a.shape.as_slice())),*];
                Self::FORMS.iter().zip(shapes).filter_map(|(form, shape)| Some((form, shape?))).collect()
            }

            /// The tensors that are there, as bytes to be written.
            fn views(&self) -> Vec<dump::View<'_>> {
                let views = [$(self.$name.as_ref().map(|a| dump::View::new(&a.shape, dump::Element::elements(&a.data)))),*];
                Self::FORMS.iter().zip(views).filter_map(|(form, view)| Some(view?.called(form))).collect()
            }

            /// A digest of every tensor that is there, with its name and shape; `None` where they have more than `limit` bytes.
            #[must_use]
            pub fn digest(&self, limit: usize) -> Option<String> {
                dump::digest(&self.views(), limit)
            }

            /// Sets the tensor called `name` from little-endian bytes; `false` when the format has no such name.
            fn set(&mut self, name: &str, shape: Vec<usize>, bytes: &[u8]) -> bool {
                match name {
                    $(stringify!($name) => {
                        self.$name = Some(Array { shape, data: <$element as dump::Element>::read(bytes) });
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
    /// What the router adds to scores for the choice alone `[E]`; zeros without it.
    correction_bias: f32 as F32 [Experts],
    /// The experts of each token [T, k], the best first.
    topk_ids: i32 as I32 [Tokens, TopK],
    /// Their weights [T, k].
    topk_weights: f32 as F32 [Tokens, TopK],
    /// The experts whose weights are there [E']; all, in order, without it.
    expert_ids: i32 as I32 [Present],
    /// Weights of the first GEMM [E', 2I, bytes of H], of e2m1 the low nibble first.
    w13_blocks: u8 as U8 [Present, Fc1Cols, HiddenBytes],
    /// Their scales [E', 2I, blocks of H].
    w13_scales: u8 as U8 [Present, Fc1Cols, HiddenBlocks],
    /// What multiplies codes and scales of each expert [E'], where the format has a global scale.
    w13_global: f32 as F32 [Present],
    /// Their bias [E', 2I]; zeros without it.
    w13_bias: f32 as F32 [Present, Fc1Cols],
    /// Weights of the second GEMM [E', H, bytes of I].
    w2_blocks: u8 as U8 [Present, Hidden, InterBytes],
    /// Their scales [E', H, blocks of I].
    w2_scales: u8 as U8 [Present, Hidden, InterBlocks],
    /// Their global scales [E'].
    w2_global: f32 as F32 [Present],
    /// Their bias [E', H]; zeros without it.
    w2_bias: f32 as F32 [Present, Hidden],
    /// The token of each permuted row, `[R]`.
    row_token: i32 as I32 [Rows],
    /// The expert of each permuted row, `[R]`.
    row_expert: i32 as I32 [Rows],
    /// The permuted hidden states as the first GEMM reads them [R, bytes of H].
    a1_codes: u8 as U8 [Rows, HiddenCodes],
    /// Their scales [R, blocks of H].
    a1_scales: u8 as U8 [Rows, HiddenScales],
    /// What multiplies codes and scales of the rows of each expert [E'], where the format has a global scale: an input.
    a1_global: f32 as F32 [Present],
    /// What multiplies codes and block scales of each row `[R]`, where tokens have global scales.
    a1_token_scale: f32 as F32 [Rows],
    /// What the first GEMM stored [R, 2I].
    fc1_out: u16 as BF16 [Rows, Fc1Cols],
    /// What the activation stored [R, bytes of I].
    a2_codes: u8 as U8 [Rows, InterCodes],
    /// Their scales [R, blocks of I].
    a2_scales: u8 as U8 [Rows, InterScales],
    /// Their global scales [E'].
    a2_global: f32 as F32 [Present],
    /// The global scales of its rows `[R]`, where tokens have some.
    a2_token_scale: f32 as F32 [Rows],
    /// What the second GEMM read instead of `a2_codes`, where the host replaced them.
    injected_a2_codes: u8 as U8 [Rows, InterCodes],
    /// Their scales.
    injected_a2_scales: u8 as U8 [Rows, InterScales],
    /// Their global scales, where tokens have some.
    injected_a2_token_scale: f32 as F32 [Rows],
    /// What the second GEMM stored [R, H].
    fc2_out: u16 as BF16 [Rows, Hidden],
    /// The result [T, H].
    output: u16 as BF16 [Tokens, Hidden],
}

impl Tensors {
    /// The dimensions that the shapes of operands of these formats tell; 0 for those they do not.
    ///
    /// # Errors
    /// [`MoeError::Shape`] where two tensors contradict each other.
    pub fn dims(&self, pair: FormatPair) -> Result<Dims, MoeError> {
        axes::deduce(self, pair)
    }

    /// Whether every tensor that is there has the shape that `dims` gives it.
    ///
    /// # Errors
    /// [`MoeError::Shape`] for the first that has not.
    pub fn check(&self, dims: &Dims, pair: FormatPair) -> Result<(), MoeError> {
        axes::check(self, dims, pair)
    }
}
