//! The arguments of `sessions prune`: ages, dates and sizes as a person writes them.

use std::time::Duration;

use acpx_core::model::Timestamp;
use clap::Args;

/// Delete sessions by age and size, closed ones unless you say otherwise; asks first on a terminal
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = "\
A session goes if it matches every flag that you give. Its age counts from when it was closed, that of an open one from
its last use. A session with a running or queued turn or a pending request always stays.
The conversations cannot be recovered. Agents keep their own copies; `sessions delete` removes these too. Afterwards the
store's file is smaller.

Examples:
  acpx sessions prune --dry-run                        what would go: all closed sessions
  acpx sessions prune --older-than 30d                 closed more than 30 days ago
  acpx claude sessions prune --larger-than 10MB        closed ones with claude that take more than 10 MB
  acpx sessions prune --include-open --older-than 90d  also open ones, not used for 90 days")]
#[command(override_usage = "acpx [AGENT] sessions prune [FLAGS]")]
pub(crate) struct PruneArgs {
    /// Only sessions older than this: 30 or 30d for days, 12h for hours
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Only sessions older than this day or time in UTC; not with --older-than
    #[arg(long, value_name = "DATE", value_parser = date, conflicts_with = "older_than")]
    pub(crate) before: Option<Timestamp>,
    /// Only sessions whose conversation takes more than this: 500KB, 10MB or 1GB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) larger_than: Option<u64>,
    /// Delete open sessions too, unless they have work
    #[arg(long)]
    pub(crate) include_open: bool,
    /// Accepted for npm acpx: the conversation is always deleted with its session
    #[arg(long)]
    pub(crate) include_history: bool,
    #[command(flatten)]
    pub(crate) run: PruneRunArgs,
}

// Whether sessions are deleted, and whether the command asks before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct PruneRunArgs {
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

impl PruneArgs {
    /// The time before which a session must have been closed or last used; `None` for any time.
    pub(crate) fn cutoff(&self, now: Timestamp) -> Option<Timestamp> {
        let aged = |age: Duration| {
            let now = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
            Timestamp::since_1970(now.saturating_sub(age))
        };
        self.before.or_else(|| self.older_than.map(aged))
    }
}

/// Splits a number from its unit.
fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim().to_ascii_lowercase()))
}

/// Parses an age: days without a unit.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    const HOUR: u64 = 3600;
    let read = number_and_unit(text).and_then(|(number, unit)| {
        let unit = match unit.as_str() {
            "" | "d" => 24 * HOUR,
            "h" => HOUR,
            _ => return None,
        };
        number.checked_mul(unit).map(Duration::from_secs)
    });
    read.ok_or_else(|| "expected days as in 30 or 30d, or hours as in 12h".to_owned())
}

/// Parses a size. A kilobyte is 1024 bytes, as in what acpx prints.
fn size(text: &str) -> Result<u64, String> {
    let read = number_and_unit(text).and_then(|(number, unit)| {
        let power = match unit.as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 1,
            "m" | "mb" | "mib" => 2,
            "g" | "gb" | "gib" => 3,
            _ => return None,
        };
        number.checked_mul(1024_u64.pow(power))
    });
    read.ok_or_else(|| "expected a size as in 500KB, 10MB or 1GB".to_owned())
}

/// Parses a day, which begins at midnight in UTC, or a time.
fn date(text: &str) -> Result<Timestamp, String> {
    let midnight = || Timestamp::parse(&format!("{text}T00:00:00Z"));
    Timestamp::parse(text)
        .or_else(|_| midnight())
        .map_err(|_| "expected a day as in 2026-01-31, or a time as in 2026-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ages_sizes_and_dates_parse_with_their_units() {
        let days = |days: u64| Ok(Duration::from_secs(days * 86_400));
        let ages = [("30", days(30)), ("30d", days(30)), (" 2D ", days(2)), ("0", days(0)), ("48h", days(2))];
        for (text, expected) in ages {
            assert_eq!(age(text), expected, "{text}");
        }
        let sizes = [("7", 7), ("7b", 7), ("500KB", 512_000), ("10 MB", 10_485_760), ("1GiB", 1_073_741_824)];
        for (text, expected) in sizes {
            assert_eq!(size(text), Ok(expected), "{text}");
        }
        let midnight = Timestamp::parse("2026-01-31T00:00:00Z").unwrap();
        assert_eq!(date("2026-01-31"), Ok(midnight));
        assert_eq!(date("2026-01-31T00:00:00Z"), Ok(midnight));
        for wrong in ["", "d", "-1", "1.5", "3m", "1y", "18446744073709551615d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "MB", "-1", "1.5MB", "1TB", "18446744073709551615KB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "yesterday", "2026-13-01", "31.1.2026"] {
            assert!(date(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_age_size_or_date_makes_the_parser_panic(text in "\\PC*") {
            drop((age(&text), size(&text), date(&text)));
        }

        #[test]
        fn age_in_hours_equals_the_same_in_days(days in 0_u64..100_000) {
            prop_assert_eq!(age(&format!("{days}")), age(&format!("{}h", days * 24)));
        }
    }
}
