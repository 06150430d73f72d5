//! Runs one request, from its checked call to its reply.
//!
//! This module keeps the order of messages: a handler's updates, its reply, then its remaining updates. The reply of a
//! turn precedes the reply to the close that ended it, which precedes all messages of a later restore. A panicking
//! handler counts as failed, and its error reply keeps its position.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use super::call::{
    CallExtras, ExtensionCall, ForkCall, LOAD, ListCall, LoginCall, NewCall, OptionValue, RestoreCall,
    SetCall, SetChoice, StopCall,
};
use super::error::CallError;
use super::link::ClientLink;
use super::params::ParamProblem;
use super::service::AgentService;
use super::session_lanes::{LaneTicket, SessionLanes};
use super::sessions::Sessions;
use super::setup::{Meta, SessionSetup};
use super::turn;
use super::turn::EndSignal;
use crate::acp::client_error;
use crate::acp::translate::MODE_OPTION;
use crate::model::{AcpSessionId, ErrorCode, ProtocolVersion};
use crate::wire::{Peer, RpcError, RpcId};

/// The reply of a request without a result. A result is an object, never null.
const EMPTY: &str = "{}";

/// What a task needs to run one request.
#[derive(Debug)]
pub(super) struct RequestWorker<S> {
    pub(super) peer: Peer,
    pub(super) link: ClientLink,
    pub(super) service: Arc<S>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) order: SessionLanes,
}

/// A session that is being closed or deleted: it accepts no more prompts.
#[derive(Debug)]
pub(super) struct SessionTeardown {
    session: AcpSessionId,
    ticket: LaneTicket,
    /// The ends of its turns; `None` if it was not active.
    turns: Option<Vec<EndSignal>>,
}

impl<S> Clone for RequestWorker<S> {
    fn clone(&self) -> Self {
        Self {
            peer: self.peer.clone(),
            link: self.link.clone(),
            service: Arc::clone(&self.service),
            sessions: Arc::clone(&self.sessions),
            order: self.order.clone(),
        }
    }
}

impl<S: AgentService> RequestWorker<S> {
    pub(super) async fn new_session(self, id: RpcId, call: NewCall, withdrawn: oneshot::Receiver<()>) {
        let new = async { self.service.new_session(call, self.link.clone()).await };
        let setup = unless_withdrawn(caught("session/new", new), withdrawn).await;
        // A close also waits for the updates after the reply.
        let ticket = setup.as_ref().ok().map(|setup| self.order.shared(&setup.session));
        self.set_up(id, setup, SessionSetup::begun).await;
        drop(ticket);
    }

    pub(super) async fn restore_session(
        self,
        id: RpcId,
        method: &'static str,
        call: RestoreCall,
        ticket: LaneTicket,
        withdrawn: oneshot::Receiver<()>,
    ) {
        let restore = async {
            ticket.ready().await;
            match method {
                LOAD => self.service.load_session(call, self.link.clone()).await,
                _ => self.service.resume_session(call, self.link.replaying()).await,
            }
        };
        let setup = unless_withdrawn(caught(method, restore), withdrawn).await;
        if let Ok(setup) = &setup
            && self.link.sends_states()
        {
            let state = if self.sessions.has_work(&setup.session) { turn::RUNNING } else { turn::IDLE };
            self.link.send_update(&setup.session, state).await.ok();
        }
        self.set_up(id, setup, SessionSetup::restored).await;
        drop(ticket);
    }

    pub(super) async fn fork_session(self, id: RpcId, call: ForkCall, ticket: LaneTicket) {
        ticket.ready().await;
        let fork = async { self.service.fork_session(call, self.link.clone()).await };
        let setup = caught("session/fork", fork).await;
        drop(ticket);
        // A close of the new session also waits for the updates after the reply.
        let ticket = setup.as_ref().ok().map(|setup| self.order.shared(&setup.session));
        self.set_up(id, setup, SessionSetup::begun).await;
        drop(ticket);
    }

    pub(super) async fn login(self, id: RpcId, call: LoginCall, withdrawn: oneshot::Receiver<()>) {
        let login = async { self.service.login(call, id.clone(), self.link.clone()).await };
        let result = unless_withdrawn(caught("authenticate", login), withdrawn).await;
        self.answer(id, result.map(|()| EMPTY.into())).await;
    }

    pub(super) async fn logout(self, id: RpcId, extras: CallExtras) {
        let logout = async { self.service.logout(extras).await };
        let result = caught("logout", logout).await;
        self.answer(id, result.map(|()| EMPTY.into())).await;
    }

    pub(super) async fn set(self, id: RpcId, call: SetCall, ticket: LaneTicket) {
        ticket.ready().await;
        let method = call.method();
        let result = match call.choice {
            SetChoice::Option { id, value: OptionValue::Id(mode) }
                if id == MODE_OPTION && self.link.speech().has_modes(&call.session) =>
            {
                self.set_mode_as_option(SetCall { choice: SetChoice::Mode(mode.clone()), ..call }, &mode)
                    .await
            }
            choice => {
                let set = async { self.service.set(SetCall { choice, ..call }, self.link.clone()).await };
                caught(method, set).await
            }
        };
        self.answer(id, result).await;
        drop(ticket);
    }

    /// Sets a typed mode through the option that represents it in version 2. Forwarded options are the service's own to
    /// set.
    async fn set_mode_as_option(&self, call: SetCall, mode: &str) -> Result<String, CallError> {
        let session = call.session.clone();
        let set = async { self.service.set(call, self.link.clone()).await };
        match caught("session/set_config_option", set).await {
            Ok(_) => Ok(self.link.speech().mode_answer(&session, mode)),
            Err(CallError::InvalidParams(problem)) if problem.field == "modeId" => {
                Err(ParamProblem { field: "value".into(), ..problem }.into())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn list_sessions(self, id: RpcId, call: ListCall, withdrawn: oneshot::Receiver<()>) {
        let list = async { self.service.list_sessions(call).await };
        let page = unless_withdrawn(caught("session/list", list), withdrawn).await;
        self.answer(id, page.map(|page| page.answer())).await;
    }

    pub(super) async fn extension(self, id: RpcId, call: ExtensionCall, withdrawn: oneshot::Receiver<()>) {
        let method = call.method.clone();
        let extension = async { self.service.extension(call, self.link.clone()).await };
        let result = unless_withdrawn(caught(&method, extension), withdrawn).await;
        self.answer(id, result).await;
    }

    pub(super) async fn stop(self, id: RpcId, call: StopCall, ticket: LaneTicket) {
        ticket.ready().await;
        let method = call.method;
        let stop = async { self.service.stop(call, self.link.clone()).await };
        self.answer(id, caught(method, stop).await).await;
        drop(ticket);
    }

    /// Ends the other turns that the client may end. A notification has no response, so failures are dropped.
    pub(super) async fn cancel_turns(self, session: AcpSessionId, extras: CallExtras) {
        let cancel = async {
            self.service.cancel_turns(session, extras, self.link.clone()).await;
            Ok(())
        };
        drop(caught("session/cancel", cancel).await);
    }

    /// Cancels the session's turns and deactivates it, so later requests of the client find it closed.
    pub(super) fn leave(&self, session: AcpSessionId) -> SessionTeardown {
        let ticket = self.order.exclusive(&session);
        let turns = self.sessions.deactivate(&session);
        SessionTeardown { session, ticket, turns }
    }

    /// A session that is not active counts as closed.
    pub(super) async fn close_session(self, id: RpcId, leave: SessionTeardown) {
        leave.ticket.ready().await;
        let close = async {
            self.service.cancel_for_close(leave.session.clone()).await;
            if self.left(&leave).await {
                self.service.close_session(leave.session.clone()).await
            } else {
                Ok(())
            }
        };
        let result = caught("session/close", close).await;
        self.link.speech().forget(&leave.session);
        self.answer(id, gone(result)).await;
        drop(leave.ticket);
    }

    /// A session that does not exist counts as deleted.
    pub(super) async fn delete_session(self, id: RpcId, leave: SessionTeardown, extras: CallExtras) {
        self.left(&leave).await;
        let delete = async { self.service.delete_session(leave.session.clone(), extras).await };
        let result = caught("session/delete", delete).await;
        self.link.speech().forget(&leave.session);
        self.answer(id, deleted(result)).await;
        drop(leave.ticket);
    }

    /// Waits until the session has no active request or turn. Returns whether it was active.
    async fn left(&self, leave: &SessionTeardown) -> bool {
        leave.ticket.ready().await;
        // An earlier request may have restored the session, and its client may have prompted at once.
        let again = self.sessions.deactivate(&leave.session);
        let mut was_active = false;
        for turns in [leave.turns.clone(), again].into_iter().flatten() {
            was_active = true;
            for turn in turns {
                turn.wait().await;
            }
        }
        was_active
    }

    pub(super) fn version(&self) -> ProtocolVersion {
        self.link.client().protocol
    }

    pub(super) async fn refuse(self, id: RpcId, error: CallError) {
        self.answer(id, Err(error)).await;
    }

    pub(super) async fn refuse_inactive(self, id: RpcId, session: AcpSessionId) {
        let error = self.service.not_active(session).await;
        self.answer(id, Err(error)).await;
    }

    /// Sends the reply. A disconnected client misses it.
    pub(super) async fn answer(&self, id: RpcId, result: Result<String, CallError>) {
        match result {
            Ok(result) => self.peer.respond(&id, &result).await.ok(),
            Err(CallError::Unanswered) => None,
            Err(error) => {
                let rpc = error.to_rpc();
                let code = client_error::code_of(&rpc);
                tracing::info!(rpc = rpc.code, code = code.as_ref().map(ErrorCode::as_str), "request failed");
                let error = error.for_client(self.link.client().error_data);
                self.peer.respond_error(&id, &error).await.ok()
            }
        };
    }

    /// Activates the session before its client learns its id, so that no later request finds it inactive.
    async fn set_up(
        self,
        id: RpcId,
        setup: Result<SessionSetup, CallError>,
        answer: fn(&SessionSetup, ProtocolVersion) -> String,
    ) {
        let setup = match setup {
            Ok(setup) => setup,
            Err(error) => return self.answer(id, Err(error)).await,
        };
        self.sessions.activate(&setup.session);
        let result = if self.version() == ProtocolVersion::V2 && setup.has_own_modes() {
            // A version 2 client receives modes as an option.
            self.link.speech().setup_answer(&setup.session, &answer(&setup, ProtocolVersion::V1))
        } else {
            answer(&setup, self.version())
        };
        self.answer(id, Ok(result)).await;
        for update in &setup.afterwards {
            self.link.update(&setup.session, update).await.ok();
        }
        if let Some(on_delivered) = setup.on_delivered
            && self.peer.delivered().await.is_ok()
        {
            on_delivered();
        }
    }
}

/// The handler's result, or an error if it panicked. The panic message goes to the process's panic hook, not to the
/// client.
pub(super) async fn caught<T>(
    method: &str,
    handler: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let mut handler = pin!(handler);
    poll_fn(|context| {
        // After a panic the handler is never polled again. The service must keep its own state consistent.
        let polled = catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(CallError::HandlerFailed(method.into()))))
    })
    .await
}

async fn unless_withdrawn<T>(
    work: impl Future<Output = Result<T, CallError>>,
    withdrawn: oneshot::Receiver<()>,
) -> Result<T, CallError> {
    tokio::select! {
        biased;
        result = work => result,
        Ok(()) = withdrawn => Err(CallError::PassedOn(RpcError::request_cancelled())),
    }
}

fn deleted(result: Result<Meta, CallError>) -> Result<String, CallError> {
    match result {
        Ok(meta) if !meta.is_empty() => Ok(serde_json::json!({ "_meta": meta }).to_string()),
        result => gone(result.map(drop)),
    }
}

fn gone(result: Result<(), CallError>) -> Result<String, CallError> {
    match result {
        Ok(()) | Err(CallError::UnknownSession(_)) => Ok(EMPTY.into()),
        Err(error) => Err(error),
    }
}
