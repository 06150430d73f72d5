//! Access to the system clock: new ids, and the time.

use std::time::{Duration, SystemTime};

use uuid::{NoContext, Uuid};

/// The time since 1970 by the system's clock; nothing if the clock shows an earlier time.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A new UUID. Those made later sort after those made before, unless the clock shows a time before 1970.
pub fn new_uuid() -> Uuid {
    // `now_v7` panics before 1970.
    if SystemTime::now() >= SystemTime::UNIX_EPOCH { Uuid::now_v7() } else { without_clock() }
}

fn without_clock() -> Uuid {
    Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_made_without_a_clock_differ() {
        assert_ne!(without_clock(), without_clock());
    }
}
