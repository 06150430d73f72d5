//! Processes that connect to a host: commands, and the bridge that connects an editor to it. Nothing here runs in the
//! host.

mod bridge;
mod connection;
mod launch;
mod stop;

pub use bridge::{Bridge, Bridged, RemoteLine, bridge_remote};
pub use connection::HostClient;
pub use launch::{Launcher, READY, any_version, running, stop_if_idle};
pub use stop::stop;
