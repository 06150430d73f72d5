//! Records, turns and consoles for the tests of what is written.

use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentEnd, AgentExit, AgentRun, AgentSessionId, AgentSpec, Lifecycle, Lineage,
    LineageReason, McpServerRef, PermissionPolicy, ProcessIdentity, Record, RecordId, RequestId, Scope, Seq,
    SessionName, Timestamp, Turn, TurnId, TurnState,
};

use crate::cli::Format;
use crate::output::{Console, OutputMode};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000).unwrap()
}

/// A record that lost its first session.
pub(crate) fn record() -> Record {
    let mut lineage =
        Lineage::begin(AcpSessionId::new("s1").unwrap(), AgentSessionId::from_agent("inner-1"), at(0));
    lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::AgentLost, at(50));
    let agent = AgentSpec::new("npx", ["-y", "an agent"]).named("claude");
    let name = SessionName::new("api").unwrap();
    Record {
        id: RecordId::new("r1").unwrap(),
        scope: Some(Scope { agent: agent.key(), name: Some(name) }),
        agent,
        cwd: AbsolutePath::new("/w").unwrap(),
        real_cwd: AbsolutePath::new("/w").unwrap(),
        additional_directories: Vec::new(),
        mcp_servers: vec![McpServerRef { name: "files".to_owned(), source: None }],
        info: acpx_core::model::SessionInfo { title: Some("A\ntitle".to_owned()), ..Default::default() },
        lifecycle: Lifecycle::Open,
        lineage,
        agent_run: Some(run(None)),
        settings: acpx_core::model::RecordSettings::default(),
        memory: acpx_core::model::AgentMemory::default(),
        restore_error: None,
        created_at: at(0),
        updated_at: at(60),
        last_seq: Some(Seq(9)),
        last_turn: Some(TurnId(3)),
        answered_turns: 2,
    }
}

/// The same record without any optional value.
pub(crate) fn bare_record() -> Record {
    Record {
        scope: None,
        agent: AgentSpec::new("./mine", ["--acp"]),
        mcp_servers: Vec::new(),
        info: acpx_core::model::SessionInfo::default(),
        lifecycle: Lifecycle::Closed { at: at(70) },
        lineage: Lineage::begin(AcpSessionId::new("s1").unwrap(), None, at(0)),
        agent_run: None,
        settings: acpx_core::model::RecordSettings::default(),
        memory: acpx_core::model::AgentMemory::default(),
        restore_error: None,
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
        ..record()
    }
}

pub(crate) fn run(how: Option<&str>) -> AgentRun {
    AgentRun {
        process: ProcessIdentity { pid: 4242, started: 1, boot: "b".to_owned() },
        since: at(50),
        ended: how.map(|how| AgentExit { at: at(55), how: AgentEnd::from_words(how) }),
    }
}

pub(crate) fn turn(id: u64, state: TurnState) -> Turn {
    Turn {
        id: TurnId(id),
        request: RequestId::new(format!("q{id}")).unwrap(),
        prompt: "[]".into(),
        policy: PermissionPolicy::default(),
        wake_options: acpx_core::model::WakeOptions::default(),
        limits: acpx_core::model::TurnLimits::default(),
        queued_at: at(40 + i64::try_from(id).unwrap()),
        state,
        usage: None,
        cost: None,
        permissions: acpx_core::model::PermissionCount::default(),
    }
}

/// What is written to stdout and to stderr.
pub(crate) fn written(mode: OutputMode, write: impl FnOnce(&mut Console<'_>)) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    write(&mut Console::over(mode, &mut out, &mut err));
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

pub(crate) fn mode(format: Format) -> OutputMode {
    OutputMode { format, ..OutputMode::default() }
}

/// What is written to stdout in text, quiet and JSON, with an empty stderr.
pub(crate) fn formats(write: impl Fn(&mut Console<'_>)) -> [String; 3] {
    [Format::Text, Format::Quiet, Format::Json].map(|format| {
        let (out, err) = written(mode(format), &write);
        assert_eq!(err, "");
        out
    })
}
