//! Classes of kernels, defined by name patterns in a data file that cites its sources.

use std::collections::BTreeSet;
use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::error::BenchError;
use crate::header;

const TABLE: &str = include_str!("data/kernel_classes.yaml");

/// The class of kernels that match no pattern.
pub(super) const OTHER: &str = "other";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    classes: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    class: String,
    about: String,
    /// Whether the tile of the grouped GEMM affects its time.
    #[serde(default)]
    tiles_matter: bool,
    /// Whether it is part of the MoE layer.
    #[serde(default)]
    moe: bool,
    source: String,
    patterns: Vec<String>,
}

/// A class of kernels.
#[derive(Debug, Clone)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// A description of its kernels.
    pub about: String,
    /// Whether the tile of the grouped GEMM affects its time.
    pub tiles_matter: bool,
    /// Whether it is part of the MoE layer.
    pub moe: bool,
    /// The source of the names.
    pub source: String,
    patterns: Vec<Regex>,
}

/// All classes; the first with a matching pattern wins.
#[derive(Debug, Clone)]
pub struct Classes(Vec<Class>);

impl Classes {
    /// Parses the built-in file.
    ///
    /// # Errors
    /// [`BenchError`] if it is invalid, which a test rules out.
    pub fn built_in() -> Result<Self, BenchError> {
        Self::parse(Path::new("kernel_classes.yaml"), TABLE)
    }

    /// Parses a file of the same format.
    ///
    /// # Errors
    /// [`BenchError`] with the file and its mistake.
    pub fn load(path: &Path) -> Result<Self, BenchError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| BenchError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, BenchError> {
        let file: File = header::parse_file(path, text)?;
        let wrong = |message: String| BenchError::ClassList { path: path.to_owned(), message };
        let mut seen = BTreeSet::from([OTHER.to_owned()]);
        let mut classes = Vec::new();
        for entry in file.classes {
            if !seen.insert(entry.class.clone()) {
                return Err(wrong(format!(
                    "class `{}` is defined twice, or has the name of the remainder class",
                    entry.class
                )));
            }
            if entry.patterns.is_empty() {
                return Err(wrong(format!("class `{}` has no patterns", entry.class)));
            }
            let compile = |pattern: &String| {
                RegexBuilder::new(pattern).case_insensitive(true).build().map_err(|source| {
                    BenchError::Pattern { path: path.to_owned(), class: entry.class.clone(), source }
                })
            };
            classes.push(Class {
                patterns: entry.patterns.iter().map(compile).collect::<Result<_, _>>()?,
                name: entry.class.clone(),
                about: entry.about,
                tiles_matter: entry.tiles_matter,
                moe: entry.moe || entry.tiles_matter,
                source: entry.source,
            });
        }
        if !classes.iter().any(|c| c.tiles_matter) {
            return Err(wrong("no class has `tiles_matter: true`, so no decision is possible".to_owned()));
        }
        Ok(Self(classes))
    }

    /// Returns the class of a kernel; `None` if no pattern matches.
    #[must_use]
    pub fn class(&self, kernel: &str) -> Option<&Class> {
        self.0.iter().find(|class| class.patterns.iter().any(|p| p.is_match(kernel)))
    }

    /// Iterates over the classes in matching order.
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(kernel: &str) -> String {
        let classes = Classes::built_in().unwrap();
        classes.class(kernel).map_or(OTHER.to_owned(), |c| c.name.clone())
    }

    #[test]
    fn real_names_find_their_class() {
        for (kernel, class) in [
            (
                "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<long, long, long>>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm120ArrayTmaWarpSpecializedBlockScaled<2, 2>>>>(T1::Params)",
                "moe_gemm",
            ),
            ("fused_moe_kernel", "moe_gemm"),
            ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1", "moe_gemm"),
            ("void marlin_moe_wna16::Marlin<__nv_bfloat16, 256>", "moe_gemm"),
            (
                "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x512_s4_et128x16_m128x16x32_cga1x1x1_16dp256b_TN_swiGlu_sm100f",
                "moe_gemm",
            ),
            ("void mul_mat_vec_q<(ggml_type)39, 1, true, false>", "moe_gemv"),
            ("void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_bfloat16>", "moe_around"),
            ("void expandInputRowsKernel<__nv_bfloat16, __nv_fp8_e4m3>", "moe_around"),
            ("void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>", "moe_around"),
            ("void finalizeMoeRoutingKernel<__nv_bfloat16>", "moe_around"),
            ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<...>", "attention"),
            ("kernel_unified_attention_2d", "attention"),
            ("void gemvNSP_kernel<__nv_bfloat16, __nv_bfloat16, float>", "gemv"),
            ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "gemm"),
            ("void vllm::rms_norm_kernel<c10::BFloat16>", "norm"),
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
            ("some_user_kernel", OTHER),
        ] {
            assert_eq!(class_of(kernel), class, "{kernel}");
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let of = |text: &str| Classes::parse(Path::new("c.yaml"), text).unwrap_err().to_string();
        let entry = "{class: a, about: x, source: y, tiles_matter: true, patterns: ['a']}";
        assert!(of("classes:\n  - {class: a}\n").starts_with("c.yaml:2:"));
        assert!(of(&format!("classes: [{entry}, {entry}]")).contains("twice"));
        assert!(of("classes: [{class: a, about: x, source: y, patterns: ['(']}]").contains("class `a`"));
        assert!(of("classes: [{class: a, about: x, source: y, patterns: ['a']}]").contains("tiles_matter"));
        assert!(of("classes: [{class: other, about: x, source: y, patterns: ['a']}]").contains("remainder"));
    }
}
