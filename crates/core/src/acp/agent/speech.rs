//! What a service says in the words of version 1, for a client of version 2: sessions as that client sees them.
//!
//! A service that passes on what somebody else says never comes here; one that makes its own updates need not know
//! the client's version. What is remembered of a session goes with it when it is closed or deleted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::acp::translate::UpdatesToV2;
use crate::acp::update as read_update;
use crate::model::{AcpSessionId, MessageKind, Update};
use crate::wire::encode::json_string;

/// The sessions of one connection, as its client of version 2 has been told of them.
#[derive(Debug, Default)]
pub(super) struct SessionTranslations {
    sessions: Mutex<HashMap<AcpSessionId, SessionTranslation>>,
}

#[derive(Debug, Default)]
struct SessionTranslation {
    translation: UpdatesToV2,
    /// The message that pieces without an id belong to, if one is being said.
    unnamed: Option<(MessageKind, String)>,
    /// The message that was last begun in a replay.
    replayed: Option<(MessageKind, Box<str>)>,
}

impl SessionTranslations {
    /// The update objects of version 2 that say what this one says. In a replay a message begins with nothing
    /// said, since its client may know it already.
    pub(super) fn update(&self, session: &AcpSessionId, update: &str, is_replay: bool) -> Vec<Box<str>> {
        self.with(session, |told| told.update(update, is_replay))
    }

    /// Another turn begins, and with it other messages.
    pub(super) fn begin_turn(&self, session: &AcpSessionId) {
        self.with(session, |told| told.unnamed = None);
    }

    /// The answer that sets a session up, from that of version 1.
    pub(super) fn setup_answer(&self, session: &AcpSessionId, answer: &str) -> String {
        self.with(session, |told| told.translation.setup_answer(answer).into())
    }

    /// Whether the client was told modes of ours as an option.
    pub(super) fn has_modes(&self, session: &AcpSessionId) -> bool {
        self.sessions().get(session).is_some_and(|told| told.translation.has_modes())
    }

    /// The answer to a client that has changed the mode.
    pub(super) fn mode_answer(&self, session: &AcpSessionId, mode: &str) -> String {
        self.with(session, |told| told.translation.mode_answer(mode).into())
    }

    /// The session is no more.
    pub(super) fn forget(&self, session: &AcpSessionId) {
        self.sessions().remove(session);
    }

    fn with<T>(&self, session: &AcpSessionId, work: impl FnOnce(&mut SessionTranslation) -> T) -> T {
        work(self.sessions().entry(session.clone()).or_default())
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<AcpSessionId, SessionTranslation>> {
        // What a panic leaves of one session is at worst a message that is begun again.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The id of the message that a piece of this kind belongs to.
    fn unnamed(&mut self, kind: MessageKind) -> String {
        match &self.unnamed {
            Some((said, id)) if *said == kind => id.clone(),
            _ => {
                let id = crate::wire::new_uuid().to_string();
                self.unnamed = Some((kind, id.clone()));
                id
            }
        }
    }

    /// The beginning of a message, if it has not begun.
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
