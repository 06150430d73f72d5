//! What happens to a prompt, from its acceptance until its turn is over.
//!
//! In version 1 the answer is the turn's end. In version 2 the answer is the insertion; an error is an answer only
//! before that, and what comes after is told as a state, last of all that the session is idle.

use std::sync::Arc;

use serde_json::Value;

use super::call::PromptCall;
use super::error::CallError;
use super::insertion::{PromptInsertion, TurnLink};
use super::service::AgentService;
use super::sessions::ActiveTurn;
use super::setup::{Meta, PromptReply};
use super::states;
use super::worker::{RequestWorker, caught};
use crate::model::{AcpSessionId, ProtocolVersion, StopReason};
use crate::wire::{RpcError, RpcId};

impl<S: AgentService> RequestWorker<S> {
    /// Runs a turn. Once it was cancelled an error is part of the stopping, and clients must not see it; what it says of
    /// the turn is told all the same, for whoever follows goes on after that. One that goes unanswered has not stopped: it may run when its client asks again.
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
        if !self.link.says_states() {
            return;
        }
        let state = match ended {
            Ok(answer) => states::stopped(answer),
            Err(CallError::Unanswered) => return,
            Err(error) => states::failed(error, self.link.client().error_data),
        };
        // A client that is gone misses it.
        self.link.tell(session, &state).await.ok();
    }
}

/// What an error says of its turn, where an answer to the prompt says it.
fn turn_meta(error: &CallError) -> Meta {
    let CallError::PassedOn(RpcError { data: Some(data), .. }) = error else { return Meta::new() };
    let data: Value = serde_json::from_str(data.get()).unwrap_or_default();
    let turn = data.pointer("/acpx/turn").cloned();
    turn.map(|turn| ("acpx".to_owned(), turn)).into_iter().collect()
}

/// The answer to a prompt that never became part of its conversation.
fn not_inserted(ended: Result<PromptReply, CallError>) -> CallError {
    match ended {
        Err(error) => error,
        Ok(answer) if answer.reason == StopReason::cancelled() => {
            CallError::PassedOn(RpcError::request_cancelled())
        }
        Ok(_) => CallError::HandlerFailed("session/prompt".into()),
    }
}
