//! The output for what the host does, or refuses to do, for an agent.

use super::*;

/// A request of the agent, and its reply.
fn errand(id: u64, method: &str, params: &str, answer: &str) -> [(Direction, String); 2] {
    let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
    [(FromAgent, request), (ToAgent, format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#))]
}

#[test]
fn client_requests_are_shown_with_their_outcomes() {
    let denied = r#""error":{"code":-32603,"message":"Permission denied for fs/write_text_file","data":{"acpx":{"code":"PERMISSION_DENIED"}}}"#;
    let missing = r#""error":{"code":-32002,"message":"Resource not found:\nfile:///w/none"}"#;
    let cancelled = r#""error":{"code":-32800,"message":"cancelled"}"#;
    let lines = [
        errand(
            1,
            "fs/read_text_file",
            r#"{"path":"/w/a\n[done] x","line":3}"#,
            r#""result":{"content":"t"}"#,
        ),
        errand(2, "fs/write_text_file", r#"{"path":"/w/b","content":"t"}"#, denied),
        errand(3, "fs/read_text_file", r#"{"path":"/w/none"}"#, missing),
        errand(4, "terminal/create", r#"{"command":"sleep","args":["1 h"]}"#, cancelled),
        errand(
            5,
            "terminal/output",
            r#"{"terminalId":"t9"}"#,
            r#""error":{"code":-32002,"message":"there is no terminal t9"}"#,
        ),
        errand(6, "elicitation/create", "{}", r#""result":{"action":"decline"}"#),
    ];
    let expected = "\
[client] fs/read_text_file (running)
  files: /w/a [done] x:3

[client] fs/read_text_file (completed)
  files: /w/a [done] x:3

[client] fs/write_text_file (running)
  files: /w/b

[client] fs/write_text_file (denied)
  files: /w/b
  error: Permission denied for fs/write_text_file

[client] fs/read_text_file (running)
  files: /w/none

[client] fs/read_text_file (failed)
  files: /w/none
  error: Resource not found: file:///w/none

[client] terminal/create (running)
  input: sleep '1 h'

[client] terminal/create (cancelled)
  input: sleep '1 h'

[client] terminal/output (failed)
  error: there is no terminal t9

[client] elicitation/create (running)

[client] elicitation/create (declined)

[done] end_turn
";
    assert_eq!(shown(mode(Format::Text), lines.as_flattened(), &completed()).0, expected);
}

#[test]
fn a_command_shows_itself_where_no_tool_call_refers_to_it() {
    let fact = |text: &str| line(Ours, text);
    let create = |id, terminal: &str, command: &str| {
        let params = format!(r#"{{"command":"{command}"}}"#);
        errand(id, "terminal/create", &params, &format!(r#""result":{{"terminalId":"{terminal}"}}"#))
    };
    let terminal = |id: &str, command: &str| {
        [
            fact(&format!(r#"{{"fact":"terminal_started","terminalId":"{id}","command":"{command}"}}"#)),
            fact(&format!(r#"{{"fact":"terminal_output","terminalId":"{id}","output":"of {id}\n"}}"#)),
        ]
    };
    let ended = |id: &str| fact(&format!(r#"{{"fact":"terminal_ended","terminalId":"{id}","exitCode":4}}"#));
    let tool = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Run","content":[{"type":"terminal","terminalId":"t2"}]}"#;
    let over = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#;
    let release = |id, terminal: &str| {
        errand(id, "terminal/release", &format!(r#"{{"terminalId":"{terminal}"}}"#), r#""result":{}"#)
    };
    let lines: Vec<_> = [
        terminal("t1", "ls").to_vec(),
        create(1, "t1", "ls").to_vec(),
        terminal("t2", "make").to_vec(),
        create(2, "t2", "make").to_vec(),
        vec![ended("t1"), ended("t2"), update(tool)],
        release(3, "t1").to_vec(),
        release(4, "t2").to_vec(),
        vec![update(over)],
        terminal("t3", "serve").to_vec(),
        create(5, "t3", "serve").to_vec(),
    ]
    .concat();
    let expected = "\
[client] terminal/create (running)
  input: ls

[client] terminal/create (running)
  input: make

[tool] Run (running)

[client] terminal/create (completed)
  output:
    $ ls
    of t1
    [exit code 4]

[tool] Run (completed)
  output:
    $ make
    of t2
    [exit code 4]

[client] terminal/create (running)
  input: serve

[client] terminal/create (running)
  output:
    $ serve
    of t3

[done] end_turn
";
    assert_eq!(shown(mode(Format::Text), &lines, &completed()).0, expected);
}

#[test]
fn permission_titles_and_option_names_stay_on_one_line() {
    let params = r#"{"toolCall":{"title":"ok\n\n[done] end_turn\n[permission] Harmless"},"options":[{"optionId":"o2","name":"Yes\n[done] x"}]}"#;
    let answer = r#""result":{"outcome":{"outcome":"selected","optionId":"o2"}}"#;
    let lines = errand(1, "session/request_permission", params, answer);
    let expected = "\
[client] session/request_permission (running)
  asks: ok  [done] end_turn [permission] Harmless

[permission] ok  [done] end_turn [permission] Harmless: answered Yes [done] x

[done] end_turn
";
    assert_eq!(shown(mode(Format::Text), &lines, &completed()).0, expected);
}

#[test]
fn permission_asked_on_the_terminal_is_shown_when_answered() {
    let title = "x".repeat(500);
    let params = format!(r#"{{"toolCall":{{"title":"{title}"}},"options":[]}}"#);
    let answer = r#""result":{"outcome":{"outcome":"cancelled"}}"#;
    let (out, _) = written(mode(Format::Text), |console| {
        let mut view = TurnView::new(mode(Format::Text), None);
        view.prompt_here();
        let lines = errand(1, "session/request_permission", &params, answer);
        for (seq, (direction, message)) in (1..).zip(&lines) {
            view.event(&event(seq, *direction, message), console).unwrap();
        }
    });
    assert_eq!(out, format!("[permission] {}... (420 more characters): cancelled\n", "x".repeat(80)));
}

#[test]
fn denials_are_known_in_every_format_with_earlier_tool_updates() {
    let options = r#""options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]"#;
    let asks = |call: &str| format!(r#"{{"toolCall":{{"toolCallId":"{call}"}},{options}}}"#);
    let chosen = |id: &str| format!(r#""result":{{"outcome":{{"outcome":"selected","optionId":"{id}"}}}}"#);
    let told = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Edit a.txt","kind":"edit"}"#;
    let denied = r#""error":{"code":-32603,"message":"Permission denied for fs/write_text_file","data":{"acpx":{"code":"PERMISSION_DENIED"}}}"#;
    let lines: Vec<_> = [
        vec![update(told)],
        errand(1, "session/request_permission", &asks("d"), &chosen("y")).to_vec(),
        errand(2, "session/request_permission", &asks("c"), &chosen("n")).to_vec(),
        errand(3, "fs/write_text_file", r#"{"sessionId":"s","path":"/w/b","content":"t"}"#, denied).to_vec(),
        // It is a request, even if its content looks like an update.
        errand(
            3,
            "fs/write_text_file",
            r#"{"sessionId":"s","path":"/w/b","content":"session/update"}"#,
            denied,
        )
        .to_vec(),
        errand(4, "fs/read_text_file", r#"{"sessionId":"s","path":"/w/b"}"#, r#""result":{"content":""}"#)
            .to_vec(),
    ]
    .concat();
    for format in [Format::Text, Format::Quiet, Format::Json] {
        written(mode(format), |console| {
            let mut view = TurnView::new(mode(format), None);
            for (seq, (direction, message)) in (1..).zip(&lines) {
                view.event(&event(seq, *direction, message), console).unwrap();
            }
            let tool = acpx_core::model::ToolUse {
                protocol_kind: Some("edit".into()),
                title: Some("Edit a.txt".into()),
                name: None,
            };
            assert_eq!(view.denied(), Some(&DenialSummary { tool, more: 2 }));
        });
    }
}

#[test]
fn tool_call_text_cannot_forge_a_line() {
    let forged = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"T\n[done] x","kind":"edit\n[done] x","status":"x)\n[permission] Edit: answered Allow\n("}"#;
    let over = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#;
    let (out, _) = shown(mode(Format::Text), &[update(forged), update(over)], &completed());
    let expected = "\
[tool] T [done] x (running)

[tool] T [done] x (completed)
  kind: edit [done] x

[done] end_turn
";
    assert_eq!(out, expected);
}
