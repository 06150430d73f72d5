//! Reads an agent's updates as version 1, whichever version the agent uses: views know no other.

use std::collections::HashMap;

use acpx_core::acp::translate::UpdatesToV1;
use acpx_core::model::{Direction, ProtocolVersion, Update};
use acpx_core::wire::RpcMessage;
use serde_json::value::RawValue;

use crate::output::WatchedEvent;

/// How many ACP sessions of a record are tracked. Updates after the end of an agent's process belong to none.
const SESSIONS: usize = 8;

/// Reads updates in order. Each ACP session has its own ids.
#[derive(Debug, Default)]
pub(super) struct UpdateReader {
    sessions: HashMap<Box<str>, UpdatesToV1>,
}

impl UpdateReader {
    /// The updates in an event; none if it is not an update of the agent in this conversation.
    pub(super) fn read(&mut self, event: &WatchedEvent, message: &RpcMessage) -> Vec<Update> {
        let is_own = event.direction == Direction::FromAgent && !event.is_aside;
        if !is_own || message.method() != Some("session/update") {
            return Vec::new();
        }
        let params = message.params().unwrap_or("null");
        match event.version {
            ProtocolVersion::V1 => vec![acpx_core::acp::update(params)],
            ProtocolVersion::V2 => self.translate(params),
        }
    }

    fn translate(&mut self, params: &str) -> Vec<Update> {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "sessionId")]
            session: std::borrow::Cow<'a, str>,
            #[serde(borrow)]
            update: &'a RawValue,
        }
        let Ok(Params { session, update }) = serde_json::from_str(params) else { return Vec::new() };
        if self.sessions.len() >= SESSIONS && !self.sessions.contains_key(&*session) {
            self.sessions.clear();
        }
        let translation = self.sessions.entry(Box::from(&*session)).or_default();
        let read = |update: Box<str>| acpx_core::acp::update(&format!(r#"{{"update":{update}}}"#));
        translation.update(update.get()).into_iter().map(read).collect()
    }
}
