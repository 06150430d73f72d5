//! Memory: what holds live sessions in the background, and what one more of them costs.

use std::fmt;
use std::fs;

use crate::agents::{self, Agents};
use crate::budgets::{self, Measure};
use crate::programs::Program;
use crate::report::{Report, Row};

/// How many sessions are live at the end.
const SESSIONS: u32 = 100;

/// The memory of a process, in megabytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// All of it that is in use.
    pub(crate) resident: f64,
    /// With what is shared split among those who share it.
    proportional: f64,
    /// What nobody else has.
    private: f64,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident, proportional, private } = self;
        write!(f, "{resident:.1} MB ({proportional:.1} proportional, {private:.1} private)")
    }
}

impl Memory {
    /// What the kernel says of a process; `None` where there is no such account.
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let sum = |names: &[&str]| -> f64 {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let values = lines.filter(|(name, _)| names.contains(name));
            let kilobytes =
                values.filter_map(|(_, value)| value.trim().strip_suffix(" kB")?.parse::<f64>().ok());
            kilobytes.sum::<f64>() / 1024.0
        };
        Some(Self {
            resident: sum(&["Rss"]),
            proportional: sum(&["Pss"]),
            private: sum(&["Private_Clean", "Private_Dirty"]),
        })
    }

    /// What one of so many adds to what there was.
    pub(crate) fn growth(self, before: Self, count: f64) -> Self {
        Self {
            resident: (self.resident - before.resident) / count,
            proportional: (self.proportional - before.proportional) / count,
            private: (self.private - before.private) / count,
        }
    }
}

/// Looks at the host with one live session and with many, and at the one process that npm acpx has for each.
pub(crate) fn measure(ours: &Program, npm: Option<&Program>, agents: &Agents, report: &mut Report) {
    let npm = npm.and_then(|program| {
        live(program, &agents.quick);
        background(program)
    });
    live(ours, &agents.quick);
    let Some(one) = background(ours) else { return };
    for number in 2..=SESSIONS {
        live(ours, &agents.quick_with(&format!("s{number}")));
    }
    let Some(many) = background(ours) else { return };
    let more = many.growth(one, f64::from(SESSIONS - 1));
    let npm = npm.map(|memory| memory.to_string());
    let found = |memory: Memory| vec![(Measure::Megabytes, memory.resident)];
    report.add(Row::new(&budgets::HOST_MEMORY, npm.clone(), one.to_string(), found(one)));
    report.add(Row::new(&budgets::SESSION_MEMORY, npm, more.to_string(), found(more)));
}

/// Makes a session that is live and has had a turn.
fn live(program: &Program, agent: &[String]) {
    let agent = agents::line(agent);
    program.run(&["--agent", &agent, "sessions", "new"]);
    program.run(&["--agent", &agent, "prompt", "hi"]);
}

/// What the host has, or a process that npm acpx runs in the background.
pub(crate) fn background(program: &Program) -> Option<Memory> {
    program.background().first().and_then(|pid| Memory::of(*pid))
}
