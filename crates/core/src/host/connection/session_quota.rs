//! Counts the sessions with an agent of each remote user, so that one user cannot occupy the machine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::model::RecordId;
use crate::sync::Lock;

/// How many sessions of one remote user may have an agent at the same time.
pub(crate) const MAX_SESSIONS: usize = 32;

/// The sessions with an agent of each remote user.
#[derive(Debug, Default)]
pub(crate) struct SessionQuota(Lock<HashMap<String, UserSessions>>);

#[derive(Debug, Default)]
struct UserSessions {
    /// Reservations for sessions that are about to start.
    reserved: usize,
    started: HashSet<RecordId>,
}

/// A reservation for a session that is about to have an agent; empty for local clients. Released on drop, or committed
/// when the session is counted.
#[derive(Debug, Default)]
pub(crate) struct QuotaPermit(Option<(Arc<SessionQuota>, String)>);

impl SessionQuota {
    /// The counted sessions of a user.
    pub(crate) fn sessions_of(&self, user: &str) -> Vec<RecordId> {
        self.0.lock().get(user).map(|own| own.started.iter().cloned().collect()).unwrap_or_default()
    }

    /// Removes parked sessions from the count, then reserves one more. A `known` session that is already counted needs
    /// no reservation. `None` if the user has reached the limit.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        user: &str,
        parked: &[RecordId],
        known: Option<&RecordId>,
    ) -> Option<QuotaPermit> {
        let mut users = self.0.lock();
        let own = users.entry(user.to_owned()).or_default();
        own.started.retain(|record| !parked.contains(record));
        if known.is_some_and(|known| own.started.contains(known)) {
            return Some(QuotaPermit::default());
        }
        if own.reserved + own.started.len() >= MAX_SESSIONS {
            return None;
        }
        own.reserved += 1;
        Some(QuotaPermit(Some((Arc::clone(self), user.to_owned()))))
    }

    /// Ends a reservation, and counts the session it was for.
    fn release(&self, user: &str, started: Option<RecordId>) {
        let mut users = self.0.lock();
        let Some(own) = users.get_mut(user) else { return };
        own.reserved = own.reserved.saturating_sub(1);
        own.started.extend(started);
        if own.reserved == 0 && own.started.is_empty() {
            users.remove(user);
        }
    }
}

impl QuotaPermit {
    /// Converts the reservation into a counted session.
    pub(crate) fn commit(mut self, record: &RecordId) {
        if let Some((quota, user)) = self.0.take() {
            quota.release(&user, Some(record.clone()));
        }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        if let Some((quota, user)) = self.0.take() {
            quota.release(&user, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_user_reserves_up_to_the_quota_and_counts_sessions_once() {
        let quota = Arc::new(SessionQuota::default());
        let record = |number: usize| RecordId::new(format!("r{number}")).unwrap();
        let is_empty = |permit: Option<QuotaPermit>| permit.map(|permit| permit.0.is_none());
        for number in 0..MAX_SESSIONS {
            quota.reserve("me", &[], None).unwrap().commit(&record(number));
        }
        assert_eq!(is_empty(quota.reserve("me", &[], None)), None);
        assert_eq!(is_empty(quota.reserve("me", &[], Some(&record(7)))), Some(true));
        assert_eq!(is_empty(quota.reserve("another", &[], None)), Some(false));
        let permit = quota.reserve("me", &[record(7)], Some(&record(7)));
        assert_eq!(is_empty(quota.reserve("me", &[], None)), None);
        assert_eq!(is_empty(permit), Some(false));
        assert_eq!(quota.sessions_of("me").len(), MAX_SESSIONS - 1);
        assert_eq!(quota.0.lock().len(), 1);
    }
}
