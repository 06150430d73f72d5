//! Limits failed attempts to sign in, by address and in all. An attempt that is refused here reads no file.
//!
//! An attempt counts as failed until it succeeds, so attempts at the same time cannot pass together.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use acpx_core::sync::Lock;
use tokio::time::Instant;

/// How many attempts may fail within [`WITHIN`], of one address and of all.
const MAX_OF_ADDRESS: usize = 10;
const MAX: usize = 100;
const WITHIN: Duration = Duration::from_mins(1);

/// The attempts that failed last, oldest first.
#[derive(Debug, Default)]
pub(super) struct LoginLimit(Lock<VecDeque<FailedLogin>>);

/// An attempt that failed, or that has not succeeded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedLogin {
    at: Instant,
    network: IpAddr,
}

impl LoginLimit {
    /// Begins an attempt; `None` if too many failed.
    pub(super) fn begin(&self, client: IpAddr) -> Option<FailedLogin> {
        let attempt = FailedLogin { at: Instant::now(), network: network(client) };
        let mut failed = self.0.lock();
        while failed.front().is_some_and(|first| attempt.at.duration_since(first.at) >= WITHIN) {
            failed.pop_front();
        }
        let of_address = failed.iter().filter(|other| other.network == attempt.network).count();
        if failed.len() >= MAX || of_address >= MAX_OF_ADDRESS {
            return None;
        }
        failed.push_back(attempt);
        Some(attempt)
    }

    /// The attempt has succeeded.
    pub(super) fn succeeded(&self, attempt: FailedLogin) {
        let mut failed = self.0.lock();
        if let Some(index) = failed.iter().rposition(|other| *other == attempt) {
            failed.remove(index);
        }
    }
}

/// What one client has at least: an address of version 4, or a network of 64 bits of version 6.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(limit: &LoginLimit, client: &str) -> bool {
        limit.begin(client.parse().unwrap()).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn failed_logins_are_limited_by_network_and_in_all() {
        let limit = LoginLimit::default();
        for last in 0..MAX_OF_ADDRESS {
            assert!(begins(&limit, &format!("2001:db8::{last}")));
        }
        assert!(!begins(&limit, "2001:db8::ffff:1"));
        let other: IpAddr = "2001:db8:0:1::1".parse().unwrap();
        let attempt = limit.begin(other).unwrap();
        limit.succeeded(attempt);
        for last in MAX_OF_ADDRESS..MAX {
            assert!(begins(&limit, &format!("192.0.2.{last}")));
        }
        assert!(!begins(&limit, "198.51.100.1"));
        tokio::time::advance(WITHIN).await;
        assert!(begins(&limit, "2001:db8::ffff:1"));
    }
}
