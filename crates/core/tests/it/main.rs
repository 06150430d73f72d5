//! The library's integration tests, in one binary so that they are linked once.

mod engine;
mod sdk_agent;
mod wire;
