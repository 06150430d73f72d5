//! Clients from elsewhere: what the server that let one in says of it, and what it may therefore not do.
//!
//! The server says it before the client has said anything, in a request of its own, and once: so nothing that the
//! client says can be read as a part of it, and nothing can take it back. From then on what the client says of its own
//! is read by the same code as everybody's, and here it is cut down to what a client from elsewhere may say. It uses the
//! agent that is served and the records of that agent, gives it no environment, starts no program on this machine as an
//! MCP server, lets nothing be approved unseen, goes beyond no terms that are set for its turns, and says nothing to the
//! agent that is not understood here, unless the user of the server has said otherwise.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::acp::ExtraParams;
use crate::acp::agent::{CallError, CallExtras, ExtensionCall, ParamProblem};
use crate::engine::Session;
use crate::model::{
    AbsolutePath, AgentSpec, McpServer, McpTransport, Profiles, ProtocolVersion, Record, RecordId,
};

use super::Connection;
use super::methods;
use crate::host::Host;
use crate::protocol::acpx_meta::read_meta;
use crate::protocol::meta::{CancelMeta, NewMeta, PromptMeta, RemoteClientMeta, RestoreMeta, StartMeta};
use crate::protocol::rpc_error;

/// Methods of ours that a client from elsewhere has. The others are about this machine.
const METHODS: [&str; 4] = ["_acpx/watch", "_acpx/cancel", "_acpx/close", "_acpx/waiting"];
/// How many sessions of one who is elsewhere have an agent at the same time.
const MOST_SESSIONS: usize = 32;

/// What a client says beside the protocol, and what of it only a client on this machine may say.
pub(crate) trait RestrictedMeta: DeserializeOwned + Default {
    /// Leaves out what a client from elsewhere may not say.
    fn leave_out(&mut self, elsewhere: &RemoteClientMeta);
}

impl RestrictedMeta for NewMeta {
    fn leave_out(&mut self, elsewhere: &RemoteClientMeta) {
        self.agent = None;
        self.shell = None;
        self.start.leave_out(elsewhere);
    }
}

impl RestrictedMeta for RestoreMeta {
    fn leave_out(&mut self, elsewhere: &RemoteClientMeta) {
        self.agent = None;
        self.start.leave_out(elsewhere);
    }
}

impl RestrictedMeta for StartMeta {
    fn leave_out(&mut self, elsewhere: &RemoteClientMeta) {
        self.environment.clear();
        self.variables.clear();
        self.secret_variables.clear();
        self.mcp_source = None;
        self.idle_ms = self.idle_ms.map(|wanted| shorter(wanted, elsewhere.client.idle_ms));
    }
}

impl RestrictedMeta for CancelMeta {
    /// Whoever sees what a session does may stop it.
    fn leave_out(&mut self, _elsewhere: &RemoteClientMeta) {}
}

impl RestrictedMeta for PromptMeta {
    fn leave_out(&mut self, elsewhere: &RemoteClientMeta) {
        if !elsewhere.approve_all {
            self.terms.leave_out_approvals();
        }
        self.terms.keep_within(&elsewhere.client.terms);
    }
}

/// The shorter of two idle times, of which 0 is for ever.
fn shorter(wanted: u64, served: Option<u64>) -> u64 {
    match (wanted, served) {
        (0, Some(served)) => served,
        (wanted, Some(0) | None) => wanted,
        (wanted, Some(served)) => wanted.min(served),
    }
}

/// As much of a start wait as the agent may take without it.
fn no_longer_than(agent: &AgentSpec, wait: Duration) -> Duration {
    wait.min(agent.patience(&Profiles::built_in().of(agent, None)))
}

impl Connection {
    /// Takes what a server says of its client, unless that was said before.
    pub(crate) fn let_in_from_elsewhere(&self, call: ExtensionCall) -> Result<String, CallError> {
        if call.method != crate::protocol::meta::ELSEWHERE {
            return Err(CallError::NotInitialized(call.method));
        }
        let mut said: RemoteClientMeta = methods::read(&call)?;
        if !said.approve_all {
            said.client.terms.leave_out_approvals();
        }
        self.defaults.settle(said.client.clone());
        let is_first = self.elsewhere.set(said).is_ok();
        if is_first { Ok("{}".to_owned()) } else { Err(CallError::UnknownMethod(call.method)) }
    }

    /// What this client says beside the protocol, and may.
    pub(crate) fn said<T: RestrictedMeta>(&self, meta: Option<&str>) -> Result<T, CallError> {
        let mut said: T = read_meta(meta)?;
        if let Some(elsewhere) = self.elsewhere.get() {
            said.leave_out(elsewhere);
        }
        Ok(said)
    }

    /// What this client says in a request that only its agent understands, if it may. To some agents it is a way to
    /// have programs started, with any environment.
    pub(crate) fn besides(
        &self,
        version: ProtocolVersion,
        meta: Option<&str>,
        unknown: Option<&str>,
    ) -> Option<ExtraParams> {
        ExtraParams::of(version, meta, unknown).filter(|_| self.may_say_besides())
    }

    /// The same of a message that names nothing but a session.
    pub(crate) fn besides_of(&self, aside: &CallExtras) -> Option<ExtraParams> {
        self.besides(aside.version, aside.meta.as_deref(), aside.unknown.as_deref())
    }

    /// Whether what only its agent understands is passed on for this client.
    pub(crate) fn may_say_besides(&self) -> bool {
        !self.is_confined() && self.elsewhere.get().is_none_or(|elsewhere| elsewhere.besides)
    }

    /// Whether this client has a method of ours.
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.elsewhere.get().is_none() || METHODS.contains(&method)
    }

    /// Whether the client speaks for an agent and not for the user, by itself or by the word of its server.
    pub(crate) fn is_confined(&self) -> bool {
        self.started_inside || self.elsewhere.get().is_some_and(|elsewhere| elsewhere.confined)
    }

    /// Whether programs are started on this machine as MCP servers for this client.
    pub(crate) fn may_start_servers(&self) -> bool {
        self.elsewhere.get().is_none_or(|elsewhere| elsewhere.stdio_servers)
    }

    /// An error if one of these servers would be started here for a client that may not have that.
    pub(crate) fn may_have(&self, servers: &[McpServer]) -> Result<(), CallError> {
        if self.may_start_servers() {
            return Ok(());
        }
        // Of a kind that only the agent knows nobody here can tell.
        let is_started = |server: &McpServer| {
            matches!(server.transport, McpTransport::Stdio { .. } | McpTransport::Other { .. })
        };
        let Some(index) = servers.iter().position(is_started) else { return Ok(()) };
        let problem = "a client from elsewhere starts no program on this machine as an MCP server, \
                       unless its user serves with --allow-stdio-servers";
        Err(ParamProblem::new(format!("mcpServers[{index}]"), format!("is not allowed: {problem}")).into())
    }

    /// The additional directories that a record has by this client; `None` if it leaves them. They are kept, and hold in
    /// the turns of others, so where they are not this client's to give, none that it names change nothing, and others
    /// are an error. A client from elsewhere has a say in sessions that it has made itself.
    pub(crate) async fn allowed_directories(
        &self,
        record: &RecordId,
        wanted: Option<Vec<AbsolutePath>>,
    ) -> Result<Option<Vec<AbsolutePath>>, CallError> {
        let is_its_own = self.elsewhere.get().is_none() || self.has_made(record);
        if is_its_own && !self.is_confined() {
            return Ok(wanted);
        }
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else { return Ok(None) };
        let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
        let is_so = kept.is_some_and(|kept| kept.additional_directories == wanted);
        let problem = "is not allowed: the directories of this session are not this client's to change";
        if is_so { Ok(Some(wanted)) } else { Err(ParamProblem::new("additionalDirectories", problem).into()) }
    }

    /// How long this client waits for an agent to be ready. Whoever waits for longer than an agent may take lets it take
    /// longer, which is not for a client from elsewhere.
    pub(crate) fn start_wait(&self, start: &StartMeta, agent: &AgentSpec) -> Option<Duration> {
        let wait = start.start_wait()?;
        Some(if self.elsewhere.get().is_none() { wait } else { no_longer_than(agent, wait) })
    }

    /// Whether a record is one that this client can know of: one of its own agent, if it has named one when it came, as
    /// an editor does. A remote client knows the agent that is served by its key alone.
    pub(crate) fn knows(&self, record: &Record) -> bool {
        let is_here = self.elsewhere.get().is_none();
        match self.defaults.agent(None) {
            None => is_here,
            Some(own) if is_here => own.is_same_as(&record.agent),
            Some(served) => served.key() == record.agent.key(),
        }
    }

    /// An error if a record is not there for this client.
    pub(crate) async fn may_use(&self, record: &RecordId) -> Result<(), CallError> {
        if self.elsewhere.get().is_none() && self.defaults.agent(None).is_none() {
            return Ok(());
        }
        let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
        kept.filter(|kept| self.knows(kept)).map(drop).ok_or_else(|| rpc_error::unknown(record))
    }

    /// Room for a session with an agent, which one that is known to have an agent needs no more of; an error if this
    /// client has as many as it may.
    pub(crate) async fn room(&self, known: Option<&RecordId>) -> Result<QuotaPermit, CallError> {
        let Some(elsewhere) = self.elsewhere.get() else { return Ok(QuotaPermit::default()) };
        let mut parked = Vec::new();
        // One that has just been prompted has no agent yet, and is about to have one.
        let is_at_work = |session: Session| {
            let status = session.status();
            status.has_agent || status.has_work
        };
        for record in self.host.shares.of(&elsewhere.who) {
            let session = self.host.engine.running(&record).await;
            let session = session.map_err(|error| self.refused(&error))?;
            if !session.is_some_and(is_at_work) {
                parked.push(record);
            }
        }
        match self.host.shares.take(&elsewhere.who, &parked, known) {
            QuotaOutcome::Already => Ok(QuotaPermit::default()),
            QuotaOutcome::Now => Ok(QuotaPermit(Some((Arc::clone(&self.host), elsewhere.who.clone())))),
            QuotaOutcome::Not => Err(rpc_error::too_many_sessions(MOST_SESSIONS)),
        }
    }
}

/// The sessions with an agent of those who are elsewhere, by who they are.
#[derive(Default)]
pub(crate) struct SessionQuota(Mutex<HashMap<String, ClientQuota>>);

#[derive(Default)]
struct ClientQuota {
    /// How many are about to be begun.
    beginning: usize,
    begun: HashSet<RecordId>,
}

/// Whether there was room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotaOutcome {
    Already,
    Now,
    Not,
}

impl SessionQuota {
    fn of(&self, who: &str) -> Vec<RecordId> {
        self.lock().get(who).map(|share| share.begun.iter().cloned().collect()).unwrap_or_default()
    }

    /// Takes room for one more, now that these have no agent any more, unless it is one that has some.
    fn take(&self, who: &str, parked: &[RecordId], known: Option<&RecordId>) -> QuotaOutcome {
        let mut shares = self.lock();
        let share = shares.entry(who.to_owned()).or_default();
        for record in parked {
            share.begun.remove(record);
        }
        if known.is_some_and(|known| share.begun.contains(known)) {
            return QuotaOutcome::Already;
        }
        if share.beginning + share.begun.len() >= MOST_SESSIONS {
            return QuotaOutcome::Not;
        }
        share.beginning += 1;
        QuotaOutcome::Now
    }

    fn give_back(&self, who: &str, begun: Option<RecordId>) {
        let mut shares = self.lock();
        let Some(share) = shares.get_mut(who) else { return };
        share.beginning = share.beginning.saturating_sub(1);
        share.begun.extend(begun);
        if share.beginning == 0 && share.begun.is_empty() {
            shares.remove(who);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ClientQuota>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a session that is about to have an agent, or nothing where none is needed. Given back when it is dropped, or
/// when the session is at work.
#[derive(Default)]
pub(crate) struct QuotaPermit(Option<(Arc<Host>, String)>);

impl QuotaPermit {
    /// This session has it.
    pub(crate) fn filled_by(mut self, record: &RecordId) {
        if let Some((host, who)) = self.0.take() {
            host.shares.give_back(&who, Some(record.clone()));
        }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        if let Some((host, who)) = self.0.take() {
            host.shares.give_back(&who, None);
        }
    }
}

#[cfg(test)]
mod tests;
