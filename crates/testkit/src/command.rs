//! Where the scripted agent is and how it is started with a script.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Script, TempHome};

/// The command line that starts the scripted agent with this script. The script, and beside it what the agent
/// received, live in the home.
///
/// # Panics
/// If the program has not been built, or the home cannot be written.
pub fn scripted_agent_command(script: &Script, home: &TempHome) -> Vec<String> {
    let program = built_program("scripted-agent");
    let path = unused_path(home);
    let json = serde_json::to_vec_pretty(script).expect("a script is plain data");
    fs::write(&path, json).expect("the script can be written");
    let mut command = Vec::new();
    if script.ignores_terminate {
        // An ignored signal stays ignored across exec, so the shell can do this for a program without unsafe code.
        command.extend(["sh", "-c", r#"trap "" TERM; exec "$@""#, "sh"].map(String::from));
    }
    command.extend([text(&program), text(&path)]);
    command
}

/// The lines that agents started with this command have received, in order, over all starts.
///
/// # Panics
/// If the command is not one of [`scripted_agent_command`], or what was received cannot be read.
pub fn received_lines(command: &[String]) -> Vec<String> {
    lines(&beside(command, "received"))
}

/// The process ids of the children that agents started with this command have left behind.
///
/// # Panics
/// If the command is not one of [`scripted_agent_command`], or the list cannot be read.
pub fn children_of(command: &[String]) -> Vec<u32> {
    lines(&beside(command, "children")).iter().map(|line| line.parse().expect("a process id")).collect()
}

/// How often an agent has been started with this command.
///
/// # Panics
/// If the command is not one of [`scripted_agent_command`], or the count cannot be read.
pub fn starts_of(command: &[String]) -> usize {
    lines(&beside(command, "starts")).len()
}

fn beside(command: &[String], extension: &str) -> PathBuf {
    Path::new(command.last().expect("a command of the scripted agent")).with_extension(extension)
}

fn lines(path: &Path) -> Vec<String> {
    if !path.exists() {
        return Vec::new();
    }
    let text = fs::read_to_string(path).expect("a file of the scripted agent can be read");
    text.lines().map(String::from).collect()
}

fn unused_path(home: &TempHome) -> PathBuf {
    let file = tempfile::Builder::new().prefix("script-").suffix(".json").tempfile_in(home.path());
    let (_, path) = file.expect("the home can be written").keep().expect("a file in the home can be kept");
    path
}

/// A program of this workspace, as built with the profile of the running test.
///
/// # Panics
/// If it has not been built.
pub fn built_program(name: &str) -> PathBuf {
    let candidates: Vec<_> = program_directories().iter().map(|directory| directory.join(name)).collect();
    let found = candidates.iter().find(|program| program.exists()).cloned();
    assert!(found.is_some(), "none of {candidates:?} is there: run cargo build --workspace first");
    found.unwrap_or_default()
}

/// A test binary lies in `target/<profile>/deps` and the programs of the workspace one above; cargo tells
/// their places only to tests of their own package. A documentation test is built elsewhere, so it looks where
/// this crate was built from.
fn program_directories() -> Vec<PathBuf> {
    let test = std::env::current_exe().expect("a running program has a path");
    let beside = test.ancestors().nth(2).map(Path::to_owned);
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    beside.into_iter().chain([target.join(profile)]).collect()
}

fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are text").to_owned()
}
