//! Every integration test of the library, linked once.

mod engine;
