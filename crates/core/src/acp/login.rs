//! Reads the login methods of an agent, of either version, from its reply to `initialize` or from an error. Unreadable
//! methods are ignored and never cause a failure: the agent may already be logged in.

use serde_json::Value;

use crate::model::{LoginMethod, LoginMethodKind, LoginVariable, ProtocolVersion};

/// Maximum number of login methods read per agent.
const MOST: usize = 64;

/// The login methods in a reply to `initialize`.
pub fn login_methods(answer: &str) -> Vec<LoginMethod> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let version = if answer["protocolVersion"] == 2 { ProtocolVersion::V2 } else { ProtocolVersion::V1 };
    parse_login_methods(version, &answer)
}

/// The login methods in a reply or in the data of an error, in this version.
pub(super) fn parse_login_methods(version: ProtocolVersion, sent: &Value) -> Vec<LoginMethod> {
    let methods = sent["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
    let key = login_key(version);
    methods.iter().take(MOST).filter_map(|method| read(key, method)).collect()
}

/// The name of a method's id member in this version.
pub(super) fn login_key(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::V1 => "id",
        ProtocolVersion::V2 => "methodId",
    }
}

fn read(key: &str, method: &Value) -> Option<LoginMethod> {
    let text = |name: &str| method[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let id = text(key)?;
    Some(LoginMethod {
        name: text("name").unwrap_or_else(|| id.clone()),
        description: text("description"),
        how: how(method),
        id,
    })
}

/// In version 1 a method without a type is the agent's own.
fn how(method: &Value) -> LoginMethodKind {
    match method["type"].as_str() {
        None | Some("agent") => LoginMethodKind::Agent,
        Some("env_var") => LoginMethodKind::Variables(variables(method)),
        Some("terminal") => {
            let args = method["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
            LoginMethodKind::Terminal {
                args: args.map(str::to_owned).collect(),
                env: environment(&method["env"]),
            }
        }
        Some(other) => LoginMethodKind::Other(other.to_owned()),
    }
}

/// An earlier draft of the protocol had one variable, a later one a list.
fn variables(method: &Value) -> Vec<LoginVariable> {
    let one = method["varName"].as_str().map(|name| LoginVariable { name: name.to_owned(), optional: false });
    let many = method["vars"].as_array().into_iter().flatten().filter_map(|variable| {
        let name = variable["name"].as_str()?.to_owned();
        Some(LoginVariable { name, optional: variable["optional"] == true })
    });
    one.into_iter().chain(many).collect()
}

/// An object in version 1, a list of pairs in version 2.
fn environment(env: &Value) -> Vec<(String, String)> {
    let pair = |name: &str, value: &Value| Some((name.to_owned(), value.as_str()?.to_owned()));
    match env {
        Value::Object(env) => env.iter().filter_map(|(name, value)| pair(name, value)).collect(),
        Value::Array(env) => {
            env.iter().filter_map(|variable| pair(variable["name"].as_str()?, &variable["value"])).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn way(id: &str, name: &str, how: LoginMethodKind) -> LoginMethod {
        LoginMethod { id: id.to_owned(), name: name.to_owned(), description: None, how }
    }

    #[test]
    fn every_login_method_kind_is_read_and_others_skipped() {
        let answer = json!({ "protocolVersion": 1, "authMethods": [
            { "id": "oauth", "name": "Log in", "description": "with a browser" },
            { "id": "tui", "name": "Terminal", "type": "terminal", "args": ["login"], "env": { "A": "b", "C": 1 } },
            { "id": "key", "name": "Key", "type": "env_var", "vars": [{ "name": "K" }, { "name": "O", "optional": true }] },
            { "id": "old", "name": "Old", "type": "env_var", "varName": "V" },
            { "id": "new", "type": "passkey" },
            { "name": "nameless" }, 7, { "id": "" },
        ]});
        let variable = |name: &str, optional| LoginVariable { name: name.to_owned(), optional };
        let expected = [
            LoginMethod {
                description: Some("with a browser".into()),
                ..way("oauth", "Log in", LoginMethodKind::Agent)
            },
            way(
                "tui",
                "Terminal",
                LoginMethodKind::Terminal { args: vec!["login".into()], env: vec![("A".into(), "b".into())] },
            ),
            way("key", "Key", LoginMethodKind::Variables(vec![variable("K", false), variable("O", true)])),
            way("old", "Old", LoginMethodKind::Variables(vec![variable("V", false)])),
            way("new", "new", LoginMethodKind::Other("passkey".into())),
        ];
        assert_eq!(login_methods(&answer.to_string()), expected);
        for nothing in ["null", "{}", r#"{"authMethods":7}"#, "not json"] {
            assert_eq!(login_methods(nothing), []);
        }
    }

    #[test]
    fn version_2_names_the_id_otherwise_and_lists_the_environment() {
        let answer = json!({ "protocolVersion": 2, "authMethods": [
            { "methodId": "tui", "name": "T", "type": "terminal", "env": [{ "name": "A", "value": "b" }] },
            { "id": "not-this", "name": "N", "type": "agent" },
        ]});
        let env = vec![("A".into(), "b".into())];
        let expected = [way("tui", "T", LoginMethodKind::Terminal { args: Vec::new(), env })];
        assert_eq!(login_methods(&answer.to_string()), expected);
    }
}
