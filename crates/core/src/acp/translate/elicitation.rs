//! Elicitation requests. Version 2 requires the schema of a form to name its type and its properties, and version 1
//! can read fewer kinds of values. Version 2 requests and version 1 responses need no translation.

use crate::wire::json::{RawObject, items};

/// Translates the params of `elicitation/create` for a version 2 client; `None` if they are not an object.
pub fn elicitation_to_v2(params: &str) -> Option<Box<str>> {
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
pub fn elicitation_answer_to_v1(result: &str) -> Box<str> {
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
    let pairs: serde_json::Map<String, serde_json::Value> = serde_json::from_str(content).ok()?;
    let members = RawObject::parse(content)?;
    let is_text = |item: &str| item.starts_with('"');
    let is_known = |value: &str| match value.as_bytes().first() {
        Some(b'{' | b'n') | None => false,
        Some(b'[') => items(value).is_some_and(|items| items.into_iter().all(is_text)),
        Some(_) => true,
    };
    let mut known = RawObject::new();
    for name in pairs.keys() {
        if let Some(value) = members.get(name).filter(|value| is_known(value)) {
            known.set(name, value);
        }
    }
    Some(known.to_string())
}
