//! The benchmark: what acpx does, against npm acpx and against the least that any program would have to do, in one
//! run on one machine.
//!
//! Absolute figures drift with the machine; the ratios are what counts. Those who are compared do the same work
//! with the same agent, in turn. `./bench` builds and installs what is needed and runs this. It fails if a budget
//! is missed.

#![expect(clippy::print_stdout, reason = "a report for people, not part of the program")]

mod agents;
mod budgets;
mod client;
mod commands;
mod face;
mod latency;
mod long_record;
mod machine;
mod memory;
mod programs;
mod records;
mod replay;
mod report;
mod samples;
mod stalled;
mod transcripts;
mod updates;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::agents::Agents;
use crate::commands::Sides;
use crate::programs::Program;
use crate::report::Report;

/// What the command line asks for.
#[derive(Default)]
struct Wishes {
    /// Where npm acpx is installed.
    npm: Option<PathBuf>,
    /// Whether the document gets the tables.
    write: bool,
    /// Whether a missed budget is no failure.
    no_gate: bool,
    /// Whether only the rows with many records and a long one are measured.
    scale: bool,
}

fn main() -> ExitCode {
    let Some(wishes) = wishes() else {
        println!("usage: ./bench [--without-npm] [--write] [--no-gate] [--scale]");
        return ExitCode::from(2);
    };
    let machine = machine::describe();
    let report = measure(wishes.npm.as_deref(), wishes.scale);
    let text = report.text(&machine);
    println!("{text}");
    if wishes.write {
        report::write(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/performance.md"),
            &text,
        );
    }
    let missed = report.missed();
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("missed: {}", missed.join("; "));
    if wishes.no_gate { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wishes() -> Option<Wishes> {
    let mut wishes = Wishes::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str()? {
            "--npm" => wishes.npm = Some(arguments.next()?.into()),
            "--write" => wishes.write = true,
            "--no-gate" => wishes.no_gate = true,
            "--scale" => wishes.scale = true,
            // Cargo says this to every benchmark.
            "--bench" => {}
            _ => return None,
        }
    }
    Some(wishes)
}

fn measure(npm: Option<&Path>, scale: bool) -> Report {
    let mut report = Report::default();
    let agents = Agents::new();
    let sides = Sides { ours: Program::ours(), npm: npm.map(Program::npm) };
    if scale {
        records::measure(&Program::ours(), &Program::ours(), None, &agents, &mut report);
        long_record::measure(&agents, &mut report);
        transcripts::measure(&agents, &mut report);
        return report;
    }
    let npm_rate = commands::measure(&sides, &agents, &mut report);
    drop(sides);
    let npm_program = npm.map(Program::npm);
    memory::measure(&Program::ours(), npm_program.as_ref(), &agents, &mut report);
    drop(npm_program);
    let npm_program = npm.map(Program::npm);
    records::measure(&Program::ours(), &Program::ours(), npm_program.as_ref(), &agents, &mut report);
    long_record::measure(&agents, &mut report);
    transcripts::measure(&agents, &mut report);
    updates::measure(npm_rate, &mut report);
    latency::measure(&agents, &mut report);
    face::measure(&agents, &mut report);
    stalled::measure(&agents, &mut report);
    report
}
