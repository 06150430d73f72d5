//! `acpx web`: its server in the background, met by a client that signs in as a browser does.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::acpx::Place;
use crate::remote::{Answer, Socket, head};

/// Where a page's server listens, from a link, and the link's code.
fn read_link(link: &Value) -> (String, String) {
    let link = link["link"].as_str().unwrap();
    let (place, code) = link.strip_prefix("http://").unwrap().split_once("/#").unwrap();
    (place.to_owned(), code.to_owned())
}

fn ask(place: &str, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(place).unwrap();
    let length = body.len();
    write!(stream, "{request} HTTP/1.0\r\nhost: {place}\r\norigin: http://{place}\r\n").unwrap();
    write!(stream, "content-length: {length}\r\n").unwrap();
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n").unwrap();
    }
    write!(stream, "\r\n{body}").unwrap();
    let mut stream = BufReader::new(stream);
    let head = head(&mut stream);
    let mut body = String::new();
    stream.read_to_string(&mut body).unwrap();
    Answer { body, ..head }
}

/// Signs a device in; its cookie.
fn sign_in(link: &Value) -> (String, String) {
    let (place, code) = read_link(link);
    let body = json!({ "code": code, "name": "test" }).to_string();
    let signed_in = ask(&place, "POST /login", &[], &body);
    assert_eq!(signed_in.status, 204, "{signed_in:?}");
    let cookie = signed_in.header("set-cookie").unwrap();
    (place, cookie.split(';').next().unwrap().to_owned())
}

/// A page on a WebSocket, in version 2.
fn open_page(place: &str, cookie: &str) -> Socket {
    let mut request = format!("ws://{place}/acp").into_client_request().unwrap();
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    request.headers_mut().insert("origin", format!("http://{place}").parse().unwrap());
    let mut socket = Socket::over(TcpStream::connect(place).unwrap(), request).unwrap();
    let info = json!({ "name": "page", "version": "1" });
    let wanting = json!({ "_meta": { "acpx": { "errorData": true } } });
    let greeting = json!({ "protocolVersion": 2, "info": info, "capabilities": wanting });
    assert_eq!(socket.call("initialize", greeting)["result"]["protocolVersion"], 2);
    socket
}

#[test]
fn web_server_starts_once_and_keeps_its_port_after_a_stop() {
    let place = Place::new();
    assert_eq!(place.json(&["web", "status"])["status"], "stopped");
    let first = place.json(&["web", "--no-open"]);
    let again = place.json(&["web", "--no-open"]);
    assert_eq!(read_link(&first).0, read_link(&again).0);
    assert_ne!(read_link(&first).1, read_link(&again).1);
    let status = place.json(&["web", "status"]);
    assert_eq!(status["url"], format!("http://{}/", read_link(&first).0));
    let refused = place.acpx(&["--format", "json", "web", "--no-open", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.failure().0, "USAGE");
    let (address, cookie) = sign_in(&again);
    assert_eq!(place.json(&["web", "stop"])["stopped"], true);
    assert_eq!(place.json(&["web", "stop"])["stopped"], false);
    let restarted = place.json(&["web", "--no-open"]);
    assert_eq!(read_link(&restarted).0, address);
    let session = ask(&address, "GET /session", &[("cookie", &cookie)], "");
    assert_eq!(session.status, 200, "{session:?}");
    let public = place.acpx(&["--format", "json", "web", "--no-open", "--listen", "0.0.0.0:0"]);
    assert_eq!(public.failure().0, "USAGE");
    place.json(&["web", "stop"]);
    let public = place.acpx(&["--format", "json", "web", "--no-open", "--listen", "0.0.0.0:0"]);
    assert_eq!(public.failure().0, "PUBLIC_ADDRESS");
}

#[test]
fn web_server_starts_as_the_last_one_unless_flags_are_given() {
    let place = Place::new();
    let public = ["--listen", "127.0.0.1:0", "--public-url", "http://box.test"];
    place.json(&[&["web", "--no-open"], &public[..]].concat());
    let file = place.acpx_home().join("web.json");
    let server = || {
        let server: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        (server["url"].clone(), server["address"].clone())
    };
    let first = server();
    assert_eq!(first.0, "http://box.test/");
    place.json(&["web", "stop"]);
    place.json(&["web", "--no-open"]);
    assert_eq!(server(), first);
    place.json(&["web", "stop"]);
    place.json(&["web", "--no-open", "--listen", "127.0.0.1:0"]);
    let (url, address) = server();
    assert_eq!(url, format!("http://{}/", address.as_str().unwrap()));
    place.json(&["web", "stop"]);
}

#[test]
fn web_server_on_every_address_needs_its_public_url() {
    let place = Place::new();
    let tls = ["--tls-cert", "chain.pem", "--tls-key", "key.pem"];
    let listen = ["--format", "json", "web", "--no-open", "--listen", "0.0.0.0:0"];
    let (code, text, _) = place.acpx(&[&listen, &tls[..]].concat()).failure();
    assert_eq!(code, "USAGE");
    assert!(text.contains("--public-url"), "{text}");
    // With it, the next error is about the certificate.
    let named = [&listen, &tls[..], &["--public-url", "https://box.test"]].concat();
    assert_eq!(place.acpx(&named).failure().0, "TLS_UNUSABLE");
}

#[cfg(target_os = "linux")]
#[test]
fn web_link_has_its_qr_code_only_on_a_terminal() {
    use crate::terminal::OnTerminal;

    let place = Place::new();
    let is_drawn = |text: &str| text.contains('█') || text.contains('▀');
    let piped = place.ok(&["web", "--no-open"]);
    assert!(piped.starts_with("http://127.0.0.1:") && !is_drawn(&piped), "{piped}");
    let mut terminal = OnTerminal::sized(&place.command(&["web", "--no-open"]), 120, 60);
    terminal.wait_for("valid once");
    terminal.wait_for("another device needs a tunnel");
    assert_eq!(terminal.done(), Some(0));
    assert!(is_drawn(&terminal.seen), "{}", terminal.seen);
    place.json(&["web", "stop"]);
}

#[cfg(target_os = "linux")]
#[test]
fn programs_of_an_agent_open_no_page_and_deliver_no_notifications() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_acpx");
    let tried = place.path_of("tried");
    let lines = ["web --no-open", "web stop", "notify test", "notify run"];
    let commands: Vec<_> =
        lines.iter().map(|line| format!(r#""{program}" --format json {line} </dev/null"#)).collect();
    // A program that replaces the agent has the host as its parent.
    let inside = format!(
        r#"{{ {}; }} >"{out}"; [ -e "{out}.2" ] && exec "{program}" --format json notify run >"{out}.3"; \
           : >"{out}.2"; exec "{program}" demo-agent"#,
        commands.join("; "),
        out = tried.display(),
    );
    place.configure(&json!({ "agents": { "inside": { "argv": ["sh", "-c", inside] } } }).to_string());
    place.ok(&["inside", "sessions", "new", "--name", "one"]);
    let said = std::fs::read_to_string(&tried).unwrap();
    let codes: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> = codes.iter().map(|line| line["error"]["data"]["detailCode"].clone()).collect();
    assert_eq!(codes, vec![json!("NOT_ALLOWED"); lines.len()], "{said}");
    place.acpx(&["inside", "sessions", "new", "--name", "two"]);
    let said = std::fs::read_to_string(place.path_of("tried.3")).unwrap();
    assert!(said.contains("NOT_ALLOWED"), "{said}");
    assert_eq!(place.json(&["web", "status"])["status"], "stopped");
}

#[test]
fn web_server_of_another_version_is_restarted_at_its_address() {
    let place = Place::new();
    let first =
        place.json(&["web", "--no-open", "--listen", "127.0.0.1:0", "--public-url", "http://box.test"]);
    let file = place.acpx_home().join("web.json");
    let server = || -> Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
    let older = server();
    let text = std::fs::read_to_string(&file).unwrap();
    let version = older["version"].as_str().unwrap();
    std::fs::write(&file, text.replace(&format!("\"{version}\""), "\"0.0.1\"")).unwrap();
    let again = place.json(&["web", "--no-open"]);
    assert_eq!(read_link(&first).0, read_link(&again).0);
    let newer = server();
    assert_ne!(newer["pid"], older["pid"]);
    for member in ["address", "url", "version", "arguments"] {
        assert_eq!(newer[member], older[member], "{newer}");
    }
    place.json(&["web", "stop"]);
}

#[test]
fn web_page_prompts_a_session_and_revoking_its_device_closes_it() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let link = place.json(&["web", "--no-open"]);
    let (address, cookie) = sign_in(&link);
    assert_eq!(ask(&address, "GET /acp", &[], "").status, 401);
    let mut page = open_page(&address, &cookie);
    let listed = page.call("_acpx/sessions", json!({ "subscribe": true }));
    assert_eq!(listed["result"]["sessions"][0]["agent"], "demo", "{listed}");
    let new =
        |agent: &str| json!({ "cwd": place.work(), "_meta": { "acpx": { "agent": { "name": agent } } } });
    let unlisted = page.call("session/new", new("sh"));
    assert_eq!(unlisted["error"]["data"]["field"], "_meta.acpx.agent", "{unlisted}");
    let opened = page.call("session/new", new("demo"));
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!([{ "type": "text", "text": "hello" }]);
    page.call("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    loop {
        let message = page.hear().unwrap();
        let rows = message["params"]["changed"].as_array().cloned().unwrap_or_default();
        let is_done =
            |row: &Value| row["acpxRecordId"] == *session && row["lastMessage"]["text"] == "You said: hello";
        if rows.iter().any(is_done) {
            break;
        }
    }
    let history = page.call("_acpx/history", json!({ "sessionId": session }));
    assert_eq!(history["result"]["updates"][0]["update"]["sessionUpdate"], "user_message", "{history}");
    let tokens = place.json(&["token", "list"]);
    assert_eq!(tokens["tokens"][0]["kind"], "device");
    place.json(&["token", "revoke", tokens["tokens"][0]["tokenId"].as_str().unwrap()]);
    let reason = loop {
        if let Err(reason) = page.hear() {
            break reason;
        }
    };
    assert_eq!(reason, "signed out");
    assert_eq!(ask(&address, "GET /session", &[("cookie", &cookie)], "").status, 401);
    place.json(&["web", "stop"]);
}

#[test]
fn session_of_the_page_gets_the_configured_mcp_servers() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let server = json!({ "name": "files", "command": "/bin/false", "args": [], "env": [] });
    place.configure(&json!({ "mcpServers": [server] }).to_string());
    let (address, cookie) = sign_in(&place.json(&["web", "--no-open"]));
    let mut page = open_page(&address, &cookie);
    let meta = json!({ "acpx": { "agent": { "name": "demo" } } });
    let named = json!({ "type": "stdio", "name": "files", "command": "/bin/false" });
    let named = json!({ "cwd": place.work(), "mcpServers": [named], "_meta": meta });
    let refused = page.call("session/new", named);
    assert_eq!(refused["error"]["data"]["field"], "mcpServers", "{refused}");
    let opened = page.call("session/new", json!({ "cwd": place.work(), "_meta": meta }));
    let session = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}"));
    assert_eq!(place.json(&["sessions", "show", session])["mcpServers"], json!(["files"]));
    place.json(&["web", "stop"]);
}

#[test]
fn device_with_read_scope_gets_no_changes_through_the_web_server() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "hello"]);
    let (address, cookie) = sign_in(&place.json(&["web", "--no-open", "--scope", "read"]));
    let mut page = open_page(&address, &cookie);
    let listed = page.call("_acpx/sessions", json!({}));
    let session = listed["result"]["sessions"][0]["acpxRecordId"].as_str().unwrap().to_owned();
    let of_session = || json!({ "sessionId": session, "cwd": place.work() });
    let read = page.call(
        "session/resume",
        json!({ "sessionId": session, "cwd": place.work(), "replayFrom": { "type": "start" } }),
    );
    assert!(read["result"].is_object(), "{read}");
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "no" }] });
    let calls = [
        ("session/prompt", prompt),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "m", "type": "id", "value": "x" }),
        ),
        ("session/delete", of_session()),
        ("_acpx/close", of_session()),
        ("_acpx/cancel", of_session()),
        ("_acpx/rename", json!({ "sessionId": session, "name": "x" })),
        ("_acpx/answer", json!({ "questionId": "x", "approve": true })),
        ("session/new", json!({ "cwd": place.work(), "_meta": { "acpx": { "agent": { "name": "demo" } } } })),
    ];
    for (method, params) in calls {
        let refused = page.call(method, params);
        assert_eq!(refused["error"]["data"]["acpx"]["code"], "NOT_ALLOWED", "{method}: {refused}");
    }
    place.json(&["web", "stop"]);
}
