//! `acpx index status|update|rebuild`: shows the search index, reads what has changed to the end, or reads everything
//! anew. The host runs the hidden `background`, which is `update` at low priority.

use std::io;
use std::time::{Duration, Instant};

use acpx_core::index::{IndexExclusions, IndexProgress, SearchIndex};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::RunContext;
use crate::cli::IndexCommand;
use crate::error::CliError;
use crate::output::{self, Console, IndexReport};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::search_index::{self, UpdatedIndex};
use crate::session::settings::CommandSettings;

/// How long the index is read before the terminal shows what is left.
const SLICE: Duration = Duration::from_secs(1);
/// Shown until it is known what is left.
const LOOKING: &str = "looking for conversations";
/// How long to wait for another process that updates the index.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// How nice a process is that runs only if no other one wants to.
const LOWEST_PRIORITY: i32 = 19;

/// Runs an `index` subcommand.
pub(super) fn run(command: IndexCommand, context: &RunContext<'_>) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let settings = context.config.of_any_agent(context.options)?;
    let exclusions = search_index::exclusions(context.config)?;
    let path = search_index::path(&locator);
    if command == IndexCommand::Rebuild {
        refuse_inside(&locator.paths, "rebuild the index")?;
        drop(SearchIndex::create(&path)?);
    }
    if command == IndexCommand::Background {
        // With its usual priority it does the same work.
        let _ = rustix::process::nice(LOWEST_PRIORITY);
    }
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let begun = Instant::now();
        let UpdatedIndex { index, progress, .. } = match command {
            // Nothing is read, and what has changed is counted.
            IndexCommand::Status => {
                let none = Some(Duration::ZERO);
                search_index::updated(&settings, &exclusions, none, LOOKING, &mut console).await?
            }
            IndexCommand::Update | IndexCommand::Rebuild => {
                let is_shown = console.wait_for(LOOKING);
                whole(&settings, &exclusions, is_shown, &mut console).await?
            }
            IndexCommand::Background => {
                tokio::select! {
                    // A slice ends soon after the host.
                    done = whole(&settings, &exclusions, true, &mut console) => done?,
                    () = end_of_stdin() => return Ok(()),
                }
            }
        };
        let status = index.status()?;
        let report = IndexReport { path: &path, status: &status, progress: &progress, took: begun.elapsed() };
        Ok(match command {
            IndexCommand::Status => output::index_status(&report, &mut console),
            IndexCommand::Update => output::index_updated("index_updated", &report, &mut console),
            IndexCommand::Rebuild => output::index_updated("index_rebuilt", &report, &mut console),
            IndexCommand::Background => Ok(()),
        }?)
    })
}

/// Waits until the host that started this process closes its stdin or ends.
async fn end_of_stdin() {
    let read = || io::copy(&mut io::stdin(), &mut io::sink());
    // A stdin that cannot be read has ended.
    drop(spawn_blocking(read).await);
}

/// Reads everything that has changed, if wanted in slices, so that a terminal shows what is left. A slice in which no
/// conversation was read to its end is followed by a longer one: some formats cannot be read on from the middle.
async fn whole(
    settings: &CommandSettings,
    exclusions: &IndexExclusions,
    is_sliced: bool,
    console: &mut Console<'_>,
) -> Result<UpdatedIndex, CliError> {
    let (mut slice, mut read) = (SLICE, 0);
    let mut words = LOOKING.to_owned();
    loop {
        let limit = is_sliced.then_some(slice);
        let mut updated = search_index::updated(settings, exclusions, limit, &words, console).await?;
        let IndexProgress { missing, missing_bytes, is_busy, .. } = updated.progress;
        read += updated.progress.read;
        if is_busy {
            "waiting for another process that updates the index".clone_into(&mut words);
            sleep(BUSY_PAUSE).await;
            continue;
        }
        if !is_sliced {
            return Ok(updated);
        }
        if missing == 0 {
            // Deleted records are removed by a complete update only.
            updated = search_index::updated(settings, exclusions, None, &words, console).await?;
            updated.progress.read += read;
            return Ok(updated);
        }
        if updated.progress.read == 0 {
            slice *= 2;
        }
        words = output::left_to_read(missing, missing_bytes);
    }
}
