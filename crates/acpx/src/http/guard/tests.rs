//! Tests of request admission.

use hyper::header::HeaderValue;

use super::*;

const OPEN: Guard = Guard { is_loopback: true, insecure_public: false, origins: Vec::new() };

/// The headers of a request, in order.
type Headers = &'static [(&'static str, &'static str)];

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().map(header) {
        headers.append(name, value);
    }
    headers
}

#[test]
fn request_without_token_needs_a_loopback_host() {
    let page = Guard { origins: vec!["https://page.example".to_owned()], ..OPEN };
    let public = Guard { is_loopback: false, ..OPEN };
    let cases: &[(&Guard, Headers, Result<(), AccessError>)] = &[
        (&OPEN, &[("host", "127.0.0.1:7")], Ok(())),
        (&OPEN, &[("host", "localhost:7")], Ok(())),
        (&OPEN, &[("host", "[::1]:7")], Ok(())),
        (&OPEN, &[("host", "[::ffff:127.0.0.1]:7")], Ok(())),
        (&OPEN, &[("host", "127.0.0.1.evil.example:7")], Err(AccessError::Host)),
        (&OPEN, &[("host", "evil.example")], Err(AccessError::Host)),
        (&OPEN, &[("host", "localhost.evil.example")], Err(AccessError::Host)),
        (&OPEN, &[], Err(AccessError::Host)),
        (&OPEN, &[("host", "localhost"), ("host", "evil.example")], Err(AccessError::Host)),
        (&OPEN, &[("host", "localhost:7"), ("origin", "http://localhost:7")], Ok(())),
        (&OPEN, &[("host", "localhost:7"), ("origin", "http://localhost:8")], Err(AccessError::Origin)),
        (&OPEN, &[("host", "localhost:7"), ("origin", "null")], Err(AccessError::Origin)),
        (&OPEN, &[("host", "localhost:7"), ("origin", "https://page.example")], Err(AccessError::Origin)),
        (&page, &[("host", "localhost:7"), ("origin", "https://page.example")], Ok(())),
        (
            &page,
            &[("host", "localhost:7"), ("origin", "https://page.example.evil")],
            Err(AccessError::Origin),
        ),
        (&OPEN, &[("host", "evil.example"), ("origin", "http://evil.example")], Err(AccessError::Host)),
        (&public, &[("host", "192.0.2.7:7443")], Ok(())),
        (&public, &[("host", "[2001:db8::7]")], Ok(())),
        (&public, &[("host", "far.example")], Err(AccessError::Host)),
        (&public, &[], Err(AccessError::Host)),
    ];
    for (guard, shown, expected) in cases {
        let headers = headers(shown);
        let uri = Uri::from_static("/acp");
        let seen = guard.check_headers(&uri, &headers);
        assert_eq!(seen, expected.map(|()| None), "{shown:?}");
    }
    let headers = headers(&[]);
    for (uri, expected) in
        [("http://localhost:7/acp", Ok(None)), ("http://evil.example/acp", Err(AccessError::Host))]
    {
        assert_eq!(OPEN.check_headers(&Uri::from_static(uri), &headers), expected);
    }
}

#[test]
fn bearer_scheme_is_case_insensitive_and_origin_still_applies() {
    let uri = Uri::from_static("/acp");
    let shown = headers(&[("host", "far.example"), ("authorization", "bearer acpx_x")]);
    assert_eq!(OPEN.check_headers(&uri, &shown), Ok(Some("acpx_x")));
    for value in ["Basic acpx_x", "acpx_x", ""] {
        let shown = headers(&[("host", "localhost"), ("authorization", value)]);
        assert_eq!(OPEN.check_headers(&uri, &shown), Err(AccessError::BadToken), "{value}");
    }
    let twice = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]);
    assert_eq!(OPEN.check_headers(&uri, &twice), Err(AccessError::BadToken));
    let page = [("host", "localhost"), ("authorization", "Bearer a"), ("origin", "http://evil.example")];
    assert_eq!(OPEN.check_headers(&uri, &headers(&page)), Err(AccessError::Origin));
}

#[test]
fn bearer_subprotocol_is_a_secret_and_two_secrets_are_refused() {
    let uri = Uri::from_static("/acp");
    let cases: &[(Headers, Result<Option<&str>, AccessError>)] = &[
        (&[("sec-websocket-protocol", "acp.v1, bearer.acpx_x")], Ok(Some("acpx_x"))),
        (&[("sec-websocket-protocol", "bearer.acpx_x ,acp.v1")], Ok(Some("acpx_x"))),
        (&[("sec-websocket-protocol", "acp.v1"), ("sec-websocket-protocol", "bearer.x")], Ok(Some("x"))),
        (&[("sec-websocket-protocol", "acp.v1, Bearer.x"), ("host", "localhost")], Ok(None)),
        (&[("sec-websocket-protocol", "bearer.x, bearer.x")], Err(AccessError::BadToken)),
        (
            &[("sec-websocket-protocol", "bearer.x"), ("authorization", "Bearer x")],
            Err(AccessError::BadToken),
        ),
        (
            &[("sec-websocket-protocol", "bearer.x"), ("host", "a"), ("origin", "http://evil.example")],
            Err(AccessError::Origin),
        ),
    ];
    for (shown, expected) in cases {
        assert_eq!(OPEN.check_headers(&uri, &headers(shown)), *expected, "{shown:?}");
    }
}

#[test]
fn request_without_token_is_refused_if_tokens_exist_or_public() {
    let guard = |is_loopback, insecure_public| Guard { is_loopback, insecure_public, origins: Vec::new() };
    let admitted = [
        (true, false, false, true),
        (true, false, true, false),
        (false, false, false, false),
        (false, true, false, true),
        (false, true, true, false),
    ];
    for (is_loopback, insecure, needed, expected) in admitted {
        assert_eq!(guard(is_loopback, insecure).admits_without_token(needed), expected);
    }
}

#[test]
fn an_origin_is_a_scheme_and_a_host_or_every_page() {
    for origin in ["*", "https://page.example", "http://localhost:3000", "https://[::1]:7"] {
        assert_eq!(read_origin(origin), Ok(origin.to_owned()));
    }
    for wrong in [
        "",
        "nonsense",
        "https://",
        "https://page.example/",
        "ftp://x",
        "https://me@x",
        "null",
        "https://a b",
    ] {
        assert!(read_origin(wrong).is_err(), "{wrong}");
    }
}
