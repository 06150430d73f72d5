//! The arguments of `acpx usage`.

use std::num::NonZeroUsize;
use std::time::Duration;

use acpx_core::model::Timestamp;
use clap::{Args, ValueEnum};
use jiff::civil::Date;

use super::options::count;
use super::prune::age;

/// Show the tokens and the cost of turns
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Tokens are what the agents report for each turn. The cost of a turn is derived: the growth of the total that the agent
reports for its session. On a terminal ~ marks a derived figure, ? an unknown one, and +? one that lacks turns whose
figure is unknown.

In a pipe, a line has the key, the turns, the turns with unknown tokens, the input, output, cached and total tokens,
the turns with unknown cost, the cost, and the sources of the tokens and of the cost (reported, derived or unknown),
between tabs; - is unknown.

Examples:
  acpx usage                        every day
  acpx usage --since 7d --by agent  the last seven days, by agent
  acpx claude usage --by session    the sessions of claude")]
#[command(override_usage = "acpx [AGENT] usage [FLAGS]")]
pub(crate) struct UsageArgs {
    /// One row for each of these: day, agent, project (a directory) or session [default: day]
    #[arg(long, value_name = "WHAT", value_enum, default_value = "day", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub(crate) by: UsageBy,
    /// Only turns that ended since then: a date, a time, or 30d or 12h before now
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only turns that ended until then; a date includes its day
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Maximum number of rows; on a terminal 50 are shown without it
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>)]
    pub(crate) limit: Option<NonZeroUsize>,
}

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageBy {
    Day,
    Agent,
    Project,
    Session,
}

/// A time as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This long before now.
    Ago(Duration),
    /// A day in the time zone of the user.
    Day(Date),
    /// A moment.
    At(Timestamp),
}

/// Parses a time as typed.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(age) = age(text) {
        return Ok(Moment::Ago(age));
    }
    if let Ok(at) = Timestamp::parse(text) {
        return Ok(Moment::At(at));
    }
    let is_date = text.len() == "2026-11-18".len();
    let day = text.parse().ok().filter(|_| is_date).map(Moment::Day);
    day.ok_or_else(|| {
        "expected a date such as 2026-11-18, a time with its zone, or 30d or 12h before now".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_times_and_durations_before_now() {
        let hours = |hours: u64| Ok(Moment::Ago(Duration::from_secs(hours * 3600)));
        assert_eq!((moment("12h"), moment("30d"), moment("30")), (hours(12), hours(720), hours(720)));
        assert_eq!(moment("2026-11-18"), Ok(Moment::Day(jiff::civil::date(2026, 11, 18))));
        let at = Timestamp::parse("2026-11-18T10:00:00+01:00").unwrap();
        assert_eq!(moment("2026-11-18T10:00:00+01:00"), Ok(Moment::At(at)));
        for wrong in ["", "d", "7y", "-7d", "2026-13-01", "yesterday", "99999999999999999999d"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_for_a_moment_is_read_or_refused(text in ".{0,40}") {
            drop(moment(&text));
        }
    }
}
