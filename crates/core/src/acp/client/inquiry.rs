//! What an agent is asked about all its sessions, and not in one: what it has, and whether it deletes one of the others.
//! That is no part of any conversation, so its answers are told apart from what is said in one.

use crate::wire::RpcId;

use super::{AgentConnection, OutgoingLine};

/// How many inquiries an agent may leave unanswered before it is asked no more.
const MAX_INQUIRIES: usize = 16;

impl AgentConnection {
    /// Makes an inquiry of a request of ours; the id that its answer is told under. `None` if the agent leaves too many
    /// unanswered.
    pub fn inquire(&mut self, request: &OutgoingLine) -> Option<RpcId> {
        let id = request.id.clone().filter(|_| self.inquiries.len() < MAX_INQUIRIES)?;
        self.inquiries.push(id.clone());
        Some(id)
    }

    /// Whether an answer is one to an inquiry, which is then answered.
    pub(super) fn take_inquiry(&mut self, id: &RpcId) -> bool {
        let index = self.inquiries.iter().position(|inquiry| inquiry == id);
        index.map(|index| self.inquiries.swap_remove(index)).is_some()
    }
}
