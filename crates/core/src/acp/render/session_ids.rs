//! The ids of the sessions that clients have in use.

use std::fmt;
use std::sync::Arc;

type IsSession = dyn Fn(&str) -> bool + Send + Sync;

/// Tests whether an id is an acpx session that a client uses. By default none is.
#[derive(Clone, Default)]
pub(crate) struct SessionIds(Option<Arc<IsSession>>);

impl SessionIds {
    /// The ids that satisfy the predicate.
    pub(crate) fn new(is_session: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_session)))
    }

    pub(super) fn contain(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|is_session| is_session(id))
    }
}

impl fmt::Debug for SessionIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionIds").finish_non_exhaustive()
    }
}
