//! Plays a script as an agent: `scripted-agent SCRIPT.json`.

use std::path::PathBuf;
use std::process::ExitCode;

use acpx_testkit::player;

fn main() -> ExitCode {
    let script = std::env::args_os().nth(1).map(PathBuf::from);
    player::main(script.as_deref())
}
