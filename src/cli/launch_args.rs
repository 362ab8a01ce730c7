//! The options that say how a kernel is launched, of `emulate`, `bisect` and `run`.

use std::path::{Path, PathBuf};

use clap::Args;
use miette::Diagnostic;

use super::compile_args::CompileArgs;
use super::error::{CliError, CommandError};
use super::exit;
use crate::job::Context;
use crate::job::launch::{self, CommandLine, Compile, Session};

/// How a kernel is launched.
#[derive(Debug, Args)]
pub(super) struct LaunchArgs {
    /// Name of the kernel: the linker's, the demangled one (`ns::kernel<float, 4>`, or its end), or a pattern with `*`; optional if
    /// there is only one
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// CTAs of the grid: X, X,Y or X,Y,Z; of a kernel of Triton, programs [default: 1]
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    grid: Option<[u32; 3]>,
    /// Threads of a CTA: X, X,Y or X,Y,Z [default: the kernel's .reqntid, or 32]
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    block: Option<[u32; 3]>,
    /// CTAs of a cluster: X, X,Y or X,Y,Z [default: the kernel's .reqnctapercluster, or none]
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    cluster: Option<[u32; 3]>,
    /// Keep all CTAs of the grid resident together, as a cooperative launch does
    #[arg(long)]
    cooperative: bool,
    /// Dynamic shared memory in bytes [default: 0; of a kernel of Triton, what it needs]
    #[arg(long, value_name = "BYTES")]
    smem: Option<u32>,
    /// An argument, in the kernel's order: `u32:7`, `f32:1.5`, `buf:x=zeros:f32[64,64]`, `buf:x=iota:u32[64]`, `buf:x=random:7:bf16[128]`,
    /// `buf:x=@in.safetensors#x`, `out:y=f32[64]`, `tmap:m=of:x,type:bf16,dims:64x8,strides:128,box:64x8,swizzle:128B`.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    args: Vec<String>,
    /// A buffer that is not itself an argument, for tensor maps: `x=random:7:bf16[8,64]`, `x=out:f32[64]`.
    #[arg(long = "buf", value_name = "NAME=CONTENT")]
    bufs: Vec<String>,
    #[command(flatten)]
    pub(super) compiler: CompileArgs,
}

/// What is launched.
pub(super) enum LaunchOf<'a> {
    /// Translation units, which are linked, or a launch file alone.
    Files(&'a [PathBuf]),
    /// A folder of Triton's cache.
    Triton(&'a Path),
}

impl LaunchArgs {
    /// The options of a launch that are given, by name.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("--entry", self.entry.is_some()),
            ("--grid", self.grid.is_some()),
            ("--block", self.block.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--cooperative", self.cooperative),
            ("--smem", self.smem.is_some()),
            ("--arg", !self.args.is_empty()),
            ("--buf", !self.bufs.is_empty()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(option, _)| option)
    }

    /// Reads the launches from a launch file, or from the arguments.
    pub(super) fn session(
        &self,
        what: &LaunchOf<'_>,
        compile: Compile,
        context: &Context<'_>,
    ) -> Result<Session, CliError> {
        let (file, units, triton) = match *what {
            LaunchOf::Triton(folder) => (folder.to_owned(), Vec::new(), true),
            LaunchOf::Files([]) => (PathBuf::new(), Vec::new(), false),
            LaunchOf::Files([file, units @ ..]) => (file.clone(), units.to_vec(), false),
        };
        if !triton && is_launch_file(&file) {
            let further = (!units.is_empty()).then_some("a further file");
            return match self.given().chain(further).chain(compile.given()).next() {
                Some(option) => Err(LaunchArgsError::InLaunchFile(option).into()),
                None => Ok(launch::from_file(&file, context)?),
            };
        }
        let call = CommandLine {
            file,
            units,
            triton,
            compile,
            entry: self.entry.clone(),
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            cooperative: self.cooperative,
            shared_bytes: self.smem,
            args: self.args.clone(),
            buffers: self.bufs.clone(),
        };
        Ok(launch::from_command_line(&call, context)?)
    }
}

/// Whether a file describes launches.
pub(super) fn is_launch_file(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

fn three(text: &str) -> Result<[u32; 3], String> {
    let mut out = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("one to three numbers, as in 4,2,1".to_owned());
    }
    for (slot, part) in out.iter_mut().zip(parts) {
        *slot = part.trim().parse().map_err(|_| format!("`{part}` is not a number"))?;
    }
    Ok(out)
}

/// What the arguments of a launch cannot mean.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum LaunchArgsError {
    #[error("{0} cannot be used with a launch file, which specifies it itself")]
    #[diagnostic(help("write it into the file; docs/emulator.md lists the fields"))]
    InLaunchFile(&'static str),
    #[error("{0} says how a file is launched, and no file is named")]
    #[diagnostic(help("name a .cu or .ptx file, or a launch file"))]
    NoFile(&'static str),
}

impl CommandError for LaunchArgsError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}
