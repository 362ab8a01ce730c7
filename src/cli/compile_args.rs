//! The options with which `.cu` files are compiled.

use std::path::PathBuf;

use clap::Args;

use crate::job::launch::Compile;

/// Options of the compiler.
#[derive(Debug, Args)]
pub(super) struct CompileArgs {
    /// Folder of headers of a .cu file (repeatable). Those of CUDA and CUTLASS are found on this machine, or fetched
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    includes: Vec<PathBuf>,
    /// Macro of a .cu file: NAME or NAME=VALUE (repeatable)
    #[arg(short = 'D', long = "define", value_name = "MACRO")]
    defines: Vec<String>,
    /// Standard of C++ of a .cu file: c++17, c++20 [default: c++17]
    #[arg(long = "std", value_name = "S")]
    standard: Option<String>,
}

impl CompileArgs {
    /// The options, with a target and a version of NVRTC.
    pub(super) fn compile(&self, target: Option<String>, toolkit: Option<String>) -> Compile {
        Compile {
            target,
            toolkit,
            includes: self.includes.clone(),
            defines: self.defines.clone(),
            standard: self.standard.clone(),
        }
    }
}
