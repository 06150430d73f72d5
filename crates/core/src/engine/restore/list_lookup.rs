//! State of a session while it is restored: the transcript for a fresh session, the search in the agent's list, and the
//! first user message of an adopted session, which becomes its title.

use crate::model::{AbsolutePath, ChunkContent, MessageKind, Update, title_of};

use crate::engine::Disk;

/// How many bytes of the first user message are used for a title.
const FIRST_MESSAGE_BYTES: usize = 1024;
/// How many pages of an agent's list are searched for one session.
const MAX_PAGES: usize = 20;

/// What is known while a session is restored.
#[derive(Debug, Default)]
pub(crate) struct RestoreState {
    /// The conversation so far as text, while a fresh session may need it.
    pub(crate) transcript: Option<String>,
    /// How many pages of the agent's list were read.
    pages: usize,
    /// The first user message of a session that is being adopted, and whether it is complete.
    first_message: String,
    is_complete: bool,
}

impl RestoreState {
    /// The first page of the agent's list is requested.
    pub(crate) fn begin_list(&mut self) {
        self.pages = 1;
    }

    /// Counts another page of the agent's list. Returns whether it may be requested.
    pub(crate) fn count_page(&mut self) -> bool {
        let may_follow = self.pages < MAX_PAGES;
        self.pages += usize::from(may_follow);
        may_follow
    }

    /// Collects the first user message of an adopted session.
    pub(crate) fn note_update(&mut self, update: &Update) {
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
            self.is_complete |= !self.first_message.is_empty();
            return;
        }
        for piece in pieces {
            if let ChunkContent::Text(text) = piece
                && !self.is_complete
                && self.first_message.len() < FIRST_MESSAGE_BYTES
            {
                self.first_message.push_str(&text[..text.floor_char_boundary(FIRST_MESSAGE_BYTES)]);
            }
        }
    }

    /// The title of an adopted session, if the agent has none.
    pub(crate) fn take_title(&mut self) -> Option<String> {
        title_of(&std::mem::take(&mut self.first_message))
    }
}

/// Whether a text names our directory, in any spelling. An invalid path or a disk that does not respond counts as a
/// match.
pub(crate) async fn is_same_directory(disk: &Disk, ours: &AbsolutePath, text: &str) -> bool {
    let Ok(theirs) = AbsolutePath::new(text) else { return true };
    if theirs == *ours {
        return true;
    }
    match tokio::join!(disk.real(ours), disk.real(&theirs)) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        (Err(_), _) | (_, Err(_)) => true,
    }
}
