//! The state of the interactive client: what keys do, and what the live area shows. It does no I/O.

use acpx_core::model::{Direction, Fact};
use acpx_core::protocol::{AnswerParams, PendingRequestMeta, QueuedPromptMeta, WatchedEvent};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};

use super::composer::{Composer, WordKind};
use super::menu::{Choice, Menu};
use super::request_menus::RequestMenus;
use super::screen::LiveArea;
use super::settings::SessionChoices;
use super::transcript::ConversationView;
use crate::output::{SPINNER_FRAMES, cut_end, on_one_line, percent, width_of};
use crate::terminal::render::wrap::{Prefix, wrap};

/// How many lines of the composer are shown.
const COMPOSER_LINES: usize = 8;
/// With more rows there is a blank line above the composer.
const ROWS_FOR_BLANK: usize = 8;

/// The keys, for `?`.
const KEYS: [(&str, &str); 12] = [
    ("Enter", "send the prompt; during a turn it is queued"),
    ("Alt-Enter, Ctrl-J", "begin a new line"),
    ("Up, Down", "earlier prompts"),
    ("@", "mention a file"),
    ("/", "a command of the agent"),
    ("Ctrl-G", "write the prompt in $EDITOR"),
    ("Shift-Tab", "choose the mode"),
    ("Ctrl-P", "choose the model"),
    ("Alt-Up", "take the last queued prompt back to edit or drop it"),
    ("Ctrl-T", "the whole conversation"),
    ("Ctrl-C", "cancel the turn, or clear the prompt"),
    ("Ctrl-D", "detach; the session works on"),
];

/// What the client has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UserIntent {
    /// Send a prompt.
    Send(String),
    /// Cancel the turn with this request id.
    Cancel(String),
    /// Take back a queued prompt: its request id and its text.
    Unqueue(String, String),
    /// Answer a request of the agent.
    Answer(AnswerParams),
    /// Set the option, or the mode if there is none, to a value.
    Set(Option<String>, String),
    /// Read the files of the directory for a completion.
    ListFiles,
    /// Show the whole conversation.
    ShowConversation,
    /// Open the prompt in an editor.
    Edit,
    /// End, and leave the session as it is.
    Detach,
}

/// The state.
pub(crate) struct App {
    /// The conversation.
    pub(crate) transcript: ConversationView,
    /// The prompt that is being written.
    pub(crate) composer: Composer,
    /// Modes and models.
    pub(crate) choices: SessionChoices,
    /// Who answers, in words.
    agent: String,
    /// Our prompts that are not sent to the agent yet: request id and text.
    queued: Vec<(String, String)>,
    /// The request id of the turn that began last.
    begun: Option<String>,
    /// The prompts of other clients that wait, in order: request id and first line.
    others_queued: Vec<(String, String)>,
    /// How many other clients use the session.
    other_clients: usize,
    requests: RequestMenus,
    picker: Option<(Option<String>, Menu)>,
    completion: Option<Menu>,
    files: Option<Vec<String>>,
    shows_keys: bool,
    /// What is being waited for, if the connection is lost or the agent starts.
    pub(crate) waiting: Option<String>,
    /// An error or a hint, until the next key.
    notice: Option<String>,
    frame: usize,
}

impl App {
    /// A client of a session with this agent.
    pub(crate) fn new(agent: &str) -> Self {
        Self {
            transcript: ConversationView::default(),
            composer: Composer::default(),
            choices: SessionChoices::default(),
            agent: on_one_line(agent),
            queued: Vec::new(),
            begun: None,
            others_queued: Vec::new(),
            other_clients: 0,
            requests: RequestMenus::default(),
            picker: None,
            completion: None,
            files: None,
            shows_keys: false,
            waiting: None,
            notice: None,
            frame: 0,
        }
    }

    /// Takes an event of the record.
    pub(crate) fn event(&mut self, event: &WatchedEvent) {
        self.choices.event(event);
        if event.direction == Direction::Ours
            && let Some(Fact::TurnStarted { request_id, .. }) = Fact::from_body(event.message.get())
        {
            self.unqueue(&request_id);
            self.begun = Some(request_id);
        }
        let known = self.transcript.facts.prompts.len();
        self.transcript.event(event);
        for prompt in self.transcript.facts.prompts.iter().skip(known) {
            self.composer.remember(prompt);
        }
    }

    /// Takes the pending requests of the record. One that is not listed any more was answered.
    pub(crate) fn set_requests(&mut self, pending: &[PendingRequestMeta]) {
        self.requests.set(pending, !self.composer.is_empty());
    }

    /// Whether the agent waits for an answer to a request that is not listed yet.
    pub(crate) fn misses_request(&self) -> bool {
        self.requests.is_empty() && self.transcript.has_open_request()
    }

    /// Takes how many clients use the session, this one included.
    pub(crate) fn set_clients(&mut self, clients: usize) {
        self.other_clients = clients.saturating_sub(1);
    }

    /// Takes the prompts that wait. Ours are known.
    pub(crate) fn set_queue(&mut self, prompts: &[QueuedPromptMeta]) {
        let is_ours = |id: &String| self.queued.iter().any(|(known, _)| known == id);
        let others = prompts.iter().filter(|prompt| !is_ours(&prompt.request_id));
        let others = others.map(|prompt| (prompt.request_id.clone(), prompt.text.clone())).collect();
        self.others_queued = others;
    }

    /// Takes the files that can be mentioned.
    pub(crate) fn set_files(&mut self, files: Vec<String>) {
        self.files = Some(files);
        self.complete();
    }

    /// A prompt of ours was accepted. It waits, unless its turn began first.
    pub(crate) fn queue(&mut self, request: &str, text: &str) {
        let is_known = self.queued.iter().any(|(known, _)| known == request);
        if self.begun.as_deref() != Some(request) && !is_known {
            self.queued.push((request.to_owned(), text.to_owned()));
        }
    }

    /// A prompt waits no more.
    pub(crate) fn unqueue(&mut self, request: &str) {
        self.queued.retain(|(known, _)| known != request);
        self.others_queued.retain(|(known, _)| known != request);
    }

    /// Shows a line until the next key.
    pub(crate) fn notice(&mut self, text: &str) {
        self.notice = Some(on_one_line(text));
    }

    /// The next frame of the spinner.
    pub(crate) fn tick(&mut self) {
        self.frame += 1;
    }

    /// Handles pasted text.
    pub(crate) fn paste(&mut self, text: &str) {
        if self.picker.is_some() {
            return;
        }
        match self.requests.shown_mut() {
            Some(request) => request.paste(text),
            None => self.composer.insert(text),
        }
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<UserIntent> {
        self.notice = None;
        if std::mem::take(&mut self.shows_keys) {
            return None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return self.interrupt(),
            KeyCode::Char('d') if control && self.composer.is_empty() => return Some(UserIntent::Detach),
            KeyCode::Char('t') if control => return Some(UserIntent::ShowConversation),
            _ => {}
        }
        if self.picker.is_some() {
            return self.picker_key(key);
        }
        if self.requests.shown().is_some() {
            return self.request_key(key);
        }
        if self.completion.is_some() && self.completion_key(key) {
            return None;
        }
        match key.code {
            KeyCode::Enter if key.modifiers.is_empty() => return self.send(),
            KeyCode::BackTab => self.pick_mode(),
            KeyCode::Char('p') if control => self.pick_model(),
            KeyCode::Char('g') if control => return Some(UserIntent::Edit),
            KeyCode::Tab if !self.requests.is_empty() => self.requests.open(true),
            KeyCode::Up if key.modifiers.contains(KeyModifiers::ALT) => {
                let last = self.queued.last().cloned();
                return last.map(|(request, text)| UserIntent::Unqueue(request, text));
            }
            KeyCode::Char('?') if self.composer.is_empty() => self.shows_keys = true,
            _ => {
                self.composer.key(key);
                return self.complete();
            }
        }
        None
    }

    /// Whether a turn runs.
    pub(crate) fn is_working(&self) -> bool {
        self.transcript.is_running()
    }

    /// Whether this is the prompt whose turn began last.
    pub(crate) fn has_begun(&self, request: &str) -> bool {
        self.begun.as_deref() == Some(request)
    }

    /// Puts a prompt that was taken back into the composer.
    pub(crate) fn take_back(&mut self, request: &str, text: &str) {
        self.unqueue(request);
        let written = self.composer.text();
        let text = if written.is_empty() { text.to_owned() } else { format!("{text}\n{written}") };
        self.composer.set(text);
    }

    /// The live area within this many columns and rows.
    pub(crate) fn live(&mut self, width: usize, rows: usize) -> LiveArea {
        self.requests.note_drawn(self.shows_keys || self.picker.is_some());
        let mut area = LiveArea::default();
        let status = self.status(width);
        let (below, cursor) = self.below(width, rows.saturating_sub(2));
        let room = rows.saturating_sub(below.len() + 1);
        let mut above = self.transcript.live(width, rows, self.requests.drawn_diffs());
        above.extend(self.working());
        let others = self.others_queued.iter().map(|(_, text)| ("queued by another client: ", text));
        let ours = self.queued.iter().map(|(_, text)| ("queued: ", text));
        for (label, text) in others.chain(ours) {
            above.push(Line::from(cut_end(&format!("{label}{}", on_one_line(text)), width).dim()));
        }
        let skipped = above.len().saturating_sub(room);
        area.lines.extend(above.into_iter().skip(skipped));
        area.cursor = cursor.map(|(line, column)| (area.lines.len() + line, column));
        area.lines.extend(below);
        area.lines.push(status);
        area
    }

    fn interrupt(&mut self) -> Option<UserIntent> {
        self.picker = None;
        if let Some(request) = self.begun.as_ref().filter(|_| self.transcript.is_running()) {
            return Some(UserIntent::Cancel(request.clone()));
        }
        if self.composer.is_empty() {
            self.notice("Ctrl-D detaches; the session stays");
        }
        self.composer.set("");
        None
    }

    fn send(&mut self) -> Option<UserIntent> {
        // A backslash at the end of a line begins another.
        if let Some(text) = self.composer.text().strip_suffix('\\') {
            let text = format!("{text}\n");
            self.composer.set(text);
            return None;
        }
        if self.composer.text().trim().is_empty() {
            return None;
        }
        (self.completion, self.files) = (None, None);
        Some(UserIntent::Send(self.composer.take()))
    }

    fn request_key(&mut self, key: KeyEvent) -> Option<UserIntent> {
        if key.code == KeyCode::Esc {
            self.requests.open(false);
            self.notice("the request waits; Tab shows it again");
            return None;
        }
        self.requests.key(key).map(UserIntent::Answer)
    }

    fn picker_key(&mut self, key: KeyEvent) -> Option<UserIntent> {
        let (option, mut menu) = self.picker.take()?;
        match key.code {
            KeyCode::Enter => {
                let choice = menu.selected().map(|choice| choice.value.clone())?;
                return Some(UserIntent::Set(option, choice));
            }
            KeyCode::Esc => return None,
            KeyCode::BackTab | KeyCode::Tab => drop(menu.key(KeyEvent::from(KeyCode::Down))),
            _ => drop(menu.key(key)),
        }
        self.picker = Some((option, menu));
        None
    }

    fn pick_mode(&mut self) {
        match self.choices.mode_menu() {
            Some(menu) => self.picker = Some((None, menu)),
            None => self.notice("this agent has no modes, or is not started yet"),
        }
    }

    fn pick_model(&mut self) {
        match self.choices.model_menu() {
            Some((option, menu)) => self.picker = Some((Some(option), menu)),
            None => self.notice("this agent offers no models, or is not started yet"),
        }
    }

    fn completion_key(&mut self, key: KeyEvent) -> bool {
        let Some(menu) = &mut self.completion else { return false };
        match key.code {
            KeyCode::Esc => self.completion = None,
            KeyCode::Tab | KeyCode::Enter => {
                let choice = menu.selected().map(|choice| choice.value.clone());
                if let (Some(choice), Some(word)) = (choice, self.composer.partial_word()) {
                    self.composer.complete(&word, &choice);
                }
                self.completion = None;
            }
            _ => return menu.key(key),
        }
        true
    }

    /// Offers completions of the word at the cursor.
    fn complete(&mut self) -> Option<UserIntent> {
        let Some(word) = self.composer.partial_word() else {
            self.completion = None;
            return None;
        };
        let choice = |value: &str, about: &str| Choice {
            value: value.to_owned(),
            label: value.to_owned(),
            about: about.to_owned(),
        };
        let typed = word.typed.to_lowercase();
        let choices: Vec<Choice> = match word.kind {
            WordKind::Command => {
                let commands = self.transcript.facts.commands.iter();
                let fits = commands.filter(|(name, _)| name.to_lowercase().starts_with(&typed));
                fits.map(|(name, about)| choice(name, about)).collect()
            }
            WordKind::File => {
                let Some(files) = &self.files else { return Some(UserIntent::ListFiles) };
                let mut fits: Vec<&String> =
                    files.iter().filter(|file| file.to_lowercase().contains(&typed)).collect();
                // A match in the name comes before one in the directory, and a short path before a long one.
                let in_name = |file: &String| {
                    file.rsplit('/').next().is_some_and(|name| name.to_lowercase().contains(&typed))
                };
                fits.sort_by_key(|file| (!in_name(file), file.len()));
                fits.into_iter().take(50).map(|file| choice(file, "")).collect()
            }
        };
        if word.kind == WordKind::Command && self.transcript.facts.commands.is_empty() {
            self.notice("this agent has reported no commands");
        }
        self.completion = if choices.is_empty() { None } else { Some(Menu::new("", choices, None)) };
        None
    }

    fn working(&self) -> Option<Line<'static>> {
        let frame = SPINNER_FRAMES[self.frame % SPINNER_FRAMES.len()];
        let text = match &self.waiting {
            Some(waiting) => waiting.clone(),
            None if self.transcript.is_running() && self.requests.is_empty() => "working".to_owned(),
            None => return None,
        };
        Some(Line::from(vec![frame.yellow(), Span::raw(" "), text.dim()]))
    }

    /// The request, the picker or the composer, with the cursor.
    fn below(&self, width: usize, rows: usize) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
        if self.shows_keys {
            let prefix = Prefix::default();
            let key = |(key, about): (&str, &str)| {
                wrap(&[format!("{key:<20}").cyan(), about.to_owned().into()], &prefix, width)
            };
            return (KEYS.into_iter().flat_map(key).collect(), None);
        }
        if let Some((_, menu)) = &self.picker {
            return (menu.lines(width), None);
        }
        if let Some(request) = self.requests.shown() {
            return request.lines(width, rows);
        }
        let (mut lines, (line, column)) = self.composer.lines(width, COMPOSER_LINES.min(rows.max(1)));
        let above = if self.requests.is_empty() {
            // A blank line sets the composer apart, where there is room for it.
            (rows > ROWS_FOR_BLANK).then(Line::default)
        } else {
            Some(Line::from(format!("{} waits for an answer; Tab shows the request", self.agent).yellow()))
        };
        let before = usize::from(above.is_some());
        lines.splice(..0, above);
        if let Some(menu) = &self.completion {
            lines.extend(menu.lines(width));
        }
        (lines, Some((line + before, column)))
    }

    fn status(&self, width: usize) -> Line<'static> {
        if let Some(notice) = &self.notice {
            return Line::from(cut_end(notice, width).yellow());
        }
        // Each with its rank: where there is no room, the highest goes first.
        let mut parts = vec![(0, self.agent.clone())];
        parts.extend(self.choices.model_label().map(|model| (5, model)));
        parts.extend(self.choices.mode_label().map(|mode| (2, mode)));
        if let Some(usage) = &self.transcript.facts.usage {
            if usage.size > 0 {
                parts.push((7, format!("{}% context", percent(usage))));
            }
            parts.extend(usage.cost.as_ref().map(|cost| (6, crate::output::cost(cost))));
        }
        let queued = self.queued.len() + self.others_queued.len();
        if queued > 0 {
            parts.push((3, format!("{queued} queued")));
        }
        match self.other_clients {
            0 => {}
            1 => parts.push((4, "1 other client".to_owned())),
            clients => parts.push((4, format!("{clients} other clients"))),
        }
        parts.push((1, "? keys".to_owned()));
        Line::from(cut_end(&fitting(parts, width), width).dim())
    }
}

/// Joins the parts, without those of the highest ranks that do not fit.
fn fitting(mut parts: Vec<(u8, String)>, width: usize) -> String {
    loop {
        let line = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(" · ");
        let last = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank).map(|(index, _)| index);
        match last {
            Some(index) if parts.len() > 1 && width_of(&line) > width => drop(parts.remove(index)),
            _ => return line,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(id: &str) -> PendingRequestMeta {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
        serde_json::from_value(json!({
            "questionId": id, "acpxRecordId": "r", "acpxSessionId": "s", "agent": "demo", "title": "Run it",
            "kind": "execute", "options": [option("yes", "allow_once"), option("no", "reject_once")],
            "since": "2026-01-01T00:00:00.000Z", "asked": [],
        }))
        .unwrap()
    }

    fn press(app: &mut App, keys: &str) -> Vec<UserIntent> {
        let key = |letter: char| KeyEvent::from(KeyCode::Char(letter));
        keys.chars().filter_map(|letter| app.key(key(letter))).collect()
    }

    fn answered(intents: &[UserIntent]) -> Vec<&str> {
        let mut ids = Vec::new();
        for intent in intents {
            if let UserIntent::Answer(answer) = intent {
                ids.push(answer.question_id.as_str());
            }
        }
        ids
    }

    #[test]
    fn key_answers_only_the_permission_request_that_is_drawn() {
        let mut app = App::new("demo");
        app.set_requests(&[request("one"), request("two")]);
        assert_eq!(answered(&press(&mut app, "y")), [""; 0], "nothing is on the screen yet");
        app.live(80, 24);
        assert_eq!(answered(&press(&mut app, "yy")), ["one"]);
        app.live(80, 24);
        assert_eq!(answered(&press(&mut app, "nn")), ["two"]);
    }

    #[test]
    fn queued_prompt_is_listed_once_even_if_it_is_accepted_again() {
        let mut app = App::new("demo");
        app.queue("id", "text");
        app.queue("id", "text");
        let lines = app.live(80, 24).lines;
        let queued = lines.iter().filter(|line| line.to_string().starts_with("queued")).count();
        let status = lines.last().unwrap().to_string();
        assert_eq!((queued, status.as_str()), (1, "demo · 1 queued · ? keys"));
    }

    #[test]
    fn status_line_leaves_out_what_does_not_fit() {
        let mut app = App::new("demo");
        app.set_clients(3);
        app.queue("id", "text");
        let status = |app: &mut App, width| app.live(width, 24).lines.last().unwrap().to_string();
        assert_eq!(status(&mut app, 80), "demo · 1 queued · 2 other clients · ? keys");
        assert_eq!(status(&mut app, 30), "demo · 1 queued · ? keys");
        assert_eq!(status(&mut app, 16), "demo · ? keys");
        assert_eq!(status(&mut app, 6), "demo");
    }
}
