//! What a client from elsewhere may say: the one place that every line of it passes on the way in.
//!
//! It speaks for the user, and not with the user's hands. So it uses the agent that was served and names no other,
//! gives it no environment, starts no program on this machine as an MCP server, and lets nothing be approved unseen,
//! unless the user has said otherwise. Of our additions to the protocol those pass that are named here; of every
//! other line every byte passes.

use std::fmt;

use acpx_core::wire::splice::{Splice, Step, locate};
use acpx_core::wire::{Message, RpcError, RpcId, encode};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members of `_meta.acpx` that pass. One that is not here is not said.
const MEMBERS: [&str; 11] = [
    "carryHistory",
    "fallback",
    "idleMs",
    "later",
    "policy",
    "replay",
    "replayFrom",
    "requestId",
    "seq",
    "withSeq",
    "withoutUpdates",
];
/// Methods of ours that pass. The others are about this machine.
const METHODS: [&str; 3] = ["_acpx/watch", "_acpx/cancel", "_acpx/close"];
/// Transports of MCP servers that start nothing here.
const TRANSPORTS: [&str; 2] = ["http", "sse"];

/// What the user lets clients from elsewhere do beyond the ordinary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Let an agent do everything unasked.
    pub(crate) approve_all: bool,
    /// Start programs on this machine as MCP servers.
    pub(crate) stdio_servers: bool,
}

/// What becomes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on, as this.
    Passes(String),
    /// It does not, and this is the answer.
    Refused(RpcId, String),
    /// It does not, and asks for no answer.
    Dropped,
}

/// Judges a message of a client from elsewhere.
pub(crate) fn judge(message: &Message, allowance: Allowance) -> Verdict {
    let Some(method) = message.method() else { return Verdict::Passes(message.line().to_string()) };
    let refusal = if method.starts_with("_acpx/") && !METHODS.contains(&method) {
        Some(RpcError::method_not_found(method))
    } else {
        message.params().and_then(|params| forbidden_server(params, allowance))
    };
    match (refusal, message.id()) {
        (Some(error), Some(id)) => Verdict::Refused(id.clone(), encode::error_response(id, &error)),
        (Some(_), None) => Verdict::Dropped,
        (None, _) => Verdict::Passes(filtered(message, allowance)),
    }
}

/// The line with what `_meta.acpx` may have and nothing else there.
fn filtered(message: &Message, allowance: Allowance) -> String {
    let line = message.line();
    let range = message.params_range();
    let Some(range) = range.filter(|range| line[range.clone()].starts_with('{')) else {
        return line.to_string();
    };
    let Some(params) = rewritten(&line[range.clone()], "_meta", |meta| {
        rewritten(meta, "acpx", |acpx| Some(permitted(acpx, allowance)))
    }) else {
        return line.to_string();
    };
    let mut splice = Splice::new(line);
    match splice.replace(range, &params) {
        Ok(splice) => splice.finish(),
        Err(_) => line.to_string(),
    }
}

/// An object with one member changed, and there once: of several the last counts, as for most readers. `None` if
/// nothing is to be changed.
fn rewritten(json: &str, name: &str, change: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    let Members(members) = serde_json::from_str(json).ok()?;
    let at = members.iter().rposition(|(member, _)| member == name)?;
    let is_repeated = members.iter().filter(|(member, _)| member == name).count() > 1;
    let (_, value) = &members[at];
    let value = match change(value.get()) {
        Some(changed) => changed,
        None if is_repeated => value.get().to_owned(),
        None => return None,
    };
    let kept = members.iter().enumerate().filter(|(index, (member, _))| *index == at || member != name);
    let texts = kept.map(|(index, (member, raw))| {
        let text = if index == at { value.as_str() } else { raw.get() };
        format!("{}:{text}", encode::json_string(member))
    });
    Some(format!("{{{}}}", texts.collect::<Vec<_>>().join(",")))
}

/// What our object may have.
fn permitted(acpx: &str, allowance: Allowance) -> String {
    // What is no object says nothing to anybody, and is refused where it is read.
    let Ok(Members(members)) = serde_json::from_str(acpx) else { return acpx.to_owned() };
    let may = |(name, value): &&(String, Box<RawValue>)| {
        let is_all =
            || serde_json::from_str::<String>(value.get()).is_ok_and(|policy| policy == "approve-all");
        MEMBERS.contains(&name.as_str()) && (name != "policy" || allowance.approve_all || !is_all())
    };
    let texts = members.iter().filter(may);
    let texts = texts.map(|(name, value)| format!("{}:{}", encode::json_string(name), value.get()));
    format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
}

/// Why the MCP servers of a request may not be.
fn forbidden_server(params: &str, allowance: Allowance) -> Option<RpcError> {
    if allowance.stdio_servers {
        return None;
    }
    let Members(members) = serde_json::from_str(params).ok()?;
    let lists = members.iter().filter(|(name, _)| name == "mcpServers");
    let servers = lists.filter_map(|(_, list)| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok());
    let index = servers.flat_map(|list| list.into_iter().enumerate()).find_map(|(index, server)| {
        let is_elsewhere = server.get().starts_with('{') && is_elsewhere(server.get());
        (!is_elsewhere).then_some(index)
    })?;
    let field = format!("mcpServers[{index}]");
    let problem =
        format!("{field}: a client from elsewhere starts no program on this machine as an MCP server");
    let data = format!(r#"{{"field":{}}}"#, encode::json_string(&field));
    Some(RpcError::invalid_params(problem).with_data(&data))
}

/// Whether a server is surely reached and not started, however its transport is told.
fn is_elsewhere(server: &str) -> bool {
    let Ok(Members(members)) = serde_json::from_str(server) else { return false };
    let mut transports = members.iter().filter(|(name, _)| name == "type").peekable();
    transports.peek().is_some()
        && transports.all(|(_, transport)| {
            serde_json::from_str::<String>(transport.get())
                .is_ok_and(|transport| TRANSPORTS.contains(&transport.as_str()))
        })
}

/// The session that a message is about.
pub(crate) fn session_of(params: &str) -> Option<String> {
    serde_json::from_str(&params[locate(params, &[Step::Key("sessionId")])?]).ok()
}

/// The members of an object as they stand, those that are there twice included.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests;
