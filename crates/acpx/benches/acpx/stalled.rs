//! A client that never reads, beside one that does: what it costs the host.

use acpx_testkit::{Script, ScriptStep};
use serde_json::Value;

use crate::agents::{self, Agents};
use crate::budgets::{self, Measure};
use crate::memory;
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::updates::{UPDATES, chunk};

/// Looks at the host after a long turn that one client has read, and after one more that a second client, which has
/// the session in use too, has not.
pub(crate) fn measure(agents: &Agents, report: &mut Report) {
    let flood = ScriptStep::Flood { update: chunk("agent_message_chunk"), count: Some(UPDATES.into()) };
    let agent = agents::line(&agents.with_turn(Script::new().step(flood).end("end_turn")));
    let program = Program::ours();
    let mut reads = program.editor(&agent, 1);
    let session = reads.open();
    reads.prompt(&session, UPDATES.into());
    let before = memory::background(&program);
    let mut stalls = program.editor(&agent, 1);
    stalls.take_up("session/resume", &session, &Value::Null);
    // That every update is received is asserted there.
    reads.prompt(&session, UPDATES.into());
    let after = memory::background(&program);
    if let (Some(before), Some(after)) = (before, after) {
        let more = after.growth(before, 1.0);
        let found = vec![(Measure::Megabytes, more.resident)];
        report.add(Row::new(&budgets::STALLED, None, more.to_string(), found));
    }
    reads.end();
    stalls.end();
}
