//! Where a command asks the person at its terminal what its agent asks: one question at a time, in the order they come.
//!
//! A question is shown whole before it is asked, and only what is typed after that answers it. One that is taken back
//! says so and takes no answer any more. What is typed as a secret is not shown.

use std::collections::VecDeque;

use acpx_core::model::Direction;
use acpx_core::protocol::WatchedEvent;
use acpx_core::wire::RpcId;
use serde::Deserialize;
use serde_json::Value;

use super::tty::ControllingTerminal;
use crate::output::{FormReply, RecentToolCalls, TerminalForm, TerminalPermissionReply, TerminalQuestion};

/// The person at the terminal, and what they are asked.
pub(crate) struct TerminalPrompter {
    terminal: ControllingTerminal,
    /// The one that is asked.
    open: Option<(RpcId, TerminalDialog)>,
    /// Those that are asked after it.
    waiting: VecDeque<(RpcId, TerminalDialog)>,
    /// For questions that do not repeat what they are about.
    calls: RecentToolCalls,
    /// Answers that nobody has typed: to what proved to be complete.
    settled: VecDeque<(RpcId, Value)>,
    /// Whether something was shown since the question was asked, so that it is no longer the last thing there.
    is_covered: bool,
}

/// What lies on the desk.
enum TerminalDialog {
    Permission(TerminalQuestion),
    Form(TerminalForm),
}

/// What comes from the terminal.
pub(crate) enum TerminalAnswer {
    /// The answer to a question.
    Answer(RpcId, Value),
    /// The terminal was closed before an answer; holds the refusal to send.
    HungUp(RpcId, Value),
}

impl TerminalAnswer {
    /// The answer, where the question cannot outlive the terminal.
    pub(crate) fn or_refusal(self) -> (RpcId, Value) {
        match self {
            Self::Answer(id, answer) | Self::HungUp(id, answer) => (id, answer),
        }
    }
}

/// What comes of a line that was typed.
enum TerminalInputOutcome {
    Answer(Value),
    /// The same is asked again, or the next of it; what is said before that.
    Ask(String),
}

impl TerminalDialog {
    fn shown(&self) -> String {
        match self {
            Self::Permission(question) => question.shown(),
            Self::Form(form) => form.shown(),
        }
    }

    fn asks(&self) -> String {
        match self {
            Self::Permission(question) => question.asks(),
            Self::Form(form) => form.asks(),
        }
    }

    /// What stands before its lines.
    fn mark(&self) -> &'static str {
        match self {
            Self::Permission(_) => "[permission]",
            Self::Form(_) => "[question]",
        }
    }

    fn is_secret(&self) -> bool {
        matches!(self, Self::Form(form) if form.is_secret())
    }

    fn is_unaskable(&self) -> bool {
        matches!(self, Self::Form(form) if form.is_unaskable())
    }

    fn reply(&mut self, line: &str) -> TerminalInputOutcome {
        match self {
            Self::Permission(question) => match question.reply(line) {
                TerminalPermissionReply::Answer(answer) => TerminalInputOutcome::Answer(answer),
                TerminalPermissionReply::Again(words) => {
                    TerminalInputOutcome::Ask(format!("[permission] {words}\n"))
                }
            },
            Self::Form(form) => match form.reply(line) {
                FormReply::Answer(answer) => TerminalInputOutcome::Answer(answer),
                FormReply::Next => TerminalInputOutcome::Ask(String::new()),
                FormReply::Again(words) => TerminalInputOutcome::Ask(format!("[question] {words}\n")),
            },
        }
    }

    /// The answer that allows and tells nothing.
    fn refusal(&self) -> Value {
        match self {
            Self::Permission(question) => question.refusal(),
            Self::Form(_) => TerminalForm::refusal(),
        }
    }
}

impl TerminalPrompter {
    /// The desk of a program that has a person before it. To be called inside a runtime.
    pub(crate) fn of_program() -> Option<Self> {
        let terminal = ControllingTerminal::of_program()?;
        let (waiting, calls, settled) = (VecDeque::new(), RecentToolCalls::default(), VecDeque::new());
        Some(Self { terminal, open: None, waiting, calls, settled, is_covered: false })
    }

    /// Takes a question: it is asked now, or after those before it.
    pub(crate) fn ask(&mut self, id: RpcId, params: &str) {
        let question = TerminalQuestion::read(params, |call| self.calls.get(call).cloned());
        self.waiting.push_back((id, TerminalDialog::Permission(question)));
        self.next();
    }

    /// Takes a question that is no permission, likewise.
    pub(crate) fn ask_form(&mut self, id: RpcId, params: &str) {
        self.waiting.push_back((id, TerminalDialog::Form(TerminalForm::read(params))));
        self.next();
    }

    /// A question was taken back. One that nobody has seen goes without a word.
    pub(crate) fn withdraw(&mut self, id: &RpcId) {
        self.waiting.retain(|(waiting, _)| waiting != id);
        if let Some((_, sheet)) = self.open.take_if(|(open, _)| open == id) {
            self.take_off(&sheet, "withdrawn: it was answered elsewhere, or its turn is over");
        }
        self.next();
    }

    /// All questions were taken back, because their host is gone.
    pub(crate) fn withdraw_all(&mut self) {
        self.clear("withdrawn: the host that asked went away");
    }

    /// The person has the turn cancelled, or its time is over, and its questions with it.
    pub(crate) fn cancel(&mut self) {
        self.clear("cancelled with its turn");
    }

    fn clear(&mut self, words: &str) {
        self.waiting.clear();
        self.settled.clear();
        if let Some((_, sheet)) = self.open.take() {
            self.take_off(&sheet, words);
        }
    }

    /// Says what has become of a question that is answered no more.
    fn take_off(&mut self, sheet: &TerminalDialog, words: &str) {
        self.terminal.hide(false);
        self.terminal.forget();
        self.terminal.write(&format!("\n{} {words}\n", sheet.mark()));
    }

    /// The next answer; never, while nothing is asked.
    pub(crate) async fn answered(&mut self) -> TerminalAnswer {
        loop {
            if let Some((id, answer)) = self.settled.pop_front() {
                return TerminalAnswer::Answer(id, answer);
            }
            let Some((id, sheet)) = &mut self.open else { return std::future::pending().await };
            let line = if sheet.is_unaskable() { Ok(None) } else { self.terminal.line().await };
            // What was not shown as it was typed has not ended its line either.
            let end = if self.terminal.is_hidden() { "\n" } else { "" };
            let is_gone = line.is_err() || matches!(line, Ok(None)) && self.terminal.is_gone();
            let answer = match line {
                Ok(Some(line)) => match sheet.reply(&line) {
                    TerminalInputOutcome::Answer(answer) => answer,
                    TerminalInputOutcome::Ask(words) => {
                        self.terminal.hide(sheet.is_secret());
                        self.terminal.write(&format!("{end}{words}{}", sheet.asks()));
                        continue;
                    }
                },
                // Ctrl-D is a no.
                Ok(None) | Err(_) => sheet.refusal(),
            };
            let id = id.clone();
            self.terminal.hide(false);
            self.terminal.write(end);
            self.open = None;
            return if is_gone {
                TerminalAnswer::HungUp(id, answer)
            } else {
                TerminalAnswer::Answer(id, answer)
            };
        }
    }

    /// Goes on with the next question, once an answer was sent.
    pub(crate) fn next(&mut self) {
        if self.open.is_some() {
            return;
        }
        let Some((id, question)) = self.waiting.pop_front() else { return };
        // What was typed before is no answer to this.
        self.terminal.forget();
        self.terminal.hide(question.is_secret());
        self.terminal.write(&format!("\n{}{}", question.shown(), question.asks()));
        self.is_covered = false;
        self.open = Some((id, question));
    }

    /// Asks again if something has been shown since.
    pub(crate) fn remind(&mut self) {
        if let Some((_, question)) = &self.open
            && std::mem::take(&mut self.is_covered)
        {
            self.terminal.write(&format!("\n{}", question.asks()));
        }
    }

    /// The agent tells that what happens at an address is complete. It has not been answered that yet, and nobody has to
    /// type it.
    fn complete(&mut self, elicitation: &str) {
        let answer = |sheet: &TerminalDialog| match sheet {
            TerminalDialog::Form(form) => form.completed(elicitation),
            TerminalDialog::Permission(_) => None,
        };
        for (id, sheet) in std::mem::take(&mut self.waiting) {
            match answer(&sheet) {
                Some(answer) => self.settled.push_back((id, answer)),
                None => self.waiting.push_back((id, sheet)),
            }
        }
        if let Some((id, sheet)) = self.open.take_if(|(_, sheet)| answer(sheet).is_some()) {
            self.take_off(&sheet, "the agent says that it is done");
            self.settled.extend(answer(&sheet).map(|answer| (id, answer)));
        }
    }

    /// Something was written to the terminal below the open question.
    pub(crate) fn cover(&mut self) {
        self.is_covered |= self.open.is_some();
    }

    /// Records tool calls from an event and drops completed forms.
    pub(crate) fn saw(&mut self, event: &WatchedEvent) {
        self.calls.take(event);
        if let Some(elicitation) = completed(event) {
            self.complete(&elicitation);
        }
    }
}

/// The question that an event says is complete, by the agent's name for it.
fn completed(event: &WatchedEvent) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        method: String,
        params: Params,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        elicitation_id: String,
    }
    let text = event.message.get();
    if event.direction != Direction::FromAgent || !text.contains("\"elicitationId\"") {
        return None;
    }
    let line: Line = serde_json::from_str(text).ok()?;
    (line.method == "elicitation/complete").then_some(line.params.elicitation_id)
}
