//! The agent's pending requests in the interactive client. Only the one that is on the screen can be answered: a key that
//! was typed before a request was drawn must not decide it.

use acpx_core::protocol::{AnswerParams, PendingRequestMeta};
use crossterm::event::KeyEvent;

use super::menu::RequestMenu;

/// The requests, the first one to be answered first.
#[derive(Default)]
pub(super) struct RequestMenus {
    list: Vec<RequestMenu>,
    /// Whether the first one is to be shown.
    is_open: bool,
    /// The id of the one that is on the screen.
    drawn: Option<String>,
}

impl RequestMenus {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes the requests of the record. One that is not listed any more was answered. A new one opens by itself unless
    /// the user is typing.
    pub(super) fn set(&mut self, pending: &[PendingRequestMeta], is_typing: bool) {
        self.list.retain(|known| pending.iter().any(|request| request.question_id == known.id));
        self.is_open &= !self.list.is_empty();
        for request in pending {
            if !self.list.iter().any(|known| known.id == request.question_id) {
                self.list.push(RequestMenu::new(request));
                self.is_open |= !is_typing;
            }
        }
    }

    /// The request that is to be shown.
    pub(super) fn shown(&self) -> Option<&RequestMenu> {
        self.list.first().filter(|_| self.is_open)
    }

    /// The same, for pasted text.
    pub(super) fn shown_mut(&mut self) -> Option<&mut RequestMenu> {
        self.list.first_mut().filter(|_| self.is_open)
    }

    /// Opens the first request, or leaves all for later.
    pub(super) fn open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Notes what is on the screen: the request, unless something covers it.
    pub(super) fn note_drawn(&mut self, is_covered: bool) {
        self.drawn = self.shown().filter(|_| !is_covered).map(|request| request.id.clone());
    }

    /// The tool call whose diffs the request on the screen shows.
    pub(super) fn drawn_diffs(&self) -> Option<&str> {
        let request = self.list.first().filter(|request| Some(&request.id) == self.drawn.as_ref())?;
        request.diffs_of.as_deref()
    }

    /// Handles a key for the request on the screen; the answer if it was given.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<AnswerParams> {
        let drawn = self.drawn.as_deref();
        let request = self.list.first_mut().filter(|request| Some(request.id.as_str()) == drawn)?;
        let answer = request.key(key)?;
        self.list.remove(0);
        Some(answer)
    }
}
