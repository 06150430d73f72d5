//! The output of whole turns, from the lines exchanged with an agent.

use acpx_core::model::{
    AcpSessionId, Money, PermissionCount, ProtocolVersion, RequestId, Seq, StopReason, TurnError, TurnId,
    TurnOutcome, TurnState,
};

use super::*;
use crate::error::CliExit;
use crate::output::OutputMode;
use crate::output::tests::samples::{at, mode, record, turn, written};

use Direction::{FromAgent, Ours, ToAgent};

mod terminal;
mod tool_io;

fn event(seq: u64, direction: Direction, message: &str) -> WatchedEvent {
    let message = serde_json::value::RawValue::from_string(message.to_owned()).unwrap();
    WatchedEvent {
        seq: Seq(seq),
        at: at(0),
        direction,
        turn: Some(TurnId(1)),
        version: ProtocolVersion::V1,
        is_outside_conversation: false,
        message,
    }
}

fn update(update: &str) -> (Direction, String) {
    (
        FromAgent,
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s2","update":{update}}}}}"#
        ),
    )
}

fn chunk(kind: &str, text: &str) -> (Direction, String) {
    update(&format!(r#"{{"sessionUpdate":"{kind}","content":{{"type":"text","text":{text:?}}}}}"#))
}

fn line(direction: Direction, text: &str) -> (Direction, String) {
    (direction, text.to_owned())
}

fn completed() -> PromptResult {
    let state = TurnState::Ended { at: at(53), outcome: TurnOutcome::Stopped(StopReason::new("end_turn")) };
    PromptResult::of_turn(record().identity().into(), &turn(1, state))
}

/// The output of a turn on stdout and on stderr.
fn shown(mode: OutputMode, lines: &[(Direction, String)], result: &PromptResult) -> (String, String) {
    written(mode, |console| {
        let mut view = TurnView::new(mode, Some(record().identity()));
        for (seq, (direction, message)) in (1..).zip(lines) {
            view.event(&event(seq, *direction, message), console).unwrap();
        }
        view.finish(result.clone(), console).unwrap();
    })
}

#[test]
fn a_turn_in_text_is_sections_and_the_agents_words() {
    let lines = [
        line(ToAgent, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#),
        line(FromAgent, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#),
        line(ToAgent, r#"{"jsonrpc":"2.0","id":1,"method":"session/load","params":{}}"#),
        line(Ours, r#"{"fact":"turn_started","turn":1,"requestId":"q"}"#),
        line(ToAgent, r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{}}"#),
        chunk("agent_thought_chunk", "let me\n"),
        chunk("agent_thought_chunk", "think"),
        chunk("user_message_chunk", "an echo"),
        chunk("agent_message_chunk", "hello "),
        chunk("agent_message_chunk", "world"),
        update(r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#),
        update(
            r#"{"sessionUpdate":"plan","entries":[{"content":"Read","status":"completed","priority":"high"},{"content":"Write","status":"pending"}]}"#,
        ),
        chunk("agent_message_chunk", "and more\n"),
        line(
            FromAgent,
            r#"{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"toolCall":{"toolCallId":"t","title":"Write file"},"options":[{"optionId":"reject","name":"No, not now","kind":"reject_once"}]}}"#,
        ),
        line(
            ToAgent,
            r#"{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"selected","optionId":"reject"}}}"#,
        ),
        update(
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","uri":"file:///a","name":"a"}}"#,
        ),
        line(FromAgent, r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#),
        line(Ours, r#"{"fact":"turn_ended","turn":1,"stopReason":"end_turn"}"#),
    ];
    let expected = "\
[thinking] let me
           think
hello world

[plan]
  - [completed] Read
  - [pending] Write
and more

[client] session/request_permission (running)
  asks: Write file

[permission] Write file: answered No, not now
[resource_link file:///a]

[done] end_turn
";
    let used = "[acpx] context: 1 of 2 tokens\n".to_owned();
    assert_eq!(shown(mode(Format::Text), &lines, &completed()), (expected.to_owned(), used));
    // Only verbose output shows how the session was set up.
    let set_up = "[client] initialize (running)\n\n[client] session/load (running)\n\n";
    let verbose = OutputMode { verbose: true, ..mode(Format::Text) };
    assert_eq!(shown(verbose, &lines, &completed()).0, format!("{set_up}{expected}"));
}

#[test]
fn tool_call_is_shown_when_first_seen_and_when_ended() {
    let many: Vec<String> = (1..=7).map(|n| format!(r#"{{"path":"/x/{n}"}}"#)).collect();
    let long: Vec<String> = (1..=30).map(|n| format!("line {n}")).collect();
    let lines = [
        update(
            r#"{"sessionUpdate":"tool_call","toolCallId":"a","title":"Read README.md","kind":"read","rawInput":{"path":"/x/README.md"},"locations":[{"path":"/x/README.md","line":3}]}"#,
        ),
        update(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"in_progress","title":null}"#,
        ),
        update(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","content":[{"type":"content","content":{"type":"text","text":"file contents here"}}]}"#,
        ),
        update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"}"#),
        update(
            r#"{"sessionUpdate":"tool_call","toolCallId":"b","title":"Edit a.txt","kind":"edit","status":"completed","content":[{"type":"diff","path":"/x/a.txt","oldText":"1\n2","newText":"3\n4\n5"},{"type":"diff","path":"/x/b.txt","oldText":"1","newText":"2"},{"type":"terminal","terminalId":"t1"}]}"#,
        ),
        update(
            r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Run\nit","status":"in_progress","rawInput":{"command":["ls","-l"],"args":["/"]}}"#,
        ),
        update(&format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed","locations":[{}],"rawOutput":{:?}}}"#,
            many.join(","),
            long.join("\n")
        )),
        update(r#"{"sessionUpdate":"tool_call","toolCallId":"d","rawInput":{"depth":2}}"#),
    ];
    let output = (1..=28).map(|n| format!("    line {n}\n")).collect::<Vec<_>>().concat();
    let expected = format!(
        "\
[tool] Read README.md (running)
  input: /x/README.md
  files: /x/README.md:3

[tool] Read README.md (completed)
  kind: read
  input: /x/README.md
  files: /x/README.md:3
  output:
    file contents here

[tool] Edit a.txt (completed)
  kind: edit
  output:
    diff /x/a.txt (+1 lines)
    diff /x/b.txt (line count unchanged)
    [terminal] t1

[tool] Run it (running)
  input: ls -l /

[tool] Run it (failed)
  input: ls -l /
  files: /x/1, /x/2, /x/3, /x/4, /x/5, +2 more
  output:
{output}    ... (2 more lines)

[tool] d (running)
  input: {{\"depth\":2}}

[done] end_turn
"
    );
    assert_eq!(shown(mode(Format::Text), &lines, &completed()), (expected, String::new()));
}

#[test]
fn json_turn_is_the_exact_lines_and_then_the_result() {
    let odd = r#"{"jsonrpc":"2.0" ,"method":"session/update","params":{"n":1e3,"n":2}}"#;
    let lines = [
        line(Ours, r#"{"fact":"turn_started","turn":1,"requestId":"q"}"#),
        line(ToAgent, r#"{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{}}"#),
        line(FromAgent, odd),
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_message_chunk", "all "),
        chunk("user_message_chunk", "an echo"),
        chunk("agent_message_chunk", "done\n"),
        line(Ours, r#"{"fact":"turn_ended","turn":1,"stopReason":"end_turn"}"#),
    ];
    let result = PromptResult {
        usage: serde_json::from_str(r#"{"inputTokens":1, "outputTokens":2}"#).unwrap(),
        permissions: PermissionCount { approved: 1, rejected: 2 },
        ..completed()
    };
    let expected = format!(
        "{}\n{odd}\n{}\n{}\n{}\n{}\n{}\n",
        lines[1].1,
        lines[3].1,
        lines[4].1,
        lines[5].1,
        lines[6].1,
        r#"{"action":"prompt_result","acpxRecordId":"r1","acpxSessionId":"s2","requestId":"q1","status":"completed","stopReason":"end_turn","text":"all done\n","usage":{"inputTokens":1, "outputTokens":2},"durationMs":12000,"permissions":{"approved":1,"rejected":2}}"#
    );
    assert_eq!(shown(mode(Format::Json), &lines, &result), (expected, String::new()));
}

#[test]
fn exec_result_has_no_record_id_and_no_unknown_members() {
    let ids = ResultIds { session: Some(AcpSessionId::new("s").unwrap()), ..ResultIds::default() };
    let request = RequestId::new("q").unwrap();
    let result = PromptResult::new(ids, request.clone(), TurnStatus::Completed);
    let line = serde_json::to_string(&result).unwrap();
    assert_eq!(
        line,
        r#"{"action":"prompt_result","acpxSessionId":"s","requestId":"q","status":"completed"}"#
    );
    let unborn = PromptResult::new(ResultIds::default(), request, TurnStatus::Interrupted);
    let line = serde_json::to_string(&unborn).unwrap();
    assert_eq!(line, r#"{"action":"prompt_result","requestId":"q","status":"interrupted"}"#);
}

#[test]
fn session_reset_is_reported_in_every_format_unless_nothing_was_lost() {
    let reset = |announced: bool| {
        [line(
            Ours,
            &format!(
                r#"{{"fact":"session_reset","reason":"agent-lost","fromAcpxSessionId":"s2","acpxSessionId":"s3","agentSessionId":"i3","announced":{announced}}}"#
            ),
        )]
    };
    let said = "[acpx] the agent could not restore the session (agent-lost); this is a fresh one, which does not remember what came before\n";
    for format in [Format::Text, Format::Quiet, Format::Json] {
        assert_eq!(shown(mode(format), &reset(true), &completed()).1, said, "{format:?}");
        assert_eq!(shown(mode(format), &reset(false), &completed()).1, "", "{format:?}");
    }
    let strict = OutputMode { format: Format::Json, strict: true, ..OutputMode::default() };
    let (out, err) = shown(strict, &reset(true), &completed());
    let first = r#"{"action":"session_reset","acpxRecordId":"r1","acpxSessionId":"s3","agentSessionId":"i3","fromAcpxSessionId":"s2","reason":"agent-lost","announced":true}"#;
    assert_eq!((out.lines().next(), err.as_str()), (Some(first), ""));
}

#[test]
fn session_reset_with_carried_history_says_so() {
    for (carried, words) in [
        ("whole", "gets the earlier conversation with this prompt"),
        (
            "last-part",
            "gets the earlier conversation with this prompt, without the beginning, which is too long",
        ),
    ] {
        let reset = [line(
            Ours,
            &format!(
                r#"{{"fact":"session_reset","reason":"agent-lost","fromAcpxSessionId":"s2","acpxSessionId":"s3","announced":true,"carried":"{carried}"}}"#
            ),
        )];
        let said = format!(
            "[acpx] the agent could not restore the session (agent-lost); this is a fresh one, which {words}\n"
        );
        assert_eq!(shown(mode(Format::Text), &reset, &completed()).1, said);
        let (out, _) = shown(mode(Format::Json), &reset, &completed());
        assert!(out.contains(&format!(r#""announced":true,"carried":"{carried}"}}"#)), "{out}");
    }
}

#[test]
fn servers_that_are_left_out_are_named() {
    let lines = [line(Ours, r#"{"fact":"mcp_servers_left_out","names":["a","b"]}"#)];
    let said = "[acpx] left out, since their values are not known any more: the MCP servers a, b\n";
    assert_eq!(shown(mode(Format::Quiet), &lines, &completed()), ("\n".to_owned(), said.to_owned()));
    let (out, err) = shown(mode(Format::Json), &lines, &completed());
    let first =
        r#"{"action":"mcp_servers_left_out","acpxRecordId":"r1","acpxSessionId":"s2","names":["a","b"]}"#;
    assert_eq!((out.lines().next(), err.as_str()), (Some(first), said));
    let lines = [line(Ours, r#"{"fact":"mcp_servers_left_out","names":["a"],"reason":"cannot read f"}"#)];
    let (out, err) = shown(mode(Format::Json), &lines, &completed());
    let first = r#"{"action":"mcp_servers_left_out","acpxRecordId":"r1","acpxSessionId":"s2","names":["a"],"reason":"cannot read f"}"#;
    let said =
        "[acpx] left out, since their values are not known any more (cannot read f): the MCP servers a\n";
    assert_eq!((out.lines().next(), err.as_str()), (Some(first), said));
}

#[test]
fn verbose_turn_reports_setup_and_restore() {
    let lines = [
        line(Ours, r#"{"fact":"restored","by":"session/load"}"#),
        line(Ours, r#"{"fact":"turn_started","turn":3,"requestId":"q"}"#),
        line(Ours, r#"{"fact":"agent_ended","how":"exit code 0"}"#),
        line(Ours, r#"{"fact":"from_the_future"}"#),
    ];
    let said = "\
[acpx] the session is restored by session/load
[acpx] turn 3 is sent (request q)
[acpx] the agent ended: exit code 0
";
    let verbose = OutputMode { format: Format::Text, verbose: true, ..OutputMode::default() };
    let done = "[done] end_turn\n".to_owned();
    assert_eq!(shown(verbose, &lines, &completed()), (done.clone(), said.to_owned()));
    assert_eq!(shown(mode(Format::Text), &lines, &completed()), (done, String::new()));
}

#[test]
fn quiet_turn_is_the_answer_and_usage_goes_to_stderr() {
    let lines = [
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_message_chunk", "hello "),
        line(ToAgent, r#"{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{}}"#),
        chunk("agent_message_chunk", "world"),
    ];
    let usage = r#"{"inputTokens":10,"outputTokens":5,"totalTokens":15,"cachedReadTokens":2,"other":{}}"#;
    let result = PromptResult { usage: serde_json::from_str(usage).unwrap(), ..completed() };
    assert_eq!(
        shown(mode(Format::Quiet), &lines, &result),
        ("hello world\n".to_owned(), "[acpx] tokens: input=10 output=5 total=15 cache_read=2\n".to_owned())
    );
}

#[test]
fn usage_and_cost_of_the_turn_go_to_stderr() {
    let told = |members: &str| {
        let update = format!(r#"{{"sessionUpdate":"usage_update","size":100,{members}}}"#);
        let params = format!(r#"{{"sessionId":"s2","update":{update}}}"#);
        line(FromAgent, &format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#))
    };
    let cost = r#""used":5,"cost":{"amount":0.25,"currency":"USD\n[done] forged"}"#;
    let lines = [chunk("agent_message_chunk", "hello"), told(cost), told(r#""used":7"#)];
    let usage = r#"{"inputTokens":10,"outputTokens":5}"#;
    let result = PromptResult { usage: serde_json::from_str(usage).unwrap(), ..completed() };
    let tokens = "[acpx] tokens: input=10 output=5\n";
    let session = "[acpx] context: 7 of 100 tokens\n[acpx] session cost: 0.25 USD [done] forged\n";
    // What the session had cost before the turn is not known.
    let (out, err) = shown(mode(Format::Text), &lines, &result);
    assert_eq!((out.as_str(), err), ("hello\n\n[done] end_turn\n", format!("{tokens}{session}")));
    let stored = PromptResult { cost: Money::of(0.1, "USD\n[done] forged"), ..result };
    let cost = "[acpx] cost: 0.10 USD [done] forged\n";
    assert_eq!(shown(mode(Format::Text), &lines, &stored).1, format!("{tokens}{cost}{session}"));
    assert_eq!(shown(mode(Format::Quiet), &lines, &stored).1, format!("{tokens}{cost}"));
    assert_eq!(shown(mode(Format::Json), &lines, &stored).1, "");
}

#[test]
fn turn_denied_every_permission_is_done_with_an_error() {
    let denied = PermissionCount { approved: 0, rejected: 1 };
    let result = PromptResult { permissions: denied, ..completed() }.with_denial();
    let message = "every permission that the agent asked for was denied";
    let text = format!("[done] end_turn\n[error] PERMISSION_DENIED: {message}\n");
    assert_eq!(shown(mode(Format::Text), &[], &result), (text, String::new()));
    let said = format!("[acpx] error: PERMISSION_DENIED {message}\n");
    assert_eq!(shown(mode(Format::Quiet), &[], &result), ("\n".to_owned(), said));
    let json: serde_json::Value = serde_json::from_str(&shown(mode(Format::Json), &[], &result).0).unwrap();
    let error = serde_json::json!({"code": -32071, "message": message, "data": {
        "acpxCode": "PERMISSION_DENIED", "detailCode": "PERMISSION_DENIED", "origin": "runtime",
        "retryable": false, "acpxRecordId": "r1", "acpxSessionId": "s2"}});
    assert_eq!((&json["status"], &json["error"]), (&"completed".into(), &error));
}

#[test]
fn failed_turn_shows_its_error_and_hint() {
    let acp = r#"{"code":-32603,"message":"boom"}"#;
    let mut error = ErrorReport::of_turn("AGENT_DIED".into(), "the agent died".to_owned(), Some(acp));
    error.hint = Some("prompt again".to_owned());
    let failed =
        PromptResult { status: TurnStatus::Failed, stop_reason: None, error: Some(error), ..completed() };
    let lines = [chunk("agent_message_chunk", "half")];
    assert_eq!(
        shown(mode(Format::Text), &lines, &failed).0,
        "half\n\n[error] AGENT_DIED: the agent died\nhint: prompt again\n"
    );
    let words = ErrorReport::of_turn("AGENT_ERROR".into(), "no\n[done] end_turn".to_owned(), None);
    let hostile = PromptResult { error: Some(words), ..failed.clone() };
    assert_eq!(shown(mode(Format::Text), &[], &hostile).0, "[error] AGENT_ERROR: no [done] end_turn\n");
    assert_eq!(
        shown(mode(Format::Quiet), &[], &failed),
        (
            String::new(),
            "[acpx] error: RUNTIME [AGENT_DIED] the agent died\n[acpx] hint: prompt again\n".to_owned()
        )
    );
    let json = shown(mode(Format::Json), &[], &failed).0;
    // The error comes first, as npm acpx writes it, with the agent's own code.
    let error = concat!(
        r#"{"code":-32603,"message":"the agent died","data":{"acpxCode":"RUNTIME","detailCode":"AGENT_DIED","#,
        r#""origin":"acp","retryable":true,"hint":"prompt again","acpxRecordId":"r1","acpxSessionId":"s2","#,
        r#""acp":{"code":-32603,"message":"boom"}}}"#,
    );
    let expected = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{error}}}\n{},\"error\":{error},\"durationMs\":12000}}\n",
        r#"{"action":"prompt_result","acpxRecordId":"r1","acpxSessionId":"s2","requestId":"q1","status":"failed""#
    );
    assert_eq!(json, expected);
    // An error that was shown with the agent's reply is not repeated.
    let answer = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"boom"}}"#;
    let json = shown(mode(Format::Json), &[line(FromAgent, answer)], &failed).0;
    let lines: Vec<&str> = json.lines().collect();
    assert_eq!((lines[0], lines.len()), (answer, 2), "{json}");
}

#[test]
fn the_exit_code_is_of_this_turn_alone() {
    let ended = |outcome| TurnState::Ended { at: at(1), outcome };
    let failed = |code: &str| {
        ended(TurnOutcome::Failed(TurnError { code: code.into(), message: "m".into(), acp: None }))
    };
    let stopped = |reason: &str| ended(TurnOutcome::Stopped(StopReason::new(reason)));
    let (none, denied, mixed) = ((0, 0), (0, 2), (1, 2));
    let cases = [
        (stopped("end_turn"), none, TurnStatus::Completed, CliExit::Success),
        (stopped("refusal"), none, TurnStatus::Completed, CliExit::Success),
        (stopped("end_turn"), denied, TurnStatus::Completed, CliExit::PermissionDenied),
        (stopped("end_turn"), mixed, TurnStatus::Completed, CliExit::Success),
        (stopped("cancelled"), none, TurnStatus::Cancelled, CliExit::Success),
        (stopped("cancelled"), mixed, TurnStatus::Cancelled, CliExit::Success),
        (stopped("cancelled"), denied, TurnStatus::Cancelled, CliExit::PermissionDenied),
        (failed("AGENT_DIED"), none, TurnStatus::Failed, CliExit::Failure),
        (failed("TIMEOUT"), none, TurnStatus::Failed, CliExit::Timeout),
        (failed("CONTENT_UNSUPPORTED"), none, TurnStatus::Failed, CliExit::Usage),
        (TurnState::Interrupted { at: at(1) }, none, TurnStatus::Interrupted, CliExit::Failure),
    ];
    for (state, (approved, rejected), status, exit) in cases {
        let kept = acpx_core::model::Turn {
            permissions: PermissionCount { approved, rejected },
            ..turn(1, state.clone())
        };
        let result = PromptResult::of_turn(ResultIds::default(), &kept).with_denial();
        assert_eq!((result.status, result.exit()), (status, exit), "{state:?}");
    }
}

#[test]
fn no_line_of_an_agent_makes_a_view_panic() {
    let odd = [
        "null",
        "[]",
        "7",
        "{}",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"method":7}"#,
        r#"{"jsonrpc":"2.0","method":"session/update"}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
    ];
    let updates = [
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","locations":7,"content":[7,{"type":"diff"}],"status":"completed","rawInput":[]}"#,
        r#"{"sessionUpdate":"plan","entries":[7,{}]}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":7}"#,
        r#"{"sessionUpdate":"from_the_future"}"#,
    ];
    for format in [Format::Text, Format::Quiet, Format::Json] {
        let mut lines: Vec<_> = updates.iter().map(|fields| update(fields)).collect();
        for direction in [FromAgent, ToAgent, Ours] {
            lines.extend(odd.iter().map(|text| line(direction, text)));
        }
        shown(mode(format), &lines, &completed());
    }
}
