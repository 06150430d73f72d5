//! Output about remote clients: where a server listens, and the tokens.

use std::io;
use std::net::SocketAddr;

use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;
use crate::http::PATH;
use crate::http::tokens::Token;

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
    action: &'static str,
    agent: &'a str,
    url: String,
    web_socket_url: String,
}

/// Writes where a server listens.
pub(crate) fn serving(serving: &Serving, console: &mut Console<'_>) -> io::Result<()> {
    let place = format!("{}{PATH}", serving.address);
    let (http, websocket) = if serving.is_secure { ("https", "wss") } else { ("http", "ws") };
    let url = format!("{http}://{place}");
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{url}")?,
        Format::Text => writeln!(console.out, "serving {} at {url}", serving.agent)?,
        Format::Json => {
            let web_socket_url = format!("{websocket}://{place}");
            let object = ServingObject { action: "serving", agent: &serving.agent, url, web_socket_url };
            json_line(&object, &mut *console.out)?;
        }
    }
    console.flush()
}

#[derive(Serialize)]
struct TokenObject<'a> {
    action: &'static str,
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
    match console.mode.format {
        Format::Quiet => writeln!(console.out, "{secret}")?,
        Format::Text => {
            writeln!(console.out, "{secret}")?;
            console.banner(&format!("this is token {}; it is not shown again", token.id));
        }
        Format::Json => {
            let object = TokenObject { action: "token_created", token: Some(secret), known: token };
            json_line(&object, &mut *console.out)?;
        }
    }
    console.flush()
}

/// Writes every token.
pub(crate) fn tokens(tokens: &[Token], console: &mut Console<'_>) -> io::Result<()> {
    match console.mode.format {
        Format::Json => json_line(&TokensObject { action: "tokens", tokens }, &mut *console.out)?,
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
    match console.mode.format {
        Format::Quiet => {}
        Format::Text => writeln!(console.out, "token {} holds no longer", token.id)?,
        Format::Json => {
            json_line(
                &TokenObject { action: "token_revoked", token: None, known: token },
                &mut *console.out,
            )?;
        }
    }
    console.flush()
}

fn line(token: &Token) -> String {
    let state = match (token.revoked_at, token.last_used_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("used {at}"),
        (None, None) => "never used".to_owned(),
    };
    let name = token.name.as_ref().map_or_else(String::new, |name| format!("  {name}"));
    format!("{}  made {}  {state}{name}", token.id, token.created_at)
}
