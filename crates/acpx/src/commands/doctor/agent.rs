//! Checks an agent: where its program is, whether it starts, what it can do, whether it needs a login, and whether it
//! ends on request. It is started in a temporary directory.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::Capabilities;
use acpx_core::engine::{NewSession, ProbeReport, SessionError, SessionTrial};
use acpx_core::model::{
    AbsolutePath, AgentError, AgentProfile, ErrorMeaning, LoadWait, McpServer, McpTransport, ProtocolVersion,
};
use acpx_core::store::MemoryStore;
use acpx_core::tools::TerminationOutcome;

use super::{DoctorReport, session_with_timeout};
use crate::config::{ConfigError, McpFile, ProgramSearch, find_program};
use crate::error::{CliError, cli_hint, login_hint};
use crate::output::Finding;
use crate::session::interrupt::InterruptWatcher;
use crate::session::own_engine::own_engine;
use crate::session::settings::CommandSettings;

/// The signal that no process can ignore.
const KILL: i32 = 9;

/// Checks the agent; returns what it reported, if it could be started.
pub(super) async fn look(
    settings: &CommandSettings,
    servers: &McpFile,
    report: &mut DoctorReport,
) -> Result<Option<ProbeReport>, CliError> {
    if !program(settings, report)? {
        return Ok(None);
    }
    report.progress(&format!("starting the agent {}", settings.agent.label()));
    let seen = match examine(settings, servers).await? {
        Ok(seen) => seen,
        Err(CliError::Session(SessionError::Agent(error)))
            if error.meaning() == ErrorMeaning::LoginNeeded =>
        {
            login_missing(settings, &error, report)?;
            return Ok(None);
        }
        Err(error) => {
            report.fail("start", &error.without_record())?;
            return Ok(None);
        }
    };
    start(&seen, report)?;
    report.say(&Finding::ok("can", abilities(&seen.capabilities, &seen.trial)))?;
    report.say(&Finding::ok("known as", behaviour(seen.known_as.as_deref(), &seen.profile)))?;
    login(settings, &seen, report)?;
    end(&seen, report)?;
    for name in servers.names() {
        server(settings, &seen, servers, name, report)?;
    }
    Ok(Some(seen))
}

fn program(settings: &CommandSettings, report: &mut DoctorReport) -> Result<bool, CliError> {
    let agent = &settings.agent;
    if let Some(url) = agent.url() {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        // Do not print the user name.
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        report.say(&Finding::ok("program", format!("on another machine, {host}")))?;
        return Ok(true);
    }
    let environment = settings.environment();
    let around = ProgramSearch { cwd: settings.cwd.as_path(), path: environment.get("PATH") };
    let found = find_program(&agent.program, around);
    if let Some(found) = &found {
        report.say(&Finding::ok("program", found.to_string()))?;
    } else {
        let program = agent.program.clone();
        let is_there = program.contains('/') && settings.cwd.as_path().join(&program).exists();
        let error =
            if is_there { AgentError::NotExecutable { program } } else { AgentError::NotFound { program } };
        let hint = error.hint().map(str::to_owned);
        report.say(&Finding::fail("program", error.to_string(), hint))?;
    }
    Ok(found.is_some())
}

/// Starts the agent and checks what it does; the inner result is why it could not be started.
async fn examine(
    settings: &CommandSettings,
    servers: &McpFile,
) -> Result<Result<ProbeReport, CliError>, CliError> {
    let scratch = tempfile::tempdir()
        .map_err(|source| CliError::System { doing: "make a directory for the agent".to_owned(), source })?;
    let cwd = AbsolutePath::from_path(scratch.path())?;
    let engine = own_engine("doctor", settings, Arc::new(MemoryStore::new())).await?;
    // Servers that cannot be used are reported separately.
    let list = servers.names().filter_map(|name| had(settings, servers, name)?.ok()).flatten();
    let mcp_servers = list.collect::<Vec<_>>().into();
    let with = NewSession { cwd, mcp_servers, ..session_with_timeout(settings) };
    let mut interrupts = InterruptWatcher::new(None)?;
    let seen = interrupts.during(Box::pin(engine.probe(with))).await?;
    Ok(seen.map_err(CliError::from))
}

fn start(seen: &ProbeReport, report: &mut DoctorReport) -> Result<(), CliError> {
    let name = seen.info.name.as_deref().unwrap_or("it does not say who it is");
    let version = seen.info.version.as_deref().map_or_else(String::new, |version| format!(" {version}"));
    let protocol = match seen.protocol {
        ProtocolVersion::V1 => "version 1",
        ProtocolVersion::V2 => "version 2",
    };
    let words = format!("{name}{version}, {protocol} of the protocol, after {}", millis(seen.started_in));
    report.say(&Finding::ok("start", words))
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// What an agent can do, in words.
fn abilities(can: &Capabilities, trial: &SessionTrial) -> String {
    let sessions = can.sessions;
    let modes = matches!(trial, SessionTrial::Made { modes: true, .. });
    let all = [
        (sessions.load || sessions.replay, "load"),
        (sessions.resume, "resume"),
        (sessions.close, "close"),
        (sessions.list, "list"),
        (sessions.delete, "delete"),
        (can.fork, "fork"),
        (modes, "modes or options"),
        (can.additional_directories, "additional directories"),
        (can.prompt.image, "images"),
        (can.prompt.audio, "audio"),
        (can.prompt.embedded_context, "embedded files"),
        (can.mcp_stdio, "MCP by stdio"),
        (can.mcp_http, "MCP by http"),
        (can.mcp_sse, "MCP by sse"),
        (can.logout, "logout"),
    ];
    let of = |wanted: bool| {
        let words: Vec<&str> = all.iter().filter(|(can, _)| *can == wanted).map(|(_, word)| *word).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    };
    format!("{}; not: {}", of(true), of(false))
}

/// How an agent behaves where agents differ, in words.
fn behaviour(known_as: Option<&str>, profile: &AgentProfile) -> String {
    let habits = profile.restore_profile();
    let notes = [
        (habits.needs_prompt_before_load, "a session without a prompt is not written down"),
        (habits.wait_before_load == LoadWait::NextMinute, "a session is not loaded in the minute it began"),
        (habits.replays_on_resume, "replays on resume"),
        (profile.ignores_stdin_end == Some(true), "ignores the end of stdin"),
        (profile.ignores_terminate == Some(true), "ignores SIGTERM"),
    ];
    let notes: Vec<&str> = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect();
    let name = known_as.unwrap_or("no agent that is known here");
    if notes.is_empty() { name.to_owned() } else { format!("{name}: {}", notes.join("; ")) }
}

fn login(settings: &CommandSettings, seen: &ProbeReport, report: &mut DoctorReport) -> Result<(), CliError> {
    let error = match &seen.trial {
        SessionTrial::Made { within, .. } => {
            let words = format!(
                "session/new works, after {}; a login may still be wanted by the first prompt",
                millis(*within)
            );
            return report.say(&Finding::ok("session", words));
        }
        SessionTrial::Refused(error) => error,
    };
    if error.meaning() != ErrorMeaning::LoginNeeded {
        let hint = error.code().hint_without_record().map(str::to_owned);
        let hint = hint.or_else(|| cli_hint(&error.code(), error.hint()));
        return report.say(&Finding::fail("session", error.to_string(), hint));
    }
    login_missing(settings, error, report)
}

/// The finding that the agent needs a login. The error names the methods.
fn login_missing(
    settings: &CommandSettings,
    error: &AgentError,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    let hint = match error.hint() {
        Some(first @ AgentError::LOGIN_FIRST) => first.to_owned(),
        _ => login_hint(&settings.typed_agent()),
    };
    report.say(&Finding::fail("login", error.to_string(), Some(hint)))
}

fn end(seen: &ProbeReport, report: &mut DoctorReport) -> Result<(), CliError> {
    let was_killed = seen.exit.as_ref().is_some_and(|exit| exit.signal == Some(KILL));
    match seen.ended {
        // An agent known to ignore SIGTERM is killed without waiting; that needs no warning.
        TerminationOutcome::Gone if was_killed && seen.profile.ignores_terminate != Some(true) => report.say(&Finding::warn(
            "end",
            format!(
                "it was killed after {}: it ignores the end of stdin and SIGTERM",
                millis(seen.ended_in)
            ),
            "it works; \"profile\": {\"ignoresStdinEnd\": true, \"ignoresTerminate\": true} of the agent in \
             config.json spares the wait",
        )),
        TerminationOutcome::Gone => report.say(&Finding::ok("end", format!("gone after {}", millis(seen.ended_in)))),
        TerminationOutcome::Left => report.say(&Finding::warn(
            "end",
            "it was killed, and something of it is still there",
            "a process that waits for a dead disk goes when the disk answers; look with ps",
        )),
    }
}

/// A server of the configuration as the agent gets it, if it exists.
fn had(
    settings: &CommandSettings,
    servers: &McpFile,
    name: &str,
) -> Option<Result<Vec<McpServer>, ConfigError>> {
    let path = env::var_os("PATH");
    let around = ProgramSearch { cwd: settings.cwd.as_path(), path: path.as_deref() };
    servers.only(name).map(|only| only.servers(around))
}

/// Reports whether the agent can use a server of the configuration, and the outcome.
fn server(
    settings: &CommandSettings,
    seen: &ProbeReport,
    servers: &McpFile,
    name: &str,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    let list = match had(settings, servers, name) {
        None => return Ok(()),
        Some(Err(error)) => return report.fail("MCP server", &error.into()),
        Some(Ok(list)) => list,
    };
    if let Some(capability) = list.iter().find_map(|server| refused(&seen.capabilities, server)) {
        return report.say(&Finding::fail(
            "MCP server",
            format!("{name} cannot be given to the agent: it does not advertise {capability}"),
            Some("leave the server out, or use a stdio one".to_owned()),
        ));
    }
    match seen.servers.iter().find(|(known, _)| known == name) {
        Some((_, SessionTrial::Made { .. })) => {
            report.say(&Finding::ok("MCP server", format!("{name}: the agent makes a session with it")))
        }
        Some((_, SessionTrial::Refused(error))) => report.say(&Finding::fail(
            "MCP server",
            format!("{name}: without it the agent makes a session, with it not: {error}"),
            Some("see whether the server works by itself, or leave it out".to_owned()),
        )),
        None => report.say(&Finding::ok(
            "MCP server",
            format!("{name} can be given to the agent, which was not asked to take it"),
        )),
    }
}

/// The capability that an agent lacks for a server.
fn refused(can: &Capabilities, server: &McpServer) -> Option<&'static str> {
    match server.transport {
        McpTransport::Stdio { .. } => (!can.mcp_stdio).then_some("MCP servers that it starts"),
        McpTransport::Http { .. } => (!can.mcp_http).then_some("mcpCapabilities.http"),
        McpTransport::Sse { .. } => (!can.mcp_sse).then_some("mcpCapabilities.sse"),
        // The configuration cannot produce this.
        McpTransport::Other { .. } => Some("MCP servers of a kind of its own"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_capabilities_are_listed_in_words() {
        let answer = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}"#;
        let trial = SessionTrial::Made { within: Duration::ZERO, modes: true };
        let expected = "load, modes or options, MCP by stdio, MCP by http; not: resume, close, list, delete, fork, \
                        additional directories, images, audio, embedded files, MCP by sse, logout";
        assert_eq!(abilities(&Capabilities::of_answer(answer), &trial), expected);
    }

    #[test]
    fn agent_profile_is_described_in_words() {
        let profile = AgentProfile {
            needs_prompt_before_load: Some(true),
            ignores_stdin_end: Some(true),
            replays_on_resume: Some(false),
            ..AgentProfile::default()
        };
        let words = "claude-code: a session without a prompt is not written down; ignores the end of stdin";
        assert_eq!(behaviour(Some("claude-code"), &profile), words);
        assert_eq!(behaviour(None, &AgentProfile::default()), "no agent that is known here");
    }
}
