//! The routes in process: who gets in, what every response carries, and what is refused.

use acpx_core::protocol::meta::{AccessScope, ClientMeta};
use axum::body::Body;
use axum::http::HeaderMap;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::*;
use crate::http::guard::Guard;
use crate::http::server::{Allowance, Hosts, HttpServer};
use crate::web::codes::OneTimeCodes;
use crate::web::origin::{OwnOrigins, PublicUrl};

const OWN: &str = "http://127.0.0.1:7";

/// A server without a host, and its home.
struct TestSite {
    home: tempfile::TempDir,
    server: Arc<WebServer>,
}

/// A response: its status, headers and text.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// The headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

impl TestSite {
    fn new() -> Self {
        Self::with(OwnOrigins { public: None, is_secure: false })
    }

    fn with(origins: OwnOrigins) -> Self {
        let home = tempfile::tempdir().unwrap();
        let hosts = Hosts {
            directory: home.path().to_owned(),
            bridge: Box::new(|_| unreachable!("no request here gets to the host")),
            no_host: |_| {},
        };
        let guard = Guard { is_loopback: true, insecure_public: false, origins: Vec::new() };
        let (client, allowance) = (ClientMeta::default(), Allowance::default());
        let http = HttpServer::new(hosts, "home".to_owned(), client, guard, allowance);
        let codes = OneTimeCodes::of(home.path());
        let server = WebServer::new(http, origins, codes, 7, "1.0 (abc)".to_owned());
        Self { home, server }
    }

    async fn send(&self, method: Method, path: &str, headers: Headers<'_>, body: &str) -> Answer {
        self.send_from("192.0.2.7:50000", method, path, headers, body).await
    }

    async fn send_from(
        &self,
        client: &str,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: &str,
    ) -> Answer {
        let (theirs, ours) = (client.parse().unwrap(), "127.0.0.1:7".parse().unwrap());
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:7");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.extension(SocketAddresses { theirs, ours });
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let answered = TowerToHyperService::new(router(&self.server)).call(request).await.unwrap();
        let (head, body) = answered.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    async fn get(&self, path: &str, headers: Headers<'_>) -> Answer {
        self.send(Method::GET, path, headers, "").await
    }

    async fn login(&self, code: &str, headers: Headers<'_>) -> Answer {
        let body = json!({ "code": code, "name": "Firefox\u{7} on Linux" }).to_string();
        self.send(Method::POST, "/login", &[&[("origin", OWN)], headers].concat(), &body).await
    }

    fn code(&self, scope: AccessScope) -> String {
        OneTimeCodes::of(self.home.path()).make(scope).unwrap()
    }

    /// Signs a device in, and returns what it sends as `Cookie`.
    async fn cookie(&self, scope: AccessScope) -> String {
        let signed_in = self.login(&self.code(scope), &[]).await;
        assert_eq!(signed_in.status, 204);
        signed_in.header("set-cookie").split(';').next().unwrap().to_owned()
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

#[tokio::test]
async fn every_response_of_the_page_has_the_security_headers() {
    let site = TestSite::new();
    let cases = [
        (Method::GET, "/", 200),
        (Method::HEAD, "/", 200),
        (Method::GET, "/missing", 404),
        (Method::GET, "/session", 401),
        (Method::GET, "/acp", 401),
        (Method::GET, "/login", 405),
        (Method::PUT, "/", 405),
        (Method::HEAD, "/acp", 405),
        (Method::POST, "/login", 403),
    ];
    for (method, path, status) in cases {
        let answer = site.send(method.clone(), path, &[], "").await;
        assert_eq!(answer.status, status, "{method} {path}");
        for (name, value) in HEADERS {
            assert_eq!(answer.header(name.as_str()), value, "{method} {path}");
        }
    }
    let policy = site.get("/", &[]).await;
    assert_eq!(
        policy.header("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    );
}

#[tokio::test]
async fn requests_of_other_hosts_origins_and_sites_are_refused() {
    let site = TestSite::new();
    let upgrade = ("upgrade", "websocket");
    let cases: &[(Method, &str, Headers<'_>, u16, &str)] = &[
        (Method::GET, "/", &[("host", "localhost:9000")], 200, ""),
        (Method::GET, "/", &[("host", "[::1]:7")], 200, ""),
        (Method::GET, "/", &[("host", "evil.example")], 403, "host"),
        (Method::GET, "/", &[("host", "192.0.2.1:7")], 403, "host"),
        (Method::GET, "/", &[("origin", OWN)], 200, ""),
        (Method::GET, "/", &[("origin", "https://127.0.0.1:7")], 403, "origin"),
        (Method::GET, "/", &[("origin", "http://127.0.0.1:8")], 403, "origin"),
        (Method::GET, "/", &[("origin", "null")], 403, "origin"),
        (Method::GET, "/", &[("origin", OWN), ("origin", OWN)], 403, "origin"),
        (Method::GET, "/", &[("sec-fetch-site", "none")], 200, ""),
        (Method::GET, "/", &[("sec-fetch-site", "same-origin")], 200, ""),
        (Method::GET, "/", &[("sec-fetch-site", "same-site")], 403, "site"),
        (Method::GET, "/", &[("sec-fetch-site", "cross-site")], 403, "site"),
        (Method::POST, "/login", &[], 403, "origin"),
        (Method::POST, "/logout", &[], 403, "origin"),
        (Method::POST, "/login", &[("origin", OWN), ("sec-fetch-site", "cross-site")], 403, "site"),
        (Method::GET, "/acp", &[upgrade], 403, "origin"),
        (Method::GET, "/acp", &[upgrade, ("origin", "http://evil.example")], 403, "origin"),
        (Method::GET, "/acp", &[upgrade, ("origin", OWN)], 401, "signed_out"),
    ];
    for (method, path, headers, status, word) in cases {
        let answer = site.send(method.clone(), path, headers, "").await;
        assert_eq!(answer.status, *status, "{method} {path} {headers:?}");
        if !word.is_empty() {
            assert_eq!(answer.text(), format!("{{\"error\":\"{word}\"}}"), "{method} {path} {headers:?}");
        }
    }
}

#[tokio::test]
async fn link_of_another_site_opens_only_files_of_the_page() {
    let site = TestSite::new();
    let cross = ("sec-fetch-site", "cross-site");
    let (navigate, document) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
    let link: Headers<'_> = &[cross, navigate, document];
    let foreign: Headers<'_> = &[cross, navigate, document, ("origin", "https://evil.example")];
    let cases: &[(Method, &str, Headers<'_>, u16)] = &[
        (Method::GET, "/", link, 200),
        (Method::HEAD, "/app.js", link, 200),
        (Method::GET, "/", foreign, 403),
        (Method::GET, "/", &[cross, navigate], 403),
        (Method::GET, "/", &[cross, document], 403),
        (Method::GET, "/", &[cross, navigate, ("sec-fetch-dest", "iframe")], 403),
        (Method::GET, "/", &[cross, ("sec-fetch-mode", "no-cors"), document], 403),
        (Method::POST, "/", &[cross, navigate, document, ("origin", OWN)], 403),
        (Method::GET, "/session", link, 403),
        (Method::GET, "/acp", link, 403),
        (Method::GET, "/missing", link, 403),
    ];
    for (method, path, headers, status) in cases {
        let answer = site.send(method.clone(), path, headers, "").await;
        assert_eq!(answer.status, *status, "{method} {path} {headers:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn client_of_an_unknown_local_user_gets_only_files() {
    let site = TestSite::new();
    let cookie = site.cookie(AccessScope::Full).await;
    let headers = [("cookie", cookie.as_str()), ("origin", OWN)];
    // No process has this socket.
    let client = "127.0.0.1:7";
    for (method, path) in [(Method::GET, "/session"), (Method::GET, "/acp"), (Method::POST, "/login")] {
        let refused = site.send_from(client, method.clone(), path, &headers, "{}").await;
        let expected = (403, r#"{"error":"user"}"#.to_owned());
        assert_eq!((refused.status, refused.text()), expected, "{method} {path}");
    }
    assert_eq!(site.send_from(client, Method::GET, "/", &headers, "").await.status, 200);
    assert_eq!(site.get("/session", &headers).await.status, 200);
}

#[tokio::test]
async fn public_url_is_an_own_host_and_its_cookie_is_secure() {
    let public = PublicUrl::parse("https://box.example").ok();
    let site = TestSite::with(OwnOrigins { public, is_secure: false });
    let host = ("host", "box.example");
    assert_eq!(site.get("/", &[host, ("origin", "https://box.example")]).await.status, 200);
    assert_eq!(site.get("/", &[host, ("origin", "http://box.example")]).await.status, 403);
    let code = json!({ "code": site.code(AccessScope::Full) }).to_string();
    let headers = [host, ("origin", "https://box.example")];
    let signed_in = site.send(Method::POST, "/login", &headers, &code).await;
    assert_eq!(signed_in.status, 204);
    assert!(signed_in.header("set-cookie").ends_with("; Secure"), "{}", signed_in.header("set-cookie"));
}

#[tokio::test]
async fn device_signs_in_by_a_code_once_and_out_again() {
    let site = TestSite::new();
    let code = site.code(AccessScope::Answer);
    let signed_in = site.login(&code, &[]).await;
    let (cookie, flags) = signed_in.header("set-cookie").split_once("; ").unwrap();
    assert_eq!((signed_in.status, flags), (204, "HttpOnly; SameSite=Strict; Path=/; Max-Age=31536000"));
    let used = site.login(&code, &[]).await;
    assert_eq!((used.status, used.text()), (401, r#"{"error":"code"}"#.to_owned()));
    let session = site.get("/session", &[("cookie", cookie)]).await;
    assert_eq!(session.header("cache-control"), "no-store");
    let expected = r#"{"version":"1.0 (abc)","scope":"answer","device":"Firefox on Linux"}"#;
    assert_eq!((session.status, session.text()), (200, expected.to_owned()));
    // Without an upgrade there is nothing else at this path.
    assert_eq!(site.get("/acp", &[("cookie", cookie)]).await.status, 426);
    let signed_out = site.send(Method::POST, "/logout", &[("origin", OWN), ("cookie", cookie)], "").await;
    assert_eq!(signed_out.status, 204);
    assert!(signed_out.header("set-cookie").starts_with("acpx-7=; "), "{:?}", signed_out.headers);
    assert_eq!(site.get("/session", &[("cookie", cookie)]).await.status, 401);
}

#[tokio::test]
async fn cookie_of_another_port_or_bearer_token_is_no_session() {
    let site = TestSite::new();
    let cookie = site.cookie(AccessScope::Full).await;
    let secret = cookie.strip_prefix("acpx-7=").unwrap();
    let (bearer, _) = site.server.http.tokens.make(crate::http::tokens::NewToken::default()).unwrap();
    let authorization = format!("Bearer {secret}");
    let wrong = [
        ("cookie", format!("acpx-8={secret}")),
        ("cookie", format!("acpx-7={bearer}")),
        ("cookie", format!("{cookie}0")),
        ("cookie", format!("{cookie}; {cookie}")),
        ("authorization", authorization),
    ];
    for (name, value) in wrong {
        assert_eq!(site.get("/session", &[(name, &value)]).await.status, 401, "{name}: {value}");
    }
    assert_eq!(site.get("/session", &[("cookie", &format!("a=b; {cookie}"))]).await.status, 200);
}

#[tokio::test]
async fn browser_that_signs_in_again_replaces_its_device() {
    let site = TestSite::new();
    let first = site.cookie(AccessScope::Full).await;
    let again = site.login(&site.code(AccessScope::Read), &[("cookie", &first)]).await;
    assert_eq!(again.status, 204);
    assert_eq!(site.get("/session", &[("cookie", &first)]).await.status, 401);
    let open: Vec<_> = site.server.http.tokens.list().unwrap();
    assert_eq!(open.iter().filter(|token| token.revoked_at.is_none()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn blocked_address_gets_no_code_redeemed_and_others_do() {
    let site = TestSite::new();
    let code = site.code(AccessScope::Full);
    let stored = || std::fs::read(site.home.path().join("web-codes.json")).unwrap();
    let before = stored();
    for _ in 0..10 {
        assert_eq!(site.login("wrong", &[]).await.status, 401);
    }
    assert_eq!(site.login(&code, &[]).await.status, 429);
    assert_eq!(stored(), before);
    let body = json!({ "code": code }).to_string();
    let other = site.send_from("192.0.2.8:50000", Method::POST, "/login", &[("origin", OWN)], &body).await;
    assert_eq!(other.status, 204);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(site.login(&site.code(AccessScope::Full), &[]).await.status, 204);
    let long = "x".repeat(LONGEST_LOGIN);
    for body in ["", "[]", "{}", &long] {
        let answer = site.send(Method::POST, "/login", &[("origin", OWN)], body).await;
        assert_eq!(answer.status, 400, "{body:?}");
    }
}

#[tokio::test]
async fn page_files_have_etags_the_version_and_gzip() {
    let site = TestSite::new();
    let plain = site.get("/", &[]).await;
    assert_eq!(plain.header("cache-control"), "no-cache");
    assert_eq!(plain.header("content-type"), "text/html; charset=utf-8");
    assert!(plain.text().contains(r#"<meta name="acpx-version" content="1.0 (abc)">"#), "{}", plain.text());
    let etag = plain.header("etag");
    let known = site.get("/", &[("if-none-match", etag)]).await;
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, etag));
    let packed = site.get("/", &[("accept-encoding", "br, gzip;q=0.5")]).await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"));
    assert_ne!(packed.header("etag"), etag);
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed.body[..]), &mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain.text());
    let refused = site.get("/", &[("accept-encoding", "gzip;q=0")]).await;
    assert_eq!(refused.header("content-encoding"), "");
}
