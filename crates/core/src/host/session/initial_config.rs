//! Settings that a client wants with the session that it asks for: chosen by words, before it has its answer. A session
//! that cannot be so is not made, and one that is there stays as it was.

use tokio::time::Instant;

use crate::acp::agent::CallError;
use crate::acp::settings;
use crate::engine::{RestoreSession, Session, SessionError};

use crate::host::Host;
use crate::host::connection::Connection;
use crate::protocol::acpx_meta::client_session;
use crate::protocol::meta::SettingMeta;
use crate::protocol::rpc_error;

impl Host {
    /// Chooses settings, one after the other: each may change what is offered to the next. Their client has waited since
    /// `begun`, and waits for all of them together as long as for the agent to be ready.
    pub(crate) async fn choose(
        &self,
        session: &Session,
        given: &RestoreSession,
        wanted: &[SettingMeta],
        begun: Instant,
    ) -> Result<(), CallError> {
        let refused = |error: SessionError| self.refused(&error);
        for SettingMeta { option, value } in wanted {
            let version = session.agent_version().unwrap_or_default();
            let offered = settings::offered(&session.offered(), version);
            let chosen = offered.choose(option.as_deref(), value).map_err(|error| refused(error.into()))?;
            let (method, params) = settings::request(&chosen, &client_session(session.record_id()), version);
            let asked = session.request_after(begun.elapsed(), method, &params, given.clone());
            asked.await.map_err(refused)?;
        }
        Ok(())
    }
}

/// The option that even a program which an agent started may choose, for a session that it makes itself.
const MODEL: &str = "model";

impl Connection {
    /// An error if this client may not choose how a session works. A choice is kept and holds in the turns of others, and
    /// a mode may let an agent do everything unasked: so what an agent started chooses nothing.
    pub(crate) fn may_choose(&self) -> Result<(), CallError> {
        if self.is_confined() { Err(rpc_error::not_allowed("choose how a session works")) } else { Ok(()) }
    }

    /// The same for a session that it makes, of which it may choose the model.
    pub(crate) fn may_choose_for_new(&self, wanted: &[SettingMeta]) -> Result<(), CallError> {
        let is_model = |setting: &SettingMeta| setting.option.as_deref() == Some(MODEL);
        if wanted.iter().all(is_model) { Ok(()) } else { self.may_choose() }
    }
}
