//! `acpx sessions list --all`: the records and the agents' own transcripts in one list, each conversation once. It starts
//! nothing.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use acpx_core::index::{IndexExclusions, IndexedSession, SearchIndex, TranscriptFilter};
use acpx_core::model::{AbsolutePath, Timestamp};
use acpx_core::store::{RecordFilter, Store, UsageGroup, UsageKey, UsageQuery};
use acpx_core::wire::since_1970;

use super::list::{PAGE, page, real};
use crate::cli::{AgentChoice, CliOptions, ListArgs};
use crate::commands::RunContext;
use crate::error::CliError;
use crate::output::{self, AnySession, Console, NativeRow, TableView};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::search_index::{self, OwnedSessions, UPDATE_LIMIT, UpdatedIndex};
use crate::session::settings::CommandSettings;

/// Lists all sessions.
pub(crate) fn run(context: &RunContext<'_>, args: &ListArgs) -> Result<(), CliError> {
    let settings = context.of_any_agent()?;
    let exclusions = search_index::exclusions(context.config)?;
    let here = real(settings.cwd.as_path(), Path::new(""))?;
    let filter = SessionsFilter::new(&settings, context.options, args.filter_cwd.as_deref())?;
    let is_table = settings.mode.is_text_on_terminal();
    let limit = args.limit.map_or(if is_table { PAGE } else { usize::MAX }, NonZeroUsize::get);
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let NativeRows { mut rows, index } =
            native_rows(&settings, &exclusions, &filter, limit, UPDATE_LIMIT, &mut console).await?;
        let first = is_table.then_some(&here);
        let (records, _) = page(&filter.records, first, limit.saturating_add(1), Some(&mut console)).await?;
        let tokens = tokens(&filter.records).await?;
        for row in records {
            let (own, id) = (tokens.get(row.record.id.as_str()).copied(), row.record.id.as_str());
            // The turns before its adoption are in the conversation only.
            let whole = match index.as_ref().filter(|_| row.record.is_adopted()) {
                Some(index) => index.conversation_size(id)?,
                None => None,
            };
            let (prompts, in_transcripts) = whole.unwrap_or_default();
            let turns = row.record.last_turn.map_or(0, |turn| turn.0).max(prompts);
            rows.push(AnySession::Record { row: Box::new(row), turns, tokens: own.max(in_transcripts) });
        }
        // The process ends soon, and a reader has nothing to flush.
        std::mem::forget(index);
        sort(&mut rows, is_table.then_some(&here));
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let home = std::env::home_dir();
        let now = Timestamp::since_1970(since_1970());
        let view = TableView { here: here.as_path(), home: home.as_deref(), now };
        Ok(output::all_sessions(&rows, view, has_more, &mut console)?)
    })
}

/// Which sessions are listed.
pub(in crate::commands) struct SessionsFilter {
    records: RecordFilter,
    natives: TranscriptFilter,
    /// Whether a transcript can match: an agent that has no name has none.
    has_natives: bool,
}

impl SessionsFilter {
    /// All sessions.
    pub(in crate::commands) fn everything() -> Self {
        Self { records: RecordFilter::default(), natives: TranscriptFilter::default(), has_natives: true }
    }

    /// Those of the typed agent and of a directory.
    fn new(
        settings: &CommandSettings,
        options: &CliOptions,
        directory: Option<&Path>,
    ) -> Result<Self, CliError> {
        let is_typed = options.agent != AgentChoice::Default;
        let real_cwd = directory.map(|directory| real(settings.cwd.as_path(), directory)).transpose()?;
        let agent = settings.agent.name.clone().filter(|_| is_typed);
        Ok(Self {
            has_natives: !is_typed || agent.is_some(),
            natives: TranscriptFilter {
                agent,
                real_directory: real_cwd.as_ref().map(|directory| directory.as_path().to_owned()),
            },
            records: RecordFilter { agent: is_typed.then(|| settings.agent.key()), real_cwd },
        })
    }
}

/// The agents' own sessions, and the index that they are from, if it was needed.
#[derive(Default)]
pub(in crate::commands) struct NativeRows {
    pub(in crate::commands) rows: Vec<AnySession>,
    index: Option<SearchIndex>,
}

/// The agents' own sessions, most recently used first: one more than the limit if there are more.
pub(in crate::commands) async fn native_rows(
    settings: &CommandSettings,
    exclusions: &IndexExclusions,
    filter: &SessionsFilter,
    limit: usize,
    time: Duration,
    console: &mut Console<'_>,
) -> Result<NativeRows, CliError> {
    if !filter.has_natives {
        return Ok(NativeRows::default());
    }
    let words = "reading new conversations";
    let UpdatedIndex { index, progress, secrets, .. } =
        search_index::updated(settings, exclusions, Some(time), words, console).await?;
    let sessions = without_record(&index, filter, limit.saturating_add(1)).await?;
    let ids: Vec<&str> = sessions.iter().map(|session| session.session.as_str()).collect();
    let short = index.short_ids(&ids)?;
    let row = |(mut session, short_id): (IndexedSession, String)| {
        session.title = session.title.map(|title| secrets.redact_text(&title).into_owned());
        AnySession::Native(Box::new(NativeRow { session, short_id }))
    };
    let rows = sessions.into_iter().zip(short).map(row).collect();
    output::report_progress(&progress, console);
    Ok(NativeRows { rows, index: Some(index) })
}

/// The first transcripts that belong to no record, not even to a deleted one.
async fn without_record(
    index: &SearchIndex,
    filter: &SessionsFilter,
    wanted: usize,
) -> Result<Vec<IndexedSession>, CliError> {
    let lookup = RecordLookup::open()?;
    let mut asked = wanted;
    loop {
        let mut sessions = index.transcripts(&filter.natives, asked)?;
        let is_last = sessions.len() < asked;
        let ids = sessions.iter().map(|session| (&*session.agent, &*session.session));
        let owned = OwnedSessions::read(lookup.store().map(|store| store as &dyn Store), ids).await?;
        sessions.retain(|session| !owned.contains(&session.session));
        if is_last || sessions.len() >= wanted {
            sessions.truncate(wanted);
            lookup.leave();
            return Ok(sessions);
        }
        asked = asked.saturating_mul(2);
    }
}

/// Sorts by the last use; sessions of a directory come first.
pub(in crate::commands) fn sort(rows: &mut [AnySession], first: Option<&AbsolutePath>) {
    rows.sort_by_cached_key(|row| {
        let is_other = first.is_some_and(|here| !row.is_in(here.as_path()));
        (is_other, std::cmp::Reverse(row.used_at()))
    });
}

/// The tokens of each record whose agent reported them.
async fn tokens(filter: &RecordFilter) -> Result<HashMap<String, u64>, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(HashMap::new()) };
    let query = UsageQuery { agent: filter.agent.clone(), since: None, until: None, by: UsageGroup::Session };
    let sums = store.usage(query).await?;
    lookup.leave();
    let known = sums.into_iter().filter_map(|(key, sum)| match key {
        UsageKey::Session { record, .. } if sum.turns_with_tokens > 0 => {
            Some((record.to_string(), sum.total))
        }
        _ => None,
    });
    Ok(known.collect())
}
