//! A session as it is shown to whoever follows it.

use acpx_core::model::{ProtocolVersion, Seq, TurnId};

use super::*;
use crate::output::samples::{at, mode, record, written};

fn shown(format: Format) -> String {
    shown_as(mode(format))
}

fn shown_as(mode: Mode) -> String {
    let update = |kind: &str, text: &str| {
        let update = format!(r#"{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"{text}"}}}}"#);
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s2","update":{update}}}}}"#
        )
    };
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
    let (out, err) = written(mode, |console| {
        let mut view = FollowView::new(mode, record().identity());
        for (seq, (direction, message)) in (1..).zip(events) {
            let message = RawValue::from_string(message).unwrap();
            let turn = (2..7).contains(&seq).then_some(TurnId(1));
            let event = WatchedEvent {
                seq: Seq(seq),
                at: at(0),
                direction,
                turn,
                version: ProtocolVersion::V1,
                is_aside: false,
                message,
            };
            view.event(&event, console).unwrap();
        }
        view.finish(console).unwrap();
    });
    assert_eq!(err, "");
    out
}

#[test]
fn a_session_in_text_is_its_turns_with_what_was_asked_in_them() {
    let indent = " ".repeat("[user, turn 1] ".len());
    let expected = format!(
        "[user, turn 1] do\n{indent}it\n\nwell, done\n\n[done] end_turn\n\n[user] do\n       it\n\nhalf\n"
    );
    assert_eq!(shown(Format::Text), expected);
}

#[test]
fn a_session_for_those_who_want_to_know_what_is_done_has_the_requests_that_set_it_up() {
    let text = shown_as(Mode { verbose: true, ..mode(Format::Text) });
    assert_eq!(text, format!("[client] initialize (running)\n\n{}", shown(Format::Text)));
}

#[test]
fn a_session_for_those_who_want_the_words_alone_has_a_line_for_each_turn() {
    assert_eq!(shown(Format::Quiet), "well, done\nhalf\n");
}

#[test]
fn a_session_in_json_is_every_event_with_whose_it_is() {
    let out = shown(Format::Json);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 8);
    let expected = r#"{"action":"event","acpxRecordId":"r1","acpxSessionId":"s2","seq":2,"at":"2023-11-14T22:13:20.000Z","direction":"ours","turn":1,"message":{"fact":"turn_started","turn":1,"requestId":"q"}}"#;
    assert_eq!(lines[1], expected);
    assert!(lines.last().is_some_and(|line| !line.contains(r#""turn""#)), "{out}");
}
