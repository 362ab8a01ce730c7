//! Compares what a kernel's name promises with what its opcodes show, by the tables of `opcodes.yaml`.

use std::path::Path;
use std::sync::OnceLock;

use devcode::CodeKind;
use serde::Deserialize;

use super::body::Body;
use super::pattern::Pattern;
use crate::header::{self, HeaderError};
use crate::record::{AuditVerdict, Shown, readable_kernel};

const TABLE: &str = include_str!("opcodes.yaml");

/// The most opcodes listed for one kernel.
const LISTED: usize = 12;

/// A matrix product with less machine code than this, in bytes, is an empty shell; an empty kernel has 128 or 256.
const SHELL_BYTES: u64 = 384;

/// The reason given for a kernel without the body that its name promises.
const COMPILED_OUT: &str = "it was compiled out for this target";

/// A matrix product with fewer instructions than this is an empty shell: a loop with one matrix instruction has more.
const SHELL_INSTRUCTIONS: u32 = 48;

/// The tables of `opcodes.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Classes {
    block_scaled: Vec<String>,
    matrix: Vec<String>,
    shown: Vec<String>,
    traps: Vec<String>,
    calls: Vec<String>,
    promises: Pattern,
    moves: Pattern,
    widens: Pattern,
    products: Pattern,
    architectures: Pattern,
}

/// The judgement of a kernel's machine code.
pub(super) struct Judged {
    /// The relevant opcodes with their counts: `QMMA.SF 64, LDSM.U4x16P64TO8 16`.
    pub(super) list: String,
    /// Whether they deliver what the name promises.
    pub(super) shown: Shown,
    /// The verdict that replaces the one of its target, with the reason; `None` if the kernel simply runs.
    pub(super) instead: Option<(AuditVerdict, String)>,
}

/// A kernel without a result.
pub(super) struct Stub {
    /// [`Shown::None`] if its name promises one.
    pub(super) shown: Shown,
    pub(super) reason: String,
}

/// Returns the built-in tables; `None` if they are invalid, which a test rules out.
pub(super) fn classes() -> Option<&'static Classes> {
    static ALL: OnceLock<Option<Classes>> = OnceLock::new();
    ALL.get_or_init(|| parse().ok()).as_ref()
}

fn parse() -> Result<Classes, HeaderError> {
    header::parse_file(Path::new("src/audit/opcodes.yaml"), TABLE)
}

impl Classes {
    /// Whether a kernel of this name promises block-scaled or FP4 arithmetic, so that its opcodes matter.
    pub(super) fn promises(&self, name: &str) -> bool {
        self.promises.is_match(name)
    }

    /// Whether a kernel of this name is a matrix product. Kernels whose own name says that they move data are not, even if
    /// a template argument is named after a product.
    fn product(&self, name: &str) -> bool {
        self.products.is_match(name) && !self.moves.is_match(&readable_kernel(name))
    }

    /// Judges a kernel by the size of its machine code, without a disassembler; `Some` if it is an empty shell.
    pub(super) fn shell(&self, name: &str, bytes: u64) -> Option<(AuditVerdict, String)> {
        (bytes < SHELL_BYTES && self.product(name)).then(|| {
            let said =
                format!("named as a matrix product, with {bytes} bytes of machine code: {COMPILED_OUT}");
            (AuditVerdict::Stub, said)
        })
    }

    /// Judges a kernel by what its machine code does; `Some` if it is a stub.
    pub(super) fn body(&self, name: &str, body: Body) -> Option<Stub> {
        let named = if self.product(name) {
            Some("named as a matrix product")
        } else if self.promises(name) {
            Some("named for block-scaled or FP4 arithmetic")
        } else {
            None
        };
        let shown = if named.is_some() { Shown::None } else { Shown::Unknown };
        let reason = match (body, named) {
            (Body::Works, _) | (Body::Empty, None) => return None,
            (Body::Empty, Some(named)) => format!("{named}, and its body is empty: {COMPILED_OUT}"),
            (Body::Only(ends), Some(named)) => {
                format!("{named}, and its body {}: {COMPILED_OUT}", ends.words())
            }
            (Body::Only(ends), None) => format!("its body {}: no result leaves it", ends.words()),
        };
        Some(Stub { shown, reason })
    }

    /// Returns the architecture in the name of an empty kernel, unless the name includes one of the device's family. Such
    /// a kernel is empty on purpose.
    pub(super) fn meant_for(&self, name: &str, device: u16) -> Option<u16> {
        let named =
            self.architectures.captures_iter(name).filter_map(|c| c.get(1)?.as_str().parse::<u16>().ok());
        let named: Vec<u16> = named.filter(|n| (50..200).contains(n)).collect();
        if named.iter().any(|n| n / 10 == device / 10) { None } else { named.first().copied() }
    }

    /// Judges a kernel by its opcodes, or by its PTX instructions.
    pub(super) fn judge(&self, name: &str, kind: CodeKind, opcodes: &[(String, u32)]) -> Judged {
        let count = |classes: &[String]| -> u32 {
            opcodes.iter().filter(|(o, _)| classes.iter().any(|c| starts(o, c))).map(|(_, n)| n).sum()
        };
        let (scaled, matrix) = (count(&self.block_scaled), count(&self.matrix));
        let plain = matrix.saturating_sub(self.scaled_among(opcodes));
        let list = self.list(opcodes);
        if !self.promises(name) {
            return Judged { list, shown: Shown::Unknown, instead: None };
        }
        let shown = match (scaled, plain) {
            (1.., _) => Shown::Native,
            (0, 1..) => Shown::Emulated,
            (0, 0) => Shown::None,
        };
        let total: u32 = opcodes.iter().map(|(_, n)| n).sum();
        let instead = match shown {
            Shown::Emulated if self.widens.is_match(name) => Some((
                AuditVerdict::Fallback,
                format!(
                    "it widens its narrow weights and multiplies with {}, by design: not the FP4 hardware",
                    self.matrix_names(opcodes)
                ),
            )),
            Shown::Emulated => Some((
                AuditVerdict::Fallback,
                format!(
                    "its name promises block-scaled or FP4 arithmetic, and its {} multiplies with {}: no {}",
                    if kind == CodeKind::Ptx { "PTX" } else { "machine code" },
                    self.matrix_names(opcodes),
                    if kind == CodeKind::Ptx {
                        "`.block_scale`".to_owned()
                    } else {
                        self.block_scaled[..2].join(", no ")
                    }
                ),
            )),
            Shown::None
                if self.product(name)
                    && (count(&self.traps) > 0
                        || (total < SHELL_INSTRUCTIONS && count(&self.calls) == 0)) =>
            {
                Some((
                    AuditVerdict::Stub,
                    format!(
                        "named as a matrix product, with {total} instructions, {} and no matrix instruction: {COMPILED_OUT}",
                        counted(count(&self.traps))
                    ),
                ))
            }
            _ => None,
        };
        Judged { list, shown, instead }
    }

    fn scaled_among(&self, opcodes: &[(String, u32)]) -> u32 {
        let both = |o: &str| {
            self.block_scaled.iter().any(|c| starts(o, c)) && self.matrix.iter().any(|c| starts(o, c))
        };
        opcodes.iter().filter(|(o, _)| both(o)).map(|(_, n)| n).sum()
    }

    /// Lists the matrix instructions without counts, so that kernels with different counts share a reason.
    fn matrix_names(&self, opcodes: &[(String, u32)]) -> String {
        let of = grouped(opcodes, &self.matrix);
        of.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn list(&self, opcodes: &[(String, u32)]) -> String {
        let mut of = grouped(opcodes, &self.block_scaled);
        let rest: Vec<(String, u32)> = opcodes
            .iter()
            .filter(|(o, _)| !self.block_scaled.iter().any(|c| starts(o, c)))
            .cloned()
            .collect();
        of.extend(grouped(&rest, &self.matrix));
        of.extend(grouped(&rest, &self.shown));
        of.truncate(LISTED);
        listed(&of)
    }
}

/// `no trap`, `1 trap`, `14 traps`.
fn counted(traps: u32) -> String {
    match traps {
        0 => "no trap".to_owned(),
        1 => "1 trap".to_owned(),
        n => format!("{n} traps"),
    }
}

/// Sums opcodes by the class that they start with, in the order of the classes.
fn grouped(opcodes: &[(String, u32)], classes: &[String]) -> Vec<(String, u32)> {
    let mut left: Vec<&(String, u32)> = opcodes.iter().collect();
    let mut out = Vec::new();
    for class in classes {
        let (mine, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|(o, _)| starts(o, class));
        left = others;
        let n: u32 = mine.iter().map(|(_, n)| n).sum();
        if n > 0 {
            out.push((class.clone(), n));
        }
    }
    out
}

fn listed(opcodes: &[(String, u32)]) -> String {
    opcodes.iter().map(|(o, n)| format!("{o} {n}")).collect::<Vec<_>>().join(", ")
}

/// Whether an opcode starts with a class, compared by whole `.`-separated parts.
fn starts(opcode: &str, class: &str) -> bool {
    opcode.strip_prefix(class).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(name: &str, opcodes: &[(&str, u32)]) -> (Shown, Option<AuditVerdict>, String) {
        let opcodes: Vec<(String, u32)> = opcodes.iter().map(|(o, n)| ((*o).to_owned(), *n)).collect();
        let judged = parse().unwrap().judge(name, CodeKind::Cubin, &opcodes);
        (judged.shown, judged.instead.map(|(v, _)| v), judged.list)
    }

    #[test]
    fn the_hardware_instruction_beside_others_is_native() {
        let got = judge(
            "moe_gemm_mxfp4",
            &[("HMMA.16816.F32", 4), ("QMMA.SF.16832.F32.E4M3.E2M1.E8", 64), ("LDSM.U4x16P64TO8.4", 8)],
        );
        assert_eq!(got, (Shown::Native, None, "QMMA.SF 64, HMMA 4, LDSM.U4x16P64TO8 8".to_owned()));
        assert_eq!(judge("gemm_nvfp4", &[("OMMA.SF.16864.F32.E2M1.E2M1.E8", 2)]).0, Shown::Native);
    }

    #[test]
    fn other_matrix_instructions_are_a_fall_back() {
        let got = judge("moe_gemm_mxfp4", &[("HMMA.16816.F32", 16), ("EXIT", 1)]);
        assert_eq!((got.0, got.1), (Shown::Emulated, Some(AuditVerdict::Fallback)));
        // QMMA without `.SF` multiplies FP8 without block scales.
        assert_eq!(judge("gemm_mxfp8", &[("QMMA.16832.F32.E4M3.E4M3", 4)]).1, Some(AuditVerdict::Fallback));
        assert_eq!(judge("marlin_mxfp4", &[("HMMA.16816.F32", 16)]).1, Some(AuditVerdict::Fallback));
    }

    #[test]
    fn what_moves_data_is_no_fall_back_and_what_is_empty_is_a_shell() {
        assert_eq!(judge("cvt_fp16_to_fp4", &[("F2FP", 16), ("STG", 1)]).1, None);
        assert_eq!(judge("gemm_mxfp4", &[("BPT.TRAP", 1), ("EXIT", 1)]).1, Some(AuditVerdict::Stub));
        assert_eq!(judge("gemm_mxfp4", &[("EXIT", 1)]).1, Some(AuditVerdict::Stub));
        // vLLM 0.33.0: a matrix product for tcgen05, compiled for sm_120f.
        let traps = [("BPT.TRAP", 14), ("UTMALDG.2D", 10), ("IADD3", 4000), ("CALL.REL.NOINC", 2)];
        assert_eq!(judge("cutlass_gemm_float_e2m1_t", &traps).1, Some(AuditVerdict::Stub));
        // A called function may contain the matrix instructions.
        assert_eq!(judge("gemm_mxfp4", &[("CALL.ABS.NOINC", 1), ("EXIT", 1)]).1, None);
        assert_eq!(
            judge("plain_gemm", &[("HMMA.16816.F32", 4)]),
            (Shown::Unknown, None, "HMMA 4".to_owned())
        );
    }

    #[test]
    fn a_product_of_a_few_instructions_is_a_shell_without_a_disassembler() {
        let classes = parse().unwrap();
        let shell = |name: &str, bytes| classes.shell(name, bytes).is_some();
        assert!(
            shell("_ZN7cutlass13device_kernelI4GemmEEv", 128)
                && !shell("_ZN7cutlass13device_kernelI4GemmEEv", 4096)
        );
        assert!(!shell("set_bool", 128) && !shell("quantize_for_gemm", 256));
    }
}
