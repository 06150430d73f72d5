//! Native transcripts: the index over a million messages in ten thousand files, a list of them, and a search.

use std::fs;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::agents::{self, Agents};
use crate::budgets::{self, Measure};
use crate::memory;
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::samples::alone;

const FILES: u64 = 10_000;
/// Of each file.
const MESSAGES: u64 = 100;
/// Of each message.
const WORDS: u64 = 12;
/// How many words there are. A word is the rarer, the higher its number.
const VOCABULARY: u64 = 50_000;
const ROUNDS: usize = 10;
/// How many prompts are sent during an update.
const PROMPTS: usize = 50;
/// A word of every second message.
const COMMON: &str = "common";

/// Times the index, a list and a search.
pub(crate) fn measure(agents: &Agents, report: &mut Report) {
    let program = Program::ours();
    let directory = program.home().join(".claude/projects/-bench");
    let bytes = write_transcripts(&directory, program.home());
    let bare = alone(3, || read_all(&directory));
    report.add_floor("a bare read of 10,000 transcripts", &bare);
    let build = alone(1, || program.run(&["index", "rebuild"]));
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = bytes as f64 / 1e6 / build.least().as_secs_f64();
    let found = vec![(Measure::MegabytesPerSecond, rate)];
    report.add(Row::new(&budgets::INDEX, None, build.to_string(), found));
    during_an_update(&program, agents, report);
    program.run(&["index", "update"]);
    let list: &[&str] = &["sessions", "list", "--all", "--limit", "50"];
    let search: &[&str] = &["search", &word(VOCABULARY / 10), &word(7)];
    let common: &[&str] = &["search", COMMON];
    let commands =
        [(&budgets::TRANSCRIPTS_LISTED, list), (&budgets::SEARCH, search), (&budgets::COMMON_SEARCH, common)];
    for (budget, command) in commands {
        let times = alone(ROUNDS, || program.run(command));
        let millis = times.least().as_secs_f64() * 1000.0;
        report.add(Row::new(budget, None, times.to_string(), vec![(Measure::Millis, millis)]));
    }
}

/// Prompts a session while the host's indexer reads everything anew.
fn during_an_update(program: &Program, agents: &Agents, report: &mut Report) {
    let agent = agents::line(&agents.quick);
    let prompt = ["--agent", &agent, "prompt", "hi"];
    program.run(&["--agent", &agent, "sessions", "new"]);
    program.run(&prompt);
    let idle = alone(PROMPTS, || program.run(&prompt));
    for file in ["index.db", "index.db-wal", "index.db-shm"] {
        // An index that is closed has only the first.
        drop(fs::remove_file(program.files().join(file)));
    }
    let mut update = program.command(&["--format", "quiet", "index", "background"]);
    let mut update = update.stdin(Stdio::piped()).spawn().expect("the program starts");
    let busy = alone(PROMPTS, || program.run(&prompt));
    let host = memory::background(program);
    let ended = update.try_wait().expect("it is our child");
    assert_eq!(ended, None, "the update ended before the prompts");
    update.kill().expect("it is our child");
    update.wait().expect("it is our child");
    let slower = busy.median().as_secs_f64() / idle.median().as_secs_f64();
    let mut found = vec![(Measure::OverIdle, slower)];
    found.extend(host.map(|host| (Measure::Megabytes, host.resident)));
    report.add(Row::new(&budgets::INDEXING, None, busy.to_string(), found));
}

/// Writes the transcripts as Claude Code does; how many bytes they have.
fn write_transcripts(directory: &Path, work: &Path) -> u64 {
    fs::create_dir_all(directory).expect("a new home can be written");
    let (mut random, mut bytes) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    for file in 0..FILES {
        let session = format!("{file:08x}-0000-4000-8000-000000000000");
        let path = directory.join(format!("{session}.jsonl"));
        let mut out = BufWriter::new(fs::File::create(&path).expect("a new home can be written"));
        for message in 0..MESSAGES {
            let mut text: Vec<String> = (1..WORDS).map(|_| word(next(&mut random))).collect();
            text.push(if message % 4 < 2 { COMMON.to_owned() } else { word(next(&mut random)) });
            let (kind, text) = (if message % 2 == 0 { "user" } else { "assistant" }, text.join(" "));
            writeln!(
                out,
                r#"{{"type":"{kind}","isSidechain":false,"uuid":"{file}-{message}","timestamp":"{}","cwd":"{}","sessionId":"{session}","message":{{"role":"{kind}","content":[{{"type":"text","text":"{text}"}}]}}}}"#,
                written_at(file, message),
                work.display()
            )
            .expect("a new home can be written");
        }
        drop(out);
        bytes += fs::metadata(&path).map_or(0, |file| file.len());
    }
    bytes
}

/// When a message was written: sixty conversations a day, half a minute between two messages.
fn written_at(file: u64, message: u64) -> String {
    let (day, hour) = (file / 60, file % 24);
    let (month, day) = (1 + day / 28, 1 + day % 28);
    format!("2026-{month:02}-{day:02}T{hour:02}:{:02}:{:02}.857Z", message / 2, message % 2 * 30)
}

/// The next number of a sequence, small ones more often.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let (rank, bound) = (*random >> 32, *random & 0xffff_ffff);
    rank % (bound % VOCABULARY + 1)
}

/// A word of lower case letters; every tenth is an identifier in camel case.
fn word(number: u64) -> String {
    let letters = |number: u64| -> String {
        let digits = (0..4).map(|digit| number / 26_u64.pow(digit) % 26);
        digits.filter_map(|digit| char::from_digit(u32::try_from(digit).ok()? + 10, 36)).collect()
    };
    if number.is_multiple_of(10) { format!("{}Name", letters(number)) } else { letters(number) }
}

/// Reads every file once.
fn read_all(directory: &Path) -> Duration {
    let started = Instant::now();
    let entries = fs::read_dir(directory).expect("the directory was written");
    let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let mut buffer = vec![0; 64 * 1024];
    for path in paths {
        let mut file = fs::File::open(path).expect("the file was written");
        while file.read(&mut buffer).expect("the file can be read") > 0 {}
    }
    started.elapsed()
}
