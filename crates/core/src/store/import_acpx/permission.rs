//! Reads the outcome of a permission request in a journal from the request and its response.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::direction::JournalRequest;
use crate::model::PermissionCount;

/// Counts an answered permission request. Any response that does not select an allowing option is a rejection.
pub(super) fn count(count: &mut PermissionCount, asked: &JournalRequest, result: Option<&RawValue>) {
    let sum =
        if is_given(asked, result).unwrap_or(false) { &mut count.approved } else { &mut count.rejected };
    *sum = sum.saturating_add(1);
}

fn is_given(asked: &JournalRequest, result: Option<&RawValue>) -> Option<bool> {
    #[derive(Deserialize)]
    struct Question<'a> {
        #[serde(borrow)]
        options: Vec<Choice<'a>>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow, rename = "optionId")]
        id: Cow<'a, str>,
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        outcome: Outcome<'a>,
    }
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow, rename = "optionId")]
        chosen: Cow<'a, str>,
    }
    let question: Question<'_> = serde_json::from_str(asked.params.as_deref()?).ok()?;
    let answer: Answer<'_> = serde_json::from_str(result?.get()).ok()?;
    let chosen = question.options.into_iter().find(|choice| choice.id == answer.outcome.chosen)?;
    Some(chosen.kind.starts_with("allow"))
}
