//! Requests of a client that are its agent's to answer: another mode, another value of an option. A client and an agent
//! of different versions are translated between.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::acp::agent::{CallError, ClientLink, RawSetup, SetModeCall, SetOptionCall, UpdateBody};
use crate::acp::offers::Offers;
use crate::acp::translate::Untranslatable;
use crate::engine::{RestoreSession, Session};
use crate::model::{ProtocolVersion, RecordId};

use super::connection::{Connection, problem, record_of};

impl Connection {
    /// Puts a session into a mode.
    pub(super) async fn pass_mode(&self, call: SetModeCall, link: &ClientLink) -> Result<(), CallError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            session_id: &'a str,
            mode_id: &'a str,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a RawValue>,
        }
        let meta = call.meta.as_deref().and_then(|meta| serde_json::from_str(meta).ok());
        let params =
            json!(Params { session_id: call.session.as_str(), mode_id: &call.mode, meta }).to_string();
        let (session, given, agent) = self.spoken_to(&record_of(&call.session)).await?;
        let (offered, client) = (session.offered(), link.client());
        let offers = Offers { offered: &offered, agent, client: &client };
        let choice = offers.set_mode(&params).map_err(|error| unsaid(&error))?;
        self.pass(choice.method, &choice.params, &session, given).await.map(drop)
    }

    /// Sets an option of a session; all of them are the answer.
    pub(super) async fn pass_option(
        &self,
        call: SetOptionCall,
        link: &ClientLink,
    ) -> Result<String, CallError> {
        let (session, given, agent) = self.spoken_to(&record_of(&call.session)).await?;
        let (offered, client) = (session.offered(), link.client());
        let offers = Offers { offered: &offered, agent, client: &client };
        let choice = offers.set_option(&call.params).map_err(|error| unsaid(&error))?;
        let result = self.pass(choice.method, &choice.params, &session, given).await?;
        Ok(offers.options_answer(&choice, &result))
    }

    /// A session that this client has in use, what its agent would be started with, and the version that is spoken with
    /// it. An agent that has not run yet is woken: it may speak either.
    async fn spoken_to(
        &self,
        record: &RecordId,
    ) -> Result<(Session, RestoreSession, ProtocolVersion), CallError> {
        let (session, given) = self.attached(record).await?;
        if session.agent_version().is_none() {
            session.wake(given.clone()).await.map_err(|error| self.refused(&error))?;
        }
        let version = session.agent_version().unwrap_or_default();
        Ok((session, given, version))
    }

    async fn pass(
        &self,
        method: &str,
        params: &str,
        session: &Session,
        given: RestoreSession,
    ) -> Result<String, CallError> {
        let answer = session.request(method, params, given).await;
        answer.map(|answer| answer.to_string()).map_err(|error| self.refused(&error))
    }
}

/// What a session offers, for the answer that tells of it, and what is told after that.
pub(super) fn offered(session: &Session, link: &ClientLink) -> (RawSetup, Option<UpdateBody>) {
    let (offered, client) = (session.offered(), link.client());
    let agent = session.agent_version().unwrap_or_default();
    Offers { offered: &offered, agent, client: &client }.setup()
}

/// What the agent's version has no words for is a parameter that is wrong.
fn unsaid(error: &Untranslatable) -> CallError {
    match error.field() {
        Some(field) => problem(&field, error.to_string()),
        None => problem("method", error.to_string()),
    }
}
