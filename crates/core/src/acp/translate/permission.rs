//! Permission requests and elicitations. A version 1 request is about a tool call; a version 2 request may be about a tool call, a
//! command or something else. No translation turns an answer into an approval that the user did not give.

use super::calls;
use super::tool_content::{call_to_v2, text_item};
use crate::wire::json::{RawObject, array, items};

/// The version 2 title if the version 1 tool call has none.
const UNTITLED: &str = "The agent asks for a permission";

/// Translates the params of `session/request_permission` for a version 2 client; `None` if they are not valid.
pub(crate) fn permission_to_v2(params: &str) -> Option<Box<str>> {
    let mut request = RawObject::parse(params)?;
    let call = request.remove("toolCall")?;
    let mut call = RawObject::parse(&call)?;
    call_to_v2(&mut call, |_| false);
    let title = call.text("title").or_else(|| call.text("name"));
    request.set_text("title", title.as_deref().unwrap_or(UNTITLED));
    let mut subject = RawObject::new();
    subject.set_text("type", "tool_call");
    subject.set("toolCall", call.to_string());
    request.set("subject", subject.to_string());
    Some(request.to_string().into())
}

/// The same for a version 1 client. `call` is the tool call id to use if the request has none.
///
/// Options of a kind that version 1 does not know are left out, because a user could not know their effect.
pub(crate) fn permission_to_v1(params: &str, call: &str) -> Option<Box<str>> {
    let mut request = RawObject::parse(params)?;
    let (title, description) = (request.text("title")?, request.text("description"));
    request.remove("title");
    request.remove("description");
    let subject = request.remove("subject").unwrap_or_default();
    let subject = RawObject::parse(&subject).unwrap_or_default();
    let mut tool = tool_call(&subject);
    if tool.text("toolCallId").is_none() {
        tool.set_text("toolCallId", call);
    }
    // A version 1 client may show only the title, so it must contain the whole question.
    tool.set_text("title", &[Some(title), description].into_iter().flatten().collect::<Vec<_>>().join("\n"));
    request.set("toolCall", tool.to_string());
    let options = items(request.get("options")?)?;
    let is_known = |option: &&str| {
        let kind = RawObject::parse(option).and_then(|option| option.text("kind"));
        matches!(kind.as_deref(), Some("allow_once" | "allow_always" | "reject_once" | "reject_always"))
    };
    let options = array(options.into_iter().filter(is_known));
    request.set("options", options);
    Some(request.to_string().into())
}

/// The tool call that represents the subject of the request.
fn tool_call<'a>(subject: &'a RawObject<'_>) -> RawObject<'a> {
    match subject.text("type").as_deref() {
        Some("tool_call") => {
            let mut call = subject.get("toolCall").and_then(RawObject::parse).unwrap_or_default();
            calls::described(&mut call);
            call
        }
        Some("command") => {
            let mut call = RawObject::new();
            if let Some(id) = subject.get("toolCallId") {
                call.set("toolCallId", id);
            }
            call.set_text("kind", "execute");
            let text = |name| subject.text(name).unwrap_or_default();
            let shown = format!("$ {}\nin {}", text("command"), text("cwd"));
            call.set("content", array([text_item(&shown).to_string()]));
            let mut input = RawObject::new();
            for name in ["command", "cwd"] {
                if let Some(value) = subject.get(name) {
                    input.set(name, value);
                }
            }
            call.set("rawInput", input.to_string());
            call
        }
        _ => RawObject::new(),
    }
}

/// The response to a permission request, for an agent of either version. An unknown outcome becomes `cancelled`.
pub(crate) fn permission_answer(result: &str) -> Box<str> {
    let is_known = RawObject::parse(result).is_some_and(|answer| {
        let outcome = answer.get("outcome").and_then(RawObject::parse).unwrap_or_default();
        match outcome.text("outcome").as_deref() {
            Some("selected") => outcome.text("optionId").is_some(),
            Some("cancelled") => true,
            _ => false,
        }
    });
    if is_known { result.into() } else { r#"{"outcome":{"outcome":"cancelled"}}"#.into() }
}

/// Translates the params of `elicitation/create` for a version 2 client; `None` if they are not an object.
pub(crate) fn elicitation_to_v2(params: &str) -> Option<Box<str>> {
    let mut request = RawObject::parse(params)?;
    if let Some(mut schema) = request.get("requestedSchema").and_then(RawObject::parse) {
        if schema.text("type").as_deref() != Some("object") {
            schema.set_text("type", "object");
        }
        if schema.get("properties").and_then(RawObject::parse).is_none() {
            schema.set("properties", "{}");
        }
        let schema = schema.to_string();
        request.set("requestedSchema", schema);
    }
    Some(request.to_string().into())
}

/// Translates a version 2 client's response for a version 1 agent: values that version 1 cannot read are left out. A
/// response that is not an object becomes `cancel`.
pub(crate) fn elicitation_answer_to_v1(result: &str) -> Box<str> {
    let Some(mut answer) = RawObject::parse(result) else { return r#"{"action":"cancel"}"#.into() };
    match answer.get("content").map(values) {
        Some(Some(content)) => answer.set("content", content),
        // Content that is not an object is dropped.
        Some(None) => drop(answer.remove("content")),
        None => {}
    }
    answer.to_string().into()
}

fn values(content: &str) -> Option<String> {
    // A name or a text with half of a surrogate pair is refused.
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(content).ok()?;
    let is_text = |item: &str| item.starts_with('"');
    let is_known = |value: &str| match value.as_bytes().first() {
        Some(b'{' | b'n') | None => false,
        Some(b'[') => items(value).is_some_and(|items| items.into_iter().all(is_text)),
        Some(_) => true,
    };
    let mut known = RawObject::new();
    known.merge(&RawObject::parse(content)?);
    known.retain(|_, value| is_known(value));
    Some(known.to_string())
}
