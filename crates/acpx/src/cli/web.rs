//! The arguments of `acpx web`.

use std::net::SocketAddr;
use std::path::PathBuf;

use acpx_core::protocol::meta::AccessScope;
use clap::{Args, Subcommand, ValueEnum};

use super::remote::listen_address;
use crate::web::origin::PublicUrl;

/// See, steer and approve sessions in a browser
#[derive(Debug, Subcommand)]
#[command(after_help = "\
acpx web starts the page's server if none runs, and opens the page in a browser. Its link has a code that signs one
device in, once and within a minute. acpx token list shows the devices, acpx token revoke ID signs one out.
Only this machine is served unless you set --listen, which needs TLS.

Examples:
  acpx web                                     open the page here
  acpx web --no-open                           print a link and its QR code for another device
  acpx web --scope read --no-open              the same, for a device that may only read
  acpx web --public-url https://box.ts.net     behind a proxy, such as tailscale serve
  acpx web stop                                end the server; sessions continue")]
#[command(override_usage = "acpx web [FLAGS]\n       acpx web <COMMAND> [FLAGS]")]
pub(crate) enum WebCommand {
    /// Open the page; the same as acpx web
    #[command(override_usage = "acpx web [FLAGS]")]
    Open(WebOpenArgs),
    /// Show whether the page's server runs, and where
    #[command(override_usage = "acpx web status [FLAGS]")]
    Status,
    /// Stop the page's server; sessions and devices stay
    #[command(override_usage = "acpx web stop [FLAGS]")]
    Stop,
    /// Run the page's server
    #[command(hide = true)]
    Run(WebListenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WebOpenArgs {
    /// Print the link and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// What the device may do: full, answer (read, and answer permission requests) or read
    #[arg(long, value_name = "SCOPE", value_enum, default_value = "full", hide_possible_values = true)]
    pub(crate) scope: ScopeArg,
    #[command(flatten)]
    pub(crate) server: WebListenArgs,
}

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub(crate) struct WebListenArgs {
    /// Listen on this IP address, or localhost, and port [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Use TLS with this certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The URL by which browsers reach the server through a proxy
    #[arg(long, value_name = "URL", value_parser = PublicUrl::parse)]
    pub(crate) public_url: Option<PublicUrl>,
}

/// A value of `--scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ScopeArg {
    #[default]
    Full,
    Answer,
    Read,
}

impl From<ScopeArg> for AccessScope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Full => Self::Full,
            ScopeArg::Answer => Self::Answer,
            ScopeArg::Read => Self::Read,
        }
    }
}
