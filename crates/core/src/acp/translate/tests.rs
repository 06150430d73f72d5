//! The published table.

mod table;
