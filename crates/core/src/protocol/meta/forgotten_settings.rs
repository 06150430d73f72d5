//! What is said of a setting that is wished no more.

use serde::{Deserialize, Serialize};

use super::IdsMeta;
use crate::model::{SessionIdentity, Setting, SettingValue};

/// The answer to `_acpx/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgottenMeta {
    /// The record's ids.
    #[serde(flatten)]
    pub ids: IdsMeta,
    /// The id of the option; absent, it was the mode, or nothing was wished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// What was wished; absent, nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<SettingValue>,
}

impl ForgottenMeta {
    /// What was wished of a record until now.
    pub fn of(identity: SessionIdentity, wish: Option<Setting>) -> Self {
        let option = wish.as_ref().and_then(|wish| wish.name.option()).map(str::to_owned);
        Self { ids: identity.into(), option, value: wish.map(|wish| wish.value) }
    }
}
