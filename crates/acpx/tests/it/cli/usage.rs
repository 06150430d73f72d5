//! What turns use, from the agent's report to the command that sums it, and limits that stop a turn.

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::Place;

/// An update with the size of the context and the total cost of the session.
fn reported(used: u64, amount: f64, currency: &str) -> Value {
    json!({ "sessionUpdate": "usage_update", "used": used, "size": 1000,
        "cost": { "amount": amount, "currency": currency } })
}

fn answer(total: u64) -> Value {
    json!({ "stopReason": "end_turn", "usage": { "inputTokens": total - 2, "outputTokens": 2, "totalTokens": total } })
}

/// A turn that costs this much in total, and waits to be cancelled if it is over a limit.
fn begun(script: Script) -> Script {
    script.initialize(json!({})).session_new("s1")
}

#[test]
fn usage_sums_reported_tokens_and_derived_costs() {
    let place = Place::new();
    let script = begun(Script::new())
        .prompt(|turn| turn.update(reported(10, 0.25, "USD")).reply(answer(12)))
        .prompt(|turn| {
            turn.update(reported(20, 0.35, "USD")).update(reported(30, 0.5, "USD")).reply(answer(30))
        })
        .prompt(|turn| turn.say("nothing reported").end("end_turn"));
    place.scripted(&script);
    assert_eq!(place.acpx(&["usage"]).out, "");
    place.ok(&["scripted", "sessions", "new", "-s", "roof"]);
    let used = |words: &str| {
        let err = place.acpx(&["scripted", "-s", "roof", words]).err;
        let (session, used) = err.split_once('\n').unwrap();
        assert!(session.starts_with("[acpx] session roof"), "{err}");
        used.to_owned()
    };
    let context = |used: u64, cost: &str| {
        format!("[acpx] context: {used} of 1000 tokens\n[acpx] session cost: {cost} USD\n")
    };
    // Tokens and cost are those of the turn.
    let first = "[acpx] tokens: input=10 output=2 total=12\n[acpx] cost: 0.25 USD\n";
    assert_eq!(used("one"), format!("{first}{}", context(10, "0.25")));
    let second = "[acpx] tokens: input=28 output=2 total=30\n[acpx] cost: 0.25 USD\n";
    assert_eq!(used("two"), format!("{second}{}", context(30, "0.50")));
    assert_eq!(used("three"), "");
    let quiet = ["--format", "quiet", "scripted", "sessions", "result", "roof", "--turn", "2"];
    assert_eq!(place.acpx(&quiet).err, second);
    let record = place.json(&["scripted", "sessions", "show", "roof"])["acpxRecordId"].clone();
    let tokens = json!({ "source": "reported", "unknownTurns": 1, "total": 42, "input": 38, "output": 4 });
    let cost =
        json!({ "source": "derived", "unknownTurns": 1, "amounts": [{ "amount": 0.5, "currency": "USD" }] });
    let total = json!({ "turns": 3, "tokens": tokens, "cost": cost });
    let mut row = total.clone();
    row["acpxRecordId"] = record.clone();
    row["agent"] = json!("scripted");
    row["name"] = json!("roof");
    row["title"] = json!("one");
    let expected = json!({ "action": "usage", "by": "session", "rows": [row], "total": total });
    assert_eq!(place.json(&["scripted", "usage", "--by", "session"]), expected);
    let project = place.work().display().to_string();
    let figures = "3\t1\t38\t4\t-\t42\t1\t0.50 USD\treported\tderived\n";
    assert_eq!(place.ok(&["usage", "--by", "project"]), format!("{project}\t{figures}"));
    assert_eq!(place.ok(&["usage", "--by", "agent", "--since", "1h"]), format!("scripted\t{figures}"));
    assert_eq!(place.ok(&["usage", "--until", "2020-01-01"]), "");
    assert_eq!(place.ok(&["demo", "usage"]), "");
    let days: Vec<String> = ["Pacific/Kiritimati", "Pacific/Pago_Pago"]
        .iter()
        .map(|zone| {
            let mut command = place.command(&["usage"]);
            let out = command.env("TZ", zone).output().unwrap().stdout;
            String::from_utf8(out).unwrap().split('\t').next().unwrap().to_owned()
        })
        .collect();
    // Between these zones there are always 25 hours.
    assert!(days[0] > days[1], "{days:?}");
}

#[test]
fn usage_of_the_demo_agent_is_reported_without_an_account() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "hello"]);
    assert_eq!(place.ok(&["usage", "--by", "agent"]), "demo\t1\t0\t2\t4\t-\t6\t1\t-\treported\tunknown\n");
    let row = place.json(&["usage", "--by", "session"])["rows"][0].take();
    assert_eq!((&row["name"], &row["title"]), (&Value::Null, &json!("hello")));
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells what an agent has started")]
fn exec_of_a_program_that_an_agent_started_keeps_the_users_limits() {
    let place = Place::new();
    let script = begun(Script::new())
        .prompt(|turn| turn.update(reported(10, 5.0, "USD")).expect("session/cancel").end("cancelled"));
    let argv = place.scripted(&script);
    let (program, tried) = (env!("CARGO_BIN_EXE_acpx"), place.path_of("tried"));
    let inside = format!(
        r#""{program}" --format json --timeout 60 --max-cost 100 scripted exec hi >"{}"; exec "{program}" demo-agent"#,
        tried.display()
    );
    let agents = json!({ "scripted": { "argv": argv }, "inside": { "argv": ["sh", "-c", inside] } });
    place.configure(&json!({ "maxCost": { "turn": 0.1 }, "agents": agents }).to_string());
    place.ok(&["inside", "sessions", "new"]);
    let output = std::fs::read_to_string(&tried).unwrap();
    let result: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(result["error"]["data"]["detailCode"], "COST_LIMIT", "{output}");
}

#[test]
fn turn_over_max_cost_is_cancelled_and_the_session_refuses_the_next() {
    let place = Place::new();
    let script = begun(Script::new())
        .prompt(|turn| turn.update(reported(10, 0.25, "USD")).reply(answer(12)))
        .prompt(|turn| turn.update(reported(20, 2.5, "USD")).expect("session/cancel").end("cancelled"));
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "--max-cost", "0.25,2/session", "one"]);
    let done = place.acpx(&["--format", "json", "scripted", "--max-cost", "5,2/session", "two"]);
    let result = done.lines().pop().unwrap();
    let message = "the session's turns have cost 2.50 USD, and the limit is 2.00 USD; the turn was cancelled";
    let error = &result["error"];
    let shown = (&result["status"], &error["data"]["detailCode"], &error["message"], done.code);
    assert_eq!(shown, (&json!("failed"), &json!("COST_LIMIT"), &json!(message), Some(1)), "{result}");
    let replay = place.ok(&["--format", "json", "scripted", "sessions", "replay"]);
    assert!(replay.contains("COST_LIMIT"), "{replay}");
    let refused = place.acpx(&["--format", "json", "scripted", "--max-cost", "2/session", "three"]);
    let hint = "the prompt was not sent; raise the limit that is reached: --max-cost 10 for a turn, --max-cost 10/session for its session, or maxCost in config.json";
    assert_eq!(refused.failure(), ("COST_LIMIT".to_owned(), hint.to_owned(), Some(1)));
    // The limit of a session holds under another host.
    place.ok(&["host", "stop"]);
    let refused = place.acpx(&["--format", "json", "scripted", "--max-tokens", "12/session", "three"]);
    assert_eq!(refused.failure().0, "TOKEN_LIMIT");
}

#[test]
fn configured_limits_hold_and_unenforced_ones_are_reported() {
    let place = Place::new();
    let script = begun(Script::new())
        .prompt(|turn| turn.update(reported(10, 0.25, "EUR")).reply(answer(12)))
        .prompt(|turn| turn.update(reported(60, 0.5, "EUR")).expect("session/cancel").end("cancelled"));
    let argv = place.scripted(&script);
    let limits = json!({ "maxCost": { "turn": 0.1 }, "maxTokens": { "turn": 50 },
        "agents": { "scripted": { "argv": argv } } });
    place.configure(&limits.to_string());
    place.ok(&["scripted", "sessions", "new"]);
    let done = place.acpx(&["scripted", "one"]);
    let notice =
        "the limit of cost cannot be enforced: the agent reports its cost in EUR, and the limit is in USD";
    assert_eq!((done.code, done.err.matches(notice).count()), (Some(0), 1), "{done:?}");
    let done = place.acpx(&["scripted", "two"]);
    let message = "the turn has used 60 tokens, and the limit is 50; the turn was cancelled";
    assert_eq!(
        (done.code, done.out.contains(message), done.err.contains(notice)),
        (Some(1), true, false),
        "{done:?}"
    );
}

#[test]
fn wrong_usage_limits_are_refused_with_what_is_expected() {
    let place = Place::new();
    let cases = [
        (
            &["--max-cost", "0"][..],
            "expected an amount above 0, such as 0.50, 5/session, 4EUR or 0.5,5/session",
        ),
        (&["--max-cost", "1,2"], "expected an amount above 0"),
        (&["--max-cost", "1/day"], "expected an amount above 0"),
        (&["--max-tokens", "1.5k"], "expected a number of tokens above 0"),
    ];
    for (flags, expected) in cases {
        let done = place.acpx(&[flags, &["demo", "hi"]].concat());
        assert_eq!((done.code, done.err.contains(expected)), (Some(2), true), "{done:?}");
    }
    for (config, expected) in [
        (r#"{"maxCost":5}"#, "maxCost must be an object with turn, session and currency"),
        (r#"{"maxCost":{"turn":-1}}"#, "maxCost.turn must be an amount above 0"),
        (r#"{"maxTokens":{"session":1.5}}"#, "maxTokens.session must be a whole number above 0"),
    ] {
        place.configure(config);
        let done = place.acpx(&["demo", "hi"]);
        assert_eq!((done.code, done.err.contains(expected)), (Some(1), true), "{done:?}");
    }
}
