//! Everybody in the soak, and what happens to them: prompts from all sides, and kills in between.
//!
//! Whoever is waited for is waited for by what is heard of them, with a deadline.

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Soak;
use super::chance::Chance;
use super::editor::Editor;
use super::process::{Ear, Process};
use crate::acpx::{Place, eventually, kill_hard};

/// How long something may take to come. Only a soak that fails waits for so long.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How many prompts may wait at once.
const MOST_WAITING: usize = 6;
/// Within how many updates from now on a kill comes.
const SOON: usize = 14;
/// For how many prompts of others an editor that was killed stays away, at most.
const LONGEST_ABSENCE: usize = 10;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    FirstEditor,
    SecondEditor,
    Shell,
    Host,
    Agent,
}

const VICTIMS: [Victim; 5] =
    [Victim::FirstEditor, Victim::SecondEditor, Victim::Shell, Victim::Host, Victim::Agent];

/// A prompt of the shell.
pub(super) struct Shell {
    pub(super) name: String,
    process: Option<Process>,
    is_killed: bool,
    lines: usize,
    /// The last line that it wrote.
    last: String,
    pub(super) code: Option<i32>,
}

impl Shell {
    /// What it said of the prompt at its end; nothing if it was killed.
    pub(super) fn result(&self) -> Option<Value> {
        (!self.is_killed).then(|| serde_json::from_str(&self.last).unwrap())
    }

    fn runs(&self) -> bool {
        self.process.is_some() && !self.is_killed
    }
}

/// All of it.
pub(super) struct World {
    pub(super) soak: Soak,
    chance: Chance,
    ear: Ear,
    pub(super) record: String,
    pub(super) editors: [Editor; 2],
    /// When an editor that is away comes back: at this prompt.
    returns: [usize; 2],
    pub(super) shells: Vec<Shell>,
    asked: usize,
    /// Whether nobody is killed any more.
    is_over: bool,
    pub(super) kills: BTreeMap<Victim, usize>,
    /// The last host and the last agent that were killed.
    host: u32,
    agent: u64,
    /// The last to go: it sees to it that nobody is left.
    pub(super) place: Place,
}

impl World {
    /// A session that both editors have open.
    pub(super) fn new(place: Place, soak: Soak) -> Self {
        let mut world = Self {
            soak,
            chance: Chance::new(soak.seed),
            ear: Ear::new(),
            record: String::new(),
            editors: [Editor::new(1), Editor::new(2)],
            returns: [0; 2],
            shells: Vec::new(),
            asked: 0,
            is_over: false,
            kills: BTreeMap::new(),
            host: 0,
            agent: 0,
            place,
        };
        world.greet(0);
        let new = json!({ "cwd": world.place.work(), "mcpServers": [] });
        let answer = world.call(0, "session/new", new);
        let record = answer["sessionId"].as_str().unwrap();
        record.clone_into(&mut world.record);
        for editor in &mut world.editors {
            record.clone_into(&mut editor.session);
        }
        world.come_back(1);
        world
    }

    /// Prompts and kills, until there were enough of both, and waits until everything is over.
    pub(super) fn run(&mut self) {
        let mut victims = VICTIMS.repeat(self.soak.kills_of_a_kind);
        self.chance.shuffle(&mut victims);
        let mut victims = VecDeque::from(victims);
        while self.counted() < self.soak.turns {
            for editor in 0..2 {
                if self.editors[editor].is_away() && self.returns[editor] <= self.asked {
                    self.come_back(editor);
                }
            }
            // They are spread over all the turns, and none is left for after.
            if self.chance.is(victims.len(), self.soak.turns.saturating_sub(self.counted() + 20).max(1)) {
                let victim = victims.pop_front().unwrap();
                self.kill(victim);
            }
            self.somebody_asks();
            let room = 1 + self.chance.below(MOST_WAITING);
            self.until("room for another prompt", |world| world.waiting() < room);
        }
        self.is_over = true;
        for editor in 0..2 {
            if self.editors[editor].is_away() {
                self.come_back(editor);
            }
        }
        self.until("all answers", Self::is_quiet);
        let last = self.start_shell(true);
        self.until("the end of the last prompt", |world| !world.shells[last].runs());
        assert_eq!(self.shells[last].code, Some(0), "{:?}", self.shells[last].result());
    }

    /// Waits until both editors have received everything up to an event.
    pub(super) fn until_received(&mut self, last: u64) {
        self.until(&format!("event {last}"), |world| {
            world.editors.iter().all(|editor| editor.cursor >= last)
        });
    }

    /// The updates of another editor that loads the whole conversation.
    pub(super) fn replayed(&mut self, version: u64) -> Vec<Value> {
        let index = usize::from(version == 2);
        let stranger = Editor::new(version);
        let known = std::mem::replace(&mut self.editors[index], stranger);
        self.come_back(index);
        std::mem::replace(&mut self.editors[index], known).told
    }

    /// The prompts that are in the store for sure when all is over.
    fn counted(&self) -> usize {
        self.asked - self.shells.iter().filter(|shell| shell.is_killed).count()
    }

    fn waiting(&self) -> usize {
        let shells = self.shells.iter().filter(|shell| shell.runs()).count();
        self.editors.iter().map(Editor::waiting).sum::<usize>() + shells
    }

    fn is_quiet(&self) -> bool {
        self.editors.iter().all(Editor::is_quiet) && !self.shells.iter().any(Shell::runs)
    }

    fn updates(&self) -> usize {
        self.editors.iter().map(|editor| editor.told.len()).sum()
    }

    /// Hears until something has come.
    fn until(&mut self, what: &str, has_come: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !has_come(self) {
            let heard = self.ear.hear(deadline);
            let heard = heard.unwrap_or_else(|| panic!("never: {what}; {}", self.open_prompts()));
            if let Some(editor) = self.editors.iter_mut().find(|editor| editor.is(heard.who)) {
                editor.take(heard.line.as_deref());
                continue;
            }
            let is_meant = |process: &Process| process.who == heard.who;
            let mut shells = self.shells.iter_mut();
            let Some(shell) = shells.find(|shell| shell.process.as_ref().is_some_and(is_meant)) else {
                continue;
            };
            match heard.line {
                Some(line) => (shell.last, shell.lines) = (line, shell.lines + 1),
                None => shell.code = shell.process.take().unwrap().ended().code(),
            }
        }
    }

    /// What has no answer yet, for whoever looks for the reason.
    fn open_prompts(&self) -> String {
        let editors = self.editors.iter().map(|editor| {
            let open = editor.prompts.iter().filter(|prompt| prompt.answer.is_none());
            let open: Vec<_> = open.map(|prompt| (&prompt.name, prompt.turn)).collect();
            format!("editor {} (away: {}) at {}: {open:?}", editor.version, editor.is_away(), editor.cursor)
        });
        let shells = self.shells.iter().filter(|shell| shell.runs()).map(|shell| shell.name.clone());
        editors.chain(shells).collect::<Vec<_>>().join("; ")
    }

    /// A moment by chance: after some of the updates that are to come.
    fn moment(&mut self) {
        let wanted = self.updates() + self.chance.below(SOON);
        self.until("a moment", |world| world.updates() >= wanted || world.is_quiet());
    }

    fn name(&mut self, who: &str) -> String {
        self.asked += 1;
        format!("{who}-{}", self.asked)
    }

    fn somebody_asks(&mut self) {
        let who = self.chance.below(5) / 2;
        if who < 2 && !self.editors[who].is_away() {
            let name = self.name(["one", "two"][who]);
            self.editors[who].prompt(&name);
        } else {
            let waits = self.chance.is(3, 4);
            self.start_shell(waits);
        }
    }

    /// Prompts from the shell; its place among them.
    fn start_shell(&mut self, waits: bool) -> usize {
        let name = self.name("shell");
        let mut arguments = vec!["--format", "json", "scripted", "prompt", "-s", &self.record, &name];
        if !waits {
            arguments.push("--no-wait");
        }
        let process = Some(self.ear.start(self.place.command(&arguments)));
        let (is_killed, lines, last, code) = (false, 0, String::new(), None);
        self.shells.push(Shell { name, process, is_killed, lines, last, code });
        self.shells.len() - 1
    }

    /// Starts the bridge of an editor and greets the host through it.
    fn greet(&mut self, editor: usize) {
        self.until("the last words of a killed bridge", |world| world.editors[editor].has_buried());
        let mut command = self.place.command(&["scripted", "acp"]);
        command.stdin(Stdio::piped());
        let bridge = self.ear.start(command);
        self.editors[editor].begin_life(bridge);
        let greeting = self.editors[editor].greeting();
        self.call(editor, "initialize", greeting);
    }

    /// An editor comes back to the session, at its cursor.
    fn come_back(&mut self, index: usize) {
        loop {
            self.greet(index);
            let (method, params) = self.coming_back(index);
            let id = self.editors[index].ask(method, params);
            let is_disturbed = self.asked > 0 && !self.is_over;
            // A host may go while it tells the conversation, and so may the one who is told.
            if is_disturbed && self.chance.is(1, 8) {
                self.kill_host();
            }
            if is_disturbed && self.chance.is(1, 8) {
                let wanted = self.updates() + self.chance.below(SOON);
                self.until("a part of the conversation", |world| {
                    world.updates() >= wanted || world.editors[index].answer(id).is_some()
                });
                self.editors[index].kill();
                continue;
            }
            self.answer(index, method, id);
            return self.editors[index].ask_again();
        }
    }

    /// How an editor asks for what it has missed.
    fn coming_back(&mut self, index: usize) -> (&'static str, Value) {
        let editor = &self.editors[index];
        let cursor = json!({ "type": "_acpx/seq", "seq": editor.cursor + 1 });
        let mut params = json!({ "sessionId": self.record, "cwd": self.place.work(), "mcpServers": [] });
        if editor.version == 2 {
            params["replayFrom"] = cursor;
            return ("session/resume", params);
        }
        params["_meta"] = json!({ "acpx": { "replayFrom": cursor } });
        (["session/load", "session/resume"][self.chance.below(2)], params)
    }

    /// Asks for something that is not refused; its result.
    fn call(&mut self, editor: usize, method: &str, params: Value) -> Value {
        let id = self.editors[editor].ask(method, params);
        self.answer(editor, method, id)
    }

    fn answer(&mut self, editor: usize, method: &str, id: u64) -> Value {
        self.until(&format!("the answer to {method}"), |world| world.editors[editor].answer(id).is_some());
        let answer = self.editors[editor].answer(id).unwrap();
        answer.get("result").unwrap_or_else(|| panic!("{method} is refused: {answer}")).clone()
    }

    fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::FirstEditor => self.kill_editor(0),
            Victim::SecondEditor => self.kill_editor(1),
            Victim::Shell => self.kill_shell(),
            Victim::Host => {
                self.moment();
                self.kill_host();
                // The next one may go before it has done anything.
                while self.chance.is(1, 3) {
                    self.kill_host();
                }
            }
            Victim::Agent => self.kill_agent(),
        }
        *self.kills.entry(victim).or_default() += 1;
    }

    fn kill_editor(&mut self, editor: usize) {
        if self.editors[editor].is_away() {
            self.come_back(editor);
        }
        self.moment();
        self.editors[editor].kill();
        self.returns[editor] = self.asked + self.chance.below(LONGEST_ABSENCE);
    }

    /// Kills a shell before it has heard the end of its prompt.
    fn kill_shell(&mut self) {
        loop {
            let index = self.start_shell(true);
            let wanted = self.chance.below(SOON);
            self.until("a word of the shell", |world| {
                !world.shells[index].runs() || world.shells[index].lines >= wanted
            });
            let shell = &mut self.shells[index];
            if let Some(process) = &mut shell.process {
                process.kill();
                shell.is_killed = true;
                return;
            }
        }
    }

    /// Kills the host, but no host twice: somebody must be there who needs another.
    fn kill_host(&mut self) {
        if self.editors.iter().all(Editor::is_away) {
            self.come_back(0);
        }
        let (lock, last) = (self.place.acpx_home().join("host.lock"), self.host);
        let mut pid = 0;
        eventually("a host that was not killed", || {
            let host: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap_or_default();
            pid = host["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(last);
            pid != last
        });
        kill_hard(pid);
        self.host = pid;
    }

    fn kill_agent(&mut self) {
        loop {
            self.somebody_asks();
            self.moment();
            let status = self.place.json(&["scripted", "status", "-s", &self.record]);
            if let Some(pid) = status["pid"].as_u64().filter(|pid| *pid != self.agent) {
                kill_hard(u32::try_from(pid).unwrap());
                self.agent = pid;
                return;
            }
        }
    }
}

impl Drop for World {
    #[expect(clippy::print_stderr, reason = "whoever looks at a failure needs the seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}, after {} prompts and {:?}", self.soak, self.asked, self.kills);
        }
    }
}
