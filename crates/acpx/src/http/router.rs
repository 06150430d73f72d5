//! The routes of the server, and the layers that a request passes before it reaches one.
//!
//! Every request passes the outer layers: headers with secrets are marked as sensitive, so that no trace prints them;
//! web pages of foreign origins are refused; allowed ones get CORS headers. The layers of `/acp` admit a request by its
//! token and bound its body. A route with other rules is added next to `/acp`, with its own layers.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Router, routing};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use super::refusal::HttpRefusal;
use super::server::HttpServer;
use super::{CONNECTION, PATH, SESSION, longest_line, request};

/// How long a body may make no progress. A long one may arrive slowly.
const BODY: Duration = Duration::from_mins(1);

/// The routes of a server.
pub(crate) fn router(server: &Arc<HttpServer>) -> Router {
    // A handler of `GET` would get `HEAD`, too, and open a stream for it.
    let methods = routing::get(request::get)
        .post(request::post)
        .delete(request::delete)
        .head(unsupported)
        .fallback(unsupported);
    let acp = Router::new()
        .route(PATH, methods)
        .route_layer(RequestBodyLimitLayer::new(longest_line()))
        .route_layer(RequestBodyTimeoutLayer::new(BODY))
        .route_layer(middleware::from_fn_with_state(Arc::clone(server), request::admit));
    Router::new()
        .merge(acp)
        .fallback(async || HttpRefusal::Path)
        .layer(cors(Arc::clone(server)))
        .layer(middleware::from_fn_with_state(Arc::clone(server), check_origin))
        .layer(mask_secrets())
        .with_state(Arc::clone(server))
}

/// Marks the headers that carry tokens.
fn mask_secrets() -> SetSensitiveRequestHeadersLayer {
    SetSensitiveRequestHeadersLayer::new([AUTHORIZATION, COOKIE, SEC_WEBSOCKET_PROTOCOL])
}

async fn unsupported() -> HttpRefusal {
    HttpRefusal::Method
}

/// Adds the CORS headers for allowed origins and answers preflight requests, which never carry a token.
fn cors(server: Arc<HttpServer>) -> CorsLayer {
    let is_allowed = AllowOrigin::predicate(move |origin, _| {
        origin.to_str().is_ok_and(|origin| server.guard.allows(origin))
    });
    CorsLayer::new()
        .allow_origin(is_allowed)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([AUTHORIZATION, CONTENT_TYPE, CONNECTION, SESSION])
        .expose_headers([CONNECTION, SESSION])
}

/// Refuses web pages of foreign origins, also in preflight requests. [`CorsLayer`] only withholds headers from them,
/// which keeps a page from reading the response and not from sending the request.
async fn check_origin(
    State(server): State<Arc<HttpServer>>,
    request: Request,
    next: Next,
) -> Result<Response, HttpRefusal> {
    server.guard.check_origin(request.uri(), request.headers())?;
    let is_preflight = request.method() == Method::OPTIONS;
    let mut response = next.run(request).await;
    if is_preflight {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use acpx_core::protocol::meta::ClientMeta;
    use axum::body::Body;
    use axum::http::HeaderMap;
    use axum::http::header::ACCESS_CONTROL_ALLOW_ORIGIN;
    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::BodyExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use tokio::time::Instant;

    use super::super::guard::Guard;
    use super::super::peer_process::SocketAddresses;
    use super::super::server::{Allowance, Hosts};
    use super::*;

    /// The response of a router: its status, the origin that may read it, and its text.
    async fn answer(router: Router, request: Request) -> (u16, Option<String>, String) {
        let (head, body) = TowerToHyperService::new(router).call(request).await.unwrap().into_parts();
        let origin =
            head.headers.get(ACCESS_CONTROL_ALLOW_ORIGIN).map(|origin| origin.to_str().unwrap().to_owned());
        let text = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), origin, String::from_utf8(text.to_vec()).unwrap())
    }

    /// The routes of a home without tokens and without a host.
    fn routes(home: &tempfile::TempDir) -> Router {
        let hosts = Hosts {
            directory: home.path().to_owned(),
            bridge: Box::new(|_| unreachable!("no request here gets to the host")),
            no_host: |_| {},
        };
        let origins = vec!["https://page.example".to_owned()];
        let guard = Guard { is_loopback: true, insecure_public: false, origins };
        router(&HttpServer::new(hosts, "home".to_owned(), ClientMeta::default(), guard, Allowance::default()))
    }

    /// The headers of a request, in order.
    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn request(method: &Method, path: &str, headers: Headers<'_>, body: Body) -> Request {
        let address = "127.0.0.1:7".parse().unwrap();
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:7");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.extension(SocketAddresses { theirs: address, ours: address }).body(body).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_request_body_times_out_with_408() {
        let home = tempfile::tempdir().unwrap();
        let json = [("content-type", "application/json")];
        let stalled = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let began = Instant::now();
        let answered = answer(routes(&home), request(&Method::POST, PATH, &json, stalled)).await;
        assert_eq!(answered, (408, None, "the body took too long".to_owned()));
        assert_eq!(began.elapsed(), BODY);
    }

    #[tokio::test]
    async fn layers_refuse_requests_before_their_handlers() {
        let home = tempfile::tempdir().unwrap();
        let too_long = (longest_line() + 1).to_string();
        let (page, evil) = (("origin", "https://page.example"), ("origin", "https://evil.example"));
        let cases: &[(Method, &str, Headers<'_>, u16, &str)] = &[
            (Method::GET, "/", &[], 404, "the ACP endpoint is /acp"),
            (Method::GET, "/", &[evil], 403, "requests of this Origin are not allowed"),
            (Method::HEAD, PATH, &[("accept", "text/event-stream")], 405, ""),
            (Method::PATCH, PATH, &[], 405, "only POST, GET and DELETE are supported"),
            (Method::POST, PATH, &[("content-length", &too_long)], 413, "length limit exceeded"),
            (
                Method::POST,
                PATH,
                &[("authorization", "Bearer x"), ("content-length", &too_long)],
                401,
                "this token is unknown or revoked",
            ),
            // A page that is allowed may also read why it is refused.
            (Method::GET, PATH, &[page], 406, "only text/event-stream is available"),
            (
                Method::GET,
                PATH,
                &[page, ("authorization", "Bearer x")],
                401,
                "this token is unknown or revoked",
            ),
            (Method::OPTIONS, PATH, &[page], 204, ""),
        ];
        for (method, path, headers, status, text) in cases {
            let answered = answer(routes(&home), request(method, path, headers, Body::empty())).await;
            let reader = headers.contains(&page).then(|| page.1.to_owned());
            assert_eq!(answered, (*status, reader, (*text).to_owned()), "{method} {path} {headers:?}");
        }
    }

    #[tokio::test]
    async fn tokens_in_headers_are_masked_in_debug_output() {
        let show = routing::get(async |headers: HeaderMap| format!("{headers:?}"));
        let router = Router::new().route("/", show).layer(mask_secrets());
        let request = Request::get("/")
            .header("authorization", "Bearer secret")
            .header("sec-websocket-protocol", "acp.v1")
            .header("sec-websocket-protocol", "bearer.secret")
            .header("x-shown", "yes");
        let request = request.body(Body::empty()).unwrap();
        assert_eq!(
            answer(router, request).await.2,
            r#"{"authorization": Sensitive, "sec-websocket-protocol": Sensitive, "sec-websocket-protocol": Sensitive, "x-shown": "yes"}"#
        );
    }
}
