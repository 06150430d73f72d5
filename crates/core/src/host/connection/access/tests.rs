//! Fields that a remote client may not set are dropped, in every spelling.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::host::session::set_config::{KNOWN, only_known};
use crate::protocol::meta::{AgentMeta, ClientMeta, PolicyMeta, ShellMeta, TurnTermsMeta};

/// The `_meta` of a remote client after restriction.
fn heard<T: RestrictedMeta>(meta: &str) -> Option<T> {
    let mut said: T = read_meta(Some(meta)).ok()?;
    said.leave_out(&RemoteClientMeta {
        client: ClientMeta { idle_ms: Some(60), ..ClientMeta::default() },
        ..RemoteClientMeta::default()
    });
    Some(said)
}

/// Whether no forbidden field is left.
fn is_harmless(meta: &str) -> bool {
    let is_plain = |start: &StartMeta| {
        start.environment.is_empty()
            && start.variables.is_empty()
            && start.mcp_source.is_none()
            && start.idle_ms.is_none_or(|idle| (1..=60).contains(&idle))
    };
    heard::<NewMeta>(meta).is_none_or(|new| {
        (&new.agent, &new.shell) == (&None::<AgentMeta>, &None::<ShellMeta>) && is_plain(&new.start)
    }) && heard::<RestoreMeta>(meta).is_none_or(|restore| restore.agent.is_none() && is_plain(&restore.start))
        && heard::<PromptMeta>(meta).is_none_or(|prompt| prompt.terms.policy != Some(PolicyMeta::ApproveAll))
}

#[test]
fn what_only_a_client_here_may_say_is_left_out_and_the_rest_is_heard() {
    let meta = json!({ "acpx": {
        "agent": { "argv": ["sh"] }, "shell": { "name": "x" }, "environment": [["PATH", "/tmp"]],
        "variables": { "served": [["PATH", "/tmp"]] },
        "mcpSource": "/etc/passwd", "idleMs": 0, "withSeq": true, "withoutUpdates": true,
    }});
    let new: NewMeta = heard(&meta.to_string()).unwrap();
    let start =
        StartMeta { idle_ms: Some(60), with_seq: true, without_updates: true, ..StartMeta::default() };
    assert_eq!(new, NewMeta { start, ..NewMeta::default() });
    let policy = |policy: &str| {
        let meta = json!({ "acpx": { "requestId": "r", "policy": policy } });
        heard::<PromptMeta>(&meta.to_string()).unwrap()
    };
    let named = PromptMeta { request_id: Some("r".to_owned()), ..PromptMeta::default() };
    let denying = TurnTermsMeta { policy: Some(PolicyMeta::DenyAll), ..TurnTermsMeta::default() };
    assert_eq!(policy("approve-all"), named);
    assert_eq!(policy("deny-all"), PromptMeta { terms: denying, ..named });
}

#[test]
fn nobody_elsewhere_has_an_agent_take_longer_to_start_than_it_may() {
    let seconds = Duration::from_secs;
    let agent = |time| AgentSpec::new("a", [""; 0]).with_start_timeout(seconds(time));
    assert_eq!(no_longer_than(&agent(5), seconds(3)), seconds(3));
    assert_eq!(no_longer_than(&agent(5), seconds(9)), seconds(5));
    let unsaid = AgentSpec::new("a", [""; 0]);
    assert_eq!(no_longer_than(&unsaid, Duration::MAX), AgentSpec::DEFAULT_START_TIMEOUT);
}

#[test]
fn of_two_idle_times_the_shorter_one_holds() {
    let cases = [
        ((0, None), 0),
        ((0, Some(0)), 0),
        ((0, Some(7)), 7),
        ((9, Some(7)), 7),
        ((3, Some(7)), 3),
        ((3, Some(0)), 3),
    ];
    for ((wanted, served), expected) in cases {
        assert_eq!(shorter(wanted, served), expected, "{wanted} {served:?}");
    }
}

#[test]
fn one_who_is_elsewhere_has_so_many_sessions_and_each_of_them_once() {
    let shares = SessionQuota::default();
    let record = |number: usize| RecordId::new(format!("r{number}")).unwrap();
    for number in 0..MOST_SESSIONS {
        assert_eq!(shares.take("me", &[], None), QuotaOutcome::Now);
        shares.give_back("me", Some(record(number)));
    }
    assert_eq!(shares.take("me", &[], None), QuotaOutcome::Not);
    assert_eq!(shares.take("me", &[], Some(&record(7))), QuotaOutcome::Already);
    assert_eq!(shares.take("another", &[], None), QuotaOutcome::Now);
    assert_eq!(shares.take("me", &[record(7)], Some(&record(7))), QuotaOutcome::Now);
    assert_eq!(shares.take("me", &[], None), QuotaOutcome::Not);
    shares.give_back("me", None);
    assert_eq!(shares.of("me").len(), MOST_SESSIONS - 1);
    shares.give_back("another", None);
    assert_eq!(shares.0.lock().len(), 1);
}

/// Member names in different spellings, including relevant and invalid ones.
fn name() -> impl Strategy<Value = String> {
    let known = [
        "acpx",
        "agent",
        "environment",
        "variables",
        "mcpSource",
        "shell",
        "policy",
        "idleMs",
        "argv",
        "later",
        "_meta",
        "modeId",
        "value",
    ];
    prop_oneof![
        4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => proptest::sample::select(known.to_vec()).prop_map(|name| format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..])),
        1 => proptest::sample::select(vec![r"\ud800", r"\udfff", r"\u0000", "", r"\uD83D\ude00"]).prop_map(str::to_owned),
    ]
}

/// Values, including dangerous ones.
fn value() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        r#"{"argv":["sh"]}"#,
        r#"[["PATH","/tmp"]]"#,
        r#"{"served":[["PATH","/tmp"]]}"#,
        r#""/etc/x""#,
        r#"{"name":"x"}"#,
        r#""approve-all""#,
        r#""approve\u002dall""#,
        "0",
        "5",
        "999999999",
        "true",
        "null",
        r#""\ud800""#,
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(3, 24, 6, |inner| proptest::collection::vec((name(), inner), 0..6).prop_map(object))
}

fn object(members: Vec<(String, String)>) -> String {
    let members: Vec<_> = members.into_iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    format!("{{{}}}", members.join(","))
}

proptest! {
    #[test]
    fn nothing_forbidden_passes_whatever_names_stand_beside_it(
        ours in proptest::collection::vec((name(), value()), 0..6),
        beside in proptest::collection::vec((name(), value()), 0..6),
    ) {
        let mut members = beside;
        // Params forwarded outside a turn contain only known members.
        if let Ok(passed) = only_known(&object(members.clone())) {
            let passed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&passed).unwrap();
            prop_assert!(passed.keys().all(|name| KNOWN.contains(&name.as_str())), "{:?}", passed);
        }
        members.push(("acpx".to_owned(), object(ours)));
        let meta = object(members);
        prop_assert!(is_harmless(&meta), "{}", meta);
    }
}
