//! The state of a bridge: what it must remember of client and host to continue with another host.
//!
//! It is pure: lines go in, and their routes come out. The kept state is bounded. A request that is not kept is
//! forwarded too, and fails if its host exits before it has answered.

use std::collections::HashMap;

use crate::acp::client_error::for_client;
use crate::acp::{acpx_peer, session_of};
use crate::wire::{Body, RpcError, RpcId, RpcMessage, encode};

use super::edits::{self, UpdateHead};
use super::profile::{BridgeProfile, Greeting, MAX_HOSTS};
use crate::protocol::host_message::{ACCEPTED, read_accepted};
use crate::protocol::rpc_error;

/// How many requests of the client are kept, and how many sessions.
const KEPT_REQUESTS: usize = 4096;
const KEPT_SESSIONS: usize = 4096;

/// The state of one bridge.
pub(super) struct BridgeState {
    profile: BridgeProfile,
    /// The unique prefix of the ids that the bridge creates.
    prefix: String,
    last_id: u64,
    /// The `initialize` request that a host has answered.
    greeting: Option<RpcMessage>,
    extensions: RequestedExtensions,
    sessions: HashMap<String, SessionSetupParams>,
    /// The number of the last event that the client received, by session.
    delivered: HashMap<String, u64>,
    open: HashMap<RpcId, OpenRequest>,
    /// The agent's pending requests: from the id that the client knows to the host's id.
    agent_requests: HashMap<RpcId, RpcId>,
    own: HashMap<RpcId, BridgeRequest>,
    /// Counts requests, to keep their order.
    request_count: u64,
    kept_bytes: usize,
    /// Whether there was an earlier host. The ids of its requests may be reused.
    is_another_host: bool,
    /// Whether the client was notified that the connection to the host is lost.
    is_away: bool,
}

/// The client's requested extensions.
struct RequestedExtensions {
    /// Event numbers.
    seq: bool,
    /// All data of an error.
    error_data: bool,
}

/// The params that a session was set up with.
struct SessionSetupParams(Box<str>);

/// A request of the client that has no answer yet.
struct OpenRequest {
    order: u64,
    method: Box<str>,
    /// The request as sent to the host, unless it exceeds the space.
    request: Option<RpcMessage>,
    session: Option<String>,
    /// Whether the conversation is replayed before the answer.
    replays: bool,
    /// The client's last event before the replay.
    delivered_before: Option<u64>,
    /// Set for a prompt.
    prompt: Option<OpenPrompt>,
    is_cancelled: bool,
    /// How many hosts got it.
    hosts: u32,
}

/// A prompt with a request id.
struct OpenPrompt {
    request_id: String,
    /// Whether the host has persisted it, so that it runs even without a client.
    is_accepted: bool,
}

/// A request of the bridge's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BridgeRequest {
    /// Initializes the next host.
    Initialize,
    /// Resumes this session.
    Resume(String),
}

/// Where a line goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRoute {
    /// To the host.
    ToHost(String),
    /// To the client.
    ToClient(String),
    /// It answers a request of the bridge itself, with this error if it failed.
    Own(BridgeRequest, Option<Box<str>>),
    /// It is dropped.
    Nothing,
}

impl BridgeState {
    /// The initial state.
    pub(super) fn new(profile: BridgeProfile) -> Self {
        Self {
            // The client of a bridge to a remote host is a host.
            extensions: RequestedExtensions { seq: false, error_data: profile.may_lose_connection },
            profile,
            prefix: format!("acpx-{}", crate::wire::new_uuid()),
            last_id: 0,
            greeting: None,
            sessions: HashMap::new(),
            delivered: HashMap::new(),
            open: HashMap::new(),
            agent_requests: HashMap::new(),
            own: HashMap::new(),
            request_count: 0,
            kept_bytes: 0,
            is_another_host: false,
            is_away: false,
        }
    }

    /// Whether the bridge can continue with another host.
    pub(super) fn can_continue(&self) -> bool {
        self.profile.is_host && !self.profile.ends_with_host
    }

    /// Routes a line of the client.
    pub(super) fn on_client_message(&mut self, message: &RpcMessage) -> LineRoute {
        match message.body() {
            Body::Request { id, method, .. } => self.request(id, method, message),
            Body::Notification { method, .. } => {
                self.on_cancellation(method, message);
                LineRoute::ToHost(message.line().to_string())
            }
            Body::Response { id, .. } => match self.agent_requests.remove(id) {
                Some(host_id) if host_id == *id => LineRoute::ToHost(message.line().to_string()),
                Some(host_id) => {
                    edits::with_id(message, &host_id).map_or(LineRoute::Nothing, LineRoute::ToHost)
                }
                // The host that sent the request has exited.
                None => LineRoute::Nothing,
            },
        }
    }

    /// Routes a line of the host.
    pub(super) fn on_host_message(&mut self, message: &RpcMessage) -> LineRoute {
        match message.body() {
            Body::Request { id, .. } => self.agent_request(id, message),
            Body::Notification { method, .. } => self.notification(method, message),
            Body::Response { id, .. } => {
                if let Some(own) = self.own.remove(id) {
                    return LineRoute::Own(own, message.error().map(Into::into));
                }
                if let Some(pending) = self.remove_request(id) {
                    self.on_response(&pending, message);
                }
                let is_error = message.error().is_some();
                let line = is_error.then(|| self.error_for_client(message)).flatten();
                LineRoute::ToClient(line.unwrap_or_else(|| message.line().to_string()))
            }
        }
    }

    /// A line with its error reduced for the client, if that changes it.
    fn error_for_client(&self, message: &RpcMessage) -> Option<String> {
        if self.extensions.error_data { None } else { edits::with_error_for_client(message) }
    }

    /// The host has exited: returns cancellations of the agent's pending requests, for the client.
    pub(super) fn on_host_exit(&mut self) -> Vec<String> {
        self.own.clear();
        self.is_another_host = true;
        self.agent_requests.drain().map(|(id, _)| encode::cancel_request(&id)).collect()
    }

    /// The host is not reached at once: the notification for the client, if it has not received it yet.
    pub(super) fn on_unreachable(&mut self) -> Option<String> {
        let is_notified = !self.profile.may_lose_connection || std::mem::replace(&mut self.is_away, true);
        (!is_notified).then(|| encode::notification(acpx_peer::AWAY, "{}"))
    }

    /// The host is reached again: the notification for the client.
    pub(super) fn on_reachable(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_away).then(|| encode::notification(acpx_peer::BACK, "{}"))
    }

    /// The `initialize` for another host, if one was answered before.
    pub(super) fn greeting(&mut self) -> Option<String> {
        let greeting = self.greeting.clone()?;
        let id = self.own_id(BridgeRequest::Initialize);
        edits::with_id(&greeting, &id)
    }

    /// Requests that resume every session after the client's last event.
    pub(super) fn resumes(&mut self) -> Vec<String> {
        let mut sessions: Vec<_> = self.sessions.iter().collect();
        sessions.sort_unstable_by_key(|(session, _)| session.as_str());
        let resumes = sessions.into_iter().filter_map(|(session, SessionSetupParams(params))| {
            let last = self.delivered.get(session).copied();
            Some((session.clone(), edits::resume_params(params, session, last, true)?))
        });
        let resumes: Vec<_> = resumes.collect();
        let line = |(session, params): (String, String)| {
            encode::request(&self.own_id(BridgeRequest::Resume(session)), "session/resume", &params)
        };
        resumes.into_iter().map(line).collect()
    }

    /// Whether a request of the bridge itself is pending.
    pub(super) fn has_own_pending(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether a request is pending that needs no turn, or a prompt that is not accepted yet.
    pub(super) fn has_unanswered(&self) -> bool {
        self.open.values().any(|pending| !pending.prompt.as_ref().is_some_and(|prompt| prompt.is_accepted))
    }

    /// Drops a session that no host knows any more.
    pub(super) fn remove_session(&mut self, session: &str) {
        self.delivered.remove(session);
        self.remove_setup(session);
    }

    /// The pending requests, to be re-sent to another host; those that cannot be repeated are answered with an error.
    pub(super) fn resent_requests(&mut self) -> Vec<LineRoute> {
        self.open_requests_in_order().into_iter().flat_map(|id| self.resend(&id)).collect()
    }

    /// Answers all pending requests with this error.
    pub(super) fn fail_all(&mut self, error: &RpcError) -> Vec<String> {
        self.open_requests_in_order().into_iter().map(|id| self.fail(&id, error)).collect()
    }

    /// Answers one request with this error.
    pub(super) fn fail(&mut self, id: &RpcId, error: &RpcError) -> String {
        if let Some(pending) = self.remove_request(id) {
            self.on_replay_failed(&pending);
        }
        encode::error_response(id, &for_client(error.clone(), self.extensions.error_data))
    }

    fn request(&mut self, id: &RpcId, method: &str, message: &RpcMessage) -> LineRoute {
        let line = match method {
            "initialize" => {
                // The client of a bridge to a remote host stores the events and continues from their numbers.
                self.extensions.seq = edits::wants_seq(message) || self.profile.may_lose_connection;
                self.extensions.error_data =
                    edits::wants_error_data(message) || self.profile.may_lose_connection;
                match &self.profile.greeting {
                    Greeting::Client(client) => edits::with_client(message, client),
                    Greeting::Numbers => edits::with_numbers(message),
                    Greeting::Nothing => edits::with_error_data(message),
                }
            }
            "session/prompt" if self.profile.is_host => {
                let given = self.new_id();
                edits::with_request_id(message, &given)
            }
            _ => None,
        };
        let sent = line.and_then(|line| RpcMessage::parse(line).ok()).unwrap_or_else(|| message.clone());
        let line = sent.line().to_string();
        if self.open.len() < KEPT_REQUESTS && !self.open.contains_key(id) {
            let request_id = if method == "session/prompt" { edits::request_id_of(&sent) } else { None };
            let prompt = request_id.map(|request_id| OpenPrompt { request_id, is_accepted: false });
            let room = self.profile.max_bytes.saturating_sub(self.kept_bytes);
            let request = Some(sent).filter(|sent| sent.line().len() <= room);
            self.kept_bytes += request.as_ref().map_or(0, |request| request.line().len());
            let session = message.params().and_then(session_of);
            let replays = edits::replays(method, message);
            // The replay starts anew, so the client's position is reset.
            let delivered_before =
                session.as_ref().filter(|_| replays).and_then(|it| self.delivered.remove(it));
            let (order, method, hosts) = (self.request_count, method.into(), 1);
            self.request_count += 1;
            let pending = OpenRequest {
                order,
                method,
                request,
                session,
                replays,
                delivered_before,
                prompt,
                is_cancelled: false,
                hosts,
            };
            self.open.insert(id.clone(), pending);
        }
        LineRoute::ToHost(line)
    }

    fn on_cancellation(&mut self, method: &str, message: &RpcMessage) {
        let session = if method == "session/cancel" { message.params().and_then(session_of) } else { None };
        let request = if method == encode::CANCEL_REQUEST { edits::withdrawn(message) } else { None };
        if session.is_none() && request.is_none() {
            return;
        }
        let named = edits::request_id_of(message);
        for (id, pending) in &mut self.open {
            let is_prompt = &*pending.method == "session/prompt";
            let is_named =
                named.is_none() || pending.prompt.as_ref().map(|prompt| &prompt.request_id) == named.as_ref();
            let matches = is_prompt && is_named && session.is_some() && pending.session == session;
            pending.is_cancelled |= matches || request.as_ref() == Some(id);
        }
    }

    fn agent_request(&mut self, id: &RpcId, message: &RpcMessage) -> LineRoute {
        if !self.is_another_host {
            self.agent_requests.insert(id.clone(), id.clone());
            return LineRoute::ToClient(message.line().to_string());
        }
        // The client may still answer a request of the previous host with the same id.
        let known = RpcId::from_string(&self.new_id());
        let line = edits::with_id(message, &known);
        self.agent_requests.insert(known, id.clone());
        line.map_or(LineRoute::Nothing, LineRoute::ToClient)
    }

    fn notification(&mut self, method: &str, message: &RpcMessage) -> LineRoute {
        let as_it_is = || LineRoute::ToClient(message.line().to_string());
        match method {
            "session/update" => self.update(message),
            encode::CANCEL_REQUEST => match edits::withdrawn(message) {
                Some(request) => self.withdraw_request(&request),
                None => as_it_is(),
            },
            // Only this bridge knows the state of its connection.
            acpx_peer::AWAY | acpx_peer::BACK => LineRoute::Nothing,
            // It reports the client's own turn, which this host cannot attribute to the client yet.
            acpx_peer::STATE if self.concerns_own_prompt(message) => LineRoute::Nothing,
            // The client does not know a request id that the bridge created.
            ACCEPTED if self.on_accepted(message) || self.profile.may_lose_connection => LineRoute::Nothing,
            _ => as_it_is(),
        }
    }

    fn update(&mut self, message: &RpcMessage) -> LineRoute {
        let as_it_is = || LineRoute::ToClient(message.line().to_string());
        let Some(update) = UpdateHead::read(message) else { return as_it_is() };
        let session = &*update.session;
        let matches = |pending: &OpenRequest| pending.replays && pending.session.as_deref() == Some(session);
        let is_replay = self.open.values().any(matches);
        let is_own = |request_id: &str| !is_replay && self.awaits_prompt(session, request_id);
        let is_own = update.echoed_request.as_deref().is_some_and(is_own);
        if let Some(seq) = update.seq {
            self.on_delivered(session, seq);
        }
        if is_own {
            // It echoes the client's own prompt, sent to an earlier host; this host cannot attribute it to the client
            // yet.
            return LineRoute::Nothing;
        }
        // The end of a turn keeps its event number for every client.
        let line = if edits::ends_turn(message) {
            self.error_for_client(message)
        } else if update.seq.is_none() || self.extensions.seq {
            None
        } else {
            update.without_seq(is_replay)
        };
        line.map_or_else(as_it_is, LineRoute::ToClient)
    }

    /// Stores the last event that the client received.
    fn on_delivered(&mut self, session: &str, seq: u64) {
        match self.delivered.get_mut(session) {
            Some(last) => *last = seq,
            None => drop(self.delivered.insert(session.to_owned(), seq)),
        }
    }

    /// The host cancelled a request: forwards that to the client.
    fn withdraw_request(&mut self, host_id: &RpcId) -> LineRoute {
        let withdrawn = self.agent_requests.extract_if(|_, id| id == host_id).next();
        withdrawn.map_or(LineRoute::Nothing, |(known, _)| LineRoute::ToClient(encode::cancel_request(&known)))
    }

    /// Marks a prompt as accepted; returns whether the bridge created its request id.
    fn on_accepted(&mut self, message: &RpcMessage) -> bool {
        let accepted = message.params().and_then(read_accepted);
        let Some(crate::protocol::HostMessage::Accepted { request, .. }) = accepted else { return false };
        let mut prompts = self.open.values_mut().filter_map(|pending| pending.prompt.as_mut());
        if let Some(prompt) = prompts.find(|prompt| prompt.request_id == request) {
            prompt.is_accepted = true;
        }
        request.starts_with(&self.prefix)
    }

    /// Whether a notification is about a prompt that the client waits for.
    fn concerns_own_prompt(&self, message: &RpcMessage) -> bool {
        let params = message.params().unwrap_or_default();
        let named = session_of(params).zip(acpx_peer::prompt_of(params));
        named.is_some_and(|(session, request_id)| self.awaits_prompt(&session, &request_id))
    }

    /// Whether the client waits for the response to the prompt with this request id.
    fn awaits_prompt(&self, session: &str, request_id: &str) -> bool {
        let matches = |pending: &OpenRequest| {
            let is_named = pending.prompt.as_ref().is_some_and(|prompt| prompt.request_id == request_id);
            is_named && pending.session.as_deref() == Some(session)
        };
        self.open.values().any(matches)
    }

    fn on_response(&mut self, pending: &OpenRequest, message: &RpcMessage) {
        if let Some(session) = pending.session.as_ref().filter(|_| &*pending.method == "session/prompt") {
            self.advance_to_response(session, message);
        }
        let Some(result) = message.result() else { return self.on_replay_failed(pending) };
        match &*pending.method {
            "initialize" => {
                self.profile.is_host |= acpx_peer::is_host(result);
                self.greeting.clone_from(&pending.request);
            }
            "session/new" | "session/fork" => {
                if let Some(session) = session_of(result) {
                    // Every event of a new session is new to the client.
                    self.delivered.entry(session.clone()).or_insert(0);
                    self.on_session_ready(session, pending);
                }
            }
            "session/load" | "session/resume" => {
                if let Some(session) = &pending.session {
                    self.advance_to_response(session, message);
                    self.on_session_ready(session.clone(), pending);
                }
            }
            "session/close" | "session/delete" | "_acpx/detach" => {
                if let Some(session) = &pending.session {
                    self.remove_session(session);
                }
            }
            _ => {}
        }
    }

    /// A replay failed: restores the client's earlier position.
    fn on_replay_failed(&mut self, pending: &OpenRequest) {
        let Some(session) = pending.session.as_ref().filter(|_| pending.replays) else { return };
        match pending.delivered_before {
            Some(before) => {
                let last = self.delivered.entry(session.clone()).or_insert(before);
                *last = before.max(*last);
            }
            // Without a session there is no position to continue from.
            None if !self.sessions.contains_key(session) => drop(self.delivered.remove(session)),
            None => {}
        }
    }

    /// Advances the client's position to the event number in a response.
    fn advance_to_response(&mut self, session: &str, answer: &RpcMessage) {
        if let Some(seq) = acpx_peer::seq_of_answer(answer) {
            let last = self.delivered.entry(session.to_owned()).or_insert(seq);
            *last = seq.max(*last);
        }
    }

    fn on_session_ready(&mut self, session: String, pending: &OpenRequest) {
        self.remove_setup(&session);
        let params = pending.request.as_ref().and_then(RpcMessage::params).unwrap_or_default();
        let has_room =
            self.sessions.len() < KEPT_SESSIONS && self.kept_bytes + params.len() <= self.profile.max_bytes;
        if has_room && !params.is_empty() {
            self.kept_bytes += params.len();
            self.sessions.insert(session, SessionSetupParams(params.into()));
        }
    }

    fn remove_setup(&mut self, session: &str) {
        if let Some(SessionSetupParams(params)) = self.sessions.remove(session) {
            self.kept_bytes -= params.len();
        }
    }

    fn resend(&mut self, id: &RpcId) -> Vec<LineRoute> {
        let Some(pending) = self.open.get_mut(id) else { return Vec::new() };
        let is_accepted = pending.prompt.as_ref().is_some_and(|prompt| prompt.is_accepted);
        if !(self.profile.may_lose_connection && is_accepted) {
            pending.hosts += 1;
        }
        let can_be_repeated = !matches!(&*pending.method, "session/new" | "session/fork")
            && !pending.method.starts_with('_')
            && pending.hosts <= MAX_HOSTS;
        let Some(request) = pending.request.clone().filter(|_| can_be_repeated) else {
            let error = rpc_error::unanswered(&pending.method);
            return vec![LineRoute::ToClient(self.fail(id, &error))];
        };
        let mut lines = vec![LineRoute::ToHost(resent_line(id, pending, &request, &self.delivered))];
        if pending.is_cancelled {
            lines.push(LineRoute::ToHost(encode::cancel_request(id)));
        }
        lines
    }

    fn open_requests_in_order(&self) -> Vec<RpcId> {
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_unstable_by_key(|(_, pending)| pending.order);
        open.into_iter().map(|(id, _)| id.clone()).collect()
    }

    fn remove_request(&mut self, id: &RpcId) -> Option<OpenRequest> {
        let pending = self.open.remove(id)?;
        self.kept_bytes -= pending.request.as_ref().map_or(0, |request| request.line().len());
        Some(pending)
    }

    fn own_id(&mut self, own: BridgeRequest) -> RpcId {
        let id = RpcId::from_string(&self.new_id());
        self.own.insert(id.clone(), own);
        id
    }

    fn new_id(&mut self) -> String {
        self.last_id += 1;
        format!("{}-{}", self.prefix, self.last_id)
    }
}

/// A pending request for another host. If its replay has begun, it continues after the client's last event.
fn resent_line(
    id: &RpcId,
    pending: &OpenRequest,
    request: &RpcMessage,
    delivered: &HashMap<String, u64>,
) -> String {
    let resume = || {
        let session = pending.session.as_ref().filter(|_| pending.replays)?;
        let last = *delivered.get(session)?;
        let params = edits::resume_params(request.params()?, session, Some(last), false)?;
        Some(encode::request(id, "session/resume", &params))
    };
    resume().unwrap_or_else(|| request.line().to_string())
}

#[cfg(test)]
mod tests;
