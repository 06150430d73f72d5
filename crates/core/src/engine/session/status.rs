//! Publishes a session's status and its agent's offer to all handles.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::acp::settings;
use crate::machine::Input;
use crate::model::{SessionIdentity, Setting};

use super::effects::SessionAction;
use super::task::SessionTask;
use crate::engine::CountGuard;
use crate::engine::api::session_handle::{AgentOffer, SessionStatus};

impl SessionTask {
    pub(crate) fn tell_status(&mut self) {
        let has_agent = self.agent.is_some() || self.coming.is_some() || self.going.is_some();
        if has_agent != self.live.is_some() {
            self.live = has_agent.then(|| CountGuard::one(&self.shared.live));
        }
        let status = SessionStatus {
            identity: self.identity(),
            agent_pid: self.agent.as_ref().map(|agent| agent.process.pid()),
            has_agent,
            has_work: self.machine.has_work(),
            has_leftover: self.leftover.is_some(),
            memory: self.knowledge.memory(),
            unmet: self.machine.unmet_settings(),
            awakened: self.knowledge.awakened(),
        };
        self.tell_offers();
        self.told.status.send_if_modified(|told| {
            let changed = *told != status;
            *told = status;
            changed
        });
    }

    /// The record's three ids, once there is a record.
    pub(crate) fn identity(&self) -> Option<SessionIdentity> {
        self.machine.lineage().filter(|_| self.journal.has_record()).map(|lineage| SessionIdentity {
            record: self.journal.record().clone(),
            session: lineage.current().session.clone(),
            agent_session: lineage.current().agent_session.clone(),
        })
    }

    /// Feeds the agent's offer to the machine, if it has changed.
    pub(crate) fn note_offers(&mut self) {
        let Some(agent) = &self.agent else { return };
        let (offered, version) = (agent.connection.offered(), agent.connection.version());
        if !Arc::ptr_eq(&self.offered, offered) {
            self.offered = offered.clone();
            let offered = settings::offered(offered, version);
            self.feed(Input::SettingsOffered(offered));
        }
    }

    /// Removes the requested setting that a word means. Replies once that is persisted.
    pub(crate) fn forget(&mut self, word: Option<&str>, reply: oneshot::Sender<Option<Setting>>) {
        let wish = self.machine.wished(word);
        if let Some(wish) = &wish {
            self.feed(Input::ForgetSetting(wish.name.clone()));
        }
        self.actions.push(SessionAction::Forgotten(wish, reply));
    }

    /// Publishes the agent's offer. After the agent's end it stays until another agent has loaded the session.
    fn tell_offers(&mut self) {
        let Some(agent) = self.agent.as_ref().filter(|_| self.machine.is_live()) else { return };
        let (offered, answer) = (agent.connection.offered(), agent.connection.answer());
        let version = agent.connection.version();
        self.told.offers.send_if_modified(|told| {
            let is_told = Arc::ptr_eq(&told.offered, offered)
                && told.answer.as_ref().is_some_and(|told| Arc::ptr_eq(told, answer));
            if !is_told {
                *told = AgentOffer {
                    offered: offered.clone(),
                    answer: Some(answer.clone()),
                    version: Some(version),
                };
            }
            !is_told
        });
    }
}
