//! The arguments of `acpx demo-agent`, and their conversion to the settings of the built-in agent.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use acpx_core::acp::agent::Feature;
use clap::Args;

use crate::demo_agent::{DemoAgentSettings, DemoReplayMode, Quirk, RestoreFault};
use crate::mcp::McpLimits;

/// Run a small agent that needs no model and no account
#[derive(Debug, Args)]
#[command(long_about = ABOUT, after_help = WORDS)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct DemoAgentArgs {
    /// Do not offer session/load
    #[arg(long, help_heading = "What it offers")]
    no_load: bool,
    /// Do not offer session/resume
    #[arg(long, help_heading = "What it offers")]
    no_resume: bool,
    /// Do not offer session/close
    #[arg(long, help_heading = "What it offers")]
    no_close: bool,
    /// Do not offer session/list
    #[arg(long, help_heading = "What it offers")]
    no_list: bool,
    /// Do not offer session/delete
    #[arg(long, help_heading = "What it offers")]
    no_delete: bool,
    /// Do not offer MCP servers over HTTP
    #[arg(long, overrides_with = "http", help_heading = "What it offers")]
    no_http: bool,
    /// Offer MCP servers over HTTP; the default, and still in the command lines of older sessions
    #[arg(long, hide = true)]
    http: bool,
    /// How long an MCP server may take to connect, and to answer a tool call [default: 10000 and 60000]
    #[arg(long, value_name = "MS", help_heading = "What it offers")]
    mcp_timeout: Option<u64>,
    /// Rows on a page of session/list
    #[arg(long, value_name = "N", default_value = "50", help_heading = "What it offers")]
    page_size: NonZeroUsize,

    /// Fail every session/load the way real agents do
    #[arg(long, value_name = "KIND", help_heading = "What it gets wrong")]
    load_fails: Option<RestoreFault>,
    /// Fail every session/resume the way real agents do
    #[arg(long, value_name = "KIND", help_heading = "What it gets wrong")]
    resume_fails: Option<RestoreFault>,
    /// What session/load replays
    #[arg(long, value_name = "HOW", default_value = "full", help_heading = "What it gets wrong")]
    replay: DemoReplayMode,
    /// Replay on session/resume too, which the protocol forbids
    #[arg(long, help_heading = "What it gets wrong")]
    replay_on_resume: bool,

    /// Store a session when it is created, not with its first prompt
    #[arg(long, help_heading = "What it also does")]
    materialise_early: bool,
    /// Send an inner session id as _meta.agentSessionId
    #[arg(long, help_heading = "What it also does")]
    agent_session_id: bool,
    /// Send the available commands after each setup answer
    #[arg(long, help_heading = "What it also does")]
    late_commands: bool,
    /// Report on stderr what it does
    #[arg(long, help_heading = "What it also does")]
    verbose: bool,
}

const ABOUT: &str = "\
Run a small agent that needs no model and no account

A complete ACP agent on stdin and stdout, to try acpx with and to test against. \
It keeps its sessions in ACPX_HOME/demo (default ~/.acpx/demo). \
It connects to the MCP servers that its client names, over stdio and streamable HTTP. \
The same prompts always get the same answers, and the same numbers of tokens.";

const WORDS: &str = "\
Words in a prompt control the answer, in their order:
  chunks N     stream exactly N chunks
  think        think first
  plan         make a plan and finish it
  tool         call a reading tool
  permission   ask before an editing tool (it is pretended: no file is touched)
  mode X       go into mode X: ask or code
  wait         wait until cancelled
  wait MS      wait that many milliseconds
  mcp          list the session's MCP servers and their tools
  mcp SERVER TOOL {JSON}
               call a tool of an MCP server, with permission
  recall       answer with every earlier prompt of the session
  refuse       end the turn with a refusal
  fail         answer the prompt with an error
  crash        send one chunk, then exit with code 70
They work anywhere in a prompt; other words are echoed.";

impl DemoAgentArgs {
    /// The settings of an agent that stores its sessions in this directory.
    pub(crate) fn settings(&self, directory: PathBuf) -> DemoAgentSettings {
        DemoAgentSettings {
            directory,
            features: self.features(),
            page_size: self.page_size.get(),
            load_fault: self.load_fails,
            resume_fault: self.resume_fails,
            replay: self.replay,
            quirks: self.quirks(),
            mcp_limits: self.mcp_limits(),
        }
    }

    fn features(&self) -> BTreeSet<Feature> {
        let offered = [
            (Feature::Load, !self.no_load),
            (Feature::Resume, !self.no_resume),
            (Feature::Close, !self.no_close),
            (Feature::List, !self.no_list),
            (Feature::Delete, !self.no_delete),
            (Feature::McpHttp, self.http || !self.no_http),
            (Feature::Modes, true),
        ];
        offered.into_iter().filter_map(|(feature, offered)| offered.then_some(feature)).collect()
    }

    fn mcp_limits(&self) -> McpLimits {
        let given = self.mcp_timeout.map(Duration::from_millis);
        given.map_or_else(McpLimits::default, |limit| McpLimits { connect: limit, call: limit })
    }

    fn quirks(&self) -> BTreeSet<Quirk> {
        let wanted = [
            (Quirk::ReplayOnResume, self.replay_on_resume),
            (Quirk::MaterialiseEarly, self.materialise_early),
            (Quirk::AgentSessionId, self.agent_session_id),
            (Quirk::LateCommands, self.late_commands),
            (Quirk::Verbose, self.verbose),
        ];
        wanted.into_iter().filter_map(|(quirk, wanted)| wanted.then_some(quirk)).collect()
    }
}
