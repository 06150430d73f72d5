//! `acpx search`: finds messages in records and in native transcripts. It starts no host and no agent.

use std::borrow::Cow;
use std::collections::HashMap;

use acpx_core::index::{
    IndexExclusions, MessageRole, SearchHit, SearchIndex, SearchQuery, SearchScope, SessionOrigin,
};
use acpx_core::model::{Record, RecordId, Secrets, Timestamp};
use acpx_core::store::Store;
use acpx_core::wire::since_1970;

use super::RunContext;
use super::sessions::list::real;
use super::usage::first_moment;
use crate::agents;
use crate::cli::{RoleArg, SearchArgs};
use crate::error::CliError;
use crate::output::{self, Console, FoundMessage, SearchView};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::search_index::{self, OwnedSessions, UPDATE_LIMIT, UpdatedIndex};
use crate::session::settings::CommandSettings;

/// How often a search is repeated without sessions that are gone.
const REPEATS: usize = 8;

/// Shows the messages that match.
pub(super) fn run(args: &SearchArgs, context: &RunContext<'_>) -> Result<(), CliError> {
    let settings = context.of_any_agent()?;
    let exclusions = search_index::exclusions(context.config)?;
    let query =
        SearchQuery { words: args.words.join(" "), scope: scope(args, &settings)?, limit: args.limit.get() };
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let words = "reading new conversations";
        let UpdatedIndex { mut index, progress, secrets, .. } =
            search_index::updated(&settings, &exclusions, Some(UPDATE_LIMIT), words, &mut console).await?;
        let lookup = RecordLookup::open()?;
        let mut found = found(&mut index, query, &exclusions, &lookup).await?;
        for message in &mut found {
            mask(&mut message.hit, &secrets);
        }
        let home = std::env::home_dir();
        let view = SearchView { home: home.as_deref(), now: Timestamp::since_1970(since_1970()) };
        output::search_hits(&found, &progress, view, &mut console)?;
        lookup.leave();
        Ok(())
    })
}

/// Masks secrets of the user's environment, which the host that updated the index does not have.
fn mask(hit: &mut SearchHit, secrets: &Secrets) {
    hit.title = hit.title.take().map(|title| secrets.redact_text(&title).into_owned());
    if let Cow::Owned(masked) = secrets.redact_text(&hit.excerpt) {
        hit.excerpt = masked;
        hit.matches.clear();
    }
}

fn scope(args: &SearchArgs, settings: &CommandSettings) -> Result<SearchScope, CliError> {
    let role = |role: &RoleArg| match role {
        RoleArg::User => MessageRole::User,
        RoleArg::Agent => MessageRole::Agent,
        RoleArg::Thought => MessageRole::Thought,
        RoleArg::Tool => MessageRole::Tool,
    };
    let project = args.project.as_deref().map(|directory| real(settings.cwd.as_path(), directory));
    Ok(SearchScope {
        agent: args.agent.as_deref().map(agents::canonical),
        project: project.transpose()?.map(|directory| directory.as_path().to_owned()),
        since: args.since.map(first_moment),
        roles: args.role.iter().map(role).collect(),
        tool: args.tool.clone(),
        ..SearchScope::default()
    })
}

/// The hits whose sessions exist and are not deleted. The index may be older than a deletion, so the search is repeated
/// without the sessions of other hits.
async fn found(
    index: &mut SearchIndex,
    mut query: SearchQuery,
    exclusions: &IndexExclusions,
    lookup: &RecordLookup,
) -> Result<Vec<FoundMessage>, CliError> {
    let mut records: HashMap<String, Option<Record>> = HashMap::new();
    let mut hits = Vec::new();
    for _ in 0..REPEATS {
        hits = index.search(&query)?;
        read_records(&hits, exclusions, lookup, &mut records).await?;
        let natives = hits.iter().filter(|hit| hit.origin == SessionOrigin::Transcript);
        // A sub-agent's transcript belongs to the session that started it.
        let sessions = natives.map(|hit| (&*hit.agent, hit.parent.as_ref().unwrap_or(&hit.session).as_str()));
        let store = lookup.store().map(|store| store as &dyn Store);
        let owned = OwnedSessions::read(store, sessions).await?;
        let before = hits.len();
        hits.retain(|hit| {
            let is_shown = match hit.origin {
                SessionOrigin::Record => records.get(&hit.session).is_some_and(Option::is_some),
                SessionOrigin::Transcript => {
                    let is_owned = match &hit.parent {
                        // What a sub-agent said is in no record.
                        Some(parent) => owned.deleted.contains(parent),
                        None => owned.contains(&hit.session),
                    };
                    hit.path.exists() && !is_owned
                }
            };
            if !is_shown {
                query.scope.excluded.insert(hit.session.clone());
            }
            is_shown
        });
        if hits.len() == before {
            break;
        }
    }
    let deleted = records.iter().filter(|(_, record)| record.is_none());
    let deleted: Vec<&str> = deleted.map(|(session, _)| session.as_str()).collect();
    if !deleted.is_empty() {
        // If another process is writing, the next update removes them.
        drop(index.forget(&deleted));
    }
    labelled(hits, &records, index, lookup).await
}

/// Reads the records of hits, with `None` for those that are deleted or excluded.
async fn read_records(
    hits: &[SearchHit],
    exclusions: &IndexExclusions,
    lookup: &RecordLookup,
    records: &mut HashMap<String, Option<Record>>,
) -> Result<(), CliError> {
    for hit in hits.iter().filter(|hit| hit.origin == SessionOrigin::Record) {
        if !records.contains_key(&hit.session) {
            let record = record_of(hit, lookup).await?;
            records.insert(hit.session.clone(), record.filter(|record| !exclusions.excludes_record(record)));
        }
    }
    Ok(())
}

/// The record of a hit, unless it is deleted.
async fn record_of(hit: &SearchHit, lookup: &RecordLookup) -> Result<Option<Record>, CliError> {
    let (Some(store), Ok(id)) = (lookup.store(), RecordId::new(hit.session.as_str())) else {
        return Ok(None);
    };
    Ok(store.record(id).await?.filter(|record| !record.lifecycle.is_deleted()))
}

/// Adds to each hit what a command line calls its session.
async fn labelled(
    hits: Vec<SearchHit>,
    records: &HashMap<String, Option<Record>>,
    index: &SearchIndex,
    lookup: &RecordLookup,
) -> Result<Vec<FoundMessage>, CliError> {
    let mut found = Vec::with_capacity(hits.len());
    for hit in hits {
        let record = records.get(&hit.session).and_then(Option::as_ref);
        let short_id = match (record, lookup.store()) {
            (Some(record), Some(store)) => store.short_ids(vec![record.id.clone()]).await?.pop(),
            // Only the whole id finds a sub-agent's transcript.
            _ if hit.parent.is_some() => None,
            _ => index.short_ids(&[&hit.session])?.pop(),
        };
        found.push(FoundMessage {
            short_id: short_id.unwrap_or_else(|| hit.session.clone()),
            agent: record.map_or_else(|| hit.agent.clone(), |record| agents::typed(&record.agent)),
            agent_name: match record {
                Some(record) => record.agent.name.clone(),
                None => Some(hit.agent.clone()),
            },
            hit,
        });
    }
    Ok(found)
}
