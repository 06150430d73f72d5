use acpx_core::model::{Direction, EventKind, LineageIndex};

use super::*;
use crate::output::tests::samples::{at, formats, mode, record, written};

fn last(count: usize) -> HistoryPart {
    HistoryPart::Last(NonZeroUsize::new(count).unwrap())
}

/// An event of a turn, one second after the previous one.
fn event(seq: u64, turn: u64, direction: Direction, kind: EventKind, body: &str) -> Event {
    Event {
        seq: Seq(seq),
        at: at(i64::try_from(seq).unwrap()),
        turn: Some(TurnId(turn)),
        lineage: LineageIndex::FIRST,
        protocol: 1,
        direction,
        kind,
        body: body.into(),
    }
}

/// A conversation of two turns, one event per second.
fn said() -> History {
    let update = |update: &str| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        );
        (Direction::FromAgent, EventKind::Update, line)
    };
    let chunk = |kind: &str, text: &str| {
        update(&format!(r#"{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"{text}"}}}}"#))
    };
    let prompt = |text: &str| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        (Direction::ToAgent, EventKind::Request, line)
    };
    let events = [
        (1, prompt("first\\nline")),
        (1, chunk("agent_thought_chunk", "let me  think")),
        (1, chunk("agent_message_chunk", "hello ")),
        (1, chunk("agent_message_chunk", "world")),
        (1, update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read a.txt"}"#)),
        (1, update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}"#)),
        (2, prompt("second")),
        (2, update(r#"{"sessionUpdate":"tool_call","toolCallId":"u","kind":"search"}"#)),
    ];
    let mut history = History::of(record().id, Seq::FIRST);
    for (index, (turn, (direction, kind, body))) in events.into_iter().enumerate() {
        let seq = u64::try_from(index).unwrap() + 1;
        history.apply(&event(seq, turn, direction, kind, &body));
    }
    history
}

#[test]
fn history_entry_has_the_time_of_its_first_event() {
    let identity = record().identity();
    let [text, quiet, json] = formats(|console| history(&identity, &said(), last(20), console).unwrap());
    let expected = "\
session: r1 (4/4 shown)
2023-11-14T22:13:21.000Z\tuser\tfirst line
2023-11-14T22:13:22.000Z\tassistant\tlet me think hello world [tool:Read a.txt]
2023-11-14T22:13:27.000Z\tuser\tsecond
2023-11-14T22:13:28.000Z\tassistant\t[tool:search]
";
    assert_eq!(text, expected);
    assert_eq!(quiet, "first line\nlet me think hello world [tool:Read a.txt]\nsecond\n[tool:search]\n");
    let beginning = concat!(
        r#"{"acpxRecordId":"r1","acpxSessionId":"s2","limit":20,"count":4,"total":4,"entries":["#,
        r#"{"role":"user","timestamp":"2023-11-14T22:13:21.000Z","textPreview":"first line","turn":1},"#,
    );
    assert!(json.starts_with(beginning), "{json}");
}

#[test]
fn turn_that_ended_early_is_marked_after_its_text() {
    let told = |end: &str| {
        let mut history = said();
        let body = format!(r#"{{"fact":"turn_ended","turn":2,{end}}}"#);
        history.apply(&event(9, 2, Direction::Ours, EventKind::Fact, &body));
        history.entries(last(1)).0[0].text_preview.clone()
    };
    let failed = |code: &str| told(&format!(r#""error":{{"code":"{code}","message":"m"}}"#));
    let ends = [
        told(r#""stopReason":"end_turn""#),
        told(r#""stopReason":"cancelled""#),
        failed("INTERRUPTED"),
        failed("AGENT_DIED"),
    ];
    let expected = ["[tool:search]", "[tool:search] [cancelled]", "[tool:search] [interrupted]"];
    assert_eq!(
        (&ends[..3], &*ends[3]),
        (&expected.map(str::to_owned)[..], "[tool:search] [failed: AGENT_DIED]")
    );
    // A turn queued behind it was never sent, and ended before it.
    let mut waited = said();
    let ended = |seq: u64, turn: u64| {
        let body = format!(r#"{{"fact":"turn_ended","turn":{turn},"stopReason":"cancelled"}}"#);
        event(seq, turn, Direction::Ours, EventKind::Fact, &body)
    };
    waited.apply(&ended(9, 3));
    waited.apply(&ended(10, 2));
    waited.unsent.insert(TurnId(3), (at(8), "third".to_owned()));
    let texts: Vec<String> = waited.entries(last(2)).0.into_iter().map(|entry| entry.text_preview).collect();
    assert_eq!(texts, ["[tool:search] [cancelled]", "[not sent] third"]);
    // Its host was killed, and no other host has ended it since.
    let mut left = said();
    left.add_interrupted(TurnId(2), at(8));
    assert_eq!(left.entries(last(1)).0[0].text_preview, "[tool:search] [interrupted]");
}

#[test]
fn the_last_entries_are_shown_and_counted_among_all() {
    let identity = record().identity();
    let (text, more) =
        written(mode(Format::Text), |console| history(&identity, &said(), last(1), console).unwrap());
    assert_eq!(text, "session: r1 (1/4 shown)\n2023-11-14T22:13:28.000Z\tassistant\t[tool:search]\n");
    assert_eq!(more, "[acpx] --limit 4 shows all of it\n");
    // How many entries come before the events that were read is not known.
    let cut = History { is_whole: false, ..said() };
    let (text, more) =
        written(mode(Format::Text), |console| history(&identity, &cut, last(1), console).unwrap());
    assert_eq!(text, "session: r1 (last 1 shown)\n2023-11-14T22:13:28.000Z\tassistant\t[tool:search]\n");
    assert_eq!(more, "[acpx] --limit 5 shows more\n");
    let empty = formats(|console| {
        history(&identity, &History::of(record().id, Seq::FIRST), last(5), console).unwrap();
    });
    let json = r#"{"acpxRecordId":"r1","acpxSessionId":"s2","limit":5,"count":0,"total":0,"entries":[]}"#;
    assert_eq!(empty, ["No history\n".to_owned(), String::new(), format!("{json}\n")]);
}

#[test]
fn truncated_history_entry_is_marked() {
    let whole = "x".repeat(PREVIEW_CHARS);
    let cases = [
        (whole.clone(), (whole.clone(), false)),
        (format!("  {whole}\n"), (whole.clone(), false)),
        (format!("{whole}y"), (format!("{whole}…"), true)),
        // Text that is cut before its blanks are folded counts as cut.
        (format!("a{}b", " ".repeat(PREVIEW_CHARS * 3)), ("a…".to_owned(), true)),
    ];
    for (text, expected) in cases {
        assert_eq!(EntryText::of(&text, last(5)).shown(last(5)), expected);
    }
    let mut entries = LastEntries { last: VecDeque::new(), part: last(5), total: 0 };
    for text in [whole.as_str(), "more", "and more"] {
        entries.add(Role::Assistant, Some(TurnId(1)), at(1), text);
    }
    let json = serde_json::to_value(&entries.last).unwrap();
    let entry = serde_json::json!({"role": "assistant", "timestamp": at(1), "textPreview": format!("{whole}…"),
        "truncated": true, "turn": 1});
    assert_eq!(json, serde_json::json!([entry]));
    let mut entries =
        LastEntries { last: VecDeque::new(), part: HistoryPart::Whole { tail: None }, total: 0 };
    for text in [whole.as_str(), "and\nmore"] {
        entries.add(Role::Assistant, Some(TurnId(1)), at(1), text);
    }
    assert_eq!(entries.last[0].text_preview, format!("{whole}\nand\nmore"));
}

#[test]
fn tool_call_shows_the_output_of_its_terminal() {
    let mut history = History::of(record().id, Seq::FIRST);
    let call = concat!(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","#,
        r#""toolCallId":"t","title":"Run","content":[{"type":"terminal","terminalId":"u"}]}}}"#,
    );
    let long = "x".repeat(TERMINAL_CHARS);
    let events = [
        (
            Direction::Ours,
            EventKind::Fact,
            r#"{"fact":"terminal_started","terminalId":"u","command":"ls -l"}"#.to_owned(),
        ),
        (Direction::FromAgent, EventKind::Update, call.to_owned()),
        (
            Direction::Ours,
            EventKind::Fact,
            r#"{"fact":"terminal_output","terminalId":"u","output":"begin\n"}"#.to_owned(),
        ),
        (
            Direction::Ours,
            EventKind::Fact,
            format!(r#"{{"fact":"terminal_output","terminalId":"u","output":"{long}"}}"#),
        ),
        (
            Direction::Ours,
            EventKind::Fact,
            r#"{"fact":"terminal_ended","terminalId":"u","exitCode":3}"#.to_owned(),
        ),
    ];
    for (seq, (direction, kind, body)) in (1..).zip(events) {
        history.apply(&event(seq, 1, direction, kind, &body));
    }
    let (shown, _) = history.entries(last(1));
    assert_eq!(shown[0].text_preview, format!("[tool:Run] $ ls -l … {long} [exit code 3]"));
}

#[test]
fn client_requests_are_in_their_turns_entry_and_commands_once() {
    let request = |id: u64, method: &str, params: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        (Direction::FromAgent, EventKind::Request, line)
    };
    let answer = |id: u64, answer: &str| {
        (Direction::ToAgent, EventKind::Response, format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#))
    };
    let update = |update: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{update}}}}}"#);
        (Direction::FromAgent, EventKind::Update, line)
    };
    let say = |text: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
        ))
    };
    let fact = |text: &str| (Direction::Ours, EventKind::Fact, text.to_owned());
    let events = [
        say("first"),
        request(1, "fs/write_text_file", r#"{"path":"/w/a","content":"x"}"#),
        answer(1, r#""result":{}"#),
        update(
            r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run","content":[{"type":"terminal","terminalId":"u"}]}"#,
        ),
        request(2, "fs/write_text_file", r#"{"path":"/w/b","content":"x"}"#),
        answer(
            2,
            r#""error":{"code":-32603,"message":"Permission denied for fs/write_text_file","data":{"acpx":{"code":"PERMISSION_DENIED"}}}"#,
        ),
        fact(r#"{"fact":"terminal_started","terminalId":"u","command":"make"}"#),
        request(3, "terminal/create", r#"{"command":"make"}"#),
        answer(3, r#""result":{"terminalId":"u"}"#),
        fact(r#"{"fact":"terminal_started","terminalId":"v","command":"ls -l"}"#),
        request(4, "terminal/create", r#"{"command":"ls","args":["-l"]}"#),
        answer(4, r#""result":{"terminalId":"v"}"#),
        fact(r#"{"fact":"terminal_output","terminalId":"v","output":"total 0"}"#),
        fact(r#"{"fact":"terminal_ended","terminalId":"v","exitCode":0}"#),
        request(5, "terminal/wait_for_exit", r#"{"terminalId":"v"}"#),
        answer(5, r#""result":{"exitCode":0}"#),
        request(6, "fs/read_text_file", r#"{"path":"/w/c"}"#),
    ];
    let mut history = History::of(record().id, Seq::FIRST);
    for (seq, (direction, kind, body)) in (1..).zip(events) {
        history.apply(&event(seq, 1, direction, kind, &body));
    }
    let (shown, total) = history.entries(last(9));
    let expected = "first [client:fs/write_text_file] /w/a [tool:Run] $ make \
        [client:fs/write_text_file (denied)] /w/b: Permission denied for fs/write_text_file \
        [client:terminal/create] $ ls -l total 0 [exit code 0] [client:fs/read_text_file (not answered)] /w/c";
    assert_eq!((shown[0].text_preview.as_str(), total), (expected, Some(1)));
}

#[test]
fn open_request_is_not_answered_by_a_reply_to_the_next_process() {
    let request = |method: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"path":"/w/a"}}}}"#);
        (Direction::FromAgent, EventKind::Request, line)
    };
    let answered = || {
        let line = r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#;
        (Direction::ToAgent, EventKind::Response, line.to_owned())
    };
    let fact = |fact: &str| (Direction::Ours, EventKind::Fact, fact.to_owned());
    let shown = |between: Vec<(Direction, EventKind, String)>| {
        let mut history = History::of(record().id, Seq::FIRST);
        let events = [vec![request("fs/write_text_file")], between, vec![answered()]].concat();
        for (seq, (direction, kind, body)) in (1..).zip(events) {
            history.apply(&Event {
                seq: Seq(seq),
                at: at(1),
                turn: None,
                lineage: LineageIndex::FIRST,
                protocol: 1,
                direction,
                kind,
                body: body.into(),
            });
        }
        history.entries(last(9)).0.into_iter().next().map(|entry| entry.text_preview)
    };
    let open = Some("[client:fs/write_text_file (not answered)] /w/a".to_owned());
    for ended in [
        r#"{"fact":"agent_ended","how":"signal 9"}"#,
        r#"{"fact":"restored","by":"session/load"}"#,
        r#"{"fact":"session_reset","reason":"agent-lost","fromAcpxSessionId":"s","acpxSessionId":"t","announced":true}"#,
        r#"{"fact":"turn_ended","turn":1,"error":{"code":"INTERRUPTED","message":"its host went away"}}"#,
    ] {
        assert_eq!(shown(vec![fact(ended)]), open, "{ended}");
    }
    // Any request with the same id replaces the previous one.
    assert_eq!(shown(vec![request("session/request_permission")]), open);
    // A reply to the same process may arrive after the end of its turn.
    let turn_ended = fact(r#"{"fact":"turn_ended","turn":1,"stopReason":"end_turn"}"#);
    assert_eq!(shown(vec![turn_ended]).as_deref(), Some("[client:fs/write_text_file] /w/a"));
}

#[test]
fn oldest_of_many_open_requests_loses_its_outcome() {
    let mut history = History::of(record().id, Seq::FIRST);
    let line = |id: u64, rest: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#);
    for id in 1..=65 {
        let wanted = format!(r#""method":"fs/write_text_file","params":{{"path":"/{id}"}}"#);
        history.apply(&event(id, id, Direction::FromAgent, EventKind::Request, &line(id, &wanted)));
    }
    for id in 1..=64 {
        let body = line(id, r#""result":{}"#);
        history.apply(&event(65 + id, id, Direction::ToAgent, EventKind::Response, &body));
    }
    let told: Vec<String> = history.entries(last(99)).0.into_iter().map(|entry| entry.text_preview).collect();
    let done = (2..=64).map(|id| format!("[client:fs/write_text_file] /{id}"));
    let expected: Vec<String> = std::iter::once("[client:fs/write_text_file (asked for)] /1".to_owned())
        .chain(done)
        .chain(std::iter::once("[client:fs/write_text_file (not answered)] /65".to_owned()))
        .collect();
    assert_eq!(told, expected);
}
