//! Asks the person at the command's terminal what the agent requests: one question at a time, in order of arrival.
//!
//! A question is shown completely before it is asked, and only what is typed afterwards answers it. A withdrawn
//! question is reported and takes no more answers. Secrets are not echoed.

use std::collections::VecDeque;

use acpx_core::model::Direction;
use acpx_core::protocol::WatchedEvent;
use acpx_core::wire::RpcId;
use serde::Deserialize;
use serde_json::Value;

use super::tty::ControllingTerminal;
use crate::output::{FormReply, RecentToolCalls, TerminalForm, TerminalPermissionReply, TerminalQuestion};

/// The terminal, and the requests to ask there.
pub(crate) struct TerminalPrompter {
    terminal: ControllingTerminal,
    /// The question that is being asked.
    open: Option<(RpcId, TerminalDialog)>,
    /// The questions after it.
    waiting: VecDeque<(RpcId, TerminalDialog)>,
    /// For permission requests that do not repeat their tool call.
    calls: RecentToolCalls,
    /// Answers that were not typed: to requests that the agent reported as complete.
    settled: VecDeque<(RpcId, Value)>,
    /// Whether other output was shown after the question, so that it is no longer the last line.
    is_covered: bool,
}

/// A question on the terminal.
enum TerminalDialog {
    Permission(TerminalQuestion),
    Form(TerminalForm),
}

/// What the terminal returns.
pub(crate) enum TerminalAnswer {
    /// The answer to a question.
    Answer(RpcId, Value),
    /// The terminal was closed before an answer; holds the refusal to send.
    HungUp(RpcId, Value),
}

impl TerminalAnswer {
    /// The answer, or the refusal if the terminal is closed, for a request that cannot outlive it.
    pub(crate) fn or_refusal(self) -> (RpcId, Value) {
        match self {
            Self::Answer(id, answer) | Self::HungUp(id, answer) => (id, answer),
        }
    }
}

/// The outcome of a typed line.
enum TerminalInputOutcome {
    Answer(Value),
    /// Ask again, or ask for the next field, after showing this text.
    Ask(String),
}

impl TerminalDialog {
    fn shown(&self) -> String {
        match self {
            Self::Permission(question) => question.shown(),
            Self::Form(form) => form.shown(),
        }
    }

    fn prompt_line(&self) -> String {
        match self {
            Self::Permission(question) => question.prompt_line(),
            Self::Form(form) => form.prompt_line(),
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
                TerminalPermissionReply::Again(words) => TerminalInputOutcome::Ask(format!("{words}\n")),
            },
            Self::Form(form) => match form.reply(line) {
                FormReply::Answer(answer) => TerminalInputOutcome::Answer(answer),
                FormReply::Next => TerminalInputOutcome::Ask(String::new()),
                FormReply::Again(words) => TerminalInputOutcome::Ask(format!("{words}\n")),
            },
        }
    }

    /// The answer that denies or declines.
    fn refusal(&self) -> Value {
        match self {
            Self::Permission(question) => question.refusal(),
            Self::Form(_) => TerminalForm::refusal(),
        }
    }
}

impl TerminalPrompter {
    /// The prompter of a program at whose terminal a person sits. Must be called inside a runtime.
    pub(crate) fn of_program() -> Option<Self> {
        let terminal = ControllingTerminal::of_program()?;
        let (waiting, calls, settled) = (VecDeque::new(), RecentToolCalls::default(), VecDeque::new());
        Some(Self { terminal, open: None, waiting, calls, settled, is_covered: false })
    }

    /// Queues a permission request: it is asked now, or after the earlier ones.
    pub(crate) fn ask(&mut self, id: RpcId, params: &str) {
        let question = TerminalQuestion::read(params, |call| self.calls.get(call).cloned());
        self.waiting.push_back((id, TerminalDialog::Permission(question)));
        self.next();
    }

    /// Queues a form request.
    pub(crate) fn ask_form(&mut self, id: RpcId, params: &str) {
        self.waiting.push_back((id, TerminalDialog::Form(TerminalForm::read(params))));
        self.next();
    }

    /// Withdraws a question. One that was not shown disappears silently.
    pub(crate) fn withdraw(&mut self, id: &RpcId) {
        self.waiting.retain(|(waiting, _)| waiting != id);
        if self.open.take_if(|(open, _)| open == id).is_some() {
            self.dismiss("The request is withdrawn: another client answered it, or its turn is over");
        }
        self.next();
    }

    /// Withdraws all questions, because their host disconnected.
    pub(crate) fn withdraw_all(&mut self) {
        self.clear("The request is withdrawn: its host went away");
    }

    /// Drops the questions of a turn that was cancelled or timed out.
    pub(crate) fn cancel(&mut self) {
        self.clear("The request is cancelled with its turn");
    }

    fn clear(&mut self, words: &str) {
        self.waiting.clear();
        self.settled.clear();
        if self.open.take().is_some() {
            self.dismiss(words);
        }
    }

    /// Shows why a question takes no more answers.
    fn dismiss(&mut self, words: &str) {
        self.terminal.hide(false);
        self.terminal.forget();
        self.terminal.write(&format!("\n{words}\n"));
    }

    /// The next answer; pending while nothing is asked.
    pub(crate) async fn answered(&mut self) -> TerminalAnswer {
        loop {
            if let Some((id, answer)) = self.settled.pop_front() {
                return TerminalAnswer::Answer(id, answer);
            }
            let Some((id, dialog)) = &mut self.open else { return std::future::pending().await };
            let line = if dialog.is_unaskable() { Ok(None) } else { self.terminal.line().await };
            // Hidden input has not ended its line either.
            let end = if self.terminal.is_hidden() { "\n" } else { "" };
            let is_gone = line.is_err() || matches!(line, Ok(None)) && self.terminal.is_gone();
            let answer = match line {
                Ok(Some(line)) => match dialog.reply(&line) {
                    TerminalInputOutcome::Answer(answer) => answer,
                    TerminalInputOutcome::Ask(words) => {
                        self.terminal.hide(dialog.is_secret());
                        self.terminal.write(&format!("{end}{words}{}", dialog.prompt_line()));
                        continue;
                    }
                },
                // Ctrl-D refuses.
                Ok(None) | Err(_) => dialog.refusal(),
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

    /// Asks the next question, after an answer was sent. Returns whether one is open.
    pub(crate) fn next(&mut self) -> bool {
        if self.open.is_some() {
            return true;
        }
        let Some((id, question)) = self.waiting.pop_front() else { return false };
        // Earlier input does not answer this question.
        self.terminal.forget();
        self.terminal.hide(question.is_secret());
        self.terminal.write(&format!("\n{}{}", question.shown(), question.prompt_line()));
        self.is_covered = false;
        self.open = Some((id, question));
        true
    }

    /// Asks again if other output was shown since.
    pub(crate) fn remind(&mut self) {
        if let Some((_, question)) = &self.open
            && std::mem::take(&mut self.is_covered)
        {
            self.terminal.write(&format!("\n{}", question.prompt_line()));
        }
    }

    /// The agent reports that what it wanted at an address is complete. The request is still unanswered, so it is
    /// answered without typed input.
    fn complete(&mut self, elicitation: &str) {
        let answer = |dialog: &TerminalDialog| match dialog {
            TerminalDialog::Form(form) => form.completed(elicitation),
            TerminalDialog::Permission(_) => None,
        };
        for (id, dialog) in std::mem::take(&mut self.waiting) {
            match answer(&dialog) {
                Some(answer) => self.settled.push_back((id, answer)),
                None => self.waiting.push_back((id, dialog)),
            }
        }
        if let Some((id, dialog)) = self.open.take_if(|(_, dialog)| answer(dialog).is_some()) {
            self.dismiss("The agent reports that it is done");
            self.settled.extend(answer(&dialog).map(|answer| (id, answer)));
        }
    }

    /// Notes output on the terminal below the open question.
    pub(crate) fn cover(&mut self) {
        self.is_covered |= self.open.is_some();
    }

    /// Records tool calls from an event and drops completed forms.
    pub(crate) fn on_event(&mut self, event: &WatchedEvent) {
        self.calls.on_event(event);
        if let Some(elicitation) = completed(event) {
            self.complete(&elicitation);
        }
    }
}

/// The elicitation id that an event reports as complete.
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
