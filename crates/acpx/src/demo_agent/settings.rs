//! Settings of one run of the demo agent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use acpx_core::acp::agent::Feature;
use clap::ValueEnum;

use super::fault::RestoreFault;
use crate::mcp::McpLimits;

/// Settings of one run of the demo agent.
#[derive(Debug)]
pub(crate) struct DemoAgentSettings {
    /// Where sessions are stored.
    pub(crate) directory: PathBuf,
    pub(crate) features: BTreeSet<Feature>,
    pub(crate) page_size: usize,
    pub(crate) load_fault: Option<RestoreFault>,
    pub(crate) resume_fault: Option<RestoreFault>,
    pub(crate) replay: DemoReplayMode,
    pub(crate) quirks: BTreeSet<Quirk>,
    pub(crate) mcp_limits: McpLimits,
}

/// What `session/load` replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoReplayMode {
    /// The whole conversation, before the answer
    Full,
    /// The first half before the answer, the rest after it
    Late,
    /// Only the last exchange
    Partial,
    /// Nothing
    None,
}

/// Optional behaviour of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quirk {
    ReplayOnResume,
    MaterialiseEarly,
    AgentSessionId,
    LateCommands,
    Verbose,
}

impl DemoAgentSettings {
    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }
}
