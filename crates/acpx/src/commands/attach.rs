//! `acpx attach`: the interactive client of a session.
//!
//! It follows the record like any other client, so two terminals and an editor show the same. If the host dies, it
//! connects to the next one, continues from the last event it has, and submits its open prompts again under their
//! request ids: no prompt is sent to an agent twice.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Stdout, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::model::{Record, Seq, UnattendedPolicy, WakeOptions};
use acpx_core::protocol::meta::{RestoreMeta, SettingMeta};
use acpx_core::protocol::{
    HostError, HostErrorResponse, HostMessage, PendingMeta, PendingParams, QueueDropMeta, QueueDropParams,
    QueueMeta, QueueParams, WatchedEvent,
};
use acpx_core::store::Store;
use acpx_core::wire::RpcId;
use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, EventStream, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers,
};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use futures_util::StreamExt;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::host_request::restore_meta;
use super::sessions::ensure::{PromptedSession, SessionPurpose, open_or_create};
use crate::cli::{CliOptions, Format, UsageError, Wait};
use crate::error::{CliError, CliExit};
use crate::output::{Console, OutputMode, screen, terminal_size};
use crate::prompt_input;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSessionError;
use crate::session::prompt_request::PromptSubmission;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::setup_request::ResumeParams;
use crate::terminal::attach::app::{App, UserIntent};
use crate::terminal::attach::pager::Pager;
use crate::terminal::attach::screen::InlineScreen;
use crate::terminal::attach::transcript::ConversationView;

/// How many turns are shown at first.
const FIRST_TURNS: usize = 3;
/// How many events are read from the store at a time.
const PAGE: usize = 1024;
/// The time between two frames of the spinner.
const FRAME: Duration = Duration::from_millis(100);
/// How often the screen is drawn at most.
const LEAST_PAUSE: Duration = Duration::from_millis(16);
/// After this time the screen is drawn even if stored events are still to come.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(1);
/// How many messages are handled before the screen is drawn.
const BURST: usize = 2048;
/// The pause between attempts to reach a host.
const RECONNECT: Duration = Duration::from_millis(500);
/// How long to wait for input that was already typed. With no time at all, crossterm finds none.
const KEY_WAIT: Duration = Duration::from_millis(5);
/// The key that a line feed is in raw mode.
const CONTROL_J: KeyEvent = KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL);
/// How many files can be mentioned.
const FILES: usize = 20_000;

/// Whether a person can type and read.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal() && screen().is_terminal()
}

/// Runs the client in the selected session.
pub(super) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    if !is_possible() {
        return Err(UsageError::NoTerminal.into());
    }
    let locator = HostLocator::of_environment()?;
    let has_colour = settings.mode.has_color();
    // Else the library decides by the environment alone.
    crossterm::style::force_color_output(has_colour);
    block_on(async {
        let mut console = Console::of_program(settings.mode);
        let PromptedSession { record, lookup, .. } =
            open_or_create(settings, options, config, SessionPurpose::Attach, Instant::now(), &mut console)
                .await?;
        let short = lookup.short_id(&record.id, settings.mode).await;
        let Some((store, events)) = lookup.into_events(&record) else { return Ok(CliExit::Success.into()) };
        let first = events.last_turns(FIRST_TURNS as u64).await?;
        let terminal = RawTerminal::enter()?;
        let typed_ahead = typed_ahead()?;
        let mut client = AttachedClient {
            settings,
            options,
            locator: &locator,
            record: &record,
            store,
            app: App::new(&record.agent.label()),
            screen: InlineScreen::new(screen(), terminal_size(), has_colour),
            console: Console::of_program(OutputMode { format: Format::Quiet, ..settings.mode }),
            next: first,
            prompts: Vec::new(),
            calls: HashMap::new(),
            submission: Submission::Done,
            needs_pending: true,
            needs_queue: false,
            typed_ahead,
            has_colour,
        };
        let done = client.run(&mut Signals::new()?).await;
        client.screen.clear()?;
        drop(terminal);
        if !matches!(done?, End::Deleted) {
            crate::output::print(&format!(
                "Detached. The session goes on; to return: acpx attach {short}\n"
            ))?;
        }
        Ok(CliExit::Success.into())
    })
}

/// The signals of a client that owns a terminal.
struct Signals {
    terminated: Signal,
    hung_up: Signal,
    /// Received and ignored, as in Git: the keys for them are meant for an editor that runs.
    _keys: [Signal; 2],
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminated: signal(SignalKind::terminate())?,
            hung_up: signal(SignalKind::hangup())?,
            _keys: [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?],
        })
    }

    /// Waits for one that ends the client. It must not leave the terminal in raw mode.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminated.recv() => {}
            _ = self.hung_up.recv() => {}
        }
    }
}

/// The terminal in raw mode, until it is dropped.
pub(super) struct RawTerminal;

impl RawTerminal {
    pub(super) fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        execute!(screen(), EnableBracketedPaste)?;
        Ok(Self)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        drop(execute!(screen(), DisableBracketedPaste));
        drop(disable_raw_mode());
    }
}

/// Reads what was typed before the terminal was in raw mode. It turned each Enter into a line feed, which would
/// otherwise be Ctrl-J.
fn typed_ahead() -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    while crossterm::event::poll(KEY_WAIT)? {
        events.push(match crossterm::event::read()? {
            Event::Key(key) if key == CONTROL_J => Event::Key(KeyCode::Enter.into()),
            event => event,
        });
    }
    Ok(events)
}

/// What an answer of the host belongs to.
enum Call {
    Prompt(String),
    /// A queued prompt is taken back.
    Drop(String),
    Setup,
    Pending,
    Queue,
    /// An answer to a request, or a cancellation: only its failure matters.
    Action,
}

struct AttachedClient<'a> {
    settings: &'a CommandSettings,
    options: &'a CliOptions,
    locator: &'a HostLocator,
    record: &'a Record,
    store: Arc<dyn Store>,
    app: App,
    screen: InlineScreen<Stdout>,
    console: Console<'static>,
    /// The first event that was not seen.
    next: Seq,
    /// Our prompts without an answer, in the order of their submission.
    prompts: Vec<SentPrompt>,
    calls: HashMap<RpcId, Call>,
    /// Whether our prompts are submitted on this connection.
    submission: Submission,
    /// Whether the pending requests may have changed.
    needs_pending: bool,
    /// Whether the queued prompts may have changed.
    needs_queue: bool,
    /// Input from before the client was ready.
    typed_ahead: Vec<Event>,
    has_colour: bool,
}

/// A prompt of ours.
struct SentPrompt {
    submission: PromptSubmission,
    text: String,
    /// Whether its turn began. The conversation shows how that ends.
    has_begun: bool,
}

impl SentPrompt {
    fn is(&self, request: &str) -> bool {
        self.submission.request.as_str() == request
    }
}

/// The submission of the prompts that a lost host has not answered. The next host takes them once it has the session.
#[derive(PartialEq, Eq)]
enum Submission {
    AfterSetup,
    Due,
    Done,
}

/// Why the loop of one connection ended.
enum End {
    Detached,
    HostLost,
    /// The record was deleted.
    Deleted,
}

impl AttachedClient<'_> {
    async fn run(&mut self, signals: &mut Signals) -> Result<End, CliError> {
        let mut events = EventStream::new();
        loop {
            let Some(mut host) = self.connect(&mut events, signals).await? else { return Ok(End::Detached) };
            let followed = self.follow(&mut host, &mut events, signals).await;
            match followed {
                Ok(End::Detached) | Err(HostSessionError::Stopped(_)) => return Ok(End::Detached),
                Ok(End::Deleted) => {
                    self.app.transcript.note("the session was deleted");
                    self.draw()?;
                    return Ok(End::Deleted);
                }
                Ok(End::HostLost) | Err(HostSessionError::Lost) => {
                    self.calls.clear();
                    self.app.set_requests(&[]);
                    self.app.waiting = Some("the host ended; connecting to the next one".to_owned());
                    self.draw()?;
                }
                Err(HostSessionError::Failed(error)) => return Err(error),
            }
        }
    }

    /// Connects to the host, and tries again while it does not start. `None` if the user detaches.
    async fn connect(
        &mut self,
        events: &mut EventStream,
        signals: &mut Signals,
    ) -> Result<Option<HostClient>, CliError> {
        loop {
            let error = match self.locator.host(&mut self.console).await {
                Ok(client) => return Ok(Some(client)),
                Err(error) => error,
            };
            self.app.notice(&error.to_string());
            let again = Instant::now() + RECONNECT;
            loop {
                self.draw()?;
                let event = tokio::select! {
                    event = events.next() => event,
                    () = signals.end() => return Ok(None),
                    () = tokio::time::sleep_until(again) => break,
                };
                let Some(event) = event else { return Ok(None) };
                match event.ok().and_then(|event| self.terminal_event(&event)) {
                    Some(UserIntent::Detach) => return Ok(None),
                    Some(UserIntent::Send(text)) => {
                        self.app.composer.set(text);
                        self.app.notice("no host runs; the prompt is not sent");
                    }
                    _ => {}
                }
            }
        }
    }

    /// Follows the record over one connection.
    async fn follow(
        &mut self,
        host: &mut HostClient,
        events: &mut EventStream,
        signals: &mut Signals,
    ) -> Result<End, HostSessionError> {
        let id = self.record.id.as_str();
        host.request("_acpx/watch", &json!({ "sessionId": id, "from": self.next.0, "activity": true }))
            .await?;
        self.set_up(host, None).await?;
        self.app.waiting = None;
        self.submission = Submission::AfterSetup;
        self.needs_pending = true;
        for event in std::mem::take(&mut self.typed_ahead) {
            if self.handle_input(&event, host, events, signals).await? {
                return Ok(End::Detached);
            }
        }
        let connected = Instant::now();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            for _ in 0..BURST {
                let Some(message) = host.try_next() else { break };
                if let Some(end) = self.message(message)? {
                    return Ok(end);
                }
            }
            if self.submission == Submission::Due {
                self.submission = Submission::Done;
                for SentPrompt { submission, .. } in &self.prompts {
                    let request = host.request("session/prompt", &submission.params(id, None)).await?;
                    self.calls.insert(request, Call::Prompt(submission.request.to_string()));
                }
            }
            self.request_changes(host).await?;
            // What was stored before is shown at once, and several updates are drawn together.
            if !self.is_catching_up() || connected.elapsed() > LONGEST_CATCH_UP {
                self.draw()?;
                sleep(LEAST_PAUSE).await;
            }
            tokio::select! {
                message = host.next() => match message {
                    Some(message) => if let Some(end) = self.message(message)? {
                        return Ok(end);
                    },
                    None => return Ok(End::HostLost),
                },
                event = events.next() => {
                    let Some(event) = event else { return Ok(End::Detached) };
                    let mut event = event?;
                    loop {
                        if self.handle_input(&event, host, events, signals).await? {
                            return Ok(End::Detached);
                        }
                        // All keys that were typed are handled before the screen is drawn.
                        if !crossterm::event::poll(KEY_WAIT)? {
                            break;
                        }
                        event = crossterm::event::read()?;
                    }
                }
                () = signals.end() => return Ok(End::Detached),
                _ = frames.tick() => {
                    self.app.tick();
                    self.needs_pending |= self.app.misses_request();
                }
            }
        }
    }

    /// Asks for the pending requests and the queued prompts if they may have changed.
    async fn request_changes(&mut self, host: &HostClient) -> Result<(), HostSessionError> {
        let session_id = || Some(self.record.id.to_string());
        if std::mem::take(&mut self.needs_pending) {
            let params = PendingParams { session_id: session_id() };
            self.calls.insert(host.request("_acpx/pending", &params).await?, Call::Pending);
        }
        if std::mem::take(&mut self.needs_queue) {
            let params = QueueParams { session_id: session_id() };
            self.calls.insert(host.request("_acpx/queue", &params).await?, Call::Queue);
        }
        Ok(())
    }

    /// Whether events that were stored at the beginning are still to come.
    fn is_catching_up(&self) -> bool {
        self.record.last_seq.is_some_and(|last| self.next <= last)
    }

    /// Attaches to the session without starting its agent, or sets an option, which starts it.
    async fn set_up(
        &mut self,
        host: &HostClient,
        setting: Option<SettingMeta>,
    ) -> Result<(), HostSessionError> {
        let mut meta = RestoreMeta {
            later: setting.is_none(),
            ..restore_meta(self.record, self.settings, self.options.flags.model.as_deref())
        };
        meta.start.settings.extend(setting);
        let resume = ResumeParams::new(self.record, self.settings, None, meta);
        let request = host.request("session/resume", &resume).await?;
        self.calls.insert(request, Call::Setup);
        Ok(())
    }

    fn message(&mut self, message: HostMessage) -> Result<Option<End>, HostSessionError> {
        match message {
            HostMessage::Event(event) => {
                self.next = event.seq.next();
                self.app.event(&event);
                for prompt in &mut self.prompts {
                    prompt.has_begun |= self.app.has_begun(prompt.submission.request.as_str());
                }
                self.needs_pending |= may_change_requests(&event);
            }
            HostMessage::WatchEnded { error: None, .. } => return Ok(Some(End::Deleted)),
            HostMessage::WatchEnded { error: Some(refusal), .. } | HostMessage::Refused(refusal) => {
                return Err(HostError::Refused(refusal).into());
            }
            HostMessage::Accepted { request, .. } => {
                if let Some(prompt) = self.prompts.iter().find(|prompt| prompt.is(&request)) {
                    self.app.queue(&request, &prompt.text);
                }
                self.app.waiting = None;
            }
            HostMessage::Answer { id, result } => {
                if let Some(call) = self.calls.remove(&id) {
                    self.answered(&call, result);
                }
            }
            HostMessage::Activity { clients, queued } => {
                self.app.set_clients(clients);
                self.needs_queue = queued > 0;
                if queued == 0 {
                    self.app.set_queue(&[]);
                }
            }
            HostMessage::Withdrawn { .. } => self.needs_pending = true,
            _ => {}
        }
        Ok(None)
    }

    fn answered(&mut self, call: &Call, result: Result<Box<str>, HostErrorResponse>) {
        if matches!(call, Call::Setup) && self.submission == Submission::AfterSetup {
            self.submission = Submission::Due;
        }
        match (call, result) {
            (Call::Prompt(request), result) => {
                let prompt = self.forget_prompt(request);
                self.app.unqueue(request);
                self.app.waiting = None;
                // The conversation shows how a turn ended. A prompt that was refused is not lost.
                if let (Err(error), Some(prompt)) = (result, prompt.filter(|prompt| !prompt.has_begun)) {
                    self.app.notice(&error.to_string());
                    if self.app.composer.is_empty() {
                        self.app.composer.set(prompt.text);
                    }
                }
            }
            (Call::Drop(request), Ok(reply)) => {
                let dropped = serde_json::from_str::<QueueDropMeta>(&reply).unwrap_or_default().dropped;
                if dropped.contains(request) {
                    self.app.take_back(request);
                    self.forget_prompt(request);
                }
            }
            (Call::Setup, Ok(reply)) => {
                self.app.waiting = None;
                self.app.choices.setup(&reply);
            }
            (Call::Pending, Ok(pending)) => {
                if let Ok(pending) = serde_json::from_str::<PendingMeta>(&pending) {
                    self.app.set_requests(&pending.questions);
                }
            }
            (Call::Queue, Ok(queue)) => {
                if let Ok(queue) = serde_json::from_str::<QueueMeta>(&queue) {
                    self.app.set_queue(&queue.prompts);
                }
            }
            (Call::Action, Ok(_)) => {}
            (Call::Setup | Call::Pending | Call::Queue | Call::Drop(_) | Call::Action, Err(error)) => {
                self.app.waiting = None;
                self.app.notice(&error.to_string());
                self.needs_pending = true;
            }
        }
    }

    /// Removes a prompt that has its answer.
    fn forget_prompt(&mut self, request: &str) -> Option<SentPrompt> {
        let index = self.prompts.iter().position(|prompt| prompt.is(request))?;
        Some(self.prompts.remove(index))
    }

    fn terminal_event(&mut self, event: &Event) -> Option<UserIntent> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.key(*key),
            Event::Paste(text) => {
                self.app.paste(text);
                None
            }
            Event::Resize(columns, rows) => {
                self.screen.set_size((*columns, *rows));
                None
            }
            _ => None,
        }
    }

    /// Handles input of the terminal; whether it was to detach.
    async fn handle_input(
        &mut self,
        event: &Event,
        host: &HostClient,
        events: &mut EventStream,
        signals: &mut Signals,
    ) -> Result<bool, HostSessionError> {
        match self.terminal_event(event) {
            Some(intent) => self.act(intent, host, events, signals).await,
            None => Ok(false),
        }
    }

    /// Does what the user wants; whether that is to detach.
    async fn act(
        &mut self,
        intent: UserIntent,
        host: &HostClient,
        events: &mut EventStream,
        signals: &mut Signals,
    ) -> Result<bool, HostSessionError> {
        let id = self.record.id.as_str();
        match intent {
            UserIntent::Detach => return Ok(true),
            UserIntent::Send(text) => self.send(&text, host).await?,
            UserIntent::Cancel(request) => {
                // Unlike `session/cancel`, this cancels a turn of any client, and leaves queued prompts alone.
                let params = json!({ "sessionId": id, "requestId": request });
                let call = host.request("_acpx/cancel", &params).await?;
                self.calls.insert(call, Call::Action);
            }
            UserIntent::Unqueue(request) => {
                // A prompt whose turn has just begun stays.
                let params =
                    QueueDropParams { session_id: id.to_owned(), request_ids: vec![request.clone()] };
                let call = host.request("_acpx/queue/drop", &params).await?;
                self.calls.insert(call, Call::Drop(request));
            }
            UserIntent::Answer(answer) => {
                let request = host.request("_acpx/answer", &answer).await?;
                self.calls.insert(request, Call::Action);
            }
            UserIntent::Set(option, value) => {
                let what = option.as_deref().unwrap_or("mode");
                self.app.waiting = Some(format!("setting the {what}"));
                self.set_up(host, Some(SettingMeta { option, value })).await?;
            }
            UserIntent::ListFiles => self.app.set_files(files(self.record.cwd.as_path())),
            UserIntent::ShowConversation => return self.show_conversation(events, signals).await,
            UserIntent::Edit => self.edit(events)?,
        }
        Ok(false)
    }

    async fn send(&mut self, text: &str, host: &HostClient) -> Result<(), HostSessionError> {
        let blocks = prompt_input::text_blocks(text);
        let mut policy = self.settings.policy.clone();
        // A request outlives this client.
        policy.unasked = UnattendedPolicy::Wait;
        let wake = WakeOptions::default();
        let submission = PromptSubmission::new(&blocks, self.settings, &policy, wake, Wait::ForAnswer)?;
        let submission = submission.for_agent(&self.record.agent.label()).interactive(true);
        if self.submission == Submission::Done {
            let params = submission.params(self.record.id.as_str(), None);
            let request = host.request("session/prompt", &params).await?;
            self.calls.insert(request, Call::Prompt(submission.request.to_string()));
        }
        self.prompts.push(SentPrompt { submission, text: text.to_owned(), has_begun: false });
        self.app.waiting = Some("sending".to_owned());
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        // The event of a resize may be behind keys that were typed before it.
        self.screen.set_size(terminal_size());
        let columns = self.screen.columns();
        let finished = self.app.transcript.take_finished(columns);
        let live = self.app.live(columns, self.screen.live_rows());
        self.screen.draw(&finished, live)
    }

    /// Opens the prompt in the user's editor.
    fn edit(&mut self, events: &mut EventStream) -> Result<(), HostSessionError> {
        let mut file = tempfile::Builder::new().prefix("acpx-prompt-").suffix(".md").tempfile()?;
        file.write_all(self.app.composer.text().as_bytes())?;
        let editor = ["VISUAL", "EDITOR"].into_iter().find_map(std::env::var_os);
        let editor = editor.filter(|editor| !editor.is_empty()).unwrap_or_else(|| "vi".into());
        self.screen.clear()?;
        // A stream that waits for keys would take them from the editor. A new one does not wait yet.
        *events = EventStream::new();
        execute!(screen(), DisableBracketedPaste)?;
        disable_raw_mode()?;
        // As Git does: the variable may have arguments.
        let line = format!("{} \"$@\"", editor.to_string_lossy());
        let ended = Command::new("sh").arg("-c").arg(line).arg("editor").arg(file.path()).status();
        enable_raw_mode()?;
        execute!(screen(), EnableBracketedPaste)?;
        match ended {
            Ok(status) if status.success() => {
                let text = std::fs::read(file.path())?;
                self.app.composer.set(String::from_utf8_lossy(&text).trim_end());
            }
            Ok(_) => self.app.notice("the editor failed; the prompt is unchanged"),
            Err(error) => self.app.notice(&format!("cannot start the editor: {error}")),
        }
        Ok(())
    }

    /// Shows the whole conversation on the alternate screen; whether to detach then.
    async fn show_conversation(
        &mut self,
        events: &mut EventStream,
        signals: &mut Signals,
    ) -> Result<bool, HostSessionError> {
        let mut transcript = ConversationView::whole();
        let mut next = Seq::FIRST;
        while next < self.next {
            let page = self.store.events(self.record.id.clone(), next, PAGE).await.map_err(CliError::from)?;
            let Some(last) = page.last() else { break };
            next = last.seq.next();
            page.iter().filter_map(WatchedEvent::of).for_each(|event| transcript.event(&event));
        }
        let (mut columns, rows) = terminal_size();
        let mut lines = transcript.take_finished(usize::from(columns));
        lines.extend(transcript.live(usize::from(columns)));
        let mut pager = Pager::new(lines, rows);
        execute!(screen(), EnterAlternateScreen)?;
        let ended = self.page(&mut pager, &mut columns, events, signals).await;
        execute!(screen(), LeaveAlternateScreen)?;
        Ok(ended?)
    }

    /// Lets the user scroll until the pager is closed; whether to detach then.
    async fn page(
        &mut self,
        pager: &mut Pager,
        columns: &mut u16,
        events: &mut EventStream,
        signals: &mut Signals,
    ) -> io::Result<bool> {
        loop {
            pager.draw(&mut screen(), *columns, self.has_colour)?;
            let event = tokio::select! {
                event = events.next() => event,
                () = signals.end() => return Ok(true),
            };
            match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    if !pager.key(key) {
                        return Ok(false);
                    }
                }
                Some(Ok(Event::Resize(new_columns, rows))) => {
                    *columns = new_columns;
                    self.screen.set_size((new_columns, rows));
                    pager.resize(rows);
                }
                Some(_) => {}
                None => return Ok(true),
            }
        }
    }
}

/// Whether an event may change the pending requests.
fn may_change_requests(event: &WatchedEvent) -> bool {
    let line = event.message.get();
    let names =
        ["session/request_permission", "elicitation/", "permission_asked", "turn_ended", "\"result\""];
    names.iter().any(|name| line.contains(name))
}

/// The files below a directory that can be mentioned: those that Git knows or would add, or else all that are not
/// hidden.
fn files(directory: &Path) -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(directory)
        .output();
    match listed {
        Ok(output) if output.status.success() => {
            let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            names.take(FILES).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        }
        _ => walk(directory),
    }
}

fn walk(directory: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with('.') || found.len() >= FILES {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    let path = entry.path();
                    let below = path.strip_prefix(directory).unwrap_or(&path);
                    found.push(below.to_string_lossy().into_owned());
                }
                _ => {}
            }
        }
    }
    found
}
