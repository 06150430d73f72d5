//! Delivers one notification to one sink.

use std::env;

use acpx_core::model::{Timestamp, hmac_sha256_hex};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};

use super::command::{self, CommandError};
use super::payload::NotificationPayload;
use crate::config::notify::{COMMAND_TIMEOUT, NotifySink, SinkSecret, SinkTarget};
use crate::http::client::post::PostError;
use crate::version::VERSION;

/// Why a sink did not take a notification. No error has a secret, a text or the path of a URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("the variable {name} is not set for the host")]
    NoVariable { name: String },
    #[error("the secret cannot be sent in a header")]
    BadToken,
}

const EVENT_ID: HeaderName = HeaderName::from_static("acpx-event-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("acpx-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("acpx-signature");

/// Delivers a notification; `now` is the time of the attempt.
pub(crate) async fn deliver(
    sink: &NotifySink,
    payload: &NotificationPayload,
    now: Timestamp,
) -> Result<(), DeliveryError> {
    match &sink.target {
        SinkTarget::Command(argv) => command::run(argv, payload.to_json(), COMMAND_TIMEOUT).await?,
        SinkTarget::Desktop => {
            command::run(&desktop_argv(payload), String::new(), COMMAND_TIMEOUT).await?;
        }
        SinkTarget::Webhook { target, secret } => {
            let body = payload.to_json();
            let timestamp = (now.as_millis() / 1000).to_string();
            let signature = signature(&value_of(secret)?, &timestamp, &body);
            let mut headers = headers(payload);
            headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
            headers.extend([(TIMESTAMP, text_value(&timestamp)), (SIGNATURE, text_value(&signature))]);
            target.post(headers, body).await?;
        }
        SinkTarget::Ntfy { target, token } => {
            let mut headers = headers(payload);
            headers.extend(ntfy_headers(payload));
            if let Some(token) = token {
                let bearer = HeaderValue::from_str(&format!("Bearer {}", value_of(token)?));
                headers.push((AUTHORIZATION, bearer.map_err(|_| DeliveryError::BadToken)?));
            }
            target.post(headers, payload.words()).await?;
        }
    }
    Ok(())
}

fn value_of(secret: &SinkSecret) -> Result<String, DeliveryError> {
    match secret {
        SinkSecret::Value(value) => Ok(value.clone()),
        SinkSecret::Variable(name) => {
            let value = env::var(name).ok().filter(|value| !value.is_empty());
            value.ok_or_else(|| DeliveryError::NoVariable { name: name.clone() })
        }
    }
}

/// The signature of a webhook: of the time and the body, so that an old message cannot be sent again as a new one.
fn signature(secret: &str, timestamp: &str, body: &str) -> String {
    let signed = format!("{timestamp}.{body}");
    format!("sha256={}", hmac_sha256_hex(secret.as_bytes(), signed.as_bytes()))
}

fn headers(payload: &NotificationPayload) -> Vec<(HeaderName, HeaderValue)> {
    vec![(USER_AGENT, text_value(&format!("acpx/{VERSION}"))), (EVENT_ID, text_value(&payload.event_id))]
}

/// The headers by which ntfy shows a title, opens the page and decides how loud it is.
fn ntfy_headers(payload: &NotificationPayload) -> Vec<(HeaderName, HeaderValue)> {
    let priority = if payload.is_urgent() { "high" } else { "default" };
    let mut headers = vec![
        (HeaderName::from_static("title"), HeaderValue::from_static("acpx")),
        (HeaderName::from_static("tags"), text_value(payload.event)),
        (HeaderName::from_static("priority"), HeaderValue::from_static(priority)),
    ];
    headers.extend(payload.url().map(|url| (HeaderName::from_static("click"), text_value(url))));
    headers
}

/// A text as the value of a header, without characters that a header cannot have.
fn text_value(text: &str) -> HeaderValue {
    let visible: String = text.chars().filter(|character| !character.is_control()).collect();
    HeaderValue::from_bytes(visible.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The program that shows a notification on this desktop. The words are arguments, never part of a script.
fn desktop_argv(payload: &NotificationPayload) -> Vec<String> {
    let words = payload.words();
    if cfg!(target_os = "macos") {
        let script = ["on run argv", "display notification (item 1 of argv) with title \"acpx\"", "end run"];
        let lines = script.iter().flat_map(|line| ["-e", line]);
        return ["osascript"].into_iter().chain(lines).chain([words.as_str()]).map(str::to_owned).collect();
    }
    // Servers read the body as markup.
    let escaped = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let urgency = if payload.is_urgent() { "critical" } else { "normal" };
    let flags = ["notify-send", "--app-name=acpx", "--urgency", urgency, "--", "acpx"];
    flags.into_iter().chain([escaped.as_str()]).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> NotificationPayload {
        NotificationPayload::test("e1".to_owned(), Timestamp::from_millis(5).unwrap(), Some("http://h/"))
    }

    #[test]
    fn webhook_signature_covers_time_and_body() {
        // printf '%s' '1763000000.{}' | openssl dgst -sha256 -hmac secret
        let expected = "sha256=c32da1c35486143748d89b9150388c2da05d04a4ae7dfba3255be6f064337971";
        assert_eq!(signature("secret", "1763000000", "{}"), expected);
        assert_ne!(signature("secret", "1763000001", "{}"), expected);
        assert_ne!(signature("secret", "1763000000", "{ }"), expected);
        assert_ne!(signature("other", "1763000000", "{}"), expected);
    }

    #[test]
    fn ntfy_headers_open_the_page_and_have_no_control_characters() {
        let headers = ntfy_headers(&payload());
        let named: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        let expected = [("title", "acpx"), ("tags", "test"), ("priority", "default"), ("click", "http://h/")];
        assert_eq!(named, expected);
        assert_eq!(text_value("a\r\nX: b\u{7f}é"), HeaderValue::from_bytes("aX: bé".as_bytes()).unwrap());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn desktop_notification_is_arguments_without_markup() {
        let mut payload = payload();
        payload.text = Some("<b>-e & $(x)".to_owned());
        let argv = desktop_argv(&payload);
        assert_eq!(argv[..4], ["notify-send", "--app-name=acpx", "--urgency", "normal"]);
        assert_eq!(argv[4..], ["--", "acpx", "acpx reaches this sink\n&lt;b&gt;-e &amp; $(x)"]);
    }
}
