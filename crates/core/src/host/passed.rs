//! Requests of a client that are its agent's to answer: another mode, another value of an option.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::acp::agent::{CallError, RawSetup, SetModeCall, SetOptionCall};
use crate::engine::Session;
use crate::model::AcpSessionId;

use super::connection::{Connection, record_of};

impl Connection {
    /// Puts a session into a mode.
    pub(super) async fn pass_mode(&self, call: SetModeCall) -> Result<(), CallError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            session_id: &'a str,
            mode_id: &'a str,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a RawValue>,
        }
        let meta = call.meta.as_deref().and_then(|meta| serde_json::from_str(meta).ok());
        let params = Params { session_id: call.session.as_str(), mode_id: &call.mode, meta };
        self.pass("session/set_mode", &call.session, &json!(params).to_string()).await.map(drop)
    }

    /// Sets an option of a session; all of them are the answer.
    pub(super) async fn pass_option(&self, call: SetOptionCall) -> Result<String, CallError> {
        self.pass("session/set_config_option", &call.session, &call.params).await
    }

    async fn pass(&self, method: &str, session: &AcpSessionId, params: &str) -> Result<String, CallError> {
        let (session, given) = self.attached(&record_of(session)).await?;
        let answer = session.request(method, params, given).await;
        answer.map(|answer| answer.to_string()).map_err(|error| self.refused(&error))
    }
}

/// What a session offers, for the answer that tells of it.
pub(super) fn offered(session: &Session) -> RawSetup {
    let offered = session.offered();
    let raw = |json: &Option<Box<str>>| RawValue::from_string(json.as_deref()?.to_owned()).ok();
    RawSetup {
        modes: raw(&offered.modes),
        config_options: raw(&offered.config_options),
        commands: raw(&offered.commands),
    }
}
