//! Durable sessions of the Agent Client Protocol (ACP).
//!
//! The crate is the engine room of acpx, usable alone: it starts an agent, opens a session with it, keeps
//! every message exchanged, and brings the conversation back when the agent is gone. It talks to no
//! terminal, reads no environment and knows no home directory; whatever it needs is passed in.
//!
//! Layers, each using only those before it: [`model`] (what things are), [`machine`] (what a session does,
//! pure), [`wire`] (JSON-RPC over bytes), [`store`] (what is kept), [`acp`] (what the protocol's messages
//! mean), [`tools`] (processes), [`engine`] (sessions that run), [`protocol`] (what host and client say beyond ACP),
//! [`home`] (where a host is found), and side by side [`host`] (the process that holds the sessions) and [`client`]
//! (processes that connect to it). Below all of them is [`sync`].

pub mod acp;
pub mod client;
pub mod engine;
pub mod home;
pub mod host;
pub mod machine;
pub mod model;
pub mod protocol;
pub mod store;
pub mod sync;
pub mod tools;
pub mod wire;

/// The examples of `docs/guide/embedding.md`, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct Embedding;
