//! Tracks which client owns which turn, and so which turns `session/cancel` and `session/close` end.
//!
//! A turn belongs to the clients that prompted it or repeated its prompt, while they are connected. After that it is
//! orphaned, and any client may end it. The turns of other connected clients are never touched. Watching a session
//! claims nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::acp::agent::CallExtras;
use crate::engine::{OpenTurnRef, Session};
use crate::model::{RecordId, RequestId, TurnId};

use crate::host::connection::Connection;
use crate::host::connection::access::UserAction;
use crate::host::permissions::responders::ConnectionId;
use crate::protocol::meta::CancelMeta;
use crate::sync::Lock;

/// The connected clients of open prompts.
#[derive(Debug, Default)]
pub(crate) struct TurnOwners(Lock<HashMap<RecordId, Vec<(RequestId, ConnectionId)>>>);

/// RAII claim of a connected client on the turn of its prompt.
#[derive(Debug)]
pub(crate) struct TurnClaim {
    owners: Arc<TurnOwners>,
    record: RecordId,
    request: RequestId,
    connection: ConnectionId,
}

/// The owner of a turn, from one client's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnOwner {
    Caller,
    OtherClient,
    /// The turn is orphaned.
    Disconnected,
}

impl TurnOwners {
    /// Claims the turn of a prompt for its client, before the turn becomes visible.
    pub(crate) fn claim(
        self: &Arc<Self>,
        record: &RecordId,
        request: &RequestId,
        connection: ConnectionId,
    ) -> TurnClaim {
        self.0.lock().entry(record.clone()).or_default().push((request.clone(), connection));
        TurnClaim { owners: Arc::clone(self), record: record.clone(), request: request.clone(), connection }
    }

    fn owner(&self, record: &RecordId, request: &RequestId, caller: ConnectionId) -> TurnOwner {
        let owners = self.0.lock();
        let claims = owners.get(record).into_iter().flatten().filter(|(name, _)| name == request);
        claims.fold(TurnOwner::Disconnected, |owner, (_, connection)| match owner {
            TurnOwner::Caller => owner,
            _ if *connection == caller => TurnOwner::Caller,
            _ => TurnOwner::OtherClient,
        })
    }
}

impl Drop for TurnClaim {
    fn drop(&mut self) {
        let mut owners = self.owners.0.lock();
        let Some(claims) = owners.get_mut(&self.record) else { return };
        // A client that asks for one prompt twice has two claims.
        let own = |(name, connection): &(RequestId, ConnectionId)| {
            *name == self.request && *connection == self.connection
        };
        if let Some(index) = claims.iter().position(own) {
            claims.swap_remove(index);
        }
        if claims.is_empty() {
            owners.remove(&self.record);
        }
    }
}

/// `session/cancel`: ends the caller's own turns, and the running turn if its client has disconnected. With a request id
/// it ends only that turn.
pub(crate) async fn cancel_for_client(client: &Connection, record: RecordId, extras: &CallExtras) {
    let Ok(CancelMeta { request_id }) = client.access.authorized_meta(extras.meta.as_deref()) else { return };
    let Some((session, open)) = open_turns(client, &record).await else { return };
    let is_cancelled = |(index, turn): &(usize, OpenTurnRef)| {
        match (owner_of(client, &record, turn), &request_id) {
            (TurnOwner::OtherClient, _) => false,
            (_, Some(request)) => turn.request.as_str() == request,
            (TurnOwner::Caller, None) => true,
            // While the agent starts, the first queued turn counts as running.
            (TurnOwner::Disconnected, None) => *index == 0,
        }
    };
    let cancelled: Vec<_> = open.into_iter().enumerate().filter(is_cancelled).collect();
    // The running turn is cancelled last, so that no other is dispatched first. `cancel_turns` would wait for their
    // ends, and a notification must not occupy a request slot for so long.
    for (_, turn) in cancelled.into_iter().rev() {
        drop(session.cancel_with(Some(turn.id), client.access.extra_params_of(extras)).await);
    }
}

/// `session/close`: cancels every turn except those of other connected clients, and waits until they have ended and the
/// caller has received it.
pub(crate) async fn cancel_for_close(client: &Connection, record: &RecordId) {
    let Some((session, open)) = open_turns(client, record).await else { return };
    let is_others = |turn: &OpenTurnRef| owner_of(client, record, turn) == TurnOwner::OtherClient;
    let cancelled = open.into_iter().filter(|turn| !is_others(turn)).map(|turn| turn.id).collect();
    if let Ok(last) = session.cancel_turns(cancelled, None).await {
        client.attachments.delivered(record, last).await;
    }
}

/// The running session of a record that the client may see, with its turns. A session that has ended has none.
async fn open_turns(client: &Connection, record: &RecordId) -> Option<(Session, Vec<OpenTurnRef>)> {
    client.check_visible(record).await.ok()?;
    let session = client.host.engine.running(record).await.ok()??;
    let open = session.open_turns().await.ok()?;
    Some((session, open))
}

/// The notice for a version 1 client whose prompt waits behind turns of others; `None` if it does not.
pub(crate) fn waiting_notice(
    client: &Connection,
    record: &RecordId,
    open: &[OpenTurnRef],
    own: TurnId,
) -> Option<&'static str> {
    let position = open.iter().position(|turn| turn.id == own)?;
    let mut before = open.iter().take(position).map(|turn| owner_of(client, record, turn));
    match before.find(|owner| *owner != TurnOwner::Caller)? {
        TurnOwner::Disconnected => {
            Some("This prompt waits for an earlier turn whose client has disconnected. Cancel to stop both.")
        }
        _ => Some("This prompt waits for the turn of another client. It is sent when that has ended."),
    }
}

/// The owner of a turn. For a confined client an orphaned turn of the user counts as another client's.
fn owner_of(client: &Connection, record: &RecordId, turn: &OpenTurnRef) -> TurnOwner {
    match client.host.turn_owners.owner(record, &turn.request, client.id) {
        TurnOwner::Disconnected if client.check_record(UserAction::CancelTurns, record).is_err() => {
            TurnOwner::OtherClient
        }
        owner => owner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_belongs_to_its_clients_until_the_last_has_disconnected() {
        let owners = Arc::new(TurnOwners::default());
        let record = |name: &str| RecordId::new(name).unwrap();
        let request = |name: &str| RequestId::new(name).unwrap();
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        let owner = |caller| owners.owner(&record("r"), &request("a"), caller);
        assert_eq!(owner(one), TurnOwner::Disconnected);
        let first = owners.claim(&record("r"), &request("a"), one);
        let twice = owners.claim(&record("r"), &request("a"), one);
        let joined = owners.claim(&record("r"), &request("a"), two);
        let other = owners.claim(&record("other"), &request("a"), one);
        assert_eq!(
            (owner(one), owner(two), owner(ConnectionId(3))),
            (TurnOwner::Caller, TurnOwner::Caller, TurnOwner::OtherClient)
        );
        drop((first, joined));
        assert_eq!((owner(one), owner(two)), (TurnOwner::Caller, TurnOwner::OtherClient));
        drop(twice);
        assert_eq!((owner(one), owner(two)), (TurnOwner::Disconnected, TurnOwner::Disconnected));
        drop(other);
        assert!(owners.0.lock().is_empty());
    }
}
