//! Builds the lines that are sent to a client: from parts, or from an agent's line with some parts replaced.

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;

use super::line::UpdateLine;
use crate::model::{ClientName, Seq, Timestamp};
use crate::wire::json::RawObject;
use crate::wire::splice::Splice;
use crate::wire::{encode, json};

/// What acpx adds to an update, under `_meta.acpx` of its notification.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdateMeta<'a> {
    /// The seq of the event that the update renders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<u64>,
    /// The time of that event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Timestamp>,
    /// The prompt that the update renders.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<&'a PromptOrigin>,
}

/// The turn, request id and client of a prompt, for the other clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptOrigin {
    pub(super) turn: u64,
    pub(super) request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<ClientName>,
}

impl UpdateMeta<'_> {
    pub(super) fn of(seq: Seq, at: Timestamp) -> Self {
        Self { seq: Some(seq.0), at: Some(at), origin: None }
    }

    fn json(&self) -> Option<String> {
        match (self.seq, self.at, self.origin) {
            (None, None, None) => None,
            // Fast path for almost all updates.
            (Some(seq), Some(at), None) => Some(format!(r#"{{"seq":{seq},"at":"{at}"}}"#)),
            _ => Some(serde_json::to_string(self).expect("numbers and text are always JSON")),
        }
    }
}

/// A `session/update` line with this update object. `session` is JSON.
pub(super) fn notification(session: &str, update: &str, meta: &UpdateMeta<'_>) -> String {
    let mut params = String::with_capacity(session.len() + update.len() + 128);
    // Writing to a string cannot fail.
    let _ = write!(params, r#"{{"sessionId":{session},"update":{update}"#);
    if let Some(acpx) = meta.json() {
        let _ = write!(params, r#","_meta":{{"acpx":{acpx}}}"#);
    }
    params.push('}');
    encode::notification("session/update", &params)
}

/// The lines of one event. Only the last carries the seq: a client that received it has all of them.
pub(super) fn notifications(
    session: &str,
    updates: &[impl AsRef<str>],
    meta: &UpdateMeta<'_>,
) -> Vec<String> {
    let before = UpdateMeta { seq: None, ..meta.clone() };
    let line = |(index, update): (usize, &_)| {
        let meta = if index + 1 == updates.len() { meta } else { &before };
        notification(session, AsRef::<str>::as_ref(update), meta)
    };
    updates.iter().enumerate().map(line).collect()
}

/// An agent's line with replacements. All other bytes stay.
pub(super) struct LineRewrite<'a> {
    body: &'a str,
    splice: Splice<'a>,
}

impl<'a> LineRewrite<'a> {
    /// Starts a line with the client's session id, as JSON.
    pub(super) fn new(line: &UpdateLine<'a>, session: &str) -> Self {
        let mut passed = Self { body: line.body, splice: Splice::new(line.body) };
        if let Some(named) = line.params.session {
            passed.put(named, session);
        }
        passed
    }

    /// Replaces a part of the line.
    pub(super) fn put(&mut self, part: &str, with: &str) {
        // The parts come from one parse of the line and each is replaced once, so they lie in it and do not overlap.
        drop(self.splice.replace(json::range_in(self.body, part), with));
    }

    /// Inserts text at an offset.
    fn insert(&mut self, at: usize, text: &str) {
        drop(self.splice.replace(at..at, text));
    }

    /// Sets `_meta.acpx`, and removes the agent's own: an agent may itself be an acpx host, with seqs of its own.
    pub(super) fn write(&mut self, line: &UpdateLine<'a>, meta: &UpdateMeta<'_>) {
        match (line.params.meta, meta.json()) {
            (None, None) => {}
            (None, Some(acpx)) => {
                let start = json::range_in(self.body, line.params.text).start + 1;
                self.insert(start, &format!(r#""_meta":{{"acpx":{acpx}}},"#));
            }
            (Some(meta), Some(acpx)) => self.write_within(meta, &acpx),
            (Some(_), None) => self.leave_theirs_out(line),
        }
    }

    fn leave_theirs_out(&mut self, line: &UpdateLine<'a>) {
        let cuts = RawObject::parse(line.params.text);
        let cuts = cuts.and_then(|params| params.removal(self.body, &["_meta"], &["acpx"]));
        for cut in cuts.into_iter().flatten() {
            drop(self.splice.replace(cut, ""));
        }
    }

    fn write_within(&mut self, text: &'a str, acpx: &str) {
        if let Some(ours) = json::get(text, &["acpx"]) {
            self.put(ours, acpx);
        } else if let Some(rest) = text.strip_prefix('{') {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            let start = json::range_in(self.body, text).start + 1;
            self.insert(start, &format!(r#""acpx":{acpx}{comma}"#));
        } else {
            self.put(text, &format!(r#"{{"acpx":{acpx}}}"#));
        }
    }

    pub(super) fn finish(self) -> String {
        self.splice.finish()
    }
}

type IsSession = dyn Fn(&str) -> bool + Send + Sync;

/// Tests whether an id is an acpx session that a client uses. By default none is.
#[derive(Clone, Default)]
pub(crate) struct SessionIds(Option<Arc<IsSession>>);

impl SessionIds {
    /// The ids that satisfy the predicate.
    pub(crate) fn new(is_session: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_session)))
    }

    pub(super) fn contain(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|is_session| is_session(id))
    }
}

impl fmt::Debug for SessionIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionIds").finish_non_exhaustive()
    }
}
