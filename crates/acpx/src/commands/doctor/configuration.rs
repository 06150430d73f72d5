//! Checks the configuration: invalid entries, unknown keys, and agents that cannot be named or started. Also lists the
//! available agents.

use std::env;

use acpx_core::tools::Environment;

use super::DoctorReport;
use crate::agents;
use crate::config::project::{ProjectFile, ProjectState};
use crate::config::{Config, ConfigError, ProgramSearch, find_program};
use crate::error::CliError;
use crate::output::Finding;
use crate::session::{lookup, settings};

/// Reports what is wrong with a configuration that could be read.
pub(super) fn look(config: &Config, report: &mut DoctorReport) -> Result<(), CliError> {
    let global = &config.layers.global;
    let words = if global.is_loaded { "read, and trusted" } else { "not there; the defaults hold" };
    report.say(&Finding::ok("config", format!("{}: {words}", global.file.display())))?;
    for (name, wrong) in config.wrong_agents() {
        let hint = format!("mend the entry; {name} cannot be started until then, and every other agent can");
        report.say(&Finding::fail("config", wrong.to_string(), Some(hint)))?;
    }
    for name in config.unreachable_agents() {
        report.say(&Finding::warn(
            "config",
            format!("the agent {name:?} has the name of a command, so it cannot be selected"),
            "give it another name",
        ))?;
    }
    unread(config, None, report)?;
    config.project.as_ref().map_or(Ok(()), |file| project(file, report))
}

/// Reports what is in force of the project's file.
fn project(file: &ProjectFile, report: &mut DoctorReport) -> Result<(), CliError> {
    let path = file.path.display();
    report.say(&match &file.state {
        ProjectState::InForce => Finding::ok("config", format!("{path}: read, and in force")),
        ProjectState::Refused(reason) => {
            let hint = "what it sets has no effect; put what you want into config.json of the home";
            Finding::warn("config", format!("{path} is not read: {reason}"), hint)
        }
        ProjectState::Withheld { keys, has_changed } => {
            let why = if *has_changed { "has changed since it was trusted" } else { "is not trusted" };
            let words = format!("{path} {why}; not in force: {}", keys.join(", "));
            Finding::warn("config", words, "acpx trust shows what it sets, and allows it")
        }
    })
}

/// Reports unknown keys, of one agent or of all.
pub(super) fn unread(
    config: &Config,
    agent: Option<&str>,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    match settings::unread_keys(config, agent) {
        None => Ok(()),
        Some(words) => report.say(&Finding::warn(
            "config",
            words,
            "see whether they are misspelt; what another version or npm acpx reads can stay",
        )),
    }
}

/// Lists the agents that can be started from here.
pub(super) fn agents(config: &Config, report: &mut DoctorReport) -> Result<(), CliError> {
    let cwd = env::current_dir().unwrap_or_default();
    let variables = config.variables();
    let own = config.agent_names();
    let mut names: Vec<String> = agents::built_in_names().map(str::to_owned).chain(own.clone()).collect();
    names.sort();
    names.dedup();
    let (mut here, mut by_runner, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let agent = match lookup::resolve(&name, config) {
            // Already reported.
            Err(CliError::Config(ConfigError::Wrong(_))) => continue,
            agent => agent?,
        };
        let environment: Environment = settings::own_environment(variables.get(&name)).into_iter().collect();
        let around = ProgramSearch { cwd: &cwd, path: environment.get("PATH") };
        let is_found = agent.url().is_some() || find_program(&agent.program, around).is_some();
        match (is_found, agent.program.as_str()) {
            (true, "npx" | "uvx") => by_runner.push(name),
            (true, _) => here.push(name),
            (false, program) if own.contains(&name) => report.say(&Finding::warn(
                "agents",
                format!("{name}, which the configuration has, is not there: its program is {program}"),
                "install it, or give its full path in config.json",
            ))?,
            (false, _) => missing.push(name),
        }
    }
    report.say(&Finding::ok("agents", format!("installed: {}", words(&here))))?;
    if !by_runner.is_empty() {
        report
            .say(&Finding::ok("agents", format!("downloaded when first started: {}", words(&by_runner))))?;
    }
    if !missing.is_empty() {
        report.say(&Finding::ok("agents", format!("not installed: {}", words(&missing))))?;
    }
    default_agent(config, &missing, report)
}

fn default_agent(config: &Config, missing: &[String], report: &mut DoctorReport) -> Result<(), CliError> {
    match settings::default_agent(config) {
        Err(error @ CliError::Agent(_)) => report.fail("agents", &error),
        Ok(agent) if agent.name.as_ref().is_some_and(|name| missing.contains(name)) => {
            report.say(&Finding::warn(
                "agents",
                format!("the default agent, {}, is not installed", agent.label()),
                "install it, or name another as defaultAgent in config.json",
            ))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn words(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
