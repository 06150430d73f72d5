//! A turn: its cancellation signal, its completion signal, and the state updates that announce it to version 2 clients.

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::call::CallExtras;
use super::error::CallError;
use super::setup::{Meta, PromptReply, to_json};
use crate::wire::RpcError;
use crate::wire::encode::json_string;

/// Why a turn is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The client cancelled it, or closed or deleted its session.
    Asked,
    /// The client disconnected and cannot read the reply.
    Disconnected,
}

/// The turn's end of the signal. Clones share it.
#[derive(Debug, Clone)]
pub struct Cancellation {
    cause: watch::Receiver<Option<(CancelCause, CallExtras)>>,
}

/// The dispatcher's end of the signal.
#[derive(Debug)]
pub(super) struct CancelSignal {
    cause: watch::Sender<Option<(CancelCause, CallExtras)>>,
}

impl Cancellation {
    /// Why the turn is to stop; `None` if it is not.
    pub fn cause(&self) -> Option<CancelCause> {
        self.cause.borrow().as_ref().map(|(cause, _)| *cause)
    }

    /// The `_meta` and unknown params of `session/cancel`; empty for every other cause.
    pub(crate) fn extras(&self) -> CallExtras {
        self.cause.borrow().as_ref().map(|(_, extras)| extras.clone()).unwrap_or_default()
    }

    /// Waits until the turn is to stop. A dropped dispatcher counts as a disconnect.
    pub async fn requested(&mut self) -> CancelCause {
        drop(self.cause.wait_for(Option::is_some).await);
        self.cause().unwrap_or(CancelCause::Disconnected)
    }
}

impl CancelSignal {
    pub(super) fn new() -> (Self, Cancellation) {
        let (sender, receiver) = watch::channel(None);
        (Self { cause: sender }, Cancellation { cause: receiver })
    }

    /// Sends the signal; only the first cause counts.
    pub(super) fn give(&self, cause: CancelCause) {
        self.give_with(cause, &CallExtras::default());
    }

    /// Sends the signal with the `_meta` and unknown params of the client's message.
    pub(super) fn give_with(&self, cause: CancelCause, extras: &CallExtras) {
        self.cause.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| (cause, extras.clone()));
            first
        });
    }
}

/// Signals completion when dropped.
#[derive(Debug)]
pub(super) struct EndGuard {
    _sender: watch::Sender<()>,
}

/// Waits for the guard's drop. Clones wait for the same one.
#[derive(Debug, Clone)]
pub(super) struct EndSignal(Option<watch::Receiver<()>>);

impl EndSignal {
    /// A signal for a later end.
    pub(super) fn later() -> (EndGuard, Self) {
        let (sender, receiver) = watch::channel(());
        (EndGuard { _sender: sender }, Self(Some(receiver)))
    }

    /// A signal that has already been given.
    pub(super) fn already() -> Self {
        Self(None)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(|end| end.has_changed().is_err())
    }

    pub(super) async fn wait(self) {
        let Some(mut end) = self.0 else { return };
        // No value is ever sent; only the drop of the sender matters.
        while end.changed().await.is_ok() {}
    }
}

/// The session has a running turn.
pub(super) const RUNNING: &str = r#"{"sessionUpdate":"state_update","state":"running"}"#;
/// The session waits for its user.
pub(super) const REQUIRES_ACTION: &str = r#"{"sessionUpdate":"state_update","state":"requires_action"}"#;
/// The session has no running turn.
pub(super) const IDLE: &str = r#"{"sessionUpdate":"state_update","state":"idle"}"#;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdleUpdateBody<'a> {
    session_update: &'static str,
    state: &'static str,
    stop_reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RpcError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

/// The idle state after a turn stopped.
pub(super) fn stopped(answer: &PromptReply) -> String {
    let meta = Some(&answer.meta).filter(|meta| !meta.is_empty());
    idle(answer.reason.as_str(), None, answer.usage(), meta)
}

/// The idle state after a turn failed; `wants_data` keeps all data of the error.
pub(super) fn failed(error: &CallError, wants_data: bool) -> String {
    idle("error", Some(error.for_client(wants_data)), None, None)
}

fn idle(reason: &str, error: Option<RpcError>, usage: Option<&RawValue>, meta: Option<&Meta>) -> String {
    let (session_update, state) = ("state_update", "idle");
    to_json(&IdleUpdateBody { session_update, state, stop_reason: reason, error, usage, meta })
}

/// The user's whole message, from its content blocks as received.
pub(super) fn user_message(message: &str, blocks: &[Box<str>]) -> String {
    let id = json_string(message);
    let blocks = blocks.join(",");
    format!(r#"{{"sessionUpdate":"user_message","messageId":{id},"content":[{blocks}]}}"#)
}
