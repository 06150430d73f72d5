//! Answers an agent's elicitations: forms to fill in and URLs to open.

use std::borrow::Cow;

use agent_client_protocol_schema::v1 as acp;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{PLACEHOLDER, Permit, is_secret_name};

use super::to_json;

/// The result for a decision: the client's own, if there is one.
pub(super) fn result(decision: &Permit) -> String {
    let action = match decision {
        Permit::ElicitationResult(result) => return result.to_string(),
        Permit::Cancelled => acp::ElicitationAction::Cancel,
        Permit::Declined
        | Permit::Approve
        | Permit::Reject
        | Permit::Escalated(_)
        | Permit::Choose { .. }
        | Permit::Unselected(_) => acp::ElicitationAction::Decline,
    };
    // It is the same in both versions.
    to_json(&acp::CreateElicitationResponse::new(action))
}

/// Redacts the values of secret fields, of any length and at any depth. Returns the redacted result, if anything was
/// redacted, and the secret texts.
pub(super) fn redact(params: &str, result: &str) -> (Option<String>, Vec<String>) {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let mut result: Value = serde_json::from_str(result).unwrap_or_default();
    let (mut found, mut is_redacted) = (Vec::new(), false);
    for (key, value) in result.get_mut("content").and_then(Value::as_object_mut).into_iter().flatten() {
        let is_secret = is_secret_field(key, &params["requestedSchema"]["properties"][key]);
        is_redacted |= redact_value(value, is_secret, &mut found);
    }
    (is_redacted.then(|| result.to_string()), found)
}

/// Redacts every text and number of a secret value, and members with secret names inside any other value. Returns whether
/// it redacted anything.
fn redact_value(value: &mut Value, is_secret: bool, found: &mut Vec<String>) -> bool {
    match value {
        Value::String(text) if is_secret => found.push(std::mem::take(text)),
        Value::Number(_) if is_secret => {}
        Value::Array(values) => {
            return values.iter_mut().fold(false, |any, value| redact_value(value, is_secret, found) | any);
        }
        Value::Object(members) => {
            let redact = |any, (key, value): (&String, &mut Value)| {
                redact_value(value, is_secret || is_secret_name(key), found) | any
            };
            return members.iter_mut().fold(false, redact);
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => return false,
    }
    *value = PLACEHOLDER.into();
    true
}

/// Whether a form field is secret, by its name or by its schema.
pub fn is_secret_field(key: &str, property: &Value) -> bool {
    is_secret_name(key) || property["format"] == "password" || property["writeOnly"] == true
}

/// Whether a client's result is an object with an `action`. The content is not checked, so an unknown value does not
/// turn an acceptance into a refusal.
pub(crate) fn is_elicitation_answer(result: &str) -> bool {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow, rename = "action")]
        _action: Cow<'a, str>,
    }
    result.starts_with('{') && serde_json::from_str::<Answer<'_>>(result).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_however_deep_it_was_filled_in() {
        let schema = r#"{"requestedSchema":{"properties":{"login":{"writeOnly":true}}}}"#;
        let filled = r#"{"action":"accept","content":{"login":{"user":["u1"],"pin":7},"way":{"password":"hunter2","n":"x"},"note":"hi"}}"#;
        let (redacted, found) = redact(schema, filled);
        let content = serde_json::json!({
            "login": { "user": ["[secret]"], "pin": "[secret]" },
            "way": { "password": "[secret]", "n": "x" },
            "note": "hi",
        });
        let expected = serde_json::json!({ "action": "accept", "content": content });
        assert_eq!(serde_json::from_str::<Value>(&redacted.unwrap()).unwrap(), expected);
        assert_eq!(found, ["u1", "hunter2"]);
        assert_eq!(redact(schema, r#"{"action":"accept","content":{"note":"hi"}}"#), (None, Vec::new()));
    }

    #[test]
    fn an_answer_says_what_the_user_did_whatever_was_filled_in() {
        for (result, is_one) in [
            (r#"{"action":"accept","content":{"a":"x","n":{"deep":1}}}"#, true),
            (r#"{"action":"accept","content":{"a":[1,2],"b":null}}"#, true),
            (r#"{"action":"accept","content":7}"#, true),
            (r#"{"action":"_later","until":5}"#, true),
            (r#"{"action":7}"#, false),
            (r#"{"content":{}}"#, false),
            (r#"["accept"]"#, false),
            ("[]", false),
            ("null", false),
        ] {
            assert_eq!(is_elicitation_answer(result), is_one, "{result}");
        }
    }
}
