//! Locates the scripted agent and builds its command line.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Script, TempHome};

/// Writes the script into the home and returns the command that plays it. Files with what the agent received are
/// written next to the script.
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

/// Lines received by all agents started with this command, in order.
///
/// # Panics
/// If the command is not one of [`scripted_agent_command`], or what was received cannot be read.
pub fn received_lines(command: &[String]) -> Vec<String> {
    lines(&beside(command, "received"))
}

/// Process ids of the children that agents started with this command left behind.
///
/// # Panics
/// If the command is not one of [`scripted_agent_command`], or the list cannot be read.
pub fn children_of(command: &[String]) -> Vec<u32> {
    lines(&beside(command, "children")).iter().map(|line| line.parse().expect("a process id")).collect()
}

/// How often an agent was started with this command.
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

/// A test binary is in `target/<profile>/deps`, and the workspace's programs are one level above; cargo sets variables
/// with their paths only for tests of the same package. A documentation test runs from another directory, so the target
/// directory of this crate is searched too.
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
