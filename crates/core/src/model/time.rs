//! Moments, as milliseconds since 1970 in UTC, written as RFC 3339.
//!
//! The model has no clock: callers pass every moment in.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in UTC, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// A text or number that is not a valid moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time")]
pub struct InvalidTimestamp {
    text: String,
}

impl Timestamp {
    /// A moment from milliseconds, if it is within the calendar's range.
    pub fn from_millis(millis: i64) -> Result<Self, InvalidTimestamp> {
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(_) => Ok(Self(millis)),
            Err(_) => Err(InvalidTimestamp { text: millis.to_string() }),
        }
    }

    /// The moment at this distance from 1970, at most the end of 9999.
    pub fn since_1970(since: Duration) -> Self {
        let latest = jiff::Timestamp::MAX.as_second() * 1000;
        Self(i64::try_from(since.as_millis()).unwrap_or(latest).min(latest))
    }

    /// Reads an RFC 3339 time.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        text.parse::<jiff::Timestamp>()
            .map(|time| Self(time.as_millisecond()))
            .map_err(|_| InvalidTimestamp { text: text.chars().take(64).collect() })
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// The duration since `earlier`; zero if this is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_was_read() {
        let text = "2026-11-15T19:20:01.250Z";
        assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        assert_eq!(Timestamp::parse("2026-11-15T20:20:01.25+01:00").unwrap().to_string(), text);
    }

    #[test]
    fn a_time_after_the_calendar_is_its_end() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:01.000Z"),
            (253_402_300_799, "9999-12-30T22:00:00.000Z"),
            (u64::MAX, "9999-12-30T22:00:00.000Z"),
        ];
        for (seconds, expected) in cases {
            let time = Timestamp::since_1970(Duration::from_secs(seconds));
            assert_eq!(time.to_string(), expected);
            assert_eq!(Timestamp::from_millis(time.as_millis()), Ok(time));
        }
    }

    #[test]
    fn invalid_timestamp_is_an_error() {
        assert!(Timestamp::parse("yesterday").is_err());
        assert!(Timestamp::from_millis(i64::MAX).is_err());
        assert!(Timestamp::from_millis(i64::MIN).is_err());
    }
}
