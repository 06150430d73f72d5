//! Cached `initialize` responses, the last one per command line, with the build of the program that sent it.

use rusqlite::Connection;

use super::cells::{self, Cells, Columns, columns};
use super::fault::SqliteFault;
use super::rows;
use crate::model::{AgentAnswer, AgentBuild};

pub(super) const ANSWER: Columns<3> = columns!["agent_answers": "command", "program", "answer"; "checksum"];

/// The last response for a command line.
pub(super) fn read(connection: &Connection, command: &[String]) -> Result<Option<AgentAnswer>, SqliteFault> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM agent_answers WHERE command = ?1", ANSWER.list))?;
    let mut found = statement.query([rows::list(command)])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let cells = Cells::read(row, 0, &ANSWER)?;
    let (program, answer) = (cells.text(1)?.to_owned(), cells.text(2)?.to_owned());
    Ok(Some(AgentAnswer { program, answer }))
}

/// Stores a response in place of the previous one.
pub(super) fn keep(connection: &Connection, agent: &AgentBuild, answer: &str) -> Result<(), SqliteFault> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO agent_answers (command, program, answer, checksum) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (command) DO UPDATE SET \
         program = excluded.program, answer = excluded.answer, checksum = excluded.checksum",
    )?;
    let command = rows::list(&agent.command);
    cells::write(
        &mut upsert,
        &ANSWER,
        [command.as_str().into(), agent.program.as_str().into(), answer.into()],
    )?;
    Ok(())
}
