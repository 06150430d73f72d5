//! Limits of cost and tokens for clients that are no command of ours: editors get a cancelled turn with the reason.

use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, prompt_params, refusal};
use crate::engine::everything;

fn reported(amount: f64) -> Value {
    json!({ "sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": { "amount": amount, "currency": "USD" } })
}

#[tokio::test]
async fn editor_gets_a_cancelled_turn_with_the_usage_limit_as_reason() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.update(reported(0.75)).expect("session/cancel").end("cancelled"));
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    let limits = json!({ "maxUsage": { "turn": { "cost": { "amount": 0.5, "currency": "USD" } },
        "session": { "tokens": 100 } } });
    let answer: Value =
        client.call("session/prompt", &prompt_params(&record, "x", limits)).await.expect("an answer");
    let message = "the turn has cost 0.75 USD, and the limit is 0.50 USD; the turn was cancelled";
    assert_eq!(answer["stopReason"], "cancelled");
    assert_eq!(answer["_meta"]["acpx"]["limit"], json!({ "code": "COST_LIMIT", "message": message }));
    let limits = json!({ "maxUsage": { "session": { "cost": { "amount": 0.5, "currency": "USD" } } } });
    let refused = refusal(&mut client, "session/prompt", &prompt_params(&record, "y", limits)).await;
    let message = format!(
        "the prompt for the record {record} is refused: the session's turns have cost 0.75 USD, and the limit is 0.50 USD"
    );
    assert_eq!((refused.code().as_str(), refused.to_string()), ("COST_LIMIT", message));
}
