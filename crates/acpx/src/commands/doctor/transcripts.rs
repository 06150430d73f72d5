//! Looks for the transcripts that agents keep themselves: how many there are, and which cannot be read.

use std::time::Duration;

use acpx_core::transcripts::TranscriptReader;
use tokio::time::timeout;

use super::DoctorReport;
use crate::error::CliError;
use crate::output::Finding;
use crate::session::native::NativeSessions;
use crate::session::settings::CommandSettings;

/// How long the transcripts of one agent are looked for.
const LOOK: Duration = Duration::from_secs(10);
/// How many problems of one agent are named.
const NAMED: usize = 5;

/// Reports the transcripts of every agent that has some.
pub(super) async fn look(settings: &CommandSettings, report: &mut DoctorReport) -> Result<(), CliError> {
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

fn places(reader: &dyn TranscriptReader) -> String {
    let places: Vec<String> = reader.locations().iter().map(|place| place.display().to_string()).collect();
    places.join(" and ")
}
