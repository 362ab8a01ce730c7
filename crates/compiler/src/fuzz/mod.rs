//! Random kernels that are defined by PTX, and oracles that need no GPU: the emulator against itself, text against tree, ptxas against
//! the emulator.

mod coverage;
mod forms;
mod gadgets;
mod kernel;
mod matrices;
mod oracle;
mod random;
mod shrink;

use ptx::{Instruction, Item, Module, Statement};

pub use coverage::{Reached, row_of};
pub use kernel::{CTAS, ENTRY, Generator, GeneratorError, RandomKernel, THREADS};
pub use oracle::{
    Difference, Outputs, before, check, outputs, place, with_opaque_approximations, without_choice,
};
pub use shrink::shrink;

/// Calls `f` with every instruction of a module.
pub fn each_instruction<'a>(module: &'a Module, f: &mut impl FnMut(&'a Instruction)) {
    fn walk<'a>(body: &'a [Statement], f: &mut impl FnMut(&'a Instruction)) {
        for statement in body {
            match statement {
                Statement::Instruction(i) => f(i),
                Statement::Block(inner) => walk(inner, f),
                _ => {}
            }
        }
    }
    for item in &module.items {
        if let Item::Function(function) = item {
            function.body.iter().for_each(|body| walk(body, f));
        }
    }
}
