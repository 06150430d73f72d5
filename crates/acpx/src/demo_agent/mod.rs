//! The built-in agent: a real ACP agent that needs no model, to try acpx with and to test against.
//!
//! It speaks through the agent side of `acpx-core` and keeps its own sessions, apart from acpx's: to the rest of
//! the program it is an agent like any other. Stdout carries the protocol and nothing else.

mod archive;
mod fault;
mod listing;
mod servers;
mod service;
mod settings;
mod tool_calls;
mod turn;
mod words;

use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::agent::{Offer, serve};
use acpx_core::model::ProtocolVersion;
use acpx_core::wire::{WireLimits, connect};

pub(crate) use fault::RestoreFault;
pub(crate) use settings::{DemoAgentSettings, DemoReplayMode, Quirk};

use self::service::DemoAgent;

/// How long turns may take to stop once stdin has ended.
const GRACE: Duration = Duration::from_secs(5);

/// A signal ends a process with this and its number.
const SIGNALLED: u8 = 128;

/// Serves one client on stdin and stdout until stdin ends, or until a signal comes, and gives the exit code.
pub(crate) async fn serve_stdio(settings: DemoAgentSettings) -> u8 {
    let offer = Offer::new("acpx-demo", env!("CARGO_PKG_VERSION"), settings.features.iter().copied())
        .up_to(ProtocolVersion::V2);
    let (peer, incoming) = connect(tokio::io::stdin(), tokio::io::stdout(), WireLimits::default());
    let agent = Arc::new(DemoAgent::new(settings));
    let code = tokio::select! {
        () = serve(peer, incoming, Arc::clone(&agent), offer, GRACE) => 0,
        signal = agent.signalled() => SIGNALLED + signal,
    };
    agent.end().await;
    code
}
