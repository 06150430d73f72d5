//! Whether a session works, as clients of version 2 are told. An agent of version 1 does not say it: our facts do. One
//! of version 2 says it itself, and then the fact that follows is not told again.

use serde_json::json;

use crate::acp::translate::{idle_update, running_update};
use crate::acp::{StateUpdate, state_update};
use crate::model::Fact;
use crate::wire::RpcError;

/// How the session stands, by what has been told.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    is_running: bool,
    /// The turn of ours that runs.
    turn: Option<u64>,
}

impl SessionState {
    /// The state as it stands. It tells of no end: whoever was there for it has heard it.
    pub(super) fn standing(&self) -> Box<str> {
        if self.is_running { running_update() } else { idle_update("{}") }
    }

    /// Takes what an agent says of its state; whether it stops by that.
    pub(super) fn take(&mut self, params: &str) -> bool {
        match state_update(params) {
            Some(StateUpdate::Idle { .. }) => {
                self.is_running = false;
                true
            }
            Some(StateUpdate::Running | StateUpdate::RequiresAction) => {
                self.is_running = true;
                false
            }
            _ => false,
        }
    }

    /// The update that tells a fact, if it changes anything.
    pub(super) fn fact(&mut self, fact: &Fact) -> Option<Box<str>> {
        match fact {
            Fact::TurnStarted { turn, .. } => {
                self.turn = Some(*turn);
                let is_news = !std::mem::replace(&mut self.is_running, true);
                is_news.then(running_update)
            }
            // One that never began may end while another runs, and is no end of that.
            Fact::TurnEnded { turn, stop_reason, error } if self.turn == Some(*turn) => {
                self.turn = None;
                if !std::mem::replace(&mut self.is_running, false) {
                    return None;
                }
                let reason = stop_reason.as_deref().unwrap_or("error");
                let error = error.as_ref().map(|error| {
                    json!({
                        "code": RpcError::INTERNAL,
                        "message": error.message,
                        "data": { "acpx": { "code": error.code } },
                    })
                });
                let Some(error) = error else {
                    return Some(idle_update(&json!({ "stopReason": reason }).to_string()));
                };
                let idle = json!({
                    "sessionUpdate": "state_update", "state": "idle", "stopReason": reason, "error": error,
                });
                Some(idle.to_string().into())
            }
            _ => None,
        }
    }
}
