//! What an agent says in a session, as version 1 has it: views know no other version, whatever the agent speaks.

use std::collections::HashMap;

use acpx_core::acp::translate::UpdatesToV1;
use acpx_core::model::{Direction, ProtocolVersion, Update};
use acpx_core::wire::RpcMessage;
use serde_json::value::RawValue;

use crate::output::WatchedEvent;

/// How many ACP sessions of a record are told apart. What an agent says after its process is gone belongs to none.
const SESSIONS: usize = 8;

/// Reads updates one after the other. Each ACP session has ids of its own.
#[derive(Debug, Default)]
pub(super) struct UpdateReader {
    sessions: HashMap<Box<str>, UpdatesToV1>,
}

impl UpdateReader {
    /// What an event reports; nothing if it is no update of the agent, or none of this conversation.
    pub(super) fn read(&mut self, event: &WatchedEvent) -> Vec<Update> {
        if event.direction != Direction::FromAgent || event.is_aside {
            return Vec::new();
        }
        let Ok(message) = RpcMessage::parse(event.message.get()) else { return Vec::new() };
        if message.method() != Some("session/update") {
            return Vec::new();
        }
        let params = message.params().unwrap_or("null");
        match event.version {
            ProtocolVersion::V1 => vec![acpx_core::acp::update(params)],
            ProtocolVersion::V2 => self.translated(params),
        }
    }

    fn translated(&mut self, params: &str) -> Vec<Update> {
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
