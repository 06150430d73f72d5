//! `acpx attach`: the interactive client of a session.
//!
//! It follows the record like any other client, so two terminals and an editor show the same. If the host dies, it
//! connects to the next one, continues from the last event it has, and submits its open prompts again under their
//! request ids: no prompt is sent to an agent twice.

use std::collections::HashMap;
use std::future::pending;
use std::io::{self, IsTerminal, Stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::Cursor;
use acpx_core::client::HostClient;
use acpx_core::model::{Record, Seq, UnattendedPolicy, WakeOptions};
use acpx_core::protocol::meta::{RestoreMeta, SettingMeta};
use acpx_core::protocol::{
    HostError, HostErrorResponse, HostMessage, PendingMeta, PendingParams, QueueDropMeta, QueueDropParams,
    QueueMeta, QueueParams, WatchedEvent,
};
use acpx_core::store::Store;
use acpx_core::wire::RpcId;
use crossterm::event::{Event, KeyEventKind};
use ratatui::text::Line;
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::host_request::restore_meta;
use super::prompt::explain_restore;
use super::sessions::ensure::{PromptedSession, SessionPurpose, open_or_create};
use crate::cli::{CliOptions, Format, UsageError, Wait};
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, OutputMode, screen, terminal_size};
use crate::prompt_input;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSessionError;
use crate::session::prompt_request::PromptSubmission;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::setup_request::ResumeParams;
use crate::terminal::attach::app::{App, UserIntent};
use crate::terminal::attach::files::mentionable_files;
use crate::terminal::attach::pager::{self, Pager};
use crate::terminal::attach::screen::InlineScreen;
use crate::terminal::attach::transcript::ConversationView;
use crate::terminal::raw_terminal::{AlternateScreen, RawTerminal};

/// How many turns are shown at first.
const FIRST_TURNS: u64 = 3;
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
/// How long a client that detaches waits until the host has what it sent.
const DETACH_WAIT: Duration = Duration::from_secs(3);

/// Whether a person can type and read.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal() && screen().is_terminal()
}

/// Runs the client in the selected session, from a position on or with the last turns.
pub(super) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &LazyConfig,
    from: Option<&Cursor>,
) -> Result<ExitCode, CliError> {
    if !is_possible() {
        return Err(UsageError::NoTerminal.into());
    }
    let locator = HostLocator::of_environment()?;
    let has_color = settings.mode.has_color();
    // Else the library decides by the environment alone.
    crossterm::style::force_color_output(has_color);
    block_on(async {
        let mut console = Console::of_program(settings.mode);
        let PromptedSession { record, lookup, .. } =
            open_or_create(settings, options, config, SessionPurpose::Attach, Instant::now(), &mut console)
                .await?;
        let short = lookup.short_id(&record.id, settings.mode).await;
        // Longer than needed now: the next sessions have ids that begin like this one.
        let return_id = record.id.as_str().get(..short.len() + 2).unwrap_or(record.id.as_str()).to_owned();
        let Some((store, events)) = lookup.into_events(&record) else { return Ok(CliExit::Success.into()) };
        let first = match from {
            Some(from) => {
                events.find(from).await.map_err(|error| CliError::from(error).about(record.identity()))?
            }
            None => events.last_turns(FIRST_TURNS).await?,
        };
        let mut terminal = RawTerminal::enter()?;
        let mut app = App::new(&record.agent.label());
        match record.last_turn.filter(|_| first > Seq::FIRST) {
            Some(turn) if from.is_none() => {
                let earlier = turn.0.saturating_sub(FIRST_TURNS);
                if earlier > 0 {
                    app.transcript
                        .note(&format!("earlier turns: {earlier}; Ctrl-T shows the whole conversation"));
                }
            }
            _ if first > Seq::FIRST => {
                app.transcript.note(&format!("begins at seq:{first}; Ctrl-T shows the whole conversation"));
            }
            _ => {}
        }
        let mut client = AttachedClient {
            settings,
            options,
            locator: &locator,
            record: &record,
            store,
            app,
            screen: InlineScreen::new(screen(), terminal_size(), has_color),
            console: Console::of_program(OutputMode { format: Format::Quiet, ..settings.mode }),
            next: first,
            prompts: Vec::new(),
            calls: HashMap::new(),
            submission: Submission::Done,
            stale: StaleParts::default(),
            has_live_setup: false,
            files: None,
            has_color,
        };
        let done = client.run(&mut terminal).await;
        client.screen.clear()?;
        drop(terminal);
        let unsent = client.prompts.iter().filter(|prompt| !prompt.is_accepted).map(|prompt| &*prompt.text);
        output::unsent_prompts(unsent, &mut console);
        if !matches!(done?, End::Deleted) {
            output::print(&format!("Detached. The session goes on; to return: acpx attach {return_id}\n"))?;
        }
        Ok(CliExit::Success.into())
    })
}

/// What an answer of the host belongs to.
enum Call {
    Prompt(String),
    /// A queued prompt is taken back: its request id, and its text, which its own answer removes.
    Drop(String, String),
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
    stale: StaleParts,
    /// Whether modes and models were read since the agent runs.
    has_live_setup: bool,
    /// The list of files that is being made.
    files: Option<JoinHandle<Vec<String>>>,
    has_color: bool,
}

/// What may have changed in the host since it was read.
#[derive(Default)]
struct StaleParts {
    /// The pending requests.
    pending: bool,
    /// The queued prompts.
    queue: bool,
    /// The session's modes and models.
    setup: bool,
}

/// A prompt of ours.
struct SentPrompt {
    submission: PromptSubmission,
    text: String,
    /// Whether the host has stored it.
    is_accepted: bool,
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
    async fn run(&mut self, terminal: &mut RawTerminal) -> Result<End, CliError> {
        loop {
            let Some(mut host) = self.connect(terminal).await? else { return Ok(End::Detached) };
            let followed = self.follow(&mut host, terminal).await;
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
    async fn connect(&mut self, terminal: &mut RawTerminal) -> Result<Option<HostClient>, CliError> {
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
                    event = terminal.next() => event,
                    () = sleep_until(again) => break,
                };
                let Some(event) = event else { return Ok(None) };
                match self.terminal_event(&event) {
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
        terminal: &mut RawTerminal,
    ) -> Result<End, HostSessionError> {
        let id = self.record.id.as_str();
        host.request("_acpx/watch", &json!({ "sessionId": id, "from": self.next.0, "activity": true }))
            .await?;
        self.set_up(host, None).await?;
        self.app.waiting = None;
        self.submission = Submission::AfterSetup;
        self.stale.pending = true;
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
            self.submit_due(host).await?;
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
                event = terminal.next() => {
                    let Some(event) = event else { return Ok(End::Detached) };
                    if self.handle_input(event, host, terminal).await? {
                        return match self.settle(host).await {
                            Err(HostSessionError::Lost) => Ok(End::Detached),
                            settled => settled,
                        };
                    }
                }
                files = listed(&mut self.files) => self.app.set_files(files),
                _ = frames.tick() => {
                    self.app.tick();
                    self.stale.pending |= self.app.misses_request();
                }
            }
        }
    }

    /// Submits the prompts that the last host has not answered, once this one has the session.
    async fn submit_due(&mut self, host: &HostClient) -> Result<(), HostSessionError> {
        if self.submission == Submission::Due {
            self.submission = Submission::Done;
            for SentPrompt { submission, .. } in &self.prompts {
                let params = submission.params(self.record.id.as_str(), None);
                let request = host.request("session/prompt", &params).await?;
                self.calls.insert(request, Call::Prompt(submission.request.to_string()));
            }
        }
        Ok(())
    }

    /// Waits until the host has every prompt, answer and cancellation, for a while.
    async fn settle(&mut self, host: &mut HostClient) -> Result<End, HostSessionError> {
        let end = Instant::now() + DETACH_WAIT;
        while self.has_unsettled() {
            self.submit_due(host).await?;
            tokio::select! {
                message = host.next() => match message {
                    Some(message) => if let Some(end) = self.message(message)? {
                        return Ok(end);
                    },
                    None => break,
                },
                () = sleep_until(end) => break,
            }
        }
        Ok(End::Detached)
    }

    fn has_unsettled(&self) -> bool {
        self.prompts.iter().any(|prompt| !prompt.is_accepted)
            || self.calls.values().any(|call| matches!(call, Call::Action | Call::Drop(..)))
    }

    /// Asks for the pending requests and the queued prompts if they may have changed.
    async fn request_changes(&mut self, host: &HostClient) -> Result<(), HostSessionError> {
        let session_id = || Some(self.record.id.to_string());
        if std::mem::take(&mut self.stale.pending) {
            let params = PendingParams { session_id: session_id(), ..PendingParams::default() };
            self.calls.insert(host.request("_acpx/pending", &params).await?, Call::Pending);
        }
        if std::mem::take(&mut self.stale.setup) {
            self.set_up(host, None).await?;
        }
        if std::mem::take(&mut self.stale.queue) {
            let params = QueueParams { session_id: session_id(), ..QueueParams::default() };
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
                // The agent of a parked session reports its modes and models only once it runs.
                if !self.has_live_setup && self.app.is_working() && !self.is_catching_up() {
                    self.has_live_setup = true;
                    self.stale.setup = !self.app.choices.is_known();
                }
                for prompt in &mut self.prompts {
                    prompt.has_begun |= self.app.has_begun(prompt.submission.request.as_str());
                    prompt.is_accepted |= prompt.has_begun;
                }
                self.stale.pending |= may_change_requests(&event);
            }
            HostMessage::WatchEnded { error: None, .. } => return Ok(Some(End::Deleted)),
            HostMessage::WatchEnded { error: Some(refusal), .. } | HostMessage::Refused(refusal) => {
                return Err(HostError::Refused(refusal).into());
            }
            HostMessage::Accepted { request, .. } => {
                if let Some(prompt) = self.prompts.iter_mut().find(|prompt| prompt.is(&request)) {
                    prompt.is_accepted = true;
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
                self.stale.queue = queued > 0;
                if queued == 0 {
                    self.app.set_queue(&[]);
                }
            }
            HostMessage::Withdrawn { .. } => self.stale.pending = true,
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
                    self.show_error(error);
                    self.app.notice("the prompt was not sent");
                    if self.app.composer.is_empty() {
                        self.app.composer.set(prompt.text);
                    }
                }
            }
            (Call::Drop(request, text), Ok(reply)) => {
                let dropped = serde_json::from_str::<QueueDropMeta>(&reply).unwrap_or_default().dropped;
                if dropped.contains(request) {
                    self.app.take_back(request, text);
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
            (Call::Setup, Err(error)) => {
                self.app.waiting = None;
                self.show_error(error);
                self.stale.pending = true;
            }
            (Call::Pending | Call::Queue | Call::Drop(..) | Call::Action, Err(error)) => {
                self.app.waiting = None;
                self.app.notice(&error.to_string());
                self.stale.pending = true;
            }
        }
    }

    /// Adds an error of the host and its hint to the conversation: they are too long for the status line.
    fn show_error(&mut self, error: HostErrorResponse) {
        let error = CliError::from(HostError::Refused(error)).with_help_of(&self.record.agent);
        let error = explain_restore(error, self.record, self.settings).about(self.record.identity());
        self.app.transcript.error(&error.message(), error.hint().as_deref());
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

    /// Handles input, and all that was typed after it, before the screen is drawn; whether it was to detach.
    async fn handle_input(
        &mut self,
        mut event: Event,
        host: &HostClient,
        terminal: &mut RawTerminal,
    ) -> Result<bool, HostSessionError> {
        loop {
            if let Some(intent) = self.terminal_event(&event)
                && self.act(intent, host, terminal).await?
            {
                return Ok(true);
            }
            match terminal.typed()? {
                Some(next) => event = next,
                None => return Ok(false),
            }
        }
    }

    /// Does what the user wants; whether that is to detach.
    async fn act(
        &mut self,
        intent: UserIntent,
        host: &HostClient,
        terminal: &mut RawTerminal,
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
            UserIntent::Unqueue(request, text) => {
                // A prompt whose turn has just begun stays.
                let params =
                    QueueDropParams { session_id: id.to_owned(), request_ids: vec![request.clone()] };
                let call = host.request("_acpx/queue/drop", &params).await?;
                self.calls.insert(call, Call::Drop(request, text));
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
            UserIntent::ListFiles => {
                let directory = self.record.cwd.as_path().to_owned();
                self.files.get_or_insert_with(|| spawn_blocking(move || mentionable_files(&directory)));
            }
            UserIntent::ShowConversation => return self.show_conversation(terminal).await,
            UserIntent::Edit => {
                self.screen.clear()?;
                match terminal.edit(self.app.composer.text()) {
                    Ok(Some(text)) => self.app.composer.set(text),
                    Ok(None) => self.app.notice("the editor failed; the prompt is unchanged"),
                    Err(error) => self.app.notice(&format!("cannot edit the prompt: {error}")),
                }
            }
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
        // Even if the host is lost now, the next one gets the prompt.
        self.prompts.push(SentPrompt {
            submission,
            text: text.to_owned(),
            is_accepted: false,
            has_begun: false,
        });
        self.app.waiting = Some("sending".to_owned());
        if let Some(SentPrompt { submission, .. }) =
            self.prompts.last().filter(|_| self.submission == Submission::Done)
        {
            let params = submission.params(self.record.id.as_str(), None);
            let request = host.request("session/prompt", &params).await?;
            self.calls.insert(request, Call::Prompt(submission.request.to_string()));
        }
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

    /// Shows the whole conversation on the alternate screen; whether to detach then.
    async fn show_conversation(&mut self, terminal: &mut RawTerminal) -> Result<bool, HostSessionError> {
        let _screen = AlternateScreen::enter()?;
        let (mut columns, rows) = terminal_size();
        let Some(lines) = self.read_conversation(columns, terminal).await? else { return Ok(false) };
        let mut pager = Pager::new(lines, rows);
        loop {
            pager.draw(&mut screen(), columns, self.has_color)?;
            match terminal.next().await {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if !pager.key(key) {
                        return Ok(false);
                    }
                }
                Some(Event::Resize(new_columns, rows)) => {
                    self.screen.set_size((new_columns, rows));
                    if new_columns != columns {
                        columns = new_columns;
                        match self.read_conversation(columns, terminal).await? {
                            Some(lines) => pager.set_lines(lines),
                            None => return Ok(false),
                        }
                    }
                    pager.resize(rows);
                }
                Some(_) => {}
                None => return Ok(true),
            }
        }
    }

    /// The whole conversation as lines; `None` if a key is pressed before it is read.
    async fn read_conversation(
        &self,
        columns: u16,
        terminal: &mut RawTerminal,
    ) -> Result<Option<Vec<Line<'static>>>, HostSessionError> {
        let width = usize::from(columns);
        let (mut transcript, mut lines) = (ConversationView::whole(), Vec::new());
        let (mut next, mut shown_at) = (Seq::FIRST, Instant::now());
        while next < self.next {
            let page = self.store.events(self.record.id.clone(), next, PAGE).await.map_err(CliError::from)?;
            let Some(last) = page.last() else { break };
            next = last.seq.next();
            page.iter().filter_map(WatchedEvent::of).for_each(|event| transcript.event(&event));
            lines.extend(transcript.take_finished(width));
            if shown_at.elapsed() > FRAME {
                shown_at = Instant::now();
                pager::draw_progress(&mut screen(), next.0 * 100 / self.next.0.max(1))?;
            }
            tokio::select! {
                biased;
                event = terminal.next() => if !matches!(event, Some(Event::Resize(..))) {
                    return Ok(None);
                },
                () = yield_now() => {}
            }
        }
        lines.extend(transcript.live(width, usize::MAX, None));
        Ok(Some(lines))
    }
}

/// The files, once they are listed.
async fn listed(files: &mut Option<JoinHandle<Vec<String>>>) -> Vec<String> {
    let Some(listing) = files else { return pending().await };
    let found = listing.await;
    *files = None;
    found.unwrap_or_default()
}

/// Whether an event may change the pending requests.
fn may_change_requests(event: &WatchedEvent) -> bool {
    let line = event.message.get();
    let names =
        ["session/request_permission", "elicitation/", "permission_asked", "turn_ended", "\"result\""];
    names.iter().any(|name| line.contains(name))
}
