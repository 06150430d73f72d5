//! Forwards setting changes to the agent: mode, model and config options. Translates between clients and agents of
//! different protocol versions.

use std::borrow::Cow;

use crate::acp::agent::{
    CallError, ClientLink, SetModeCall, SetModelCall, SetOptionCall, StopCall, UpdateBody,
};
use crate::acp::config_options::{OfferTranslator, SettingRequest, UnknownSetting};
use crate::acp::translate::TranslationError;
use crate::engine::Session;
use crate::model::{AcpSessionId, ProtocolVersion, RecordId};
use crate::wire::encode::json_string;
use crate::wire::splice::{put, without};

use crate::host::connection::{Connection, InUse};
use crate::protocol::acpx_meta::{problem, record_of};

/// The params of forwarded requests that acpx understands.
pub(crate) const KNOWN: [&str; 8] =
    ["sessionId", "modeId", "modelId", "configId", "type", "value", "toolCallId", "terminalId"];

/// A client's choice among the settings that a session offers.
pub(crate) enum ChoiceCall {
    Mode(SetModeCall),
    /// A model of an agent that has models separate from its options.
    Model(SetModelCall),
    Option(SetOptionCall),
}

impl ChoiceCall {
    fn session(&self) -> &AcpSessionId {
        match self {
            Self::Mode(call) => &call.session,
            Self::Model(call) => &call.session,
            Self::Option(call) => &call.session,
        }
    }

    /// The request for the agent, in its version.
    fn choice<'a>(&'a self, offers: OfferTranslator<'a>) -> Result<SettingRequest<'a>, TranslationError> {
        match self {
            Self::Mode(call) => offers.set_mode(&call.params),
            Self::Model(call) => Ok(SettingRequest::of_model(&call.params)),
            Self::Option(call) => offers.set_option(&call.params),
        }
    }

    /// The error for a setting or value that the session does not have.
    fn problem(&self, wrong: UnknownSetting) -> CallError {
        let (field, words, there) = match (self, wrong) {
            (Self::Mode(call), UnknownSetting::Option(there) | UnknownSetting::Value(there)) => {
                ("modeId", format!("is {:?}, which is no mode of this session", call.mode), there)
            }
            (Self::Model(call), UnknownSetting::Option(there) | UnknownSetting::Value(there)) => {
                ("modelId", format!("is {:?}, which is no model of this session", call.model), there)
            }
            (Self::Option(call), UnknownSetting::Option(there)) => {
                ("configId", format!("is {:?}, which this session does not have", call.option), there)
            }
            (Self::Option(_), UnknownSetting::Value(there)) => {
                ("value", "is none that this option can have".to_owned(), there)
            }
        };
        problem_with(field, &words, &there)
    }
}

impl Connection {
    /// Sets a mode, model or option if the session offers it, and returns the agent's reply.
    pub(crate) async fn pass_choice(&self, call: ChoiceCall, link: &ClientLink) -> Result<String, CallError> {
        self.may_choose()?;
        let (asked, agent) = self.spoken_to(&record_of(call.session())).await?;
        let (offered, client) = (asked.session.offered(), link.client());
        let offers = OfferTranslator { offered: &offered, agent, client: &client };
        let choice = call.choice(offers).map_err(|error| unsaid(&error))?;
        offers.check(&choice).map_err(|wrong| call.problem(wrong))?;
        let result = self.pass(choice.method, &choice.params, asked).await?;
        Ok(match call {
            ChoiceCall::Mode(_) | ChoiceCall::Model(_) => offers.mode_answer(&result),
            // The reply contains all options.
            ChoiceCall::Option(_) => offers.options_answer(&choice, &result),
        })
    }

    /// Stops a tool call or terminal of a version 2 agent. Version 1 has no such method.
    pub(crate) async fn pass_stop(&self, call: StopCall) -> Result<String, CallError> {
        let record = record_of(&call.session);
        let (asked, agent) = self.spoken_to(&record).await?;
        if agent == ProtocolVersion::V1 {
            return Err(CallError::UnknownMethod(call.method.to_owned()));
        }
        let kept = self.host.engine.record(&record).await.map_err(|error| self.refused(&error))?;
        // An id that an earlier ACP session used has the lineage row as a suffix.
        let row = kept.map(|kept| format!("~{}", kept.lineage.current_index()));
        let own = row.and_then(|row| call.target.strip_suffix(&row));
        let name = if call.method == "terminal/cancel" { "terminalId" } else { "toolCallId" };
        let params = own.and_then(|own| put(&call.params, &[name], &json_string(own)));
        let params = params.as_deref().unwrap_or(&call.params);
        let result = self.pass(call.method, params, asked).await?;
        // A result is an object, never null.
        Ok(if result.starts_with('{') { result } else { "{}".to_owned() })
    }

    /// A session that this client uses, and its agent's protocol version. An agent that has not run yet is started,
    /// since its version is unknown.
    async fn spoken_to(&self, record: &RecordId) -> Result<(InUse, ProtocolVersion), CallError> {
        let asked = self.attached(record).await?;
        if asked.session.agent_version().is_none() {
            asked.session.wake(asked.given.clone()).await.map_err(|error| self.refused(&error))?;
        }
        let version = asked.session.agent_version().unwrap_or_default();
        Ok((asked, version))
    }

    async fn pass(&self, method: &str, params: &str, asked: InUse) -> Result<String, CallError> {
        let InUse { session, given, room } = asked;
        let params = if self.may_say_besides() {
            // Our own `_meta` is not for the agent.
            without(params, &["_meta", "acpx"]).map_or(Cow::Borrowed(params), Cow::Owned)
        } else {
            Cow::Owned(only_known(params)?)
        };
        let answer = session.request(method, &params, given).await;
        room.filled_by(session.record_id());
        answer.map(|answer| answer.to_string()).map_err(|error| self.refused(&error))
    }
}

/// What a session offers, for the reply that introduces it, and the update to send after that.
pub(crate) fn offered(session: &Session, link: &ClientLink) -> (String, Option<UpdateBody>) {
    let (offered, client) = (session.offered(), link.client());
    let agent = session.agent_version().unwrap_or_default();
    OfferTranslator { offered: &offered, agent, client: &client }.setup()
}

/// The params without members that only an agent may understand, even if their names are escaped.
pub(crate) fn only_known(params: &str) -> Result<String, CallError> {
    let members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(params).map_err(|error| problem("params", error.to_string()))?;
    let known = members.into_iter().filter(|(name, _)| KNOWN.contains(&name.as_str()));
    Ok(serde_json::Value::Object(known.collect()).to_string())
}

/// The error for a wrong parameter, with the valid values.
fn problem_with(field: &str, words: &str, there: &[Box<str>]) -> CallError {
    let known = if there.is_empty() { String::new() } else { format!("; there are {}", there.join(", ")) };
    problem(field, format!("{words}{known}"))
}

/// The error for a parameter that the agent's version cannot express.
fn unsaid(error: &TranslationError) -> CallError {
    let field = error.field();
    problem(field.as_deref().unwrap_or("method"), format!("cannot be passed on: {error}"))
}
