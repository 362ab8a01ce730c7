//! The command; everything lives in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sm121probe::cli::main()
}
