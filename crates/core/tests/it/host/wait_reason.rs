//! When nothing comes, a host says what a session waits for and since when.

use acpx_core::model::Timestamp;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, prompt_params};
use crate::engine::everything;

impl Bench {
    /// What a session waits for, as somebody hears it who only looks.
    async fn waiting(&self, record: &str) -> Value {
        let mut answer: Value =
            self.client().await.call("_acpx/waiting", &json!({ "sessionId": record })).await.unwrap();
        answer["waitingFor"].take()
    }

    /// Waits until this is what it waits for, and says since when and when the agent last spoke.
    async fn until_waiting(&self, record: &str, expected: Value) -> (Timestamp, Option<Timestamp>) {
        loop {
            let mut waiting = self.waiting(record).await;
            let time = |value: Value| value.as_str().map(|at| Timestamp::parse(at).unwrap());
            let (since, heard) = (time(waiting["since"].take()), time(waiting["lastLineAt"].take()));
            if let Value::Object(members) = &mut waiting {
                members.retain(|_, value| !value.is_null());
            }
            if waiting == expected {
                return (since.unwrap(), heard);
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn host_reports_a_sessions_wait_reason_and_its_start() {
    let bench = Bench::new();
    let [start, resume, ask] = ["start", "resume", "ask"].map(|name| bench.home.join(name));
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.say("one").end("end_turn"))
        .next_start()
        .expect("initialize")
        .await_file(&start)
        .reply(json!({ "protocolVersion": 1, "agentCapabilities": everything() }))
        .expect("session/resume")
        .await_file(&resume)
        .reply(json!({}))
        .prompt(|turn| turn.say("two").await_file(&ask).ask_permission("t").end("end_turn"));
    let argv = bench.agent(&script);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    super::prompt(&mut client, &record, "one").await;
    assert_eq!(bench.waiting(&record).await, Value::Null);
    bench.kill_host().await;

    let mut client = bench.client().await;
    // Nobody has asked for the session yet, and asking what it waits for does not begin it.
    assert_eq!(bench.waiting(&record).await, Value::Null);
    let asked = client.request("session/resume", &bench.resume_params(&record)).await.unwrap();
    let (starting, heard) = bench.until_waiting(&record, json!({ "what": "agent-start" })).await;
    assert_eq!(heard, None);
    std::fs::write(&start, "").unwrap();
    let answer = json!({ "what": "answer", "method": "session/resume" });
    let (resuming, _) = bench.until_waiting(&record, answer).await;
    std::fs::write(&resume, "").unwrap();
    super::until(&mut client, |said| match said {
        acpx_core::protocol::HostMessage::Answer { id, result } if id == asked => Some(result.unwrap()),
        _ => None,
    })
    .await;
    client.request("session/prompt", &prompt_params(&record, "two", json!({}))).await.unwrap();
    let answer = json!({ "what": "answer", "method": "session/prompt" });
    let (prompting, _) = bench.until_waiting(&record, answer).await;
    std::fs::write(&ask, "").unwrap();
    let question = super::until(&mut client, |said| match said {
        acpx_core::protocol::HostMessage::Question { id, .. } => Some(id),
        _ => None,
    })
    .await;
    let waiting = bench.waiting(&record).await;
    assert_eq!(
        (&waiting["what"], waiting["questions"].as_array().map(Vec::len)),
        (&json!("permission"), Some(1))
    );
    let (asking, heard) = (&waiting["since"], &waiting["lastLineAt"]);
    let [asking, heard] = [asking, heard].map(|at| Timestamp::parse(at.as_str().unwrap()).unwrap());
    assert!(starting <= resuming && resuming <= prompting && prompting <= heard && heard <= asking);
    let yes = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    client.answer(&question, &yes).await.unwrap();
    while bench.waiting(&record).await != Value::Null {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn absent_session_has_no_wait_reason() {
    let bench = Bench::new();
    let mut editor =
        bench.editor(&bench.agent(&Script::new().initialize(everything()).session_new("s1"))).await;
    let deleted = editor.open(&bench).await;
    editor.call("session/delete", json!({ "sessionId": deleted })).await.unwrap();
    for session in ["nobodys", deleted.as_str()] {
        let error = editor.call("_acpx/waiting", json!({ "sessionId": session })).await.unwrap_err();
        assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!(session)));
    }
}
