//! Scans PTX lexically, for text that is newer than the parser, damaged, 50 MB long, or only partly PTX.
//!
//! Nothing is judged here: text that is not understood is kept, so that ptxas reports it.

mod cursor;
mod lines;
mod outline;
mod statement;

pub use cursor::Cursor;
pub use lines::CodeLines;
pub use outline::{Outline, outline, target};
pub use statement::{forms_on, instructions};
