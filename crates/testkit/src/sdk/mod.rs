//! The official SDK as a client, for tests that want a second implementation of the protocol on the other side.
//!
//! Both modules have the same shape: [`v1::connect`] and [`v2::connect`] initialize a connection, pass updates to the
//! caller and permission requests to its answer, and run the test's conversation.

pub mod v1;
pub mod v2;
