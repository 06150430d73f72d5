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
    server.guard.look_at_origin(request.uri(), request.headers())?;
    let is_preflight = request.method() == Method::OPTIONS;
    let mut response = next.run(request).await;
    if is_preflight {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::HeaderMap;
    use http_body_util::BodyExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::*;

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
        let shown = TowerToHyperService::new(router).call(request).await.unwrap();
        let shown = shown.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            std::str::from_utf8(&shown).unwrap(),
            r#"{"authorization": Sensitive, "sec-websocket-protocol": Sensitive, "sec-websocket-protocol": Sensitive, "x-shown": "yes"}"#
        );
    }
}
