//! How long one message takes from an agent to its client, and from a client to its agent: through `acpx acp`, and on
//! the agent's own pipe.
//!
//! The agent writes the time into its message as it sends it, by a clock that all processes of a machine share, so that
//! no way back is in the figure. Messages go one at a time, with a pause before each: whoever passes one on sleeps when
//! it comes, as it does between the words of a real agent.

use std::time::Duration;

use acpx_testkit::{Script, monotonic_nanos};
use serde_json::json;

use crate::agents::{self, Agents, BareAgent};
use crate::budgets::{self, Budget, Measure};
use crate::client::Client;
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::samples::Samples;
use crate::updates::chunk;

/// Both ways take turns, so many times, with so many messages each time.
const ROUNDS: usize = 6;
const UPDATES: u64 = 200;
const PROMPTS: usize = 20;
const PAUSE_MILLIS: u64 = 1;
/// What comes before the time in a message.
const BEFORE: &str = r#""text":""#;

/// Times both directions.
pub(crate) fn measure(agents: &Agents, report: &mut Report) {
    let mut timed = chunk("agent_message_chunk");
    timed["content"]["text"] = format!("{{now}} {}", timed["content"]["text"]).into();
    let paced = Script::new().repeat(UPDATES, |turn| turn.delay(PAUSE_MILLIS).update(timed));
    let paced = agents.with_turn(paced.end("end_turn"));
    let (direct, ours) = both(&paced, |client, session, times| {
        client.receive(session, |line| times.push(since(written(line))));
    });
    report.add(row(&budgets::FACE_MESSAGE, &direct, &ours));
    report.add_floor("one update on the agent's own pipe", &direct);

    let saying = Script::new().update(json!({
        "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": "{now} is when it came" },
    }));
    let (direct, ours) = both(&agents.with_turn(saying.end("end_turn")), |client, session, times| {
        for _ in 0..PROMPTS {
            let sent_at = monotonic_nanos();
            client.receive(session, |line| times.push(Duration::from_nanos(written(line) - sent_at)));
        }
    });
    report.add(row(&budgets::FACE_PROMPT, &direct, &ours));
    report.add_floor("one prompt on the agent's own pipe", &direct);
}

/// The times of messages on the agent's own pipe, and through `acpx acp`.
fn both(agent: &[String], measure: impl Fn(&mut Client, &str, &mut Vec<Duration>)) -> (Samples, Samples) {
    let program = Program::ours();
    let mut bare = BareAgent::start(agent);
    let mut editor = program.editor(&agents::line(agent), 1);
    let session = editor.open();
    let (mut direct, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        measure(&mut bare.client, &bare.session, &mut direct);
        measure(&mut editor, &session, &mut ours);
    }
    bare.end();
    editor.end();
    (Samples::new(direct), Samples::new(ours))
}

fn row(budget: &'static Budget, direct: &Samples, ours: &Samples) -> Row {
    let more = ours.median().as_secs_f64() - direct.median().as_secs_f64();
    let text = format!("{ours}; p99 {} against {}", ours.p99(), direct.p99());
    Row::new(budget, None, text, vec![(Measure::MicrosMoreMedian, more * 1e6)])
}

/// The time that an agent wrote into its message.
fn written(line: &str) -> u64 {
    let text = line.split_once(BEFORE).map_or("", |(_, text)| text);
    let time = text.split_once(' ').map_or("", |(time, _)| time);
    time.parse().expect("the agent says when it wrote")
}

fn since(nanos: u64) -> Duration {
    Duration::from_nanos(monotonic_nanos() - nanos)
}
