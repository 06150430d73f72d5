//! The library's integration tests, in one binary so that they are linked once.

mod store_contract;
mod store_crash;
mod store_sqlite;
