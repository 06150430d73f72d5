//! The library's integration tests, in one binary so that they are linked once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what is shared by tests fails like a test")]

mod client_calls;
mod delete;
mod documents;
mod engine;
mod errors;
mod examples;
mod extensions;
mod host;
mod import_acpx;
mod layers;
mod processes;
mod requirements;
mod sdk_agent;
mod sdk_agent_v2;
mod shape;
mod store_backup;
mod store_contract;
mod store_crash;
mod store_erase;
mod store_sqlite;
mod wire;
mod workspace;
