//! Commands from start to end, as a shell runs them: ours, npm acpx's, and the least that any program would do.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acpx_testkit::built_program;

use crate::agents::{self, Agents, BareAgent};
use crate::budgets::{self, Budget, Measure};
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::samples::{Race, Work};

/// How often a command that only reads is run, one that has a turn, one that starts everything, and one that takes
/// npm acpx several seconds.
const READS: usize = 20;
const TURNS: usize = 12;
const STARTS: usize = 7;
const LONG: usize = 5;

/// Those who take part.
pub(crate) struct Sides {
    pub(crate) ours: Program,
    pub(crate) npm: Option<Program>,
}

impl Sides {
    /// Runs the same command line with both, each after its preparation, against a floor.
    fn race(
        &self,
        rounds: usize,
        arguments: &[&str],
        prepare: impl Fn(&Program),
        mut floor: impl FnMut() -> Duration,
    ) -> Race {
        let timed = |program: &Program| {
            prepare(program);
            program.run(arguments)
        };
        let mut ours = || timed(&self.ours);
        let mut theirs = self.npm.as_ref().map(|npm| move || timed(npm));
        Race::run(rounds, &mut floor, &mut ours, theirs.as_mut().map(|work| -> Work<'_> { work }))
    }

    /// Runs the same command line with both, untimed; what they wrote.
    fn each(&self, arguments: &[&str]) -> Vec<String> {
        let programs = [Some(&self.ours), self.npm.as_ref()];
        programs.into_iter().flatten().map(|program| program.output(arguments).1).collect()
    }
}

/// Times all commands. What comes back is how many chunks a second npm acpx keeps, if it takes part.
pub(crate) fn measure(sides: &Sides, agents: &Agents, report: &mut Report) -> Option<f64> {
    let quick = &*agents::line(&agents.quick);
    sides.each(&["--agent", quick, "sessions", "new"]);
    sides.each(&["--agent", quick, "prompt", "hi"]);

    let mut floor = None;
    let reads: [(&'static Budget, &[&str]); 3] = [
        (&budgets::VERSION, &["--version"]),
        (&budgets::STATUS, &["--agent", quick, "status"]),
        (&budgets::LIST, &["--agent", quick, "sessions", "list", "--local"]),
    ];
    for (budget, arguments) in reads {
        let race = sides.race(READS, arguments, |_| {}, empty_program);
        report.add(Row::of_race(
            budget,
            &race,
            &[(Measure::Faster, race.faster()), (Measure::OverEmpty, Some(race.ours.over(&race.floor)))],
        ));
        floor.get_or_insert(race.floor);
    }
    if let Some(floor) = floor {
        report.add_floor("an empty Rust program", &floor);
    }

    let race =
        sides.race(TURNS, &["--agent", quick, "exec", "hi"], |_| {}, || agents::whole_life(&agents.quick));
    net(report, &budgets::EXEC, &race, "the agent: start, session, one turn, end");

    let prompt: &[&str] = &["--agent", quick, "prompt", "hi"];
    let race = sides.race(STARTS, prompt, Program::stop, || agents::start_and_turn(&agents.quick));
    net(report, &budgets::COLD, &race, "the agent: start, session, one turn");

    sides.each(prompt);
    let race = warm(sides, prompt, &agents.quick);
    report.add(Row::of_race(&budgets::WARM, &race, &[(Measure::Faster, race.faster())]));
    report.add_floor("the agent: one turn", &race.floor);

    let race = chunks(sides, agents);
    net(report, &budgets::CHUNKS, &race, "the agent: 10,000 chunks");
    let npm = race.npm?.least().saturating_sub(race.floor.least());
    Some(f64::from(agents::CHUNKS) / npm.as_secs_f64())
}

/// A turn of a running agent, against the same agent over a bare pipe.
fn warm(sides: &Sides, prompt: &[&str], agent: &[String]) -> Race {
    let mut bare = BareAgent::start(agent);
    let race = sides.race(TURNS, prompt, |_| {}, || bare.prompt(1));
    bare.end();
    race
}

/// The first long answer of a session that has had a short one. A session for each time: npm acpx has a process for
/// each, which is slow at first and quicker when it has seen some tens of thousands of chunks.
fn chunks(sides: &Sides, agents: &Agents) -> Race {
    let sessions = Cell::new(0);
    let agent = || {
        sessions.set(sessions.get() + 1);
        agents.chatty_with(&format!("long-{}", sessions.get()))
    };
    let answer = |program: &Program| {
        let line = agents::line(&agent());
        program.run(&["--agent", &line, "sessions", "new"]);
        program.run(&["--agent", &line, "prompt", "hi"]);
        let (time, output) = program.output(&["--agent", &line, "prompt", "hi"]);
        assert_eq!(output.matches(agents::CHUNK).count(), agents::CHUNKS as usize, "every chunk is shown");
        time
    };
    let mut bare = || {
        let mut agent = BareAgent::start(&agent());
        agent.prompt(1);
        let time = agent.prompt(agents::CHUNKS.into());
        agent.end();
        time
    };
    let mut ours = || answer(&sides.ours);
    let mut theirs = sides.npm.as_ref().map(|npm| move || answer(npm));
    Race::run(LONG, &mut bare, &mut ours, theirs.as_mut().map(|work| -> Work<'_> { work }))
}

fn net(report: &mut Report, budget: &'static Budget, race: &Race, floor: &str) {
    let found = [(Measure::FasterNet, race.faster_net()), (Measure::Faster, race.faster())];
    report.add(Row::of_race(budget, race, &found));
    report.add_floor(floor, &race.floor);
}

fn empty_program() -> Duration {
    let program = empty();
    let started = Instant::now();
    let output = Command::new(program).stdin(Stdio::null()).output().expect("the empty program starts");
    assert!(output.status.success(), "the empty program ends well");
    started.elapsed()
}

fn empty() -> PathBuf {
    built_program("examples/empty")
}
