//! A whole turn on a terminal, with colour and without it, and the same turn in a pipe.

use acpx_core::model::{Cost, SessionUsage};
use insta::assert_snapshot;
use serde_json::Number;

use super::*;
use crate::cli::ColorMode;

/// A turn with everything that a turn has.
fn turn_lines() -> Vec<(Direction, String)> {
    let run = r#"{"sessionUpdate":"tool_call","toolCallId":"a","title":"Run the tests","kind":"execute","status":"pending","rawInput":{"command":"cargo test"}}"#;
    let ran = r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","content":[{"type":"content","content":{"type":"text","text":"```console\nok \u001b[31mred\n```"}}]}"#;
    let edit = r#"{"sessionUpdate":"tool_call","toolCallId":"b","title":"Edit notes.txt","kind":"edit","status":"completed","content":[{"type":"diff","path":"notes.txt","oldText":"one\ntwo\n","newText":"one\n2\n"}]}"#;
    let plan = r#"{"sessionUpdate":"plan","entries":[{"content":"Read","status":"completed"},{"content":"Write","status":"in_progress"},{"content":"Rest","status":"pending"}]}"#;
    let ask = r#"{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"toolCall":{"toolCallId":"t","title":"Write file"},"options":[{"optionId":"no","name":"No","kind":"reject_once"}]}}"#;
    let no = r#"{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"selected","optionId":"no"}}}"#;
    let read =
        r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s2","path":"/w/a"}}"#;
    let denied = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no such file"}}"#;
    let usage = r#"{"sessionUpdate":"usage_update","used":24000,"size":200000,"cost":{"amount":0.3496,"currency":"USD"}}"#;
    vec![
        line(ToAgent, r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{}}"#),
        chunk("agent_thought_chunk", "let me\nthink"),
        chunk("agent_message_chunk", "I will look.\n"),
        update(run),
        update(ran),
        update(edit),
        update(plan),
        line(FromAgent, ask),
        line(ToAgent, no),
        line(FromAgent, read),
        line(ToAgent, denied),
        update(usage),
        chunk("agent_message_chunk", "All is well."),
    ]
}

fn result() -> PromptResult {
    let usage = r#"{"inputTokens":1234,"outputTokens":56,"totalTokens":1290}"#;
    PromptResult { usage: serde_json::from_str(usage).ok(), ..completed() }
}

/// What a terminal or a pipe gets; escape sequences are shown as `^[`.
fn turn_in(mode: OutputMode, result: &PromptResult) -> String {
    let (out, err) = written(mode, |console| {
        let mut view = TurnView::new(mode, Some(record().identity()));
        let cost = Cost { amount: Number::from_f64(0.34).unwrap(), currency: "USD".to_owned() };
        view.begin_with(Some(&SessionUsage { used: 0, size: 1, cost: Some(cost) }));
        for (seq, (direction, message)) in (1..).zip(&turn_lines()) {
            view.event(&event(seq, *direction, message), console).unwrap();
        }
        view.finish(result.clone(), console).unwrap();
    });
    format!("{out}stderr:\n{err}").replace('\u{1b}', "^[")
}

fn on_terminal(color: ColorMode) -> OutputMode {
    OutputMode { is_terminal: true, color, ..mode(Format::Text) }
}

#[test]
fn terminal_shows_a_turn_in_sentences() {
    assert_snapshot!(turn_in(on_terminal(ColorMode::Never), &result()), @r#"
    thinking: let me
      think
    I will look.

    • Run the tests
    ✓ Run the tests
      $ cargo test
      ok [31mred

    ✓ Edit notes.txt
      --- notes.txt
      +++ notes.txt
      @@ -1,2 +1,2 @@
       one
      -two
      +2

    Plan
      ✓ Read
      ▸ Write
      ○ Rest

    The agent asks for permission: Write file

    Answered No: Write file

    ✗ Read /w/a (failed)
      no such file

    All is well.

    done in 12 s · 1,234 tokens in, 56 out · this turn $0.0096 · session $0.35 · context 12 %
    stderr:
    "#);
}

#[test]
fn terminal_shows_a_turn_in_colour() {
    assert_snapshot!(turn_in(on_terminal(ColorMode::Always), &result()), @r#"
    ^[[2mthinking: let me^[[0m
    ^[[2m  think^[[0m
    I will look.

    ^[[2m• Run the tests^[[0m
    ^[[32m✓ ^[[0m^[[1mRun the tests^[[0m
    ^[[2m  $ cargo test^[[0m
    ^[[2m  ok [31mred^[[0m

    ^[[32m✓ ^[[0m^[[1mEdit notes.txt^[[0m
    ^[[2m  --- notes.txt^[[0m
    ^[[2m  +++ notes.txt^[[0m
    ^[[36m  @@ -1,2 +1,2 @@^[[0m
       one
    ^[[1m^[[31m  -two^[[0m
    ^[[32m  +2^[[0m

    ^[[1mPlan^[[0m
    ^[[32m  ✓ ^[[0mRead
    ^[[36m  ▸ ^[[0mWrite
    ^[[2m  ○ ^[[0mRest

    ^[[33mThe agent asks for permission: Write file^[[0m

    ^[[2mAnswered No: Write file^[[0m

    ^[[1m^[[31m✗ ^[[0m^[[1mRead /w/a (failed)^[[0m
    ^[[2m  no such file^[[0m

    All is well.

    ^[[2mdone in 12 s · 1,234 tokens in, 56 out · this turn $0.0096 · session $0.35 · context 12 %^[[0m
    stderr:
    "#);
}

#[test]
fn pipe_gets_a_turn_line_for_line_without_escape_sequences_of_acpx() {
    assert_snapshot!(turn_in(mode(Format::Text), &result()), @r#"
    [thinking] let me
               think
    I will look.

    [tool] Run the tests (pending)
      input: cargo test

    [tool] Run the tests (completed)
      kind: execute
      input: cargo test
      output:
        ```console
        ok ^[[31mred
        ```

    [tool] Edit notes.txt (completed)
      kind: edit
      output:
        diff notes.txt (line count unchanged)

    [plan]
      - [completed] Read
      - [in_progress] Write
      - [pending] Rest

    [client] session/request_permission (running)
      asks: Write file

    [permission] Write file: answered No

    [client] fs/read_text_file (running)
      files: /w/a

    [client] fs/read_text_file (failed)
      files: /w/a
      error: no such file
    All is well.

    [done] end_turn
    stderr:
    [acpx] tokens: input=1234 output=56 total=1290
    [acpx] cost: 0.0096 USD
    [acpx] context: 24000 of 200000 tokens
    [acpx] session cost: 0.3496 USD
    "#);
}

#[test]
fn terminal_shows_a_turn_error_on_stderr_unless_a_person_denied() {
    let denied = |hint: Option<&str>| {
        let mut result = completed();
        result.permissions = PermissionCount { approved: 0, rejected: 1 };
        let mut result = result.with_denial();
        result.error.as_mut().unwrap().hint = hint.map(str::to_owned);
        let shown = turn_in(on_terminal(ColorMode::Never), &result);
        (shown.split_once("stderr:\n").unwrap().1.to_owned(), result.exit())
    };
    assert_eq!(denied(None), (String::new(), CliExit::PermissionDenied));
    let words = "error: every permission that the agent asked for was denied\nhint: use --approve-all\n";
    assert_eq!(denied(Some("use --approve-all")), (words.to_owned(), CliExit::PermissionDenied));
}
