//! The status of a session. The status word describes the agent, the other members describe the turns.
//!
//! The words are npm acpx's and mean the same: `running` for people and `alive` for programs is a live process; `idle`
//! is no process, and the next prompt starts one, however the last one ended; `dead` is a program that cannot be
//! started. One word is ours: `ending` for people is a process that is being ended, which programs get as a member in
//! addition to `alive`.

mod settings;

use std::io::{self, Write};
use std::time::Duration;

use acpx_core::model::{
    AbsolutePath, AgentEnd, AgentExit, AgentSpec, Record, SessionIdentity, SessionName, SessionUsage,
    Timestamp, Turn, TurnState,
};
use acpx_core::protocol::PendingRequestMeta;
use acpx_core::protocol::meta::WaitReasonMeta;
use serde::Serialize;

use self::settings::SettingsObject;
use super::banner::brief_path;
use super::diff::Detail;
use super::elapsed::{ago, elapsed};
use super::fields::Fields;
use super::question::details_of;
use super::record::{
    AgentObject, ExitObject, RememberedObject, TranscriptView, command, memory_words, name, restore_lines,
    usage,
};
use super::sanitize::{line, on_one_line};
use super::style::{Style, StyledWriter};
use super::{Console, json_line, pending};
use crate::cli::Format;

/// A session, and what is known of it at this moment.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot<'a> {
    pub(crate) record: &'a Record,
    /// The running and queued turns, in order.
    pub(crate) open_turns: &'a [Turn],
    /// The last turn that is not queued.
    pub(crate) last_turn: Option<&'a Turn>,
    /// Its usage, as its agent last reported it.
    pub(crate) usage: Option<SessionUsage>,
    /// Whether its agent has a conversation to lose and cannot restore sessions.
    pub(crate) forgets: bool,
    /// Whether the process of its last run is alive.
    pub(crate) agent_lives: bool,
    /// The program that the next prompt would start, if it is missing.
    pub(crate) missing_program: Option<&'a str>,
    /// Whether a host is running that continues its turns.
    pub(crate) host_lives: bool,
    /// What it waits for, if known.
    pub(crate) waiting: Option<&'a WaitReasonMeta>,
    pub(crate) now: Timestamp,
    /// Its agent's pending requests.
    pub(crate) questions: &'a [PendingRequestMeta],
    /// The transcript that the agent keeps itself.
    pub(crate) transcript: TranscriptView,
}

/// The state of a session's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentLiveness {
    /// The agent's process is alive, working or idle.
    Running,
    /// The agent's process is alive and is being ended.
    Ending,
    /// There is no agent; the next prompt starts one.
    Idle,
    /// There is no agent, and its program cannot be started.
    Dead,
}

impl AgentLiveness {
    fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Idle => "idle",
            Self::Dead => "dead",
        }
    }

    fn json_word(self) -> &'static str {
        match self {
            Self::Running | Self::Ending => "alive",
            other => other.word(),
        }
    }
}

impl<'a> Snapshot<'a> {
    fn liveness(&self) -> AgentLiveness {
        let is_ending = self.waiting.is_some_and(|waiting| waiting.what == WaitReasonMeta::AGENT_END);
        match (self.agent_lives, self.missing_program) {
            (true, _) if is_ending => AgentLiveness::Ending,
            (true, _) => AgentLiveness::Running,
            (false, None) => AgentLiveness::Idle,
            (false, Some(_)) => AgentLiveness::Dead,
        }
    }

    /// Whether the last agent ended without a request.
    fn ended_unexpectedly(&self) -> bool {
        let run = self.record.agent_run.as_ref();
        run.is_some_and(|run| run.ended.as_ref().is_none_or(|exit| exit.how != AgentEnd::Asked))
    }

    fn summary(&self) -> String {
        let (was_sent, waits) = (self.interrupted().is_some(), self.queued().next().is_some());
        let (happened, next) = match self.liveness() {
            AgentLiveness::Running if self.running().is_some() => {
                return "the agent works on a turn".to_owned();
            }
            AgentLiveness::Running if self.waiting.is_some_and(|waiting| waiting.what != HOST) => {
                return "the agent is there, and is not ready yet".to_owned();
            }
            AgentLiveness::Running => return "the agent is ready".to_owned(),
            AgentLiveness::Ending if waits => {
                return "the agent is being ended; what waits goes to another".to_owned();
            }
            AgentLiveness::Ending => ("the agent is being ended", "starts another"),
            AgentLiveness::Dead => {
                let program = self.missing_program.unwrap_or_default();
                return format!("the agent's program {program} cannot be started; acpx doctor says more");
            }
            AgentLiveness::Idle if was_sent => ("the turn that ran was interrupted", "restores the session"),
            AgentLiveness::Idle if self.ended_unexpectedly() => {
                ("the agent ended unexpectedly", "restores the session")
            }
            AgentLiveness::Idle => ("no agent runs", "starts one"),
        };
        let next =
            if self.forgets { "begins a fresh session, since the agent can restore none" } else { next };
        let first = if waits { " and runs what waits first" } else { "" };
        format!("{happened}; the next prompt {next}{first}")
    }

    /// What becomes of an agent's memory that has no other copy.
    fn memory(&self) -> &'static str {
        match self.liveness() {
            AgentLiveness::Running => {
                "the agent can neither load nor resume sessions: what it remembers of this one goes with its process"
            }
            AgentLiveness::Ending | AgentLiveness::Idle | AgentLiveness::Dead => {
                "the agent can neither load nor resume sessions: the next prompt begins a fresh one; \
                 --carry-history tells it what was said"
            }
        }
    }

    /// The turn that was sent to the agent, and when.
    fn sent(&self) -> Option<(&'a Turn, Timestamp)> {
        self.open_turns.iter().find_map(|turn| match turn.state {
            TurnState::Dispatched { at } => Some((turn, at)),
            _ => None,
        })
    }

    /// The running turn, and since when. A sent turn whose agent or host is dead has ended: the next host will store
    /// that.
    fn running(&self) -> Option<(&'a Turn, Timestamp)> {
        self.sent().filter(|_| self.agent_lives && self.host_lives)
    }

    /// The turn that was interrupted by the end of its host.
    fn interrupted(&self) -> Option<&'a Turn> {
        let left = self.sent().map(|(turn, _)| turn).filter(|_| self.running().is_none());
        left.or(self.last_turn.filter(|turn| matches!(turn.state, TurnState::Interrupted { .. })))
    }

    /// When the last prompt was accepted.
    fn last_prompt(&self) -> Option<Timestamp> {
        self.queued().last().or(self.last_turn).map(|turn| turn.queued_at)
    }

    /// The queued turns.
    fn queued(&self) -> impl Iterator<Item = &'a Turn> {
        self.open_turns.iter().filter(|turn| turn.state == TurnState::Queued)
    }

    /// How long the session's agent has been running.
    fn uptime(&self) -> Option<String> {
        let run = self.record.agent_run.as_ref().filter(|_| self.liveness() == AgentLiveness::Running)?;
        Some(clock(self.now.since(run.since)))
    }

    fn pid(&self) -> Option<u32> {
        self.record.agent_run.as_ref().filter(|_| self.agent_lives).map(|run| run.process.pid)
    }

    /// The last agent's exit, while no agent is alive.
    fn exit(&self) -> Option<&'a AgentExit> {
        self.record.agent_run.as_ref().filter(|_| !self.agent_lives)?.ended.as_ref()
    }
}

/// Hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Writes the status of a session.
pub(crate) fn status(snapshot: &Snapshot<'_>, console: &mut Console<'_>) -> io::Result<()> {
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{}", snapshot.liveness().word()),
        Format::Json => json_line(&object(snapshot), &mut console.out),
        Format::Text if console.mode.is_terminal => terminal(snapshot, &mut console.out),
        Format::Text => text(snapshot, &mut console.out),
    }?;
    console.flush()
}

/// Writes that there is no session, of this name if one was typed.
pub(crate) fn no_session(
    agent: &AgentSpec,
    name: Option<&SessionName>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    const STATUS: &str = "no-session";
    if console.mode.is_text_on_terminal() {
        let (agent, typed) = (on_one_line(&agent.label()), crate::agents::typed(agent));
        match name {
            Some(name) => writeln!(console.out, "No session of {agent} named {name} is open here.")?,
            None => writeln!(
                console.out,
                "No session of {agent} is open here. Start one: acpx {typed} 'your prompt'"
            )?,
        }
        return console.flush();
    }
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{STATUS}"),
        Format::Json => {
            let none = NoSession {
                action: ACTION,
                status: STATUS,
                summary: "no session is open here",
                agent: AgentObject::of(agent),
            };
            json_line(&none, &mut console.out)
        }
        Format::Text => {
            writeln!(console.out, "session: -\nagent: {}\npid: -\nstatus: {STATUS}", command(agent))?;
            writeln!(console.out, "model: -\nmode: -\nuptime: -\nlastPromptTime: -")
        }
    }?;
    console.flush()
}

const ACTION: &str = "status_snapshot";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NoSession<'a> {
    action: &'static str,
    status: &'static str,
    summary: &'static str,
    #[serde(flatten)]
    agent: AgentObject<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusObject<'a> {
    action: &'static str,
    status: &'static str,
    summary: String,
    /// Whether the agent's process is being ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ending: bool,
    #[serde(flatten)]
    identity: SessionIdentity,
    #[serde(flatten)]
    agent: AgentObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    cwd: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(flatten)]
    settings: SettingsObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_prompt_time: Option<Timestamp>,
    #[serde(flatten)]
    remembered: RememberedObject,
    #[serde(flatten)]
    turns: OpenTurnsObject<'a>,
    #[serde(flatten)]
    exit: ExitObject<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    questions: &'a [PendingRequestMeta],
    /// `false` if the agent's memory is lost with its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    restorable: Option<bool>,
}

/// The turns that have not ended, and what they wait for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenTurnsObject<'a> {
    /// The running turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnObject<'a>>,
    /// The turn that ran when its host died.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted_turn: Option<InterruptedObject<'a>>,
    /// How many are queued.
    queued: usize,
    /// Since when the first of them is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Timestamp>,
    /// What the session waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<&'a WaitReasonMeta>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnObject<'a> {
    number: u64,
    request_id: &'a str,
    since: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InterruptedObject<'a> {
    number: u64,
    request_id: &'a str,
    accepted_at: Timestamp,
}

impl<'a> OpenTurnsObject<'a> {
    fn of(snapshot: &Snapshot<'a>) -> Self {
        let turn = snapshot.running().map(|(turn, since)| TurnObject {
            number: turn.id.0,
            request_id: turn.request.as_str(),
            since,
        });
        let interrupted_turn = snapshot.interrupted().map(|turn| InterruptedObject {
            number: turn.id.0,
            request_id: turn.request.as_str(),
            accepted_at: turn.queued_at,
        });
        Self {
            turn,
            interrupted_turn,
            queued: snapshot.queued().count(),
            waiting_since: snapshot.queued().next().map(|turn| turn.queued_at),
            waiting_for: snapshot.waiting,
        }
    }
}

fn object<'a>(snapshot: &Snapshot<'a>) -> StatusObject<'a> {
    let (record, liveness) = (snapshot.record, snapshot.liveness());
    StatusObject {
        action: ACTION,
        status: liveness.json_word(),
        summary: snapshot.summary(),
        ending: liveness == AgentLiveness::Ending,
        identity: record.identity(),
        agent: AgentObject::of(&record.agent),
        name: name(record).map(SessionName::as_str),
        cwd: record.cwd.as_str(),
        additional_directories: &record.additional_directories,
        pid: snapshot.pid(),
        settings: SettingsObject::of(&record.settings),
        uptime: snapshot.uptime(),
        last_prompt_time: snapshot.last_prompt(),
        remembered: RememberedObject::of(record, snapshot.usage.as_ref(), &snapshot.transcript),
        turns: OpenTurnsObject::of(snapshot),
        exit: ExitObject::of(snapshot.exit()),
        questions: snapshot.questions,
        restorable: snapshot.forgets.then_some(false),
    }
}

fn text(snapshot: &Snapshot<'_>, out: &mut dyn Write) -> io::Result<()> {
    let record = snapshot.record;
    let current = record.lineage.current();
    let dash = || "-".to_owned();
    line(out, format_args!("session: {}", record.id))?;
    line(out, format_args!("acpxSessionId: {}", current.session))?;
    if let Some(inner) = &current.agent_session {
        line(out, format_args!("agentSessionId: {inner}"))?;
    }
    line(out, format_args!("agent: {}", command(&record.agent)))?;
    line(out, format_args!("pid: {}", snapshot.pid().map_or_else(dash, |pid| pid.to_string())))?;
    line(out, format_args!("status: {}", snapshot.liveness().word()))?;
    for (name, value) in settings::rows(&record.settings) {
        line(out, format_args!("{name}: {value}"))?;
    }
    line(out, format_args!("uptime: {}", snapshot.uptime().unwrap_or_else(dash)))?;
    line(
        out,
        format_args!("lastPromptTime: {}", snapshot.last_prompt().map_or_else(dash, |at| at.to_string())),
    )?;
    if let Some(used) = &snapshot.usage {
        usage(used, out)?;
    }
    let forgets = snapshot.forgets.then(|| snapshot.memory().to_owned());
    let memory: Vec<String> = memory_words(record.memory).into_iter().chain(forgets).collect();
    if !memory.is_empty() {
        line(out, format_args!("memory: {}", memory.join("; ")))?;
    }
    restore_lines(record, &snapshot.transcript, out)?;
    if let Some((turn, since)) = snapshot.running() {
        line(out, format_args!("turn: {} ({}) since {since}", turn.id, turn.request))?;
    }
    if let Some(Turn { id, request, queued_at, .. }) = snapshot.interrupted() {
        let fate = "it is not sent again by itself";
        line(out, format_args!("interrupted: {id} ({request}), accepted at {queued_at}; {fate}"))?;
    }
    for question in snapshot.questions {
        line(out, format_args!("question: {} {}", question.question_id, pending::subject(question)))?;
        out.write_all(details_of(question, Detail::Short).as_bytes())?;
    }
    if let Some(first) = snapshot.queued().next() {
        // Without an agent they are not processed.
        let when = if snapshot.agent_lives { "" } else { "; the next prompt runs what waits first" };
        let (count, since) = (snapshot.queued().count(), first.queued_at);
        line(out, format_args!("queued: {count}, waiting since {since}{when}"))?;
    }
    if let Some(waiting) = snapshot.waiting {
        line(out, format_args!("waitingFor: {}", waiting_words(waiting, snapshot.now)))?;
    }
    if let Some(exit) = snapshot.exit() {
        // The text may be the agent's own, so it comes last on its line.
        line(out, format_args!("lastExit: {}", exit.how))?;
        line(out, format_args!("lastExitAt: {}", exit.at))?;
    }
    // Lines that npm acpx does not have follow those it has.
    line(out, format_args!("cwd: {}", record.cwd))?;
    line(out, format_args!("summary: {}", snapshot.summary()))
}

/// The same on a terminal, with times relative to now.
fn terminal(snapshot: &Snapshot<'_>, out: &mut StyledWriter<'_>) -> io::Result<()> {
    let (record, now) = (snapshot.record, snapshot.now);
    let ago = |at: Timestamp| ago(at, now);
    let liveness = snapshot.liveness();
    let style = match liveness {
        AgentLiveness::Running => Style::Good,
        AgentLiveness::Dead => Style::Bad,
        AgentLiveness::Ending | AgentLiveness::Idle => Style::Warning,
    };
    out.styled(style, liveness.word())?;
    line(out, format_args!(": {}", snapshot.summary()))?;
    let mut fields = Fields::default();
    fields.add("session", Some(&record.id));
    fields.add("name", name(record));
    fields.add("agent", Some(record.agent.label()));
    fields.add("directory", Some(brief_path(record.cwd.as_path())));
    for (name, value) in settings::rows(&record.settings) {
        fields.add(name, Some(value));
    }
    for (name, value) in settings::choices(&record.settings) {
        fields.add(name, Some(value));
    }
    fields.add("last prompt", snapshot.last_prompt().map(ago));
    fields.add_usage(snapshot.usage.as_ref());
    let forgets = snapshot.forgets.then(|| snapshot.memory().to_owned());
    memory_words(record.memory)
        .into_iter()
        .chain(forgets)
        .for_each(|words| fields.add("memory", Some(words)));
    fields.add(
        "last restore",
        record.restore_error.as_ref().map(|error| format!("{error}, {}", ago(error.at))),
    );
    fields.add("transcript", snapshot.transcript.problem.as_ref());
    fields.add("continue with", snapshot.transcript.resume_line());
    let turn =
        snapshot.running().map(|(turn, since)| format!("{}, for {}", turn.id, elapsed(now.since(since))));
    fields.add("turn", turn);
    let interrupted = snapshot.interrupted().map(|turn| {
        format!("turn {}, accepted {}; it is not sent again by itself", turn.id, ago(turn.queued_at))
    });
    fields.add("interrupted", interrupted);
    let queued = snapshot.queued().next().map(|first| {
        let when = if snapshot.agent_lives { "" } else { "; the next prompt runs them first" };
        format!("{}, the first {}{when}", snapshot.queued().count(), ago(first.queued_at))
    });
    fields.add("queued", queued);
    let waiting = snapshot.waiting.map(|waiting| {
        let since = Timestamp::parse(&waiting.since).map(|since| elapsed(now.since(since)));
        format!("{}, for {}", awaited(waiting), since.unwrap_or_else(|_| "some time".to_owned()))
    });
    fields.add("waiting for", waiting);
    let uptime = snapshot.uptime().map(|time| format!(", up {time}")).unwrap_or_default();
    fields.add("process", snapshot.pid().map(|pid| format!("{pid}{uptime}")));
    fields.add("last exit", snapshot.exit().map(|exit| format!("{}, {}", exit.how, ago(exit.at))));
    fields.write(out)?;
    for question in snapshot.questions {
        out.styled(Style::Warning, "request")?;
        line(out, format_args!(" {}: {}", question.question_id, pending::subject(question)))?;
        out.write_all(details_of(question, Detail::Short).as_bytes())?;
    }
    Ok(())
}

/// What a session waits for and since when, in words.
fn waiting_words(waiting: &WaitReasonMeta, now: Timestamp) -> String {
    let what = awaited(waiting);
    let last_line = waiting.last_line_at.as_deref().and_then(|at| Timestamp::parse(at).ok());
    let last_line = last_line.map(|at| format!("; its last line came {} s ago", now.since(at).as_secs()));
    format!("{what}, since {}{}", waiting.since, last_line.unwrap_or_default())
}

/// What a session waits for, in words. A newer host may report reasons unknown here.
pub(crate) fn awaited(waiting: &WaitReasonMeta) -> String {
    let questions = waiting.questions.join(", ");
    match (waiting.what.as_str(), &waiting.method) {
        ("load-time", _) => "the time from which the agent loads sessions".to_owned(),
        ("agent-start", _) => "the start of the agent".to_owned(),
        ("answer", Some(method)) => format!("the agent's answer to {method}"),
        ("turn-end", _) => "the agent, which has the prompt".to_owned(),
        ("permission", _) => format!("an answer to the agent's permission request ({questions})"),
        ("elicitation", _) => format!("an answer to the agent's form ({questions})"),
        ("command", _) => "a command or a file that the agent wants".to_owned(),
        ("agent-away", _) => {
            "the connection to the agent's machine, which is lost and being restored".to_owned()
        }
        ("agent-read", _) => "the agent, which does not read what it was sent".to_owned(),
        (WaitReasonMeta::AGENT_END, _) => "the end of the agent's process".to_owned(),
        (CLIENT, _) => "a client: no host runs, and the next prompt starts one".to_owned(),
        (HOST, _) => "the host, which does not answer".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// The wait reason of a prompt without a host.
pub(crate) const CLIENT: &str = "client";
/// The wait reason if the host does not respond.
pub(crate) const HOST: &str = "host";

#[cfg(test)]
mod tests;
