//! Cache of agents' `initialize` results: clients learn an agent's capabilities without starting an agent that has run
//! before.
//!
//! The key is the command line, the state of its files (the program and the script it runs) and the requested protocol
//! version. Clients with and without a terminal have separate entries, because some agents offer a terminal login only
//! to the former. Every start of an agent refreshes its entry. No file shows which version `npx` and similar launchers
//! run, so an entry is valid only on the day it was stored.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::acp::login_methods;
use crate::model::{AgentAnswer, AgentBuild, AgentSpec, LoginMethodKind, ProtocolVersion, Timestamp};
use crate::store::{Store, StoreError};
use crate::tools::Environment;

use super::launch_spec::LaunchSpec;
use crate::engine::EngineContext;

/// Separates the files of an entry from the day it was stored on.
const DAY: &str = " on day ";
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// The cached result of an agent.
pub(crate) async fn remembered(
    shared: &EngineContext,
    launch: &LaunchSpec,
) -> Result<Option<String>, StoreError> {
    let Some(build) = build(shared, launch).await else { return Ok(None) };
    of_build(shared, &build).await
}

/// Appended to the command line of an entry for clients without a terminal. No argument of a program can contain NUL.
const WITHOUT_TERMINAL: &str = "\0without terminal";

/// The result that this build of an agent returned today; `None` if another build with the same command line returned
/// the last one.
async fn of_build(shared: &EngineContext, build: &AgentBuild) -> Result<Option<String>, StoreError> {
    let today = today(build, (shared.settings.clock)());
    let of_today = |last: &AgentAnswer| last.program == today;
    let last = shared.store.agent_answer(build.command.clone()).await?.filter(of_today);
    if let Some(last) = last {
        return Ok(Some(last.answer));
    }
    let Some((_, with_terminal)) = build.command.split_last().filter(|(last, _)| *last == WITHOUT_TERMINAL)
    else {
        return Ok(None);
    };
    let other = shared.store.agent_answer(with_terminal.to_vec()).await?.filter(of_today);
    // An agent that offers no terminal login returns the same result to all clients.
    let is_alike = |other: &AgentAnswer| {
        !login_methods(&other.answer)
            .iter()
            .any(|method| matches!(method.how, LoginMethodKind::Terminal { .. }))
    };
    Ok(other.filter(is_alike).map(|other| other.answer))
}

/// The last `initialize` results of an agent with this command line: for clients with a terminal, then for those
/// without.
pub async fn last_answers(store: &dyn Store, command: Vec<String>) -> Result<Vec<AgentAnswer>, StoreError> {
    let without_terminal = command.iter().cloned().chain([WITHOUT_TERMINAL.to_owned()]).collect();
    let first = store.agent_answer(command).await?;
    Ok(first.into_iter().chain(store.agent_answer(without_terminal).await?).collect())
}

/// The key of a build for an entry stored today.
fn today(build: &AgentBuild, now: Timestamp) -> String {
    format!("{}{DAY}{}", build.program, now.as_millis().div_euclid(DAY_MILLIS))
}

/// Whether this build of an agent returned the stored result, on any day.
pub fn has_answered(build: &AgentBuild, last: &AgentAnswer) -> bool {
    last.program.rsplit_once(DAY).is_some_and(|(program, _)| program == build.program)
}

/// Stores the `initialize` result of an agent that just started. A failure to store it only costs another start.
pub(crate) async fn remember(shared: &EngineContext, launch: &LaunchSpec, answer: &Arc<str>) {
    let Some(build) = build(shared, launch).await else { return };
    let known = of_build(shared, &build).await;
    if !matches!(known, Ok(Some(known)) if *known == **answer) {
        let program = today(&build, (shared.settings.clock)());
        drop(shared.store.store_agent_answer(AgentBuild { program, ..build }, answer.to_string()).await);
    }
}

/// The build that would be started; `None` if its program cannot be found.
async fn build(shared: &EngineContext, launch: &LaunchSpec) -> Option<AgentBuild> {
    let (agent, environment) = (launch.agent.clone(), launch.environment.clone());
    let cwd = launch.cwd.as_path().to_owned();
    let look = move || agent_build(&agent, &environment, &cwd);
    let mut build = shared.disk.ask(launch.cwd.as_path(), look).await.ok()??;
    if !launch.logged_in.has_terminal() {
        build.command.push(WITHOUT_TERMINAL.to_owned());
    }
    Some(build)
}

/// The build that would be started, to look up its cached result; `None` if its program cannot be found. Reads the
/// disk, which may be slow.
pub fn agent_build(agent: &AgentSpec, environment: &Environment, cwd: &Path) -> Option<AgentBuild> {
    let program = program(agent, environment, cwd)?;
    let files: Vec<String> = std::iter::once(program).chain(script(&agent.args, cwd)).collect();
    // An agent may offer more in one version than in the other.
    let asked = match agent.protocol {
        ProtocolVersion::V1 => "",
        ProtocolVersion::V2 => " v2",
    };
    Some(AgentBuild { command: agent.command(), program: format!("{}{asked}", files.join(" ")) })
}

/// The agent's program file, with its size and change time.
fn program(agent: &AgentSpec, environment: &Environment, cwd: &Path) -> Option<String> {
    if agent.program.contains('/') {
        return file(&cwd.join(&agent.program));
    }
    std::env::split_paths(environment.get("PATH")?)
        .find_map(|directory| file(&cwd.join(directory).join(&agent.program)))
}

/// The script that a program runs: the first argument that names a file. The argument after a `--name` is its value,
/// such as a log file, which changes with every start.
fn script(arguments: &[String], cwd: &Path) -> Option<String> {
    let takes_value = |option: &str| option.starts_with("--") && !option.contains('=');
    let before = std::iter::once("").chain(arguments.iter().map(String::as_str));
    let alone = arguments.iter().zip(before).filter(|(_, before)| !takes_value(before));
    alone.map(|(argument, _)| argument).find_map(|argument| file(&cwd.join(argument)))
}

/// A file's path, size and change time; `None` if it does not exist. Uses ctime: a reinstalled package restores the
/// mtimes of its contents, and may have the same size.
fn file(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let facts = path.metadata().ok().filter(Metadata::is_file)?;
    Some(format!("{} {} {}.{:09}", path.display(), facts.size(), facts.ctime(), facts.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineSettings, NewSession};
    use crate::model::{AbsolutePath, HostId};
    use crate::store::MemoryStore;

    #[tokio::test]
    async fn initialize_results_are_cached_per_terminal_capability() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::new(Arc::clone(&store), HostId::new("h").unwrap(), EngineSettings::default());
        let agent = AgentSpec::new("/bin/sh", Vec::<String>::new());
        let cwd = AbsolutePath::new("/").unwrap();
        let new = || NewSession::new(agent.clone(), cwd.clone(), Environment::default());
        let (shell, editor) = (LaunchSpec::alone(new()), LaunchSpec::alone(new()));
        editor.logged_in.without_terminal();
        let shared = &engine.0.shared;
        let in_terminal = r#"{"authMethods":[{"id":"t","name":"T","type":"terminal"}]}"#;
        remember(shared, &shell, &in_terminal.into()).await;
        assert_eq!(remembered(shared, &editor).await.unwrap(), None);
        remember(shared, &editor, &"{}".into()).await;
        assert_eq!(remembered(shared, &shell).await.unwrap().as_deref(), Some(in_terminal));
        assert_eq!(remembered(shared, &editor).await.unwrap().as_deref(), Some("{}"));
        let build = agent_build(&agent, &Environment::default(), cwd.as_path()).unwrap();
        let last = last_answers(&*store, agent.command()).await.unwrap();
        let answers: Vec<_> = last.iter().map(|last| (&*last.answer, has_answered(&build, last))).collect();
        assert_eq!(answers, [(in_terminal, true), ("{}", true)]);
    }

    #[tokio::test]
    async fn initialize_result_without_terminal_login_is_shared_by_all_clients() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::new(store, HostId::new("h").unwrap(), EngineSettings::default());
        let agent = AgentSpec::new("/bin/sh", Vec::<String>::new());
        let new = NewSession::new(agent, AbsolutePath::new("/").unwrap(), Environment::default());
        let (shell, editor) = (LaunchSpec::alone(new.clone()), LaunchSpec::alone(new));
        remember(&engine.0.shared, &shell, &"{}".into()).await;
        editor.logged_in.without_terminal();
        assert_eq!(remembered(&engine.0.shared, &editor).await.unwrap().as_deref(), Some("{}"));
    }

    #[test]
    fn agent_build_contains_its_script_but_not_its_output_files() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().canonicalize().unwrap();
        for (arguments, is_part) in [
            (&["agent"][..], true),
            (&["-u", "agent"], true),
            (&["run", "--heap=1", "agent"], true),
            (&["--log", "agent"], false),
            (&["script", "agent"], false),
        ] {
            std::fs::write(cwd.join("script"), "").unwrap();
            std::fs::write(cwd.join("agent"), "1").unwrap();
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let before = script(&arguments, &cwd);
            std::fs::write(cwd.join("agent"), "longer").unwrap();
            assert_eq!(script(&arguments, &cwd) != before, is_part, "{arguments:?}");
        }
    }
}
