//! The title of a conversation: the user's, or its agent's, or else the first line of its first prompt. All lists and
//! views use it, so a session has the same title in an editor and in a shell.

use crate::acp::prompt_text;
use crate::model::{Record, TurnId, title_of};
use crate::store::{Store, StoreError};

/// The title of a record, if it has a turn or one was set.
pub async fn title(store: &dyn Store, record: &Record) -> Result<Option<String>, StoreError> {
    if let Some(title) = record.info.title() {
        return Ok(Some(title.to_owned()));
    }
    if record.last_turn.is_none() {
        return Ok(None);
    }
    let first = store.turn_numbered(record.id.clone(), TurnId::FIRST).await?;
    Ok(first.and_then(|turn| title_of(&prompt_text(&turn.prompt))))
}
