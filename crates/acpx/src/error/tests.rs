use std::sync::Arc;

use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentError, AgentSessionId, ErrorMeaning, MissedDeadline, RecordId, Timestamp,
};

use super::*;
use crate::output::{error_json, error_quiet, error_text};

fn shown(error: &CliError) -> [String; 3] {
    let report = ErrorReport::from(error);
    [error_text, error_quiet, error_json].map(|write| {
        let mut out = Vec::new();
        write(&report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    })
}

fn identity() -> SessionIdentity {
    SessionIdentity {
        record: RecordId::new("r").unwrap(),
        session: AcpSessionId::new("s").unwrap(),
        agent_session: AgentSessionId::from_agent("i"),
    }
}

#[test]
fn an_error_is_complete_in_each_output_format() {
    let none = |remedy| CliError::NoSession {
        agent: "claude".to_owned(),
        name: Some("an api".to_owned()),
        cwd: "/w/a".into(),
        searched: Some("/w".into()),
        remedy: Box::new(remedy),
    };
    let error = none(NoSessionHelp { intent: Intent::Prompt, alternatives: Alternatives::None });
    let message = "there is no session named \"an api\" of claude in /w/a or above, up to /w";
    let hint = "create one: acpx claude sessions new --name 'an api', or add --create";
    let json = serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {
        "code": -32002, "message": message, "data": {"acpxCode": "NO_SESSION", "detailCode": "NO_SESSION",
        "origin": "cli", "retryable": false, "hint": hint}}});
    let [text, quiet, line] = shown(&error);
    assert_eq!(text, format!("acpx: {message}\nhint: {hint}\n"));
    assert_eq!(quiet, format!("[acpx] error: NO_SESSION {message}\n"));
    assert_eq!((serde_json::from_str::<serde_json::Value>(&line).unwrap(), line.lines().count()), (json, 1));
}

#[test]
fn no_session_hints_name_sessions_with_similar_names() {
    let hint = |intent, alternatives| NoSessionHelp { intent, alternatives }.hint("lo", None);
    let create = "create one: acpx lo sessions new, or add --create";
    let similar = |agent: &str, cwd: Option<&str>| SimilarSession {
        agent: agent.to_owned(),
        name: "api".to_owned(),
        cwd: cwd.map(str::to_owned),
    };
    let cases = [
        (hint(Intent::Use, Alternatives::None), "create one: acpx lo sessions new".to_owned()),
        (
            hint(
                Intent::Prompt,
                Alternatives::Similar(vec![similar("lo", None), similar("hi", Some("/a b"))]),
            ),
            format!("did you mean acpx lo -s api … or acpx hi --cwd '/a b' -s api …? {create}"),
        ),
        (
            hint(Intent::Show("show"), Alternatives::Similar(vec![similar("lo", Some("/w"))])),
            "did you mean acpx lo --cwd /w sessions show api?".to_owned(),
        ),
    ];
    for (hint, expected) in cases {
        assert_eq!(hint, expected);
    }
}

#[test]
fn no_session_hints_name_the_sessions_that_may_be_meant() {
    let id = |text: &str| RecordId::new(text).unwrap();
    let hint = |intent, alternatives| NoSessionHelp { intent, alternatives }.hint("lo", None);
    let create = "create one: acpx lo sessions new, or add --create";
    let all = "acpx sessions list shows the sessions there are".to_owned();
    let alone = "1 open session here has no name, as those of editors";
    let lost = |text: &str| LostSession { id: id(text), cwd: format!("/old/{text}") };
    let many = ["a", "b", "c", "d", "e"];
    let cases = [
        (hint(Intent::Prompt, Alternatives::None), create.to_owned()),
        (
            hint(Intent::Prompt, Alternatives::Open(vec![id("a")])),
            format!("{alone}; continue it: acpx lo -s a …; or {create}"),
        ),
        (
            hint(Intent::Prompt, Alternatives::Open(many.map(id).to_vec())),
            format!(
                "5 open sessions here have no name, as those of editors; continue one of them: \
                 acpx lo -s a … or acpx lo -s b … or acpx lo -s c … or one of 2 more; or {create}"
            ),
        ),
        (
            hint(Intent::Prompt, Alternatives::Closed(id("a"))),
            format!("one is closed; continue it: acpx lo -s a …; or {create}"),
        ),
        (
            hint(Intent::Prompt, Alternatives::Lost(vec![lost("a")])),
            format!(
                "{create}; if the project has moved here, move its session too: \
                 acpx lo sessions move a (it worked in /old/a)"
            ),
        ),
        (
            hint(Intent::Close, Alternatives::Open(vec![id("a")])),
            format!("{alone}; close it: acpx lo sessions close a"),
        ),
        (
            hint(Intent::Close, Alternatives::Closed(id("a"))),
            "the last one there, a, is closed already".to_owned(),
        ),
        (
            hint(Intent::Delete, Alternatives::Open(vec![id("a")])),
            format!("{alone}; delete it: acpx lo sessions delete a"),
        ),
        (
            hint(Intent::Delete, Alternatives::Closed(id("a"))),
            "one is closed; delete it: acpx lo sessions delete a".to_owned(),
        ),
        (
            hint(Intent::Show("history"), Alternatives::Open(vec![id("a")])),
            format!("{alone}; show it: acpx lo sessions history a"),
        ),
        (
            hint(Intent::Show("watch"), Alternatives::Lost(vec![lost("a"), lost("b")])),
            "one whose directory is gone may be meant: acpx lo sessions watch a (it worked in /old/a) or \
             acpx lo sessions watch b (it worked in /old/b)"
                .to_owned(),
        ),
        (hint(Intent::Show("show"), Alternatives::None), all.clone()),
        (hint(Intent::Close, Alternatives::None), all.clone()),
        (NoSessionHelp::LOOK.hint("lo", None), all.clone()),
    ];
    for (hint, expected) in cases {
        assert_eq!(hint, expected);
    }
}

#[test]
fn a_session_whose_directory_has_moved_names_sessions_move_with_its_id() {
    let path = |path: &str| AbsolutePath::new(path).unwrap();
    let (record, now) = (RecordId::new("r").unwrap(), "leads to /other now".to_owned());
    let moved = AgentError::DirectoryMoved { record, cwd: path("/link"), real_cwd: path("/w"), now };
    let error = CliError::from(SessionError::from(moved)).about(identity());
    let message = "the session r was created in /w, and its path /link leads to /other now";
    let hint = "put the directory back, or move the session to where its project is now: \
                acpx sessions move r --cwd DIR";
    assert_eq!((error.message().as_str(), error.hint().as_deref()), (message, Some(hint)));
    assert_eq!(error.class(), ErrorClass::Runtime);
}

#[test]
fn move_errors_name_sessions_with_their_directories() {
    let at = |id: &str| LostSession { id: RecordId::new(id).unwrap(), cwd: format!("/w/{id}") };
    let none = |name: Option<&str>, there| {
        CliError::NoneLost { agent: "demo".to_owned(), name: name.map(str::to_owned), there }.message()
    };
    assert_eq!(none(None, Vec::new()), "no session of demo has lost its directory");
    assert_eq!(none(Some("api"), Vec::new()), "there is no session named \"api\" of demo");
    let words = "no session named \"api\" of demo has lost its directory: a (/w/a)";
    assert_eq!(none(Some("api"), vec![at("a")]), words);
    let several = CliError::SeveralLost { lost: vec![at("a"), at("b")] };
    assert_eq!(several.message(), "more than one session has lost its directory: a (/w/a), b (/w/b)");
}

#[test]
fn a_full_disk_under_stdout_has_a_hint() {
    let full = CliError::from(io::Error::from(io::ErrorKind::StorageFull));
    assert_eq!(full.hint().as_deref(), Some("free space where stdout goes, or redirect it"));
}

#[test]
fn an_error_about_a_session_has_its_ids_and_the_agents_message() {
    let refused = AgentError::Refused {
        agent: "demo".to_owned(),
        method: "session/prompt".to_owned(),
        code: -32603,
        message: "boom\nand\u{1b}[2J more".to_owned(),
        field: None,
        acp: Arc::from(r#"{"code":-32603, "message":"boom"}"#),
        meaning: ErrorMeaning::Broken,
    };
    let error = CliError::from(SessionError::from(refused)).about(identity());
    let [text, quiet, line] = shown(&error);
    let hint = "this is the agent's own message; do what it asks for, then try again";
    assert_eq!(
        text,
        format!("acpx: the agent \"demo\" refused session/prompt: boom and[2J more (-32603)\nhint: {hint}\n")
    );
    assert_eq!(
        quiet,
        "[acpx] error: RUNTIME [AGENT_REFUSED] the agent \"demo\" refused session/prompt: boom and[2J more (-32603)\n"
    );
    let data = r#""data":{"acpxCode":"RUNTIME","detailCode":"AGENT_REFUSED","origin":"acp","retryable":false,"hint":"this is the agent's own message; do what it asks for, then try again","acpxRecordId":"r","acpxSessionId":"s","agentSessionId":"i","acp":{"code":-32603, "message":"boom"}}"#;
    assert!(line.contains(data), "{line}");
}

#[test]
fn an_error_message_names_its_causes_once() {
    let source = io::Error::other("the disk is gone");
    let error = CliError::System { doing: "make /x".to_owned(), source };
    assert_eq!(error.message(), "cannot make /x: the disk is gone");
    let about = error.about(identity());
    assert_eq!(about.message(), "cannot make /x: the disk is gone");
}

#[test]
fn every_error_class_has_its_rpc_and_exit_codes() {
    let remote = |code: &str| {
        CliError::Remote(RemoteError {
            code: code.into(),
            message: String::new(),
            hint: None,
            origin: Origin::Runtime,
            acp: None,
        })
    };
    let cases = [
        ("NO_SESSION", "NO_SESSION", -32002, 4),
        ("TIMEOUT", "TIMEOUT", -32070, 3),
        ("QUEUE_TIMEOUT", "TIMEOUT", -32070, 3),
        ("AGENT_START_TIMEOUT", "TIMEOUT", -32070, 3),
        ("PERMISSION_DENIED", "PERMISSION_DENIED", -32071, 5),
        ("PERMISSION_PROMPT_UNAVAILABLE", "PERMISSION_PROMPT_UNAVAILABLE", -32072, 5),
        ("EXEC_DISABLED", "EXEC_DISABLED", -32603, 1),
        ("AGENT_DIED", "RUNTIME", -32603, 1),
        ("SOMETHING_NEW", "RUNTIME", -32603, 1),
        ("BAD_PROMPT", "USAGE", -32602, 2),
        ("CONTENT_UNSUPPORTED", "USAGE", -32602, 2),
    ];
    for (code, class, number, exit) in cases {
        let found = remote(code).class();
        assert_eq!(
            (found.as_str(), found.rpc_code(), CliExit::from(found).number()),
            (class, number, exit),
            "{code}"
        );
    }
    let typed = CliError::Directory { path: "/x".into(), reason: "gone".to_owned(), flag: "--cwd" };
    assert_eq!(typed.class(), ErrorClass::Usage, "what was typed is the mistake");
    assert_eq!(CliExit::Interrupted.number(), 130);
}

#[test]
fn a_closed_stdout_is_not_reported() {
    let gone = || CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
    assert!(gone().is_broken_pipe() && gone().about(identity()).is_broken_pipe());
    assert!(!CliError::from(io::Error::from(io::ErrorKind::StorageFull)).is_broken_pipe());
}

#[test]
fn start_timeout_hints_name_the_flags_that_give_more_time() {
    let flags = "with --timeout or startTimeoutSeconds in its profile";
    let time = &*format!("give the agent more time, {flags}");
    let load = Timestamp::from_millis(60_000).unwrap();
    let rows = [
        (MissedDeadline::Initialize, format!("a first start may download a package; {time}")),
        (MissedDeadline::Answer("session/load".into()), time.to_owned()),
        (MissedDeadline::Ready, time.to_owned()),
        (MissedDeadline::LoadTime(load), format!("try again then, or wait for longer, {flags}")),
        (
            MissedDeadline::End,
            format!("try again: its remaining processes are being ended; or give it more time, {flags}"),
        ),
    ];
    for (missed, hint) in rows {
        let limit = Duration::from_secs(2);
        let slow = AgentError::SlowStart { agent: "a".into(), missed, limit, output: Vec::new() };
        assert_eq!(CliError::from(SessionError::from(slow)).hint().as_deref(), Some(hint.as_str()));
    }
}
