//! `_acpx/history`: reads earlier turns of a record, rendered as a replay renders them, with the outcomes of turns. It
//! attaches to nothing and starts no agent.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::acp::agent::{CallError, ClientLink};
use crate::acp::render::{Bounds, ClientState};
use crate::host::attach::replay::{RecordEvents, ReplayReader};
use crate::host::connection::Connection;
use crate::model::{RecordId, Seq};
use crate::protocol::acpx_meta::problem;
use crate::protocol::rpc_error;
use crate::protocol::sessions::{HistoryMeta, HistoryParams};
use crate::store::StoreError;
use crate::wire::json;

/// The usual and the largest number of turns.
const TURNS: u64 = 20;
const MOST_TURNS: u64 = 1000;
/// The usual bound of tool output.
const TOOL_OUTPUT_BYTES: u64 = 64 * 1024;
/// How many bytes of updates one response has at most. The updates of a single larger event are sent anyway.
const MOST_BYTES: usize = 4 << 20;

/// Reads the turns before an event.
pub(crate) async fn read(
    client: &Connection,
    params: HistoryParams,
    link: &ClientLink,
) -> Result<String, CallError> {
    let record = RecordId::new(params.session_id.as_str());
    let record = record.map_err(|error| problem("sessionId", error.to_string()))?;
    client.check_visible(&record).await?;
    let stored = client.host.store.record(record.clone()).await.map_err(rpc_error::not_kept)?;
    let stored = stored.filter(|stored| !stored.lifecycle.is_deleted());
    let last = stored.ok_or_else(|| rpc_error::unknown(&record))?.last_seq.unwrap_or(Seq(0));
    let until = params.before.map_or(last, |before| last.min(Seq(before.saturating_sub(1))));
    let bytes = params.tool_output_bytes.unwrap_or(TOOL_OUTPUT_BYTES);
    let reading = HistoryReading {
        client,
        link,
        record,
        until,
        bounds: Bounds { tool_output_bytes: Some(usize::try_from(bytes).unwrap_or(usize::MAX)) },
    };
    let turns = params.turns.unwrap_or(TURNS).clamp(1, MOST_TURNS);
    let part = reading.turns(turns).await.map_err(rpc_error::not_kept)?;
    let updates = part.updates.into_iter().filter_map(|line| RawValue::from_string(line).ok()).collect();
    let more = part.from > Seq::FIRST;
    let history = HistoryMeta { updates, from: part.from.0, more };
    Ok(serde_json::to_string(&history).expect("updates are JSON"))
}

/// A request for history.
struct HistoryReading<'a> {
    client: &'a Connection,
    link: &'a ClientLink,
    record: RecordId,
    /// The last event to read.
    until: Seq,
    bounds: Bounds,
}

/// Consecutive updates of a history.
struct HistorySlice {
    updates: VecDeque<String>,
    /// How many bytes the updates have.
    bytes: usize,
    from: Seq,
    /// Whether earlier updates of these turns were left out.
    is_cut: bool,
}

impl HistoryReading<'_> {
    /// The last turns, without their first updates if they are too long.
    async fn turns(&self, turns: u64) -> Result<HistorySlice, StoreError> {
        let store = Arc::clone(&self.client.host.store);
        let events = RecordEvents::new(store, self.record.clone(), Some(self.until));
        let from = events.last_turns(turns).await?;
        let mut part = HistorySlice { updates: VecDeque::new(), bytes: 0, from, is_cut: false };
        if self.until < Seq::FIRST {
            return Ok(HistorySlice { from: Seq::FIRST, ..part });
        }
        let sessions = self.client.attachments.session_ids();
        let facts = self.link.client();
        let reader = ReplayReader::open(events, facts, sessions, from, ClientState::Earlier, self.bounds);
        let mut reader = reader.await?.with_outcomes();
        while let Some(lines) = reader.next_page().await? {
            for line in lines {
                let Some(params) = json::get(&line, &["params"]) else { continue };
                part.push(params.to_owned());
            }
            part.cut(MOST_BYTES);
        }
        if part.is_cut {
            part.drop_cut_turn();
        }
        Ok(part)
    }
}

impl HistorySlice {
    fn push(&mut self, params: String) {
        self.bytes += params.len();
        self.updates.push_back(params);
    }

    /// Leaves out the first events while the updates are longer than this. All updates of an event go together, because
    /// the next request continues before `from`.
    fn cut(&mut self, most: usize) {
        while self.bytes > most
            && let Some(first) = self.first_event()
            && self.updates.iter().any(|params| seq_of(params).is_some_and(|seq| seq > first))
        {
            self.drop_until(first);
            self.is_cut = true;
        }
    }

    /// Leaves out the rest of a turn that was cut, if another turn follows: a tool call that begins in one answer and
    /// ends in another would look unfinished.
    fn drop_cut_turn(&mut self) {
        let prompt = self.updates.iter().position(|params| is_user_message(params));
        let before = self.updates.range(..prompt.unwrap_or_default());
        if let Some(last) = before.rev().find_map(|params| seq_of(params)) {
            self.drop_until(last);
        }
    }

    /// Leaves out the updates up to this event.
    fn drop_until(&mut self, last: Seq) {
        while self.first_event().is_some_and(|event| event <= last)
            && let Some(left_out) = self.updates.pop_front()
        {
            self.bytes -= left_out.len();
        }
        self.from = last.next();
    }

    /// The event of the first update. An update without a number belongs to the event of the next one.
    fn first_event(&self) -> Option<Seq> {
        self.updates.iter().find_map(|params| seq_of(params))
    }
}

/// Whether an update is a user message, or a part of one.
fn is_user_message(params: &str) -> bool {
    let kind = json::get(params, &["update", "sessionUpdate"]);
    kind.is_some_and(|kind| kind.starts_with("\"user_message"))
}

/// The number of an update's last event.
fn seq_of(params: &str) -> Option<Seq> {
    json::get(params, &["_meta", "acpx", "seq"])?.parse().ok().map(Seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(updates: &[&str]) -> HistorySlice {
        let mut slice = HistorySlice { updates: VecDeque::new(), bytes: 0, from: Seq(4), is_cut: false };
        for params in updates {
            slice.push((*params).to_owned());
        }
        slice
    }

    fn update(seq: u64) -> String {
        format!(r#"{{"_meta":{{"acpx":{{"seq":{seq}}}}}}}"#)
    }

    #[test]
    fn history_is_cut_between_events_and_never_inside_one() {
        let (five, eight, nine) = (update(5), update(8), update(9));
        let unnumbered = "{}";
        // What is left with room for this many updates, and the event it starts at.
        let cases: [(&[&str], usize, usize, u64); 6] = [
            (&[&five, &eight, &nine], 3, 3, 4),
            (&[&five, &eight, &nine], 2, 2, 6),
            (&[&five, &eight, &eight, &nine], 2, 1, 9),
            (&[&five, unnumbered, &eight, &nine], 2, 1, 9),
            (&[unnumbered, &eight, &eight], 1, 3, 4),
            (&[&five, unnumbered, unnumbered], 0, 3, 4),
        ];
        for (updates, room, left, from) in cases {
            let mut slice = slice(updates);
            slice.cut(room * nine.len());
            assert_eq!((slice.updates.len(), slice.from), (left, Seq(from)), "{updates:?}");
            assert_eq!(slice.is_cut, from > 4, "{updates:?}");
            assert_eq!(slice.bytes, slice.updates.iter().map(String::len).sum::<usize>(), "{updates:?}");
        }
    }

    #[test]
    fn history_of_a_cut_turn_begins_at_the_next_user_message() {
        let user = |seq: u64| {
            let update = r#""update":{"sessionUpdate":"user_message"}"#;
            format!(r#"{{"_meta":{{"acpx":{{"seq":{seq}}}}},{update}}}"#)
        };
        let (five, eight, nine, ten) = (update(5), user(8), update(9), user(10));
        let unnumbered = "{}";
        let cases: [(&[&str], usize, u64); 4] = [
            (&[&five, &eight, &nine, &ten], 3, 6),
            (&[&five, unnumbered, &eight, &nine], 3, 6),
            (&[&five, &nine], 2, 4),
            (&[&eight, &nine, &ten], 3, 4),
        ];
        for (updates, left, from) in cases {
            let mut slice = slice(updates);
            slice.drop_cut_turn();
            assert_eq!((slice.updates.len(), slice.from), (left, Seq(from)), "{updates:?}");
        }
    }
}
