//! Per-session ordering: close and delete are exclusive, load and resume serial, everything else concurrent.
//!
//! An exclusive request starts when all earlier requests are answered, and later ones wait for its reply. Serial
//! restores keep replays from interleaving. Tickets are taken in the order in which requests are read, so the client's
//! order holds.

use std::collections::HashMap;
use std::sync::Arc;

use super::turn::{EndGuard, EndSignal};
use crate::model::AcpSessionId;
use crate::sync::Lock;

/// The active requests of one connection, by session. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionLanes {
    lanes: Arc<Lock<HashMap<AcpSessionId, Lane>>>,
}

/// The requests of one session that others may have to wait for.
#[derive(Debug, Default)]
struct Lane {
    /// The last exclusive request. It ends after everything before it, so later requests wait for it alone.
    exclusive: Option<EndSignal>,
    /// The requests after it.
    shared: Vec<EndSignal>,
    /// Those of them that restore the session.
    restoring: Vec<EndSignal>,
}

/// A request's position in the order; dropping it ends the request.
#[derive(Debug)]
pub(super) struct LaneTicket {
    order: SessionLanes,
    session: AcpSessionId,
    ahead: Vec<EndSignal>,
    end: Option<EndGuard>,
}

impl SessionLanes {
    /// A ticket for a request that runs concurrently with others of its kind.
    pub(super) fn shared(&self, session: &AcpSessionId) -> LaneTicket {
        self.enqueue(session, |lane, ended| {
            lane.shared.push(ended);
            lane.exclusive.iter().cloned().collect()
        })
    }

    /// A ticket for a request that restores the session. The holder waits until it is ready.
    pub(super) fn restoring(&self, session: &AcpSessionId) -> LaneTicket {
        self.enqueue(session, |lane, ended| {
            // Waits for all of them: the last may be withdrawn while it waits.
            let ahead = lane.exclusive.iter().chain(&lane.restoring).cloned().collect();
            lane.shared.push(ended.clone());
            lane.restoring.push(ended);
            ahead
        })
    }

    /// A ticket for an exclusive request. The holder waits until it is ready.
    pub(super) fn exclusive(&self, session: &AcpSessionId) -> LaneTicket {
        self.enqueue(session, |lane, ended| {
            // Waits for all of them: a concurrent request may be withdrawn while it waits.
            lane.restoring.clear();
            lane.exclusive.replace(ended).into_iter().chain(lane.shared.drain(..)).collect()
        })
    }

    fn enqueue(
        &self,
        session: &AcpSessionId,
        enter: impl FnOnce(&mut Lane, EndSignal) -> Vec<EndSignal>,
    ) -> LaneTicket {
        let (end, ended) = EndSignal::later();
        let ahead = enter(self.lanes.lock().entry(session.clone()).or_default(), ended);
        LaneTicket { order: self.clone(), session: session.clone(), ahead, end: Some(end) }
    }
}

impl LaneTicket {
    /// Waits until all earlier requests have ended.
    pub(super) async fn ready(&self) {
        for ended in &self.ahead {
            ended.clone().wait().await;
        }
    }
}

impl Drop for LaneTicket {
    fn drop(&mut self) {
        self.end = None;
        let mut lanes = self.order.lanes.lock();
        let Some(lane) = lanes.get_mut(&self.session) else { return };
        lane.exclusive.take_if(|ended| ended.is_over());
        lane.shared.retain(|ended| !ended.is_over());
        lane.restoring.retain(|ended| !ended.is_over());
        if lane.exclusive.is_none() && lane.shared.is_empty() {
            lanes.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_ready(ticket: &LaneTicket) -> bool {
        pin!(ticket.ready()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn exclusive_request_waits_for_earlier_ones_and_blocks_later_ones() {
        let (order, session) = (SessionLanes::default(), AcpSessionId::new("s").unwrap());
        let [load, resume] = [order.shared(&session), order.shared(&session)];
        let close = order.exclusive(&session);
        let later = order.shared(&session);
        let delete = order.exclusive(&session);
        let waiting = || [&close, &later, &delete].map(|ticket| !is_ready(ticket));
        assert!(is_ready(&load) && is_ready(&resume));
        drop(resume);
        assert_eq!(waiting(), [true, true, true]);
        drop(load);
        assert_eq!(waiting(), [false, true, true]);
        drop(close);
        assert!(is_ready(&later) && !is_ready(&delete));
        drop(later);
        assert!(is_ready(&delete));
    }

    #[test]
    fn withdrawn_request_behind_a_close_does_not_unblock_the_next() {
        let (order, session) = (SessionLanes::default(), AcpSessionId::new("s").unwrap());
        let close = order.exclusive(&session);
        let withdrawn = order.shared(&session);
        let delete = order.exclusive(&session);
        drop(withdrawn);
        assert!(!is_ready(&delete));
        drop(close);
        assert!(is_ready(&delete));
    }

    #[test]
    fn session_restore_waits_for_all_earlier_restores() {
        let (order, session) = (SessionLanes::default(), AcpSessionId::new("s").unwrap());
        let [first, second] = [order.restoring(&session), order.restoring(&session)];
        let shared = order.shared(&session);
        let third = order.restoring(&session);
        let ready = || [&shared, &third].map(is_ready);
        assert!(is_ready(&first) && !is_ready(&second));
        // A request withdrawn while it waits does not let later ones overtake the first.
        drop(second);
        assert_eq!(ready(), [true, false]);
        drop(first);
        assert_eq!(ready(), [true, true]);
    }

    #[test]
    fn a_session_without_requests_is_forgotten() {
        let (order, session) = (SessionLanes::default(), AcpSessionId::new("s").unwrap());
        let tickets = [order.shared(&session), order.exclusive(&session), order.shared(&session)];
        assert_eq!(order.lanes.lock().len(), 1);
        drop(tickets);
        assert_eq!(order.lanes.lock().len(), 0);
    }
}
