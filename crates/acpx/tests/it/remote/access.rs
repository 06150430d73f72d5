//! The restrictions of a remote client hold for every way to ask.

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::http::Poster;
use super::{Served, Socket};
use crate::acpx::{Place, text};

/// A request for a session with a program of the client's own, with half a surrogate pair for a name at each level.
fn odd_requests(place: &Place, mark: &str) -> Vec<String> {
    let odd = r#""\ud800":1,"#;
    let agent = json!({ "argv": ["touch", mark] });
    let server = json!([{ "name": "s", "command": "/bin/touch", "args": [mark], "env": [] }]);
    let cwd = json!(place.work());
    let line = |id: usize, outer: &str, params: &str, meta: &str, ours: &str, servers: &Value| {
        format!(
            r#"{{{outer}"jsonrpc":"2.0","id":{id},"method":"session/new","params":{{{params}"cwd":{cwd},"mcpServers":{servers},"_meta":{{{meta}"acpx":{{{ours}"agent":{agent}}}}}}}}}"#
        )
    };
    let none = json!([]);
    vec![
        line(100, odd, "", "", "", &none),
        line(101, "", odd, "", "", &none),
        line(102, "", "", odd, "", &none),
        line(103, "", "", "", odd, &none),
        line(104, "", odd, odd, odd, &server),
        line(105, "", "", r#""acpx":{},"#, "", &none),
        line(106, "", r#""_meta":{},"#, "", "", &none),
        line(107, "", r#""mcpServers":[],"#, "", "", &server),
    ]
}

#[test]
fn no_member_name_bypasses_the_ban_on_remote_clients_starting_programs() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mark = place.path_of("mark");
    // What it says of itself in initialize counts as little as what it says later, said once or twice.
    let client = json!({ "agent": { "argv": ["touch", mark] } });
    let forged = [
        format!(r#"{{"acpx":{{"client":{client}}}}}"#),
        format!(r#"{{"\ud800":1,"acpx":{{"client":{client}}}}}"#),
        format!(r#"{{"acpx":{{}},"acpx":{{"client":{client}}}}}"#),
    ];
    for meta in forged {
        for params in [
            format!(r#"{{"protocolVersion":1,"_meta":{meta}}}"#),
            format!(r#"{{"protocolVersion":1,"_meta":{{}},"_meta":{meta}}}"#),
        ] {
            let mut socket = Socket::silent(&served, None).unwrap();
            let line = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#);
            socket.say(Message::text(line));
            socket.hear_answer(&json!(0));
            for line in odd_requests(&place, &text(&mark)) {
                let id = serde_json::from_str::<Value>(&line.replace("\\ud800", "x")).unwrap()["id"].clone();
                socket.say(Message::text(line));
                let (_, answer) = socket.hear_answer(&id);
                assert!(answer["result"].is_object() || answer["error"]["code"] == -32602, "{answer}");
                assert!(!mark.exists(), "{answer}");
                if let Some(session) = answer["result"]["sessionId"].as_str() {
                    let close = json!({ "jsonrpc": "2.0", "id": "close", "method": "session/close", "params": { "sessionId": session } });
                    socket.say(Message::text(close.to_string()));
                    socket.hear_answer(&json!("close"));
                }
            }
        }
    }
}

#[test]
fn no_name_of_a_member_does_so_over_http() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mark = place.path_of("mark");
    let poster = Poster::new(&served, None);
    let (_, mut connection) = poster.stream(None);
    for (index, line) in odd_requests(&place, &text(&mark)).into_iter().enumerate() {
        assert_eq!(poster.post_text(&line), 202, "{line}");
        let (_, answer) = connection.hear_answer(100 + index as u64);
        assert!(answer["result"].is_object() || answer["error"]["code"] == -32602, "{answer}");
        assert!(!mark.exists(), "{answer}");
    }
}

#[test]
fn client_is_marked_as_remote_only_once_and_only_by_its_server() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::silent(&served, None).unwrap();
    let own = json!({ "client": { "agent": { "argv": ["sh"] } }, "approveAll": true, "stdioServers": true });
    assert_eq!(socket.call("_acpx/remote", own.clone())["error"]["code"], -32601);
    let answer = socket.call("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    assert_eq!(socket.call("_acpx/remote", own)["error"]["code"], -32601);
    let made = socket.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    assert!(made["result"]["sessionId"].is_string(), "{made}");
}

#[test]
fn records_of_another_agent_are_invisible_to_a_remote_client() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let program = text(env!("CARGO_BIN_EXE_acpx"));
    let agent = format!("{program} demo-agent");
    let made = place.json(&["--agent", &agent, "sessions", "new"]);
    let record = &made["acpxRecordId"];
    let load = json!({ "sessionId": record, "cwd": place.work(), "mcpServers": [] });
    let of_record = json!({ "sessionId": record });
    for (method, params) in [
        ("session/load", &load),
        ("session/resume", &load),
        ("session/prompt", &json!({ "sessionId": record, "prompt": [] })),
        ("_acpx/watch", &of_record),
        ("_acpx/cancel", &of_record),
        ("_acpx/close", &of_record),
    ] {
        let answer = socket.call(method, params.clone());
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), record),
            "{method} {answer}"
        );
    }
    // What is not there is deleted, and stays where it is.
    assert_eq!(socket.call("session/delete", of_record)["result"], json!({}));
    let shown = place.json(&["sessions", "show", record.as_str().unwrap()]);
    assert_eq!((&shown["acpxRecordId"], &shown["closed"]), (record, &json!(false)), "{shown}");
    let listed = socket.call("session/list", json!({}));
    assert!(!listed.to_string().contains(record.as_str().unwrap()), "{listed}");
}

#[test]
fn remote_client_has_a_quota_of_working_sessions() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let first = socket.open(&place);
    for _ in 1..32 {
        socket.open(&place);
    }
    let params = json!({ "cwd": place.work(), "mcpServers": [] });
    let refused = socket.call("session/new", params.clone());
    assert_eq!(refused["error"]["data"]["acpx"]["code"], "TOO_MANY_SESSIONS", "{refused}");
    // Another connection of the same one is no way around.
    let refused = Socket::new(&served).call("session/new", params);
    assert_eq!(refused["error"]["data"]["acpx"]["code"], "TOO_MANY_SESSIONS", "{refused}");
    socket.call("session/close", json!({ "sessionId": first }));
    socket.open(&place);
}

#[test]
fn remote_client_quota_holds_for_prompts_to_slowly_starting_agents() {
    let place = Place::new();
    let hold = place.path_of("hold");
    let program = env!("CARGO_BIN_EXE_acpx");
    let wait = format!("while [ -e '{}' ]; do sleep 0.05; done; exec '{program}' demo-agent", text(&hold));
    place.configure(&json!({ "agents": { "demo": { "argv": ["sh", "-c", wait] } } }).to_string());
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let sessions: Vec<String> = (0..34)
        .map(|_| {
            let session = socket.open(&place);
            let prompt = socket.ask_prompt(&session, "first", json!({}));
            socket.hear_answer(&prompt);
            socket.call("session/close", json!({ "sessionId": session }));
            session
        })
        .collect();
    std::fs::write(&hold, "").unwrap();
    for session in &sessions {
        let later = json!({ "acpx": { "later": true } });
        let params = json!({ "sessionId": session, "cwd": place.work(), "_meta": later });
        let resumed = socket.call("session/resume", params);
        assert!(resumed["result"].is_object(), "{resumed}");
    }
    let asked: Vec<Value> =
        sessions.iter().map(|session| socket.ask_prompt(session, "hello", json!({}))).collect();
    let mut outcomes = Vec::new();
    let mut hear = |socket: &mut Socket, count: usize| {
        while outcomes.len() < count {
            let message = socket.hear().unwrap();
            if asked.contains(&message["id"]) && message.get("method").is_none() {
                let code = &message["error"]["data"]["acpx"]["code"];
                outcomes.push(if code.is_string() { code } else { &message["result"]["stopReason"] }.clone());
            }
        }
    };
    // None of the others is answered before its agent has started.
    hear(&mut socket, 2);
    std::fs::remove_file(&hold).unwrap();
    hear(&mut socket, 34);
    let expected = [vec![json!("TOO_MANY_SESSIONS"); 2], vec![json!("end_turn"); 32]].concat();
    assert_eq!(outcomes, expected);
}

#[test]
fn remote_client_deletes_a_session_that_only_the_agent_has() {
    let place = Place::new();
    let mark = place.path_of("deleted");
    let script = Script::new()
        .initialize(json!({ "sessionCapabilities": { "list": {}, "delete": {} } }))
        .serve([("session/delete", Script::new().touch(&mark).reply(json!({})))]);
    place.scripted(&script);
    let served = Served::agent(&place, "scripted", &[]);
    let mut socket = Socket::new(&served);
    assert_eq!(socket.call("session/delete", json!({ "sessionId": "theirs" }))["result"], json!({}));
    assert!(mark.exists());
}

#[test]
fn extension_methods_of_remote_clients_are_forwarded_where_the_user_allows() {
    for (flags, is_passed) in [(&[][..], false), (&["--allow-meta"], true)] {
        let place = Place::new();
        let script = Script::new().initialize(json!({ "mcpCapabilities": { "http": true } })).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/prompt", Script::new().end("end_turn")),
        ]);
        let argv = place.scripted(&script);
        let served = Served::agent(&place, "scripted", flags);
        let mut socket = Socket::new(&served);
        let options = json!({ "claudeCode": { "options": { "env": { "PATH": "/tmp" } } } });
        let mcp = json!({ "name": "x", "type": "http", "url": "http://x", "headers": [], "_meta": options });
        let new = json!({ "cwd": place.work(), "mcpServers": [mcp], "_meta": options, "ours": 1 });
        let session = socket.call("session/new", new)["result"]["sessionId"].clone();
        let words = json!([{ "type": "text", "text": "hello" }]);
        let prompt = json!({ "sessionId": session, "prompt": words, "_meta": options, "ours": 1 });
        assert_eq!(socket.call("session/prompt", prompt)["result"]["stopReason"], "end_turn");
        for method in ["session/new", "session/prompt"] {
            let heard = received_lines(&argv).into_iter().map(|line| serde_json::from_str(&line).unwrap());
            let params =
                heard.into_iter().find(|said: &Value| said["method"] == method).unwrap()["params"].clone();
            let passed = (params["_meta"]["claudeCode"].is_object(), params["ours"].is_number());
            assert_eq!(passed, (is_passed, is_passed), "{method} {params}");
            if method == "session/new" {
                assert_eq!(params["mcpServers"][0]["_meta"].is_object(), is_passed, "{params}");
            }
        }
    }
}

#[test]
fn options_of_serve_override_what_remote_clients_request() {
    let place = Place::new();
    let served = Served::new(&place, &["--deny-all"]);
    let mut socket = Socket::new(&served);
    let session = socket.open(&place);
    for meta in [json!({}), json!({ "policy": "approve-reads", "toolPolicy": { "escalate": ["*"] } })] {
        let id = socket.ask_prompt(&session, "permission", meta);
        let (before, answer) = socket.hear_answer(&id);
        assert!(before.iter().all(|message| message["method"] == "session/update"), "{before:?}");
        assert_eq!(answer["result"]["_meta"]["acpx"]["rejected"], 1, "{answer}");
    }

    // What approves is for this machine alone, unless that is said too.
    let approving = Served::new(&place, &["--approve-all"]);
    let mut socket = Socket::new(&approving);
    let session = socket.open(&place);
    socket.ask_prompt(&session, "permission", json!({}));
    while socket.hear().unwrap()["method"] != "session/request_permission" {}
}

#[test]
fn the_directories_of_a_session_are_its_makers_to_change() {
    let place = Place::new();
    let capabilities = json!({ "sessionCapabilities": { "additionalDirectories": {}, "resume": {} } });
    let script = Script::new().initialize(capabilities).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
    ]);
    place.scripted(&script);
    let served = Served::agent(&place, "scripted", &[]);
    let mut maker = Socket::new(&served);
    let session = maker.open(&place);
    let wider = json!({
        "sessionId": session, "cwd": place.work(), "mcpServers": [], "additionalDirectories": [place.work()],
    });
    let mut other = Socket::new(&served);
    let refused = other.call("session/resume", wider.clone());
    let problem = (&refused["error"]["code"], &refused["error"]["data"]["field"]);
    assert_eq!(problem, (&json!(-32602), &json!("additionalDirectories")), "{refused}");
    let taken = maker.call("session/resume", wider);
    assert!(taken["result"].is_object(), "{taken}");
}

#[test]
fn stdio_mcp_servers_are_advertised_where_allowed_and_refused_with_the_flag() {
    for (flags, allowed) in [(&[][..], false), (&["--allow-stdio-servers"][..], true)] {
        let place = Place::new();
        let served = Served::new(&place, flags);
        let mut second = Socket::silent(&served, None).unwrap();
        let info = json!({ "name": "test", "version": "1" });
        let answer =
            second.call("initialize", json!({ "protocolVersion": 2, "info": info, "capabilities": {} }));
        let mcp = &answer["result"]["capabilities"]["session"]["mcp"];
        assert_eq!((mcp["stdio"].is_object(), mcp.is_object()), (allowed, true), "{answer}");
        let program = json!({ "type": "stdio", "name": "s", "command": "/bin/true", "args": [], "env": [] });
        let new = json!({ "cwd": place.work(), "mcpServers": [program] });
        let mut first = Socket::new(&served);
        for answer in [second.call("session/new", new.clone()), first.call("session/new", new)] {
            let problem = answer["error"]["data"]["problem"].as_str().unwrap_or_default();
            assert_eq!(problem.contains("--allow-stdio-servers"), !allowed, "{answer}");
            assert_eq!(answer["result"]["sessionId"].is_string(), allowed, "{answer}");
        }
    }
}
