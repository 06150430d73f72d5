//! An event as one line: time, level, message, its fields, and those of the spans around it.
//!
//! Messages are constants of the program. Text of agents and peers is in fields only, where it is escaped and cut, so it
//! forges no line and no field, and moves no cursor.

use std::fmt::{self, Write};
use std::time::SystemTime;

use acpx_core::model::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// How many characters of a value are written.
const VALUE_CHARS: usize = 300;

/// Formats events and passes each line on, with its line break.
pub(super) struct LineLayer<W> {
    write: W,
}

/// The fields of a span, as they are written.
struct SpanFields(String);

impl<W: Fn(String)> LineLayer<W> {
    pub(super) fn new(write: W) -> Self {
        Self { write }
    }
}

impl<S, W> Layer<S> for LineLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(String) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LineFields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(SpanFields(fields.fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LineFields::default();
        values.record(&mut fields);
        if let Some(known) = span.extensions_mut().get_mut::<SpanFields>() {
            known.0.push_str(&fields.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        let mut line = beginning(*event.metadata().level());
        line.push_str(&fields.message);
        line.push_str(&fields.fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(SpanFields(fields)) = span.extensions().get() {
                line.push_str(fields);
            }
        }
        line.push('\n');
        (self.write)(line);
    }
}

/// The beginning of a line: time and level.
pub(super) fn beginning(level: Level) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{} {:<5} ", Timestamp::since_1970(since), level.as_str())
}

/// Collects a message and the text of its fields.
#[derive(Default)]
struct LineFields {
    message: String,
    fields: String,
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded::default();
        // Fails only when the value is cut.
        write!(text, "{value:?}").ok();
        if field.name() == "message" {
            push_escaped(&mut self.message, &text.text);
        } else {
            push_field(&mut self.fields, field.name(), &text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = Bounded::default();
        // Fails only when the value is cut.
        text.write_str(value).ok();
        push_field(&mut self.fields, field.name(), &text);
    }
}

/// The first characters of a text, however long it is.
#[derive(Default)]
struct Bounded {
    text: String,
    chars: usize,
    is_cut: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.chars == VALUE_CHARS {
                self.is_cut = true;
                return Err(fmt::Error);
            }
            self.text.push(character);
            self.chars += 1;
        }
        Ok(())
    }
}

fn push_field(fields: &mut String, name: &str, Bounded { text, is_cut, .. }: &Bounded) {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "-_./:@+".contains(character);
    fields.push(' ');
    fields.push_str(name);
    fields.push('=');
    if !text.is_empty() && !is_cut && text.chars().all(is_word) {
        return fields.push_str(text);
    }
    fields.push('"');
    push_escaped(fields, text);
    fields.push_str(if *is_cut { "…\"" } else { "\"" });
}

fn push_escaped(line: &mut String, text: &str) {
    for character in text.chars() {
        let is_hidden = character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        match character {
            '"' | '\\' => line.extend(['\\', character]),
            '\n' => line.push_str("\\n"),
            _ if is_hidden => line.extend(character.escape_unicode()),
            _ => line.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// The lines that some events become, without their times.
    fn logged(emit: impl FnOnce()) -> Vec<String> {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&lines);
        let layer = LineLayer::new(move |line| seen.lock().unwrap().push(line));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), emit);
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        lines
            .into_iter()
            .map(|line| {
                let (time, rest) = line.split_once(' ').unwrap();
                assert!(Timestamp::parse(time).is_ok() && time.ends_with('Z'), "{time}");
                rest.to_owned()
            })
            .collect()
    }

    #[test]
    fn log_line_has_level_message_fields_and_the_context_of_spans() {
        let lines = logged(|| {
            let session = tracing::error_span!("session", record = "r1", agent = tracing::field::Empty);
            let turn = tracing::error_span!(parent: &session, "turn", turn = 2);
            session.record("agent", "demo");
            tracing::info!(parent: &turn, stop = "end_turn", took_ms = 12, "turn ended");
            tracing::warn!(none = None::<&str>, words = "a b", "no span");
        });
        assert_eq!(
            lines,
            [
                "INFO  turn ended stop=end_turn took_ms=12 turn=2 record=r1 agent=demo\n",
                "WARN  no span words=\"a b\"\n"
            ]
        );
    }

    #[test]
    fn text_of_a_peer_is_escaped_and_cut_in_a_log_line() {
        let forged = "a\n2026-01-01T00:00:00.000Z ERROR forged pid=1 \u{1b}[2J\"\\\u{202e}";
        let lines = logged(|| tracing::info!(reason = forged, "refused"));
        let expected =
            r#"INFO  refused reason="a\n2026-01-01T00:00:00.000Z ERROR forged pid=1 \u{1b}[2J\"\\\u{202e}""#;
        assert_eq!(lines, [format!("{expected}\n")]);
        let lines = logged(|| tracing::info!(name = %"x".repeat(1 << 20), "long"));
        assert_eq!(lines, [format!("INFO  long name=\"{}…\"\n", "x".repeat(VALUE_CHARS))]);
    }

    proptest! {
        #[test]
        fn log_line_is_one_line_of_bounded_length_for_any_text(text in "\\PC*|[\\s\\S]{0,2000}") {
            for line in logged(|| tracing::info!(text = %text, quoted = ?text, "any")) {
                let (body, end) = line.split_at(line.len() - 1);
                prop_assert_eq!(end, "\n");
                prop_assert!(!body.chars().any(char::is_control), "{:?}", body);
                prop_assert!(body.chars().count() < 2 * (10 * VALUE_CHARS + 20), "{}", body.len());
            }
        }
    }
}
