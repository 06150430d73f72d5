//! `acpx queue`: lists the queued prompts of all sessions from the store, and drops some of them in the host.

use std::collections::BTreeMap;

use acpx_core::host::open_prompts;
use acpx_core::model::{Record, RecordId, SessionName, Timestamp, Turn};
use acpx_core::protocol::{QueueDropMeta, QueueDropParams, QueuedPromptMeta};
use acpx_core::store::RecordFilter;
use acpx_core::wire::since_1970;

use crate::agents;
use crate::cli::{OutputArgs, QueueCommand, QueueDropArgs, QueueFilterArgs, QueueListArgs};
use crate::error::{CliError, NoSessionHelp};
use crate::output;
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::id_prefix::by_prefix;
use crate::session::lookup::{RecordLookup, has_name, referenced, session_match};
use crate::session::settings::LazyConfig;

/// Runs the command.
pub(super) fn run(command: QueueCommand, output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    match command {
        QueueCommand::List(args) => list(args, output, config),
        QueueCommand::Drop(args) => drop_queued(&args, output, config),
    }
}

fn list(args: QueueListArgs, output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "list queued prompts")?;
    let QueueListArgs { named, mut filter } = args;
    filter.session = filter.session.or(named);
    let mut console = config.console(output)?;
    block_on(async {
        let open = open_in_store().await?;
        let prompts = queued(&open, &QueueFilter::of(&filter).await?);
        Ok(output::queue(&prompts, Timestamp::since_1970(since_1970()), &mut console)?)
    })
}

fn drop_queued(args: &QueueDropArgs, output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "drop queued prompts")?;
    let mut console = config.console(output)?;
    block_on(async {
        let (open, filter) = (open_in_store().await?, QueueFilter::of(&args.filter).await?);
        let prompts = queued(&open, &filter);
        let meant = if args.all {
            one_session(&args.filter, &filter, &open)?;
            prompts
        } else {
            typed(&args.requests, &prompts, &open)?
        };
        let mut by_record: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prompt in &meant {
            by_record.entry(prompt.ids.record.to_string()).or_default().push(prompt.request_id.clone());
        }
        let mut dropped = Vec::new();
        for (session_id, request_ids) in by_record {
            let params = QueueDropParams { session_id, request_ids };
            let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
            let answer = session.retry_on_lost_host(async |session| {
                let mut client = session.host(&locator).await?;
                session.call::<QueueDropMeta>(&mut client, "_acpx/queue/drop", &params).await
            });
            dropped.extend(answer.await?.dropped);
        }
        output::queue_dropped(&dropped, &mut console)?;
        // The agent got it before the host was asked.
        let sent = meant.into_iter().find(|prompt| !dropped.contains(&prompt.request_id));
        sent.filter(|_| !args.all)
            .map_or(Ok(()), |prompt| Err(CliError::PromptSent { id: prompt.request_id }))
    })
}

/// The queued prompts with these ids.
fn typed(
    ids: &[String],
    prompts: &[QueuedPromptMeta],
    open: &[(Record, Vec<Turn>)],
) -> Result<Vec<QueuedPromptMeta>, CliError> {
    let one = |id: &String| match by_prefix(id, prompts, |prompt| &prompt.request_id)? {
        Some(prompt) => Ok(prompt.clone()),
        None if open_prompt(id, open)?.is_some() => Err(CliError::PromptSent { id: id.clone() }),
        None => Err(CliError::NoPrompt { id: id.clone() }),
    };
    ids.iter().map(one).collect()
}

/// The record and the request id of a running or queued prompt.
pub(super) fn open_prompt<'a>(
    typed: &str,
    open: &'a [(Record, Vec<Turn>)],
) -> Result<Option<(&'a Record, &'a Turn)>, CliError> {
    let all: Vec<(&Record, &Turn)> =
        open.iter().flat_map(|(record, turns)| turns.iter().map(move |turn| (record, turn))).collect();
    Ok(by_prefix(typed, &all, |(_, turn)| turn.request.as_str())?.copied())
}

/// The running and queued prompts of the home.
pub(super) async fn open_in_store() -> Result<Vec<(Record, Vec<Turn>)>, CliError> {
    let lookup = RecordLookup::open()?;
    match lookup.store() {
        Some(store) => Ok(open_prompts(store).await?),
        None => Ok(Vec::new()),
    }
}

/// Which queued prompts a command means.
struct QueueFilter<'a> {
    agent: Option<&'a str>,
    /// The sessions; `None` for all.
    sessions: Option<Vec<RecordId>>,
}

impl<'a> QueueFilter<'a> {
    /// Finds the sessions that the flags mean: those with exactly this name, or else the one that the word refers to.
    async fn of(args: &'a QueueFilterArgs) -> Result<Self, CliError> {
        let agent = args.agent.as_deref();
        let Some(word) = &args.session else { return Ok(Self { agent, sessions: None }) };
        let lookup = RecordLookup::open()?;
        let name = SessionName::new(word.as_str()).ok();
        let is_named = |record: &Record| name.is_some() && has_name(record, name.as_ref());
        let named = lookup.open_with(None).await?.into_iter().filter(is_named);
        let mut sessions: Vec<RecordId> = named.map(|record| record.id).collect();
        if let (true, Some(store)) = (sessions.is_empty(), lookup.store()) {
            sessions.extend(referenced(store, word, &RecordFilter::default()).await?.map(|record| record.id));
        }
        if sessions.is_empty() {
            return Err(CliError::NoId { id: word.clone(), hint: NoSessionHelp::LOOK.hint("", None) });
        }
        Ok(Self { agent, sessions: Some(sessions) })
    }

    fn includes(&self, record: &Record) -> bool {
        let is_agent = |word: &str| record.agent.label() == word || agents::typed(&record.agent) == word;
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(&record.id))
            && self.agent.is_none_or(is_agent)
    }
}

/// Fails if the flags name a session and several have prompts.
fn one_session(
    args: &QueueFilterArgs,
    filter: &QueueFilter<'_>,
    open: &[(Record, Vec<Turn>)],
) -> Result<(), CliError> {
    let Some(typed) = &args.session else { return Ok(()) };
    let named = open.iter().map(|(record, _)| record).filter(|record| filter.includes(record));
    let matches: Vec<_> = named.map(|record| session_match(record.id.to_string(), record)).collect();
    if matches.len() < 2 {
        return Ok(());
    }
    Err(CliError::AmbiguousId { prefix: typed.clone(), matches, is_cut: false })
}

/// The queued prompts that the flags mean.
fn queued(open: &[(Record, Vec<Turn>)], filter: &QueueFilter<'_>) -> Vec<QueuedPromptMeta> {
    let meant = open.iter().filter(|(record, _)| filter.includes(record));
    meant.flat_map(|(record, turns)| QueuedPromptMeta::of_record(record, turns)).collect()
}
