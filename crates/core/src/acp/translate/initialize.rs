//! Capabilities of client and agent. Version 1 uses booleans and objects, and lists every session method that an
//! agent supports. Version 2 uses objects only, and an agent with sessions supports all session methods.

use crate::wire::json::{RawObject, array, items};

/// Optional session capabilities that both versions advertise as an object of the same name.
const EXTRAS: [&str; 7] =
    ["delete", "additionalDirectories", "fork", "archive", "status", "title", "systemPrompt"];

/// The version 2 info of a peer that did not give a name.
const NAMELESS: &str = r#"{"name":"unknown","version":"unknown"}"#;

/// Translates a version 1 agent's response to `initialize` for a version 2 client.
pub(crate) fn initialize_answer_to_v2(result: &str) -> Option<Box<str>> {
    let mut result = RawObject::parse(result)?;
    let advertised = result.remove("agentCapabilities").unwrap_or_default();
    let advertised = RawObject::parse(&advertised).unwrap_or_default();
    let mut session = RawObject::new();
    if let Some(mut prompt) = advertised.get("promptCapabilities").and_then(RawObject::parse) {
        for name in ["image", "audio", "embeddedContext"] {
            marker_of_flag(&mut prompt, name);
        }
        session.set("prompt", prompt.to_string());
    }
    // Every version 1 agent supports stdio servers.
    let mut mcp = advertised.get("mcpCapabilities").and_then(RawObject::parse).unwrap_or_default();
    mcp.remove("sse");
    for name in ["http", "acp"] {
        marker_of_flag(&mut mcp, name);
    }
    mcp.set("stdio", "{}");
    session.set("mcp", mcp.to_string());
    let extras = advertised.get("sessionCapabilities").and_then(RawObject::parse).unwrap_or_default();
    copy(&extras, &EXTRAS, &mut session);
    copy(&extras, &["_meta"], &mut session);
    let mut capabilities = RawObject::new();
    capabilities.set("session", session.to_string());
    if let Some(mut auth) = advertised.get("auth").and_then(RawObject::parse) {
        auth.remove("logout");
        capabilities.set("auth", auth.to_string());
    }
    copy(&advertised, &["providers", "_meta"], &mut capabilities);
    result.set("protocolVersion", "2");
    info(&mut result, "agentInfo", "info");
    result.set("capabilities", capabilities.to_string());
    if let Some(methods) = result.get("authMethods").and_then(items) {
        let methods = array(methods.into_iter().filter_map(method_to_v2));
        result.set("authMethods", methods);
    }
    Some(result.to_string().into())
}

/// Translates a version 2 agent's response to `initialize` for a version 1 client. It advertises load, resume, list
/// and close, which every version 2 agent with sessions supports.
pub(crate) fn initialize_answer_to_v1(result: &str) -> Option<Box<str>> {
    let mut result = RawObject::parse(result)?;
    let advertised = result.remove("capabilities").unwrap_or_default();
    let advertised = RawObject::parse(&advertised).unwrap_or_default();
    let session = advertised.get("session").and_then(RawObject::parse);
    let mut capabilities = RawObject::new();
    if let Some(session) = &session {
        capabilities.set("loadSession", "true");
        if let Some(mut prompt) = session.get("prompt").and_then(RawObject::parse) {
            for name in ["image", "audio", "embeddedContext"] {
                flag_of_marker(&mut prompt, name);
            }
            capabilities.set("promptCapabilities", prompt.to_string());
        }
        if let Some(mut mcp) = session.get("mcp").and_then(RawObject::parse) {
            mcp.remove("stdio");
            for name in ["http", "acp"] {
                flag_of_marker(&mut mcp, name);
            }
            capabilities.set("mcpCapabilities", mcp.to_string());
        }
        let mut extras = RawObject::new();
        for name in ["list", "resume", "close"] {
            extras.set(name, "{}");
        }
        copy(session, &EXTRAS, &mut extras);
        copy(session, &["_meta"], &mut extras);
        capabilities.set("sessionCapabilities", extras.to_string());
    }
    let methods: Vec<String> = result
        .get("authMethods")
        .and_then(items)
        .map(|methods| methods.into_iter().filter_map(method_to_v1).collect())
        .unwrap_or_default();
    let mut auth = advertised.get("auth").and_then(RawObject::parse).unwrap_or_default();
    if !methods.is_empty() {
        auth.set("logout", "{}");
    }
    if !auth.is_empty() {
        capabilities.set("auth", auth.to_string());
    }
    copy(&advertised, &["providers", "_meta"], &mut capabilities);
    result.set("protocolVersion", "1");
    result.rename("info", "agentInfo");
    result.set("agentCapabilities", capabilities.to_string());
    result.set("authMethods", array(methods));
    Some(result.to_string().into())
}

fn copy<'a>(advertised: &RawObject<'_>, names: &[&'a str], target: &mut RawObject<'a>) {
    for name in names {
        if let Some(value) = advertised.get_non_null(name) {
            target.set(name, value.to_owned());
        }
    }
}

/// Moves the peer's name and version, which version 2 requires.
fn info<'a>(members: &mut RawObject<'a>, from: &str, to: &'a str) {
    members.rename(from, to);
    let is_whole = members
        .get(to)
        .and_then(RawObject::parse)
        .is_some_and(|info| info.text("name").is_some() && info.text("version").is_some());
    if !is_whole {
        members.set(to, NAMELESS);
    }
}

fn marker_of_flag(members: &mut RawObject<'_>, name: &'static str) {
    match members.get(name) {
        Some("true") => members.set(name, "{}"),
        Some(value) if value.starts_with('{') => {}
        _ => {
            members.remove(name);
        }
    }
}

fn flag_of_marker(members: &mut RawObject<'_>, name: &'static str) {
    if members.get(name).is_some_and(|value| value.starts_with('{')) {
        members.set(name, "true");
    } else {
        members.remove(name);
    }
}

/// Translates a login method. Version 1 gives it a type only if it runs in a terminal, and its environment is an
/// object.
fn method_to_v2(method: &str) -> Option<String> {
    let mut method = RawObject::parse(method)?;
    method.rename("id", "methodId");
    if method.text("type").as_deref() != Some("terminal") {
        method.set_text("type", "agent");
        return Some(method.to_string());
    }
    if let Some(env) = method.get("env").filter(|env| env.starts_with('{')) {
        let env: serde_json::Map<String, serde_json::Value> = serde_json::from_str(env).ok()?;
        let pair = |(name, value)| serde_json::json!({"name": name, "value": value}).to_string();
        method.set("env", array(env.into_iter().map(pair)));
    }
    Some(method.to_string())
}

/// Translates a login method. One of a type that version 1 does not have is left out: a client would mistake it for
/// the agent's own.
fn method_to_v1(method: &str) -> Option<String> {
    let mut method = RawObject::parse(method)?;
    method.rename("methodId", "id");
    match method.text("type").as_deref() {
        Some("agent") => {
            method.remove("type");
        }
        Some("terminal") => {
            if let Some(env) = method.get("env").and_then(items) {
                let mut object = serde_json::Map::new();
                for pair in env {
                    let pair = RawObject::parse(pair)?;
                    object.insert(pair.text("name")?.into(), pair.text("value")?.into_string().into());
                }
                let object = serde_json::Value::Object(object).to_string();
                method.set("env", object);
            }
        }
        _ => return None,
    }
    Some(method.to_string())
}
