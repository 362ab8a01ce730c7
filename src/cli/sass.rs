//! `lint --sass`: looks for known miscompiles in machine code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use compiler::machine::{Place, functions, structures};
use miette::Diagnostic;

use super::error::{CliError, CommandError};
use super::exit;
use super::output;
use crate::report;
use crate::store::Store;
use crate::toolkit::{self, DisassembleError, Disassembler, Places};

/// The structures of one cubin.
pub(super) struct Looked {
    /// How many functions it has.
    pub(super) functions: usize,
    /// What was found.
    pub(super) places: Vec<Place>,
}

/// Looks at cubins.
pub(super) fn sass(
    files: &[PathBuf],
    limit: Duration,
    args: &super::args::OutputArgs,
) -> Result<(), CliError> {
    if files.is_empty() {
        return Err(SassError::NoFile.into());
    }
    let disassembler = disassembler()?;
    let (mut out, mut found, mut count) = (String::new(), 0, 0);
    for file in files {
        let looked = look(&disassembler, file, limit)?;
        count += looked.functions;
        found += looked.places.len();
        for place in looked.places {
            out.push_str(&report::structure(&file.display().to_string(), &place));
        }
    }
    let _ = writeln!(out, "{count} functions in {} files; known miscompiles: {found}", files.len());
    output::write(&out, args)?;
    if found > 0 { Err(SassError::Found(found).into()) } else { Ok(()) }
}

/// Reads a cubin with nvdisasm.
pub(super) fn look(disassembler: &Disassembler, file: &Path, limit: Duration) -> Result<Looked, SassError> {
    let listing = disassembler.listing(file, limit)?;
    let functions = functions(&listing);
    if functions.is_empty() {
        return Err(SassError::NoCode(file.display().to_string()));
    }
    if let Some(unread) = functions.iter().find(|function| function.code.is_empty()) {
        return Err(SassError::Unread(file.display().to_string(), unread.name.clone()));
    }
    Ok(Looked { functions: functions.len(), places: structures(&listing) })
}

/// The nvdisasm of this machine.
pub(super) fn disassembler() -> Result<Disassembler, SassError> {
    let store = Store::open(None).ok();
    let places = Places::from_environment(store.as_ref().map(Store::root));
    toolkit::discover(store.as_ref(), &places).disassembler.ok_or(SassError::NoDisassembler)
}

/// Why `lint --sass` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum SassError {
    #[error("no file: name the cubins to look at")]
    NoFile,
    #[error("this machine has no nvdisasm")]
    #[diagnostic(help("`sm121probe toolkit install latest` fetches one"))]
    NoDisassembler,
    #[error(transparent)]
    #[diagnostic(help("it must be a cubin; `sm121probe audit` lists those in a library"))]
    Disassemble(#[from] DisassembleError),
    #[error("{0}: it has no functions: only cubins with machine code can be looked at")]
    NoCode(String),
    #[error("{0}: no instruction of `{1}` could be read, so nothing was checked in it")]
    #[diagnostic(help("update nvdisasm: `sm121probe toolkit install latest`"))]
    Unread(String, String),
    #[error("known miscompiles in machine code: {0}")]
    #[diagnostic(help("`sm121probe explain NAME` says how to write the PTX instead"))]
    Found(usize),
}

impl CommandError for SassError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoFile | Self::Unread(..) => exit::INCOMPLETE,
            Self::NoDisassembler => exit::TOOLKIT_MISSING,
            Self::Disassemble(_) | Self::NoCode(_) => exit::USAGE,
            Self::Found(_) => exit::DOES_NOT_CONFORM,
        }
    }
}
