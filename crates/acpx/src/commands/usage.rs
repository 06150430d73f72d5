//! `acpx usage`: sums the tokens and the cost of stored turns. It only reads the store and starts nothing.

use acpx_core::host::title;
use acpx_core::model::{RecordId, Timestamp};
use acpx_core::store::{Store, StoreError, UsageGroup, UsageKey, UsageQuery, UsageSum};
use acpx_core::wire::since_1970;
use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::cli::{AgentChoice, CliOptions, Moment, UsageArgs, UsageBy};
use crate::error::CliError;
use crate::output::{Console, UsageLabel, UsageReport, UsageRow, show_usage};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// How many rows a terminal shows at most, unless a limit is given.
const PAGE: usize = 50;

/// Shows what turns have used.
pub(crate) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    args: &UsageArgs,
) -> Result<(), CliError> {
    let by = match args.by {
        UsageBy::Day => UsageGroup::Day(day_of),
        UsageBy::Agent => UsageGroup::Agent,
        UsageBy::Project => UsageGroup::Directory,
        UsageBy::Session => UsageGroup::Session,
    };
    let agent = (options.agent != AgentChoice::Default).then(|| settings.agent.key());
    let since = args.since.map(first_moment);
    let until = args.until.map(end_of);
    let page = settings.mode.is_text_on_terminal().then_some(PAGE);
    let limit = args.limit.map(Into::into).or(page);
    let query = UsageQuery { agent, since, until, by };
    let report = block_on(report(query, args.by, limit))?;
    Ok(show_usage(&report, std::env::home_dir().as_deref(), &mut Console::of_program(settings.mode))?)
}

async fn report(query: UsageQuery, by: UsageBy, limit: Option<usize>) -> Result<UsageReport, CliError> {
    let lookup = RecordLookup::open()?;
    let (since, until) = (query.since, query.until);
    let sums = match lookup.store() {
        Some(store) => store.usage(query).await?,
        None => std::collections::BTreeMap::new(),
    };
    let mut total = UsageSum::default();
    sums.values().cloned().for_each(|sum| total.add(sum));
    let mut sums: Vec<(UsageKey, UsageSum)> = sums.into_iter().collect();
    if by != UsageBy::Day {
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.total, sum.turns)));
    }
    let left_out = limit.map_or(0, |limit| sums.len().saturating_sub(limit));
    match by {
        // The last days are of interest, and the sessions that used most.
        UsageBy::Day => drop(sums.drain(..left_out)),
        _ => sums.truncate(sums.len() - left_out),
    }
    let ids = sums.iter().filter_map(|(key, _)| record_of(key).cloned()).collect();
    let short = match lookup.store() {
        Some(store) => store.short_ids(ids).await?,
        None => Vec::new(),
    };
    let mut short = short.into_iter();
    let mut rows = Vec::with_capacity(sums.len());
    for (key, sum) in sums {
        let title = match lookup.store() {
            Some(store) => title_of(&key, store).await?,
            None => None,
        };
        rows.push(UsageRow { label: label(key, title, &mut short), sum });
    }
    lookup.leave();
    Ok(UsageReport { by, since, until, rows, left_out, total })
}

fn record_of(key: &UsageKey) -> Option<&RecordId> {
    match key {
        UsageKey::Session { record, .. } => Some(record),
        UsageKey::Day(_) | UsageKey::Agent(_) | UsageKey::Directory(_) => None,
    }
}

/// The title that lists show for the session of a row. A damaged session has none, and its turns count.
async fn title_of(key: &UsageKey, store: &dyn Store) -> Result<Option<String>, CliError> {
    let Some(record) = record_of(key) else { return Ok(None) };
    let found = match store.record(record.clone()).await {
        Ok(Some(found)) => title(store, &found).await,
        Ok(None) => return Ok(None),
        Err(error) => Err(error),
    };
    match found {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        found => Ok(found?),
    }
}

fn label(key: UsageKey, title: Option<String>, short_ids: &mut impl Iterator<Item = String>) -> UsageLabel {
    match key {
        UsageKey::Day(start) => UsageLabel::Day(date_of(start).to_string()),
        UsageKey::Agent(agent) => UsageLabel::Agent(agent),
        UsageKey::Directory(directory) => UsageLabel::Project(directory),
        UsageKey::Session { record, agent, name } => {
            let short_id = short_ids.next().unwrap_or_else(|| record.to_string());
            UsageLabel::Session { record, short_id, agent, name, title }
        }
    }
}

/// The first moments of the day of a time and of the day after, in the time zone of the user.
fn day_of(at: Timestamp) -> (Timestamp, Timestamp) {
    let day = date_of(at);
    // A moment outside the calendar's range is in no store.
    (start_of(day), day.tomorrow().map_or(at, start_of))
}

/// The day of a time, in the time zone of the user.
fn date_of(at: Timestamp) -> Date {
    let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    TimeZone::system().to_datetime(at).date()
}

/// The first moment of a day, in the time zone of the user.
fn start_of(day: Date) -> Timestamp {
    let start = day.to_zoned(TimeZone::system()).and_then(|start| start.start_of_day());
    let millis = start.map_or(0, |start| start.timestamp().as_millisecond());
    Timestamp::from_millis(millis).unwrap_or_else(|_| now())
}

fn now() -> Timestamp {
    Timestamp::since_1970(since_1970())
}

/// The time that `--since` names.
pub(super) fn first_moment(moment: Moment) -> Timestamp {
    match moment {
        Moment::Ago(ago) => {
            let millis = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now().as_millis().saturating_sub(millis)).unwrap_or_else(|_| now())
        }
        Moment::Day(day) => start_of(day),
        Moment::At(at) => at,
    }
}

/// The first time that `--until` excludes.
fn end_of(moment: Moment) -> Timestamp {
    match moment {
        Moment::Day(day) => start_of(day.saturating_add(1.day())),
        Moment::Ago(_) | Moment::At(_) => first_moment(moment),
    }
}
