//! Translates a client's requests for an agent of the other version: the equivalent method and its params. A version
//! 1 `session/set_mode` depends on the session, so `UpdatesToV1` translates it.

use super::blocks::prompt_blocks;
use super::error::TranslationError;
use super::options::MODE_OPTION;
use super::servers::{in_params, servers_to_v1, servers_to_v2};
use crate::model::{MODEL_OPTION, ProtocolVersion};
use crate::wire::json::RawObject;

/// A translated request or notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TranslatedCall {
    /// Its method.
    pub method: &'static str,
    /// Its params.
    pub params: Box<str>,
}

/// Translates a version 1 request for a version 2 agent. `session/load` becomes a resume with a replay.
pub(crate) fn request_to_v2(method: &str, params: &str) -> Result<TranslatedCall, TranslationError> {
    let mut members = object(params)?;
    let method = match method {
        "authenticate" => "auth/login",
        "logout" => "auth/logout",
        "session/new" | "session/resume" | "session/fork" => {
            in_params(&mut members, servers_to_v2, false)?;
            known(method)?
        }
        "session/load" => {
            in_params(&mut members, servers_to_v2, false)?;
            members.set("replayFrom", r#"{"type":"start"}"#);
            "session/resume"
        }
        "session/set_config_option" => {
            if members.text("type").is_none() {
                members.set_text("type", "id");
            }
            "session/set_config_option"
        }
        "session/prompt" => {
            blocks(&members, ProtocolVersion::V2)?;
            "session/prompt"
        }
        method => known(method)?,
    };
    Ok(TranslatedCall { method, params: members.to_string().into() })
}

/// Translates a version 2 request for a version 1 agent. A resume with a replay from the start becomes a load; other
/// replays are not possible. Setting the mode option becomes `session/set_mode`, and setting the model option becomes
/// `session/set_model`.
pub(crate) fn request_to_v1(method: &str, params: &str) -> Result<TranslatedCall, TranslationError> {
    let mut members = object(params)?;
    let method = match method {
        "auth/login" => "authenticate",
        "auth/logout" => "logout",
        "session/new" => {
            in_params(&mut members, servers_to_v1, true)?;
            "session/new"
        }
        "session/fork" => {
            in_params(&mut members, servers_to_v1, false)?;
            "session/fork"
        }
        "session/resume" => {
            let cursor = members.remove("replayFrom").filter(|cursor| cursor != "null");
            let Some(cursor) = cursor else {
                in_params(&mut members, servers_to_v1, false)?;
                return Ok(TranslatedCall { method: "session/resume", params: members.to_string().into() });
            };
            let start = RawObject::parse(&cursor).and_then(|cursor| cursor.text("type"));
            if start.as_deref() != Some("start") {
                return Err(TranslationError::Cursor { cursor: (&*cursor).into() });
            }
            in_params(&mut members, servers_to_v1, true)?;
            "session/load"
        }
        "session/prompt" => {
            blocks(&members, ProtocolVersion::V1)?;
            "session/prompt"
        }
        "session/set_config_option" => set_option_to_v1(&mut members)?,
        method => known(method)?,
    };
    Ok(TranslatedCall { method, params: members.to_string().into() })
}

fn set_option_to_v1(params: &mut RawObject<'_>) -> Result<&'static str, TranslationError> {
    let wrong = TranslationError::shape;
    let option = params.text("configId").ok_or_else(|| wrong("configId"))?;
    let kind = params.text("type").ok_or_else(|| wrong("type"))?;
    match &*kind {
        // The value is not checked here: this function does not know the modes.
        "id" | "boolean" if &*option == MODE_OPTION => {
            params.remove("configId");
            params.remove("type");
            params.rename("value", "modeId");
            return Ok("session/set_mode");
        }
        // The same for a model.
        "id" | "boolean" if &*option == MODEL_OPTION => {
            params.remove("configId");
            params.remove("type");
            params.rename("value", "modelId");
            return Ok("session/set_model");
        }
        "id" => {
            params.remove("type");
        }
        "boolean" => {}
        kind => {
            return Err(TranslationError::OptionValue { option: (&*option).into(), kind: kind.into() });
        }
    }
    Ok("session/set_config_option")
}

fn blocks(params: &RawObject<'_>, to: ProtocolVersion) -> Result<(), TranslationError> {
    prompt_blocks(params.get("prompt").unwrap_or("null"), to).map(drop)
}

/// A method that both versions have under the same name.
fn known(method: &str) -> Result<&'static str, TranslationError> {
    const SAME: [&str; 7] = [
        "session/new",
        "session/resume",
        "session/fork",
        "session/list",
        "session/delete",
        "session/close",
        "session/cancel",
    ];
    let same = SAME.into_iter().find(|known| *known == method);
    same.ok_or_else(|| TranslationError::Method { method: method.into() })
}

/// Reads params as an object. Absent params are an empty object.
fn object(params: &str) -> Result<RawObject<'_>, TranslationError> {
    if params == "null" {
        return Ok(RawObject::new());
    }
    RawObject::parse(params).ok_or_else(|| TranslationError::shape("params"))
}
