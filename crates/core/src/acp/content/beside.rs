//! Updates that tell of a session beside what is said in it: notices, compactions, and what it uses. The versions of the
//! protocol say these in the same words. What cannot be read is state like any other.

use serde::Deserialize;
use serde_json::{Number, Value};

use super::UpdateParams;
use crate::model::{Cost, SessionUsage, Update};

fn read<V: for<'a> Deserialize<'a>>(params: &str) -> Option<V> {
    serde_json::from_str(params).ok().map(|UpdateParams { update }: UpdateParams<V>| update)
}

pub(super) fn usage(params: &str) -> Update {
    #[derive(Deserialize)]
    struct View {
        used: u64,
        size: u64,
        #[serde(default)]
        cost: Value,
    }
    #[derive(Deserialize)]
    struct CostView {
        amount: Number,
        currency: String,
    }
    let Some(View { used, size, cost }) = read(params) else { return Update::State };
    // A cost that cannot be read is one that was not told.
    let cost = serde_json::from_value(cost).ok();
    let cost = cost.map(|CostView { amount, currency }| Cost { amount, currency });
    Update::Usage(SessionUsage { used, size, cost })
}

pub(super) fn notice(params: &str) -> Update {
    #[derive(Deserialize)]
    struct View {
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
    fn what_is_told_beside_the_conversation_is_read_the_same_in_both_versions() {
        let cost = Cost { amount: Number::from_f64(0.25).unwrap(), currency: "USD".into() };
        let usage = |cost| Update::Usage(SessionUsage { used: 5, size: 10, cost });
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
}
