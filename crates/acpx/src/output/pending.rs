//! Lists pending requests of agents with everything that a terminal would show, and confirms an answer.

use std::io::{self, Write};
use std::path::Path;

use acpx_core::model::{ClientName, SessionIdentity, Timestamp, narrowest};
use acpx_core::protocol::{OptionMeta, PendingRequestMeta, ResponderMeta};
use serde::Serialize;

use super::banner::brief_path;
use super::diff::Detail;
use super::elapsed::elapsed;
use super::question::details_of;
use super::sanitize::agent_text;
use super::short_id::short_id;
use super::{Console, TerminalForm, json_line};
use crate::cli::Format;

#[derive(Serialize)]
struct Pending<'a> {
    action: &'static str,
    questions: &'a [PendingRequestMeta],
}

/// Writes the pending requests.
pub(crate) fn pending(
    requests: &[PendingRequestMeta],
    now: Timestamp,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let on_terminal = console.mode.is_text_on_terminal();
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => json_line(&Pending { action: "pending", questions: requests }, out)?,
        Format::Quiet => {
            for request in requests {
                writeln!(out, "{}", request.question_id)?;
            }
        }
        Format::Text if requests.is_empty() => writeln!(out, "no pending requests")?,
        Format::Text if on_terminal => {
            let views: Vec<String> = requests
                .iter()
                .map(|request| shown(request, requests, now) + &lines_to_type(request, requests))
                .collect();
            out.write_all(views.join("\n").as_bytes())?;
        }
        Format::Text => {
            for request in requests {
                out.write_all(text(request).as_bytes())?;
            }
        }
    }
    console.flush()
}

fn text(request: &PendingRequestMeta) -> String {
    let session = match &request.name {
        Some(name) => format!("{} {name} ({})", request.agent, request.ids.record),
        None => format!("{} ({})", request.agent, request.ids.record),
    };
    let mut text =
        format!("{}\t{}\n{}", request.question_id, subject(request), details_of(request, Detail::Short));
    text.push_str(&form_of(request));
    text.extend(["  session: ", &agent_text(&session), "\n"]);
    if !request.cwd.is_empty() {
        text.extend(["  cwd: ", &agent_text(&request.cwd), "\n"]);
    }
    text.extend(["  since: ", &request.since, "\n  asked: ", &responders(&request.asked), "\n"]);
    let id = &request.question_id;
    let how = form_effect(request)
        .map(|how| format!(", {}{how}", if request.kind == "form" { "which " } else { "" }))
        .unwrap_or_default();
    if how.is_empty() {
        text.push_str("  options:\n");
        text.extend((1..).zip(&request.options).map(option));
    }
    text.extend(["  answer: acpx approve ", id, &how, "; or acpx deny ", id, "\n"]);
    text
}

/// A request on a terminal: its subject, its session, how long it waits, and what it would do.
pub(crate) fn shown(request: &PendingRequestMeta, all: &[PendingRequestMeta], now: Timestamp) -> String {
    let mut shown = format!("{}\n", summary(request, all, now));
    shown.push_str(&details_of(request, Detail::Short));
    shown.push_str(&form_of(request));
    shown
}

/// The notice about a request that waits for an answer, with the lines that answer it.
pub(crate) fn pending_notice(request: &PendingRequestMeta, all: &[PendingRequestMeta]) -> String {
    let id = typed_id(request, all);
    format!("{} waits for an answer: acpx approve {id} or acpx deny {id}", subject(request))
}

/// A choice of one of several requests: each on one line, with its number.
pub(crate) fn choice(all: &[PendingRequestMeta], now: Timestamp) -> String {
    let line = |(number, request): (usize, &PendingRequestMeta)| {
        format!("{number}  {}\n", summary(request, all, now))
    };
    (1..).zip(all).map(line).collect()
}

/// The subject of a request, its session and how long it waits, on one line.
fn summary(request: &PendingRequestMeta, all: &[PendingRequestMeta], now: Timestamp) -> String {
    let name = request.name.as_ref().map(|name| format!(" {}", agent_text(name))).unwrap_or_default();
    let place = if request.cwd.is_empty() { "" } else { " in " };
    // A host of another version may write the time in another way.
    let since = Timestamp::parse(&request.since).ok();
    let waits = since.map(|since| format!(", waiting for {}", elapsed(now.since(since)))).unwrap_or_default();
    format!(
        "{}  {} ({}{name}{place}{}{waits})",
        typed_id(request, all),
        subject(request),
        agent_text(&request.agent),
        agent_text(&brief_path(Path::new(&request.cwd)))
    )
}

/// The lines that answer a request, each with what it means.
fn lines_to_type(request: &PendingRequestMeta, all: &[PendingRequestMeta]) -> String {
    let id = typed_id(request, all);
    let plain = ["allow", "reject"].map(|kind| narrowest(&request.options, kind));
    let line = |(number, option): (usize, &OptionMeta)| {
        let rejects = option.kind.as_deref().is_some_and(|kind| kind.starts_with("reject"));
        let is_plain = plain.into_iter().flatten().any(|plain| plain.option_id == option.option_id);
        let flag = if is_plain { String::new() } else { format!(" --option {number}") };
        let verb = if rejects { "deny" } else { "approve" };
        (format!("acpx {verb} {id}{flag}"), agent_text(option.label()))
    };
    let mut lines: Vec<(String, String)> = (1..).zip(&request.options).map(line).collect();
    if let Some(effect) = form_effect(request) {
        lines.push((format!("acpx approve {id}"), effect.to_owned()));
    }
    if plain[1].is_none() {
        lines.push((format!("acpx deny {id}"), String::new()));
    }
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
    let padded = |(line, meaning): &(String, String)| {
        let line = format!("  {line:width$}  {meaning}");
        format!("{}\n", line.trim_end())
    };
    lines.iter().map(padded).collect()
}

/// The id as a person types it.
fn typed_id<'a>(request: &'a PendingRequestMeta, all: &[PendingRequestMeta]) -> &'a str {
    short_id(&request.question_id, all.iter().map(|request| request.question_id.as_str()))
}

/// What `approve` does with a form; `None` for a permission request.
fn form_effect(request: &PendingRequestMeta) -> Option<&'static str> {
    request.elicitation.as_ref()?;
    Some(if request.kind == "form" { "asks for the fields" } else { "once it is done there" })
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
        let name = client.name.as_ref().filter(|name| *name != ClientName::SHELL);
        name.map_or_else(|| who.to_owned(), |name| format!("{who}, {}", agent_text(name)))
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

/// Writes that a request was shown and not answered.
pub(crate) fn left_pending(console: &mut Console<'_>) -> io::Result<()> {
    writeln!(console.out, "not answered; it stays pending")?;
    console.flush()
}

#[cfg(test)]
mod tests;
