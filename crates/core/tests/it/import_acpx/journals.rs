//! What becomes of journals: turns, lineage, secrets, torn and damaged lines, and records that have none.

use std::sync::Arc;

use acpx_core::model::{
    Direction, Entry, EventKind, Fact, MessageKind, PermissionCount, Seq, StopReason, TurnError, TurnId,
    TurnOutcome, TurnState,
};

use super::home::{conversation, shown_by_npm};
use super::*;
use crate::store_contract::samples::{all_events, server};

#[tokio::test]
async fn the_conversation_is_the_history_that_npm_acpx_shows() {
    let home = Home::with(&["full", "turns", "grown", "fallback"]);
    home.import().await;
    for record in [FULL, TURNS, KILLED, FALLBACK] {
        let shown = shown_by_npm(&home.sessions().join(format!("{record}.json")));
        assert_eq!(said(&home.store, record).await, shown, "{record}");
    }
}

#[tokio::test]
async fn every_turn_ends_as_npm_acpx_recorded() {
    let home = Home::with(&["turns"]);
    home.import().await;
    let mut outcomes = Vec::new();
    for number in 1..=6 {
        let turn = home.store.turn_numbered(id(TURNS), TurnId(number)).await.unwrap().unwrap();
        let TurnState::Ended { outcome, .. } = turn.state else { panic!("{turn:?}") };
        outcomes.push((turn.request.to_string(), outcome));
    }
    let stopped = |reason: &str| TurnOutcome::Stopped(StopReason::new(reason));
    let failed = |code: &str, message: &str, acp: Option<&str>| {
        TurnOutcome::Failed(TurnError { code: code.into(), message: message.into(), acp: acp.map(Arc::from) })
    };
    let refused =
        r#"{"code":-32603,"message":"Internal error","data":{"details":"the prompt asked for a failure"}}"#;
    let died = "ACP agent disconnected during request (connection_close, exit=null, signal=null)";
    let expected = [
        ("e2555caf-10a9-4d94-af38-781ae2279d4d", stopped("end_turn")),
        (
            "2efdcd97-026f-4d10-bf8a-aad5830dd439",
            failed("QUEUE_RUNTIME_PROMPT_FAILED", "Internal error", Some(refused)),
        ),
        ("87104f14-d235-4d35-ad8c-68a39833b521", stopped("refusal")),
        ("9b8ce5e9-e8e3-4e6e-a2f7-7a717cc3bbad", stopped("cancelled")),
        ("5641faed-cd56-4939-a715-23456d154b31", failed("AGENT_DISCONNECTED", died, None)),
        ("fbb1ab89-fe7e-49b4-849c-19869e0040d3", stopped("end_turn")),
    ];
    assert_eq!(outcomes, expected.map(|(request, outcome)| (request.to_owned(), outcome)));
    let record = home.record(TURNS).await;
    assert_eq!((record.last_turn, record.answered_turns), (Some(TurnId(6)), 3));
}

#[tokio::test]
async fn imported_events_are_stored_as_the_engine_stores_them() {
    let home = Home::with(&["full"]);
    home.import().await;
    let events = all_events(&home.store, &id(FULL), 100).await.unwrap();
    let shape: Vec<_> =
        events.iter().take(12).map(|event| (event.turn, event.direction, event.kind)).collect();
    let turn = Some(TurnId(1));
    let (ask, answer) =
        ((Direction::ToAgent, EventKind::Request), (Direction::FromAgent, EventKind::Response));
    let expected = [
        (None, ask.0, ask.1),
        (None, answer.0, answer.1),
        (None, ask.0, ask.1),
        (None, answer.0, answer.1),
        (None, ask.0, ask.1),
        (None, answer.0, answer.1),
        (turn, Direction::Ours, EventKind::Fact),
        (turn, ask.0, ask.1),
        (turn, Direction::FromAgent, EventKind::Update),
        (turn, answer.0, answer.1),
        (turn, Direction::Ours, EventKind::Fact),
        (Some(TurnId(2)), Direction::Ours, EventKind::Fact),
    ];
    assert_eq!(shape, expected);
    // The agent's question and our answer to it have the ids that our own requests had before.
    let asked: Vec<_> = events
        .iter()
        .skip_while(|event| !event.body.contains("session/request_permission"))
        .take(2)
        .map(|event| (event.direction, event.kind))
        .collect();
    assert_eq!(
        asked,
        [(Direction::FromAgent, EventKind::Request), (Direction::ToAgent, EventKind::Response)]
    );
    let second = home.store.turn_numbered(id(FULL), TurnId(2)).await.unwrap().unwrap();
    assert_eq!(second.permissions, PermissionCount { approved: 1, rejected: 0 });
    assert_eq!(&*second.prompt, r#"[{"type":"text","text":"think plan tool permission please"}]"#);
    // The journal has no times: the first event has the record's first, all others its last.
    let record = home.record(FULL).await;
    assert_eq!(events[0].at, record.created_at);
    assert!(events[1..].iter().all(|event| event.at == record.updated_at));
    assert_eq!(events.last().map(|event| event.seq), Some(Seq(events.len() as u64)));
}

#[tokio::test]
async fn secrets_of_a_journal_are_in_no_byte_of_the_store() {
    let home = Home::with(&["full"]);
    assert!(home.read(&format!("{FULL}.stream.ndjson")).contains("s3cret-header-value"));
    home.import().await;
    assert_eq!(home.record(FULL).await.mcp_servers, [server("files", None), server("web", None)]);
    let events = all_events(&home.store, &id(FULL), 100).await.unwrap();
    let setup = events.iter().find(|event| event.body.contains("session/new")).unwrap();
    let journal = home.read(&format!("{FULL}.stream.ndjson"));
    let line = journal.lines().find(|line| line.contains("session/new")).unwrap();
    let expected =
        line.replace("s3cret-env-value", "[secret]").replace("Bearer s3cret-header-value", "[secret]");
    assert_eq!(&*setup.body, expected);
    assert_no_byte_of_a_secret(home);
}

#[tokio::test]
async fn secrets_that_a_journal_repeats_are_in_no_turn_and_no_fact() {
    let home = Home::with(&["repeated"]);
    let report = home.import().await;
    assert_eq!((report.imported[0].turns, &*report.imported[0].notes), (3, &[][..]));
    assert_eq!(home.record("repeated").await.info.title.as_deref(), Some("why [secret] is refused"));
    let mut turns = Vec::new();
    for number in 1..=3 {
        let turn = home.store.turn_numbered(id("repeated"), TurnId(number)).await.unwrap().unwrap();
        let TurnState::Ended { outcome, .. } = turn.state else { panic!("{:?}", turn.state) };
        turns.push((turn.request.to_string(), turn.prompt.to_string(), outcome, turn.usage));
    }
    let text = |text: &str| format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    let failed = |code: &str, message: &str, acp: &str| {
        TurnOutcome::Failed(TurnError { code: code.into(), message: message.into(), acp: Some(acp.into()) })
    };
    let quoting = r#"{"code":-32603,"message":"401 for header [secret]","data":{"details":"{\"value\":\"[secret]\"}"}}"#;
    let refused = r#"{"code":-32603,"message":"401 for header [secret]"}"#;
    let told = format!("the agent refused session/prompt: {refused}");
    let stopped = TurnOutcome::Stopped(StopReason::new("[secret]"));
    let expected = [
        (
            "[secret]".to_owned(),
            text("is [secret] good?"),
            failed("HEADER [secret]", "401 for header [secret]", quoting),
            None,
        ),
        ("second".to_owned(), text("again"), failed("RUNTIME", &told, refused), None),
        ("third".to_owned(), text("once more"), stopped, Some(r#"{"model":"[secret]"}"#.into())),
    ];
    assert_eq!(turns, expected);
    let events = all_events(&home.store, &id("repeated"), 100).await.unwrap();
    let output = events.iter().find(|event| event.body.contains("truncated")).unwrap();
    assert!(output.body.contains(r"API_KEY=[secret]\nLANG=C.UTF-8"), "{}", output.body);
    let ended = events.iter().filter_map(|event| Fact::from_body(&event.body));
    let messages: Vec<String> = ended
        .filter_map(|fact| match fact {
            Fact::TurnEnded { error: Some(error), .. } => Some(error.message),
            _ => None,
        })
        .collect();
    assert_eq!(messages, ["401 for header [secret]", &told]);
    assert_no_byte_of_a_secret(home);
}

/// Looks at the bytes of the whole store.
fn assert_no_byte_of_a_secret(home: Home) {
    let path = home.store.path().to_owned();
    let sessions = home.sessions();
    drop(home.store);
    let bytes = std::fs::read(path).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"s3cret"), "{}", sessions.display());
}

#[tokio::test]
async fn interrupted_npm_turn_grows_into_its_later_npm_state() {
    let home = Home::with(&["killed"]);
    let report = home.import().await;
    assert_eq!((report.imported[0].turns, report.imported[0].events), (2, 15));
    let turn = home.store.turn_numbered(id(KILLED), TurnId(2)).await.unwrap().unwrap();
    assert!(matches!(turn.state, TurnState::Interrupted { .. }), "{turn:?}");
    assert_eq!(home.record(KILLED).await.answered_turns, 1);
    let before = all_events(&home.store, &id(KILLED), 100).await.unwrap();

    home.put("grown");
    assert!(home.has_news().await);
    let report = home.import().await;
    let grown = ImportedRecord {
        file: format!("{KILLED}.json"),
        record: id(KILLED),
        session: session("01a1e15a-7220-763f-92d0-7b943bbff494"),
        agent_session: None,
        turns: 1,
        events: 9,
        notes: Vec::new(),
    };
    assert_eq!(report, ImportReport { grown: vec![grown], ..ImportReport::default() });
    let after = all_events(&home.store, &id(KILLED), 100).await.unwrap();
    assert_eq!(after[..before.len()], before);
    let record = home.record(KILLED).await;
    let closed = Timestamp::parse("2026-11-15T22:36:12.915Z").unwrap();
    assert_eq!((record.answered_turns, record.lifecycle), (2, Lifecycle::Closed { at: closed }));

    // Taken at once, the record is the same: it does not matter when it was looked at.
    let other = Home::with(&["grown"]);
    other.import().await;
    let bodies = |events: Vec<acpx_core::model::Event>| {
        events.into_iter().map(|event| (event.seq, event.turn, event.body)).collect::<Vec<_>>()
    };
    assert_eq!(bodies(all_events(&other.store, &id(KILLED), 100).await.unwrap()), bodies(after));
}

#[tokio::test]
async fn a_fallback_of_npm_acpx_is_a_reset_and_a_lineage_row() {
    let home = Home::with(&["fallback"]);
    home.import().await;
    let record = home.record(FALLBACK).await;
    let row = |session: &str, from, to, reason| LineageRow {
        session: AcpSessionId::new(session).unwrap(),
        agent_session: AgentSessionId::from_agent(&format!("inner-{session}")),
        from,
        to,
        reason,
        error: None,
    };
    let (first, last) = (record.created_at, record.updated_at);
    let expected = [
        row("01a1e169-2fd0-7561-90da-30a69312289b", first, Some(last), LineageReason::Imported),
        row("01a1e169-4a73-74eb-89e9-ae773bbbc82b", last, None, LineageReason::LoadFailed),
    ];
    assert_eq!(record.lineage.rows(), expected);
    let conversation = conversation(&home.store, &id(FALLBACK)).await;
    // What the agent still knows begins with the reset.
    let since = conversation.entries().iter().skip_while(|entry| !matches!(entry, Entry::Reset { .. }));
    let known = since.filter_map(|entry| match entry {
        Entry::Message(message) if message.kind == MessageKind::User => Some(message.text.as_str()),
        _ => None,
    });
    assert_eq!(known.collect::<Vec<_>>(), ["tool three"]);
    // Both sessions have a tool call of the same id, and they stay two.
    let tools = conversation.entries().iter().filter(|entry| matches!(entry, Entry::Tool(_))).count();
    assert_eq!(tools, 2);
}

#[tokio::test]
async fn a_prompt_that_was_never_sent_is_a_failed_turn() {
    let home = Home::with(&["unsent"]);
    home.import().await;
    let turn = home.store.turn_numbered(id(UNSENT), TurnId(2)).await.unwrap().unwrap();
    let message = "ACP agent exited before initialize completed (exit=2, signal=null): error: not today";
    let outcome = TurnOutcome::Failed(TurnError {
        code: "AGENT_STARTUP_FAILED".into(),
        message: message.into(),
        acp: None,
    });
    let at = home.record(UNSENT).await.updated_at;
    assert_eq!((turn.state, &*turn.prompt), (TurnState::Ended { at, outcome }, "[]"));
    assert_eq!(home.record(UNSENT).await.answered_turns, 1);
}

#[tokio::test]
async fn torn_last_line_is_left_out_and_a_damaged_one_counted() {
    let home = Home::with(&["turns"]);
    let journal = format!("{TURNS}.stream.ndjson");
    let text = home.read(&journal);
    let torn = &text[..text.rfind("\n{").unwrap() + 40];
    let damaged = torn.replacen("\n{", "\nnot a line\n\u{0}\n{\"id\":7}\n{", 1);
    home.write(&journal, [damaged.as_bytes(), b"\xff"].concat());
    let report = home.import().await;
    let notes = [ImportNote::TornLine, ImportNote::DamagedLines { count: 3 }];
    assert_eq!((report.imported[0].turns, &*report.imported[0].notes), (6, &notes[..]));
    assert_eq!(home.record(TURNS).await.answered_turns, 3);

    // npm acpx puts the torn file aside, closes the turn that it was about, and goes on in a new file.
    let sessions = home.sessions();
    std::fs::rename(sessions.join(&journal), sessions.join(format!("{TURNS}.stream.1.ndjson"))).unwrap();
    let more = [
        r#"{"schema":"acpx.session.journal.v1","type":"segment","record_id":"r","sequence":1,"message_sequence":1,"request_id":"fbb1ab89-fe7e-49b4-849c-19869e0040d3"}"#,
        r#"{"schema":"acpx.session.journal.v1","type":"turn_result","request_id":"fbb1ab89-fe7e-49b4-849c-19869e0040d3","result":{"status":"failed","error":{"message":"m","detailCode":"WATCH_OUTCOME_UNKNOWN"}}}"#,
        r#"{"schema":"acpx.session.journal.v1","type":"turn_started","request_id":"next"}"#,
        r#"{"id":9,"method":"session/prompt","params":{"sessionId":"01a1e15a-1302-7300-8ca1-54a9a615f5ef","prompt":[{"type":"text","text":"more"}]}}"#,
        r#"{"schema":"acpx.session.journal.v1","type":"turn_result","request_id":"next","result":{"status":"completed","stopReason":"end_turn"}}"#,
    ];
    home.write(&journal, more.join("\n"));
    let report = home.import().await;
    assert_eq!((report.grown[0].turns, report.grown[0].events), (1, 3));
    assert_eq!(said(&home.store, TURNS).await.pop(), Some((MessageKind::User, "more".to_owned())));
}

#[tokio::test]
async fn rotated_segments_are_read_oldest_first() {
    let home = Home::with(&["turns"]);
    let text = home.read(&format!("{TURNS}.stream.ndjson"));
    let whole = Home::with(&["turns"]);
    whole.import().await;
    let lines: Vec<&str> = text.lines().collect();
    for (name, part) in ["stream.2", "stream.1", "stream"].iter().zip(lines.chunks(lines.len().div_ceil(3))) {
        // Every segment begins with an anchor, also within a turn.
        let anchor = r#"{"schema":"acpx.session.journal.v1","type":"segment","record_id":"x","sequence":9,"message_sequence":9,"request_id":"87104f14-d235-4d35-ad8c-68a39833b521"}"#;
        let anchor = if *name == "stream.2" { String::new() } else { format!("{anchor}\n") };
        home.write(&format!("{TURNS}.{name}.ndjson"), format!("{anchor}{}\n", part.join("\n")));
    }
    home.import().await;
    let events = all_events(&home.store, &id(TURNS), 100).await.unwrap();
    assert_eq!(events, all_events(&whole.store, &id(TURNS), 100).await.unwrap());
}

#[tokio::test]
async fn without_a_journal_the_messages_become_the_conversation() {
    let home = Home::with(&["turns"]);
    std::fs::remove_file(home.sessions().join(format!("{TURNS}.stream.ndjson"))).unwrap();
    let report = home.import().await;
    assert_eq!(report.imported[0].notes, [ImportNote::FromMessages]);
    let shown = shown_by_npm(&home.sessions().join(format!("{TURNS}.json")));
    assert_eq!(said(&home.store, TURNS).await, shown);
    // All but the one prompt that nothing was said after count as answered.
    assert_eq!(home.record(TURNS).await.answered_turns, 5);
    let turn = home.store.turn_numbered(id(TURNS), TurnId(2)).await.unwrap().unwrap();
    assert!(matches!(turn.state, TurnState::Interrupted { .. }), "{turn:?}");
    let last = all_events(&home.store, &id(TURNS), 100).await.unwrap().pop().unwrap();
    let fact = Fact::TurnEnded { turn: 6, stop_reason: Some("unknown".into()), error: None };
    assert_eq!(Fact::from_body(&last.body), Some(fact));
}

#[tokio::test]
async fn long_journal_is_imported_whole_in_batches() {
    let home = Home::with(&["full"]);
    let journal = format!("{FULL}.stream.ndjson");
    let text = home.read(&journal);
    let chunk = text.lines().find(|line| line.contains("agent_message_chunk")).unwrap();
    let (before, after) = text.split_once(chunk).unwrap();
    let long = chunk.replace("You said", &"x".repeat(4000));
    home.write(&journal, format!("{before}{}{after}", format!("{long}\n").repeat(2000)));
    let report = home.import().await;
    let events = all_events(&home.store, &id(FULL), 1000).await.unwrap();
    assert_eq!(report.imported[0].events, events.len() as u64);
    assert_eq!(events.iter().filter(|event| *event.body == *long).count(), 2000);
    assert_eq!(home.import().await, ImportReport { unchanged: 1, ..ImportReport::default() });
}
