//! Output about remote clients: where a server listens, and the tokens.

use std::io::{self, Write};
use std::net::SocketAddr;

use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;
use crate::http::PATH;
use crate::http::tokens::{Token, TokenKind};

/// A listening server.
#[derive(Debug, Clone)]
pub(crate) struct Serving {
    /// The agent, as typed on the command line.
    pub(crate) agent: String,
    pub(crate) address: SocketAddr,
    /// Whether it uses TLS.
    pub(crate) is_secure: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServingObject<'a> {
    agent: &'a str,
    url: &'a str,
    web_socket_url: String,
}

/// Writes where a server listens.
pub(crate) fn serving(serving: &Serving, console: &mut Console<'_>) -> io::Result<()> {
    let Serving { agent, address, is_secure } = serving;
    let (http, websocket) = if *is_secure { ("https", "wss") } else { ("http", "ws") };
    let url = format!("{http}://{address}{PATH}");
    let text = format!("serving {agent} at {url}");
    let web_socket_url = format!("{websocket}://{address}{PATH}");
    let object = ServingObject { agent, url: &url, web_socket_url };
    console.result("serving", &object, Some(&text), Some(&url))
}

#[derive(Serialize)]
struct TokenObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(flatten)]
    known: &'a Token,
}

#[derive(Serialize)]
struct TokensObject<'a> {
    action: &'static str,
    tokens: &'a [Token],
}

/// Writes a new token's secret. It is shown only once.
pub(crate) fn token_made(secret: &str, token: &Token, console: &mut Console<'_>) -> io::Result<()> {
    if console.mode.format == Format::Text {
        console.banner(&format!("this is token {}; it is not shown again", token.id));
    }
    let object = TokenObject { token: Some(secret), known: token };
    console.result("token_created", &object, Some(secret), Some(secret))
}

/// Writes every token.
pub(crate) fn tokens(tokens: &[Token], console: &mut Console<'_>) -> io::Result<()> {
    match console.mode.format {
        Format::Json => json_line(&TokensObject { action: "tokens", tokens }, &mut console.out)?,
        Format::Quiet => {
            for token in tokens {
                writeln!(console.out, "{}", token.id)?;
            }
        }
        Format::Text => {
            if tokens.is_empty() {
                console.banner("there are no tokens; acpx token new makes one");
            }
            for token in tokens {
                writeln!(console.out, "{}", line(token))?;
            }
        }
    }
    console.flush()
}

/// Writes that a token was revoked.
pub(crate) fn token_revoked(token: &Token, console: &mut Console<'_>) -> io::Result<()> {
    let text = format!("token {} is revoked", token.id);
    console.result("token_revoked", &TokenObject { token: None, known: token }, Some(&text), None)
}

fn line(token: &Token) -> String {
    let state = match (token.revoked_at, token.last_used_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("used {at}"),
        (None, None) => "never used".to_owned(),
    };
    let device = if token.kind == TokenKind::Device { "  device" } else { "" };
    let scope = if token.scope.is_full() { String::new() } else { format!("  {}", token.scope.as_str()) };
    let name = token.name.as_ref().map_or_else(String::new, |name| format!("  {name}"));
    format!("{}  made {}  {state}{device}{scope}{name}", token.id, token.created_at)
}
