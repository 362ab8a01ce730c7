//! The kernels of the pipeline in a library: stages of headers, and the kernel of each for a case and a configuration.

use super::case::FormatPair;
use super::family::FAMILY;
use crate::kernel::{Atomics, ExpKind, Kernel, KernelError, Library, Load, MmaPath};

record::words! {
    /// A stage of headers, which one kernel implements.
    #[derive(PartialOrd, Ord)]
    KernelStage {
        /// Top-k and expert weights.
        Route "route",
        /// Sorts rows by expert.
        Permute "permute",
        /// Quantizes the hidden states to the activation format.
        Quantize "quantize",
        /// The GEMMs FC1 and FC2.
        Gemm "gemm",
        /// Applies SwiGLU and quantizes the result to the activation format.
        Activation "activation",
        /// Adds the rows of each token.
        Finalize "finalize",
    }
}

/// Selects one of several kernels of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// How e^x is computed, if the kernel computes it.
    pub exp: ExpKind,
    /// How the rows of a token are added.
    pub atomics: Atomics,
    /// The operand formats.
    pub pair: FormatPair,
}

impl Variant {
    /// e^x by FMA, and sums in slot order.
    pub const OURS: Self = Self { exp: ExpKind::Fma, atomics: Atomics::None, pair: FormatPair::Mxfp8Mxfp4 };

    fn is_of(self, kernel: &Kernel) -> bool {
        let exp = kernel.contract.exp == ExpKind::None || kernel.contract.exp == self.exp;
        exp && kernel.takes(self.pair)
            && (kernel.stage != KernelStage::Finalize.word() || kernel.contract.atomics == self.atomics)
    }
}

impl Library {
    /// Returns the kernel of a stage other than a GEMM. The user's kernels come first: the one that matches the variant, otherwise
    /// any that supports the formats. Then follow the built-in kernels that match the variant. A stage without variants has one
    /// kernel for all.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if there is none.
    pub fn of_stage(&self, stage: KernelStage, variant: Variant) -> Result<&Kernel, KernelError> {
        let of_stage = || self.kernels.iter().filter(|k| k.family == FAMILY && k.stage == stage.word());
        let own = || of_stage().filter(|k| k.own);
        let found = own().find(|k| variant.is_of(k)).or_else(|| own().find(|k| k.takes(variant.pair)));
        let found = found.or_else(|| of_stage().find(|k| variant.is_of(k)));
        found.ok_or_else(|| self.missing(format!("the stage {}", stage.word()), stage))
    }

    /// Returns the GEMM for a path, a load and these operand formats.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if there is none.
    pub fn gemm(&self, pair: FormatPair, path: MmaPath, load: Load) -> Result<&Kernel, KernelError> {
        let fits = |k: &&Kernel| {
            k.family == FAMILY && k.load == Some(load) && k.paths.contains(&path) && k.takes(pair)
        };
        self.kernels.iter().find(fits).ok_or_else(|| {
            let of =
                if pair == FormatPair::default() { String::new() } else { format!(" of {}", pair.word()) };
            let what = format!("the {} GEMM{of} that loads by {}", path.word(), load.word());
            self.missing(what, KernelStage::Gemm)
        })
    }

    fn missing(&self, what: String, stage: KernelStage) -> KernelError {
        let there: Vec<&str> = self
            .kernels
            .iter()
            .filter(|k| k.family == FAMILY && k.stage == stage.word())
            .map(|k| k.file.as_str())
            .collect();
        let there =
            if there.is_empty() { String::new() } else { format!(" (available: {})", there.join(" ")) };
        KernelError::Missing { what, there }
    }
}

impl Kernel {
    /// Returns the capabilities that it needs on `path` with operands of these formats.
    #[must_use]
    pub fn needs_on(&self, pair: FormatPair, path: MmaPath) -> Vec<&str> {
        let special = self.formats.get(pair.word());
        let (common, special): (&[String], &[String]) = match (special, path) {
            _ if pair == FormatPair::default() => {
                (&self.needs, self.needs_of.get(&path).map_or(&[][..], Vec::as_slice))
            }
            (Some(of), MmaPath::Native) => (&of.needs, &of.native),
            (Some(of), MmaPath::Portable) => (&of.needs, &of.portable),
            (Some(of), MmaPath::Gemv) => (&of.needs, &[]),
            // The stage has no operand in these formats.
            (None, _) => (&self.needs, &[]),
        };
        common.iter().chain(special).map(String::as_str).collect()
    }

    /// Whether it can be compiled for operands of these formats. Stages without such operands support all formats.
    #[must_use]
    pub fn takes(&self, pair: FormatPair) -> bool {
        let touches = [KernelStage::Quantize, KernelStage::Gemm, KernelStage::Activation]
            .iter()
            .any(|s| self.stage == s.word());
        !touches || pair == FormatPair::default() || self.formats.contains_key(pair.word())
    }
}

/// Checks what a header declares.
pub(super) fn check(kernel: &Kernel) -> Result<(), (&'static str, String)> {
    let Some(stage) = KernelStage::from_word(&kernel.stage) else {
        let known: Vec<&str> = KernelStage::ALL.iter().map(|stage| stage.word()).collect();
        return Err((
            "stage",
            format!("unknown stage `{}`; the stages are {}", kernel.stage, known.join(", ")),
        ));
    };
    if (stage == KernelStage::Gemm) != (kernel.load.is_some() && !kernel.paths.is_empty()) {
        let message = "`paths` and `load` are required for a GEMM and not allowed for other stages";
        return Err(("stage", message.to_owned()));
    }
    kernel.declares_no_quantization()?;
    match kernel.formats.keys().find(|word| FormatPair::from_word(word).is_none()) {
        Some(word) => {
            let known = FormatPair::listed();
            Err(("formats", format!("unknown format pair `{word}`; known are {known}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_held_to_its_stage() {
        let mut kernel = Library::embedded()
            .unwrap()
            .gemm(FormatPair::default(), MmaPath::Native, Load::Tma)
            .unwrap()
            .clone();
        assert_eq!(check(&kernel), Ok(()));
        kernel.load = None;
        assert!(check(&kernel).unwrap_err().1.contains("required for a GEMM"));
        kernel.stage = "gem".to_owned();
        assert_eq!(check(&kernel).unwrap_err().0, "stage");
    }

    #[test]
    fn every_kernel_of_the_binary_is_understood() {
        let library = Library::embedded().unwrap();
        for path in [MmaPath::Native, MmaPath::Portable] {
            for load in [Load::CpAsync, Load::Tma, Load::TmaReplace] {
                for pair in FormatPair::ALL {
                    library.gemm(*pair, path, load).unwrap();
                }
            }
        }
        library.gemm(FormatPair::default(), MmaPath::Gemv, Load::Direct).unwrap();
        for exp in [ExpKind::Fma, ExpKind::Ex2Approx] {
            for atomics in [Atomics::None, Atomics::F32] {
                for stage in [KernelStage::Route, KernelStage::Activation, KernelStage::Finalize] {
                    let of_stage =
                        library.of_stage(stage, Variant { exp, atomics, ..Variant::OURS }).unwrap();
                    assert_eq!(stage == KernelStage::Finalize, of_stage.contract.exp == ExpKind::None);
                }
            }
        }
        let names = ["tokens", "experts", "top_k", "rows", "hidden", "inter", "n", "k", "k_padded", "k_used"];
        let of_tiles =
            ["tile_m", "tile_n", "tile_k", "stages", "stage_bytes", "warps", "most_tiles", "choices"];
        let names = names.into_iter().chain(of_tiles).map(|name| (name, 64)).collect();
        for kernel in library.kernels.iter().filter(|k| k.family == FAMILY) {
            for text in kernel.grid.iter().chain([&kernel.block, &kernel.smem]) {
                crate::kernel::evaluate(text, &names).unwrap();
            }
        }
    }
}
