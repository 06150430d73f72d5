//! Lists queued prompts, and confirms which were dropped.

use std::io::{self, Write};

use acpx_core::model::Timestamp;
use acpx_core::protocol::QueuedPromptMeta;
use serde::Serialize;

use super::elapsed::elapsed;
use super::sanitize::{agent_text, ellipsize};
use super::short_id::short_id;
use super::{Console, json_line};
use crate::cli::Format;

/// How much of a prompt is shown on a terminal, so that most lines fit.
const SHOWN: usize = 48;

#[derive(Serialize)]
struct QueueObject<'a> {
    action: &'static str,
    prompts: &'a [QueuedPromptMeta],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DroppedObject<'a> {
    request_ids: &'a [String],
}

/// Writes the queued prompts.
pub(crate) fn queue(
    prompts: &[QueuedPromptMeta],
    now: Timestamp,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let on_terminal = console.mode.is_text_on_terminal();
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => json_line(&QueueObject { action: "queue", prompts }, out)?,
        Format::Quiet => prompts.iter().try_for_each(|prompt| writeln!(out, "{}", prompt.request_id))?,
        Format::Text if prompts.is_empty() => writeln!(out, "no queued prompts")?,
        Format::Text if on_terminal => by_session(prompts, now, out)?,
        Format::Text => prompts.iter().try_for_each(|prompt| writeln!(out, "{}", columns(prompt)))?,
    }
    console.flush()
}

/// A prompt in a line of columns, for programs.
fn columns(prompt: &QueuedPromptMeta) -> String {
    let QueuedPromptMeta { request_id, position, ids, name, agent, queued_at, text, .. } = prompt;
    let name = name.as_deref().unwrap_or("-");
    let words = [agent, name, ids.record.as_str()].map(agent_text);
    format!("{request_id}\t{position}\t{}\t{queued_at}\t{}", words.join("\t"), agent_text(text))
}

/// The prompts below their sessions.
fn by_session(prompts: &[QueuedPromptMeta], now: Timestamp, out: &mut dyn Write) -> io::Result<()> {
    let ids = || prompts.iter().map(|prompt| prompt.request_id.as_str());
    for (index, prompt) in prompts.iter().enumerate() {
        if index == 0 || prompt.position == 1 {
            let name = prompt.name.as_ref().map(|name| format!(" {}", agent_text(name))).unwrap_or_default();
            let (agent, cwd) = (agent_text(&prompt.agent), agent_text(&prompt.cwd));
            writeln!(out, "{agent}{name} in {cwd}")?;
        }
        let queued_at = Timestamp::parse(&prompt.queued_at).ok();
        let age = queued_at.map(|at| elapsed(now.since(at))).unwrap_or_default();
        let text = ellipsize(&agent_text(&prompt.text), SHOWN);
        let id = short_id(&prompt.request_id, ids());
        writeln!(out, "  {}  {id}  {age:>6}  {text}", prompt.position)?;
    }
    Ok(())
}

/// Writes which prompts were dropped.
pub(crate) fn queue_dropped(request_ids: &[String], console: &mut Console<'_>) -> io::Result<()> {
    let text = match request_ids {
        [] => "nothing to drop".to_owned(),
        ids => ids.iter().map(|id| format!("dropped {id}")).collect::<Vec<_>>().join("\n"),
    };
    console.result("queue_dropped", &DroppedObject { request_ids }, Some(&text), None)
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{RequestId, Turn, TurnState};
    use serde_json::{Value, json};

    use super::*;
    use crate::output::OutputMode;
    use crate::output::tests::samples::{at, formats, record, turn};

    fn prompts() -> Vec<QueuedPromptMeta> {
        let queued = |number: u64, text: &str| Turn {
            request: RequestId::new(format!("01a1e8cc-392e-{number}")).unwrap(),
            prompt: json!([{ "type": "text", "text": text }]).to_string().into(),
            queued_at: at(number.try_into().unwrap()),
            ..turn(number, TurnState::Queued)
        };
        let running = turn(3, TurnState::Dispatched { at: at(0) });
        let long = format!("then {}", "x".repeat(60));
        QueuedPromptMeta::of_record(&record(), &[running, queued(4, "fix\u{1b}[2J\nit"), queued(5, &long)])
    }

    #[test]
    fn queued_prompts_are_listed_with_id_position_session_and_first_line() {
        let prompts = prompts();
        let [text, quiet, json] = formats(|console| queue(&prompts, at(130), console).unwrap());
        let long = format!("then {}", "x".repeat(60));
        let expected = format!(
            "01a1e8cc-392e-4\t1\tclaude\tapi\tr1\t2023-11-14T22:13:24.000Z\tfix[2J…\n\
             01a1e8cc-392e-5\t2\tclaude\tapi\tr1\t2023-11-14T22:13:25.000Z\t{long}\n"
        );
        assert_eq!((text, quiet), (expected, "01a1e8cc-392e-4\n01a1e8cc-392e-5\n".to_owned()));
        let row = |number: u64, text: &str| {
            json!({
                "requestId": format!("01a1e8cc-392e-{number}"), "position": number - 3, "acpxRecordId": "r1",
                "acpxSessionId": "s2", "name": "api", "agent": "claude", "cwd": "/w",
                "queuedAt": format!("2023-11-14T22:13:2{number}.000Z"), "text": text,
            })
        };
        let expected = json!({ "action": "queue", "prompts": [row(4, "fix\u{1b}[2J…"), row(5, &long)] });
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
    }

    #[test]
    fn queued_prompts_on_a_terminal_stand_below_their_session() {
        let mut out = Vec::new();
        let mode = OutputMode { is_terminal: true, ..OutputMode::default() };
        let mut console = Console::over(mode, &mut out, io::sink());
        queue(&prompts(), at(130), &mut console).unwrap();
        drop(console);
        let expected = format!(
            "claude api in /w\n  1  01a1e8cc-392e-4   2 min  fix[2J…\n  2  01a1e8cc-392e-5   2 min  then {}…\n",
            "x".repeat(43)
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
