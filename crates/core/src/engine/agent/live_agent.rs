//! One running agent of a session: starts it, reports its events, and reports how it ended.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::directory::DirectoryChange;
use super::launch_spec::LaunchSpec;
use super::send_queue::SendQueue;
use super::{initialize_cache, login};
use crate::acp::client::{
    AgentConnection, InitializeFailure, InitializedAgent, MessageContext, OfferedServices, ReceivedMessage,
    RedactedLine,
};
use crate::engine::tools::run::{Files, ToolOutcome, ToolRequestOrigin, Tools};
use crate::engine::{Disk, EngineContext, EngineSettings};
use crate::model::{
    AcpSessionId, AgentEnd, AgentError, AgentExit, AgentProfile, AgentRun, AgentSpec, Fact, McpServer,
    MissedDeadline, Profiles, RecordId, Secrets,
};
use crate::sync::Lock;
use crate::tools::{
    AgentProcess, GracePeriods, ProcessExit, RECORD_VARIABLE, StrayProcesses, SweptProcess,
    TerminationOutcome,
};
use crate::wire;
use crate::wire::{DisconnectReason, InboundStream, Peer};

/// How long a process that closed its output may take to exit before we report it.
const EXIT_LAG: Duration = Duration::from_millis(500);
/// How many bytes of an agent's output during its shutdown are stored.
const LAST_LINES_BYTES: usize = 4 << 20;
/// How long an agent that ignores a step of its shutdown gets for that step: enough to write the lines that are queued
/// for it.
const UNHEEDED: Duration = Duration::from_millis(100);

/// A running agent that has answered `initialize`.
pub(crate) struct LiveAgent {
    pub(crate) connection: AgentConnection,
    pub(crate) process: AgentProcess,
    /// Files and terminals it uses through acpx.
    pub(crate) tools: Box<Tools>,
    /// Lines that are not sent yet.
    pub(crate) send_queue: SendQueue,
    /// The directory that its start resolved, if the record has to store it.
    pub(crate) directory_change: Option<Box<DirectoryChange>>,
    /// Processes it started outside its process group.
    strays: StrayProcesses,
    /// Completes when the agent has closed its stdin without exiting, or has exited and its last output is read. `None`
    /// once handled.
    input_closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// An event of a session's agent.
pub(crate) enum AgentEvent {
    Started(Box<Started>),
    /// The agent was ended on request.
    Ended(AgentExitReport),
    /// The leftovers of an agent that exited by itself were ended or given up.
    Cleared(AgentExitReport),
    /// A received message; `None` when the connection has ended.
    Message(Option<ReceivedMessage>),
    /// A tool request has an outcome, or terminals have new output.
    ToolOutcome(Option<(ToolRequestOrigin, ToolOutcome)>),
}

/// An agent that has answered `initialize`, and the lines that were exchanged until then.
pub(crate) type Started = Result<(LiveAgent, Vec<RedactedLine>), FailedStart>;

/// Starts the agent of a record, in the directory that the record was created in.
pub(crate) async fn start_for(
    record: RecordId,
    mut launch: LaunchSpec,
    shared: EngineContext,
    predecessor: Option<watch::Receiver<bool>>,
) -> Started {
    let directory_change = launch.settle(&shared.disk, &record).await?;
    let (agent, lines) = start(launch, shared, record.as_str(), predecessor).await?;
    Ok((LiveAgent { directory_change: directory_change.map(Box::new), ..agent }, lines))
}

/// Sends `initialize` on behalf of the client that the agent is started for.
fn initialize(
    called: &str,
    launch: &LaunchSpec,
    peer: Peer,
    incoming: InboundStream,
) -> impl Future<Output = Result<InitializedAgent, InitializeFailure>> {
    let services = OfferedServices {
        fs: !launch.setup.no_fs,
        terminal: !launch.setup.no_terminal,
        terminal_login: launch.logged_in.has_terminal(),
    };
    let client = (launch.capabilities.as_ref(), services);
    AgentConnection::start_for(called, launch.agent.protocol, (peer, incoming), launch.secrets(), client)
}

/// Starts an agent. On failure nothing of it is left, or the error lists what is left. Every process the agent starts
/// carries the mark, which is the record's id if there is a record.
pub(crate) async fn start(
    mut launch: LaunchSpec,
    shared: EngineContext,
    mark: &str,
    predecessor: Option<watch::Receiver<bool>>,
) -> Started {
    if let Some(mut exited) = predecessor {
        // Agents refuse a second process on the same session as "busy".
        drop(exited.wait_for(|exited| *exited).await);
    }
    // The secrets of this login are redacted in the agent's lines, even if the client logs in or out during the start.
    launch.logged_in = launch.logged_in.as_it_is();
    let public = launch.public_paths(&shared.disk).await;
    let files = Files::new(launch.roots(&shared.disk).await?, shared.disk.clone());
    launch.environment = launch.environment.with(RECORD_VARIABLE, mark).with_plain(public);
    let LaunchSpec { agent, cwd, environment, .. } = &launch;
    let strays = shared.strays(mark);
    let EngineContext { settings, spawner, .. } = &shared;
    let program = settings.program_of(agent);
    let profile = Profiles::built_in().of(agent, None);
    let (start_limit, grace) = (launch.start_limit(&profile), grace_for(&profile, settings.process));
    let spawn = AgentProcess::spawn(spawner, &program, cwd, environment, grace);
    // Spawning a program from a disk that does not respond can hang.
    let (missed, limit) = (MissedDeadline::Initialize, start_limit);
    let late = |output| AgentError::SlowStart { agent: label(agent), missed: missed.clone(), limit, output };
    let spawned = tokio::time::timeout(start_limit, spawn).await.unwrap_or_else(|_| Err(late(Vec::new())));
    let since = (settings.clock)();
    let (mut process, pipes) = spawned?;
    let (peer, incoming) = wire::connect(pipes.stdout, pipes.stdin, settings.wire);
    launch.words.attach(&process, &peer);
    let is_flooded = || peer.end() == Some(DisconnectReason::Flooded);
    let called = agent.label();
    let initialize = initialize(&called, &launch, peer.clone(), incoming);
    let mut failed = match tokio::time::timeout(start_limit, initialize).await {
        Ok(Ok(InitializedAgent { mut connection, mut lines })) => {
            let name = connection.info().name;
            connection.set_profile(Arc::new(Profiles::built_in().of(agent, name.as_deref())));
            initialize_cache::remember(&shared, &launch, connection.answer()).await;
            match login::at_start(&mut connection, &launch, start_limit, &mut lines).await {
                Ok(()) => return Ok((LiveAgent::new(connection, process, files, strays), lines)),
                Err(Some(error)) => FailedStart::new(error, lines),
                Err(None) => {
                    let (how, output) = last_output(&mut process, &peer, &launch).await;
                    FailedStart::new(AgentError::Died { agent: label(agent), how, output }, lines)
                }
            }
        }
        Ok(Err(InitializeFailure { error: Some(error), lines })) => FailedStart::new(error, lines),
        Ok(Err(InitializeFailure { error: None, lines })) if is_flooded() => {
            let (agent, limit) = (label(agent), settings.wire.flood_bytes);
            FailedStart::new(AgentError::Flooded { agent, limit, during: "of garbage".to_owned() }, lines)
        }
        Ok(Err(InitializeFailure { error: None, lines })) => {
            let (how, output) = last_output(&mut process, &peer, &launch).await;
            let agent = label(agent);
            // For a remote agent this was our relay process, which exits if it cannot reach the agent.
            let error = match program {
                Cow::Owned(_) => AgentError::NotReached { agent, output },
                Cow::Borrowed(_) => AgentError::ExitedAtOnce { agent, how, output },
            };
            FailedStart::new(error, lines)
        }
        Err(_) => {
            let output = launch.redact(&output_outside_protocol(&mut process, &peer).await);
            FailedStart::new(late(output), Vec::new())
        }
    };
    let strays = record_descendants(&process, strays).await;
    peer.abort();
    let identity = process.identity().clone();
    let (ended, strays) = end_process(process, strays, grace).await;
    failed.strays = strays;
    failed.left = (ended == TerminationOutcome::Left).then(|| {
        let ended = Some(AgentExit { at: (settings.clock)(), how: ended.into() });
        AgentRun { process: identity, since, ended }
    });
    Err(failed)
}

/// A failed start, with the lines that were exchanged.
pub(crate) struct FailedStart {
    pub(crate) error: AgentError,
    pub(crate) lines: Vec<RedactedLine>,
    /// The process, if it could not be ended.
    pub(crate) left: Option<AgentRun>,
    /// Processes outside its group that were ended with it.
    pub(crate) strays: Vec<SweptProcess>,
}

impl FailedStart {
    fn new(error: AgentError, lines: Vec<RedactedLine>) -> Self {
        Self { error, lines, left: None, strays: Vec::new() }
    }
}

impl From<AgentError> for FailedStart {
    /// A failure before any line was exchanged.
    fn from(error: AgentError) -> Self {
        Self::new(error, Vec::new())
    }
}

/// What ending an agent leaves to be stored.
pub(crate) struct AgentExitReport {
    /// Lines received during the shutdown.
    pub(crate) lines: Vec<RedactedLine>,
    /// The outcomes of its running commands.
    pub(crate) commands: Vec<Fact>,
    pub(crate) ended: TerminationOutcome,
    /// Processes outside its group that were ended with it.
    pub(crate) strays: Vec<SweptProcess>,
}

impl Default for AgentExitReport {
    fn default() -> Self {
        Self { lines: Vec::new(), commands: Vec::new(), ended: TerminationOutcome::Gone, strays: Vec::new() }
    }
}

/// Records the descendants of a process while they are still visible. If that fails, strays are found by their marks
/// alone.
async fn record_descendants(process: &AgentProcess, strays: StrayProcesses) -> StrayProcesses {
    let (identity, mut looking) = (process.identity().clone(), strays.clone());
    let seen = tokio::task::spawn_blocking(move || {
        looking.record_descendants(&identity);
        looking
    });
    seen.await.unwrap_or(strays)
}

/// Ends a process and the strays outside its group.
async fn end_process(
    process: AgentProcess,
    strays: StrayProcesses,
    grace: GracePeriods,
) -> (TerminationOutcome, Vec<SweptProcess>) {
    let group = process.pid();
    let ended = process.end(grace).await;
    let (left, mut swept) = end_strays(strays, grace).await;
    swept.retain(|process| process.group != group);
    (if left == TerminationOutcome::Left { left } else { ended }, swept)
}

/// Ends the strays of agents that have exited, and returns them.
pub(crate) async fn end_strays(
    strays: StrayProcesses,
    grace: GracePeriods,
) -> (TerminationOutcome, Vec<SweptProcess>) {
    let swept = tokio::task::spawn_blocking(move || strays.end(grace)).await.unwrap_or_default();
    let ended = if swept.left.is_empty() { TerminationOutcome::Gone } else { TerminationOutcome::Left };
    (ended, [swept.ended, swept.left].concat())
}

/// The rest of an agent that exited by itself, while it is being ended.
pub(crate) struct Leftover {
    pub(crate) task: JoinHandle<AgentExitReport>,
    /// True once the clean-up is finished.
    pub(crate) exited: watch::Receiver<bool>,
    /// The stored run with its end, to be amended if a process could not be ended.
    pub(crate) run: Option<AgentRun>,
}

impl Leftover {
    pub(crate) fn of(agent: LiveAgent, grace: GracePeriods) -> Self {
        let (done, exited) = watch::channel(false);
        let task = tokio::spawn(async move {
            let report = agent.end(grace).await;
            done.send_replace(true);
            report
        });
        Self { task, exited, run: None }
    }

    /// The amended run, if a process could not be ended.
    pub(crate) fn amended(self, ended: TerminationOutcome) -> Option<AgentRun> {
        let mut run = self.run.filter(|_| ended == TerminationOutcome::Left)?;
        if let Some(exit) = &mut run.ended {
            exit.how =
                AgentEnd::Otherwise(format!("{}; its remaining processes could not be ended", exit.how));
        }
        Some(run)
    }
}

impl LiveAgent {
    /// An agent with an empty send queue and no tool requests.
    fn new(connection: AgentConnection, process: AgentProcess, files: Files, strays: StrayProcesses) -> Self {
        let (tools, send_queue) = (Box::new(Tools::new(files)), SendQueue::default());
        let peer = connection.peer().clone();
        let exited = process.exited();
        let input_closed = async move {
            peer.write_failed().await;
            if tokio::time::timeout(EXIT_LAG, exited).await.is_ok() {
                // Its last output may still be in the pipe. If another process holds the pipe open, it never ends.
                tokio::time::sleep(EXIT_LAG).await;
            }
        };
        Self {
            connection,
            process,
            tools,
            send_queue,
            directory_change: None,
            strays,
            input_closed: Some(Box::pin(input_closed)),
        }
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self, known: MessageContext<'_>) -> AgentEvent {
        loop {
            let has_room = self.send_queue.has_room();
            tokio::select! {
                message = self.connection.recv(known), if has_room => return AgentEvent::Message(message),
                done = self.tools.next(), if has_room => return AgentEvent::ToolOutcome(done),
                // `recv` then reports the end of the connection.
                _ = self.send_queue.failed() => self.connection.peer().abort(),
                () = or_pending(self.input_closed.as_mut()) => {
                    self.input_closed = None;
                    self.connection.peer().abort();
                }
            }
        }
    }

    /// Reports how the agent ended, and ends the rest of it in the background.
    pub(crate) async fn into_leftover(
        mut self,
        launch: &LaunchSpec,
        settings: &EngineSettings,
    ) -> (AgentError, Leftover) {
        let error = match self.connection.end() {
            Some(DisconnectReason::Flooded) => AgentError::Flooded {
                agent: label(&launch.agent),
                limit: settings.wire.flood_bytes,
                during: "of garbage".to_owned(),
            },
            _ => AgentError::Died {
                agent: label(&launch.agent),
                how: self.exit_description().await,
                output: self.redacted_stderr().await,
            },
        };
        (error, Leftover::of(self, settings.process))
    }

    async fn exit_description(&mut self) -> String {
        // The exit of an agent that closed its stdin was already waited for.
        let lag = if self.input_closed.is_some() { EXIT_LAG } else { Duration::ZERO };
        match self.process.exited_within(lag).await {
            None if self.connection.peer().has_write_failed() => "it closed its input".to_owned(),
            exit => describe_exit(exit),
        }
    }

    /// The last lines of its stderr.
    async fn redacted_stderr(&mut self) -> Vec<String> {
        let words = self.process.output_tail().await;
        words.iter().map(|line| self.connection.redact(line)).collect()
    }

    /// Ends the agent: writes the queued lines, closes its stdin, and reads its remaining output so that it can finish.
    /// Returns the first of that output, to be stored.
    pub(crate) async fn end(self, grace: GracePeriods) -> AgentExitReport {
        let Self { mut connection, process, tools, mut send_queue, strays, .. } = self;
        let grace = grace_for(connection.profile(), grace);
        let peer = connection.peer().clone();
        let close = async {
            let all = async {
                drop(send_queue.all_sent().await);
                drop(peer.close().await);
            };
            if tokio::time::timeout(grace.eof, all).await.is_err() {
                peer.abort();
            }
        };
        // Once its stdin is closed the agent may exit, which orphans its descendants.
        let strays = record_descendants(&process, strays).await;
        let mut lines = Vec::new();
        let (ended, strays, mut terminals) = {
            let mut end = std::pin::pin!(async {
                // Ends its commands first, so that their strays are found with those of the agent.
                let end = async { (tools.end(grace).await, end_process(process, strays, grace).await) };
                let ((), ((tools, terminals), (process, strays))) = tokio::join!(close, end);
                (if tools == TerminationOutcome::Left { tools } else { process }, strays, terminals)
            });
            let mut drain = std::pin::pin!(drain(&mut connection, &mut lines));
            tokio::select! {
                ended = &mut end => {
                    // Its last output may still be in the pipe. If another process holds the pipe open, it never ends.
                    drop(tokio::time::timeout(EXIT_LAG, &mut drain).await);
                    ended
                }
                () = &mut drain => end.await,
            }
        };
        let commands = terminals.iter_mut().flat_map(|(id, running)| running.facts(id, &connection, true));
        AgentExitReport { commands: commands.collect(), lines, ended, strays }
    }
}

/// Awaits the future; for ever, if there is none.
pub(crate) async fn or_pending<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The grace periods for an agent with this profile.
fn grace_for(profile: &AgentProfile, grace: GracePeriods) -> GracePeriods {
    let unheeded = |ignores: Option<bool>, period: Duration| {
        if ignores == Some(true) { period.min(UNHEEDED) } else { period }
    };
    GracePeriods {
        eof: unheeded(profile.ignores_stdin_end, grace.eof),
        term: unheeded(profile.ignores_terminate, grace.term),
    }
}

/// Reads until the connection ends, and returns the first lines.
async fn drain(connection: &mut AgentConnection, lines: &mut Vec<RedactedLine>) {
    let mut room = LAST_LINES_BYTES;
    while let Some(message) = connection.recv(MessageContext::default()).await {
        room = room.saturating_sub(message.size);
        if room > 0 {
            lines.push(message.line);
        }
    }
}

impl LaunchSpec {
    /// The last lines of the agent's output outside the protocol.
    pub(crate) fn output_tail(&self) -> Vec<String> {
        self.redact(&self.words.last())
    }

    /// Redacts the secret values that the agent was given.
    fn redact(&self, output: &[String]) -> Vec<String> {
        let secrets = self.secrets();
        output.iter().map(|line| secrets.redact_text(line).into_owned()).collect()
    }

    /// Variables whose names mark a secret and whose values are existing paths, such as that of a credentials file.
    /// They are not redacted, because the agent's messages about files must still name them. A path that is not found, or
    /// not in time, stays a secret.
    async fn public_paths(&self, disk: &Disk) -> Vec<OsString> {
        let mut public = Vec::new();
        for (name, paths) in self.environment.secret_paths() {
            let mut are_there = false;
            for path in paths {
                let checked = path.clone();
                are_there = disk.ask(&path, move || checked.symlink_metadata().is_ok()).await == Ok(true);
                if !are_there {
                    break;
                }
            }
            if are_there {
                public.push(name.to_owned());
            }
        }
        public
    }

    /// Every secret value that the agent was given: those of its MCP servers and its environment, passwords in URLs in
    /// the environment, and the texts of the repeated login.
    fn secrets(&self) -> Secrets {
        let login = self.logged_in.with(&self.agent).map(|login| login.secrets()).unwrap_or_default();
        let servers = self.mcp_servers.list.iter().flat_map(McpServer::secrets);
        let variables = self.environment.variables().iter();
        Secrets::new(servers.chain(login.iter().map(String::as_str)))
            .with_variables(variables.map(|(name, value)| (name.as_os_str(), value.as_os_str())), |name| {
                self.environment.is_secret(name)
            })
    }
}

/// The agent's output outside the protocol: its stderr, or else garbage on stdout.
async fn output_outside_protocol(process: &mut AgentProcess, peer: &Peer) -> Vec<String> {
    let words = process.output_tail().await;
    if words.is_empty() { peer.garbage().recent } else { words }
}

/// How a process exited, and its output outside the protocol.
async fn last_output(process: &mut AgentProcess, peer: &Peer, launch: &LaunchSpec) -> (String, Vec<String>) {
    let how = describe_exit(process.exited_within(EXIT_LAG).await);
    (how, launch.redact(&output_outside_protocol(process, peer).await))
}

fn describe_exit(exit: Option<ProcessExit>) -> String {
    exit.map_or_else(|| "it closed its output".to_owned(), |exit| exit.to_string())
}

fn label(agent: &AgentSpec) -> String {
    agent.label().into_owned()
}

/// The live ACP sessions of this engine, each with its record. Detects an agent that assigns the same id twice.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveIds(Arc<Lock<HashMap<LiveKey, RecordId>>>);

/// An agent's command line and a session id it assigned.
type LiveKey = (Vec<String>, AcpSessionId);

/// RAII guard: the id is live until this is dropped.
pub(crate) struct LiveId {
    ids: LiveIds,
    key: LiveKey,
}

impl LiveIds {
    /// Reserves an id for a record. If a session of the same agent has it, returns the record of that session.
    pub(crate) fn take(
        &self,
        agent: &AgentSpec,
        session: AcpSessionId,
        record: &RecordId,
    ) -> Result<LiveId, RecordId> {
        let key = (agent.command(), session);
        match self.0.lock().entry(key.clone()) {
            Entry::Occupied(taken) => Err(taken.get().clone()),
            Entry::Vacant(free) => {
                free.insert(record.clone());
                Ok(LiveId { ids: self.clone(), key })
            }
        }
    }
}

impl Drop for LiveId {
    fn drop(&mut self) {
        self.ids.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NewSession;
    use crate::model::{AbsolutePath, McpTransport, NamedValue, ProcessIdentity, Timestamp};
    use crate::tools::Environment;

    #[tokio::test]
    async fn secret_environment_values_are_redacted_and_ordinary_ones_are_not() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().to_str().unwrap();
        let both = format!("{home}:/k4+Ab+in-base64");
        let secrets_given = [
            "key-from-env",
            "for-login",
            "Bearer t0ken",
            "of-a-server",
            "url-password",
            "/k3+Ab/in-base64=",
            "marked-by-hand",
            &both,
        ];
        let [key, login, header, of_server, password, base64, marked, both] = secrets_given;
        let environment = [
            ("API_KEY", key),
            ("ACPX_AUTH_CHATGPT", login),
            ("HTTPS_PROXY", &format!("http://me:{password}@proxy:3128")),
            ("HOME", "/home/me/x"),
            ("SHORT_TOKEN", "seven77"),
        ];
        let configured = [
            ("NODE_ENV", "production"),
            ("REGION", "eu-central-1"),
            ("AGENT_CREDENTIALS", home),
            ("AGENT_SECRETS", &format!("{home}:/")),
            ("PGPASSWORD", base64),
            ("BOTH_TOKEN", both),
            ("LICENCE", marked),
        ];
        let pairs = |variables: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let http = McpTransport::Http {
            url: "http://x".into(),
            headers: vec![NamedValue { name: "Authorization".into(), value: header.into() }],
        };
        let stdio = McpTransport::Stdio {
            command: AbsolutePath::new("/bin/m").unwrap(),
            args: Vec::new(),
            env: vec![NamedValue { name: "ANY".into(), value: of_server.into() }],
        };
        let environment = pairs(&environment).into_iter().collect::<Environment>();
        let environment = environment.with_all(pairs(&configured)).with_secrets(["LICENCE".into()]);
        let (agent, cwd) = (AgentSpec::new("a", [""; 0]), AbsolutePath::new("/").unwrap());
        let mut launch = LaunchSpec {
            login: None,
            mcp_servers: vec![McpServer::new("m", http), McpServer::new("n", stdio)].into(),
            ..LaunchSpec::alone(NewSession::new(agent, cwd, environment))
        };
        let public = launch.public_paths(&Disk::default()).await;
        assert_eq!(public, ["AGENT_CREDENTIALS", "AGENT_SECRETS"]);
        launch.environment = launch.environment.with_plain(public);
        let said = |secrets: [&str; 8]| {
            format!(
                "{}, {home}/a, {home}:/, /home/me/x, seven77, production, eu-central-1",
                secrets.join(", ")
            )
        };
        assert_eq!(launch.redact(&[said(secrets_given)]), [said(["[secret]"; 8])]);
    }

    #[tokio::test]
    async fn process_that_cannot_be_ended_is_added_to_the_agents_exit() {
        let at = Timestamp::from_millis(7).unwrap();
        let run = |words: &str| AgentRun {
            process: ProcessIdentity { pid: 7, started: 8, boot: "boot".to_owned() },
            since: at,
            ended: Some(AgentExit { at, how: AgentEnd::Otherwise(words.to_owned()) }),
        };
        let leftover = |run| Leftover {
            task: tokio::spawn(async { AgentExitReport::default() }),
            exited: watch::channel(true).1,
            run,
        };
        let amended = leftover(Some(run("signal 9"))).amended(TerminationOutcome::Left);
        assert_eq!(amended, Some(run("signal 9; its remaining processes could not be ended")));
        assert_eq!(leftover(Some(run("signal 9"))).amended(TerminationOutcome::Gone), None);
        assert_eq!(leftover(None).amended(TerminationOutcome::Left), None);
    }

    #[test]
    fn live_session_id_is_reserved_once_and_released_on_drop() {
        let ids = LiveIds::default();
        let agent = AgentSpec::new("a", ["x"]);
        let session = || AcpSessionId::new("s").unwrap();
        let (one, two) = (RecordId::new("one").unwrap(), RecordId::new("two").unwrap());
        let held = ids.take(&agent, session(), &one);
        assert_eq!(ids.take(&agent, session(), &two).err(), Some(one));
        assert!(held.is_ok() && ids.take(&AgentSpec::new("a", ["y"]), session(), &two).is_ok());
        drop(held);
        assert!(ids.take(&agent, session(), &two).is_ok());
    }
}
