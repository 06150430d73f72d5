//! A conversation read from the store, by us and by the barest loop over the same rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::engine::Engine;
use acpx_core::model::{RecordId, Seq};
use acpx_testkit::TempHome;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

use crate::updates::{UPDATES, flood};

/// A store with one long turn in it.
pub(crate) struct Replay {
    home: TempHome,
    engine: Engine,
    record: RecordId,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl Replay {
    pub(crate) fn prepare(runtime: &Runtime) -> Self {
        let home = TempHome::new();
        let (engine, record, _) = runtime.block_on(flood(&home));
        Self { home, engine, record }
    }

    /// All events, page by page, to a sink that reads their envelopes.
    pub(crate) async fn ours(&self) -> Duration {
        let started = Instant::now();
        let mut replay = self.engine.replay(&self.record, Seq::FIRST);
        let (mut seen, mut bytes) = (0, 0);
        loop {
            let page = replay.page().await.expect("the store");
            if page.is_empty() {
                break;
            }
            for event in page {
                let envelope: Envelope<'_> = serde_json::from_str(&event.body).expect("an envelope");
                bytes += envelope.params.map_or(0, |params| params.get().len());
                seen += 1;
            }
        }
        assert!(seen > UPDATES && bytes > 0);
        started.elapsed()
    }

    /// All columns of all rows in one statement.
    pub(crate) fn bare(&self) -> Duration {
        let database = rusqlite::Connection::open(self.home.join("acpx.db")).expect("a database");
        let started = Instant::now();
        let mut select = database
            .prepare("SELECT key, at, turn, lineage, protocol, direction, kind, checksum, body FROM events ORDER BY key")
            .expect("a statement");
        let mut rows = select.query([]).expect("rows");
        let (mut seen, mut bytes) = (0, 0);
        while let Some(row) = rows.next().expect("a row") {
            let body: Arc<str> = row.get(8).expect("a body");
            let facts: [Option<i64>; 8] = std::array::from_fn(|column| row.get(column).expect("a number"));
            let envelope: Envelope<'_> = serde_json::from_str(&body).expect("an envelope");
            bytes += envelope.params.map_or(0, |params| params.get().len()) + facts.len();
            seen += 1;
        }
        assert!(seen > UPDATES && bytes > 0);
        started.elapsed()
    }
}
