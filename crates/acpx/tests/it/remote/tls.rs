//! A server with a certificate, and a client that trusts it.

use super::Served;
use crate::acpx::{Done, Place, text};

#[test]
fn tls_session_runs_over_websocket_and_http_and_untrusted_certificates_fail() {
    let (far, near) = (Place::new(), Place::new());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (far.path_of("cert.pem"), far.path_of("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let flags = ["--tls-cert", &text(&certificate), "--tls-key", &text(&key)];
    let served = Served::new(&far, &flags);
    assert!(served.url.starts_with("https://"), "{}", served.url);
    let port = served.place.rsplit(':').next().unwrap();
    for scheme in ["wss", "https"] {
        let url = format!("{scheme}://localhost:{port}/acp");
        let arguments = ["--agent", &url, "exec", "hello"];
        let mut trusting = near.command(&arguments);
        let done = Done::of(trusting.env("SSL_CERT_FILE", &certificate));
        assert!(done.out.contains("You said: hello"), "{scheme}: {done:?}");
        let done = near.acpx(&arguments);
        assert!(done.code != Some(0) && done.err.contains("cannot be trusted"), "{scheme}: {done:?}");
        assert!(done.err.contains("SSL_CERT_FILE"), "{scheme}: {done:?}");
    }
}

#[test]
fn tls_client_of_a_plain_server_gets_a_hint_for_plain_http() {
    let (far, near) = (Place::new(), Place::new());
    let served = Served::new(&far, &[]);
    for scheme in ["wss", "https"] {
        let url = format!("{scheme}://{}/acp", served.place);
        let done = near.acpx(&["--agent", &url, "exec", "hello"]);
        assert!(
            done.code != Some(0) && done.err.contains("the server does not use TLS: use ws://"),
            "{scheme}: {done:?}"
        );
    }
}
