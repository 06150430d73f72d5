//! Files and terminals that an agent asks for, as it asks for them and as they are answered and kept.

use std::path::Path;

use acpx_core::engine::{ClientDecision, ClientOffer, QuestionKind, ResponderRequest};
use acpx_core::model::{
    PermissionCount, PermissionMode, PermissionPolicy, ProcessIdentity, TurnLimits, UnattendedPolicy,
};
use tokio::sync::mpsc;

use super::*;

/// What the agent was answered, in order.
fn answers(command: &[String]) -> Vec<Value> {
    received(command).into_iter().filter(|(method, _)| method == "answer").map(|(_, answer)| answer).collect()
}

fn read(path: &Path) -> (&'static str, Value) {
    ("fs/read_text_file", json!({ "sessionId": "{sessionId}", "path": path }))
}

fn write(path: &Path, content: &str) -> (&'static str, Value) {
    ("fs/write_text_file", json!({ "sessionId": "{sessionId}", "path": path, "content": content }))
}

fn create(command: &str) -> (&'static str, Value) {
    ("terminal/create", json!({ "sessionId": "{sessionId}", "command": command }))
}

/// A request about the terminal that was made last.
fn terminal(method: &'static str) -> (&'static str, Value) {
    (method, json!({ "sessionId": "{sessionId}", "terminalId": "{terminalId}" }))
}

/// An agent that makes these requests in each turn.
fn requesting<const N: usize>(requests: [(&str, Value); N]) -> Script {
    let turn =
        requests.into_iter().fold(Script::new(), |turn, (method, params)| turn.request(method, params));
    Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn.end("end_turn"))])
}

async fn prompt_with(session: &Session, policy: PermissionMode) -> Turn {
    let prompt = Prompt::text("go").unwrap().with_policy(policy);
    session.prompt(prompt).await.unwrap().finished().await.unwrap()
}

fn denied(method: &str) -> Value {
    let words = format!("Permission denied for {method}");
    json!({ "code": -32603, "message": words, "data": { "details": words, "acpx": { "code": "PERMISSION_DENIED" } } })
}

fn outside(path: &Path) -> Value {
    let words = format!("path is outside the session's directories: {}", path.display());
    json!({ "code": -32602, "message": words, "data": { "details": words } })
}

#[tokio::test]
async fn an_agent_finds_enoent_in_the_error_for_a_missing_file() {
    let bench = Bench::new();
    let missing = bench.home.join("missing");
    let (session, command) = bench.open(&requesting([read(&missing)])).await;
    assert_eq!(stop_reason(&prompt(&session, "go").await), "end_turn");
    let details = format!("ENOENT: no such file or directory, open '{}'", missing.display());
    let uri = format!("file://{}", missing.display());
    let expected = json!({
        "code": -32002,
        "message": format!("Resource not found: {uri} ({details})"),
        "data": { "uri": uri, "details": details },
    });
    assert_eq!(answers(&command), [expected]);
}

#[tokio::test]
async fn a_path_outside_the_roots_is_refused_and_nothing_else_stops() {
    let (bench, elsewhere) = (Bench::new(), TempHome::new());
    let (secret, own) = (elsewhere.join("secret"), bench.home.join("own"));
    std::fs::write(&secret, "secret").unwrap();
    std::fs::write(&own, "own").unwrap();
    let climbing = bench.home.path().join("..").join(elsewhere.path().file_name().unwrap()).join("secret");
    std::os::unix::fs::symlink(&secret, bench.home.join("link")).unwrap();
    let link = bench.home.join("link");
    let script = requesting([
        read(&secret),
        write(&secret, "changed"),
        read(&climbing),
        read(&link),
        write(&link, "changed"),
        ("terminal/create", json!({ "sessionId": "{sessionId}", "command": "pwd", "cwd": elsewhere.path() })),
        read(&own),
    ]);
    let (session, command) = bench.open(&script).await;
    let turn = prompt_with(&session, PermissionMode::ApproveAll).await;
    let expected = [
        outside(&secret),
        outside(&secret),
        outside(&climbing),
        outside(&link),
        outside(&link),
        outside(elsewhere.path()),
        json!({ "content": "own" }),
    ];
    assert_eq!(answers(&command), expected);
    assert_eq!((stop_reason(&turn), turn.permissions), ("end_turn", PermissionCount::default()));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    // Another turn, and another session, go on.
    assert_eq!(stop_reason(&prompt(&session, "again").await), "end_turn");
    let (other, _) = bench.open(&faithful(json!({}))).await;
    assert_eq!(stop_reason(&prompt(&other, "hello").await), "end_turn");
}

#[tokio::test]
async fn the_policy_of_the_turn_governs_files_and_terminals() {
    let bench = Bench::new();
    let (old, new) = (bench.home.join("old"), bench.home.join("deep/new"));
    std::fs::write(&old, "one\ntwo\nthree\n").unwrap();
    let mut some = read(&old);
    some.1["line"] = json!(2);
    some.1["limit"] = json!(1);
    let script = requesting([some, write(&new, "text"), create("true"), read(Path::new("old"))]);
    let (session, command) = bench.open(&script).await;
    let relative = "path must be absolute: old";
    let relative = json!({ "code": -32602, "message": relative, "data": { "details": relative } });
    let read = json!({ "content": "two" });

    let all = prompt_with(&session, PermissionMode::ApproveAll).await;
    assert_eq!(all.permissions, PermissionCount { approved: 2, rejected: 0 });
    let told = answers(&command);
    assert!(told[2]["terminalId"].is_string());
    assert_eq!([&told[0], &told[1], &told[3]], [&read, &json!({}), &relative]);
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "text");

    let reads = prompt_with(&session, PermissionMode::ApproveReads).await;
    assert_eq!(reads.permissions, PermissionCount { approved: 0, rejected: 2 });
    let refused = [denied("fs/write_text_file"), denied("terminal/create"), relative];
    assert_eq!(answers(&command)[4..], [vec![read], refused.to_vec()].concat());

    let none = prompt_with(&session, PermissionMode::DenyAll).await;
    assert_eq!(none.permissions, PermissionCount { approved: 0, rejected: 3 });
    assert_eq!(answers(&command)[8..], [vec![denied("fs/read_text_file")], refused.to_vec()].concat());
}

#[tokio::test]
async fn write_that_needs_permission_is_requested_and_done_when_approved() {
    let bench = Bench::new();
    let file = bench.home.join("file");
    std::fs::write(&file, "old").unwrap();
    let (session, command) = bench.open(&requesting([write(&file, "new")])).await;
    let ask = || async {
        let (advisor, questions) = mpsc::channel::<ResponderRequest>(4);
        let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::Ask);
        (session.prompt_with_responder(prompt, advisor).await.unwrap(), questions)
    };
    let (ticket, mut questions) = ask().await;
    let question = questions.recv().await.unwrap();
    assert_eq!((question.kind(), question.offer()), (QuestionKind::Permission, Some(ClientOffer::Writing)));
    let params: Value = serde_json::from_str(question.params()).unwrap();
    let diff = json!([{ "type": "diff", "path": file, "oldText": "old", "newText": "new" }]);
    assert_eq!((&params["sessionId"], &params["toolCall"]["content"]), (&json!("s1"), &diff));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    question.answer(ClientDecision::Choose("allow".into()));
    // Nobody has it open, so it is written here.
    let file_question = questions.recv().await.unwrap();
    assert_eq!(file_question.kind(), QuestionKind::File);
    drop(file_question);
    let turn = ticket.finished().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 1, rejected: 0 });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");

    let (ticket, mut questions) = ask().await;
    questions.recv().await.unwrap().answer(ClientDecision::Choose("reject".into()));
    assert_eq!(ticket.finished().await.unwrap().permissions, PermissionCount { approved: 0, rejected: 1 });

    // A turn that is cancelled over the question.
    let (ticket, mut questions) = ask().await;
    let open = questions.recv().await.unwrap();
    session.cancel(None).await.unwrap();
    ticket.finished().await.unwrap();
    drop(open);
    let cancelled = json!({ "code": -32800, "message": "request cancelled" });
    assert_eq!(answers(&command), [json!({}), denied("fs/write_text_file"), cancelled]);
}

#[tokio::test]
async fn client_response_to_a_file_request_reaches_the_agent_verbatim() {
    let bench = Bench::new();
    let file = bench.home.join("file");
    std::fs::write(&file, "saved").unwrap();
    let (session, command) = bench.open(&requesting([read(&file), read(&file)])).await;
    let (advisor, mut questions) = mpsc::channel::<ResponderRequest>(4);
    let ticket = session.prompt_with_responder(Prompt::text("go").unwrap(), advisor).await.unwrap();
    let question = questions.recv().await.unwrap();
    assert_eq!((question.kind(), question.offer()), (QuestionKind::File, Some(ClientOffer::Reading)));
    question.answer(ClientDecision::Result(r#"{"content":"unsaved","future":1.0e2}"#.into()));
    let error = acpx_core::wire::RpcError::internal("the editor is busy");
    questions.recv().await.unwrap().answer(ClientDecision::Fail(error));
    ticket.finished().await.unwrap();
    let raw = acpx_testkit::received_lines(&command);
    assert!(
        raw.iter().any(|line| line.contains(r#""result":{"content":"unsaved","future":1.0e2}"#)),
        "{raw:?}"
    );
    assert_eq!(answers(&command)[1], json!({ "code": -32603, "message": "the editor is busy" }));
}

#[tokio::test]
async fn a_command_runs_is_shown_is_waited_for_and_is_released() {
    let bench = Bench::new();
    let script = requesting([
        create("printf 'out '; printf err >&2; exit 3"),
        terminal("terminal/wait_for_exit"),
        terminal("terminal/output"),
        terminal("terminal/output"),
        terminal("terminal/kill"),
        terminal("terminal/release"),
        terminal("terminal/release"),
        terminal("terminal/output"),
    ]);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let told = answers(&command);
    let id = told[0]["terminalId"].as_str().unwrap().to_owned();
    let exit = json!({ "exitCode": 3 });
    let shown = json!({ "output": "out err", "truncated": false, "exitStatus": exit });
    let unknown = json!({
        "code": -32002, "message": format!("there is no terminal {id}"), "data": { "terminalId": id },
    });
    let expected = [exit.clone(), shown.clone(), shown, json!({}), json!({}), json!({}), unknown];
    assert_eq!(told[1..], expected);

    // What it shows is kept as it came, and that the agent asked for it is kept once.
    let story = bench.story(session.record_id()).await;
    let of = |sign: &str| -> Vec<String> {
        let about = story.iter().filter_map(|line| line.strip_prefix(sign)?.strip_prefix("terminal"));
        about.map(str::to_owned).collect()
    };
    assert_eq!(of("# "), ["_started", "_output", "_ended"]);
    let requests = ["/create", "/wait_for_exit", "/output", "/kill", "/release", "/release", "/output"];
    assert_eq!(of("< "), requests);
}

#[tokio::test]
async fn terminal_output_is_limited_as_requested_without_split_characters() {
    let bench = Bench::new();
    let (method, mut params) = create("printf 'abcä1234567'");
    params["outputByteLimit"] = 8.into();
    let script = requesting([
        (method, params),
        terminal("terminal/wait_for_exit"),
        terminal("terminal/output"),
        create("printf 12345678"),
        terminal("terminal/wait_for_exit"),
        terminal("terminal/output"),
    ]);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let told = answers(&command);
    let shown = |output: &str, truncated: bool| json!({ "output": output, "truncated": truncated, "exitStatus": { "exitCode": 0 } });
    assert_eq!((&told[2], &told[5]), (&shown("1234567", true), &shown("12345678", false)));
}

#[tokio::test]
async fn polling_a_terminal_does_not_grow_the_store() {
    let bench = Bench::new();
    let (go, poll) = (bench.home.join("go"), terminal("terminal/output"));
    let waiting = format!("echo ready; while ! test -e {}; do sleep 0.05; done", go.display());
    let turn = Script::new()
        .request("terminal/create", create(&waiting).1)
        .repeat(50, |turn| turn.request(poll.0, poll.1.clone()))
        .touch(&go)
        .request("terminal/wait_for_exit", terminal("terminal/wait_for_exit").1)
        .repeat(50, |turn| turn.request(poll.0, poll.1.clone()))
        .end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    assert_eq!(answers(&command).len(), 102);
    let story = bench.story(session.record_id()).await;
    let polls = story.iter().filter(|line| *line == "< terminal/output").count();
    let outputs = story.iter().filter(|line| *line == "# terminal_output").count();
    assert_eq!((polls, outputs), (1, 1));
}

#[tokio::test]
async fn secret_environment_of_a_terminal_reaches_it_and_is_not_stored() {
    let bench = Bench::new();
    let (file, out) = (bench.home.join("config"), bench.home.join("out"));
    let script = format!("echo $API_TOKEN $PLAIN; echo $API_TOKEN > {}", out.display());
    let env =
        json!([{ "name": "API_TOKEN", "value": "s3cret-value" }, { "name": "PLAIN", "value": "plain" }]);
    let create = json!({ "sessionId": "{sessionId}", "command": script, "env": env });
    let script = requesting([
        ("terminal/create", create),
        terminal("terminal/wait_for_exit"),
        terminal("terminal/output"),
        write(&file, "token = s3cret-value"),
        read(&file),
    ]);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let told = answers(&command);
    assert_eq!(
        (&told[2]["output"], &told[4]),
        (&json!("s3cret-value plain\n"), &json!({ "content": "token = s3cret-value" }))
    );
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "s3cret-value\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "token = s3cret-value");
    let kept: Vec<_> = bench.events(session.record_id()).await.into_iter().map(|event| event.body).collect();
    assert!(kept.iter().all(|body| !body.contains("s3cret-value")), "{kept:#?}");
    assert!(kept.iter().any(|body| body.contains(r#""output":"[secret] plain\n""#)), "{kept:#?}");
}

/// A session whose agent has a terminal with a command that does not end by itself; and that command's processes.
async fn with_terminal(bench: &Bench) -> (Session, Vec<ProcessIdentity>) {
    let pids = bench.home.join("pids");
    let command =
        format!("(trap '' TERM; sleep 1000) & echo $! $$ > {}.new; mv {0}.new {0}; wait", pids.display());
    let turn = Script::new().request("terminal/create", create(&command).1).await_file(&pids).end("end_turn");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
        ("session/close", Script::new().reply(json!({}))),
    ]);
    let (session, _) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let pids = std::fs::read_to_string(&pids).unwrap();
    let processes: Vec<_> =
        pids.split_whitespace().map(|pid| ProcessIdentity::of(pid.parse().unwrap()).unwrap()).collect();
    assert!(processes.len() == 2 && processes.iter().all(ProcessIdentity::is_alive));
    (session, processes)
}

#[tokio::test]
async fn terminals_end_with_their_session_and_their_exit_is_stored() {
    for way in ["closed", "parked", "its agent died", "its engine stopped"] {
        let bench = Bench::new();
        let (session, processes) = with_terminal(&bench).await;
        match way {
            "closed" => session.close().await.unwrap(),
            "parked" => session.park().await.unwrap(),
            "its agent died" => kill_agent(&session).await,
            _ => {}
        }
        if way != "parked" {
            bench.engine.shutdown().await;
        }
        assert_eq!(processes.iter().filter(|process| process.is_alive()).count(), 0, "{way}");
        let events = bench.events(session.record_id()).await;
        let facts = events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
        let ends: Vec<Value> = facts.filter(|fact| fact["fact"] == "terminal_ended").collect();
        let signals: Vec<_> = ends.iter().map(|end| &end["signal"]).collect();
        assert_eq!(signals, ["SIGTERM"], "{way}: {ends:?}");
    }
}

#[tokio::test]
async fn an_agent_may_read_before_it_has_a_session_but_not_write() {
    let bench = Bench::new();
    let file = bench.home.join("AGENTS.md");
    std::fs::write(&file, "rules").unwrap();
    let asking = |(method, mut params): (&str, Value)| {
        params["sessionId"] = json!("s1");
        (method.to_owned(), params)
    };
    let ((read, read_params), (write, write_params)) = (asking(read(&file)), asking(write(&file, "x")));
    let script = Script::new()
        .initialize(json!({}))
        .expect_as("session/new", "new")
        .request(&read, read_params)
        .request(&write, write_params)
        .reply_to("new", json!({ "sessionId": "s1" }));
    let (_session, command) = bench.open(&script).await;
    assert_eq!(answers(&command), [json!({ "content": "rules" }), denied("fs/write_text_file")]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "rules");
}

#[tokio::test]
async fn additional_directories_are_sent_to_a_supporting_agent_and_are_roots() {
    let (bench, more) = (Bench::new(), TempHome::new());
    let file = more.join("file");
    std::fs::write(&file, "more").unwrap();
    let capabilities = json!({
        "loadSession": true, "sessionCapabilities": { "resume": {}, "additionalDirectories": {} },
    });
    let (method, params) = read(&file);
    let script = Script::new().initialize(capabilities).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().request(method, params).end("end_turn")),
    ]);
    let (agent, command) = bench.agent(&script);
    let directory = AbsolutePath::from_path(more.path()).unwrap();
    let new = bench.new_session(agent, Vec::new());
    let new = NewSession { additional_directories: vec![directory.clone()], ..new };
    let session = bench.engine.open(new).await.unwrap();
    prompt(&session, "go").await;
    session.park().await.unwrap();
    // Whoever brings it back need not name them again.
    let (session, _) = bench.engine.restore(session.record_id(), restore()).await.unwrap();
    prompt(&session, "go").await;
    let told = json!([more.path()]);
    let set_up: Vec<_> = received(&command)
        .into_iter()
        .filter(|(method, _)| method == "session/new" || method == "session/resume")
        .map(|(method, params)| (method, params["additionalDirectories"].clone()))
        .collect();
    assert_eq!(set_up, [("session/new".to_owned(), told.clone()), ("session/resume".to_owned(), told)]);
    assert_eq!(answers(&command), [json!({ "content": "more" }), json!({ "content": "more" })]);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.additional_directories, [directory]);
}

#[tokio::test]
async fn agent_without_additional_directories_gets_none_and_this_is_reported() {
    let bench = Bench::new();
    let (agent, command) = bench.agent(&faithful(json!({})));
    let new =
        NewSession { additional_directories: vec![bench.cwd()], ..bench.new_session(agent, Vec::new()) };
    match bench.engine.open(new).await {
        Err(SessionError::Agent(error @ AgentError::DirectoriesUnsupported { .. })) => {
            assert_eq!(error.code().as_str(), "DIRECTORIES_UNSUPPORTED");
        }
        other => panic!("{:?}", other.err()),
    }
    assert_eq!(methods(&command), ["initialize"]);
}

/// Waits until the agent has been told so many answers.
async fn until_answered(command: &[String], count: usize) {
    while answers(command).len() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn request_with_an_open_id_is_refused_and_keeps_the_first_decision() {
    let bench = Bench::new();
    let (harmless, harmful) = (bench.home.join("harmless"), bench.home.join("harmful"));
    let create = |file: &Path| {
        let params = json!({ "sessionId": "s1", "command": "touch", "args": [file] });
        json!({ "jsonrpc": "2.0", "id": 7, "method": "terminal/create", "params": params }).to_string()
    };
    let turn = Script::new().line(&create(&harmless)).line(&create(&harmful));
    let turn = turn.expect_as("session/cancel", "c").end("cancelled");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    let (advisor, mut questions) = mpsc::channel::<ResponderRequest>(4);
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::Ask);
    let ticket = session.prompt_with_responder(prompt, advisor).await.unwrap();
    let question = questions.recv().await.unwrap();
    assert!(question.params().contains("harmless"), "{}", question.params());
    until_answered(&command, 1).await;
    question.answer(ClientDecision::Approve);
    until_answered(&command, 2).await;
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    let told = answers(&command);
    let second = json!({ "code": -32600, "message": "a request with this id is still open" });
    assert_eq!((&told[0], told[1]["terminalId"].is_string()), (&second, true), "{told:?}");
    session.close().await.unwrap();
    assert!(!harmful.exists());
}

#[tokio::test]
async fn a_cancel_answers_at_once_what_is_being_done_for_the_agent() {
    let bench = Bench::new();
    let script = requesting([create("sleep 600"), terminal("terminal/wait_for_exit")]);
    let (session, command) = bench.open(&script).await;
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::ApproveAll);
    let ticket = session.prompt(prompt).await.unwrap();
    // Once the first is answered, what is served is the second.
    until_answered(&command, 1).await;
    while session.waiting().await.unwrap().is_none_or(|waiting| !waiting.is_served) {
        tokio::task::yield_now().await;
    }
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    assert_eq!(answers(&command)[1], json!({ "code": -32800, "message": "request cancelled" }));
}

#[tokio::test]
async fn an_agent_that_waits_for_its_command_is_not_silent() {
    let bench = Bench::new();
    let script = requesting([create("sleep 3"), terminal("terminal/wait_for_exit")]);
    let (session, _) = bench.open(&script).await;
    let limits = TurnLimits { silence: Some(Duration::from_secs(2)), ..TurnLimits::default() };
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::ApproveAll).with_limits(limits);
    let turn = session.prompt(prompt).await.unwrap().finished().await.unwrap();
    assert_eq!(stop_reason(&turn), "end_turn");
}

#[tokio::test]
async fn secret_in_split_terminal_output_or_errors_is_not_stored() {
    let bench = Bench::new();
    let (go, poll) = (bench.home.join("go"), terminal("terminal/output"));
    let waiting =
        format!("printf 'it is hunter2'; until test -e {}; do sleep 0.02; done; echo secret", go.display());
    let turn = Script::new()
        .request("terminal/create", create(&waiting).1)
        .repeat(50, |turn| turn.request(poll.0, poll.1.clone()))
        .touch(&go)
        .request("terminal/wait_for_exit", terminal("terminal/wait_for_exit").1)
        .request("terminal/output", poll.1)
        .request("fs/read_text_file", read(&bench.home.join("hunter2secret")).1)
        .end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (agent, command) = bench.agent(&script);
    let environment = environment().with("API_KEY", "hunter2secret");
    let new = NewSession { environment, ..bench.new_session(agent, Vec::new()) };
    let session = bench.engine.open(new).await.unwrap();
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let told = answers(&command);
    assert_eq!(told[52]["output"], "it is hunter2secret\n");
    assert!(told[53]["message"].as_str().unwrap().contains("hunter2secret"));
    let events = bench.events(session.record_id()).await;
    let shown: Vec<_> =
        events.iter().filter(|event| event.body.contains("it is ")).map(|event| &event.body).collect();
    assert!(shown.iter().any(|body| body.contains("it is [secret]")), "{shown:?}");
    let kept =
        events.iter().find(|event| event.body.contains("hunter2") && !event.body.contains("sleep 0.02"));
    assert_eq!(kept, None);
}

#[tokio::test]
async fn error_of_a_turn_without_a_responder_is_short_and_secret_free() {
    let bench = Bench::new();
    let line = format!("curl -H hunter2secret {}", "x".repeat(2000));
    let (agent, _) = bench.agent(&requesting([create(&line)]));
    let new = NewSession {
        environment: environment().with("API_KEY", "hunter2secret"),
        ..bench.new_session(agent, Vec::new())
    };
    let session = bench.engine.open(new).await.unwrap();
    let policy = PermissionPolicy {
        mode: PermissionMode::Ask,
        unasked: UnattendedPolicy::Fail,
        ..PermissionPolicy::default()
    };
    let ticket = session.prompt(Prompt::text("go").unwrap().with_policy(policy)).await.unwrap();
    let turn = ticket.finished().await.unwrap();
    let told = format!("Run curl -H [secret] {}", "x".repeat(1024 - "Run curl -H [secret] ".len()));
    let words = format!("the agent \"scripted\" asked for a permission and no client could answer: {told}");
    assert_eq!(failure(&turn), ("PERMISSION_PROMPT_UNAVAILABLE", words.as_str()));
    let kept = bench.events(session.record_id()).await;
    assert!(!kept.iter().any(|event| event.body.contains("hunter2secret")), "{kept:#?}");
}

#[tokio::test]
async fn terminal_with_many_waiters_can_be_killed() {
    let bench = Bench::new();
    let wait = terminal("terminal/wait_for_exit").1;
    let line = |id: usize| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "terminal/wait_for_exit", "params": wait }).to_string()
    };
    let turn = Script::new().request("terminal/create", create("sleep 600").1);
    let turn = (0..70).fold(turn, |turn, id| turn.line(&line(id)));
    let turn = turn.request("terminal/kill", terminal("terminal/kill").1).end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    until_answered(&command, 72).await;
    let told = answers(&command);
    let words = "too many requests at once";
    let refused = json!({ "code": -32603, "message": words, "data": { "details": words } });
    assert_eq!(told.iter().filter(|answer| **answer == refused).count(), 6);
    assert_eq!(told.iter().filter(|answer| answer["signal"].is_string()).count(), 64);
}

#[tokio::test]
async fn file_changed_since_its_permission_request_is_not_written() {
    let bench = Bench::new();
    let file = bench.home.join("file");
    std::fs::write(&file, "old").unwrap();
    let (session, command) = bench.open(&requesting([write(&file, "new")])).await;
    let (advisor, mut questions) = mpsc::channel::<ResponderRequest>(4);
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::Ask);
    let ticket = session.prompt_with_responder(prompt, advisor).await.unwrap();
    let question = questions.recv().await.unwrap();
    std::fs::write(&file, "mine").unwrap();
    question.answer(ClientDecision::Approve);
    drop(questions);
    ticket.finished().await.unwrap();
    let words = format!("changed since it was asked about: {}", file.display());
    assert_eq!(
        answers(&command),
        [json!({ "code": -32603, "message": words, "data": { "details": words } })]
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[tokio::test]
async fn overlong_write_is_refused_before_any_permission_request() {
    let bench = Bench::new();
    let (file, elsewhere) = (bench.home.join("file"), std::env::temp_dir());
    let long = "x".repeat((10 << 20) + 1);
    let (session, command) = bench.open(&requesting([write(&file, &long), write(&elsewhere, &long)])).await;
    let (advisor, mut questions) = mpsc::channel::<ResponderRequest>(4);
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::Ask);
    let asked = session.prompt_with_responder(prompt, advisor).await.unwrap().finished().await.unwrap();
    assert!(questions.recv().await.is_none(), "somebody was asked");
    let denied = prompt_with(&session, PermissionMode::DenyAll).await;
    let words = format!("larger than {} bytes: {}", 10 << 20, file.display());
    let too_long = json!({ "code": -32602, "message": words, "data": { "details": words } });
    let expected = [too_long.clone(), outside(&elsewhere), too_long, outside(&elsewhere)];
    assert_eq!(answers(&command), expected);
    assert_eq!([asked.permissions, denied.permissions], [PermissionCount::default(); 2]);
    assert!(!file.exists());
}

#[tokio::test]
async fn terminal_output_waits_in_its_turn_and_is_released_in_the_next() {
    let bench = Bench::new();
    let wait = || terminal("terminal/wait_for_exit");
    let run = |turn: Script| turn.request("terminal/create", create("true").1).request(wait().0, wait().1);
    let turn = || Script::new().repeat(65, run).end("end_turn");
    let prompts = [("session/prompt", turn()), ("session/prompt", turn())];
    let script = Script::new().initialize(json!({})).session_new("s1").serve(prompts);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let told = answers(&command);
    let refused: Vec<usize> = (0..told.len()).filter(|at| told[*at].get("code").is_some()).collect();
    assert_eq!((told.len(), refused), (260, vec![128, 258]), "{told:?}");
}

#[tokio::test]
async fn finished_terminals_make_room_for_others_and_running_ones_do_not() {
    let bench = Bench::new();
    let turn = Script::new()
        .repeat(70, |turn| {
            let [wait, output] = ["terminal/wait_for_exit", "terminal/output"].map(terminal);
            turn.request("terminal/create", create("true").1)
                .request(wait.0, wait.1)
                .request(output.0, output.1)
        })
        .repeat(65, |turn| turn.request("terminal/create", create("sleep 600").1))
        .end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    prompt_with(&session, PermissionMode::ApproveAll).await;
    let told = answers(&command);
    let refused: Vec<usize> = told
        .iter()
        .enumerate()
        .filter(|(_, answer)| answer.get("code").is_some())
        .map(|(at, _)| at)
        .collect();
    assert_eq!((told.len(), refused), (210 + 65, vec![210 + 64]), "{told:?}");
    assert_eq!(told[210 + 64]["message"], "too many terminals; release those that are done with");
}

#[tokio::test]
async fn concurrent_terminals_are_allowed_up_to_the_limit() {
    let bench = Bench::new();
    let go = bench.home.join("go");
    let at_once = |turn: Script, id: u64| {
        let params = json!({ "sessionId": "s1", "command": "sleep 600" });
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": "terminal/create", "params": params });
        turn.line(&line.to_string())
    };
    let turn =
        Script::new().repeat(60, |turn| turn.request("terminal/create", create("sleep 600").1)).say("now");
    let turn = (1..=10).fold(turn, at_once).await_file(&go).end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, _) = bench.open(&script).await;
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::ApproveAll);
    let ticket = session.prompt(prompt).await.unwrap();
    let (mut follower, mut made, mut refused) = (session.follow(Seq::FIRST), 0, 0);
    while made + refused < 70 {
        let event = follower.next().await.unwrap().unwrap();
        let body: Value = serde_json::from_str(&event.body).unwrap();
        made += usize::from(body["result"]["terminalId"].is_string());
        refused +=
            usize::from(body["error"]["message"] == "too many terminals; release those that are done with");
    }
    assert_eq!((made, refused), (64, 6));
    std::fs::write(&go, "").unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "end_turn");
}
