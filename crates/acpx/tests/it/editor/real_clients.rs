//! The message order of three editors, played against `acpx demo acp`. The order comes from their sources.
//!
//! | | Toad 0.6.18 | CodeCompanion.nvim f1afd025 | agent-shell 0.74.3 |
//! |---|---|---|---|
//! | capabilities | `fs`, `terminal` | `fs` | `fs` |
//! | start | `session/new` | `session/new` | `session/list`, `session/new` |
//! | mode | `session/set_mode` | none without `configOptions` | `session/set_mode` |
//! | prompt | `session/prompt` | `session/prompt` | `session/list` and `session/prompt` at once, `session/list` after the turn |
//! | cancel | `session/cancel` with `_meta`; the permission request stays unanswered | `session/cancel`, then the outcome `cancelled` | the outcome `cancelled`, then `session/cancel` with `reason` |
//! | `$/cancel_request` | answers it with an error under the id `null` | ignores it | ignores it |
//! | restart | `session/load` of a stored id | `session/new`, `session/list`, `session/load` | `session/list`, `session/resume` or `session/load` |
//! | quit | SIGTERM | SIGTERM | SIGKILL |
//! | shows of an error | `data.details` | `message` | `message` |

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Editor, words};
use crate::acpx::Place;

/// How a client orders the members of its messages.
struct Dialect {
    request: &'static str,
    notification: &'static str,
    response: &'static str,
}

const TOAD: Dialect = Dialect {
    request: r#"{"jsonrpc": "2.0", "method": METHOD, "params": BODY, "id": ID}"#,
    notification: r#"{"jsonrpc": "2.0", "method": METHOD, "params": BODY}"#,
    response: r#"{"jsonrpc": "2.0", "result": BODY, "id": ID}"#,
};

const CODE_COMPANION: Dialect = Dialect {
    request: r#"{"id":ID,"params":BODY,"method":METHOD,"jsonrpc":"2.0"}"#,
    notification: r#"{"params":BODY,"method":METHOD,"jsonrpc":"2.0"}"#,
    response: r#"{"id":ID,"result":BODY,"jsonrpc":"2.0"}"#,
};

const AGENT_SHELL: Dialect = Dialect {
    request: r#"{"jsonrpc":"2.0","method":METHOD,"id":ID,"params":BODY}"#,
    notification: r#"{"jsonrpc":"2.0","method":METHOD,"params":BODY}"#,
    response: r#"{"jsonrpc":"2.0","id":ID,"result":BODY}"#,
};

/// A client with its connection.
struct Client {
    dialect: Dialect,
    editor: Editor,
    work: Value,
    next: u64,
}

impl Client {
    /// Starts the program and sends `initialize`.
    fn start(place: &Place, dialect: Dialect, info: &Value, capabilities: &Value) -> Self {
        let editor = Editor::silent(place, &["demo", "acp"]);
        let mut client = Self { dialect, editor, work: json!(place.work()), next: 0 };
        let params = json!({
            "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info,
        });
        let (before, answer) = client.call("initialize", &params);
        assert_eq!((before, without_meta(&answer)), (vec![], initialized()));
        client
    }

    fn toad(place: &Place) -> Self {
        let info = json!({ "name": "toad", "title": "Toad", "version": "0.6.18" });
        let capabilities = json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true });
        Self::start(place, TOAD, &info, &capabilities)
    }

    fn code_companion(place: &Place) -> Self {
        let info = json!({ "name": "CodeCompanion.nvim", "version": "1.0.0" });
        let capabilities = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
        Self::start(place, CODE_COMPANION, &info, &capabilities)
    }

    fn agent_shell(place: &Place) -> Self {
        let info = json!({ "name": "agent-shell", "title": "Emacs Agent Shell", "version": "0.74.3" });
        let capabilities = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
        Self::start(place, AGENT_SHELL, &info, &capabilities)
    }

    /// Sends a request; its id.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = json!(self.next);
        self.editor.say(&filled(self.dialect.request, &id, method, params));
        id
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.editor.say(&filled(self.dialect.notification, &Value::Null, method, params));
    }

    /// Answers a permission request.
    fn answer(&mut self, request: &Value, outcome: &Value) {
        let result = json!({ "outcome": outcome });
        self.editor.say(&filled(self.dialect.response, &request["id"], "", &result));
    }

    /// Sends a request; the messages before its response, and the response.
    fn call(&mut self, method: &str, params: &Value) -> (Vec<Value>, Value) {
        let id = self.request(method, params);
        self.editor.hear_answer(&id)
    }

    /// The responses to two requests that are under way at once, and all other messages.
    fn answers(&self, ids: &[Value; 2]) -> (Vec<Value>, [Value; 2]) {
        let mut others = Vec::new();
        let mut answers = [Value::Null, Value::Null];
        while answers.contains(&Value::Null) {
            let message = self.editor.hear();
            match ids.iter().position(|id| message["id"] == *id && message.get("method").is_none()) {
                Some(index) => answers[index] = message,
                None => others.push(message),
            }
        }
        (others, answers)
    }

    /// Opens a session; its id.
    fn new_session(&mut self) -> String {
        let (before, answer) = self.call("session/new", &json!({ "cwd": self.work, "mcpServers": [] }));
        let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        let expected = json!({ "sessionId": session, "modes": modes("ask") });
        assert_eq!((before, without_meta(&answer)), (vec![], expected));
        session
    }

    fn set_mode(&mut self, session: &str, mode: &str) {
        let (before, answer) =
            self.call("session/set_mode", &json!({ "sessionId": session, "modeId": mode }));
        assert_eq!(kinds(&before), ["current_mode_update"]);
        assert_eq!(answer["result"], json!({}));
    }

    /// Lists the sessions of the directory: id and title of each row, and nothing after the page.
    fn list(&mut self) -> Vec<(String, String)> {
        let (before, answer) = self.call("session/list", &json!({ "cwd": self.work }));
        assert_eq!(before, [] as [Value; 0]);
        self.rows(&answer)
    }

    fn rows(&self, answer: &Value) -> Vec<(String, String)> {
        assert_eq!(answer["result"].as_object().unwrap().keys().collect::<Vec<_>>(), ["sessions"]);
        let row = |row: &Value| {
            assert_eq!(row["cwd"], self.work, "{row}");
            assert!(row["updatedAt"].is_string(), "{row}");
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            (text("sessionId"), text("title"))
        };
        answer["result"]["sessions"].as_array().unwrap().iter().map(row).collect()
    }

    /// Sends a prompt; the id of the request.
    fn prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", &json!({ "prompt": prompt, "sessionId": session }))
    }

    /// Runs a turn; the messages before its response, and how it ended.
    fn turn(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        let id = self.prompt(session, text);
        self.end_of_turn(&id)
    }

    fn end_of_turn(&self, id: &Value) -> (Vec<Value>, Value) {
        let (before, answer) = self.editor.hear_answer(id);
        (before, without_meta(&answer))
    }

    /// Sends a prompt for an edit and waits for its permission request; the id of the prompt, and the request.
    fn until_permission(&mut self, session: &str, call: &str) -> (Value, Value) {
        let prompt = self.prompt(session, "permission");
        let (before, request) = self.editor.hear_method("session/request_permission");
        assert_eq!(kinds(&before), ["tool_call"]);
        let old = "one note: all is well\n";
        let diff = json!({
            "type": "diff", "path": format!("{}/notes.txt", self.work.as_str().unwrap()),
            "oldText": old, "newText": format!("{old}another note: it was edited\n"),
        });
        let tool_call = json!({
            "toolCallId": call, "kind": "edit", "status": "pending", "title": "Edit notes.txt", "content": [diff],
        });
        let expected = json!({
            "sessionId": session,
            "toolCall": tool_call,
            "options": [
                { "optionId": "allow", "name": "Allow", "kind": "allow_once" },
                { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
            ],
        });
        assert_eq!(request["params"], expected);
        (prompt, request)
    }

    /// Answers one permission request with each of its options.
    fn answer_permissions(&mut self, session: &str, calls: [&str; 2]) {
        let edited: &[&str] = &[
            "tool_call_update in_progress",
            "tool_call_update completed",
            "agent_message_chunk",
            "agent_message_chunk",
        ];
        let rejected: &[&str] = &["tool_call_update failed", "agent_message_chunk", "agent_message_chunk"];
        let cases = [("allow", edited, "The edit was made."), ("reject", rejected, "The edit was rejected.")];
        for (call, (option, expected, said)) in calls.into_iter().zip(cases) {
            let (prompt, request) = self.until_permission(session, call);
            self.answer(&request, &json!({ "outcome": "selected", "optionId": option }));
            let (before, end) = self.end_of_turn(&prompt);
            assert_eq!((kinds(&before), end), (owned(expected), stopped("end_turn")));
            assert_eq!(words(&before), [format!("agent: {said}"), "agent: You said: permission".into()]);
        }
    }

    /// Starts a turn that lasts until it is cancelled; the id of the prompt.
    fn start_long_turn(&mut self, session: &str) -> Value {
        let prompt = self.prompt(session, "wait");
        self.editor.hear_words("Waiting until cancelled.");
        prompt
    }

    /// Loads a session and asserts its whole answer; the replay.
    fn load(&mut self, session: &str, mode: &str) -> Vec<Value> {
        let params = json!({ "cwd": self.work, "mcpServers": [], "sessionId": session });
        let (replay, answer) = self.call("session/load", &params);
        assert_eq!(without_meta(&answer), json!({ "modes": modes(mode) }));
        replay
    }

    /// Ends the program with SIGTERM.
    fn terminate(self) {
        let pid = i32::try_from(self.editor.pid()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert_eq!(self.editor.gone(), (Some(0), vec![]));
    }
}

/// A message of a dialect.
fn filled(template: &str, id: &Value, method: &str, body: &Value) -> String {
    let method = json!(method).to_string();
    template.replace("ID", &id.to_string()).replace("METHOD", &method).replace("BODY", &body.to_string())
}

/// The kinds of updates, with the status of a tool call, and the methods of other messages.
fn kinds(messages: &[Value]) -> Vec<String> {
    let kind = |message: &Value| {
        let update = &message["params"]["update"];
        match (update["sessionUpdate"].as_str(), update["status"].as_str()) {
            (Some(kind), Some(status)) => format!("{kind} {status}"),
            (Some(kind), None) => kind.to_owned(),
            (None, _) => message["method"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned(),
        }
    };
    messages.iter().map(kind).collect()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The result of a response without the ids, numbers and times in `_meta`, and without the usage of a turn.
fn without_meta(answer: &Value) -> Value {
    let mut result = answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone();
    result.as_object_mut().unwrap().retain(|name, _| name != "_meta" && name != "usage");
    result
}

fn stopped(reason: &str) -> Value {
    json!({ "stopReason": reason })
}

fn modes(current: &str) -> Value {
    let available = json!([{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }]);
    json!({ "currentModeId": current, "availableModes": available })
}

fn initialized() -> Value {
    json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": false },
            "mcpCapabilities": { "http": true, "sse": false },
            "sessionCapabilities": { "list": {}, "delete": {}, "resume": {}, "close": {} },
            "auth": {},
        },
        "authMethods": [],
        "agentInfo": { "name": "acpx-demo", "version": env!("CARGO_PKG_VERSION") },
    })
}

#[test]
fn toad_prompts_answers_permission_requests_cancels_and_loads_a_session() {
    let place = Place::new();
    let mut toad = Client::toad(&place);
    let session = toad.new_session();
    toad.set_mode(&session, "code");
    let (before, end) = toad.turn(&session, "think plan tool chunks 2");
    let expected = [
        "agent_thought_chunk",
        "plan",
        "plan",
        "tool_call",
        "tool_call_update in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
        "agent_message_chunk",
    ];
    assert_eq!((kinds(&before), end), (owned(&expected), stopped("end_turn")));
    toad.answer_permissions(&session, ["call-2-1", "call-3-1"]);

    let prompt = toad.start_long_turn(&session);
    let cancel = json!({ "sessionId": session, "_meta": {} });
    toad.notify("session/cancel", &cancel);
    assert_eq!(toad.end_of_turn(&prompt), (vec![], stopped("cancelled")));

    let (prompt, request) = toad.until_permission(&session, "call-5-1");
    toad.notify("session/cancel", &cancel);
    let (before, end) = toad.end_of_turn(&prompt);
    assert_eq!(kinds(&before), ["$/cancel_request", "tool_call_update failed"]);
    assert_eq!((&before[0]["params"], end), (&json!({ "requestId": request["id"] }), stopped("cancelled")));
    // Toad answers the notification, and its dialog for the permission request stays open.
    toad.editor.say(
        r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found; '$/cancel_request' is not an exposed method"}}"#,
    );
    toad.answer(&request, &json!({ "optionId": "allow", "outcome": "selected" }));
    let (before, end) = toad.turn(&session, "hello");
    assert_eq!((words(&before), end), (vec!["agent: You said: hello".into()], stopped("end_turn")));

    let failed = toad.prompt(&session, "fail");
    let (_, failed) = toad.editor.hear_answer(&failed);
    let details = json!({ "details": "the prompt asked for a failure" });
    assert_eq!(failed["error"], json!({ "code": -32603, "message": "Internal error", "data": details }));
    toad.terminate();

    let mut toad = Client::toad(&place);
    let replay = toad.load(&session, "code");
    let expected = [
        "current_mode_update",
        "user_message_chunk",
        "agent_thought_chunk",
        "plan",
        "tool_call completed",
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call completed",
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call failed",
        "agent_message_chunk",
        "user_message_chunk",
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call failed",
        "user_message_chunk",
        "agent_message_chunk",
        "user_message_chunk",
    ];
    assert_eq!(kinds(&replay), expected);
    let (before, end) = toad.turn(&session, "again");
    assert_eq!((words(&before), end), (vec!["agent: You said: again".into()], stopped("end_turn")));
    toad.terminate();
}

#[test]
fn code_companion_prompts_answers_permission_requests_cancels_and_resumes_a_session() {
    let place = Place::new();
    let mut chat = Client::code_companion(&place);
    let session = chat.new_session();
    let (before, end) = chat.turn(&session, "tool");
    let expected =
        ["tool_call", "tool_call_update in_progress", "tool_call_update completed", "agent_message_chunk"];
    assert_eq!((kinds(&before), end), (owned(&expected), stopped("end_turn")));
    chat.answer_permissions(&session, ["call-2-1", "call-3-1"]);

    let cancel = json!({ "sessionId": session });
    let (prompt, request) = chat.until_permission(&session, "call-4-1");
    chat.notify("session/cancel", &cancel);
    chat.answer(&request, &json!({ "outcome": "cancelled" }));
    let (mut before, end) = chat.end_of_turn(&prompt);
    // The host withdraws the request only if it reads the cancellation before the answer.
    before.retain(|message| message["method"] != "$/cancel_request");
    assert_eq!((kinds(&before), end), (vec!["tool_call_update failed".into()], stopped("cancelled")));
    chat.start_long_turn(&session);
    chat.terminate();

    // A chat opens a session of its own before `/resume`. The turn that lost its client still runs.
    let mut chat = Client::code_companion(&place);
    chat.new_session();
    assert_eq!(chat.list(), [(session.clone(), "tool".to_owned())]);
    let replay = chat.load(&session, "ask");
    let expected = [
        "user: tool",
        "agent: You said: tool",
        "user: permission",
        "agent: The edit was made.\nYou said: permission",
        "user: permission",
        "agent: The edit was rejected.\nYou said: permission",
        "user: permission",
        "user: wait",
        "agent: Waiting until cancelled.",
    ];
    assert_eq!(words(&replay), expected);
    let prompt = chat.prompt(&session, "next");
    chat.editor.hear_words("Cancel to stop both.");
    chat.notify("session/cancel", &cancel);
    assert_eq!(chat.end_of_turn(&prompt), (vec![], stopped("cancelled")));
    let (before, end) = chat.turn(&session, "again");
    assert_eq!((words(&before), end), (vec!["agent: You said: again".into()], stopped("end_turn")));

    let failed = chat.prompt(&session, "crash");
    let (before, failed) = chat.editor.hear_answer(&failed);
    assert_eq!(words(&before), ["agent: You said: crash"]);
    let message =
        "the agent \"demo\" died (exit code 70); it said: acpx demo-agent: the prompt asked for a crash";
    let details = format!("{message}; the conversation is kept; the next prompt restores it");
    let expected = json!({ "code": -32603, "message": message, "data": { "details": details } });
    assert_eq!(failed["error"], expected);
    chat.terminate();
}

#[test]
fn agent_shell_prompts_answers_permission_requests_cancels_and_restores_a_session() {
    let place = Place::new();
    let mut shell = Client::agent_shell(&place);
    assert_eq!(shell.list(), []);
    let session = shell.new_session();
    // A default model of the user's settings, which this agent does not have.
    let (_, refused) = shell.call("session/set_model", &json!({ "sessionId": session, "modelId": "haiku" }));
    let message = "the agent \"demo\" does not offer session/set_model";
    let expected = json!({ "code": -32601, "message": message, "data": { "details": message } });
    assert_eq!(refused["error"], expected);
    shell.set_mode(&session, "code");
    assert_eq!(shell.list(), []);

    let listed = shell.request("session/list", &json!({ "cwd": shell.work }));
    let prompt = shell.prompt(&session, "hello");
    let (updates, [list, answer]) = shell.answers(&[listed, prompt]);
    assert_eq!(words(&updates), ["agent: You said: hello"]);
    assert_eq!(without_meta(&answer), stopped("end_turn"));
    let row = (session.clone(), "hello".to_owned());
    // The list is from before the prompt or from after it.
    assert!(shell.rows(&list).iter().all(|listed| *listed == row), "{list}");
    assert_eq!(shell.list(), std::slice::from_ref(&row));
    shell.answer_permissions(&session, ["call-2-1", "call-3-1"]);

    let cancel = json!({ "sessionId": session, "reason": "User cancelled" });
    let (prompt, request) = shell.until_permission(&session, "call-4-1");
    shell.answer(&request, &json!({ "outcome": "cancelled" }));
    shell.notify("session/cancel", &cancel);
    let (before, end) = shell.end_of_turn(&prompt);
    assert_eq!((kinds(&before), end), (vec!["tool_call_update failed".into()], stopped("cancelled")));
    let prompt = shell.start_long_turn(&session);
    shell.notify("session/cancel", &cancel);
    assert_eq!(shell.end_of_turn(&prompt), (vec![], stopped("cancelled")));
    shell.editor.kill();

    let mut shell = Client::agent_shell(&place);
    assert_eq!(shell.list(), std::slice::from_ref(&row));
    let params = json!({ "sessionId": session, "cwd": shell.work, "mcpServers": [] });
    let (before, resumed) = shell.call("session/resume", &params);
    assert_eq!((before, without_meta(&resumed)), (vec![], json!({ "modes": modes("code") })));
    assert_eq!(shell.list(), std::slice::from_ref(&row));
    let (before, end) = shell.turn(&session, "again");
    assert_eq!((words(&before), end), (vec!["agent: You said: again".into()], stopped("end_turn")));
    shell.editor.kill();

    // With `agent-shell-session-restore-verbosity` set to `full`.
    let mut shell = Client::agent_shell(&place);
    assert_eq!(shell.list(), [row]);
    let replay = shell.load(&session, "code");
    let expected = [
        "user: hello",
        "agent: You said: hello",
        "user: permission",
        "agent: The edit was made.\nYou said: permission",
        "user: permission",
        "agent: The edit was rejected.\nYou said: permission",
        "user: permission",
        "user: wait",
        "agent: Waiting until cancelled.",
        "user: again",
        "agent: You said: again",
    ];
    assert_eq!(words(&replay), expected);
    shell.editor.kill();
}
