//! Interprets an agent's responses. A result may be `null`, `{}` or an object; missing members are never invented.

use std::sync::Arc;

use serde_json::Value;

use crate::model::{
    AcpSessionId, AgentError, AgentProfile, AgentSessionId, AgentState, ErrorMeaning, ForwardId,
    ProtocolVersion, StopReason, Timestamp, TurnStop, join_login_methods,
};
use crate::wire::json;
use crate::wire::{RpcError, RpcMessage};

use super::super::StateUpdate;
use super::super::login::parse_login_methods;
use super::error_text::{Description, describe};
use crate::acp::error_class;

/// A response to one of our requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentResponse {
    /// To `session/new`.
    Opened(Result<(AcpSessionId, Option<AgentSessionId>), AgentError>),
    /// To `session/load` or `session/resume`.
    Restored(Result<Option<AgentSessionId>, AgentError>),
    /// To `session/prompt`; in version 1 with the agent's whole result.
    Prompted(Result<TurnStop, AgentError>, Option<Arc<str>>),
    /// To `session/prompt` of version 2: the agent accepted the prompt, and a state update will report its end. The
    /// agent's whole result.
    Inserted(Arc<str>),
    /// To a forwarded client request: the agent's result, and an update line for a change that the agent itself did not
    /// report.
    Forwarded(ForwardId, Result<Arc<str>, AgentError>, Option<Arc<str>>),
    /// To `session/list`.
    Listed(Result<ListPage, AgentError>),
    /// To `session/close`. A session the agent does not know counts as closed.
    Closed(Result<(), AgentError>),
    /// To `session/delete`. A session the agent does not know counts as deleted.
    Deleted(Result<(), AgentError>),
    /// To `authenticate` or `logout`, or to their version 2 counterparts.
    Login(Result<(), AgentError>),
    /// To any other request.
    Other,
}

/// One page of an agent's sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// Its rows; rows without an id are left out.
    pub sessions: Vec<ListedSession>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// One session in an agent's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    /// Its id.
    pub session: AcpSessionId,
    /// When it last changed, if the agent gave a readable time.
    pub updated_at: Option<Timestamp>,
    /// Its title.
    pub title: Option<String>,
    /// Its working directory, as the agent reports it.
    pub cwd: Option<String>,
    /// The whole row, as the agent wrote it.
    pub row: Box<str>,
}

/// The agent that responds, and its profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerSource<'a> {
    /// Its name in messages to the user.
    pub(super) agent: &'a str,
    /// The negotiated protocol version.
    pub(super) version: ProtocolVersion,
    pub(super) profile: &'a AgentProfile,
    /// The login methods from its `initialize` reply, as text.
    pub(super) login_methods: Option<&'a str>,
}

pub(super) fn read(speaker: AnswerSource<'_>, method: &str, message: &RpcMessage) -> AgentResponse {
    let result = || result(speaker, method, message);
    let bad = |problem: &str| AgentError::BadAnswer {
        agent: speaker.agent.to_owned(),
        method: method.to_owned(),
        problem: problem.to_owned(),
    };
    match method {
        "session/new" | "session/fork" => AgentResponse::Opened(result().and_then(|result| {
            let id = result.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            let session = AcpSessionId::new(id).map_err(|_| bad("there is no sessionId"))?;
            Ok((session, inner_id(&result)))
        })),
        // An agent that replies with any result has the session.
        "session/load" | "session/resume" => {
            AgentResponse::Restored(result().map(|result| inner_id(&result)))
        }
        "session/prompt" if speaker.version == ProtocolVersion::V2 => match result() {
            Ok(_) => AgentResponse::Inserted(message.result().unwrap_or("{}").into()),
            Err(error) => AgentResponse::Prompted(withdrawn(error), None),
        },
        "session/prompt" => {
            let stopped = result().and_then(|result| {
                let reason = result.get("stopReason").and_then(Value::as_str);
                let reason = reason.map(StopReason::new).ok_or_else(|| bad("there is no stopReason"))?;
                let usage = result.get("usage").filter(|usage| usage.is_object());
                Ok(TurnStop { reason, usage: usage.and_then(|_| member(message.result()?, "usage")) })
            });
            AgentResponse::Prompted(stopped, message.result().map(Into::into))
        }
        "session/list" => AgentResponse::Listed(
            result().and_then(|_| read_list(speaker.agent, message.result().unwrap_or("null"))),
        ),
        // Any failed login means that a login is still needed.
        "authenticate" | "auth/login" => {
            AgentResponse::Login(result().map(drop).map_err(|error| match error {
                AgentError::Refused { agent, method, code, message, field, acp, .. } => {
                    let meaning = ErrorMeaning::LoginNeeded;
                    AgentError::Refused { agent, method, code, message, field, acp, meaning }
                }
                other => other,
            }))
        }
        "logout" | "auth/logout" => AgentResponse::Login(result().map(drop)),
        "session/close" => AgentResponse::Closed(done(result().map(drop))),
        "session/delete" => AgentResponse::Deleted(done(result().map(drop))),
        _ => AgentResponse::Other,
    }
}

/// Parses the result of `session/list`.
fn read_list(agent: &str, result: &str) -> Result<ListPage, AgentError> {
    let bad = || AgentError::BadAnswer {
        agent: agent.to_owned(),
        method: "session/list".to_owned(),
        problem: "there is no sessions list".to_owned(),
    };
    let rows = json::get(result, &["sessions"]).and_then(json::items).ok_or_else(bad)?;
    let next = json::get(result, &["nextCursor"]).and_then(|next| serde_json::from_str(next).ok());
    let sessions = rows.into_iter().filter_map(listed).collect();
    Ok(ListPage { sessions, next })
}

/// A member of an object, byte for byte.
fn member(object: &str, name: &str) -> Option<Arc<str>> {
    json::get(object, &[name]).map(Into::into)
}

/// The result, or the agent's error as an [`AgentError`].
pub(super) fn result(
    speaker: AnswerSource<'_>,
    method: &str,
    message: &RpcMessage,
) -> Result<Value, AgentError> {
    let bad = |problem: String| AgentError::BadAnswer {
        agent: speaker.agent.to_owned(),
        method: method.to_owned(),
        problem,
    };
    match message.result() {
        Some(result) => serde_json::from_str(result).map_err(|error| bad(error.to_string())),
        None => Err(refusal(speaker, method, message)),
    }
}

/// The agent's error as an [`AgentError`].
pub(super) fn refusal(speaker: AnswerSource<'_>, method: &str, message: &RpcMessage) -> AgentError {
    refused(speaker, method, message.error().unwrap_or("null"))
}

fn refused(speaker: AnswerSource<'_>, method: &str, raw: &str) -> AgentError {
    let error = RpcError::read(raw);
    let data: Value =
        error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok()).unwrap_or_default();
    // A remote acpx reports an interrupted turn with our own code.
    if method == "session/prompt" && data.pointer("/acpx/code").is_some_and(|code| code == "INTERRUPTED") {
        let (agent, acp) = (speaker.agent.to_owned(), Arc::from(raw));
        return AgentError::InterruptedThere { agent, message: error.message, acp };
    }
    let Description { text, field } = describe(&error.message, &data);
    let refused = AgentError::Refused {
        agent: speaker.agent.to_owned(),
        method: method.to_owned(),
        code: error.code,
        message: text,
        acp: Arc::from(raw),
        meaning: reading_of(speaker.profile, method, &error, field.as_deref()),
        field,
    };
    // A client that logs in or out already knows the login methods.
    if matches!(method, "authenticate" | "auth/login" | "logout" | "auth/logout") {
        return refused;
    }
    // Some agents report their login methods only in the error that requires one.
    let text = join_login_methods(&parse_login_methods(speaker.version, &data));
    refused.offering(text.as_deref().or(speaker.login_methods))
}

/// The meaning of an error. An error about a request parameter, or about some other missing resource, does not mean
/// that the session is lost.
fn reading_of(profile: &AgentProfile, method: &str, error: &RpcError, field: Option<&str>) -> ErrorMeaning {
    let parameters = ["cwd", "mcpServers", "additionalDirectories"];
    let is_parameter = field.is_some_and(|field| parameters.iter().any(|name| field.starts_with(name)));
    match error_class::read(profile, error) {
        ErrorMeaning::Lost if is_parameter || !is_about_session(method, error) => ErrorMeaning::Broken,
        reading => reading,
    }
}

/// Whether the missing resource is the session. A restore looks up nothing else; a prompt may also fail because of a
/// resource or a model that it names.
fn is_about_session(method: &str, error: &RpcError) -> bool {
    if matches!(method, "session/load" | "session/resume") {
        return true;
    }
    let data = error.data.as_deref().map_or("", |data| data.get());
    let names_resource = serde_json::from_str::<Value>(data)
        .is_ok_and(|data| data.get("uri").and_then(Value::as_str).is_some_and(|uri| uri.contains('/')));
    let text = format!("{} {data}", error.message).to_lowercase();
    let names_session = ["session", "thread", "rollout"].iter().any(|word| text.contains(word));
    !names_resource && (error.code == RpcError::RESOURCE_NOT_FOUND || names_session)
}

/// A prompt withdrawn before the agent accepted it counts as cancelled.
fn withdrawn(error: AgentError) -> Result<TurnStop, AgentError> {
    match error {
        AgentError::Refused { code: RpcError::REQUEST_CANCELLED, .. } => Ok(StopReason::cancelled().into()),
        other => Err(other),
    }
}

/// Maps an agent's state update. An agent that stopped with an error has refused the prompt.
pub(super) fn state(speaker: AnswerSource<'_>, state: StateUpdate) -> AgentState {
    match state {
        StateUpdate::Running | StateUpdate::RequiresAction => AgentState::Working,
        StateUpdate::Idle { stop_reason: Some(reason), error, .. } if &*reason == "error" => {
            let raw = error.unwrap_or_else(|| r#"{"code":-32603,"message":"it gave no reason"}"#.into());
            AgentState::Idle(Some(Err(refused(speaker, "session/prompt", &raw))))
        }
        StateUpdate::Idle { stop_reason, usage, .. } => {
            let usage = usage.filter(|usage| usage.starts_with('{')).map(Into::into);
            AgentState::Idle(
                stop_reason.map(|reason| Ok(TurnStop { reason: StopReason::new(reason), usage })),
            )
        }
        _ => AgentState::Other,
    }
}

/// Reads the inner id from its only key; `None` unless it is a non-empty string.
fn inner_id(result: &Value) -> Option<AgentSessionId> {
    AgentSessionId::from_agent(result.pointer("/_meta/agentSessionId")?.as_str()?)
}

/// A session that is not found counts as closed or deleted.
fn done(result: Result<(), AgentError>) -> Result<(), AgentError> {
    match result {
        Err(AgentError::Refused { code: RpcError::RESOURCE_NOT_FOUND, .. }) => Ok(()),
        other => other,
    }
}

fn listed(whole: &str) -> Option<ListedSession> {
    let row: Value = serde_json::from_str(whole).ok()?;
    let session = AcpSessionId::new(row.get("sessionId")?.as_str()?).ok()?;
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let updated_at = text("updatedAt").and_then(|time| Timestamp::parse(time).ok());
    let own = |key| text(key).map(str::to_owned);
    Some(ListedSession { session, updated_at, title: own("title"), cwd: own("cwd"), row: whole.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AgentSpec, Profiles};

    fn answer(method: &str, body: &str) -> AgentResponse {
        let message = RpcMessage::parse(format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#)).unwrap();
        let profile = Profiles::built_in().of(&AgentSpec::new("a", [""; 0]), None);
        let speaker = AnswerSource {
            agent: "a",
            version: ProtocolVersion::V1,
            profile: &profile,
            login_methods: Some("tui (T)"),
        };
        read(speaker, method, &message)
    }

    fn inner(meta: &str) -> Option<String> {
        match answer("session/new", &format!(r#""result":{{"sessionId":"s"{meta}}}"#)) {
            AgentResponse::Opened(Ok((_, inner))) => inner.map(|inner| inner.to_string()),
            other => panic!("not opened: {other:?}"),
        }
    }

    #[test]
    fn only_meta_agent_session_id_is_read() {
        assert_eq!(inner(r#","_meta":{"agentSessionId":"inner"}"#).as_deref(), Some("inner"));
        for aliases in [
            r#","_meta":{"sessionId":"x","providerSessionId":"x","codexSessionId":"x","claudeSessionId":"x","runtimeSessionId":"x"}"#,
            r#","agentSessionId":"x""#,
            r#","_meta":{"acpx":{"agentSessionId":"x"}}"#,
        ] {
            assert_eq!(inner(aliases), None, "{aliases}");
        }
    }

    #[test]
    fn empty_blank_or_non_string_inner_id_is_ignored() {
        for value in [r#""""#, r#"" \t ""#, "7", "null", "true", "{}", r#"["x"]"#] {
            assert_eq!(inner(&format!(r#","_meta":{{"agentSessionId":{value}}}"#)), None, "{value}");
        }
        assert_eq!(inner(r#","_meta":null"#), None);
        assert_eq!(inner(r#","_meta":"agentSessionId""#), None);
    }

    #[test]
    fn a_restore_result_of_any_shape_counts_as_success() {
        for result in ["null", "{}", r#"{"modes":null,"configOptions":[],"models":{}}"#, "[]", r#""ok""#, "7"]
        {
            for method in ["session/load", "session/resume"] {
                assert_eq!(
                    answer(method, &format!(r#""result":{result}"#)),
                    AgentResponse::Restored(Ok(None))
                );
            }
        }
    }

    #[test]
    fn only_a_session_that_a_prompt_does_not_find_is_unknown() {
        let cases = [
            (r#"{"code":-32002,"message":"Resource not found"}"#, true),
            (r#"{"code":-32002,"message":"Resource not found","data":{"sessionId":"s"}}"#, true),
            (r#"{"code":-32002,"message":"Resource not found","data":{"uri":"s"}}"#, true),
            (r#"{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}"#, true),
            (r#"{"code":-32603,"message":"x","data":{"details":"no rollout found for thread id s"}}"#, true),
            (r#"{"code":-32002,"message":"Resource not found","data":{"uri":"file:///a.md"}}"#, false),
            (r#"{"code":-32603,"message":"404 resource not found: model x"}"#, false),
            (r#"{"code":-32001,"message":"Request timed out"}"#, false),
        ];
        for (error, is_unknown) in cases {
            let AgentResponse::Prompted(Err(read), _) =
                answer("session/prompt", &format!(r#""error":{error}"#))
            else {
                panic!("{error}")
            };
            assert_eq!(read.has_no_session(), is_unknown, "{error}");
        }
    }

    #[test]
    fn an_answer_of_the_wrong_shape_names_agent_method_and_problem() {
        let AgentResponse::Opened(Err(error)) = answer("session/new", r#""result":{"sessionId":7}"#) else {
            panic!()
        };
        let expected = r#"the agent "a" answered session/new with something else than the protocol says: there is no sessionId"#;
        assert_eq!(error.to_string(), expected);
        assert!(matches!(
            answer("session/prompt", r#""result":null"#),
            AgentResponse::Prompted(Err(AgentError::BadAnswer { .. }), _)
        ));
        assert!(matches!(
            answer("session/list", r#""result":null"#),
            AgentResponse::Listed(Err(AgentError::BadAnswer { .. }))
        ));
    }

    #[test]
    fn an_unknown_session_counts_as_closed_and_deleted() {
        let not_found = r#""error":{"code":-32002,"message":"Resource not found","data":{"sessionId":"s"}}"#;
        assert_eq!(answer("session/close", not_found), AgentResponse::Closed(Ok(())));
        assert_eq!(answer("session/delete", not_found), AgentResponse::Deleted(Ok(())));
        assert!(matches!(
            answer("session/close", r#""error":{"code":-32603,"message":"x"}"#),
            AgentResponse::Closed(Err(AgentError::Refused { .. }))
        ));
    }

    #[test]
    fn agent_error_includes_the_details_of_its_data() {
        let error =
            r#""error":{"code":-32603,"message":"Internal error","data":{"details":"no rollout found"}}"#;
        let AgentResponse::Restored(Err(error)) = answer("session/load", error) else { panic!() };
        let expected = r#"the agent "a" refused session/load: Internal error: no rollout found (-32603)"#;
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn login_methods_of_an_error_precede_those_of_initialize() {
        let refused = |method: &str, data: &str| {
            let error = format!(r#""error":{{"code":-32000,"message":"Login"{data}}}"#);
            match answer(method, &error) {
                AgentResponse::Opened(Err(error)) | AgentResponse::Login(Err(error)) => error.to_string(),
                other => panic!("not refused: {other:?}"),
            }
        };
        let listed = r#","data":{"authMethods":[{"id":"key","name":"Key"},{"id":"web","name":"Web"}]}"#;
        let words =
            |method: &str, rest: &str| format!(r#"the agent "a" refused {method}: Login{rest} (-32000)"#);
        let text = refused("session/new", listed);
        assert_eq!(text, words("session/new", "; it offers key (Key), web (Web)"));
        for nothing in ["", r#","data":null"#, r#","data":{"authMethods":[]}"#] {
            assert_eq!(refused("session/new", nothing), words("session/new", "; it offers tui (T)"));
        }
        assert_eq!(refused("authenticate", listed), words("authenticate", ""));
    }

    #[test]
    fn session_list_skips_rows_without_id_and_unreadable_times() {
        let rows = r#"[{"sessionId":"s","cwd":"/","updatedAt":"2026-11-15T00:00:00Z","title":"t"},{"cwd":"/"},{"sessionId":"u","updatedAt":"soon"}]"#;
        let page = answer("session/list", &format!(r#""result":{{"sessions":{rows},"nextCursor":""}}"#));
        let row = |id: &str, time: Option<&str>, title: Option<&str>, row: &str| ListedSession {
            row: row.into(),
            cwd: title.map(|_| "/".to_owned()),
            session: AcpSessionId::new(id).unwrap(),
            updated_at: time.map(|time| Timestamp::parse(time).unwrap()),
            title: title.map(str::to_owned),
        };
        let first = r#"{"sessionId":"s","cwd":"/","updatedAt":"2026-11-15T00:00:00Z","title":"t"}"#;
        let last = r#"{"sessionId":"u","updatedAt":"soon"}"#;
        let sessions =
            vec![row("s", Some("2026-11-15T00:00:00Z"), Some("t"), first), row("u", None, None, last)];
        assert_eq!(page, AgentResponse::Listed(Ok(ListPage { sessions, next: Some(String::new()) })));
    }
}
