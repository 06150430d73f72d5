//! Durable sessions of the Agent Client Protocol (ACP).
//!
//! The library behind acpx, usable alone: it starts an agent, opens a session with it, records every message, and
//! restores the conversation after the agent has exited. It uses no terminal, no environment variables and no home
//! directory; the caller passes in what it needs.
//!
//! Layers, each using only those before it: [`sync`] (a mutex), [`model`] (domain types), [`machine`]
//! (the session state machine, pure), [`wire`] (JSON-RPC transport), [`store`] (persistence), [`acp`] (the protocol's
//! messages), [`tools`] (processes and files), [`transcripts`] (what agents store themselves), [`index`]
//! (the full-text index), [`engine`] (running sessions), [`protocol`] (extensions of ACP between
//! host and client), [`home`] (locating a host), and next to each other [`host`] (the process that runs the sessions)
//! and [`client`] (processes that connect to it).

pub mod acp;
pub mod client;
pub mod engine;
pub mod home;
pub mod host;
pub mod index;
pub mod machine;
pub mod model;
pub mod protocol;
pub mod store;
pub mod sync;
pub mod tools;
pub mod transcripts;
pub mod wire;

/// The examples of `docs/guide/embedding.md`, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct Embedding;
