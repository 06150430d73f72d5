//! `session/list` while sessions change.

use std::collections::BTreeSet;

use acpx_core::model::HostId;
use acpx_core::store::{Access, SqliteStore, Store};
use serde_json::{Value, json};

use super::Bench;
use crate::store_contract::samples::record;

#[tokio::test]
async fn a_list_that_is_read_page_by_page_has_every_record_once_though_they_change_meanwhile() {
    let bench = Bench::new();
    bench.place.make_home().unwrap();
    let store = SqliteStore::open(&bench.place.store(), Access::ReadWrite).unwrap();
    let names: Vec<String> = (0..150).map(|number| format!("r{number:03}")).collect();
    for name in &names {
        store.create(record(name, 5), Vec::new(), HostId::new("before").unwrap()).await.unwrap();
    }
    drop(store);

    let mut client = bench.client().await;
    let (mut seen, mut params) = (Vec::new(), json!({}));
    for changed in ["r000", "r149"] {
        let page: Value = client.call("session/list", &params).await.unwrap();
        let rows = page["sessions"].as_array().unwrap();
        seen.extend(rows.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()));
        params = json!({ "cursor": page.get("nextCursor") });
        client.call::<Value>("_acpx/close", &json!({ "sessionId": changed })).await.unwrap();
    }
    assert_eq!(params, json!({ "cursor": null }));
    assert_eq!(seen.len(), 150);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), names.into_iter().collect());
}
