//! The program as its users meet it: real processes, real pipes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what is shared by tests fails like a test")]

mod acpx;
mod attach;
mod cli;
mod compat;
mod contract;
mod demo;
mod demo_process;
mod demo_restore;
mod demo_with_sdk;
mod demo_with_sdk_v2;
mod editor;
mod first_minute;
mod mcp;
mod notify;
mod npm_sdk;
mod page;
mod performance;
mod picker;
mod python_sdk;
mod read_commands;
mod recall;
mod reference;
mod remote;
mod restore_with_demo;
mod search;
mod session_list;
mod soak;
mod started_process;
mod terminal;
mod tour;
mod usage;
mod web;
