//! The reader of the emulator's file tests.

#[path = "../../crates/emulator/tests/filetests/edit.rs"]
pub(crate) mod edit;
#[path = "../../crates/emulator/tests/filetests/header.rs"]
pub(crate) mod header;
#[path = "../../crates/emulator/tests/filetests/section.rs"]
pub(crate) mod section;
#[path = "../../crates/emulator/tests/filetests/values.rs"]
pub(crate) mod values;
#[path = "../../crates/emulator/tests/filetests/words.rs"]
pub(crate) mod words;
