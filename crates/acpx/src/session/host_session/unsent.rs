//! The prompt of a turn that was cancelled or failed before an agent was sent it. No event contains its text; the views
//! get it from the store.

use std::sync::Arc;

use acpx_core::host::RecordEvents;
use acpx_core::model::{RecordId, Turn};
use acpx_core::protocol::WatchedEvent;
use acpx_core::store::{Store, StoreError};

use crate::output::FollowView;

/// The turn of such a prompt, if it ends with this event and the view would show its text.
pub(crate) async fn unsent_turn(
    view: &FollowView,
    event: &WatchedEvent,
    store: &Arc<dyn Store>,
    record: &RecordId,
) -> Result<Option<Turn>, StoreError> {
    let Some((turn, is_begun)) = view.ends_without_prompt(event) else { return Ok(None) };
    let kept = RecordEvents::new(Arc::clone(store), record.clone(), Some(event.seq));
    // A turn that began before the view did is taken as sent.
    if !is_begun && kept.has_begun(turn).await? {
        return Ok(None);
    }
    store.turn_numbered(record.clone(), turn).await
}
