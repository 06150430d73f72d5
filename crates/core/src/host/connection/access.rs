//! Access rights of remote clients: what `acpx serve` declares about one, and the restrictions that follow.
//!
//! The server declares the client once, in its own request before `initialize`, so the client can neither forge nor
//! undo the declaration. The client's `_meta` is then parsed as for local clients, and restricted here. A remote client
//! uses only the served agent and its records, sets no environment, starts no MCP server programs, has nothing approved
//! unseen, stays within the server's turn terms, and sends the agent nothing that acpx does not understand, unless the
//! server's user allows it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
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
use crate::sync::Lock;

/// Our methods that a remote client may call. The others concern this machine.
const METHODS: [&str; 4] = ["_acpx/watch", "_acpx/cancel", "_acpx/close", "_acpx/waiting"];
/// How many sessions of one remote user may have an agent at the same time.
const MOST_SESSIONS: usize = 32;

/// `_meta` of a client, with fields that only a local client may set.
pub(crate) trait RestrictedMeta: DeserializeOwned + Default {
    /// Removes the fields that a remote client may not set.
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
    /// Any client that sees a session may cancel its turns.
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

/// The shorter of two idle times, where 0 means forever.
fn shorter(wanted: u64, served: Option<u64>) -> u64 {
    match (wanted, served) {
        (0, Some(served)) => served,
        (wanted, Some(0) | None) => wanted,
        (wanted, Some(served)) => wanted.min(served),
    }
}

/// The start wait, limited to the time the agent has by default.
fn no_longer_than(agent: &AgentSpec, wait: Duration) -> Duration {
    wait.min(agent.patience(&Profiles::built_in().of(agent, None)))
}

impl Connection {
    /// Stores what a server declares about its client. A second declaration is refused.
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

    /// Parses this client's `_meta`, without fields it may not set.
    pub(crate) fn said<T: RestrictedMeta>(&self, meta: Option<&str>) -> Result<T, CallError> {
        let mut said: T = read_meta(meta)?;
        if let Some(elsewhere) = self.elsewhere.get() {
            said.leave_out(elsewhere);
        }
        Ok(said)
    }

    /// Request params that only the agent understands, if this client may send them. With some agents they can start
    /// programs with any environment.
    pub(crate) fn besides(
        &self,
        version: ProtocolVersion,
        meta: Option<&str>,
        unknown: Option<&str>,
    ) -> Option<ExtraParams> {
        ExtraParams::of(version, meta, unknown).filter(|_| self.may_say_besides())
    }

    /// The same for a message that names only a session.
    pub(crate) fn besides_of(&self, aside: &CallExtras) -> Option<ExtraParams> {
        self.besides(aside.version, aside.meta.as_deref(), aside.unknown.as_deref())
    }

    /// Whether params that only the agent understands are forwarded for this client.
    pub(crate) fn may_say_besides(&self) -> bool {
        !self.is_confined() && self.elsewhere.get().is_none_or(|elsewhere| elsewhere.besides)
    }

    /// Whether this client may call a method of ours.
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.elsewhere.get().is_none() || METHODS.contains(&method)
    }

    /// Whether the client acts for an agent and not for the user, by origin or by its server's declaration.
    pub(crate) fn is_confined(&self) -> bool {
        self.started_inside || self.elsewhere.get().is_some_and(|elsewhere| elsewhere.confined)
    }

    /// Whether this client may have MCP servers started on this machine.
    pub(crate) fn may_start_servers(&self) -> bool {
        self.elsewhere.get().is_none_or(|elsewhere| elsewhere.stdio_servers)
    }

    /// Returns an error if one of these servers would be started here and the client may not do that.
    pub(crate) fn may_have(&self, servers: &[McpServer]) -> Result<(), CallError> {
        if self.may_start_servers() {
            return Ok(());
        }
        // A transport that only the agent knows may start a program too.
        let is_started = |server: &McpServer| {
            matches!(server.transport, McpTransport::Stdio { .. } | McpTransport::Other { .. })
        };
        let Some(index) = servers.iter().position(is_started) else { return Ok(()) };
        let problem = "a client from elsewhere starts no program on this machine as an MCP server, \
                       unless its user serves with --allow-stdio-servers";
        Err(ParamProblem::new(format!("mcpServers[{index}]"), format!("is not allowed: {problem}")).into())
    }

    /// The additional directories that this client sets for a record; `None` leaves them unchanged. They are stored and
    /// apply to the turns of others, so a confined client may not change them, and a remote client only in sessions
    /// that it created. Otherwise an empty list changes nothing, and a different list is an error.
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

    /// How long this client waits for an agent to be ready. A longer wait gives the agent more time to start, which a
    /// remote client may not do.
    pub(crate) fn start_wait(&self, start: &StartMeta, agent: &AgentSpec) -> Option<Duration> {
        let wait = start.start_wait()?;
        Some(if self.elsewhere.get().is_none() { wait } else { no_longer_than(agent, wait) })
    }

    /// Whether this client may see a record: if it named an agent in `initialize`, as editors do, only that agent's
    /// records. A remote client identifies the served agent by its key alone.
    pub(crate) fn knows(&self, record: &Record) -> bool {
        let is_here = self.elsewhere.get().is_none();
        match self.defaults.agent(None) {
            None => is_here,
            Some(own) if is_here => own.is_same_as(&record.agent),
            Some(served) => served.key() == record.agent.key(),
        }
    }

    /// Returns an error if this client may not see the record.
    pub(crate) async fn may_use(&self, record: &RecordId) -> Result<(), CallError> {
        if self.elsewhere.get().is_none() && self.defaults.agent(None).is_none() {
            return Ok(());
        }
        let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
        kept.filter(|kept| self.knows(kept)).map(drop).ok_or_else(|| rpc_error::unknown(record))
    }

    /// Reserves quota for a session with an agent. A session that is already counted needs none. An error if the client
    /// has reached its limit.
    pub(crate) async fn room(&self, known: Option<&RecordId>) -> Result<QuotaPermit, CallError> {
        let Some(elsewhere) = self.elsewhere.get() else { return Ok(QuotaPermit::default()) };
        let mut parked = Vec::new();
        // A session that was just prompted has no agent yet, but is about to start one.
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

/// The sessions with an agent of each remote user.
#[derive(Default)]
pub(crate) struct SessionQuota(Lock<HashMap<String, ClientQuota>>);

#[derive(Default)]
struct ClientQuota {
    /// Reservations for sessions that are about to start.
    beginning: usize,
    begun: HashSet<RecordId>,
}

/// The result of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotaOutcome {
    Already,
    Now,
    Not,
}

impl SessionQuota {
    fn of(&self, who: &str) -> Vec<RecordId> {
        self.0.lock().get(who).map(|share| share.begun.iter().cloned().collect()).unwrap_or_default()
    }

    /// Removes parked sessions from the count, then reserves room for one more, unless `known` is already counted.
    fn take(&self, who: &str, parked: &[RecordId], known: Option<&RecordId>) -> QuotaOutcome {
        let mut shares = self.0.lock();
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
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(who) else { return };
        share.beginning = share.beginning.saturating_sub(1);
        share.begun.extend(begun);
        if share.beginning == 0 && share.begun.is_empty() {
            shares.remove(who);
        }
    }
}

/// A reservation for a session that is about to have an agent; empty for local clients. Released on drop, or converted
/// when the session is counted.
#[derive(Default)]
pub(crate) struct QuotaPermit(Option<(Arc<Host>, String)>);

impl QuotaPermit {
    /// Converts the reservation into a counted session.
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
