//! Converts journals with markers, without markers, with a missing beginning or end, and with arbitrary lines.

use proptest::prelude::*;

use super::*;

fn at() -> Timestamp {
    Timestamp::from_millis(1000).unwrap()
}

fn tell(lines: &[&str]) -> Vec<ImportStep> {
    let mut transcript = Transcript::new(at());
    for line in lines {
        transcript.convert_line(line).unwrap();
    }
    transcript.finish();
    transcript.drain().collect()
}

fn marker(fields: &str) -> String {
    format!(r#"{{"schema":"acpx.session.journal.v1",{fields}}}"#)
}

fn started(request: &str) -> String {
    marker(&format!(r#""type":"turn_started","request_id":"{request}""#))
}

fn result(request: &str, result: &str) -> String {
    marker(&format!(r#""type":"turn_result","request_id":"{request}","result":{result}"#))
}

const PROMPT: &str =
    r#"{"id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text"}]}}"#;
const STOPPED: &str = r#"{"id":3,"result":{"stopReason":"end_turn","usage":{"totalTokens":7}}}"#;
const UPDATE: &str = r#"{"method":"session/update","params":{}}"#;

/// The turns among the steps: request, prompt and state.
fn turns(steps: &[ImportStep]) -> Vec<(String, String, TurnState)> {
    let turn = |step: &ImportStep| match step {
        ImportStep::Turn(turn) => {
            Some((turn.request.to_string(), turn.prompt.to_string(), turn.state.clone()))
        }
        _ => None,
    };
    steps.iter().filter_map(turn).collect()
}

fn stopped(reason: &str) -> TurnState {
    TurnState::Ended { at: at(), outcome: TurnOutcome::Stopped(StopReason::new(reason)) }
}

#[test]
fn a_journal_without_markers_has_its_turns_from_prompts_and_answers() {
    let steps = tell(&[PROMPT, UPDATE, STOPPED, UPDATE, PROMPT, UPDATE]);
    let line = |turn: Option<u64>, direction, kind, body: &str| {
        ImportStep::Line(ImportEvent { turn: turn.map(TurnId), direction, kind, body: body.into() })
    };
    let fact = |turn, fact: Fact| line(Some(turn), Direction::Ours, EventKind::Fact, &fact.to_body());
    let begun = |turn, request: &str| {
        fact(turn, Fact::TurnStarted { turn, request_id: request.to_owned(), client: None })
    };
    let turn = |id, request: &str, state, usage: Option<&str>| {
        ImportStep::Turn(Box::new(Turn {
            id: TurnId(id),
            request: RequestId::new(request).unwrap(),
            prompt: r#"[{"type":"text"}]"#.into(),
            policy: PermissionPolicy::default(),
            wake_options: WakeOptions::default(),
            limits: TurnLimits::default(),
            queued_at: at(),
            state,
            usage: usage.map(Arc::from),
            cost: None,
            permissions: PermissionCount::default(),
        }))
    };
    let ended = Fact::TurnEnded { turn: 1, stop_reason: Some("end_turn".to_owned()), error: None };
    let message = "npm acpx kept no end of this turn; it is not sent again".to_owned();
    let error = Some(FactError { code: "INTERRUPTED".into(), message });
    let expected = [
        ImportStep::Session {
            session: AcpSessionId::new("s").unwrap(),
            inner: None,
            reason: LineageReason::NotMaterialised,
        },
        begun(1, "imported-1"),
        line(Some(1), Direction::ToAgent, EventKind::Request, PROMPT),
        line(Some(1), Direction::FromAgent, EventKind::Update, UPDATE),
        line(Some(1), Direction::FromAgent, EventKind::Response, STOPPED),
        turn(1, "imported-1", stopped("end_turn"), Some(r#"{"totalTokens":7}"#)),
        fact(1, ended),
        line(None, Direction::FromAgent, EventKind::Update, UPDATE),
        begun(2, "imported-2"),
        line(Some(2), Direction::ToAgent, EventKind::Request, PROMPT),
        line(Some(2), Direction::FromAgent, EventKind::Update, UPDATE),
        turn(2, "imported-2", TurnState::Interrupted { at: at() }, None),
        fact(2, Fact::TurnEnded { turn: 2, stop_reason: None, error }),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn answered_turn_without_marker_ends_with_its_response() {
    let unknown = r#"{"status":"failed","error":{"detailCode":"WATCH_OUTCOME_UNKNOWN"}}"#;
    let cut = tell(&[&started("q"), PROMPT, STOPPED]);
    assert_eq!(cut, tell(&[&started("q"), PROMPT, STOPPED, &result("q", unknown)]));
    assert_eq!(turns(&cut), [("q".to_owned(), r#"[{"type":"text"}]"#.to_owned(), stopped("end_turn"))]);
}

#[test]
fn a_prompt_that_is_sent_again_stays_in_its_turn() {
    let failed = r#"{"id":3,"error":{"code":-32603,"message":"x"}}"#;
    let end = result("q", r#"{"status":"completed","stopReason":"end_turn"}"#);
    let steps = tell(&[&started("q"), PROMPT, failed, PROMPT, STOPPED, &end]);
    assert_eq!(turns(&steps).len(), 1);
}

#[test]
fn journal_beginning_within_a_turn_imports_it_without_prompt() {
    let anchor = marker(r#""type":"segment","request_id":"q""#);
    let end = result("q", r#"{"status":"completed","stopReason":"max_tokens"}"#);
    let steps = tell(&[&anchor, UPDATE, &end]);
    assert_eq!(turns(&steps), [("q".to_owned(), "[]".to_owned(), stopped("max_tokens"))]);
}

#[test]
fn markers_that_contradict_each_other_lose_no_line_and_no_request_twice() {
    let end = result("q", r#"{"status":"cancelled"}"#);
    let mut transcript = Transcript::new(at());
    for line in [&*started("q"), PROMPT, &end] {
        assert_eq!(transcript.convert_line(line), Ok(()));
    }
    // The same turn cannot end twice, and a request id is not assigned twice.
    assert_eq!(transcript.convert_line(&end), Err(InvalidLine));
    for line in [&*started("q"), PROMPT, &*started("other"), &result("third", r#"{"status":"odd"}"#)] {
        assert_eq!(transcript.convert_line(line), Ok(()));
    }
    transcript.finish();
    let steps: Vec<ImportStep> = transcript.drain().collect();
    let inner_id: Vec<(String, bool)> = turns(&steps)
        .into_iter()
        .map(|(request, _, state)| (request, matches!(state, TurnState::Interrupted { .. })))
        .collect();
    let expected = [("q", false), ("imported-2", true), ("third", false)];
    assert_eq!(inner_id, expected.map(|(request, interrupted)| (request.to_owned(), interrupted)));
}

/// Lines that occur in every order.
fn any_line() -> impl Strategy<Value = String> {
    let request = prop::sample::select(vec!["a", "b", "c"]);
    let ends = prop::sample::select(vec![
        r#"{"status":"completed","stopReason":"end_turn"}"#,
        r#"{"status":"completed"}"#,
        r#"{"status":"cancelled"}"#,
        r#"{"status":"failed","error":{"message":"m"}}"#,
        r#"{"status":"failed","error":{"detailCode":"WATCH_OUTCOME_UNKNOWN"}}"#,
    ]);
    let session = prop::sample::select(vec!["s", "t"]);
    prop_oneof![
        request.clone().prop_map(started),
        (request.clone(), ends).prop_map(|(request, end)| result(request, end)),
        request.prop_map(|request| marker(&format!(r#""type":"segment","request_id":"{request}""#))),
        session.prop_map(|session| PROMPT.replace("\"s\"", &format!("\"{session}\""))),
        Just(STOPPED.to_owned()),
        Just(r#"{"id":3,"error":{"code":1}}"#.to_owned()),
        Just(UPDATE.to_owned()),
        Just(r#"{"id":3,"method":"session/request_permission","params":{"options":[]}}"#.to_owned()),
        Just(r#"{"id":3,"result":{"outcome":{"outcome":"cancelled"}}}"#.to_owned()),
        Just(r#"{"id":3,"method":"session/new","params":{"mcpServers":[{"name":"m"}]}}"#.to_owned()),
        Just(r#"{"id":3,"result":{"sessionId":"t"}}"#.to_owned()),
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn whatever_the_lines_turns_are_numbered_and_requests_are_unique(
        lines in prop::collection::vec(any_line(), 0..40),
    ) {
        let mut transcript = Transcript::new(at());
        for line in &lines {
            let _ = transcript.convert_line(line);
        }
        transcript.finish();
        let steps: Vec<ImportStep> = transcript.drain().collect();
        let inner_id = steps.iter().filter_map(|step| if let ImportStep::Turn(turn) = step { Some(turn) } else { None });
        let (ids, requests): (Vec<TurnId>, HashSet<RequestId>) =
            inner_id.map(|turn| (turn.id, turn.request.clone())).unzip();
        prop_assert_eq!(requests.len(), ids.len());
        prop_assert_eq!(ids, (1..=requests.len() as u64).map(TurnId).collect::<Vec<_>>());
    }

    #[test]
    fn a_longer_journal_begins_as_the_shorter_one_did(
        lines in prop::collection::vec(any_line(), 0..40),
        cut in 0..40_usize,
    ) {
        let inner_id = |lines: &[String]| {
            let mut transcript = Transcript::new(at());
            for line in lines {
                let _ = transcript.convert_line(line);
            }
            transcript.drain().collect::<Vec<_>>()
        };
        let shorter = inner_id(&lines[..cut.min(lines.len())]);
        prop_assert_eq!(&inner_id(&lines)[..shorter.len()], &shorter[..]);
    }
}
