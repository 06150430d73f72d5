//! What agents ask and nobody has answered, as a list; and that one was answered.

use std::io::{self, Write};

use acpx_core::host::meta::IdsMeta;
use acpx_core::host::{AskedMeta, QuestionMeta};
use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;

#[derive(Serialize)]
struct Pending<'a> {
    action: &'static str,
    questions: &'a [QuestionMeta],
}

/// Writes the questions that are open.
pub(crate) fn pending(questions: &[QuestionMeta], console: &mut Console<'_>) -> io::Result<()> {
    let out = &mut *console.out;
    match console.mode.format {
        Format::Json => json_line(&Pending { action: "pending", questions }, out)?,
        Format::Quiet => {
            for question in questions {
                writeln!(out, "{}", question.question_id)?;
            }
        }
        Format::Text if questions.is_empty() => writeln!(out, "nothing is asked")?,
        Format::Text => {
            for question in questions {
                out.write_all(text(question).as_bytes())?;
            }
        }
    }
    console.flush()
}

fn text(question: &QuestionMeta) -> String {
    let session = match &question.name {
        Some(name) => format!("{} {name} ({})", question.agent, question.ids.acpx_record_id),
        None => format!("{} ({})", question.agent, question.ids.acpx_record_id),
    };
    let option = |option: &acpx_core::host::OptionMeta| match &option.name {
        Some(name) => format!("{} ({})", option.option_id, one_line(name)),
        None => option.option_id.clone(),
    };
    let options: Vec<String> = question.options.iter().map(option).collect();
    format!(
        "{}\t{}\n  session: {}\n  since: {}\n  asked: {}\n  options: {}\n",
        question.question_id,
        subject(question),
        one_line(&session),
        question.since,
        asked(&question.asked),
        one_line(&options.join(", ")),
    )
}

/// What a question is about, in one line.
pub(super) fn subject(question: &QuestionMeta) -> String {
    let title = question.title.as_deref().unwrap_or("-");
    format!("{} [{}]", one_line(title), one_line(&question.kind))
}

fn asked(clients: &[AskedMeta]) -> String {
    let words = |client: &AskedMeta| {
        let who = if client.is_turns { "the turn's client" } else { "another client" };
        client.name.as_ref().map_or_else(|| who.to_owned(), |name| format!("{who}, {}", one_line(name)))
    };
    if clients.is_empty() {
        return "nobody is there".to_owned();
    }
    clients.iter().map(words).collect::<Vec<_>>().join("; ")
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered<'a> {
    action: &'static str,
    question_id: &'a str,
    approved: bool,
    #[serde(flatten)]
    ids: &'a IdsMeta,
}

/// Writes that a question was answered.
pub(crate) fn answered(
    ids: &IdsMeta,
    question_id: &str,
    approved: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    match console.mode.format {
        Format::Quiet => {}
        Format::Text => writeln!(console.out, "{}", if approved { "approved" } else { "denied" })?,
        Format::Json => {
            let answered = Answered { action: "question_answered", question_id, approved, ids };
            json_line(&answered, &mut *console.out)?;
        }
    }
    console.flush()
}
