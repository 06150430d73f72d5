//! Runs a prompt from its acceptance to the end of its turn.
//!
//! In version 1 the reply marks the end of the turn. In version 2 the reply confirms the insertion; errors are replies
//! only before it. After it, state updates report the turn, and the last one is idle.

use std::sync::Arc;

use serde_json::Value;

use super::call::PromptCall;
use super::error::CallError;
use super::insertion::{PromptInsertion, TurnLink};
use super::service::AgentService;
use super::sessions::ActiveTurn;
use super::setup::{Meta, PromptReply};
use super::turn;
use super::worker::{RequestWorker, caught};
use crate::model::{AcpSessionId, ProtocolVersion, StopReason};
use crate::wire::{RpcError, RpcId};

impl<S: AgentService> RequestWorker<S> {
    /// Runs a turn. After a cancellation an error becomes the stop reason `cancelled`, as the protocol requires, and
    /// keeps the turn's `_meta`, which followers use to continue. [`CallError::Unanswered`] stays an error: the prompt
    /// may run when its client sends it again.
    pub(super) async fn turn(
        self,
        id: RpcId,
        call: PromptCall,
        turn: ActiveTurn,
        insertion: Arc<PromptInsertion>,
    ) {
        turn.before.clone().wait().await;
        let session = call.session.clone();
        let link = TurnLink::new(self.link.clone(), Arc::clone(&insertion));
        let prompt = async { self.service.prompt(call, turn.cancellation.clone(), link).await };
        let ended = match caught("session/prompt", prompt).await {
            Err(error) if turn.cancellation.cause().is_some() && !matches!(error, CallError::Unanswered) => {
                Ok(PromptReply { meta: turn_meta(&error), ..StopReason::cancelled().into() })
            }
            ended => ended,
        };
        match self.version() {
            ProtocolVersion::V1 => self.answer(id, ended.map(|answer| answer.to_json())).await,
            ProtocolVersion::V2 if insertion.is_inserted() => self.tell_end(&session, &ended).await,
            ProtocolVersion::V2 => self.answer(id, Err(not_inserted(ended))).await,
        }
        insertion.answered();
        insertion.over();
        drop(turn);
    }

    async fn tell_end(&self, session: &AcpSessionId, ended: &Result<PromptReply, CallError>) {
        if !self.link.sends_states() {
            return;
        }
        let state = match ended {
            Ok(answer) => turn::stopped(answer),
            Err(CallError::Unanswered) => return,
            Err(error) => turn::failed(error, self.link.client().error_data),
        };
        // A disconnected client misses it.
        self.link.send_update(session, &state).await.ok();
    }
}

/// The turn's metadata in an error, in the form that a reply to the prompt has.
fn turn_meta(error: &CallError) -> Meta {
    let CallError::PassedOn(RpcError { data: Some(data), .. }) = error else { return Meta::new() };
    let data: Value = serde_json::from_str(data.get()).unwrap_or_default();
    let turn = data.pointer("/acpx/turn").cloned();
    turn.map(|turn| ("acpx".to_owned(), turn)).into_iter().collect()
}

/// The reply to a prompt that was never inserted.
fn not_inserted(ended: Result<PromptReply, CallError>) -> CallError {
    match ended {
        Err(error) => error,
        Ok(answer) if answer.reason == StopReason::cancelled() => {
            CallError::PassedOn(RpcError::request_cancelled())
        }
        Ok(_) => CallError::HandlerFailed("session/prompt".into()),
    }
}
