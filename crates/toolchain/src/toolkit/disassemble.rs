//! Names the opcodes of machine instructions with nvdisasm.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ptx::arch::ToolkitVersion;

use super::process;
use crate::worker::Ended;

/// Bytes of one machine instruction (Volta and later).
const SLOT: usize = 16;

/// The opcode of an instruction that nvdisasm does not know.
pub const UNKNOWN_OPCODE: &str = "unknown";

/// The message of nvdisasm for an instruction it cannot read; the address is on another line or absent.
const ILLEGAL: &str = "Illegal instruction found";

/// Maximum number of failed runs per call. The first names most unreadable instructions; bisection finds the others.
const RUNS: u32 = 200;

/// A working nvdisasm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disassembler {
    /// Its version.
    pub version: ToolkitVersion,
    /// The file to run.
    pub path: PathBuf,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// Why there are no opcodes.
#[derive(Debug, thiserror::Error)]
pub enum DisassembleError {
    /// The code is not a whole number of instructions.
    #[error("{bytes} bytes of machine code are not a multiple of {SLOT}")]
    Ragged {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A file cannot be written or the program cannot be started.
    #[error("nvdisasm at {} cannot be run: {source}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// nvdisasm does not read a cubin.
    #[error("{}: nvdisasm at {} {how}: {said}", cubin.display(), path.display())]
    Listing {
        /// The program.
        path: PathBuf,
        /// The cubin.
        cubin: PathBuf,
        /// How it ended.
        how: String,
        /// Its error output.
        said: String,
    },
    /// nvdisasm failed as a whole.
    #[error("nvdisasm at {} {how} on code for sm_{arch_number}: {said}", path.display())]
    Failed {
        /// The program.
        path: PathBuf,
        /// The architecture of the code.
        arch_number: u16,
        /// How it ended.
        how: String,
        /// Its error output.
        said: String,
    },
}

impl Disassembler {
    /// Returns the opcode of each 16-byte instruction of `code`, without predicate and operands but with modifiers
    /// (`QMMA.SF.16832.F32.E4M3.E2M1.E8`). An instruction that nvdisasm cannot read is [`UNKNOWN_OPCODE`].
    ///
    /// # Errors
    /// [`DisassembleError`] when nvdisasm cannot be run or fails as a whole.
    pub fn opcodes_of_raw(
        &self,
        arch_number: u16,
        code: &[u8],
        scratch: &Path,
        limit: Duration,
    ) -> Result<Vec<String>, DisassembleError> {
        if !code.len().is_multiple_of(SLOT) {
            return Err(DisassembleError::Ragged { bytes: code.len() });
        }
        let slots: Vec<&[u8]> = code.chunks_exact(SLOT).collect();
        Run { tool: self, arch_number, scratch, limit }.name(&slots, &mut { RUNS })
    }

    /// Returns the listing of a cubin with its labels (`nvdisasm -c`).
    ///
    /// # Errors
    /// [`DisassembleError`] when nvdisasm cannot be run or does not read the file.
    pub fn listing(&self, cubin: &Path, limit: Duration) -> Result<String, DisassembleError> {
        let start = |source| DisassembleError::Start { path: self.path.clone(), source };
        let args = ["-c".as_ref(), cubin.as_os_str()];
        let output = process::run(&self.path, "nvdisasm", args, limit).map_err(start)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.ended == Ended::Exited(0) {
            return Ok(text(&output.stdout));
        }
        let how = process::words(output.ended, limit);
        let said = process::first_line(&text(&output.stderr)).to_owned();
        Err(DisassembleError::Listing { path: self.path.clone(), cubin: cubin.to_owned(), how, said })
    }
}

/// One call, split into ever smaller parts while nvdisasm finds unreadable instructions.
struct Run<'a> {
    tool: &'a Disassembler,
    arch_number: u16,
    scratch: &'a Path,
    limit: Duration,
}

impl Run<'_> {
    fn name(&self, slots: &[&[u8]], runs: &mut u32) -> Result<Vec<String>, DisassembleError> {
        if slots.is_empty() {
            return Ok(Vec::new());
        }
        let (ended, stdout, stderr) = self.start(&slots.concat())?;
        if ended == Ended::Exited(0) && stdout.trim().is_empty() {
            return Err(self.failed(ended, "it printed nothing"));
        }
        if ended == Ended::Exited(0) {
            // nvdisasm prints an empty line for some instructions, such as ldmatrix .s8.s4 with 13.5.
            let mut opcodes = vec![UNKNOWN_OPCODE.to_owned(); slots.len()];
            for (address, opcode) in stdout.lines().filter_map(opcode_of_line) {
                if let Some(slot) = opcodes.get_mut(address / SLOT) {
                    *slot = opcode;
                }
            }
            return Ok(opcodes);
        }
        let said = stderr;
        *runs = runs.saturating_sub(1);
        let bad = unreadable(&said, slots.len());
        if !said.contains(ILLEGAL) || *runs == 0 {
            return Err(self.failed(ended, &said));
        }
        if slots.len() == 1 {
            return Ok(vec![UNKNOWN_OPCODE.to_owned()]);
        }
        if bad.is_empty() {
            // It refuses some without an address, such as sixteen zero bytes.
            let (left, right) = slots.split_at(slots.len() / 2);
            let mut opcodes = self.name(left, runs)?;
            opcodes.extend(self.name(right, runs)?);
            return Ok(opcodes);
        }
        let good: Vec<&[u8]> =
            slots.iter().enumerate().filter(|(i, _)| !bad.contains(i)).map(|(_, s)| *s).collect();
        let mut named = self.name(&good, runs)?.into_iter();
        let one = |i| if bad.contains(&i) { None } else { named.next() };
        Ok((0..slots.len()).map(one).map(|name| name.unwrap_or_else(|| UNKNOWN_OPCODE.to_owned())).collect())
    }

    fn failed(&self, ended: Ended, said: &str) -> DisassembleError {
        DisassembleError::Failed {
            path: self.tool.path.clone(),
            arch_number: self.arch_number,
            how: process::words(ended, self.limit),
            said: process::first_line(said),
        }
    }

    fn start(&self, bytes: &[u8]) -> Result<(Ended, String, String), DisassembleError> {
        let start = |source| DisassembleError::Start { path: self.tool.path.clone(), source };
        // Several threads may share the folder.
        let mut file = tempfile::Builder::new()
            .prefix("code-")
            .suffix(".bin")
            .tempfile_in(self.scratch)
            .map_err(start)?;
        io::Write::write_all(&mut file, bytes).map_err(start)?;
        // The suffix `a` covers everything of its number; older architectures have no suffix.
        let arch = self.arch_number;
        let machine = if arch >= 90 { format!("SM{arch}a") } else { format!("SM{arch}") };
        let args = ["-b".as_ref(), machine.as_ref(), file.path().as_os_str()];
        let output = process::run(&self.tool.path, "nvdisasm", args, self.limit).map_err(start)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.ended, text(&output.stdout), text(&output.stderr)))
    }
}

/// Parses the address and `QMMA.SF` of `/*0010*/  @!UP0 QMMA.SF R0, R4, R8 ;`; `None` for other lines.
fn opcode_of_line(line: &str) -> Option<(usize, String)> {
    let (address, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut words = rest.split(|c: char| c.is_whitespace() || c == ';').filter(|word| !word.is_empty());
    let opcode = words.find(|word| !word.starts_with('@'))?;
    Some((usize::from_str_radix(address, 16).ok()?, opcode.to_owned()))
}

/// The slots named by "... at address 0x00000010" lines.
fn unreadable(text: &str, slots: usize) -> BTreeSet<usize> {
    let addresses =
        text.lines().filter_map(|line| line.split_once("at address 0x")).filter_map(|(_, rest)| {
            let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
            usize::from_str_radix(digits, 16).ok()
        });
    addresses.map(|address| address / SLOT).filter(|slot| *slot < slots).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_lose_predicate_and_operands() {
        for (line, want) in [
            ("        /*0000*/                   LDC R1, c[0x0][0x37c] ;", Some("LDC")),
            (
                "        /*0010*/              @!UP0 QMMA.SF.16832.F32.E4M3.E2M1.E8 R0, R4, R8, R0, R2, R3, URZ ;",
                Some("QMMA.SF.16832.F32.E4M3.E2M1.E8"),
            ),
            ("        /*0020*/               @P0  EXIT ;", Some("EXIT")),
            ("        /*ff060*/                  BRA 0x60;", Some("BRA")),
            ("        /*0070*/                   NOP;", Some("NOP")),
            (".L_x_1:", None),
            ("        /* 0x0000000000007918 */", None),
            ("\t.headerflags\t@\"EF_CUDA_SM121\"", None),
        ] {
            assert_eq!(opcode_of_line(line).map(|(_, opcode)| opcode).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn bad_slots_are_read_from_the_messages() {
        let text = "nvdisasm error   : Unrecognized operation for functional unit 'uC' at address 0x00000010\n\
                    nvdisasm error   : Illegal instruction found\n\
                    nvdisasm error   : Opclass 'x', undefined value 0xc7 for table 'T' at address 0x00000050\n\
                    nvdisasm error   : at address 0xffffffff";
        assert_eq!(unreadable(text, 8), BTreeSet::from([1, 5]));
    }
}
