//! The verbs about other machines, with their arguments and help texts: who is served, and who may come in.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::options::{OutputArgs, SessionArgs};
use crate::http::guard::read_origin;

/// Be an agent on another machine, for a program that starts agents
#[derive(Debug, Args)]
#[command(after_help = "\
The host starts this for an agent that is given as a URL, as in
  acpx --agent wss://host.example/acp 'fix the tests'

The token for it is ACPX_REMOTE_TOKEN, or in the file of --token-file.")]
pub(crate) struct RemoteAgentArgs {
    /// Where the agent is: wss://, ws://, https:// or http://
    pub(crate) url: String,
    /// Go there without TLS, even though it is another machine
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Read the token from this file instead of the environment
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Be an agent for clients elsewhere, over WebSocket and HTTP
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that the user of a server allows or not"
)]
#[derive(Debug, Args)]
#[command(after_help = "\
The address is printed; ACP is spoken there at /acp, over WebSocket and over HTTP with streams of events.
Only this machine is served unless --listen says otherwise, and then a token (acpx token new) and TLS are needed.
Sessions go on when a client or the server goes; whoever comes back resumes after the last number it knows.

Examples:
  acpx claude serve                            for programs on this machine, at the address that is printed
  acpx claude serve --listen 0.0.0.0:7443 --tls-cert chain.pem --tls-key key.pem
                                               for other machines, which have a token of acpx token new
  acpx --agent wss://this.example:7443 'hi'    from there, with the token as ACPX_REMOTE_TOKEN")]
#[command(override_usage = "acpx [AGENT] serve [FLAGS]")]
pub(super) struct ServeArgs {
    /// Listen at this IP address, or at localhost, and this port; port 0 is any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen_address)]
    pub(super) listen: SocketAddr,
    /// Speak TLS with this certificate and those above it, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// Serve other machines without a token or without TLS: whoever reaches us runs programs here
    #[arg(long)]
    pub(super) insecure_public: bool,
    /// Let web pages of this origin in, a scheme with a host; may be given several times
    #[arg(long, value_name = "ORIGIN", value_parser = read_origin)]
    pub(super) allow_origin: Vec<String>,
    /// Let clients have everything approved unseen
    #[arg(long)]
    pub(super) allow_approve_all: bool,
    /// Let clients start programs on this machine as MCP servers
    #[arg(long)]
    pub(super) allow_stdio_servers: bool,
    /// Pass on to the agent what clients say and acpx does not know: _meta and unknown members
    #[arg(long)]
    pub(super) allow_meta: bool,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    // A name would have to be looked up, and might lead anywhere; this one leads here.
    let text =
        text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse()
        .map_err(|_| "expected an IP address, or localhost, with a port, as in 127.0.0.1:7000".to_owned())
}

/// Make, list and revoke the tokens that let clients in from elsewhere
#[derive(Debug, Subcommand)]
#[command(override_usage = "acpx token <COMMAND> [FLAGS]")]
pub(super) enum TokenVerb {
    New(TokenNewArgs),
    List(TokenListArgs),
    Revoke(TokenRevokeArgs),
}

/// Make a token and show it, this once
#[derive(Debug, Args)]
#[command(after_help = "\
Whoever has it comes in at acpx serve as you: with acpx it is ACPX_REMOTE_TOKEN in the environment there, and any other
client sends it as Authorization: Bearer TOKEN.

Examples:
  acpx token new --name laptop               show one, this once
  acpx token revoke ID                       take it back; acpx token list has its id")]
#[command(override_usage = "acpx token new [FLAGS]")]
pub(super) struct TokenNewArgs {
    /// What it is for, to know it by later
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// List the tokens: when they were made, used and revoked
#[derive(Debug, Args)]
#[command(override_usage = "acpx token list [FLAGS]")]
pub(super) struct TokenListArgs {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Take a token back; connections that came in by it end
#[derive(Debug, Args)]
#[command(override_usage = "acpx token revoke [FLAGS] <ID>")]
pub(super) struct TokenRevokeArgs {
    /// Its id, as list has it
    #[arg(value_name = "ID")]
    pub(super) id: String,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}
