//! The commands for other machines, with their arguments and help texts: `serve`, `token`, `remote-agent`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::web::ScopeArg;
use crate::http::guard::read_origin;
use crate::http::server::Allowance;

/// Connect stdin and stdout to an agent on another machine
#[derive(Debug, Args)]
#[command(after_help = "\
The host starts this for an agent that is a URL, as in
  acpx --agent wss://host.example/acp 'fix the tests'

Set its token as ACPX_REMOTE_TOKEN, or in the file of --token-file.")]
pub(crate) struct RemoteAgentArgs {
    /// The agent's URL: wss://, ws://, https:// or http://
    pub(crate) url: String,
    /// Connect without TLS, even to another machine
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Read the token from this file instead of the environment
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Serve remote clients as an agent, over WebSocket and HTTP
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Args)]
#[command(after_help = "\
The address is printed. ACP is served at /acp, over WebSocket and over HTTP with server-sent events.
Only this machine is served unless you set --listen; then a token (acpx token new) and TLS are required.
Sessions continue when a client or the server disconnects; a client resumes after the last event it has seen.

Examples:
  acpx claude serve                            for programs on this machine, at the printed address
  acpx claude serve --listen 0.0.0.0:7443 --tls-cert chain.pem --tls-key key.pem
                                               for other machines with a token from acpx token new
  acpx --agent wss://this.example:7443 'hi'    on such a machine, with the token as ACPX_REMOTE_TOKEN")]
#[command(override_usage = "acpx [AGENT] serve [FLAGS]")]
pub(crate) struct ServeArgs {
    /// Listen on this IP address, or localhost, and port; port 0 is any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Use TLS with this certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve other machines without a token or without TLS: every client can run programs here
    #[arg(long)]
    pub(crate) insecure_public: bool,
    /// Allow web pages of this origin, a scheme with a host; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = read_origin)]
    pub(crate) allow_origin: Vec<String>,
    /// Let clients approve all permission requests without asking
    #[arg(long)]
    allow_approve_all: bool,
    /// Let clients start programs on this machine as MCP servers
    #[arg(long)]
    allow_stdio_servers: bool,
    /// Forward _meta and unknown members of client requests to the agent
    #[arg(long)]
    allow_meta: bool,
}

impl ServeArgs {
    /// What clients may do beyond the default.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance {
            approve_all: self.allow_approve_all,
            stdio_servers: self.allow_stdio_servers,
            agent_fields: self.allow_meta,
        }
    }
}

pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    // Other names would have to be resolved and might be any machine.
    let text =
        text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse()
        .map_err(|_| "expected an IP address, or localhost, with a port, as in 127.0.0.1:7000".to_owned())
}

/// Create, list and revoke the tokens of remote clients
#[derive(Debug, Subcommand)]
#[command(override_usage = "acpx token <COMMAND> [FLAGS]")]
pub(crate) enum TokenCommand {
    /// Create a token and show it once
    #[command(after_help = "\
A client with the token acts as you at acpx serve. acpx reads it from ACPX_REMOTE_TOKEN on the other machine; any other
client sends it as Authorization: Bearer TOKEN.

Examples:
  acpx token new --name laptop               create one; it is shown only now
  acpx token revoke ID                       revoke it; acpx token list shows its id")]
    #[command(override_usage = "acpx token new [FLAGS]")]
    New {
        /// A name to recognise it by
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// What its clients may do: full, answer (read, and answer permission requests) or read
        #[arg(long, value_name = "SCOPE", value_enum, default_value = "full", hide_possible_values = true)]
        scope: ScopeArg,
    },
    /// List the tokens and the devices of the page: when they were created, used and revoked
    #[command(override_usage = "acpx token list [FLAGS]")]
    List,
    /// Revoke a token, or sign a device out, and end its connections
    #[command(override_usage = "acpx token revoke [FLAGS] <ID>")]
    Revoke {
        /// Its id, as in acpx token list
        #[arg(value_name = "ID")]
        id: String,
    },
}
