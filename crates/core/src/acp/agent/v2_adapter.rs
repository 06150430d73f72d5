//! Translates the version 1 updates of a service for a version 2 client.
//!
//! A service that forwards another agent's updates does not use this. A service that builds its own need not know the
//! client's version. The state of a session is dropped when it is closed or deleted.

use std::collections::HashMap;

use crate::acp::translate::UpdatesToV2;
use crate::acp::update as read_update;
use crate::model::{AcpSessionId, MessageKind, Update};
use crate::sync::Lock;
use crate::wire::encode::json_string;

/// The sessions of one connection, as its version 2 client knows them.
#[derive(Debug, Default)]
pub(super) struct SessionTranslations {
    sessions: Lock<HashMap<AcpSessionId, SessionTranslation>>,
}

#[derive(Debug, Default)]
struct SessionTranslation {
    translation: UpdatesToV2,
    /// The current message of chunks without an id.
    unnamed: Option<(MessageKind, String)>,
    /// The last message that began in a replay.
    replayed: Option<(MessageKind, Box<str>)>,
}

impl SessionTranslations {
    /// The equivalent version 2 update objects. In a replay each message begins with empty content, because the client
    /// may already have it.
    pub(super) fn update(&self, session: &AcpSessionId, update: &str, is_replay: bool) -> Vec<Box<str>> {
        self.with(session, |translation| translation.update(update, is_replay))
    }

    /// Starts a turn; later chunks belong to new messages.
    pub(super) fn begin_turn(&self, session: &AcpSessionId) {
        self.with(session, |translation| translation.unnamed = None);
    }

    /// Translates a version 1 setup reply.
    pub(super) fn setup_answer(&self, session: &AcpSessionId, answer: &str) -> String {
        self.with(session, |translation| translation.translation.setup_answer(answer).into())
    }

    /// Whether the client received typed modes as an option.
    pub(super) fn has_modes(&self, session: &AcpSessionId) -> bool {
        self.sessions.lock().get(session).is_some_and(|translation| translation.translation.has_modes())
    }

    /// The reply to a client that has changed the mode.
    pub(super) fn mode_answer(&self, session: &AcpSessionId, mode: &str) -> String {
        self.with(session, |translation| translation.translation.mode_answer(mode).into())
    }

    /// Drops the state of a session.
    pub(super) fn forget(&self, session: &AcpSessionId) {
        self.sessions.lock().remove(session);
    }

    fn with<T>(&self, session: &AcpSessionId, work: impl FnOnce(&mut SessionTranslation) -> T) -> T {
        work(self.sessions.lock().entry(session.clone()).or_default())
    }
}

impl SessionTranslation {
    fn update(&mut self, update: &str, is_replay: bool) -> Vec<Box<str>> {
        let (kind, id) = match read_update(&format!(r#"{{"update":{update}}}"#)) {
            Update::Chunk { kind, message_id: Some(id), .. } => {
                self.unnamed = None;
                (kind, id)
            }
            Update::Chunk { kind, message_id: None, .. } => (kind, self.unnamed(kind).into()),
            read => {
                if let Update::Tool { .. } = read {
                    self.unnamed = None;
                }
                return self.translation.update(update, "");
            }
        };
        let begun = is_replay.then(|| self.begin(kind, &id)).flatten();
        begun.into_iter().chain(self.translation.update(update, &id)).collect()
    }

    /// The id of the message to which a chunk of this kind belongs.
    fn unnamed(&mut self, kind: MessageKind) -> String {
        match &self.unnamed {
            Some((last_kind, id)) if *last_kind == kind => id.clone(),
            _ => {
                let id = crate::wire::new_uuid().to_string();
                self.unnamed = Some((kind, id.clone()));
                id
            }
        }
    }

    /// The update that begins a message, unless it has begun.
    fn begin(&mut self, kind: MessageKind, id: &str) -> Option<Box<str>> {
        if self.replayed.as_ref().is_some_and(|(last, name)| *last == kind && **name == *id) {
            return None;
        }
        self.replayed = Some((kind, id.into()));
        let name = match kind {
            MessageKind::User => "user_message",
            MessageKind::Agent => "agent_message",
            MessageKind::Thought => "agent_thought",
        };
        let id = json_string(id);
        Some(format!(r#"{{"sessionUpdate":"{name}","messageId":{id},"content":[]}}"#).into())
    }
}
