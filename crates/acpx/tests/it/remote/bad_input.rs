//! What a server refuses to do, and a client to go to.

use crate::acpx::{Place, text};

#[test]
fn public_address_needs_a_token_and_tls_or_explicit_flags() {
    let place = Place::new();
    let failure = |flags: &[&str]| {
        let done =
            place.acpx(&[&["--format", "json", "demo", "serve", "--listen", "0.0.0.0:0"], flags].concat());
        done.failure()
    };
    let refused = |hint: &str| ("PUBLIC_ADDRESS".to_owned(), hint.to_owned(), Some(2));
    assert_eq!(
        failure(&[]),
        refused("create a token with acpx token new, and give --tls-cert and --tls-key")
    );
    assert_eq!(
        failure(&["--tls-cert", "c", "--tls-key", "k"]),
        refused("create a token with acpx token new")
    );
    place.ok(&["token", "new"]);
    assert_eq!(
        failure(&[]),
        refused("give --tls-cert and --tls-key; behind a proxy with TLS, listen on 127.0.0.1")
    );
    assert_eq!(failure(&["--tls-cert", "c", "--tls-key", "k"]).0, "TLS_UNUSABLE");
    let mut open = place.start(&["demo", "serve", "--listen", "0.0.0.0:0", "--insecure-public"]);
    open.wait_for("serving demo at http://0.0.0.0:");
}

#[test]
fn invalid_url_is_reported_before_anything_starts() {
    let place = Place::new();
    let failure = |arguments: &[&str]| {
        let (code, hint, exit) = place.acpx(&[&["--format", "json"], arguments].concat()).failure();
        assert_eq!(exit, Some(2), "{arguments:?}");
        (code, hint)
    };
    let bad = |hint: &str| ("BAD_URL".to_owned(), hint.to_owned());
    assert_eq!(
        failure(&["--agent", "ws://far.example/acp", "sessions", "new"]),
        bad("use wss:// or https://, or put --insecure behind the URL")
    );
    assert_eq!(
        failure(&["--agent", "wss://me:word@far.example", "sessions", "new"]),
        bad("give a token as ACPX_REMOTE_TOKEN, or as tokenFile in the configuration")
    );
    assert_eq!(failure(&["demo", "serve", "--listen", "far.example:1"]).0, "USAGE");
    assert_eq!(failure(&["demo", "serve", "--tls-cert", "c"]).0, "USAGE");
    assert_eq!(failure(&["token"]).0, "USAGE");
    assert_eq!(failure(&["demo", "token", "list"]).0, "USAGE");
    place.configure(r#"{ "agents": { "far": { "url": "ftp://x" } } }"#);
    let done = place.acpx(&["--format", "json", "far", "sessions", "new"]);
    assert_eq!(done.failure().0, "CONFIG_INVALID");
}

#[test]
fn server_that_cannot_listen_fails_with_a_hint() {
    let place = Place::new();
    let failure = |address: &str, flags: &[&str]| {
        let done = place.acpx(&[&["--format", "json", "demo", "serve", "--listen", address], flags].concat());
        done.failure()
    };
    let system = |hint: &str| ("SYSTEM".to_owned(), hint.to_owned(), Some(1));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(
        failure(&taken.local_addr().unwrap().to_string(), &[]),
        system(
            "another program listens there; choose another port with --listen, or port 0 for any free one"
        )
    );
    // An address of documents, which no machine has.
    assert_eq!(
        failure("192.0.2.1:0", &["--insecure-public"]),
        system(
            "this machine does not have that address; 127.0.0.1 listens locally only, and 0.0.0.0 on all addresses"
        )
    );
    let named = place.acpx(&["demo", "serve", "--listen", "far.example:1"]);
    assert!(named.err.contains("expected an IP address, or localhost, with a port"), "{named:?}");
}

#[test]
fn unreadable_token_file_admits_no_client() {
    let place = Place::new();
    let served = super::Served::new(&place, &[]);
    std::fs::write(place.acpx_home().join("tokens.json"), "{").unwrap();
    let refused = served.ask("POST", &[("content-type", "application/json")], "{}");
    assert_eq!(refused.status, 503);
    let done = place.acpx(&["--format", "json", "demo", "serve"]);
    let file = text(place.acpx_home().join("tokens.json"));
    assert_eq!(done.failure().0, "TOKENS_UNUSABLE");
    assert!(done.out.contains(&file), "{done:?}");
}
