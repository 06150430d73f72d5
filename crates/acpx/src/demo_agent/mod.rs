//! The built-in agent: a complete ACP agent without a model, for demonstration and tests.
//!
//! It uses the agent side of `acpx-core` and stores its own sessions, separate from acpx's records. The rest of the
//! program treats it like any other agent. Stdout carries only the protocol.

mod archive;
mod servers;
mod service;
mod tool_calls;
mod turn;
mod words;

use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::agent::{Offer, serve};
use acpx_core::model::ProtocolVersion;
use acpx_core::wire::{WireLimits, connect};

pub(crate) use service::{DemoAgentSettings, DemoReplayMode, Quirk, RestoreFault};

use self::service::DemoAgent;

/// How long turns may take to stop after stdin has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Base of the exit code after a signal.
const SIGNALLED: u8 = 128;

/// Serves one client on stdin and stdout until stdin ends or a signal arrives; returns the exit code.
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
