//! A launch of a kernel as its header describes it: sizes from expressions, arguments by name.

use emulator::device::{Argument, Device, Launch, Module};

use super::RunError;
use super::admission::LaunchSize;
use crate::kernel::{self, Kernel, Names};

/// Returns the launch of a loaded kernel. `names` has the values of its expressions, `argument` those of its arguments.
///
/// # Errors
/// [`RunError::Expression`] and [`RunError::Header`] if the header does not match the entry, or names something unknown.
pub fn prepared(
    device: &dyn Device,
    kernel: &Kernel,
    module: Module,
    names: &Names,
    argument: impl Fn(&str) -> Option<Argument>,
) -> Result<Launch, RunError> {
    let header = |message: String| RunError::Header { file: kernel.file.clone(), message };
    let small = |text: &str| value(kernel, text, names);
    let parameters = device
        .parameters(module, &kernel.entry)
        .ok_or_else(|| header(format!("the source has no entry `{}`", kernel.entry)))?;
    if parameters.len() != kernel.args.len() {
        return Err(header(format!(
            "`{}` has {} parameters, but the header's `args` has {}",
            kernel.entry,
            parameters.len(),
            kernel.args.len()
        )));
    }
    let mut arguments = Vec::new();
    for (name, (parameter, size)) in kernel.args.iter().zip(parameters) {
        let argument = argument(name).ok_or_else(|| {
            header(format!("this stage has no argument `{name}` (parameter `{parameter}`)"))
        })?;
        let given = match &argument {
            Argument::Value(bytes) => bytes.len(),
            Argument::Address(_) => 8,
            Argument::Map(_) => 128,
        };
        if given != size {
            return Err(header(format!(
                "argument `{name}` has {given} bytes, but parameter `{parameter}` has {size}"
            )));
        }
        arguments.push(argument);
    }
    Ok(Launch {
        module,
        entry: kernel.entry.clone(),
        grid: [small(&kernel.grid[0])?, small(&kernel.grid[1])?, small(&kernel.grid[2])?],
        block: [small(&kernel.block)?, 1, 1],
        shared_bytes: small(&kernel.smem)?,
        arguments,
        programmatic: false,
        cluster: [1, 1, 1],
        cooperative: false,
    })
}

/// Returns what a CTA of a kernel takes by its header, with the values of the header's expressions.
///
/// # Errors
/// [`RunError::Expression`] and [`RunError::Header`] if the header names something unknown, or a value exceeds 32 bits.
pub fn size(kernel: &Kernel, names: &Names) -> Result<LaunchSize, RunError> {
    let [threads, dynamic_shared] = [&kernel.block, &kernel.smem].map(|text| value(kernel, text, names));
    Ok(LaunchSize { threads: threads?, dynamic_shared: dynamic_shared? })
}

/// The value of an expression of a header.
fn value(kernel: &Kernel, text: &str, names: &Names) -> Result<u32, RunError> {
    let file = || kernel.file.clone();
    let value =
        kernel::evaluate(text, names).map_err(|source| RunError::Expression { file: file(), source })?;
    u32::try_from(value).map_err(|_| RunError::Header {
        file: file(),
        message: format!("`{text}` is {value}, which exceeds 32 bits"),
    })
}
