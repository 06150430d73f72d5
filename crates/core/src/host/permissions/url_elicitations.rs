//! Remembers which URL elicitations a client was sent, so that it receives their `elicitation/complete`. The agent
//! names only the elicitation's id there, which has no meaning for other clients.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;

use crate::model::{Direction, Event, EventKind, RecordId};
use crate::sync::Lock;

/// How many are remembered. The completion of an older one is not forwarded.
const REMEMBERED: usize = 256;

/// The URL elicitations of one client. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct UrlElicitations(Arc<Lock<OpenElicitations>>);

/// The elicitation ids, oldest first.
type OpenElicitations = VecDeque<(RecordId, Box<str>)>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationIdParams<'a> {
    #[serde(borrow)]
    elicitation_id: Cow<'a, str>,
}

impl UrlElicitations {
    /// Stores the id of an `elicitation/create` that the client is sent.
    pub(crate) fn on_sent(&self, record: &RecordId, params: &str) {
        let Ok(ElicitationIdParams { elicitation_id }) = serde_json::from_str(params) else { return };
        let mut open = self.0.lock();
        if open.len() == REMEMBERED {
            open.pop_front();
        }
        open.push_back((record.clone(), elicitation_id.into()));
    }

    /// The line to forward if the event is the `elicitation/complete` of an elicitation that this client was sent.
    pub(crate) fn completed(&self, record: &RecordId, event: &Event) -> Option<String> {
        #[derive(Deserialize)]
        struct Notice<'a> {
            method: &'a str,
            #[serde(borrow)]
            params: ElicitationIdParams<'a>,
        }
        let is_notice = (event.direction, event.kind) == (Direction::FromAgent, EventKind::Notification);
        let notice = is_notice.then(|| serde_json::from_str::<Notice<'_>>(&event.body).ok())??;
        let is_meant =
            |open: &(RecordId, Box<str>)| open.0 == *record && *open.1 == *notice.params.elicitation_id;
        let mut open = self.0.lock();
        let index = open.iter().position(is_meant).filter(|_| notice.method == "elicitation/complete")?;
        open.remove(index);
        Some(event.body.to_string())
    }
}
