//! The state of a bridge: what it must remember of client and host to continue with another host.
//!
//! It is pure: lines go in, and their routes come out. The kept state is bounded. A request that is not kept is
//! forwarded too, and fails if its host exits before it has answered.

use std::collections::HashMap;

use crate::acp::client_error::for_client;
use crate::acp::{acpx_peer, session_of};
use crate::wire::{Body, RpcError, RpcId, RpcMessage, encode};

use super::edits::{self, UpdateHead};
use super::profile::{BridgeProfile, Greeting, HOSTS_ASKED};
use crate::protocol::host_message::{ACCEPTED, read_accepted};
use crate::protocol::rpc_error;

/// How many requests of the client are kept, and how many sessions.
const KEPT_REQUESTS: usize = 4096;
const KEPT_SESSIONS: usize = 4096;

/// The state of one bridge.
pub(super) struct BridgeState {
    terms: BridgeProfile,
    /// The unique prefix of the ids that the bridge creates.
    prefix: String,
    given_ids: u64,
    /// The `initialize` request that a host has answered.
    greeting: Option<RpcMessage>,
    wishes: Wishes,
    sessions: HashMap<String, SessionSetupParams>,
    /// The number of the last event that the client received, by session.
    told: HashMap<String, u64>,
    open: HashMap<RpcId, OpenRequest>,
    /// The agent's pending requests: from the id that the client knows to the host's id.
    questions: HashMap<RpcId, RpcId>,
    own: HashMap<RpcId, BridgeRequest>,
    /// Counts requests, to keep their order.
    asked: u64,
    kept_bytes: usize,
    /// Whether there was an earlier host. The ids of its requests may be reused.
    is_another_host: bool,
    /// Whether the client was notified that the connection to the host is lost.
    is_away: bool,
}

/// The client's requested extensions.
struct Wishes {
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
    told_before: Option<u64>,
    /// Set for a prompt.
    named: Option<OpenPrompt>,
    is_cancelled: bool,
    hosts: u32,
}

/// A prompt with a request id.
struct OpenPrompt {
    name: String,
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
    pub(super) fn new(terms: BridgeProfile) -> Self {
        Self {
            // The client of a bridge to a remote host is a host.
            wishes: Wishes { seq: false, error_data: terms.loses_lines },
            terms,
            prefix: format!("acpx-{}", crate::wire::new_uuid()),
            given_ids: 0,
            greeting: None,
            sessions: HashMap::new(),
            told: HashMap::new(),
            open: HashMap::new(),
            questions: HashMap::new(),
            own: HashMap::new(),
            asked: 0,
            kept_bytes: 0,
            is_another_host: false,
            is_away: false,
        }
    }

    /// Whether the bridge can continue with another host.
    pub(super) fn can_go_on(&self) -> bool {
        self.terms.is_host
    }

    /// Routes a line of the client.
    pub(super) fn client_says(&mut self, message: &RpcMessage) -> LineRoute {
        match message.body() {
            Body::Request { id, method, .. } => self.request(id, method, message),
            Body::Notification { method, .. } => {
                self.note_cancellation(method, message);
                LineRoute::ToHost(message.line().to_string())
            }
            Body::Response { id, .. } => match self.questions.remove(id) {
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
    pub(super) fn host_says(&mut self, message: &RpcMessage) -> LineRoute {
        match message.body() {
            Body::Request { id, .. } => self.question(id, message),
            Body::Notification { method, .. } => self.notification(method, message),
            Body::Response { id, .. } => {
                if let Some(own) = self.own.remove(id) {
                    return LineRoute::Own(own, message.error().map(Into::into));
                }
                if let Some(asked) = self.forget(id) {
                    self.answered(&asked, message);
                }
                let is_error = message.error().is_some();
                let line = is_error.then(|| self.error_for_client(message)).flatten();
                LineRoute::ToClient(line.unwrap_or_else(|| message.line().to_string()))
            }
        }
    }

    /// A line with its error reduced for the client, if that changes it.
    fn error_for_client(&self, message: &RpcMessage) -> Option<String> {
        if self.wishes.error_data { None } else { edits::with_error_for_client(message) }
    }

    /// The host has exited: returns cancellations of the agent's pending requests, for the client.
    pub(super) fn host_is_gone(&mut self) -> Vec<String> {
        self.own.clear();
        self.is_another_host = true;
        self.questions.drain().map(|(id, _)| edits::withdrawal(&id)).collect()
    }

    /// The host is not reached at once: the notification for the client, if it has not received it yet.
    pub(super) fn is_away(&mut self) -> Option<String> {
        let is_told = !self.terms.loses_lines || std::mem::replace(&mut self.is_away, true);
        (!is_told).then(|| encode::notification(acpx_peer::AWAY, "{}"))
    }

    /// The host is reached again: the notification for the client.
    pub(super) fn is_back(&mut self) -> Option<String> {
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
            let last = self.told.get(session).copied();
            Some((session.clone(), edits::resume_params(params, session, last, true)?))
        });
        let resumes: Vec<_> = resumes.collect();
        let line = |(session, params): (String, String)| {
            encode::request(&self.own_id(BridgeRequest::Resume(session)), "session/resume", &params)
        };
        resumes.into_iter().map(line).collect()
    }

    /// Whether a request of the bridge itself is pending.
    pub(super) fn awaits(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether a request is pending that needs no turn, or a prompt that is not accepted yet.
    pub(super) fn owes(&self) -> bool {
        self.open.values().any(|asked| !asked.named.as_ref().is_some_and(|prompt| prompt.is_accepted))
    }

    /// Drops a session that no host knows any more.
    pub(super) fn forget_session(&mut self, session: &str) {
        self.told.remove(session);
        self.forget_setup(session);
    }

    /// The pending requests, to be re-sent to another host; those that cannot be repeated are answered with an error.
    pub(super) fn asked_again(&mut self) -> Vec<LineRoute> {
        self.open_in_order().into_iter().flat_map(|id| self.ask_again(&id)).collect()
    }

    /// Answers all pending requests with this error.
    pub(super) fn give_up(&mut self, error: &RpcError) -> Vec<String> {
        self.open_in_order().into_iter().map(|id| self.refuse(&id, error)).collect()
    }

    /// Answers one request with this error.
    pub(super) fn refuse(&mut self, id: &RpcId, error: &RpcError) -> String {
        if let Some(asked) = self.forget(id) {
            self.not_replayed(&asked);
        }
        encode::error_response(id, &for_client(error.clone(), self.wishes.error_data))
    }

    fn request(&mut self, id: &RpcId, method: &str, message: &RpcMessage) -> LineRoute {
        let line = match method {
            "initialize" => {
                // The client of a bridge to a remote host stores the events and continues from their numbers.
                self.wishes.seq = edits::wants_seq(message) || self.terms.loses_lines;
                self.wishes.error_data = edits::wants_error_data(message) || self.terms.loses_lines;
                match &self.terms.greeting {
                    Greeting::Client(client) => edits::with_client(message, client),
                    Greeting::Numbers => edits::with_numbers(message),
                    Greeting::Nothing => edits::with_error_data(message),
                }
            }
            "session/prompt" if self.terms.is_host => {
                let given = self.given_id();
                edits::with_request_id(message, &given)
            }
            _ => None,
        };
        let sent = line.and_then(|line| RpcMessage::parse(line).ok()).unwrap_or_else(|| message.clone());
        let line = sent.line().to_string();
        if self.open.len() < KEPT_REQUESTS && !self.open.contains_key(id) {
            let name = if method == "session/prompt" { edits::request_id_of(&sent) } else { None };
            let named = name.map(|name| OpenPrompt { name, is_accepted: false });
            let room = self.terms.most_bytes.saturating_sub(self.kept_bytes);
            let request = Some(sent).filter(|sent| sent.line().len() <= room);
            self.kept_bytes += request.as_ref().map_or(0, |request| request.line().len());
            let session = message.params().and_then(session_of);
            let replays = edits::replays(method, message);
            // The replay starts anew, so the client's position is reset.
            let told_before = session.as_ref().filter(|_| replays).and_then(|it| self.told.remove(it));
            let (order, method, hosts) = (self.asked, method.into(), 1);
            self.asked += 1;
            let asked = OpenRequest {
                order,
                method,
                request,
                session,
                replays,
                told_before,
                named,
                is_cancelled: false,
                hosts,
            };
            self.open.insert(id.clone(), asked);
        }
        LineRoute::ToHost(line)
    }

    fn note_cancellation(&mut self, method: &str, message: &RpcMessage) {
        let session = if method == "session/cancel" { message.params().and_then(session_of) } else { None };
        let request = if method == edits::CANCEL_REQUEST { edits::withdrawn(message) } else { None };
        if session.is_none() && request.is_none() {
            return;
        }
        let named = edits::request_id_of(message);
        for (id, asked) in &mut self.open {
            let is_prompt = &*asked.method == "session/prompt";
            let is_named =
                named.is_none() || asked.named.as_ref().map(|prompt| &prompt.name) == named.as_ref();
            let is_meant = is_prompt && is_named && session.is_some() && asked.session == session;
            asked.is_cancelled |= is_meant || request.as_ref() == Some(id);
        }
    }

    fn question(&mut self, id: &RpcId, message: &RpcMessage) -> LineRoute {
        if !self.is_another_host {
            self.questions.insert(id.clone(), id.clone());
            return LineRoute::ToClient(message.line().to_string());
        }
        // The client may still answer a request of the previous host with the same id.
        let known = RpcId::from_string(&self.given_id());
        let line = edits::with_id(message, &known);
        self.questions.insert(known, id.clone());
        line.map_or(LineRoute::Nothing, LineRoute::ToClient)
    }

    fn notification(&mut self, method: &str, message: &RpcMessage) -> LineRoute {
        let as_it_is = || LineRoute::ToClient(message.line().to_string());
        match method {
            "session/update" => self.update(message),
            edits::CANCEL_REQUEST => match edits::withdrawn(message) {
                Some(request) => self.withdraw_question(&request),
                None => as_it_is(),
            },
            // Only this bridge knows the state of its connection.
            acpx_peer::AWAY | acpx_peer::BACK => LineRoute::Nothing,
            // It reports the client's own turn, which this host cannot attribute to the client yet.
            acpx_peer::STATE if self.is_about_own_prompt(message) => LineRoute::Nothing,
            // The client does not know a request id that the bridge created.
            ACCEPTED if self.accepted_one_named_here(message) || self.terms.loses_lines => LineRoute::Nothing,
            _ => as_it_is(),
        }
    }

    fn update(&mut self, message: &RpcMessage) -> LineRoute {
        let as_it_is = || LineRoute::ToClient(message.line().to_string());
        let Some(update) = UpdateHead::read(message) else { return as_it_is() };
        let session = &*update.session;
        let is_meant = |asked: &OpenRequest| asked.replays && asked.session.as_deref() == Some(session);
        let is_replay = self.open.values().any(is_meant);
        let is_own = |name: &str| !is_replay && self.has_asked(session, name);
        let is_own = update.words_of.as_deref().is_some_and(is_own);
        if let Some(seq) = update.seq {
            self.note_told(session, seq);
        }
        if is_own {
            // It echoes the client's own prompt, sent to an earlier host; this host cannot attribute it to the client
            // yet.
            return LineRoute::Nothing;
        }
        // The end of a turn keeps its event number for every client.
        let line = if edits::ends_turn(message) {
            self.error_for_client(message)
        } else if update.seq.is_none() || self.wishes.seq {
            None
        } else {
            update.without_seq(is_replay)
        };
        line.map_or_else(as_it_is, LineRoute::ToClient)
    }

    /// Stores the last event that the client received.
    fn note_told(&mut self, session: &str, seq: u64) {
        match self.told.get_mut(session) {
            Some(told) => *told = seq,
            None => drop(self.told.insert(session.to_owned(), seq)),
        }
    }

    /// The host cancelled a request: forwards that to the client.
    fn withdraw_question(&mut self, host_id: &RpcId) -> LineRoute {
        let withdrawn = self.questions.extract_if(|_, id| id == host_id).next();
        withdrawn.map_or(LineRoute::Nothing, |(known, _)| LineRoute::ToClient(edits::withdrawal(&known)))
    }

    /// Marks a prompt as accepted; returns whether the bridge created its request id.
    fn accepted_one_named_here(&mut self, message: &RpcMessage) -> bool {
        let accepted = message.params().and_then(read_accepted);
        let Some(crate::protocol::HostMessage::Accepted { request, .. }) = accepted else { return false };
        let mut prompts = self.open.values_mut().filter_map(|asked| asked.named.as_mut());
        if let Some(prompt) = prompts.find(|prompt| prompt.name == request) {
            prompt.is_accepted = true;
        }
        request.starts_with(&self.prefix)
    }

    /// Whether a notification is about a prompt that the client waits for.
    fn is_about_own_prompt(&self, message: &RpcMessage) -> bool {
        let params = message.params().unwrap_or_default();
        let named = session_of(params).zip(acpx_peer::prompt_of(params));
        named.is_some_and(|(session, name)| self.has_asked(&session, &name))
    }

    /// Whether the client waits for the response to the prompt with this request id.
    fn has_asked(&self, session: &str, name: &str) -> bool {
        let is_meant = |asked: &OpenRequest| {
            let is_named = asked.named.as_ref().is_some_and(|prompt| prompt.name == name);
            is_named && asked.session.as_deref() == Some(session)
        };
        self.open.values().any(is_meant)
    }

    fn answered(&mut self, asked: &OpenRequest, message: &RpcMessage) {
        if let Some(session) = asked.session.as_ref().filter(|_| &*asked.method == "session/prompt") {
            self.tell_of(session, message);
        }
        let Some(result) = message.result() else { return self.not_replayed(asked) };
        match &*asked.method {
            "initialize" => {
                self.terms.is_host |= acpx_peer::is_host(result);
                self.greeting.clone_from(&asked.request);
            }
            "session/new" | "session/fork" => {
                if let Some(session) = session_of(result) {
                    // Every event of a new session is new to the client.
                    self.told.entry(session.clone()).or_insert(0);
                    self.active(session, asked);
                }
            }
            "session/load" | "session/resume" => {
                if let Some(session) = &asked.session {
                    self.tell_of(session, message);
                    self.active(session.clone(), asked);
                }
            }
            "session/close" | "session/delete" => {
                if let Some(session) = &asked.session {
                    self.forget_session(session);
                }
            }
            _ => {}
        }
    }

    /// A replay failed: restores the client's earlier position.
    fn not_replayed(&mut self, asked: &OpenRequest) {
        let Some(session) = asked.session.as_ref().filter(|_| asked.replays) else { return };
        match asked.told_before {
            Some(before) => {
                let told = self.told.entry(session.clone()).or_insert(before);
                *told = before.max(*told);
            }
            // Without a session there is no position to continue from.
            None if !self.sessions.contains_key(session) => drop(self.told.remove(session)),
            None => {}
        }
    }

    /// Advances the client's position to the event number in a response.
    fn tell_of(&mut self, session: &str, answer: &RpcMessage) {
        if let Some(seq) = acpx_peer::seq_of_answer(answer) {
            let told = self.told.entry(session.to_owned()).or_insert(seq);
            *told = seq.max(*told);
        }
    }

    fn active(&mut self, session: String, asked: &OpenRequest) {
        self.forget_setup(&session);
        let params = asked.request.as_ref().and_then(RpcMessage::params).unwrap_or_default();
        let has_room =
            self.sessions.len() < KEPT_SESSIONS && self.kept_bytes + params.len() <= self.terms.most_bytes;
        if has_room && !params.is_empty() {
            self.kept_bytes += params.len();
            self.sessions.insert(session, SessionSetupParams(params.into()));
        }
    }

    fn forget_setup(&mut self, session: &str) {
        if let Some(SessionSetupParams(params)) = self.sessions.remove(session) {
            self.kept_bytes -= params.len();
        }
    }

    fn ask_again(&mut self, id: &RpcId) -> Vec<LineRoute> {
        let Some(asked) = self.open.get_mut(id) else { return Vec::new() };
        let is_kept = asked.named.as_ref().is_some_and(|prompt| prompt.is_accepted);
        if !(self.terms.loses_lines && is_kept) {
            asked.hosts += 1;
        }
        let can_be_repeated = !matches!(&*asked.method, "session/new" | "session/fork")
            && !asked.method.starts_with('_')
            && asked.hosts <= HOSTS_ASKED;
        let Some(request) = asked.request.clone().filter(|_| can_be_repeated) else {
            let error = rpc_error::unanswered(&asked.method);
            return vec![LineRoute::ToClient(self.refuse(id, &error))];
        };
        let mut lines = vec![LineRoute::ToHost(taken_up(id, asked, &request, &self.told))];
        if asked.is_cancelled {
            lines.push(LineRoute::ToHost(edits::withdrawal(id)));
        }
        lines
    }

    fn open_in_order(&self) -> Vec<RpcId> {
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_unstable_by_key(|(_, asked)| asked.order);
        open.into_iter().map(|(id, _)| id.clone()).collect()
    }

    fn forget(&mut self, id: &RpcId) -> Option<OpenRequest> {
        let asked = self.open.remove(id)?;
        self.kept_bytes -= asked.request.as_ref().map_or(0, |request| request.line().len());
        Some(asked)
    }

    fn own_id(&mut self, own: BridgeRequest) -> RpcId {
        let id = RpcId::from_string(&self.given_id());
        self.own.insert(id.clone(), own);
        id
    }

    fn given_id(&mut self) -> String {
        self.given_ids += 1;
        format!("{}-{}", self.prefix, self.given_ids)
    }
}

/// A pending request for another host. If its replay has begun, it continues after the client's last event.
fn taken_up(id: &RpcId, asked: &OpenRequest, request: &RpcMessage, told: &HashMap<String, u64>) -> String {
    let resume = || {
        let session = asked.session.as_ref().filter(|_| asked.replays)?;
        let last = *told.get(session)?;
        let params = edits::resume_params(request.params()?, session, Some(last), false)?;
        Some(encode::request(id, "session/resume", &params))
    };
    resume().unwrap_or_else(|| request.line().to_string())
}

#[cfg(test)]
mod tests;
