//! Requests to an agent about its other sessions, such as `session/list` and `session/delete`. They belong to no
//! conversation, so their responses are kept apart from the session's.

use crate::wire::RpcId;

use super::{AgentConnection, OutgoingLine};

/// Maximum number of unanswered inquiries per agent.
const MAX_INQUIRIES: usize = 16;

impl AgentConnection {
    /// Registers a request as an inquiry and returns the id that its response will carry. `None` if too many are
    /// unanswered.
    pub fn inquire(&mut self, request: &OutgoingLine) -> Option<RpcId> {
        let id = request.id.clone().filter(|_| self.inquiries.len() < MAX_INQUIRIES)?;
        self.inquiries.push(id.clone());
        Some(id)
    }

    /// Whether this is the response to an inquiry; removes it.
    pub(super) fn take_inquiry(&mut self, id: &RpcId) -> bool {
        let index = self.inquiries.iter().position(|inquiry| inquiry == id);
        index.map(|index| self.inquiries.swap_remove(index)).is_some()
    }
}
