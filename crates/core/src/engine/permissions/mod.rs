//! Permission requests and forms of an agent, from the request to the decision.

pub(super) mod dispatch;
pub(super) mod request;
