//! Reads a session's row in the agent's list, and derives a title from its first user message.

use crate::acp::client::{ListPage, ListedSession};
use crate::machine::Input;
use crate::model::{AbsolutePath, AgentError, ChunkContent, MessageKind, Update};

use crate::engine::Disk;
use crate::engine::session::effects::SessionAction;
use crate::engine::session::task::SessionTask;

/// How many bytes of the first user message are used for a title.
const FIRST_WORDS_BYTES: usize = 1024;
/// How many pages of an agent's list are searched for one session.
const MAX_PAGES: usize = 20;

impl SessionTask {
    /// Looks for this session on a page of the agent's list. A failed list counts as not found.
    pub(crate) fn on_list_page(&mut self, page: Option<ListPage>) {
        let Some(ListPage { sessions, next }) = page else { return self.feed(Input::SessionListed(None)) };
        let wanted = self.machine.target_session();
        if let Some(row) = sessions.into_iter().find(|row| Some(&row.session) == wanted) {
            return self.actions.push(SessionAction::Found(Box::new(row)));
        }
        let list = self.agent.as_ref().and_then(|agent| agent.connection.list());
        match (next, list) {
            (Some(cursor), Some(list)) if self.pages < MAX_PAGES => {
                let cwd = (!self.machine.is_adopting()).then_some(&self.place.cwd);
                let request = list.request(cwd, Some(&cursor));
                self.pages += 1;
                let now = self.now();
                self.send(now, None, request);
            }
            _ => self.feed(Input::SessionListed(None)),
        }
    }

    /// Applies the session's row of the agent's list. An adopted session must have the requested directory.
    pub(crate) async fn on_session_listed(&mut self, row: ListedSession) {
        let ListedSession { session, updated_at, title, cwd, .. } = row;
        if let Some(cwd) = cwd.filter(|_| self.machine.is_adopting())
            && !is_same_directory(&self.shared.disk, &self.place.cwd, &cwd).await
        {
            let agent = self.place.agent.label().into_owned();
            let error = AgentError::WorksElsewhere { agent, session, cwd };
            return self.feed(Input::SetupImpossible(error));
        }
        // The title of a fresh session does not describe the earlier conversation.
        let is_whole = self.machine.lineage().is_none_or(|lineage| lineage.rows().len() == 1);
        if let Some(title) = title.filter(|title| is_whole && !title.trim().is_empty()) {
            self.journal.set_first_title(title);
        }
        if let Some(at) = updated_at {
            self.journal.note_spoken_elsewhere(self.now(), at);
        }
        self.feed(Input::SessionListed(updated_at));
    }

    /// The first user message of an adopted session is its title, if the agent has none.
    pub(crate) fn note_first_words(&mut self, update: &Update) {
        let (pieces, is_user) = match update {
            Update::Chunk { kind, content, .. } => {
                (std::slice::from_ref(content), *kind == MessageKind::User)
            }
            Update::Message { kind, content, .. } => {
                (content.as_deref().unwrap_or_default(), *kind == MessageKind::User)
            }
            _ => return,
        };
        if !is_user {
            // Later user messages are not the first.
            self.first_words_end |= !self.first_words.is_empty();
            return;
        }
        for piece in pieces {
            if let ChunkContent::Text(text) = piece
                && !self.first_words_end
                && self.first_words.len() < FIRST_WORDS_BYTES
            {
                self.first_words.push_str(&text[..text.floor_char_boundary(FIRST_WORDS_BYTES)]);
            }
        }
    }
}

/// Whether a text names our directory, in any spelling. An invalid path or a disk that does not respond counts as a
/// match.
async fn is_same_directory(disk: &Disk, ours: &AbsolutePath, text: &str) -> bool {
    let Ok(theirs) = AbsolutePath::new(text) else { return true };
    if theirs == *ours {
        return true;
    }
    match tokio::join!(disk.real(ours), disk.real(&theirs)) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        (Err(_), _) | (_, Err(_)) => true,
    }
}
