//! Parses PTX text into a syntax tree with spans, and prints it. Covers syntax, not meaning.
//!
#![doc = include_str!("../README.md")]

pub mod arch;
mod ast;
pub mod contraction;
mod error;
pub mod folding;
pub mod legacy;
mod lexer;
pub mod link;
mod meaning;
mod parser;
mod printer;
mod registers;
pub mod scan;

pub use ast::{
    Address, AddressBase, Directive, Function, Guard, Immediate, Init, Instruction, Item, Linkage, Module,
    Operand, Space, Span, Statement, Type, Variable,
};
pub use error::{LineColumn, SyntaxError, line_column, source_line};
pub use meaning::{same_meaning, without_spans};
pub use parser::parse;
