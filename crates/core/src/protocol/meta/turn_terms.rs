//! The terms of a turn: its permissions and limits.
//!
//! A prompt sets them for itself, and a connection for its prompts that do not. For a client that may not approve, the
//! approving parts are removed here, so that neither source can add them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{PermissionMode, SpendingLimits, ToolPolicy, TurnLimits, UnattendedPolicy};

/// How often a client whose terms are limited may let a prompt be retried.
const MAX_RETRIES: u32 = 10;

/// The terms of a turn. An absent member falls back to the next source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnTermsMeta {
    /// The permission mode; absent, the client is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PermissionMode>,
    /// Rules for single tools, which take precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_policy: Option<serde_json::Value>,
    /// What becomes of a permission request that no client can answer. Absent, it stays pending if the turn's client
    /// can answer while connected; otherwise it is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unasked: Option<UnattendedPolicy>,
    /// The turn's time limit, from the acceptance of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the agent may send nothing during the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// What the turn and its session may cost, and how many tokens they may use.
    #[serde(skip_serializing_if = "SpendingLimits::is_empty")]
    pub max_usage: SpendingLimits,
    /// How often the prompt is sent again after an internal error of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// How many prompts may wait behind the running one; one more is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u64>,
}

impl TurnTermsMeta {
    /// Builds terms; mode and `unasked` are optional.
    pub fn of(
        mode: Option<PermissionMode>,
        tools: Option<&ToolPolicy>,
        unasked: Option<UnattendedPolicy>,
        limits: TurnLimits,
    ) -> Self {
        let millis = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self {
            policy: mode.filter(|mode| *mode != PermissionMode::Ask),
            tool_policy: tools.map(ToolPolicy::to_value),
            unasked,
            timeout_ms: limits.whole.map(millis),
            idle_timeout_ms: limits.silence.map(millis),
            max_usage: limits.spending,
            retries: Some(limits.retries).filter(|retries| *retries > 0),
            queue_depth: limits.queue_depth.map(|depth| depth as u64),
        }
    }

    /// The turn's limits.
    pub(crate) fn limits(&self) -> TurnLimits {
        let limit = |millis: Option<u64>| millis.map(Duration::from_millis);
        TurnLimits {
            whole: limit(self.timeout_ms),
            silence: limit(self.idle_timeout_ms),
            spending: self.max_usage.clone(),
            retries: self.retries.unwrap_or_default(),
            queue_depth: self.queue_depth.map(|depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        }
    }

    /// Fills absent members from other terms. Rules from there do not apply if this turn denies all.
    #[must_use]
    pub(crate) fn or(self, others: &Self) -> Self {
        let rules = others.tool_policy.clone().filter(|_| self.policy != Some(PermissionMode::DenyAll));
        Self {
            policy: self.policy.or(others.policy),
            tool_policy: self.tool_policy.or(rules),
            unasked: self.unasked.or(others.unasked),
            timeout_ms: self.timeout_ms.or(others.timeout_ms),
            idle_timeout_ms: self.idle_timeout_ms.or(others.idle_timeout_ms),
            max_usage: self.max_usage.or(&others.max_usage),
            retries: self.retries.or(others.retries),
            queue_depth: self.queue_depth.or(others.queue_depth),
        }
    }

    /// Removes everything that approves without asking.
    pub(crate) fn remove_approvals(&mut self) {
        self.policy = self.policy.filter(|policy| *policy != PermissionMode::ApproveAll);
        self.remove_approving_rules();
    }

    fn remove_approving_rules(&mut self) {
        if let Some(rules) = &mut self.tool_policy
            && let Ok(read) = ToolPolicy::of(rules)
        {
            *rules = read.without_approvals().to_value();
        }
    }

    /// Lowers the limits of cost and tokens to these.
    pub(crate) fn limit_usage(&mut self, set: &SpendingLimits) {
        self.max_usage = std::mem::take(&mut self.max_usage).within(set);
    }

    /// Removes everything that would allow more, or take longer, than these terms of another party.
    pub(crate) fn keep_within(&mut self, set: &Self) {
        let shorter = |own: Option<u64>, set: Option<u64>| own.map(|own| set.map_or(own, |set| own.min(set)));
        self.policy = self.policy.filter(|own| set.policy.is_none_or(|set| *own <= set));
        if set.tool_policy.is_some() || set.policy == Some(PermissionMode::DenyAll) {
            // A rule set replaces another one completely, and what it asks about could then be approved.
            self.tool_policy = None;
        } else if set.policy.is_some() {
            self.remove_approving_rules();
        }
        self.unasked = self.unasked.filter(|_| set.unasked.is_none());
        self.timeout_ms = shorter(self.timeout_ms, set.timeout_ms);
        self.idle_timeout_ms = shorter(self.idle_timeout_ms, set.idle_timeout_ms);
        self.limit_usage(&set.max_usage);
        self.queue_depth = shorter(self.queue_depth, set.queue_depth);
        self.retries = self.retries.map(|own| own.min(set.retries.unwrap_or(MAX_RETRIES)));
    }
}

#[cfg(test)]
mod tests;
