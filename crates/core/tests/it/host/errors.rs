//! Failures cross the socket whole: code, hint, the turn they happened to, and the agent's own error object.

use std::sync::Arc;

use acpx_core::client::{HostClient, Launcher};
use acpx_core::engine::{Engine, EngineSettings};
use acpx_core::home::HostPaths;
use acpx_core::host::{ClientTimeouts, Host};
use acpx_core::model::HostId;
use acpx_core::protocol::HostErrorResponse;
use acpx_core::store::{MemoryStore, RecordFilter, Store};
use acpx_core::wire::WireLimits;
use acpx_testkit::{Script, TempHome, scripted_agent_command};
use serde_json::{Value, json};

use super::{Bench, prompt_params, refusal};
use crate::engine::{everything, faithful};

/// What a client can tell of a refusal: number, code, whether there is a hint, the turn, the agent's words.
fn whole(refusal: &HostErrorResponse) -> (i64, &str, bool, Option<u64>, Option<Value>) {
    let acp = refusal.acp().map(|acp| serde_json::from_str(acp).unwrap());
    (
        refusal.number,
        refusal.code().as_str(),
        refusal.hint().is_some(),
        refusal.turn().map(|turn| turn.turn),
        acp,
    )
}

#[tokio::test]
async fn missing_agent_and_agent_crash_have_their_error_codes() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let params = bench.new_params(&["/no/such/agent".to_owned()]);
    let not_found = refusal(&mut client, "session/new", &params).await;
    assert_eq!(whole(&not_found), (-32603, "AGENT_NOT_FOUND", true, None, None));
    assert_eq!(not_found.to_string(), "the agent command \"/no/such/agent\" was not found");

    let script = Script::new().initialize(everything()).session_new("s1").prompt(|turn| turn.exit(3));
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    let died = refusal(&mut client, "session/prompt", &prompt_params(&record, "x", json!({}))).await;
    assert_eq!(whole(&died), (-32603, "AGENT_DIED", true, Some(1), None));
    let ids = died.turn().unwrap().ids.as_ref().unwrap();
    assert_eq!((ids.record.as_str(), ids.session.as_str()), (record.as_str(), "s1"));
}

#[tokio::test]
async fn agent_crash_in_session_new_leaves_no_record() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let hint =
        "nothing was stored; try again, or run the agent's command by hand to see what is wrong with it";
    let script = Script::new().initialize(everything()).expect("session/new").exit(9);
    let refused = refusal(&mut client, "session/new", &bench.new_params(&bench.agent(&script))).await;
    assert_eq!((refused.code().as_str(), refused.hint()), ("AGENT_DIED", Some(hint)));
    // One that dies when its model is set has made a session, which is taken back.
    let offered = json!({ "id": "model", "name": "Model", "category": "model", "type": "select",
        "currentValue": "a", "options": [{ "value": "a", "name": "A" }, { "value": "b", "name": "B" }] });
    let script = Script::new()
        .initialize(everything())
        .expect("session/new")
        .reply(json!({ "sessionId": "s1", "configOptions": [offered] }))
        .expect("session/set_config_option")
        .exit(9);
    let mut params = bench.new_params(&bench.agent(&script));
    params["_meta"]["acpx"]["settings"] = json!([{ "option": "model", "value": "b" }]);
    let refused = refusal(&mut client, "session/new", &params).await;
    assert_eq!((refused.code().as_str(), refused.hint()), ("AGENT_DIED", Some(hint)));
    let records = bench.store().records(RecordFilter::default(), None, 9).await.unwrap();
    assert_eq!(records, []);
}

#[tokio::test]
async fn agents_own_error_keeps_its_code_and_data() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let login = json!({ "code": -32000, "message": "Authentication required", "data": { "methods": [1] } });
    let script = Script::new().initialize(everything()).refuse("session/new", login.clone());
    let refused = refusal(&mut client, "session/new", &bench.new_params(&bench.agent(&script))).await;
    assert_eq!(whole(&refused), (-32000, "AUTH_REQUIRED", true, None, Some(login)));

    let odd = json!({ "code": 4711, "message": "no", "data": null });
    let script =
        Script::new().initialize(everything()).session_new("s1").refuse("session/prompt", odd.clone());
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    let refused = refusal(&mut client, "session/prompt", &prompt_params(&record, "x", json!({}))).await;
    assert_eq!(whole(&refused), (4711, "AGENT_REFUSED", true, Some(1), Some(odd)));
}

#[tokio::test]
async fn agent_error_is_equal_in_v1_response_and_v2_state() {
    let bench = Bench::new();
    let odd = json!({ "code": 4711, "message": "no", "data": { "sessionId": "s1", "deep": [1.0] } });
    let login = json!({ "code": -32603, "message": "Internal error", "data": "Missing provider" });
    let methods = json!([{ "id": "key", "name": "Key" }]);
    let answer = json!({ "protocolVersion": 1, "agentCapabilities": everything(), "authMethods": methods });
    let script = |error: &Value| {
        Script::new().expect("initialize").reply(answer.clone()).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/prompt", Script::new().reply_error(error.clone())),
        ])
    };
    let hint = |code: &str| acpx_core::model::ErrorCode::from(code).hint().unwrap();
    for version in [1, 2] {
        let told = |ways: Value| {
            if version == 1 { ways } else { json!([{ "methodId": "key", "name": "Key", "type": "agent" }]) }
        };
        let login_hint =
            "log in by one of the offered ways, or in a shell, then try again: acpx scripted auth";
        let login_details = format!("Internal error: Missing provider; {login_hint}");
        let table = [
            (&odd, 4711, "AGENT_REFUSED", json!({ "deep": [1.0], "details": "no" })),
            (
                &login,
                -32000,
                "AUTH_REQUIRED",
                json!({ "authMethods": told(methods.clone()), "details": login_details }),
            ),
        ];
        for (error, number, code, data) in table {
            let argv = bench.agent(&script(error));
            let mut editor = bench.speaking(version, 1, &argv).await;
            let record = editor.open(&bench).await;
            let id = editor
                .ask("session/prompt", prompt_params(&record, "x", json!({ "requestId": "mine" })))
                .await;
            let failed = match editor.answer(id).await.0 {
                Err(error) => error,
                Ok(_) => super::editor::last_state(&editor.until_idle().await)["error"].clone(),
            };
            let acpx = &failed["data"]["acpx"];
            assert_eq!((&acpx["turn"]["turn"], &acpx["turn"]["requestId"]), (&json!(1), &json!("mine")));
            let words = acpx["message"].as_str().unwrap();
            assert!(words.starts_with("the agent \"scripted\" refused session/prompt"), "{words}");
            let hint = if code == "AUTH_REQUIRED" { login_hint } else { hint(code) };
            let ours =
                json!({ "code": code, "hint": hint, "turn": acpx["turn"], "acp": error, "message": words });
            let mut expected = json!({ "code": number, "message": error["message"], "data": data });
            expected["data"]["acpx"] = ours;
            assert_eq!(failed, expected, "{version}");
        }
    }
}

#[tokio::test]
async fn an_editor_receives_errors_with_details_and_without_data_acpx() {
    for version in [1, 2] {
        receives_details(version).await;
    }
}

async fn receives_details(version: u16) {
    let bench = Bench::new();
    let refused =
        json!({ "code": -32603, "message": "the prompt asked for a failure", "data": { "deep": 1 } });
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().reply_error(refused)),
        ("session/load", Script::new().reply_error(json!({ "code": -32002, "message": "no" }))),
        ("session/resume", Script::new().reply_error(json!({ "code": -32002, "message": "no" }))),
    ]);
    let dying = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s2" }))),
        ("session/prompt", Script::new().exit(3)),
        ("session/load", Script::new().reply_error(json!({ "code": -32002, "message": "no" }))),
        ("session/resume", Script::new().reply_error(json!({ "code": -32002, "message": "no" }))),
    ]);
    let (agent, dying) = (bench.agent(&script), bench.agent(&dying));
    let mut told = Vec::new();
    for argv in [&agent, &dying] {
        let mut editor = bench.speaking_with(version, 1, argv, json!({})).await;
        let record = editor.open(&bench).await;
        let id = editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
        told.push(match editor.answer(id).await.0 {
            Err(error) => error,
            Ok(_) => super::editor::last_state(&editor.until_idle().await)["error"].clone(),
        });
        let unknown = editor.call("session/resume", bench.load_params("no")).await.unwrap_err();
        let details = "there is no session no; open one of the listed sessions, or begin a new one";
        assert_eq!(unknown["data"], json!({ "sessionId": "no", "details": details }));
        let bad = editor.call("session/new", json!({ "cwd": "here", "mcpServers": [] })).await.unwrap_err();
        let names: Vec<&String> = bad["data"].as_object().unwrap().keys().collect();
        assert_eq!((&bad["data"]["field"], names.len()), (&json!("cwd"), 3), "{bad}");
    }
    let message = "the prompt asked for a failure";
    assert_eq!(told[0], json!({ "code": -32603, "message": message, "data": { "details": message } }));
    let message = "the agent \"scripted\" died (exit code 3)";
    let details = format!("{message}; the conversation is kept; the next prompt restores it");
    assert_eq!(told[1], json!({ "code": -32603, "message": message, "data": { "details": details } }));
}

#[tokio::test]
async fn error_on_the_host_socket_has_acpx_data_only_on_request() {
    let bench = Bench::new();
    let argv =
        bench.agent(&Script::new().initialize(everything()).serve([("session/new", Script::new().exit(3))]));
    let died = "the agent \"scripted\" died (exit code 3)";
    let hint =
        "nothing was stored; try again, or run the agent's command by hand to see what is wrong with it";
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    for (version, wants) in [(1, false), (1, true), (2, false), (2, true)] {
        let capabilities = json!({ "_meta": { "acpx": { "errorData": wants } } });
        let mut editor = bench.speaking_with(version, 1, &argv, capabilities).await;
        let mut data = json!({ "details": format!("{died}; {hint}") });
        if wants {
            data["acpx"] = json!({ "code": "AGENT_DIED", "hint": hint });
        }
        let expected = json!({ "code": -32603, "message": died, "data": data });
        assert_eq!(editor.call("session/new", new.clone()).await.unwrap_err(), expected, "{version}");

        let data = json!({ "method": "_acpx/x", "details": "there is no method _acpx/x" });
        let expected = json!({ "code": -32601, "message": "Method not found", "data": data });
        assert_eq!(editor.call("_acpx/x", json!({})).await.unwrap_err(), expected, "{version}");

        let second = json!({ "protocolVersion": version, "info": { "name": "editor", "version": "7" } });
        let again = editor.call("initialize", second).await;
        let message = format!("Invalid request: version {version} of the protocol is spoken already");
        let data = json!({ "protocolVersion": version, "details": message });
        let expected = json!({ "code": -32600, "message": message, "data": data });
        assert_eq!(again.unwrap_err(), expected, "{version}");
    }
}

#[tokio::test]
async fn failed_host_start_reports_code_and_hint_of_its_cause() {
    let bench = Bench::new();
    std::fs::create_dir(bench.paths.home()).unwrap();
    std::fs::write(bench.paths.store(), "this is no store, and it is long enough to be looked at").unwrap();
    let error = bench.launcher.reach(&bench.paths).await.err().expect("it does not come up");
    assert_eq!((error.code().as_str(), error.hint().is_some()), ("STORE_CORRUPT", true), "{error}");
    std::fs::remove_file(bench.paths.store()).unwrap();
    bench.client().await;

    let silent = Launcher { program: "/bin/true".into(), args: Vec::new(), environment: Vec::new() };
    let missing = Launcher { program: "/no/such/host".into(), ..silent.clone() };
    let paths = HostPaths::new(bench.home.join("other"), None, bench.home.path());
    for launcher in [silent, missing] {
        let error = launcher.reach(&paths).await.err().expect("it is no host");
        assert_eq!(error.code().as_str(), "HOST_NOT_STARTED", "{error}");
    }
}

#[tokio::test]
async fn invalid_request_is_refused_with_the_wrong_field() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
    let prompt = |acpx| prompt_params(&record, "x", acpx);
    let empty = json!({ "sessionId": record, "prompt": [] });
    let mut relative = bench.new_params(&["a".to_owned()]);
    relative["_meta"]["acpx"]["mcpSource"] = json!("relative");
    let mut nameless = bench.new_params(&["a".to_owned()]);
    nameless["_meta"]["acpx"]["shell"] = json!({ "name": " " });
    let mut nowhere = bench.new_params(&["a".to_owned()]);
    nowhere["cwd"] = json!("/no/such/directory");
    let table = [
        ("session/prompt", empty, "BAD_PROMPT", "the prompt is empty"),
        ("session/prompt", prompt(json!({ "policy": "perhaps" })), "BAD_REQUEST", "_meta.acpx"),
        ("session/prompt", prompt(json!({ "requestId": "" })), "BAD_REQUEST", "_meta.acpx.requestId"),
        ("session/prompt", prompt(json!({ "fallback": "reset" })), "BAD_REQUEST", "_meta.acpx.fallback"),
        ("session/new", relative, "BAD_REQUEST", "_meta.acpx.mcpSource"),
        ("session/new", nameless, "BAD_REQUEST", "_meta.acpx.shell.name"),
        ("session/new", nowhere, "BAD_DIRECTORY", "/no/such/directory"),
        ("session/list", json!({ "cursor": "x" }), "BAD_REQUEST", "cursor"),
        ("_acpx/watch", json!({ "sessionId": 1 }), "BAD_REQUEST", "params"),
        ("_acpx/watch", json!({ "sessionId": "nobody" }), "NO_SESSION", "Resource not found"),
        ("_acpx/nothing", json!({}), "HOST_REFUSED", "Method not found"),
    ];
    for (method, params, code, words) in table {
        let refused = refusal(&mut client, method, &params).await;
        assert_eq!(
            (refused.code().as_str(), refused.to_string().contains(words)),
            (code, true),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn overlong_prompt_has_one_error_for_every_detector() {
    let home = TempHome::new();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let settings = EngineSettings {
        wire: WireLimits { line_bytes: 64 << 10, ..WireLimits::default() },
        ..EngineSettings::default()
    };
    let engine = Engine::new(Arc::clone(&store), HostId::new("host").unwrap(), settings);
    let host = Arc::new(Host::new(engine, store, "test", ClientTimeouts::default()));
    let mut client = HostClient::over(host.connect()).await.unwrap();
    let argv = scripted_agent_command(&faithful(everything()), &home);
    let acpx = json!({ "agent": { "argv": argv }, "environment": super::environment() });
    let new = json!({ "cwd": home.path(), "mcpServers": [], "_meta": { "acpx": acpx } });
    let answer: Value = client.call("session/new", &new).await.unwrap();
    let record = answer["sessionId"].as_str().unwrap();
    // Longer than this agent takes, and longer than any host takes.
    for (bytes, code) in [(64 << 10, "BAD_PROMPT"), (65 << 20, "BAD_REQUEST")] {
        let params = prompt_params(record, &"x".repeat(bytes), json!({}));
        let error = client.call::<Value>("session/prompt", &params).await.expect_err("it is too long");
        assert_eq!(error.code().as_str(), code, "{error}");
    }
    assert_eq!(super::prompt(&mut client, record, "short").await["stopReason"], "end_turn");
    client.close().await;
    host.shut_down().await;
}
