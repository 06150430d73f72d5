//! How an agent stands: where its program is, whether it starts, what it can do, whether it wants a login, and whether
//! it goes when it is told to. It is started in a directory of its own, which goes with it.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::Capabilities;
use acpx_core::engine::{Engine, Examination, NewSession, Settings as EngineSettings, Trial};
use acpx_core::model::{AbsolutePath, AgentError, AgentProfile, HostId, LoadWait, ProtocolVersion, Reading};
use acpx_core::store::MemoryStore;
use acpx_core::tools::Ended;
use serde_json::Value;

use super::{PATIENCE, Report};
use crate::config::{McpFile, Surroundings, find_program};
use crate::error::CliError;
use crate::output::Finding;
use crate::patience::Patience;
use crate::reach::{Reach, for_agents, relay};
use crate::settings::Settings;

/// Looks at the agent; what it said, if it could be started.
pub(super) async fn look(
    settings: &Settings,
    servers: &McpFile,
    report: &mut Report,
) -> Result<Option<Examination>, CliError> {
    if !program(settings, report)? {
        return Ok(None);
    }
    report.progress(&format!("starting the agent {}", settings.agent.label()));
    let seen = match examine(settings).await? {
        Ok(seen) => seen,
        Err(error) => {
            report.fail("start", &error.with_nothing_kept())?;
            return Ok(None);
        }
    };
    start(&seen, report)?;
    report.say(&Finding::ok("can", abilities(&seen.capabilities, &seen.trial)))?;
    report.say(&Finding::ok("known as", behaviour(seen.known_as.as_deref(), &seen.profile)))?;
    login(&seen, report)?;
    end(&seen, report)?;
    for name in servers.names() {
        server(settings, &seen, servers, name, report)?;
    }
    Ok(Some(seen))
}

fn program(settings: &Settings, report: &mut Report) -> Result<bool, CliError> {
    let agent = &settings.agent;
    if let Some(url) = agent.url() {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        // Whoever it is reached as is nobody else's business.
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        report.say(&Finding::ok("program", format!("on another machine, {host}")))?;
        return Ok(true);
    }
    let path = env::var_os("PATH");
    let around = Surroundings { cwd: settings.cwd.as_path(), path: path.as_deref() };
    let found = find_program(&agent.program, around);
    if let Some(found) = &found {
        report.say(&Finding::ok("program", found.to_string()))?;
    } else {
        let error = AgentError::NotFound { program: agent.program.clone() };
        let hint = error.hint().map(str::to_owned);
        report.say(&Finding::fail("program", error.to_string(), hint))?;
    }
    Ok(found.is_some())
}

/// What the agent does when it is started; why it could not be, inside.
async fn examine(settings: &Settings) -> Result<Result<Examination, CliError>, CliError> {
    let scratch = tempfile::tempdir()
        .map_err(|source| CliError::System { doing: "make a directory for the agent".to_owned(), source })?;
    let cwd = AbsolutePath::from_path(scratch.path())?;
    let tag = Reach::of_environment()?.tag();
    let host = HostId::new("doctor").expect("the name is not empty");
    let engine_settings = EngineSettings { tag, relay: relay(), ..EngineSettings::default() };
    let engine = Engine::new(Arc::new(MemoryStore::new()), host, engine_settings);
    let agent = settings.agent.clone().with_start_timeout(settings.timeout.unwrap_or(PATIENCE));
    let with = NewSession::new(agent, cwd, for_agents().into_iter().collect());
    let mut patience = Patience::new(None)?;
    let seen = patience.during(engine.examine(with)).await?;
    Ok(seen.map_err(CliError::from))
}

fn start(seen: &Examination, report: &mut Report) -> Result<(), CliError> {
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
fn abilities(can: &Capabilities, trial: &Trial) -> String {
    let sessions = can.sessions;
    let modes = matches!(trial, Trial::Made { modes: true, .. });
    let all = [
        (sessions.load || sessions.replay, "load"),
        (sessions.resume, "resume"),
        (sessions.close, "close"),
        (sessions.list, "list"),
        (sessions.delete, "delete"),
        (can.fork, "fork"),
        (modes, "modes or options"),
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
    let habits = profile.habits();
    let says = [
        (habits.needs_prompt_before_load, "a session without a prompt is not written down"),
        (habits.wait_before_load == LoadWait::NextMinute, "a session is not loaded in the minute it began"),
        (habits.replays_on_resume, "replays on resume"),
        (profile.ignores_stdin_end == Some(true), "stays when its stdin ends"),
        (profile.ignores_terminate == Some(true), "stays when it is told to terminate"),
    ];
    let says: Vec<&str> = says.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect();
    let name = known_as.unwrap_or("no agent that is known here");
    if says.is_empty() { name.to_owned() } else { format!("{name}: {}", says.join("; ")) }
}

fn login(seen: &Examination, report: &mut Report) -> Result<(), CliError> {
    let error = match &seen.trial {
        Trial::Made { within, .. } => {
            let words = format!(
                "session/new works, after {}; a login may still be wanted by the first prompt",
                millis(*within)
            );
            return report.say(&Finding::ok("session", words));
        }
        Trial::Refused(error) => error,
    };
    if error.reading() != Reading::LoginNeeded {
        let hint = error.hint().map(str::to_owned);
        return report.say(&Finding::fail("session", error.to_string(), hint));
    }
    let ways = ways(&seen.answer);
    let ways = if ways.is_empty() { "it names no way to".to_owned() } else { ways.join(", ") };
    let hint = "log in with the agent's own program, or set the variables that it wants".to_owned();
    report.say(&Finding::fail("login", format!("{error}; ways to log in: {ways}"), Some(hint)))
}

/// The ways to log in that an agent offers.
fn ways(answer: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let ways = answer["authMethods"].as_array().into_iter().flatten();
    let text = |way: &Value, name: &str| way.get(name).and_then(Value::as_str).map(str::to_owned);
    ways.filter_map(|way| {
        let id = text(way, "id")?;
        Some(text(way, "name").filter(|name| *name != id).map_or(id.clone(), |name| format!("{name} ({id})")))
    })
    .collect()
}

fn end(seen: &Examination, report: &mut Report) -> Result<(), CliError> {
    match seen.ended {
        Ended::Gone => report.say(&Finding::ok("end", format!("gone after {}", millis(seen.ended_in)))),
        Ended::Left => report.say(&Finding::warn(
            "end",
            "it was killed, and something of it is still there",
            "a process that waits for a dead disk goes when the disk answers; look with ps",
        )),
    }
}

/// Whether the agent can have a server of the configuration.
fn server(
    settings: &Settings,
    seen: &Examination,
    servers: &McpFile,
    name: &str,
    report: &mut Report,
) -> Result<(), CliError> {
    let path = env::var_os("PATH");
    let around = Surroundings { cwd: settings.cwd.as_path(), path: path.as_deref() };
    let Some(only) = servers.only(name) else { return Ok(()) };
    match only.servers(around) {
        Err(error) => report.fail("MCP server", &error.into()),
        Ok(list) => {
            let problem = list.iter().find_map(|server| refused(&seen.capabilities, server));
            match problem {
                None => report.say(&Finding::ok("MCP server", format!("{name} can be given to the agent"))),
                Some(capability) => report.say(&Finding::fail(
                    "MCP server",
                    format!("{name} cannot be given to the agent: it does not advertise {capability}"),
                    Some("leave the server out, or use a stdio one".to_owned()),
                )),
            }
        }
    }
}

/// The capability that an agent lacks for a server.
fn refused(can: &Capabilities, server: &acpx_core::model::McpServer) -> Option<&'static str> {
    use acpx_core::model::McpTransport;
    match server.transport {
        McpTransport::Stdio { .. } => (!can.mcp_stdio).then_some("MCP servers that it starts"),
        McpTransport::Http { .. } => (!can.mcp_http).then_some("mcpCapabilities.http"),
        McpTransport::Sse { .. } => (!can.mcp_sse).then_some("mcpCapabilities.sse"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_log_in_are_told_by_name_and_id_and_what_is_none_is_left_out() {
        let answer = r#"{"authMethods":[{"id":"key","name":"API key"},{"id":"browser","name":"browser"},{"name":"x"},7]}"#;
        assert_eq!(ways(answer), ["API key (key)", "browser"]);
        for nothing in ["", "{}", r#"{"authMethods":null}"#] {
            assert_eq!(ways(nothing), Vec::<String>::new(), "{nothing}");
        }
    }

    #[test]
    fn what_an_agent_can_and_cannot_do_is_told_in_words() {
        let answer = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}"#;
        let trial = Trial::Made { within: Duration::ZERO, modes: true };
        let expected = "load, modes or options, MCP by stdio, MCP by http; not: resume, close, list, delete, fork, \
                        images, audio, embedded files, MCP by sse, logout";
        assert_eq!(abilities(&Capabilities::of_answer(answer), &trial), expected);
    }

    #[test]
    fn how_an_agent_behaves_is_told_in_words() {
        let profile = AgentProfile {
            needs_prompt_before_load: Some(true),
            ignores_stdin_end: Some(true),
            replays_on_resume: Some(false),
            ..AgentProfile::default()
        };
        let words = "claude-code: a session without a prompt is not written down; stays when its stdin ends";
        assert_eq!(behaviour(Some("claude-code"), &profile), words);
        assert_eq!(behaviour(None, &AgentProfile::default()), "no agent that is known here");
    }
}
