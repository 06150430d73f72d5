//! The relay before servers that are none of ours, and that do not behave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::json;

use crate::acpx::{Place, text};

/// A request: its first line, and its headers.
struct Asked {
    line: String,
    headers: Vec<(String, String)>,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A server that answers every request with what is made of it, on a connection of its own; its port. It is there for
/// as long as the test.
fn server(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = std::sync::Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                let mut headers = Vec::new();
                loop {
                    let mut header = String::new();
                    reader.read_line(&mut header).unwrap();
                    let Some((name, value)) = header.trim().split_once(": ") else { break };
                    headers.push((name.to_ascii_lowercase(), value.to_owned()));
                }
                let asked = Asked { line, headers };
                let length =
                    asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
                reader.read_exact(&mut vec![0; length]).unwrap();
                answer(&asked, reader.get_mut());
            });
        }
    });
    port
}

fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}

#[test]
fn a_server_that_repeats_the_token_does_not_have_it_shown() {
    let place = Place::new();
    let secret = "acpx_5ec4e7";
    let file = place.path_of("token");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let port = server(|asked, stream| {
        let words = format!("no: {}", asked.header("authorization").unwrap_or_default());
        respond(stream, "403 Forbidden", "", &words);
    });
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }).to_string();
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:{port}/acp");
        let done = place
            .acpx_with_stdin(&format!("{greeting}\n"), &["remote-agent", &url, "--token-file", &text(&file)]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("no: Bearer [token]") && !done.err.contains(secret), "{done:?}");
    }
}

#[test]
fn missing_or_empty_token_file_is_reported() {
    let place = Place::new();
    let empty = place.path_of("empty");
    std::fs::write(&empty, "\n").unwrap();
    let missing = text(place.path_of("missing"));
    for (file, why) in
        [(text(&empty).as_str(), "it is empty"), (&missing, "No such file"), ("token", "absolute")]
    {
        let done = place.acpx_with_stdin("", &["remote-agent", "ws://127.0.0.1:1/acp", "--token-file", file]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains(why) && done.err.contains("put the token of that machine"), "{done:?}");
    }
}

#[test]
fn end_of_a_session_stream_is_a_disconnect_and_cookies_are_returned() {
    let place = Place::new();
    let port = server(|asked, stream| {
        let is_session = asked.header("acp-session-id").is_some();
        let is_known = asked.header("cookie") == Some("way=3");
        if asked.line.starts_with("GET") {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            drop(stream.write_all(head.as_bytes()));
            // That of the session ends at once, that of the connection with its reader.
            while !is_session && stream.read(&mut [0; 64]).is_ok_and(|size| size > 0) {}
        } else if is_known {
            respond(stream, "202 Accepted", "", "");
        } else {
            let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
            respond(stream, "200 OK", "acp-connection-id: c\r\nset-cookie: way=3; Path=/\r\n", body);
        }
    });
    let mut command = place.command(&["remote-agent", &format!("http://127.0.0.1:{port}/acp")]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    for (id, method, params) in
        [(1, "initialize", json!({})), (2, "session/prompt", json!({ "sessionId": "s" }))]
    {
        writeln!(to, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .unwrap();
    }
    let output = child.wait_with_output().unwrap();
    drop(to);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("the stream of a session has ended"), "{err}");
}
