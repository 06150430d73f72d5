//! Checks a session: its directory, its servers, its last error, and whether its agent still has it. It does not load
//! the session, because a load may change it.

use std::env;
use std::sync::Arc;

use acpx_core::engine::{ListLookup, ProbeReport, SessionTrial};
use acpx_core::model::{
    AbsolutePath, AgentEnd, ErrorCode, ErrorMeaning, LineageReason, McpServerRef, Record, TurnOutcome,
    TurnState,
};
use acpx_core::store::{MemoryStore, real_path};

use super::{DoctorReport, session_with_timeout};
use crate::agents;
use crate::config::trust::TrustedFiles;
use crate::config::{McpFile, ProgramSearch};
use crate::error::{CliError, NoSessionHelp, cli_hint, login_hint};
use crate::output::{Finding, memory_words};
use crate::session::host_locator::{HostLocator, acpx_home};
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::{RecordLookup, SessionFilter, agent_lives, no_session};
use crate::session::own_engine::own_engine;
use crate::session::restore_cause::RestoreCause;
use crate::session::settings::CommandSettings;

/// How many sessions with missing directories are named.
const LOST: usize = 5;

/// Checks the selected session. A named session must exist.
pub(super) async fn look(
    settings: &CommandSettings,
    agent: Option<&ProbeReport>,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    let lookup = match RecordLookup::open() {
        Ok(lookup) => lookup,
        Err(error) => return report.fail("session", &error),
    };
    let record = match lookup.selected(settings, SessionFilter::OpenOrClosed).await {
        Ok(Some(record)) => record,
        Ok(None) if settings.session.is_none() => return lost(&lookup, Some(settings), report).await,
        Ok(None) => return report.fail("session", &no_session(settings, NoSessionHelp::LOOK)?),
        Err(error) => return report.fail("session", &error),
    };
    let lives = if agent_lives(&record, &HostLocator::of_environment()?.paths) {
        "its agent runs"
    } else {
        "no agent runs"
    };
    let ids = format!("{}, the agent's {}; {lives}", record.id, record.lineage.current().session);
    report.say(&Finding::ok("record", ids))?;
    directory(&record, report)?;
    for directory in &record.additional_directories {
        additional_directory(directory, report)?;
    }
    memory(&record, report)?;
    for server in &record.mcp_servers {
        self::server(&record, server, report)?;
    }
    last_error(&lookup, &record, report).await?;
    last_restore(&record, settings, report)?;
    last_agent(&record, report)?;
    match agent {
        Some(agent) => Box::pin(restorable(settings, &record, agent, report)).await,
        None => Ok(()),
    }
}

/// Reports the open sessions, of the selected agent or of all, whose directories are missing.
pub(super) async fn lost(
    lookup: &RecordLookup,
    settings: Option<&CommandSettings>,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    // A problem with the store is reported separately.
    let records = lookup.lost(settings).await.unwrap_or_default();
    let Some(first) = records.first() else { return Ok(()) };
    let shown = records.iter().take(LOST).map(|record| format!("{} ({})", record.id, record.cwd));
    let more = records.len().checked_sub(LOST + 1).map(|more| format!("{} more", more + 1));
    let words = shown.chain(more).collect::<Vec<_>>().join(", ");
    let words = format!("the directory is missing of {words}");
    let hint = format!(
        "if the project has moved: acpx sessions move {} --cwd DIR; acpx sessions close ID if it is not wanted",
        first.id
    );
    report.say(&Finding::warn("sessions", words, hint))
}

fn directory(record: &Record, report: &mut DoctorReport) -> Result<(), CliError> {
    let cwd = &record.cwd;
    let move_it = format!("if the project has moved: acpx sessions move {} --cwd DIR", record.id);
    match real_path(cwd) {
        Ok(real) if !real.as_path().is_dir() => {
            report.say(&Finding::fail("directory", format!("{cwd} is not a directory"), Some(move_it)))
        }
        // The real path of an imported session is stored at its first start.
        Ok(real) if real == record.real_cwd || record.known_real_cwd().is_none() => {
            report.say(&Finding::ok("directory", cwd.to_string()))
        }
        Ok(real) => report.say(&Finding::fail(
            "directory",
            format!("{cwd} leads to {real}, and led to {} when the session began", record.real_cwd),
            Some(move_it),
        )),
        Err(error) => report.say(&Finding::fail("directory", format!("{cwd}: {error}"), Some(move_it))),
    }
}

/// Checks an additional directory. The agent gets a missing one anyway: it may come back.
fn additional_directory(directory: &AbsolutePath, report: &mut DoctorReport) -> Result<(), CliError> {
    let wrong = match real_path(directory) {
        Ok(real) if real.as_path().is_dir() => return Ok(()),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    report.say(&Finding::warn(
        "additional directory",
        format!("{directory}: {wrong}"),
        "make it again, or name others with --add-dir when the session is brought back",
    ))
}

/// Reports what the agent may remember, judged by the lineage and the record.
fn memory(record: &Record, report: &mut DoctorReport) -> Result<(), CliError> {
    let row = record.lineage.current();
    match (row.reason, memory_words(record.memory)) {
        (LineageReason::LoadFailed | LineageReason::AgentLost | LineageReason::CannotRestore, _) => report.say(&Finding::warn(
            "memory",
            format!(
                "the agent began afresh at {} ({}): it does not remember what came before",
                row.from,
                row.reason.as_str()
            ),
            "what was said is in sessions history; a prompt with --carry-history tells a fresh session of it",
        )),
        (_, Some(words)) => report.say(&Finding::warn("memory", words, "all that was said is in sessions history")),
        (_, None) => Ok(()),
    }
}

/// Reports whether a server of the record can be used again.
fn server(record: &Record, server: &McpServerRef, report: &mut DoctorReport) -> Result<(), CliError> {
    let name = &server.name;
    let Some(source) = &server.source else {
        return report.say(&Finding::warn(
            "MCP server",
            format!("{name} is known to the client that gave it alone"),
            "open the session there, or put the server into config.json; otherwise it is left out",
        ));
    };
    let path = env::var_os("PATH");
    let around = ProgramSearch { cwd: record.cwd.as_path(), path: path.as_deref() };
    let trusted = TrustedFiles::of(&acpx_home()?);
    let found =
        McpFile::reload(source.as_path().to_owned(), &trusted).and_then(|file| match file.only(name) {
            Some(only) => only.servers(around).map(|_| true),
            None => Ok(false),
        });
    match found {
        Ok(true) => report.say(&Finding::ok("MCP server", format!("{name}, from {source}"))),
        Ok(false) => report.say(&Finding::fail(
            "MCP server",
            format!("{name} is not in {source} any more"),
            Some("put it back, or begin a session without it".to_owned()),
        )),
        Err(error) => report.fail("MCP server", &error.into()),
    }
}

/// Why the last attempt to restore the session failed, if it did.
fn last_restore(
    record: &Record,
    settings: &CommandSettings,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    let Some(error) = &record.restore_error else { return Ok(()) };
    let hint = format!(
        "prompt again: the session is kept; to continue in a fresh one: acpx sessions reset {}",
        record.id
    );
    report.say(&Finding::fail("last restore", format!("{error} at {}", error.at), Some(hint)))?;
    match RestoreCause::of(record, settings) {
        Some(problem) => report.say(&Finding::fail("transcript", problem.to_string(), None)),
        None => Ok(()),
    }
}

/// Reports how the last agent ended, if that was unexpected and none runs.
fn last_agent(record: &Record, report: &mut DoctorReport) -> Result<(), CliError> {
    let ended = record.agent_run.as_ref().and_then(|run| run.ended.as_ref());
    let Some(AgentEnd::Otherwise(words)) = ended.map(|ended| &ended.how) else { return Ok(()) };
    let hint = if words == AgentEnd::WANTS_LOGIN {
        login_hint(&agents::typed(&record.agent))
    } else {
        "the next prompt starts another".to_owned()
    };
    report.say(&Finding::warn("last agent", words.clone(), hint))
}

/// Reports how the last turn ended.
async fn last_error(
    lookup: &RecordLookup,
    record: &Record,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    match lookup.last_turn(record).await?.map(|turn| (turn.id, turn.state)) {
        Some((turn, TurnState::Ended { outcome: TurnOutcome::Failed(error), .. })) => {
            let hint = match &error.code {
                ErrorCode::AuthRequired => Some(login_hint(&agents::typed(&record.agent))),
                code => cli_hint(code, code.hint()),
            };
            let words = format!("turn {turn} failed: {} ({})", error.message, error.code);
            report.say(&Finding::fail("last turn", words, hint))
        }
        Some((turn, TurnState::Interrupted { .. })) => report.say(&Finding::warn(
            "last turn",
            format!("turn {turn} was interrupted: its host went away"),
            "it is not sent again by itself; prompt again to go on",
        )),
        Some((turn, _)) => report.say(&Finding::ok("last turn", format!("turn {turn} did not fail"))),
        None => report.say(&Finding::ok("last turn", "there was none")),
    }
}

/// Reports whether the agent can restore the session, and whether it still lists it.
async fn restorable(
    settings: &CommandSettings,
    record: &Record,
    agent: &ProbeReport,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    let can = agent.capabilities.sessions;
    if !(can.load || can.resume || can.replay) {
        return report.say(&Finding::warn(
            "restore",
            "the agent advertises neither load nor resume: after a restart it begins afresh",
            "a prompt with --carry-history tells the fresh session what was said",
        ));
    }
    if let SessionTrial::Refused(error) = &agent.trial
        && error.meaning() == ErrorMeaning::LoginNeeded
    {
        return report.say(&Finding::warn(
            "restore",
            "the agent can restore sessions, and restores none before the login",
            login_hint(&agents::typed(&record.agent)),
        ));
    }
    let session = record.lineage.current().session.clone();
    if record.answered_turns == 0 && agent.profile.restore_profile().needs_prompt_before_load {
        let words = "nothing was said in it yet, and this agent has not written it down: it begins afresh";
        return report.say(&Finding::ok("restore", words));
    }
    if !can.list {
        let words = "the agent can restore sessions; whether it still has this one shows when it is asked to";
        return report.say(&Finding::ok("restore", words));
    }
    report.progress("asking the agent for its sessions");
    match Box::pin(listed(settings, record)).await? {
        Ok(ListLookup::Listed(_)) => {
            report.say(&Finding::ok("restore", format!("the agent has the session {session}")))
        }
        Ok(ListLookup::NoList) => report.say(&Finding::ok(
            "restore",
            format!(
                "the agent can restore sessions; it has no list of them, so whether it still has the session {session} shows \
                 when the next prompt restores it"
            ),
        )),
        Ok(ListLookup::Unread) => report.say(&Finding::ok(
            "restore",
            format!(
                "the agent can restore sessions; its list is too long to read to the end, so whether it still has the \
                 session {session} shows when the next prompt restores it"
            ),
        )),
        Ok(ListLookup::NotListed) if record.answered_turns == 0 => {
            report.say(&Finding::ok("restore", "nothing was said in it yet, so the agent does not list it"))
        }
        Ok(ListLookup::NotListed) => report.say(&Finding::warn(
            "restore",
            format!("the agent does not list the session {session}: its file may have been swept"),
            "the next prompt begins afresh and says so; --no-fallback makes that an error, --carry-history tells what was said",
        )),
        Err(error) => report.fail("restore", &error),
    }
}

/// What the agent's own list has of the session; the inner result is why it could not be requested.
async fn listed(
    settings: &CommandSettings,
    record: &Record,
) -> Result<Result<ListLookup, CliError>, CliError> {
    let engine = own_engine("doctor", settings, Arc::new(MemoryStore::new())).await?;
    let with = session_with_timeout(settings);
    let session = &record.lineage.current().session;
    let found =
        InterruptWatcher::new(None)?.during(Box::pin(engine.find_agent_session(&with, session))).await?;
    Ok(found.map_err(CliError::from))
}
