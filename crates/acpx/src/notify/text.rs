//! The text of the conversation that belongs to an event, for sinks that get it. It is read from the store when the
//! event is delivered, so the queue has no second copy.

use acpx_core::host::turn_reply;
use acpx_core::model::{NotificationEvent, QueuedNotification, Record, TurnId, TurnOutcome, TurnState};
use acpx_core::store::{Store, StoreError};

/// How many bytes of a text a sink gets.
const MAX_TEXT: usize = 1000;

/// The text of an event: what is asked, the agent's last message, or the error.
pub(super) async fn text_of(
    store: &dyn Store,
    record: &Record,
    queued: &QueuedNotification,
) -> Result<Option<String>, StoreError> {
    let text = match &queued.event {
        NotificationEvent::Waiting { text, .. } => text.clone(),
        NotificationEvent::TurnEnded { turn, .. } => turn_reply(store, record, TurnId(*turn)).await?,
        NotificationEvent::Failed { turn, .. } => {
            let turn = store.turn_numbered(record.id.clone(), TurnId(*turn)).await?;
            match turn.map(|turn| turn.state) {
                Some(TurnState::Ended { outcome: TurnOutcome::Failed(error), .. }) => {
                    Some(error.message.to_string())
                }
                _ => None,
            }
        }
        NotificationEvent::Reset { .. } | NotificationEvent::HostLost { .. } => None,
    };
    Ok(text.map(|text| shortened(text.trim())).filter(|text| !text.is_empty()))
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)])
}
