//! The program. Everything is in the library crate, so that tests can call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    acpx::run()
}
