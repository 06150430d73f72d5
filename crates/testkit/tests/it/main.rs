//! The scripted agent does what its script says, told by a client of bare pipes.

#![expect(clippy::unwrap_used, reason = "what is shared by tests fails like a test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use acpx_testkit::{
    Script, ScriptStep, TempHome, children_of, received_lines, scripted_agent_command, starts_of,
};
use serde_json::{Value, json};

struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Agent {
    fn start(command: &[String]) -> Self {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Ends stdin and gives the exit code and what stderr says.
    fn end(&mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let code = self.child.wait().unwrap().code();
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (code, text)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn said(session: &str, text: &str) -> Value {
    let update =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } })
}

fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

#[test]
fn script_is_played_step_by_step_and_received_messages_are_recorded() {
    let home = TempHome::new();
    let script = Script::new()
        .initialize(json!({ "loadSession": true }))
        .session_new("s1")
        .prompt(|turn| {
            turn.say("{prompt} one").ask_permission("t1").line(r#"{"echo":{answer}}"#).end("end_turn")
        })
        .refuse("session/close", json!({ "code": -32603, "message": "no", "data": "{sessionId}" }));
    let command = scripted_agent_command(&script, &home);
    let mut agent = Agent::start(&command);

    agent.request(&json!(1), "initialize", &json!({ "protocolVersion": 1 }));
    let initialized = json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } });
    assert_eq!(agent.next(), result(&json!(1), &initialized));
    agent.request(&json!("two"), "session/new", &json!({ "cwd": "/", "mcpServers": [] }));
    assert_eq!(agent.next(), result(&json!("two"), &json!({ "sessionId": "s1" })));

    let prompt = json!([{ "type": "text", "text": "number" }]);
    agent.request(&json!(3), "session/prompt", &json!({ "sessionId": "s1", "prompt": prompt }));
    assert_eq!(agent.next(), said("s1", "number one"));
    let asked = agent.next();
    assert_eq!(asked["method"], "session/request_permission");
    assert_eq!(asked["params"]["sessionId"], "s1");
    let answer = result(&asked["id"], &json!({ "outcome": { "outcome": "cancelled" } }));
    agent.send(&answer);
    assert_eq!(agent.next(), json!({ "echo": answer }));
    assert_eq!(agent.next(), result(&json!(3), &json!({ "stopReason": "end_turn" })));

    agent.request(&json!(4), "session/close", &json!({ "sessionId": "s1" }));
    let error = json!({ "code": -32603, "message": "no", "data": "s1" });
    assert_eq!(agent.next(), json!({ "jsonrpc": "2.0", "id": 4, "error": error }));
    assert_eq!(agent.end(), (Some(0), String::new()));
    let received = received_lines(&command);
    assert_eq!(received.len(), 5);
    assert_eq!(received[3], answer.to_string());
}

#[test]
fn an_unexpected_request_ends_the_script_with_its_reason() {
    let home = TempHome::new();
    let command = scripted_agent_command(&Script::new().expect("session/load"), &home);
    let mut agent = Agent::start(&command);
    agent.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel" }));
    agent.send(&json!({ "id": 1, "method": "session/new" }));
    let text = r#"scripted-agent: expected session/load, got {"id":1,"method":"session/new"}"#;
    assert_eq!(agent.end(), (Some(64), format!("{text}\n")));
}

#[test]
fn serving_answers_by_method_and_refuses_the_rest() {
    let home = TempHome::new();
    let script = Script::new().serve([
        ("a", Script::new().reply(json!({ "was": "a" }))),
        ("b", Script::new().reply(json!({ "was": "b" })).exit(9)),
    ]);
    let mut agent = Agent::start(&scripted_agent_command(&script, &home));
    for _ in 0..2 {
        agent.request(&json!(1), "a", &json!({}));
        assert_eq!(agent.next(), result(&json!(1), &json!({ "was": "a" })));
    }
    agent.request(&json!(2), "x", &json!({}));
    assert_eq!(agent.next()["error"]["code"], -32601);
    agent.request(&json!(3), "b", &json!({}));
    assert_eq!(agent.next(), result(&json!(3), &json!({ "was": "b" })));
    assert_eq!(agent.end().0, Some(9));
}

#[test]
fn each_start_has_its_own_steps_and_the_last_ones_stay() {
    let home = TempHome::new();
    let script = Script::new().exit(1).next_start().exit(2);
    let command = scripted_agent_command(&script, &home);
    let codes: Vec<_> = (0..3).map(|_| Agent::start(&command).end().0).collect();
    assert_eq!(codes, [Some(1), Some(2), Some(2)]);
    assert_eq!(starts_of(&command), 3);
}

#[test]
fn bytes_lines_and_floods_are_written_verbatim() {
    let home = TempHome::new();
    let script = Script::new()
        .expect_as("session/prompt", "turn")
        .bytes(b"\xff\x00 garbage\n")
        .flood(Some(3))
        .repeat(2, |steps| steps.line("again {sessionId}"))
        .stderr("to stderr")
        .reply_to("turn", json!({}))
        .bytes(b"half a li")
        .exit(0);
    let mut agent = Agent::start(&scripted_agent_command(&script, &home));
    agent.request(&json!(7), "session/prompt", &json!({ "sessionId": "s" }));
    let mut garbage = Vec::new();
    agent.stdout.read_until(b'\n', &mut garbage).unwrap();
    assert_eq!(garbage, b"\xff\x00 garbage\n");
    for _ in 0..3 {
        assert_eq!(agent.next(), said("s", "flood"));
    }
    assert_eq!([agent.line(), agent.line()], ["again s", "again s"]);
    assert_eq!(agent.next(), result(&json!(7), &json!({})));
    let mut rest = String::new();
    agent.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "half a li");
    assert_eq!(agent.end(), (Some(0), "to stderr\n".to_owned()));
}

#[test]
fn stdout_can_close_while_the_process_lives() {
    let home = TempHome::new();
    let gate = home.join("gate");
    let script =
        Script::new().line("last").step(ScriptStep::CloseStdout).line("lost").await_file(&gate).exit(3);
    let mut agent = Agent::start(&scripted_agent_command(&script, &home));
    assert_eq!(agent.line(), "last");
    let mut rest = String::new();
    agent.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(agent.child.try_wait().unwrap().is_none());
    std::fs::write(&gate, "").unwrap();
    assert_eq!(agent.end().0, Some(3));
}

#[test]
fn stubborn_agent_outlives_closed_stdin_and_sigterm() {
    let home = TempHome::new();
    let (ready, gate) = (home.join("ready"), home.join("gate"));
    let script = Script::new().touch(&ready).await_file(&gate).exit(5).ignoring_eof().ignoring_terminate();
    let mut agent = Agent::start(&scripted_agent_command(&script, &home));
    while !ready.exists() {
        std::thread::yield_now();
    }
    drop(agent.stdin.take());
    let terminate = Command::new("kill").args(["-TERM", &agent.child.id().to_string()]).status().unwrap();
    assert!(terminate.success());
    std::fs::write(&gate, "").unwrap();
    // Had the signal done its work, there would be no exit code at all.
    assert_eq!(agent.end().0, Some(5));
}

#[test]
fn a_child_outlives_its_agent() {
    let home = TempHome::new();
    let child = ScriptStep::Child { seconds: 60, holds_stdout: false, own_group: true };
    let command = scripted_agent_command(&Script::new().step(child).exit(0), &home);
    assert_eq!(Agent::start(&command).end().0, Some(0));
    let children = children_of(&command);
    assert_eq!(children.len(), 1);
    let ended = Command::new("kill").args(["-KILL", &children[0].to_string()]).status().unwrap();
    assert!(ended.success(), "the child was there to be killed");
}

#[test]
fn v2_agent_replays_only_on_request() {
    let home = TempHome::new();
    let script = Script::new().initialize_v2(json!({})).serve_v2("one", "hello");
    let mut agent = Agent::start(&scripted_agent_command(&script, &home));
    agent.request(&json!(0), "initialize", &json!({ "protocolVersion": 2 }));
    assert_eq!(agent.next()["result"]["capabilities"], json!({ "session": {} }));
    let kinds = |agent: &mut Agent, params: &Value| {
        agent.request(&json!(1), "session/resume", params);
        let mut kinds = Vec::new();
        loop {
            let message = agent.next();
            match message["params"]["update"]["sessionUpdate"].as_str() {
                Some(kind) => kinds.push(kind.to_owned()),
                None => return (kinds, message["result"].clone()),
            }
        }
    };
    let idle = vec!["state_update".to_owned()];
    let whole = ["user_message", "agent_message", "state_update"].map(str::to_owned).to_vec();
    let start = json!({ "sessionId": "s1", "replayFrom": { "type": "start" } });
    assert_eq!(kinds(&mut agent, &json!({ "sessionId": "s1" })), (idle.clone(), json!({})));
    assert_eq!(kinds(&mut agent, &start), (whole, json!({})));
    assert_eq!(kinds(&mut agent, &json!({ "sessionId": "s1", "replayFrom": null })), (idle, json!({})));
}
