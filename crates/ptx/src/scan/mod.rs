//! PTX as far as its lexical grammar goes: for text that is newer than the parser, damaged, 50 MB long, or only partly PTX.
//!
//! Nothing here judges: text that is not understood stays as it is, for ptxas to speak about.

mod cursor;
mod lines;
mod outline;
mod statement;

pub use cursor::Cursor;
pub use lines::CodeLines;
pub use outline::{Outline, outline, target};
pub use statement::{forms_on, instructions};
