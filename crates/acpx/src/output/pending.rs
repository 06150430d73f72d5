//! Lists pending requests of agents with everything that a terminal would show, and confirms an answer.

use std::io;

use acpx_core::model::SessionIdentity;
use acpx_core::protocol::{OptionMeta, PendingRequestMeta, ResponderMeta};
use serde::Serialize;

use super::question::details_of;
use super::sanitize::agent_text;
use super::{Console, TerminalForm, json_line};
use crate::cli::Format;

#[derive(Serialize)]
struct Pending<'a> {
    action: &'static str,
    questions: &'a [PendingRequestMeta],
}

/// Writes the pending requests.
pub(crate) fn pending(questions: &[PendingRequestMeta], console: &mut Console<'_>) -> io::Result<()> {
    let out = &mut *console.out;
    match console.mode.format {
        Format::Json => json_line(&Pending { action: "pending", questions }, out)?,
        Format::Quiet => {
            for question in questions {
                writeln!(out, "{}", question.question_id)?;
            }
        }
        Format::Text if questions.is_empty() => writeln!(out, "no pending requests")?,
        Format::Text => {
            for question in questions {
                out.write_all(text(question).as_bytes())?;
            }
        }
    }
    console.flush()
}

fn text(question: &PendingRequestMeta) -> String {
    let session = match &question.name {
        Some(name) => format!("{} {name} ({})", question.agent, question.ids.record),
        None => format!("{} ({})", question.agent, question.ids.record),
    };
    let mut text = format!("{}\t{}\n{}", question.question_id, subject(question), details_of(question));
    text.push_str(&form_of(question));
    text.extend(["  session: ", &agent_text(&session), "\n"]);
    if !question.cwd.is_empty() {
        text.extend(["  cwd: ", &agent_text(&question.cwd), "\n"]);
    }
    text.extend(["  since: ", &question.since, "\n  asked: ", &responders(&question.asked), "\n"]);
    if question.elicitation.is_some() {
        let id = &question.question_id;
        let how = if question.kind == "form" { "which asks for the fields" } else { "once it is done there" };
        text.extend(["  answer: acpx approve ", id, ", ", how, "; or acpx deny ", id, "\n"]);
    } else {
        text.push_str("  options:\n");
        text.extend((1..).zip(&question.options).map(option));
    }
    text
}

/// The fields of a form, or its address, in lines.
fn form_of(question: &PendingRequestMeta) -> String {
    let params = question.elicitation.as_ref().and_then(|params| serde_json::to_string(params).ok());
    params.map(|params| TerminalForm::read(&params).listed()).unwrap_or_default()
}

/// An option with everything that selects it.
fn option((number, option): (usize, &OptionMeta)) -> String {
    let OptionMeta { option_id, name, kind } = option;
    let name = name.as_ref().map(|name| format!("  {}", agent_text(name))).unwrap_or_default();
    let kind = kind.as_ref().map(|kind| format!(" [{}]", agent_text(kind))).unwrap_or_default();
    format!("    {number}  {}{name}{kind}\n", agent_text(option_id))
}

/// The subject of a pending request, on one line.
pub(super) fn subject(question: &PendingRequestMeta) -> String {
    let title = question.title.as_deref().unwrap_or("-");
    format!("{} [{}]", agent_text(title), agent_text(&question.kind))
}

fn responders(clients: &[ResponderMeta]) -> String {
    let words = |client: &ResponderMeta| {
        let who = if client.is_turns { "the turn's client" } else { "another client" };
        client.name.as_ref().map_or_else(|| who.to_owned(), |name| format!("{who}, {}", agent_text(name)))
    };
    if clients.is_empty() {
        return "no client is connected".to_owned();
    }
    clients.iter().map(words).collect::<Vec<_>>().join("; ")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerObject<'a> {
    question_id: &'a str,
    approved: bool,
    #[serde(flatten)]
    ids: &'a SessionIdentity,
}

/// Writes that a pending request was answered.
pub(crate) fn answered(
    ids: &SessionIdentity,
    question_id: &str,
    approved: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let text = if approved { "approved" } else { "denied" };
    console.result("question_answered", &AnswerObject { question_id, approved, ids }, Some(text), None)
}

#[cfg(test)]
mod tests;
