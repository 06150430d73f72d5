//! Lines of one peer, passed on to another: every byte as received but for the session id, which each side has
//! its own of.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::encode::{self, json_string};
use crate::wire::splice::{Splice, Step, locate};

use super::content::{even_null, is_carried};

/// A `session/update` line for a client that calls the session so; `None` for a line that names no session.
pub(crate) fn pass_on_update(line: &str, session: &str) -> Option<String> {
    renamed(line, &[Step::Key("params"), Step::Key("sessionId")], session)
}

/// The params of a request about a session, likewise.
pub(crate) fn pass_on_params(params: &str, session: &str) -> Option<String> {
    renamed(params, &[Step::Key("sessionId")], session)
}

/// The params of a client's request, about the session that the agent calls so; `None` if they are no object, or one
/// that names two sessions.
pub(super) fn with_session(params: &str, session: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default, rename = "sessionId", deserialize_with = "even_null")]
        session: Option<&'a RawValue>,
    }
    let params = params.trim_ascii();
    let inside = params.strip_prefix('{')?;
    let Named { session: named } = serde_json::from_str(params).ok()?;
    if named.is_some() {
        return pass_on_params(params, session);
    }
    let comma = if inside.trim_ascii_start() == "}" { "" } else { "," };
    Some(format!(r#"{{"sessionId":{}{comma}{inside}"#, json_string(session)))
}

fn renamed(text: &str, place: &[Step<'_>], session: &str) -> Option<String> {
    let mut splice = Splice::new(text);
    splice.replace(locate(text, place)?, &json_string(session)).ok()?;
    Some(splice.finish())
}

#[derive(Deserialize)]
struct PromptLine<'a> {
    method: &'a str,
    #[serde(borrow)]
    params: PromptParams<'a>,
}

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(borrow)]
    prompt: Vec<&'a RawValue>,
}

/// What a client that loads the session is told of a prompt: its blocks as the user's words. A request that is
/// no prompt tells nothing, and a conversation that a fresh session was told is not said twice.
pub(crate) fn replayed_prompt(line: &str, session: &str) -> Vec<String> {
    let Ok(PromptLine { method: "session/prompt", params }) = serde_json::from_str(line) else {
        return Vec::new();
    };
    let chunk = |block: &&RawValue| {
        let params = format!(
            r#"{{"sessionId":{},"update":{{"sessionUpdate":"user_message_chunk","content":{}}}}}"#,
            json_string(session),
            block.get()
        );
        encode::notification("session/update", &params)
    };
    params.prompt.iter().filter(|block| !is_carried(block.get())).map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_passed_on_with_another_session_id_and_every_other_byte() {
        let line = r#"{"params": {"update":{"sessionId":"s","n":1.0e2}, "sessionId" : "s","_meta":{} },"jsonrpc":"2.0","method":"session/update"}"#;
        let expected = line.replacen(r#""sessionId" : "s""#, r#""sessionId" : "r\"""#, 1);
        assert_eq!(pass_on_update(line, "r\"").as_deref(), Some(expected.as_str()));
        assert_eq!(pass_on_update(r#"{"params":{}}"#, "r"), None);
        assert_eq!(pass_on_update("no JSON", "r"), None);
        assert_eq!(pass_on_params(r#"{"sessionId":7}"#, "r").as_deref(), Some(r#"{"sessionId":"r"}"#));
    }

    #[test]
    fn a_request_is_about_the_session_it_is_passed_on_for() {
        let cases = [
            ("{}", Some(r#"{"sessionId":"r"}"#)),
            ("{ }", Some(r#"{"sessionId":"r" }"#)),
            (r#" {"modeId":"m" } "#, Some(r#"{"sessionId":"r","modeId":"m" }"#)),
            (r#"{"modeId":"m","sessionId": "s"}"#, Some(r#"{"modeId":"m","sessionId": "r"}"#)),
            (r#"{"sessionId":"s","sessionId":"t"}"#, None),
            ("[]", None),
            ("null", None),
            ("{", None),
        ];
        for (params, expected) in cases {
            assert_eq!(with_session(params, "r").as_deref(), expected, "{params}");
        }
        assert_eq!(with_session(r#"{"sessionId":null}"#, "r").as_deref(), Some(r#"{"sessionId":"r"}"#));
    }

    #[test]
    fn a_prompt_is_replayed_as_the_users_words_and_nothing_else_is() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"a"},{"type":"image" }]}}"#;
        let chunk = |block: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"r","update":{{"sessionUpdate":"user_message_chunk","content":{block}}}}}}}"#
            )
        };
        let expected = [chunk(r#"{"type":"text","text":"a"}"#), chunk(r#"{"type":"image" }"#)];
        assert_eq!(replayed_prompt(line, "r"), expected);
        assert_eq!(replayed_prompt(&line.replace("session/prompt", "session/new"), "r"), [""; 0]);
        assert_eq!(replayed_prompt("[]", "r"), [""; 0]);
    }
}
