//! Applies the settings that a client requests together with a session, before the reply. If one fails, a new session
//! is removed again, and an existing one remains.

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
    /// Applies settings one by one, since each may change what is offered next. The client has waited since `begun`;
    /// the limit for the agent's start covers all of them.
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

/// The only option that a confined client may set, for a session that it creates.
const MODEL: &str = "model";

impl Connection {
    /// Returns an error if this client may not change settings. Settings are stored and apply to the turns of others,
    /// and a mode may let an agent do everything unasked, so a confined client changes none.
    pub(crate) fn may_choose(&self) -> Result<(), CallError> {
        if self.is_confined() { Err(rpc_error::not_allowed("choose how a session works")) } else { Ok(()) }
    }

    /// The same for a session that the client creates: it may set the model.
    pub(crate) fn may_choose_for_new(&self, wanted: &[SettingMeta]) -> Result<(), CallError> {
        let is_model = |setting: &SettingMeta| setting.option.as_deref() == Some(MODEL);
        if wanted.iter().all(is_model) { Ok(()) } else { self.may_choose() }
    }
}
