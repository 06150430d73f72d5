//! An agent's error in one line. Agents put what matters now in the message, now in the data, and say which parameter is
//! wrong in the ways of the libraries they are made with.

use std::borrow::Cow;

use serde_json::Value;

/// An error in one line.
pub(super) fn describe(message: &str, data: &Value) -> String {
    let details = ["details", "message", "error", "reason"].iter().find_map(|key| data.get(key)?.as_str());
    let details = data.as_str().or(details).map(Cow::Borrowed);
    let text = match details.or_else(|| wrong_members(data).map(Cow::Owned)) {
        Some(details) if !message.contains(&*details) => format!("{message}: {details}"),
        _ => message.to_owned(),
    };
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}

/// How many wrong members are named.
const WRONG_MEMBERS: usize = 4;

/// Which members of the params are wrong and why.
fn wrong_members(data: &Value) -> Option<String> {
    let list =
        data.as_array().or_else(|| ["errors", "issues"].iter().find_map(|key| data.get(key)?.as_array()));
    let found = if let Some(list) = list {
        list.iter().filter_map(listed).take(WRONG_MEMBERS).collect()
    } else {
        let mut found = Vec::new();
        gather_wrong(data, "", &mut found);
        found
    };
    (!found.is_empty()).then(|| found.join("; "))
}

/// One wrong member of a list: zod has its `path` and a `message`, pydantic its `loc` and a `msg`.
fn listed(row: &Value) -> Option<String> {
    let either = |one: &str, other: &str| row.get(one).or_else(|| row.get(other));
    let words = either("message", "msg")?.as_str()?;
    let step = |step: &Value| step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let path: Vec<String> =
        either("path", "loc").and_then(Value::as_array).into_iter().flatten().map(step).collect();
    Some(wrong(&path.join("."), words))
}

/// As agents with the protocol's TypeScript library say it: a tree with the names of the members, and at each `_errors`.
fn gather_wrong(tree: &Value, path: &str, found: &mut Vec<String>) {
    let Some(members) = tree.as_object() else { return };
    let errors = members.get("_errors").and_then(Value::as_array).into_iter().flatten();
    for words in errors.filter_map(Value::as_str) {
        if found.len() < WRONG_MEMBERS {
            found.push(wrong(path, words));
        }
    }
    for (name, below) in members {
        if found.len() < WRONG_MEMBERS && below.is_object() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            gather_wrong(below, &path, found);
        }
    }
}

fn wrong(path: &str, words: &str) -> String {
    if path.is_empty() { words.to_owned() } else { format!("{path}: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_an_agent_calls_wrong_is_named() {
        let said = |data: &str| describe("Invalid params", &serde_json::from_str(data).unwrap());
        let tree = r#"{"_errors":[],"mcpServers":{"_errors":["expected array"],"0":{"name":{"_errors":["expected string"]}}}}"#;
        assert_eq!(
            said(tree),
            "Invalid params: mcpServers: expected array; mcpServers.0.name: expected string"
        );
        assert_eq!(said(r#"{"_errors":["no object"]}"#), "Invalid params: no object");
        assert_eq!(said(r#"{"_errors":[],"cwd":{"_errors":[7]}}"#), "Invalid params");
        let zod = r#"[{"code":"invalid_type","path":["mcpServers",0,"name"],"message":"Required"},{"path":[],"message":"no object"},7]"#;
        assert_eq!(said(zod), "Invalid params: mcpServers.0.name: Required; no object");
        let pydantic = r#"[{"type":"missing","loc":["mcpServers"],"msg":"Field required","input":{}}]"#;
        for data in [pydantic.to_owned(), format!(r#"{{"errors":{pydantic}}}"#)] {
            assert_eq!(said(&data), "Invalid params: mcpServers: Field required");
        }
        assert_eq!(said("[]"), "Invalid params");
        assert_eq!(said(r#"{"authMethods":[{"id":"key","message":"Key"}]}"#), "Invalid params");
    }
}
