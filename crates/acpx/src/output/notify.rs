//! The sinks of notifications with their queues, and the outcome of a test, for `acpx notify`.

use std::io::{self, Write as _};

use acpx_core::model::{NotificationKind, SinkStatus, Timestamp};
use serde::Serialize;

use super::fields::Fields;
use super::{Console, on_one_line};
use crate::cli::Format;
use crate::config::notify::{NotifySink, SinkTarget};

/// A configured sink, and how it is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SinkState {
    pub(crate) sink: NotifySink,
    pub(crate) status: SinkStatus,
}

/// The outcome of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotifyTest<'a> {
    pub(crate) sink: &'a NotifySink,
    pub(crate) event_id: &'a str,
    /// Why it failed.
    pub(crate) error: Option<&'a str>,
}

#[derive(Serialize)]
struct NotifyStatusObject<'a> {
    sinks: Vec<SinkObject<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SinkObject<'a> {
    sink: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    events: Vec<&'static str>,
    bodies: bool,
    queued: u64,
    delivered: u64,
    given_up: u64,
    dropped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NotifyTestedObject<'a> {
    sink: &'a str,
    r#type: &'static str,
    event_id: &'a str,
    delivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Where a sink leads: its program, or its host without the path, which may be a secret.
fn target(sink: &NotifySink) -> Option<String> {
    match &sink.target {
        SinkTarget::Command(argv) => argv.first().cloned(),
        SinkTarget::Webhook { target, .. } | SinkTarget::Ntfy { target, .. } => Some(target.origin()),
        SinkTarget::Desktop => None,
    }
}

impl<'a> SinkObject<'a> {
    fn of(state: &'a SinkState) -> Self {
        let SinkState { sink, status } = state;
        Self {
            sink: &sink.name,
            r#type: sink.target.type_name(),
            target: target(sink),
            events: sink.kinds.iter().copied().map(NotificationKind::as_str).collect(),
            bodies: sink.bodies,
            queued: status.queued,
            delivered: status.delivered,
            given_up: status.given_up,
            dropped: status.dropped,
            delivered_at: status.delivered_at,
            last_error: status.error.as_ref().map(|(_, error)| error.as_str()),
            failed_at: status.error.as_ref().map(|(at, _)| *at),
        }
    }
}

impl SinkState {
    /// Its numbers in words.
    pub(crate) fn words(&self) -> String {
        let SinkStatus { queued, delivered, given_up, dropped, error, .. } = &self.status;
        let lost = match given_up + dropped {
            0 => String::new(),
            lost => format!(", {lost} lost"),
        };
        let error = error.as_ref().map(|(at, error)| format!("; last error at {at}: {error}"));
        format!("{queued} queued, {delivered} delivered{lost}{}", error.unwrap_or_default())
    }
}

/// Writes the sinks.
pub(crate) fn notify_status(sinks: &[SinkState], console: &mut Console<'_>) -> io::Result<()> {
    let objects: Vec<SinkObject<'_>> = sinks.iter().map(SinkObject::of).collect();
    match console.mode.format {
        Format::Json => {
            return console.result("notify_status", &NotifyStatusObject { sinks: objects }, None, None);
        }
        Format::Quiet => objects.iter().try_for_each(|sink| writeln!(console.out, "{}", sink.sink))?,
        Format::Text if sinks.is_empty() => {
            console.notice("no sinks: put them under notify in config.json");
        }
        Format::Text if console.mode.is_terminal => {
            let mut fields = Fields::default();
            for state in sinks {
                let to = target(&state.sink).map(|target| format!(" to {target}")).unwrap_or_default();
                let kind = state.sink.target.type_name();
                fields.add(state.sink.name.clone(), Some(format!("{kind}{to}: {}", state.words())));
            }
            fields.write(&mut console.out)?;
        }
        Format::Text => {
            for sink in &objects {
                let SinkObject { queued, delivered, given_up, dropped, .. } = sink;
                let place = on_one_line(sink.target.as_deref().unwrap_or("-"));
                let error = on_one_line(sink.last_error.unwrap_or("-"));
                writeln!(
                    console.out,
                    "{}\t{}\t{place}\t{queued}\t{delivered}\t{given_up}\t{dropped}\t{error}",
                    sink.sink, sink.r#type
                )?;
            }
        }
    }
    console.flush()
}

/// Writes whether a sink took the test event.
pub(crate) fn notify_tested(tested: &NotifyTest<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let NotifyTest { sink, event_id, error } = *tested;
    let object = NotifyTestedObject {
        sink: &sink.name,
        r#type: sink.target.type_name(),
        event_id,
        delivered: error.is_none(),
        reason: error,
    };
    let text = match error {
        None => format!("{}: delivered", sink.name),
        Some(error) => format!("{}: {}", sink.name, on_one_line(error)),
    };
    console.result("notify_tested", &object, Some(&text), Some(&sink.name))
}
