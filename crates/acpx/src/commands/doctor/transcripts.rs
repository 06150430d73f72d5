//! Looks for the transcripts that agents keep themselves: how many there are, and which cannot be read.

use std::collections::HashMap;
use std::time::Duration;

use acpx_core::index::SearchIndex;
use acpx_core::transcripts::TranscriptReader;
use tokio::time::timeout;

use super::DoctorReport;
use crate::error::CliError;
use crate::output::Finding;
use crate::session::host_locator::HostLocator;
use crate::session::native::NativeSessions;
use crate::session::search_index;
use crate::session::settings::CommandSettings;

/// How long the transcripts of one agent are looked for.
const LOOK: Duration = Duration::from_secs(10);
/// How many problems of one agent are named.
const NAMED: usize = 5;

/// Reports the transcripts of every agent that has some.
pub(super) async fn look(settings: &CommandSettings, report: &mut DoctorReport) -> Result<(), CliError> {
    let unread = unread_lines();
    for reader in NativeSessions::of_all(settings).readers {
        let (agent, places) = (reader.agent(), places(&*reader));
        let list = tokio::task::spawn_blocking(move || {
            let mut count = 0_usize;
            let problems = reader.list(&mut |source| count += usize::from(source.parent.is_none()));
            (count, problems)
        });
        let Ok(Ok((count, problems))) = timeout(LOOK, list).await else {
            let words = format!("{agent}: {places} does not answer within {} s", LOOK.as_secs());
            report.say(&Finding::warn("transcripts", words, "check the disk that it is on"))?;
            continue;
        };
        if count > 0 {
            report.say(&Finding::ok("transcripts", format!("{agent}: {count} in {places}")))?;
        }
        if let Some(lines) = unread.get(agent).filter(|lines| **lines > 0) {
            let words =
                format!("{agent}: {lines} lines are damaged, too long, incomplete or of an unknown kind");
            report.say(&Finding::warn(
                "transcripts",
                words,
                "the rest of these transcripts is shown and found",
            ))?;
        }
        for problem in problems.iter().take(NAMED) {
            let words = format!("{agent}: {}: {}", problem.path.display(), problem.reason);
            report.say(&Finding::warn("transcripts", words, "it is not listed and not found by a search"))?;
        }
        if problems.len() > NAMED {
            let words = format!("{agent}: {} more cannot be read", problems.len() - NAMED);
            report.say(&Finding::warn("transcripts", words, "acpx index status counts them"))?;
        }
    }
    Ok(())
}

/// How many lines of each agent's transcripts could not be read, as far as the search index knows.
fn unread_lines() -> HashMap<String, u64> {
    let Ok(locator) = HostLocator::of_environment() else { return HashMap::new() };
    let status = SearchIndex::open_unchanged(&search_index::path(&locator)).and_then(|index| index.status());
    let agents = status.map(|status| status.agents).unwrap_or_default();
    agents.into_iter().map(|(agent, _, lines)| (agent, lines)).collect()
}

fn places(reader: &dyn TranscriptReader) -> String {
    let places: Vec<String> = reader.locations().iter().map(|place| place.display().to_string()).collect();
    places.join(" and ")
}
