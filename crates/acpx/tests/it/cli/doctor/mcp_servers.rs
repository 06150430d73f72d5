//! The doctor's own connections to the configured MCP servers.

use std::fs;

use acpx_testkit::{Script, ScriptStep, children_of, scripted_agent_command};
use serde_json::{Value, json};

use super::findings;
use crate::acpx::{Done, Place, text};
use crate::cli::processes::is_alive;
use crate::remote::Served;

const SECRET: &str = "hush-hush-hush";

fn connections(done: &Done) -> Vec<(String, String)> {
    let (found, _) = findings(done);
    let ours = found.into_iter().filter(|(_, check, _)| check == "MCP connect");
    ours.map(|(level, _, detail)| (level, detail)).collect()
}

fn server(name: &str, argv: &[String]) -> Value {
    let env = json!([{ "name": "TOKEN", "value": SECRET }]);
    json!({ "name": name, "command": argv[0], "args": argv[1..], "env": env })
}

/// A server that has two tools and starts a child.
fn two_tools() -> Script {
    let info = json!({ "name": "files", "version": "3" });
    let tool = |name: &str| json!({ "name": name, "inputSchema": {} });
    Script::new().step(ScriptStep::Child { seconds: 600, holds_stdout: true, own_group: false }).serve([
        (
            "initialize",
            Script::new().reply(json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": info,
            })),
        ),
        ("tools/list", Script::new().reply(json!({ "tools": [tool("a"), tool("b")] }))),
    ])
}

#[test]
fn doctor_connects_to_each_configured_mcp_server_and_names_what_failed() {
    let place = Place::new();
    let good = scripted_agent_command(&two_tools(), &place.home);
    let shell = |command: &str| ["/bin/sh", "-c", command].map(String::from);
    let servers = json!([
        server("good", &good),
        server("dying", &shell("echo \"no $TOKEN\" >&2; exit 4")),
        { "name": "missing", "command": "no-such-program" },
        { "name": "web", "type": "http", "url": "http://127.0.0.1:1/mcp", "headers": [] },
        { "name": "old", "type": "sse", "url": "http://127.0.0.1:1/sse" },
        server("slow", &shell("exec sleep 600")),
    ]);
    place.configure(&json!({ "mcpServers": servers }).to_string());
    let done = place.acpx(&["--format", "json", "--timeout", "2", "doctor"]);
    let found = connections(&done);
    let (level, words) = &found[0];
    assert!(level == "ok" && words.starts_with("good: files 3, 2 tools, after "), "{done:?}");
    let rest: Vec<(&str, &str)> = found[1..].iter().map(|(level, words)| (&**level, &**words)).collect();
    let file = place.acpx_home().join("config.json").display().to_string();
    let missing =
        format!("{file}: the command \"no-such-program\" of the MCP server \"missing\" was not found");
    assert_eq!(
        rest,
        [
            ("fail", "dying: it ended (exit code 4): no [secret]"),
            ("fail", &*missing),
            ("fail", "web: cannot reach 127.0.0.1:1: Connection refused (os error 111)"),
            ("warn", "old: acpx does not speak sse, so it is not tested"),
            ("fail", "slow: it did not answer within 2 s"),
        ]
    );
    let hint = format!("then correct its entry in {file}; then type acpx doctor again");
    assert!(done.out.contains(&hint) && !done.out.contains(SECRET), "{done:?}");
    assert_eq!(done.code, Some(1));
    assert!(!is_alive(children_of(&good)[0]), "the doctor ends the whole group of a server");
}

#[test]
fn doctor_of_an_agent_connects_to_the_mcp_servers_of_its_session() {
    let place = Place::new();
    let good = scripted_agent_command(&two_tools(), &place.home);
    fs::write(place.work().join("mcp.json"), json!({ "mcpServers": [server("good", &good)] }).to_string())
        .unwrap();
    for line in [&["demo", "doctor"][..], &["doctor"]] {
        let done = place.acpx(&[&["--format", "json", "--mcp-config", "mcp.json"], line].concat());
        let found = connections(&done);
        assert!(found.len() == 1 && found[0].1.starts_with("good: files 3, 2 tools, after "), "{done:?}");
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

#[test]
fn doctor_starts_no_mcp_server_that_only_a_project_names() {
    let place = Place::new();
    let mark = place.work().join("started");
    let command = format!("touch {}", mark.display());
    let servers = json!([{ "name": "theirs", "command": "/bin/sh", "args": ["-c", command] }]);
    fs::write(place.work().join(".acpxrc.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
    fs::write(place.work().join(".mcp.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
    for line in [&["doctor"][..], &["demo", "doctor"]] {
        let done = place.acpx(&[&["--format", "json"], line].concat());
        assert_eq!((connections(&done), mark.exists()), (vec![], false), "{done:?}");
    }
}

#[test]
fn mcp_server_over_tls_is_reached_only_with_a_trusted_certificate() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (place.path_of("cert.pem"), place.path_of("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let served = Served::new(&place, &["--tls-cert", &text(&certificate), "--tls-key", &text(&key)]);
    let port = served.place.rsplit(':').next().unwrap();
    let web = json!({ "name": "web", "type": "http", "url": format!("https://localhost:{port}/mcp") });
    place.configure(&json!({ "mcpServers": [web] }).to_string());
    let doctor = || place.command(&["--format", "json", "doctor"]);
    let trusted = connections(&Done::of(doctor().env("SSL_CERT_FILE", &certificate)));
    assert!(trusted[0].1.starts_with("web: it answered HTTP 404"), "{trusted:?}");
    let strange = connections(&Done::of(&mut doctor()));
    let beginning = format!("web: cannot reach localhost:{port}: invalid peer certificate");
    assert!(strange[0].1.starts_with(&beginning), "{strange:?}");
}
