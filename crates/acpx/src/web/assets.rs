//! The files of the page, embedded in the program. They hold no secret, so they need no login.
//!
//! Each file is hashed and compressed once, when the server starts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;

use acpx_core::model::sha256_hex;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The embedded files of the folder `page`, by their paths in it.
macro_rules! page_files {
    ($($path:literal),* $(,)?) => {
        &[$((concat!("/", $path), include_bytes!(concat!("page/", $path)))),*]
    };
}

/// The files. The folder's other files are not served.
const FILES: &[(&str, &[u8])] = page_files![
    "index.html",
    "app.js",
    "style.css",
    "icon.svg",
    "icon-waiting.svg",
    "js/composer.js",
    "js/connection.js",
    "js/conversation.js",
    "js/dialogs.js",
    "js/diff.js",
    "js/dom.js",
    "js/highlight.js",
    "js/items.js",
    "js/list.js",
    "js/markdown.js",
    "js/notify.js",
    "js/outbox.js",
    "js/requests.js",
    "js/sessions.js",
    "js/settings.js",
    "js/signin.js",
    "js/text.js",
    "js/thread.js",
    "js/tool.js",
    "js/virtual.js",
];

/// The file at `/`.
const START: &str = "/index.html";
const HTML: &str = "text/html; charset=utf-8";

/// The content type of a file, by the end of its name.
fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => HTML,
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        Some("woff2") => "font/woff2",
        _ => "text/plain; charset=utf-8",
    }
}

/// Where the page has the server's version. The page compares it with the version in `/session`.
const VERSION_PLACE: &str = r#"<meta name="acpx-version" content="">"#;

/// The embedded files by path.
pub(crate) struct Assets(HashMap<&'static str, Asset>);

struct Asset {
    content_type: &'static str,
    plain: EncodedFile,
    /// Absent if compression does not make it smaller.
    gzip: Option<EncodedFile>,
}

/// One encoding of a file.
struct EncodedFile {
    etag: HeaderValue,
    bytes: Bytes,
}

impl Assets {
    /// The files of this version of the program.
    pub(crate) fn new(version: &str) -> Self {
        let file = |(path, bytes): &(&'static str, &'static [u8])| {
            let kind = content_type(path);
            let path = if *path == START { "/" } else { path };
            (path, Asset::new(kind, with_version(bytes, version, kind == HTML)))
        };
        Self(FILES.iter().map(file).collect())
    }

    /// Whether there is a file with this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The response with the file of a path; `None` if there is no such file.
    pub(crate) fn response(&self, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
        Some(self.0.get(path)?.response(headers))
    }
}

/// The content of a file, with the version in HTML.
fn with_version(bytes: &'static [u8], version: &str, is_html: bool) -> Bytes {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_html => {
            let place = VERSION_PLACE.replace(r#"content="""#, &format!(r#"content="{version}""#));
            match text.replace(VERSION_PLACE, &place).into() {
                Cow::Borrowed(text) => Bytes::copy_from_slice(text.as_bytes()),
                Cow::Owned(text) => text.into(),
            }
        }
        _ => Bytes::from_static(bytes),
    }
}

impl Asset {
    fn new(content_type: &'static str, bytes: Bytes) -> Self {
        let hash = sha256_hex(&bytes);
        let short = &hash[..32];
        let gzip = compressed(&bytes).filter(|packed| packed.len() < bytes.len());
        let gzip =
            gzip.map(|packed| EncodedFile { etag: etag(&format!("{short}-gzip")), bytes: packed.into() });
        Self { content_type, plain: EncodedFile { etag: etag(short), bytes }, gzip }
    }

    fn response(&self, headers: &HeaderMap) -> Response<Body> {
        let gzip = self.gzip.as_ref().filter(|_| accepts_gzip(headers));
        let variant = gzip.unwrap_or(&self.plain);
        let is_known = has_etag(headers, &variant.etag);
        let body = if is_known { Body::empty() } else { Body::from(variant.bytes.clone()) };
        let mut response = Response::new(body);
        let answer = response.headers_mut();
        answer.insert(header::ETAG, variant.etag.clone());
        answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        answer.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if gzip.is_some() {
            answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn etag(text: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{text}\"")).expect("a hash is ASCII")
}

fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// The items of a header with a list.
fn items<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    items(headers, &header::ACCEPT_ENCODING).any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let is_refused = weight.trim().trim_start_matches("q=").parse() == Ok(0.0);
        coding.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

fn has_etag(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    items(headers, &header::IF_NONE_MATCH)
        .any(|known| known == "*" || known.trim_start_matches("W/").as_bytes() == etag.as_bytes())
}
