//! The result of removing a chosen setting.

use serde::{Deserialize, Serialize};

use crate::model::{SessionIdentity, Setting, SettingValue};

/// The result of `_acpx/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgottenMeta {
    /// The record's ids.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// The option's id; absent if it was the mode, or if nothing was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The value that was chosen; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<SettingValue>,
}

impl ForgottenMeta {
    /// The setting that was chosen for a record until now.
    pub fn of(identity: SessionIdentity, setting: Option<Setting>) -> Self {
        let option = setting.as_ref().and_then(|setting| setting.name.option()).map(str::to_owned);
        Self { ids: identity, option, value: setting.map(|setting| setting.value) }
    }
}
