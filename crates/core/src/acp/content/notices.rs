//! Reads updates that are not part of the messages: notices, compactions and usage. Both protocol versions use the
//! same form, except that only version 2 can clear a cost. An unreadable update becomes [`Update::State`].

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::UpdateParams;
use crate::model::{Cost, SessionUsage, Update};

fn read<V: for<'a> Deserialize<'a>>(params: &str) -> Option<V> {
    serde_json::from_str(params).ok().map(|UpdateParams { update }: UpdateParams<V>| update)
}

/// Reads a usage update. An absent cost is unchanged; `null` clears it if the version supports that.
pub(super) fn usage(params: &str, null_clears: bool) -> Update {
    #[derive(Deserialize)]
    struct View<'a> {
        used: u64,
        size: u64,
        #[serde(borrow, default, deserialize_with = "crate::model::even_null")]
        cost: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct CostView {
        amount: Number,
        currency: String,
    }
    let Ok(UpdateParams { update: View { used, size, cost } }) = serde_json::from_str(params) else {
        return Update::State;
    };
    // An unreadable cost counts as absent.
    let read = cost.and_then(|cost| serde_json::from_str(cost.get()).ok());
    let read = read.map(|CostView { amount, currency }| Cost { amount, currency });
    let is_cleared = null_clears && cost.is_some_and(|cost| cost.get() == "null");
    let cost_stands = read.is_none() && !is_cleared;
    Update::Usage { usage: SessionUsage { used, size, cost: read }, cost_stands }
}

pub(super) fn notice(params: &str) -> Update {
    #[derive(Deserialize)]
    struct View {
        // The protocol requires a severity, but a notice without one is still worth showing.
        #[serde(default)]
        severity: Box<str>,
        title: Box<str>,
        #[serde(default)]
        description: Value,
    }
    let Some(View { severity, title, description }) = read(params) else { return Update::State };
    Update::Notice { severity, title, description: text(&description) }
}

pub(super) fn compaction(params: &str) -> Update {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct View {
        compaction_id: Box<str>,
        status: Box<str>,
        #[serde(default)]
        error: Value,
    }
    let Some(View { compaction_id: id, status, error }) = read(params) else { return Update::State };
    Update::Compaction { id, status, error: text(&error) }
}

fn text(value: &Value) -> Option<Box<str>> {
    value.as_str().filter(|text| !text.is_empty()).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::super::{update, update_v2};
    use super::*;

    #[test]
    fn notices_and_usage_are_read_the_same_in_both_versions() {
        let cost = Cost { amount: Number::from_f64(0.25).unwrap(), currency: "USD".into() };
        let usage = |cost: Option<Cost>| {
            let cost_stands = cost.is_none();
            Update::Usage { usage: SessionUsage { used: 5, size: 10, cost }, cost_stands }
        };
        let cases = [
            (
                r#"{"sessionUpdate":"usage_update","used":5,"size":10,"cost":{"amount":0.25,"currency":"USD"}}"#,
                usage(Some(cost)),
            ),
            (r#"{"sessionUpdate":"usage_update","used":5,"size":10,"cost":"much"}"#, usage(None)),
            (r#"{"sessionUpdate":"usage_update","used":-5,"size":10}"#, Update::State),
            (
                r#"{"sessionUpdate":"notice","severity":"warning","title":"slow","description":null}"#,
                Update::Notice { severity: "warning".into(), title: "slow".into(), description: None },
            ),
            (
                r#"{"sessionUpdate":"notice","title":"slow"}"#,
                Update::Notice { severity: "".into(), title: "slow".into(), description: None },
            ),
            (r#"{"sessionUpdate":"notice","severity":"warning"}"#, Update::State),
            (
                r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"failed","error":"full"}"#,
                Update::Compaction { id: "c".into(), status: "failed".into(), error: Some("full".into()) },
            ),
            (r#"{"sessionUpdate":"compaction_update","status":"failed"}"#, Update::State),
        ];
        for (text, expected) in cases {
            let params = format!(r#"{{"sessionId":"s","update":{text}}}"#);
            assert_eq!((update(&params), update_v2(&params)), (expected.clone(), expected), "{text}");
        }
    }

    #[test]
    fn usage_cost_stays_until_replaced_or_cleared_in_v2() {
        let update_json = |cost: &str| {
            let update = format!(r#"{{"sessionUpdate":"usage_update","used":5,"size":10{cost}}}"#);
            format!(r#"{{"sessionId":"s","update":{update}}}"#)
        };
        let cost = Cost { amount: Number::from(2), currency: "USD".into() };
        let usage = |cost| Some(SessionUsage { used: 5, size: 10, cost });
        let with = update_json(r#","cost":{"amount":2,"currency":"USD"}"#);
        let (without, null) = (update_json(""), update_json(r#","cost":null"#));
        let last = |reads: fn(&str) -> Update, newest_first: &[&String]| {
            SessionUsage::last(newest_first.iter().map(|params| reads(params)))
        };
        for reads in [update as fn(&str) -> Update, update_v2] {
            assert_eq!(last(reads, &[&without, &without, &with]), usage(Some(cost.clone())));
            assert_eq!(last(reads, &[&without]), usage(None));
        }
        assert_eq!(last(update, &[&null, &with]), usage(Some(cost)));
        assert_eq!(last(update_v2, &[&without, &null, &with]), usage(None));
        assert_eq!(last(update_v2, &[]), None);
    }
}
