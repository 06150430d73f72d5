//! Who may come in: tokens, origins and names.

use std::io::{BufReader, Write};

use serde_json::json;
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};

use super::http::Poster;
use super::{Served, Socket, head};
use crate::acpx::{Place, eventually};

/// Makes a token; its secret and its id.
fn make(place: &Place, name: &str) -> (String, String) {
    let made = place.json(&["token", "new", "--name", name]);
    let text = |member: &str| made[member].as_str().unwrap().to_owned();
    (text("token"), text("tokenId"))
}

fn status(kept_out: Result<Socket, tungstenite::Error>) -> u16 {
    match kept_out {
        Ok(_) => 101,
        Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn with_a_token_every_client_needs_one_and_revoking_ends_its_connections() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut open = Socket::new(&served);
    let (secret, id) = make(&place, "laptop");
    // Whoever came in before is out as well.
    assert_eq!(open.hear().unwrap_err(), "signed out");
    assert_eq!(status(Socket::silent(&served, None)), 401);
    assert_eq!(status(Socket::silent(&served, Some("acpx_wrong"))), 401);
    let refused = served.ask("POST", &[("content-type", "application/json")], "{}");
    assert_eq!((refused.status, refused.header("www-authenticate").as_deref()), (401, Some("Bearer")));

    let mut socket = Socket::with_token(&served, Some(&secret));
    let session = socket.open(&place);
    let bearer = format!("Bearer {secret}");
    let poster = Poster::new(&served, Some(&bearer));
    let (_, mut stream) = poster.stream(None);
    // A connection belongs to the token it was begun with.
    let (other, _) = make(&place, "other");
    let stranger = format!("Bearer {other}");
    let headers = [("acp-connection-id", poster.id.as_str()), ("authorization", &stranger)];
    assert_eq!(served.ask("DELETE", &headers, "").status, 404);

    let revoked = place.json(&["token", "revoke", &id]);
    assert_eq!((&revoked["tokenId"], revoked["revokedAt"].is_string()), (&json!(id), true));
    assert_eq!(status(Socket::silent(&served, Some(&secret))), 401);
    assert_eq!(poster.end(), 401);
    assert_eq!(socket.hear().unwrap_err(), "signed out");
    assert_eq!(stream.next(), None);
    // The session is as it was.
    let mut socket = Socket::with_token(&served, Some(&other));
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    assert!(socket.call("session/load", params)["result"].is_object());
}

#[test]
fn a_token_is_shown_once_and_listed_without_its_secret() {
    let place = Place::new();
    let secret = place.ok(&["token", "new", "--name", "laptop"]);
    assert_eq!(secret.len(), "acpx_".len() + 64 + 1);
    let listed = place.json(&["token", "list"]);
    let token = &listed["tokens"][0];
    assert_eq!((&token["name"], token.get("lastUsedAt")), (&json!("laptop"), None));
    let served = Served::new(&place, &[]);
    Socket::with_token(&served, Some(secret.trim()));
    let used = place.json(&["token", "list"]);
    assert!(used["tokens"][0]["lastUsedAt"].is_string(), "{used}");
    assert!(!place.ok(&["token", "list"]).contains(secret.trim()));
    let done = place.acpx(&["--format", "json", "token", "revoke", "no"]);
    assert_eq!(done.failure(), ("NO_TOKEN".into(), "acpx token list shows the ids".into(), Some(1)));
}

#[test]
fn websocket_messages_count_as_use_of_their_token() {
    let place = Place::new();
    let (secret, _) = make(&place, "laptop");
    let served = Served::new(&place, &[]);
    let mut socket = Socket::with_token(&served, Some(&secret));
    // As if it had been open for long.
    let file = place.acpx_home().join("tokens.json");
    let long_ago = json!("2020-01-01T00:00:00.000Z");
    let forget = || {
        let mut kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        kept["tokens"][0]["lastUsedAt"] = long_ago.clone();
        std::fs::write(&file, kept.to_string()).unwrap();
    };
    let is_listed = || {
        let used = place.json(&["token", "list"])["tokens"][0]["lastUsedAt"].clone();
        used.is_string() && used != long_ago
    };
    forget();
    let session = socket.open(&place);
    eventually("the use is listed", is_listed);
    // One at the last moment too.
    forget();
    socket.call("session/close", json!({ "sessionId": session }));
    served.stop();
    assert!(is_listed());
}

/// The status of a WebSocket handshake with these headers, and the subprotocol that the server selects.
fn handshake(served: &Served, headers: &[(&str, &str)]) -> (u16, Option<String>) {
    let mut stream = served.stream();
    write!(
        stream,
        "GET /acp HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n",
        served.place
    )
    .unwrap();
    write!(stream, "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n").unwrap();
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n").unwrap();
    }
    write!(stream, "\r\n").unwrap();
    let answer = head(&mut BufReader::new(stream));
    assert!(!answer.head.contains("bearer."), "{}", answer.head);
    (answer.status, answer.header("sec-websocket-protocol"))
}

fn offer(subprotocols: &str) -> (&str, &str) {
    ("sec-websocket-protocol", subprotocols)
}

#[test]
fn websocket_subprotocol_carries_the_token_and_acp_v1_is_selected() {
    let (place, open) = (Place::new(), Place::new());
    let (secret, id) = make(&place, "page");
    let served = Served::new(&place, &[]);
    let (token, bearer) = (format!("bearer.{secret}"), format!("Bearer {secret}"));
    let both = format!("acp.v1, {token}");
    let acp = || Some("acp.v1".to_owned());
    assert_eq!(handshake(&served, &[offer(&both)]), (101, acp()));
    assert_eq!(handshake(&served, &[offer(&token), offer("chat,acp.v1")]), (101, acp()));
    assert_eq!(handshake(&served, &[offer("acp.v1"), ("authorization", &bearer)]), (101, acp()));
    // Without `acp.v1` the server selects none, and the client decides whether to go on.
    assert_eq!(handshake(&served, &[offer(&token)]), (101, None));
    assert_eq!(handshake(&served, &[offer("chat, ACP.V1"), ("authorization", &bearer)]), (101, None));
    for refused in [
        &[offer("acp.v1")][..],
        &[offer("acp.v1, bearer.acpx_wrong")],
        &[offer("acp.v1, bearer.")],
        &[offer(&both), offer(&token)],
        &[offer(&both), ("authorization", &bearer)],
    ] {
        assert_eq!(handshake(&served, refused), (401, None), "{refused:?}");
    }
    let evil = ("origin", "https://evil.example");
    assert_eq!(handshake(&served, &[offer(&both), evil]), (403, None));
    // A home without tokens needs none, and knows none.
    let unprotected = Served::new(&open, &[]);
    assert_eq!(handshake(&unprotected, &[offer("acp.v1")]), (101, acp()));
    assert_eq!(handshake(&unprotected, &[offer(&both)]), (401, None));

    let mut request = served.websocket.as_str().into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", both.parse().unwrap());
    let mut socket = Socket::over(served.stream(), request).unwrap();
    socket.call("initialize", json!({ "protocolVersion": 1 }));
    let session = socket.open(&place);
    assert_eq!(socket.prompt(&session, "hello").1["result"]["stopReason"], "end_turn");
    place.json(&["token", "revoke", &id]);
    assert_eq!(socket.hear().unwrap_err(), "signed out");
    assert_eq!(handshake(&served, &[offer(&both)]), (401, None));
}

#[test]
fn foreign_origin_and_rebound_host_name_are_refused() {
    let place = Place::new();
    let served = Served::new(&place, &["--allow-origin", "https://page.example"]);
    let knock = |headers: &[(&'static str, &str)]| {
        let mut request = served.websocket.as_str().into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        status(Socket::over(served.stream(), request))
    };
    let own = format!("http://{}", served.place);
    let _first = Socket::new(&served);
    assert_eq!(knock(&[]), 101);
    assert_eq!(knock(&[("origin", &own)]), 101);
    assert_eq!(knock(&[("origin", "https://page.example")]), 101);
    assert_eq!(knock(&[("origin", "https://evil.example")]), 403);
    assert_eq!(knock(&[("host", "evil.example")]), 403);
    let asked = |origin| {
        let headers = [("origin", origin), ("access-control-request-method", "POST")];
        let answer = served.ask("OPTIONS", &headers, "");
        (answer.status, answer.header("access-control-allow-origin"))
    };
    assert_eq!(asked("https://page.example"), (204, Some("https://page.example".to_owned())));
    assert_eq!(asked("https://evil.example"), (403, None));
}

#[test]
fn page_may_send_preflight_to_a_named_server_before_its_token() {
    let place = Place::new();
    place.ok(&["token", "new"]);
    let served = Served::new(&place, &["--allow-origin", "https://page.example"]);
    let asked = |method: &str, origin: &str| {
        let mut stream = served.stream();
        write!(stream, "{method} /acp HTTP/1.0\r\nhost: build.example:7443\r\norigin: {origin}\r\n\r\n")
            .unwrap();
        let answer = head(&mut BufReader::new(stream));
        (answer.status, answer.header("access-control-allow-origin"))
    };
    let page = "https://page.example";
    assert_eq!(asked("OPTIONS", page), (204, Some(page.to_owned())));
    assert_eq!(asked("OPTIONS", "https://evil.example"), (403, None));
    // It is let in by what it shows then.
    assert_eq!(asked("DELETE", page).0, 403);
}
