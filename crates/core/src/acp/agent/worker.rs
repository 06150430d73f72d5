//! What happens to one request, from its checked call to its answer.
//!
//! The order of lines is made here: a handler's updates, then its answer, then what it left for afterwards; a
//! turn's answer before the answer to the close that ended it.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::call::{ListCall, NewCall, PromptCall, RestoreCall, SetModeCall};
use super::error::CallError;
use super::link::ClientLink;
use super::service::AgentService;
use super::sessions::{Ended, RunningTurn, Sessions};
use super::setup::{SessionSetup, prompt_answer};
use crate::model::{AcpSessionId, StopReason};
use crate::wire::{Peer, RpcError, RpcId};

/// The answer to whatever has nothing to say. A result is an object, never null.
const EMPTY: &str = "{}";

/// What a task needs to do one request.
#[derive(Debug)]
pub(super) struct Worker<S> {
    pub(super) peer: Peer,
    pub(super) link: ClientLink,
    pub(super) service: Arc<S>,
    pub(super) sessions: Arc<Sessions>,
}

impl<S> Clone for Worker<S> {
    fn clone(&self) -> Self {
        Self {
            peer: self.peer.clone(),
            link: self.link.clone(),
            service: Arc::clone(&self.service),
            sessions: Arc::clone(&self.sessions),
        }
    }
}

impl<S: AgentService> Worker<S> {
    pub(super) async fn new_session(self, id: RpcId, call: NewCall) {
        let setup = self.service.new_session(call, self.link.clone()).await;
        self.set_up(id, setup, SessionSetup::new_answer).await;
    }

    pub(super) async fn load_session(self, id: RpcId, call: RestoreCall, withdrawn: oneshot::Receiver<()>) {
        let load = self.service.load_session(call, self.link.clone());
        let setup = unless_withdrawn(load, withdrawn).await;
        self.set_up(id, setup, SessionSetup::load_answer).await;
    }

    pub(super) async fn resume_session(self, id: RpcId, call: RestoreCall, withdrawn: oneshot::Receiver<()>) {
        let resume = self.service.resume_session(call, self.link.clone());
        let setup = unless_withdrawn(resume, withdrawn).await;
        self.set_up(id, setup, SessionSetup::resume_answer).await;
    }

    pub(super) async fn list_sessions(self, id: RpcId, call: ListCall, withdrawn: oneshot::Receiver<()>) {
        let page = unless_withdrawn(self.service.list_sessions(call), withdrawn).await;
        self.answer(id, page.map(|page| page.answer())).await;
    }

    pub(super) async fn set_mode(self, id: RpcId, call: SetModeCall) {
        let result = if self.sessions.is_active(&call.session) {
            self.service.set_mode(call).await
        } else {
            Err(CallError::UnknownSession(call.session))
        };
        self.answer(id, result.map(|()| EMPTY.into())).await;
    }

    /// Runs a turn. Once it was cancelled an error is part of the stopping, and clients must not see it.
    pub(super) async fn turn(self, id: RpcId, call: PromptCall, turn: RunningTurn) {
        turn.before.clone().wait().await;
        let result = self.service.prompt(call, turn.cancellation.clone(), self.link.clone()).await;
        let result = match result {
            Err(_) if turn.cancellation.cause().is_some() => Ok(StopReason::cancelled()),
            result => result,
        };
        self.sessions.answering(&turn);
        self.answer(id, result.map(|reason| prompt_answer(&reason))).await;
        drop(turn);
    }

    /// A session that is not active is closed already.
    pub(super) async fn close_session(self, id: RpcId, session: AcpSessionId, ended: Option<Ended>) {
        let result = match ended {
            Some(ended) => {
                ended.wait().await;
                self.service.close_session(session).await
            }
            None => Ok(()),
        };
        self.answer(id, gone(result)).await;
    }

    /// A session that does not exist is deleted already.
    pub(super) async fn delete_session(self, id: RpcId, session: AcpSessionId, ended: Option<Ended>) {
        if let Some(ended) = ended {
            ended.wait().await;
        }
        let result = self.service.delete_session(session).await;
        self.answer(id, gone(result)).await;
    }

    pub(super) async fn refuse(self, id: RpcId, error: CallError) {
        self.answer(id, Err(error)).await;
    }

    /// Sends the answer. A client that is gone misses it, and there is no one else to tell.
    pub(super) async fn answer(&self, id: RpcId, result: Result<String, CallError>) {
        match result {
            Ok(result) => self.peer.respond(&id, &result).await.ok(),
            Err(error) => self.peer.respond_error(&id, &error.to_rpc()).await.ok(),
        };
    }

    /// Makes the session active before its client can know of it, so that no later request is too early.
    async fn set_up(
        self,
        id: RpcId,
        setup: Result<SessionSetup, CallError>,
        answer: fn(&SessionSetup) -> String,
    ) {
        let setup = match setup {
            Ok(setup) => setup,
            Err(error) => return self.answer(id, Err(error)).await,
        };
        self.sessions.activate(&setup.session);
        self.answer(id, Ok(answer(&setup))).await;
        for update in &setup.afterwards {
            self.link.update(&setup.session, update).await.ok();
        }
    }
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

fn gone(result: Result<(), CallError>) -> Result<String, CallError> {
    match result {
        Ok(()) | Err(CallError::UnknownSession(_)) => Ok(EMPTY.into()),
        Err(error) => Err(error),
    }
}
