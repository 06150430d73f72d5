//! Questions of an agent to the user beside permissions. The versions differ in little: version 2 wants the
//! schema of a form to name its type and its properties, and version 1 can read fewer kinds of answer. A request of
//! version 2 is read by version 1 as it is, and so is an answer of version 1 by version 2.

use super::members::{ObjectMembers, items};

/// The params of `elicitation/create` for a client of version 2; `None` for what is no object.
pub fn elicitation_to_v2(params: &str) -> Option<Box<str>> {
    let mut request = ObjectMembers::parse(params)?;
    if let Some(mut schema) = request.get("requestedSchema").and_then(ObjectMembers::parse) {
        if schema.text("type").as_deref() != Some("object") {
            schema.set_text("type", "object");
        }
        if schema.get("properties").and_then(ObjectMembers::parse).is_none() {
            schema.set("properties", "{}");
        }
        let schema = schema.to_string();
        request.set("requestedSchema", schema);
    }
    Some(request.to_string().into())
}

/// The answer of a client of version 2 for an agent of version 1: values of a kind that it cannot read are left
/// out. An answer that is no object is that the user did not choose.
pub fn elicitation_answer_to_v1(result: &str) -> Box<str> {
    let Some(mut answer) = ObjectMembers::parse(result) else { return r#"{"action":"cancel"}"#.into() };
    match answer.get("content").map(values) {
        Some(Some(content)) => answer.set("content", content),
        // What is no list of fields fills in none.
        Some(None) => drop(answer.take("content")),
        None => {}
    }
    answer.to_string().into()
}

fn values(content: &str) -> Option<String> {
    let pairs: serde_json::Map<String, serde_json::Value> = serde_json::from_str(content).ok()?;
    let members = ObjectMembers::parse(content)?;
    let is_text = |item: &str| item.starts_with('"');
    let is_known = |value: &str| match value.as_bytes().first() {
        Some(b'{' | b'n') | None => false,
        Some(b'[') => items(value).is_some_and(|items| items.into_iter().all(is_text)),
        Some(_) => true,
    };
    let mut known = ObjectMembers::new();
    for name in pairs.keys() {
        if let Some(value) = members.get(name).filter(|value| is_known(value)) {
            known.set(name, value);
        }
    }
    Some(known.to_string())
}
