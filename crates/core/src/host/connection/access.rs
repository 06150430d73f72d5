//! What one client may do and see. Every decision about the rights of a client is here, without I/O. The only state is
//! the declaration of a remote client: it is set once, and a right depends on it and on the arguments.
//!
//! Two restrictions exist, and both may apply to one client. A *remote* client is declared by `acpx serve`, once and in
//! a request of its own before `initialize`, so the client can neither forge nor undo it. It uses only the served agent
//! and its records, sets no environment, starts no MCP server programs, has nothing approved unseen, stays within the
//! server's turn terms, and sends the agent nothing that acpx does not understand, unless the server's user allows it.
//! Its scope may be narrower: then it only reads, or reads and answers requests. The *page* is a remote client that sees
//! the records of all agents; it names an agent, a directory or a server only if the user has configured or used it.
//! A *confined* client acts for an agent: it decides nothing for the user, and ends only sessions that such clients
//! created.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::acp::ExtraParams;
use crate::acp::agent::{CallError, CallExtras, ClientFacts, ParamProblem, TerminalLogin};
use crate::host::permissions::responders::ClientServices;
use crate::model::{
    AbsolutePath, AgentSpec, McpServer, McpTransport, PermissionMode, Profiles, ProtocolVersion, Record,
    SetupOptions, SpendingLimits,
};
use crate::protocol::acpx_meta::{problem, read_meta};
use crate::protocol::import_params::ConfiguredAgent;
use crate::protocol::meta::{
    AccessScope, CancelMeta, LaunchMeta, NewMeta, PageMeta, PromptMeta, RemoteClientMeta, RestoreMeta,
    SettingMeta, StartMeta, TurnTermsMeta,
};
use crate::protocol::rpc_error;
use crate::wire::json;

/// Our methods that a remote client may call, each with the scope that it needs. The others concern this machine.
const REMOTE_METHODS: [(&str, AccessScope); 5] = [
    ("_acpx/watch", AccessScope::Read),
    ("_acpx/waiting", AccessScope::Read),
    ("_acpx/detach", AccessScope::Read),
    ("_acpx/cancel", AccessScope::Full),
    ("_acpx/close", AccessScope::Full),
];
/// Those that the page may call as well: it shows the sessions of all agents.
const PAGE_METHODS: [(&str, AccessScope); 8] = [
    ("_acpx/sessions", AccessScope::Read),
    ("_acpx/history", AccessScope::Read),
    ("_acpx/agents", AccessScope::Read),
    ("_acpx/pending", AccessScope::Read),
    ("_acpx/queue", AccessScope::Read),
    ("_acpx/answer", AccessScope::Answer),
    ("_acpx/queue/drop", AccessScope::Full),
    ("_acpx/rename", AccessScope::Full),
];
/// The params of forwarded requests that acpx understands.
const KNOWN_PARAMS: [&str; 8] =
    ["sessionId", "modeId", "modelId", "configId", "type", "value", "toolCallId", "terminalId"];
/// The only option that a confined client may set, for a session that it creates.
const MODEL: &str = "model";

/// The rights of one client. A clone has the rights at that time.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientAccess {
    /// Whether an agent started the client program.
    started_by_agent: bool,
    /// What `acpx serve` declared about a remote client; unset for a local client.
    remote: OnceLock<Arc<RemoteClientMeta>>,
}

/// What a confined client may not do. The last five it may do to records that confined clients created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserAction {
    AnswerRequest,
    ApproveAll,
    ChangeQueue,
    ChangeSettings,
    ImportDirectory,
    MoveSession,
    PruneSessions,
    RenameSession,
    SeeQueue,
    SetToolRules,
    StopHost,
    CancelTurns,
    CloseSession,
    DeleteSession,
    ReplaceSession,
    ResetSession,
}

impl UserAction {
    /// The end of "a program that an agent started may not …".
    fn text(self) -> &'static str {
        match self {
            Self::AnswerRequest => "answer what an agent asks",
            Self::ApproveAll => "approve everything",
            Self::ChangeQueue => "drop queued prompts",
            Self::ChangeSettings => "choose how a session works",
            Self::ImportDirectory => "import sessions from other directories",
            Self::MoveSession => "move a session",
            Self::PruneSessions => "prune sessions",
            Self::RenameSession => "rename a session",
            Self::SeeQueue => "list queued prompts",
            Self::SetToolRules => "make rules for tools",
            Self::StopHost => "stop the host",
            Self::CancelTurns => "cancel the turns of other sessions",
            Self::CloseSession => "close other sessions",
            Self::DeleteSession => "delete other sessions",
            Self::ReplaceSession => "close the session of this name; give its own another name",
            Self::ResetSession => "reset other sessions",
        }
    }
}

impl ClientAccess {
    pub(crate) fn new(started_by_agent: bool) -> Self {
        Self { started_by_agent, remote: OnceLock::new() }
    }

    /// Stores what a server declares about its client; `None` if the client was declared before.
    pub(crate) fn declare_remote(&self, mut client: RemoteClientMeta) -> Option<Arc<RemoteClientMeta>> {
        if !client.approve_all {
            client.client.terms.remove_approvals();
        }
        let client = Arc::new(client);
        self.remote.set(Arc::clone(&client)).ok().map(|()| client)
    }

    /// The kind of the client, for the log.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.is_remote(), self.is_confined()) {
            (false, false) => "local",
            (true, false) => "remote",
            (false, true) => "of an agent",
            (true, true) => "remote, of an agent",
        }
    }

    fn is_remote(&self) -> bool {
        self.remote.get().is_some()
    }

    /// Whether the client acts for an agent and not for the user, by origin or by its server's declaration.
    fn is_confined(&self) -> bool {
        self.started_by_agent || self.remote.get().is_some_and(|remote| remote.confined)
    }

    /// Whose quota of sessions the client uses; `None` for a local client, which has none.
    pub(crate) fn quota_user(&self) -> Option<&str> {
        self.remote.get().map(|remote| &*remote.who)
    }

    /// What the server declared about the page; `None` for any other client.
    pub(crate) fn page(&self) -> Option<&PageMeta> {
        self.remote.get()?.page.as_ref()
    }

    fn scope(&self) -> AccessScope {
        self.remote.get().map(|remote| remote.scope).unwrap_or_default()
    }

    /// Returns an error if the client's scope does not include what needs this one.
    pub(crate) fn check_scope(&self, needed: AccessScope) -> Result<(), CallError> {
        if self.scope().includes(needed) { Ok(()) } else { Err(rpc_error::out_of_scope(self.scope())) }
    }

    /// Whether closing a session only detaches the client.
    pub(crate) fn only_reads(&self) -> bool {
        !self.scope().is_full()
    }

    /// Returns an error unless the client may call this method of ours.
    pub(crate) fn check_method(&self, method: &str) -> Result<(), CallError> {
        if !self.is_remote() {
            return Ok(());
        }
        let of_page = PAGE_METHODS.iter().filter(|_| self.page().is_some());
        let known = REMOTE_METHODS.iter().chain(of_page).find(|(known, _)| *known == method);
        let (_, needed) = known.ok_or_else(|| CallError::UnknownMethod(method.to_owned()))?;
        self.check_scope(*needed)
    }

    /// Returns an error if only the user may do this.
    pub(crate) fn check(&self, action: UserAction) -> Result<(), CallError> {
        if self.is_confined() { Err(rpc_error::not_allowed(action.text())) } else { Ok(()) }
    }

    /// The same for an action on a record, given whether a confined client created the record.
    pub(crate) fn check_record(&self, action: UserAction, is_confined_record: bool) -> Result<(), CallError> {
        if is_confined_record { Ok(()) } else { self.check(action) }
    }

    /// Checks the settings of a session that the client creates. Settings are stored and apply to the turns of others,
    /// and a mode may let an agent do everything unasked, so a confined client sets only the model.
    pub(crate) fn check_initial_settings(&self, wanted: &[SettingMeta]) -> Result<(), CallError> {
        let is_model = |setting: &SettingMeta| setting.option.as_deref() == Some(MODEL);
        if wanted.iter().all(is_model) { Ok(()) } else { self.check(UserAction::ChangeSettings) }
    }

    /// Whether the client may have MCP servers started on this machine.
    pub(crate) fn may_start_servers(&self) -> bool {
        self.remote.get().is_none_or(|remote| remote.stdio_servers)
    }

    /// Returns an error if one of these servers would be started here and the client may not do that.
    pub(crate) fn check_mcp_servers(&self, servers: &[McpServer]) -> Result<(), CallError> {
        if self.page().is_some() {
            return if servers.is_empty() { Ok(()) } else { Err(not_for_the_page("mcpServers")) };
        }
        if self.may_start_servers() {
            return Ok(());
        }
        // A transport that only the agent knows may start a program too.
        let is_started = |server: &McpServer| {
            matches!(server.transport, McpTransport::Stdio { .. } | McpTransport::Other { .. })
        };
        let Some(index) = servers.iter().position(is_started) else { return Ok(()) };
        let reason = "a remote client may not start a program on this machine as an MCP server, \
                      unless acpx serve has --allow-stdio-servers";
        Err(problem(&format!("mcpServers[{index}]"), format!("is not allowed: {reason}")))
    }

    /// The servers with which the client restores a session; `None` for those of the record. The page names none, and a
    /// client that only reads restores nothing.
    pub(crate) fn restored_servers(&self, wanted: Option<Vec<McpServer>>) -> Option<Vec<McpServer>> {
        wanted.filter(|_| self.page().is_none() && !self.only_reads())
    }

    /// Returns an error if the client may not give a new session these additional directories.
    pub(crate) fn check_new_directories(&self, directories: &[AbsolutePath]) -> Result<(), CallError> {
        let is_refused = self.page().is_some() && !directories.is_empty();
        if is_refused { Err(not_for_the_page("additionalDirectories")) } else { Ok(()) }
    }

    /// The servers without members that only an agent understands, if the client may not send those.
    pub(crate) fn mcp_servers(&self, list: Vec<McpServer>) -> Vec<McpServer> {
        if self.may_send_extras() { list } else { list.into_iter().map(McpServer::only_known).collect() }
    }

    /// Whether params that only the agent understands are forwarded for the client. With some agents they can start
    /// programs with any environment.
    pub(crate) fn may_send_extras(&self) -> bool {
        !self.is_confined() && self.remote.get().is_none_or(|remote| remote.extra_params)
    }

    /// Request params that only the agent understands, if the client may send them.
    pub(crate) fn extra_params(
        &self,
        version: ProtocolVersion,
        meta: Option<&str>,
        unknown: Option<&str>,
    ) -> Option<ExtraParams> {
        ExtraParams::of(version, meta, unknown).filter(|_| self.may_send_extras())
    }

    /// The options that the client fixes about an agent. They are stored and apply to the turns of others, and some
    /// tools then run unasked, so a confined client sets none. Those that reach the agent are `_meta` like any other, so
    /// a remote client that may send no `_meta` only withholds services.
    pub(crate) fn setup(&self, start: &mut StartMeta) -> Result<SetupOptions, CallError> {
        let setup = std::mem::take(&mut start.setup);
        if !setup.is_empty() {
            self.check(UserAction::ChangeSettings)?;
        }
        Ok(if self.may_send_extras() { setup } else { setup.only_restrictions() })
    }

    /// The same for a message that names only a session.
    pub(crate) fn extra_params_of(&self, extras: &CallExtras) -> Option<ExtraParams> {
        self.extra_params(extras.version, extras.meta.as_deref(), extras.unknown.as_deref())
    }

    /// The params of a request that is forwarded to the agent: without our own `_meta`, and only with members that acpx
    /// knows if the client may send no others. An error if a duplicate member keeps our own `_meta` from being removed.
    pub(crate) fn forwarded_params<'a>(&self, params: &'a str) -> Result<Cow<'a, str>, CallError> {
        if !self.may_send_extras() {
            return known_params(params).map(Cow::Owned);
        }
        let own_meta = ["_meta", "acpx"];
        if json::is_duplicated(params, &own_meta) {
            return Err(problem("_meta", "or a member of it is given more than once"));
        }
        Ok(json::remove(params, &own_meta).map_or(Cow::Borrowed(params), Cow::Owned))
    }

    /// Parses the client's `_meta`, without fields it may not set.
    pub(crate) fn authorized_meta<T: RestrictedMeta>(&self, meta: Option<&str>) -> Result<T, CallError> {
        let mut meta: T = read_meta(meta)?;
        if let Some(remote) = self.remote.get() {
            meta.restrict(remote);
        }
        Ok(meta)
    }

    /// Whether the client may name the agent of an existing session. A flag can let an agent do everything unasked.
    pub(crate) fn may_name_agent(&self) -> bool {
        !self.is_confined()
    }

    /// Whether the client may see the agent's command line: its arguments may contain secrets.
    pub(crate) fn may_see_command_line(&self) -> bool {
        !self.is_remote()
    }

    /// The agents that the client names for an import. A name could start another program.
    pub(crate) fn import_agents(&self, named: Vec<ConfiguredAgent>) -> Vec<ConfiguredAgent> {
        if self.is_confined() { Vec::new() } else { named }
    }

    /// Whether a record that the client creates is marked as a confined client's.
    pub(crate) fn creates_confined_records(&self) -> bool {
        self.is_confined()
    }

    /// Whether the client may set the additional directories of a session. They are stored and apply to the turns of
    /// others, so a confined client may not, and a remote client only in sessions that it created.
    pub(crate) fn may_set_directories(&self, is_creator: bool) -> bool {
        (is_creator || !self.is_remote())
            && !self.is_confined()
            && self.page().is_none()
            && !self.only_reads()
    }

    /// The additional directories that the client sets for a record; `None` leaves them unchanged. If the client may
    /// not set them, an empty list changes nothing, and a different list is an error.
    pub(crate) fn directories(
        &self,
        record: &Record,
        is_creator: bool,
        wanted: Option<Vec<AbsolutePath>>,
    ) -> Result<Option<Vec<AbsolutePath>>, CallError> {
        if self.may_set_directories(is_creator) {
            return Ok(wanted);
        }
        let wanted = wanted.filter(|wanted| !wanted.is_empty());
        if wanted.as_ref().is_none_or(|wanted| *wanted == record.additional_directories) {
            return Ok(wanted);
        }
        let reason = "is not allowed: the directories of this session are not this client's to change";
        Err(ParamProblem::new("additionalDirectories", reason).into())
    }

    /// How long the client waits for an agent to be ready. A longer wait gives the agent more time to start, so that of
    /// a remote client is limited to the agent's default.
    pub(crate) fn start_wait(&self, start: &StartMeta, agent: &AgentSpec) -> Option<Duration> {
        let wait = start.start_wait()?;
        let limit = || agent.effective_start_timeout(&Profiles::built_in().of(agent, None));
        Some(if self.is_remote() { wait.min(limit()) } else { wait })
    }

    /// Whether the client may see every record: the page, or a local client that named no agent in `initialize`.
    pub(crate) fn can_see_all(&self, own_agent: Option<&AgentSpec>) -> bool {
        (!self.is_remote() || self.page().is_some()) && own_agent.is_none()
    }

    /// Whether the client may see a record. A client that named an agent in `initialize`, as editors do, sees only that
    /// agent's records. A remote client identifies the served agent by its key alone.
    pub(crate) fn can_see(&self, record: &Record, own_agent: Option<&AgentSpec>) -> bool {
        match own_agent {
            None => self.can_see_all(None),
            Some(served) if self.is_remote() => served.key() == record.agent.key(),
            Some(own) => own.is_same_as(&record.agent),
        }
    }

    /// The terms of a turn: those of its prompt, completed by the connection's. A confined client approves nothing, and
    /// stays within the user's limits of usage.
    pub(crate) fn turn_terms(
        &self,
        own: &TurnTermsMeta,
        connection: &TurnTermsMeta,
        usage_limits: &dyn Fn() -> SpendingLimits,
    ) -> Result<TurnTermsMeta, CallError> {
        if own.policy == Some(PermissionMode::ApproveAll) {
            self.check(UserAction::ApproveAll)?;
        }
        if own.tool_policy.is_some() {
            self.check(UserAction::SetToolRules)?;
        }
        let mut terms = own.clone().or(connection);
        if self.is_confined() {
            terms.remove_approvals();
            terms.limit_usage(&usage_limits());
            terms.policy = terms.policy.or(Some(PermissionMode::default()));
        }
        Ok(terms)
    }

    /// Whether the client of a prompt answers the permission requests of its turn. A client that sends a policy is not
    /// interactive by default, and a confined client never is.
    pub(crate) fn is_interactive(&self, prompt: &PromptMeta) -> bool {
        prompt.interactive.unwrap_or(prompt.terms.policy.is_none()) && !self.is_confined()
    }

    /// Whether the client may answer the permission requests of a turn that it joins, as the sender of the same prompt.
    pub(crate) fn may_answer_joined_turn(&self) -> bool {
        !self.is_confined()
    }

    /// Whether the client answers the permission requests of others' turns: it must want updates, and have a user.
    pub(crate) fn is_responder(&self, start: &StartMeta) -> bool {
        !self.is_confined() && self.scope().includes(AccessScope::Answer) && !start.without_updates
    }

    /// The services that the client provides to agents without asking its user. A remote client would use the files of
    /// its own machine, and a confined client may not decide what agents may do.
    pub(crate) fn services(&self, client: &ClientFacts) -> ClientServices {
        if self.is_remote() || self.is_confined() {
            return ClientServices::default();
        }
        ClientServices { fs: client.fs, terminal: client.terminal }
    }

    /// Which logins the client runs in a terminal. A remote client runs none: the agent's command exists only here.
    pub(crate) fn terminal_login(&self, client: &ClientFacts) -> TerminalLogin {
        if self.is_remote() { TerminalLogin::No } else { client.terminal_login }
    }
}

/// The params without members that only an agent may understand, even if their names are escaped.
fn known_params(params: &str) -> Result<String, CallError> {
    let members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(params).map_err(|error| problem("params", error.to_string()))?;
    let known = members.into_iter().filter(|(name, _)| KNOWN_PARAMS.contains(&name.as_str()));
    Ok(serde_json::Value::Object(known.collect()).to_string())
}

fn not_for_the_page(field: &str) -> CallError {
    problem(field, "is not allowed: the page uses only what is configured")
}

/// `_meta` of a client, with fields that only a local client may set.
pub(crate) trait RestrictedMeta: DeserializeOwned + Default {
    /// Removes the fields that this remote client may not set.
    fn restrict(&mut self, remote: &RemoteClientMeta);
}

impl RestrictedMeta for NewMeta {
    fn restrict(&mut self, remote: &RemoteClientMeta) {
        let name = self.agent.take().and_then(|agent| agent.name);
        // Listing the sessions of an agent starts it.
        let page = remote.page.as_ref().filter(|_| remote.scope.is_full());
        self.agent = page.zip(name).and_then(|(page, name)| page.agent(&name));
        self.shell = None;
        self.resume_session = None;
        self.start.restrict(remote);
    }
}

impl RestrictedMeta for RestoreMeta {
    fn restrict(&mut self, remote: &RemoteClientMeta) {
        self.agent = None;
        self.same_directories |= remote.page.is_some();
        if !remote.scope.is_full() {
            // Reading a session starts no agent and changes nothing.
            let start = StartMeta {
                with_seq: self.start.with_seq,
                without_updates: self.start.without_updates,
                ..StartMeta::default()
            };
            let Self { replay_from, replay, .. } = std::mem::take(self);
            *self =
                Self { later: true, same_directories: true, replay_from, replay, start, ..Self::default() };
        }
        self.start.restrict(remote);
    }
}

impl RestrictedMeta for StartMeta {
    fn restrict(&mut self, remote: &RemoteClientMeta) {
        let idle_ms = self.launch.idle_ms.map(|wanted| shorter_idle(wanted, remote.client.launch.idle_ms));
        self.launch = LaunchMeta { idle_ms, login: self.launch.login, ..LaunchMeta::default() };
        self.mcp_source = None;
    }
}

impl RestrictedMeta for CancelMeta {
    /// Any client that sees a session may cancel its turns.
    fn restrict(&mut self, _remote: &RemoteClientMeta) {}
}

impl RestrictedMeta for PromptMeta {
    fn restrict(&mut self, remote: &RemoteClientMeta) {
        if !remote.approve_all {
            self.terms.remove_approvals();
        }
        self.terms.keep_within(&remote.client.terms);
    }
}

/// The shorter of two idle times, where 0 means forever.
fn shorter_idle(wanted: u64, served: Option<u64>) -> u64 {
    match (wanted, served) {
        (0, Some(served)) => served,
        (wanted, Some(0) | None) => wanted,
        (wanted, Some(served)) => wanted.min(served),
    }
}

#[cfg(test)]
mod tests;
