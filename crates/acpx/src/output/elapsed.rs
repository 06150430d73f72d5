//! How long something has taken, for a person: one number and its unit.

use std::time::Duration;

use acpx_core::model::Timestamp;
use acpx_core::wire::since_1970;

/// The time in words: `12 s`, `2 min`, `3 h`, `4 days`.
pub(crate) fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ if seconds < 2 * 86_400 => "1 day".to_owned(),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The current time.
pub(super) fn now() -> Timestamp {
    Timestamp::since_1970(since_1970())
}

/// When something happened, for a person: `just now`, `2 min ago`, `yesterday`, `5 days ago`, or the day.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    const DAY: u64 = 86_400;
    let time = if at < now { now.since(at) } else { Duration::ZERO };
    match time.as_secs() {
        0..60 => "just now".to_owned(),
        DAY..172_800 => "yesterday".to_owned(),
        60..2_592_000 => format!("{} ago", elapsed(time)),
        _ => at.to_string().chars().take("2026-01-31".len()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_has_one_unit() {
        let shown = [0, 59, 60, 3599, 3600, 86_399, 86_400, 172_800].map(Duration::from_secs).map(elapsed);
        assert_eq!(shown, ["0 s", "59 s", "1 min", "59 min", "1 h", "23 h", "1 day", "2 days"]);
    }

    #[test]
    fn past_time_is_relative_for_a_month_and_then_a_day() {
        let now = Timestamp::from_millis(1_800_000_000_000).unwrap();
        let before = |seconds: i64| Timestamp::from_millis(1_800_000_000_000 - seconds * 1000).unwrap();
        let times = [-5, 0, 59, 60, 7199, 7200, 86_399, 86_400, 172_799, 172_800, 2_591_999, 2_592_000];
        assert_eq!(
            times.map(|seconds| ago(before(seconds), now)),
            [
                "just now",
                "just now",
                "just now",
                "1 min ago",
                "1 h ago",
                "2 h ago",
                "23 h ago",
                "yesterday",
                "yesterday",
                "2 days ago",
                "29 days ago",
                "2026-12-16"
            ]
        );
    }
}
