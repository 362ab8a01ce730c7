//! The `sm121probe` command, a wrapper of `sm121probe::cli::main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sm121probe::cli::main()
}
