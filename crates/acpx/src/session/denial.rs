//! Explains a turn whose agent was denied every permission: what was denied, and which flag or rule would have allowed
//! it.
//! The hint depends on the cause: a rule, the mode, a person, or the absence of a person.

use acpx_core::model::{
    Decision, ErrorCode, PermissionMode, PermissionPolicy, Ruling, ToolPolicy, ToolUse, UnattendedPolicy,
};

use crate::output::{DenialSummary, PromptResult};

/// Permission terms of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DenialContext<'a> {
    pub(crate) policy: &'a PermissionPolicy,
    /// Whether a person could answer permission requests.
    pub(crate) interactive: bool,
    /// Whether the turn is recorded, so that other commands can answer its pending requests.
    pub(crate) is_kept: bool,
}

impl PromptResult {
    /// Adds what was denied, and a hint. Without a summary of the turn the hint is the one for most tools.
    pub(crate) fn explain_denial(&mut self, denied: Option<&DenialSummary>, terms: DenialContext<'_>) {
        let Some(error) = self.error.as_mut().filter(|error| error.code == ErrorCode::PermissionDenied)
        else {
            return;
        };
        if let Some(DenialSummary { tool, more }) = denied {
            error.name_denied(tool, *more);
        }
        error.hint = hint(denied.map_or(&ToolUse::default(), |denied| &denied.tool), terms);
    }
}

/// What would have allowed it; `None` if a person denied it.
fn hint(tool: &ToolUse, DenialContext { policy, interactive, is_kept }: DenialContext<'_>) -> Option<String> {
    let by_rule = policy.tools.as_deref().and_then(|rules: &ToolPolicy| rules.rule(tool));
    let Ruling { decision, escalated_by } = policy.rule(tool);
    let words = match decision {
        Decision::Reject if by_rule.is_some() => {
            "a rule denies it, and rules come before --approve-all: change --permission-policy, or permissionPolicy in config.json".to_owned()
        }
        Decision::Reject => {
            "everything is denied, by --deny-all or by defaultPermissions in config.json: --approve-reads lets the agent read and search, --approve-all do everything".to_owned()
        }
        Decision::Approve => "it was approved, but the agent offers no answer that allows it".to_owned(),
        Decision::Ask if interactive || policy.unasked == UnattendedPolicy::Wait => return None,
        Decision::Ask => {
            let who = match escalated_by {
                Some(rule) => format!("the rule {rule:?} requires a decision, and no client has allowed it"),
                None => "no client that could answer has allowed it".to_owned(),
            };
            let elsewhere = if is_kept {
                ", or let it wait with --non-interactive-permissions wait and answer with acpx approve"
            } else {
                ""
            };
            // Rules come before the mode.
            let all = match (escalated_by, policy.mode) {
                (None, PermissionMode::ApproveReads | PermissionMode::Ask) => {
                    "; --approve-all lets the agent do everything"
                }
                _ => "",
            };
            format!("{who}: prompt on a terminal{elsewhere}{all}")
        }
    };
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn edit() -> ToolUse {
        ToolUse { protocol_kind: Some("edit".into()), ..ToolUse::default() }
    }

    #[test]
    fn denial_hint_names_the_flag_that_would_allow_it() {
        use PermissionMode::{ApproveAll, ApproveReads, DenyAll};
        let hint_of = |mode, rules: &str, unasked, interactive, is_kept| {
            let tools = (!rules.is_empty()).then(|| Arc::new(ToolPolicy::parse(rules).unwrap()));
            let policy = PermissionPolicy { mode, tools, unasked };
            hint(&edit(), DenialContext { policy: &policy, interactive, is_kept })
        };
        let rule = "a rule denies it, and rules come before --approve-all: change --permission-policy, or permissionPolicy in config.json";
        let all = "everything is denied, by --deny-all or by defaultPermissions in config.json: --approve-reads lets the agent read and search, --approve-all do everything";
        let unattended = "no client that could answer has allowed it: prompt on a terminal, or let it wait with --non-interactive-permissions wait and answer with acpx approve; --approve-all lets the agent do everything";
        let exec = "no client that could answer has allowed it: prompt on a terminal; --approve-all lets the agent do everything";
        let escalated = "the rule \"edit\" requires a decision, and no client has allowed it: prompt on a terminal, or let it wait with --non-interactive-permissions wait and answer with acpx approve";
        let unoffered = "it was approved, but the agent offers no answer that allows it";
        let (deny, escalate) = (r#"{"autoDeny":["edit"]}"#, r#"{"escalate":["edit"]}"#);
        let cases = [
            (hint_of(ApproveReads, "", UnattendedPolicy::Deny, false, true), Some(unattended)),
            (hint_of(ApproveReads, "", UnattendedPolicy::Deny, false, false), Some(exec)),
            (
                hint_of(ApproveReads, r#"{"autoDeny":["read"]}"#, UnattendedPolicy::Deny, false, true),
                Some(unattended),
            ),
            // A person was asked and denied it.
            (hint_of(ApproveReads, "", UnattendedPolicy::Deny, true, true), None),
            (hint_of(ApproveReads, "", UnattendedPolicy::Wait, false, true), None),
            (hint_of(ApproveAll, escalate, UnattendedPolicy::Deny, true, true), None),
            (hint_of(ApproveAll, escalate, UnattendedPolicy::Deny, false, true), Some(escalated)),
            (hint_of(ApproveAll, deny, UnattendedPolicy::Deny, true, true), Some(rule)),
            (hint_of(DenyAll, deny, UnattendedPolicy::Deny, false, true), Some(rule)),
            (hint_of(DenyAll, "", UnattendedPolicy::Deny, true, true), Some(all)),
            (hint_of(ApproveAll, "", UnattendedPolicy::Deny, false, true), Some(unoffered)),
        ];
        for (index, (hint, expected)) in cases.into_iter().enumerate() {
            assert_eq!(hint.as_deref(), expected, "{index}");
        }
    }
}
