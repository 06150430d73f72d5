//! Tests of the view that follows a session.

use acpx_core::model::{ProtocolVersion, Seq, TurnId};

use super::*;
use crate::output::tests::samples::{at, mode, record, turn, written};

fn shown(format: Format) -> String {
    shown_as(mode(format))
}

/// A message chunk, with an id if given.
fn chunk(kind: &str, id: Option<&str>, text: &str) -> String {
    let id = id.map(|id| format!(r#""messageId":"{id}","#)).unwrap_or_default();
    let update = format!(r#"{{"sessionUpdate":"{kind}",{id}"content":{{"type":"text","text":{text:?}}}}}"#);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s2","update":{update}}}}}"#
    )
}

fn update(kind: &str, text: &str) -> String {
    chunk(kind, None, text)
}

fn shown_as(mode: OutputMode) -> String {
    let prompt = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"do\nit"}]}}"#;
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    let events = [
        (Direction::ToAgent, initialize.to_owned()),
        (Direction::Ours, r#"{"fact":"turn_started","turn":1,"requestId":"q"}"#.to_owned()),
        (Direction::ToAgent, prompt.to_owned()),
        (Direction::FromAgent, update("agent_message_chunk", "well, ")),
        (Direction::FromAgent, update("agent_message_chunk", "done")),
        (Direction::Ours, r#"{"fact":"turn_ended","turn":1,"stopReason":"end_turn"}"#.to_owned()),
        (Direction::ToAgent, prompt.to_owned()),
        (Direction::FromAgent, update("agent_message_chunk", "half")),
    ];
    let of_turn = |seq| (2..7).contains(&seq).then_some(TurnId(1));
    followed(mode, (1..).zip(events).map(|(seq, (direction, line))| (direction, of_turn(seq), line)))
}

fn event(seq: u64, direction: Direction, turn: Option<TurnId>, message: String) -> WatchedEvent {
    let message = RawValue::from_string(message).unwrap();
    let version = ProtocolVersion::V1;
    WatchedEvent {
        seq: Seq(seq),
        at: at(0),
        direction,
        turn,
        version,
        is_outside_conversation: false,
        message,
    }
}

/// The output for these events.
fn followed(
    mode: OutputMode,
    events: impl IntoIterator<Item = (Direction, Option<TurnId>, String)>,
) -> String {
    let (out, err) = written(mode, |console| {
        let mut view = FollowView::new(mode, record().identity());
        for (seq, (direction, turn, message)) in (1..).zip(events) {
            view.event(&event(seq, direction, turn, message), console).unwrap();
        }
        view.finish(console).unwrap();
    });
    assert_eq!(err, "");
    out
}

#[test]
fn followed_session_in_text_is_its_turns_with_prompts() {
    let indent = " ".repeat("[user, turn 1] ".len());
    let expected = format!(
        "[user, turn 1] do\n{indent}it\n\nwell, done\n\n[done] end_turn\n\n[user] do\n       it\n\nhalf\n"
    );
    assert_eq!(shown(Format::Text), expected);
}

#[test]
fn prompt_label_names_the_client_on_one_line() {
    let asked = |turn: u64, client: &str, words: &str| {
        let started = format!(r#"{{"fact":"turn_started","turn":{turn},"requestId":"q"{client}}}"#);
        let prompt = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{{"prompt":[{{"type":"text","text":"{words}"}}]}}}}"#
        );
        [(Direction::Ours, Some(TurnId(turn)), started), (Direction::ToAgent, Some(TurnId(turn)), prompt)]
    };
    let long = format!(r#","client":{{"name":"{}"}}"#, "z".repeat(100));
    let events = [
        asked(1, r#","client":{"name":"Zed","version":"1"}"#, r"a\nb"),
        asked(2, "", "c"),
        asked(3, r#","client":{"name":"Zed] ok\n[user, turn 9"}"#, "d"),
        asked(4, r#","client":{"name":" "}"#, "e"),
        asked(5, &long, "f"),
    ];
    let indent = " ".repeat("[user, turn 1, Zed] ".len());
    let expected = format!(
        "[user, turn 1, Zed] a\n{indent}b\n\n[user, turn 2] c\n\n[user, turn 3, Zed) ok (user, turn 9] d\n\n\
         [user, turn 4] e\n\n[user, turn 5, {}…] f\n",
        "z".repeat(40)
    );
    assert_eq!(followed(mode(Format::Text), events.into_iter().flatten()), expected);
}

#[test]
fn unsent_prompt_is_labelled_with_its_client() {
    let (out, _) = written(mode(Format::Text), |console| {
        let mut view = FollowView::new(mode(Format::Text), record().identity());
        let line = r#"{"fact":"turn_started","turn":1,"requestId":"q","client":{"name":"Zed"}}"#;
        view.event(&event(1, Direction::Ours, Some(TurnId(1)), line.to_owned()), console).unwrap();
        let prompt = r#"[{"type":"text","text":"do it"}]"#.into();
        let unsent = Turn { prompt, ..turn(1, acpx_core::model::TurnState::Queued) };
        view.unsent(&unsent, console).unwrap();
    });
    assert_eq!(out, "[user, turn 1, Zed] do it\n");
}

#[test]
fn verbose_followed_session_has_the_setup_requests() {
    let text = shown_as(OutputMode { verbose: true, ..mode(Format::Text) });
    assert_eq!(text, format!("[client] initialize (running)\n\n{}", shown(Format::Text)));
}

#[test]
fn quiet_followed_session_has_a_line_for_each_turn() {
    assert_eq!(shown(Format::Quiet), "well, done\nhalf\n");
}

/// A session that was not begun here, as an agent replays it: it has no prompt of ours.
fn adopted(format: Format) -> String {
    let told = [
        update("user_message_chunk", "What is A?\n"),
        update("user_message_chunk", "And why?\n"),
        update("agent_message_chunk", "A is "),
        update("agent_message_chunk", "one."),
        update("user_message_chunk", "What is B?"),
        chunk("agent_message_chunk", Some("m1"), "B is two."),
        chunk("agent_message_chunk", Some("m2"), "Or three.\n"),
        chunk("user_message_chunk", Some("m3"), "And C?"),
        chunk("user_message_chunk", Some("m4"), "And D?"),
    ];
    let told = told.map(|line| (Direction::FromAgent, None, line));
    let echo = (Direction::FromAgent, Some(TurnId(1)), update("user_message_chunk", "an echo"));
    followed(mode(format), told.into_iter().chain([echo]))
}

#[test]
fn adopted_session_in_text_has_a_paragraph_for_each_message() {
    let expected = "\
[user] What is A?
       And why?

A is one.

[user] What is B?

B is two.

Or three.

[user] And C?

[user] And D?
";
    assert_eq!(adopted(Format::Text), expected);
}

#[test]
fn quiet_adopted_session_has_a_line_for_each_message() {
    assert_eq!(adopted(Format::Quiet), "A is one.\nB is two.\nOr three.\n");
}

#[test]
fn a_session_in_json_is_every_event_with_whose_it_is() {
    let out = shown(Format::Json);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 8);
    let expected = r#"{"action":"event","acpxRecordId":"r1","acpxSessionId":"s2","seq":2,"cursor":"seq:3","at":"2023-11-14T22:13:20.000Z","direction":"ours","turn":1,"message":{"fact":"turn_started","turn":1,"requestId":"q"}}"#;
    assert_eq!(lines[1], expected);
    assert!(lines.last().is_some_and(|line| !line.contains(r#""turn""#)), "{out}");
}
