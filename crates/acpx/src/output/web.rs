//! Output of `acpx web`: the link to the page, and the state of its server.

use std::io::{self, Write};

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde::Serialize;

use super::Console;
use crate::cli::Format;
use crate::web::registration::WebServerInfo;

/// The addresses that only this machine can open, as they begin in a URL.
const LOOPBACK: [&str; 3] = ["://127.", "://localhost", "://[::1]"];

/// A link that signs one device in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebLink {
    /// The URL with the code behind `#`, which a browser sends to no server.
    pub(crate) link: String,
    pub(crate) scope: &'static str,
    pub(crate) valid_seconds: u64,
}

#[derive(Serialize)]
struct WebStatusObject<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
}

#[derive(Serialize)]
struct WebStopObject {
    stopped: bool,
}

/// Writes the link, on a terminal with its QR code if another device is to open it.
pub(crate) fn web_link(
    link: &WebLink,
    for_another_device: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let mut text = format!("{}\nvalid once, for {} s", link.link, link.valid_seconds);
    let is_on_terminal = console.mode.format == Format::Text && console.mode.is_text_on_terminal();
    if is_on_terminal && for_another_device {
        if let Ok(code) = QrCode::new(&link.link) {
            // A light module is drawn, so that the code is right on a dark terminal.
            let drawn =
                code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
            writeln!(console.out, "{drawn}")?;
        }
        if LOOPBACK.iter().any(|address| link.link.contains(address)) {
            text.push_str("\nanother device needs a tunnel to this address, or --public-url: acpx help web");
        }
    }
    console.result("web_link", link, Some(&text), Some(&link.link))
}

/// Writes whether the page's server runs, and where.
pub(crate) fn web_status(server: Option<&WebServerInfo>, console: &mut Console<'_>) -> io::Result<()> {
    let status = if server.is_some() { "running" } else { "stopped" };
    let object = WebStatusObject {
        status,
        pid: server.map(|server| server.process.pid),
        url: server.map(|server| server.url.as_str()),
        version: server.map(|server| server.version.as_str()),
    };
    let more = server.map(|server| {
        format!("\nurl: {}\npid: {}\nversion: {}", server.url, server.process.pid, server.version)
    });
    let text = format!("web: {status}{}", more.unwrap_or_default());
    console.result("web_status", &object, Some(&text), Some(status))
}

/// Writes that the page's server was stopped, or that there was none.
pub(crate) fn web_stopped(stopped: bool, console: &mut Console<'_>) -> io::Result<()> {
    let text = if stopped { "the page's server is stopped" } else { "the page's server does not run" };
    console.result("web_stopped", &WebStopObject { stopped }, Some(text), None)
}
