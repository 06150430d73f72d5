//! What an agent of version 1 says of one session, for a client of version 2. It remembers what the session
//! offers, since version 2 tells all options whenever one of them changes, and modes are options there.

use agent_client_protocol_schema::v2;

use super::members::{ObjectMembers, items, list, text};
use super::options::{
    commands_to_v2, is_mode_option, is_model_option, models_to_option, modes_to_option, option_to_v2,
};
use super::recent::RecentMap;
use super::repaired::repaired;
use super::tool_content::{begin_again, call_to_v2};
use crate::model::{TurnId, is_another_call};

/// The plan of version 1, which has no more than one.
pub(super) const PLAN: &str = "acpx.plan";

/// How many terminals are remembered.
const MAX_TERMINALS: usize = 4096;

/// How many tool calls are remembered.
const MAX_CALLS: usize = 4096;

/// Kinds of update that version 2 gave a meaning which an agent of version 1 cannot have meant.
const NOT_OF_V1: [&str; 7] = [
    "user_message",
    "agent_message",
    "agent_thought",
    "state_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
];

/// Translates what an agent of version 1 says of one session. What comes out can be read as version 2; what
/// cannot be said there so that it can is left out.
#[derive(Debug)]
pub struct UpdatesToV2 {
    /// The modes, as an option of version 2.
    modes: Option<Box<str>>,
    /// The models beside the options, as an option of version 2.
    models: Option<Box<str>>,
    /// The other options, of version 2.
    options: Vec<Box<str>>,
    /// The terminals that were told.
    terminals: RecentMap<()>,
    /// The tool calls that were told, each with the turn it began in.
    calls: RecentMap<Option<TurnId>>,
    /// The turn that what is told now belongs to.
    turn: Option<TurnId>,
    /// Whether turns were told before that nothing is known of.
    begins_late: bool,
}

impl Default for UpdatesToV2 {
    fn default() -> Self {
        let (terminals, calls) = (RecentMap::new(MAX_TERMINALS), RecentMap::new(MAX_CALLS));
        let options = Vec::new();
        Self { modes: None, models: None, options, terminals, calls, turn: None, begins_late: false }
    }
}

impl UpdatesToV2 {
    /// Nothing is known of the session yet. Each ACP session has one of its own: the ids of another are others.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns were told before, of which nothing is known: what is told begins with another one.
    pub fn begins_late(&mut self) {
        self.begins_late = true;
    }

    /// What is told from now on belongs to this turn.
    pub fn in_turn(&mut self, turn: Option<TurnId>) {
        self.turn = turn;
    }

    /// The `update` objects that say what this one says. A chunk that has no message id gets this one.
    pub fn update(&mut self, update: &str, message_id: &str) -> Vec<Box<str>> {
        let translated = self.translated(&repaired(update), message_id);
        let is_readable = |update: &String| serde_json::from_str::<v2::SessionUpdate>(update).is_ok();
        translated.filter(is_readable).map(Into::into).into_iter().collect()
    }

    fn translated(&mut self, update: &str, message_id: &str) -> Option<String> {
        let mut members = ObjectMembers::parse(update)?;
        let kind = members.text("sessionUpdate")?;
        match &*kind {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                if members.text("messageId").is_none() {
                    members.set_text("messageId", message_id);
                }
            }
            "tool_call" | "tool_call_update" => {
                members.set_text("sessionUpdate", "tool_call_update");
                call_to_v2(&mut members, |id| self.terminals.contains(id));
                if self.is_another(&members.text("toolCallId")?, &*kind == "tool_call") {
                    begin_again(&mut members);
                }
            }
            "plan" => {
                let mut plan = ObjectMembers::new();
                plan.set_text("type", "items");
                plan.set_text("planId", PLAN);
                plan.set("entries", members.take("entries")?);
                members.set_text("sessionUpdate", "plan_update");
                members.set("plan", plan.to_string());
            }
            "available_commands_update" => {
                let commands = commands_to_v2(members.get("availableCommands")?)?;
                members.set("availableCommands", commands);
            }
            "current_mode_update" => {
                self.set_mode(&text(&members.take("currentModeId")?)?);
                members.set_text("sessionUpdate", "config_option_update");
                members.set("configOptions", self.config_options());
            }
            "config_option_update" => {
                self.set_options(members.get("configOptions"));
                members.set("configOptions", self.config_options());
            }
            // Absent is unchanged in both; `null` means that in version 1 alone.
            "usage_update" => members.forget_nulls(&["cost"]),
            kind if NOT_OF_V1.contains(&kind) => return None,
            _ => return Some(update.to_owned()),
        }
        Some(members.to_string())
    }

    /// Whether a tool call is another one than the call that was told under its id before, or may be. One that is not
    /// loses nothing by it: nothing was told of it.
    fn is_another(&mut self, id: &str, is_new: bool) -> bool {
        let began = self.calls.entry(id);
        let is_first = is_new && began.is_none() && self.turn.is_some();
        let is_another = is_another_call(is_new, *began, self.turn) || is_first && self.begins_late;
        if is_another || began.is_none() {
            *began = self.turn;
        }
        is_another
    }

    /// A terminal of ours was told: tool calls that refer to it may name it.
    pub fn told_terminal(&mut self, id: &str) {
        self.terminals.entry(id);
    }

    /// The answer to `session/new`, `load`, `resume` or `fork`. What it offers is remembered.
    pub fn setup_answer(&mut self, result: &str) -> Box<str> {
        let mut members = ObjectMembers::parse(result).unwrap_or_default();
        self.modes = members.take("modes").as_deref().and_then(modes_to_option).map(Into::into);
        self.models = members.take("models").as_deref().and_then(models_to_option).map(Into::into);
        self.set_options(members.take("configOptions").as_deref());
        let options = self.config_options();
        if options != "[]" {
            members.set("configOptions", options);
        }
        members.to_string().into()
    }

    /// The answer to a client that set an option, from the agent's answer to `session/set_config_option`.
    pub fn options_answer(&mut self, result: &str) -> Box<str> {
        let mut members = ObjectMembers::parse(result).unwrap_or_default();
        self.set_options(members.get("configOptions"));
        members.set("configOptions", self.config_options());
        members.to_string().into()
    }

    /// The same, after the agent has taken `session/set_mode`: version 1 answers nothing there.
    pub fn mode_answer(&mut self, mode: &str) -> Box<str> {
        self.set_mode(mode);
        format!(r#"{{"configOptions":{}}}"#, self.config_options()).into()
    }

    /// The same, after the agent has taken `session/set_model`.
    pub fn model_answer(&mut self, model: &str) -> Box<str> {
        if let Some(changed) = self.models.as_deref().and_then(|option| with_value(option, model)) {
            self.models = Some(changed);
        }
        format!(r#"{{"configOptions":{}}}"#, self.config_options()).into()
    }

    /// Whether the session has modes of version 1.
    pub fn has_modes(&self) -> bool {
        self.modes.is_some()
    }

    /// What the session offers, as the list of version 2.
    pub fn config_options(&self) -> String {
        let has = |is_own: fn(&str) -> bool| self.options.iter().any(|option| is_own(option));
        let mode = self.modes.as_ref().filter(|_| !has(is_mode_option));
        let model = self.models.as_ref().filter(|_| !has(is_model_option));
        list(mode.into_iter().chain(model).chain(&self.options))
    }

    fn set_options(&mut self, options: Option<&str>) {
        let options = options.and_then(items).unwrap_or_default();
        self.options = options.into_iter().map(|option| option_to_v2(option).into()).collect();
    }

    /// An agent that has an option of its own for its modes means that one. Modes that were never told are a
    /// choice of one.
    fn set_mode(&mut self, mode: &str) {
        let unknown = || {
            let mode = crate::wire::encode::json_string(mode);
            let modes =
                format!(r#"{{"currentModeId":{mode},"availableModes":[{{"id":{mode},"name":{mode}}}]}}"#);
            modes_to_option(&modes).map(Into::into)
        };
        self.modes = self.modes.as_deref().and_then(|option| with_value(option, mode)).or_else(unknown);
        for option in &mut self.options {
            if is_mode_option(option)
                && let Some(changed) = with_value(option, mode)
            {
                *option = changed;
            }
        }
    }
}

fn with_value(option: &str, value: &str) -> Option<Box<str>> {
    let mut option = ObjectMembers::parse(option)?;
    option.set_text("currentValue", value);
    Some(option.to_string().into())
}
