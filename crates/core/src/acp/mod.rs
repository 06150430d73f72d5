//! What the protocol's messages mean. The only code that names types of the protocol's schema.
//!
//! [`agent`] is the side that answers: whoever serves ACP clients implements its service trait.

pub mod agent;
