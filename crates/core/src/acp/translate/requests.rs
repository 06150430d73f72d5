//! A client's requests for an agent of the other version: which method says the same there, and with what params.
//! What needs to know the session, setting modes and options, is asked of its translator instead.

use super::blocks::prompt_blocks;
use super::error::Untranslatable;
use super::members::Members;
use super::servers::{in_params, servers_to_v1, servers_to_v2};
use crate::model::ProtocolVersion;

/// A request, or a notification, as it is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its method.
    pub method: &'static str,
    /// Its params.
    pub params: Box<str>,
}

/// What a client of version 1 asks, for an agent of version 2. Its `session/load` is a resume with a replay.
pub fn request_to_v2(method: &str, params: &str) -> Result<Call, Untranslatable> {
    let mut members = object(method, params)?;
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
    Ok(Call { method, params: members.to_string().into() })
}

/// What a client of version 2 asks, for an agent of version 1. A resume with a replay from the start is a load; no
/// other replay can be asked for there.
pub fn request_to_v1(method: &str, params: &str) -> Result<Call, Untranslatable> {
    let mut members = object(method, params)?;
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
            let cursor = members.take("replayFrom").filter(|cursor| cursor != "null");
            let Some(cursor) = cursor else {
                in_params(&mut members, servers_to_v1, false)?;
                return Ok(Call { method: "session/resume", params: members.to_string().into() });
            };
            let start = Members::parse(&cursor).and_then(|cursor| cursor.text("type"));
            if start.as_deref() != Some("start") {
                return Err(Untranslatable::Cursor { cursor: (&*cursor).into() });
            }
            in_params(&mut members, servers_to_v1, true)?;
            "session/load"
        }
        "session/prompt" => {
            blocks(&members, ProtocolVersion::V1)?;
            "session/prompt"
        }
        "session/set_config_option" => return super::UpdatesToV2::new().set_config_option(params),
        method => known(method)?,
    };
    Ok(Call { method, params: members.to_string().into() })
}

fn blocks(params: &Members<'_>, to: ProtocolVersion) -> Result<(), Untranslatable> {
    prompt_blocks(params.get("prompt").unwrap_or("null"), to).map(drop)
}

/// A method that both versions have, under the same name.
fn known(method: &str) -> Result<&'static str, Untranslatable> {
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
    same.ok_or_else(|| Untranslatable::Method { method: method.into() })
}

/// Params that are absent are an object without members.
fn object<'a>(method: &str, params: &'a str) -> Result<Members<'a>, Untranslatable> {
    if params == "null" {
        return Ok(Members::new());
    }
    let wrong = || Untranslatable::Shape { method: method.into(), field: "params".into() };
    Members::parse(params).ok_or_else(wrong)
}
