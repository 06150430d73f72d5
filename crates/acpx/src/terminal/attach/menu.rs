//! A list to choose from, and a permission request with everything that it would do.

use std::cell::{Cell, RefCell};

use acpx_core::model::narrowest;
use acpx_core::protocol::{AnswerParams, OptionMeta, PendingRequestMeta};
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};

use super::tool_entry::diff;
use crate::output::{Detail, FormReply, TerminalForm, cut_end, on_one_line, request_details};
use crate::terminal::attach::composer::Composer;
use crate::terminal::render::wrap::{Prefix, wrap};

/// How many choices are shown at a time.
const SHOWN: usize = 8;

/// A choice: its value, its label and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What is chosen.
    pub(crate) value: String,
    /// What is shown.
    pub(crate) label: String,
    /// More about it.
    pub(crate) about: String,
}

/// A list with a selected row.
#[derive(Debug, Default)]
pub(crate) struct Menu {
    /// What is chosen, in words.
    pub(crate) title: String,
    /// The choices.
    pub(crate) choices: Vec<Choice>,
    selected: usize,
    /// Whether a number chooses.
    is_numbered: bool,
}

impl Menu {
    /// A menu with this choice selected.
    pub(crate) fn new(title: &str, choices: Vec<Choice>, current: Option<&str>) -> Self {
        let selected = choices.iter().position(|choice| Some(choice.value.as_str()) == current).unwrap_or(0);
        Self { title: title.to_owned(), choices, selected, is_numbered: false }
    }

    /// The selected choice.
    pub(crate) fn selected(&self) -> Option<&Choice> {
        self.choices.get(self.selected)
    }

    /// Moves the selection; whether the key was for that.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let count = self.choices.len().max(1);
        match key.code {
            KeyCode::Up => self.selected = (self.selected + count - 1) % count,
            KeyCode::Down => self.selected = (self.selected + 1) % count,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(SHOWN),
            KeyCode::PageDown => self.selected = (self.selected + SHOWN).min(count - 1),
            _ => return false,
        }
        true
    }

    /// Its lines, with the selected one in view.
    pub(crate) fn lines(&self, width: usize) -> Vec<Line<'static>> {
        let first = (self.selected + 1).saturating_sub(SHOWN);
        let mut lines = Vec::new();
        if !self.title.is_empty() {
            lines.push(Line::from(self.title.clone().bold()));
        }
        for (index, choice) in self.choices.iter().enumerate().skip(first).take(SHOWN) {
            let is_selected = index == self.selected;
            let mark = if is_selected { "› ".cyan() } else { "  ".into() };
            let number = match index + 1 {
                number @ 1..=9 if self.is_numbered => format!("{number} "),
                _ if self.is_numbered => "  ".to_owned(),
                _ => String::new(),
            };
            let label = cut_end(&choice.label, width.saturating_sub(4));
            let label = if is_selected { label.cyan().bold() } else { label.into() };
            let room = width.saturating_sub(label.width() + 4);
            let about = if choice.about.is_empty() || room < 8 {
                String::new()
            } else {
                format!("  {}", cut_end(&choice.about, room))
            };
            lines.push(Line::from(vec![number.cyan(), mark, label, about.dim()]));
        }
        let more = self.choices.len().saturating_sub(first + SHOWN);
        if more > 0 {
            lines.push(Line::from(format!("  … {more} more").dim()));
        }
        lines
    }
}

/// A pending request of the agent.
pub(crate) struct RequestMenu {
    /// Its id.
    pub(crate) id: String,
    title: String,
    details: String,
    /// The tool call whose diffs are among the details.
    pub(super) diffs_of: Option<String>,
    body: RequestBody,
    problem: String,
    /// The first line of the details in view.
    top: usize,
    /// How far the details can be scrolled, and by how much at a time, as drawn last.
    scroll: Cell<(usize, usize)>,
    /// The lines of title and details as drawn last, with their width: a diff may be long.
    body_lines: RefCell<(usize, Vec<Line<'static>>)>,
}

enum RequestBody {
    /// The agent's options, as a menu and as they are.
    Permission(Menu, Vec<OptionMeta>),
    Form(Box<TerminalForm>, Composer),
}

impl RequestMenu {
    /// Reads a listed request.
    pub(crate) fn new(request: &PendingRequestMeta) -> Self {
        let title = request.title.as_deref().unwrap_or("a tool call");
        let kind = if request.kind.is_empty() { String::new() } else { format!(" [{}]", request.kind) };
        let form = request.elicitation.as_ref().and_then(|form| serde_json::to_string(form).ok());
        let (title, details, body) = if let Some(form) = form {
            let form = TerminalForm::read(&form);
            (String::new(), form.shown(), RequestBody::Form(Box::new(form), Composer::default()))
        } else {
            let choice = |option: &OptionMeta| Choice {
                value: option.option_id.clone(),
                label: on_one_line(option.label()),
                about: String::new(),
            };
            // Enter alone must not allow more than this once.
            let current = narrowest(&request.options, "allow").map(|option| option.option_id.as_str());
            let menu = Menu::new("", request.options.iter().map(choice).collect(), current);
            let menu = Menu { is_numbered: true, ..menu };
            (
                format!("{title}{kind}"),
                request_details(request, Detail::Whole),
                RequestBody::Permission(menu, request.options.clone()),
            )
        };
        let title = on_one_line(&title);
        let details = details.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
        // A command that is its own title is shown once. Anything less than equality would hide what runs.
        let own_title = request.title.as_deref();
        let is_repeated =
            |line: &&str| line.strip_prefix("$ ").is_some_and(|command| Some(command) == own_title);
        let details: Vec<&str> = details.filter(|line| !is_repeated(line)).collect();
        let details = details.join("\n");
        Self {
            id: request.question_id.clone(),
            title,
            details,
            diffs_of: diffs_of(request),
            body,
            problem: String::new(),
            top: 0,
            scroll: Cell::default(),
            body_lines: RefCell::default(),
        }
    }

    /// Handles a key; the answer if it was given.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<AnswerParams> {
        let (last, page) = self.scroll.get();
        match key.code {
            KeyCode::PageUp => self.top = self.top.saturating_sub(page),
            KeyCode::PageDown => self.top = (self.top + page).min(last),
            _ => return self.answer_key(key),
        }
        None
    }

    /// Handles pasted text: it goes into the field of a form.
    pub(crate) fn paste(&mut self, text: &str) {
        if let RequestBody::Form(_, input) = &mut self.body {
            input.insert(text);
        }
    }

    fn answer_key(&mut self, key: KeyEvent) -> Option<AnswerParams> {
        match &mut self.body {
            RequestBody::Permission(menu, options) => {
                let option = match key.code {
                    KeyCode::Char(number @ '1'..='9') => options.get(number as usize - '1' as usize)?,
                    KeyCode::Char('y') => narrowest(options, "allow")?,
                    KeyCode::Char('n') => match narrowest(options, "reject") {
                        Some(option) => option,
                        // The agent offers no way to refuse: the host cancels the request.
                        None => return Some(answer(&self.id, false, None)),
                    },
                    KeyCode::Enter => options.get(menu.selected)?,
                    _ => {
                        menu.key(key);
                        return None;
                    }
                };
                let approves = !option.kind.as_deref().is_some_and(|kind| kind.starts_with("reject"));
                Some(answer(&self.id, approves, Some(option.option_id.clone())))
            }
            RequestBody::Form(form, input) => {
                if key.code != KeyCode::Enter {
                    input.key(key);
                    return None;
                }
                // The next field must not recall what was typed here: it may be a secret.
                let typed = std::mem::take(input);
                match form.reply(typed.text()) {
                    FormReply::Answer(answer) => {
                        let approve = answer["action"] == "accept";
                        let content = answer["content"].as_object().cloned();
                        Some(AnswerParams { question_id: self.id.clone(), approve, option_id: None, content })
                    }
                    FormReply::Next => {
                        self.problem.clear();
                        None
                    }
                    FormReply::Again(problem) => {
                        self.problem = problem;
                        None
                    }
                }
            }
        }
    }

    /// Lays out title and details, unless they are for this width.
    fn wrap_body(&self, width: usize) {
        let mut drawn = self.body_lines.borrow_mut();
        if drawn.0 != width {
            let title = wrap(&[self.title.clone().bold()], &Prefix::default(), width);
            let title = title.into_iter().filter(|_| !self.title.is_empty());
            *drawn = (width, title.chain(diff(&self.details, width, Detail::Whole)).collect());
        }
    }

    /// Its lines in a frame, and the cursor of a form.
    pub(crate) fn lines(&self, width: usize, most: usize) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
        let inner = width.saturating_sub(2).max(8);
        self.wrap_body(inner);
        let all = &self.body_lines.borrow().1;
        let (end, cursor) = match &self.body {
            RequestBody::Permission(menu, _) => {
                let mut lines = menu.lines(inner);
                lines.push(Line::from("Esc decides later · Enter or a number chooses".dim()));
                (lines, None)
            }
            RequestBody::Form(form, input) => {
                let mut lines = wrap(&[form.prompt_line().into()], &Prefix::default(), inner);
                let (typed, cursor) = if form.is_secret() {
                    (vec![Line::from("> …")], (0, 2))
                } else {
                    input.lines(inner, 4)
                };
                let at = lines.len() + cursor.0;
                lines.extend(typed);
                if !self.problem.is_empty() {
                    lines.push(Line::from(self.problem.clone().red()));
                }
                (lines, Some((at, cursor.1)))
            }
        };
        // The options are always in view; a long command or diff is scrolled above them.
        let room = most.saturating_sub(end.len() + 2).max(2);
        let body = if all.len() > room {
            let (count, shown) = (all.len(), room - 1);
            let top = self.top.min(count - shown);
            self.scroll.set((count - shown, shown));
            let place = format!("lines {}–{} of {count} · PgUp, PgDn", top + 1, top + shown);
            let in_view = all.iter().skip(top).take(shown).cloned();
            in_view.chain([Line::from(place.dim())]).collect()
        } else {
            all.clone()
        };
        let heading = match &self.body {
            RequestBody::Permission(..) => " permission request ",
            RequestBody::Form(..) => " form ",
        };
        let edge = |line: Line<'static>| {
            Line::from([vec![Span::styled("│ ", Style::new().fg(Color::Yellow))], line.spans].concat())
        };
        let mut lines = vec![rule("╭", heading, width)];
        let above = 1 + body.len();
        lines.extend(body.into_iter().chain(end).map(edge));
        lines.push(rule("╰", "", width));
        (lines, cursor.map(|(line, column)| (above + line, column + 2)))
    }
}

/// The tool call of a request that has its diffs.
fn diffs_of(request: &PendingRequestMeta) -> Option<String> {
    let call = request.tool_call.as_ref()?;
    let has_diff = call.get("content")?.as_array()?.iter().any(|item| item["type"] == "diff");
    let id = call.get("toolCallId")?.as_str()?;
    has_diff.then(|| id.to_owned())
}

fn answer(id: &str, approve: bool, option: Option<String>) -> AnswerParams {
    AnswerParams { question_id: id.to_owned(), approve, option_id: option, content: None }
}

fn rule(corner: &str, title: &str, width: usize) -> Line<'static> {
    let used = 1 + title.chars().count();
    let line = format!("{corner}{title}{}", "─".repeat(width.min(60).saturating_sub(used)));
    Line::from(Span::styled(line, Style::new().fg(Color::Yellow)))
}
