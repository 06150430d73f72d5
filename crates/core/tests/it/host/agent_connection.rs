//! A connection that names its agent once, as an editor's does, has the sessions of that agent and of no other.

use acpx_core::model::Lifecycle;
use serde_json::{Value, json};

use super::{Bench, prompt_params, refusal};
use crate::engine::{everything, faithful, methods};

impl Bench {
    /// Makes a session with an agent that is called so, or by its command line, from a shell; its record.
    async fn open_with(&self, name: Option<&str>, argv: &[String]) -> String {
        let mut shell = self.client().await;
        let mut params = self.new_params(argv);
        params["_meta"]["acpx"]["agent"] = match name {
            Some(name) => json!({ "name": name, "argv": argv }),
            None => json!({ "argv": argv }),
        };
        let made: Value = shell.call("session/new", &params).await.unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn session_of_another_agent_is_unknown_to_a_connection_with_an_agent() {
    let bench = Bench::new();
    let theirs = bench.agent(&faithful(everything()));
    let other = bench.open_with(Some("other"), &theirs).await;
    let before = methods(&theirs);
    let mut editor = bench.editor(&bench.agent(&faithful(everything()))).await;

    let of_session = json!({ "sessionId": other });
    let requests = [
        ("session/load", bench.load_params(&other)),
        ("session/resume", bench.load_params(&other)),
        ("session/prompt", prompt_params(&other, "hello", json!({}))),
        ("session/set_mode", json!({ "sessionId": other, "modeId": "plan" })),
        ("_acpx/watch", of_session.clone()),
        ("_acpx/cancel", of_session.clone()),
        ("_acpx/close", of_session.clone()),
        ("_acpx/waiting", of_session.clone()),
        ("_acpx/move", json!({ "sessionId": other, "cwd": bench.home.path() })),
        ("_acpx/rename", json!({ "sessionId": other, "name": "theirs" })),
    ];
    for (method, params) in requests {
        let error = editor.call(method, params).await.unwrap_err();
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), &json!(other)),
            "{method}"
        );
    }
    // As of any session that is not there, these have nothing to do.
    for method in ["session/close", "session/delete"] {
        assert_eq!(editor.call(method, of_session.clone()).await.unwrap(), json!({}), "{method}");
    }
    assert_eq!(bench.record(&other).await.lifecycle, Lifecycle::Open);
    assert_eq!(methods(&theirs), before);

    // A shell names no agent for its connection, and has them all.
    let mut shell = bench.client().await;
    bench.resume(&mut shell, &other).await;
    let nothing = json!({ "sessionId": "nothing", "cwd": bench.home.path() });
    assert_eq!(refusal(&mut shell, "session/resume", &nothing).await.code().as_str(), "NO_SESSION");
}

#[tokio::test]
async fn session_of_the_same_agent_by_command_line_is_known() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let unnamed = bench.open_with(None, &argv).await;
    let mut editor = bench.editor(&argv).await;
    editor.call("session/load", bench.load_params(&unnamed)).await.unwrap();
    editor.turn(&unnamed, "hello").await;
    editor.call("session/delete", json!({ "sessionId": unnamed })).await.unwrap();
    assert!(bench.record(&unnamed).await.lifecycle.is_deleted());
}
