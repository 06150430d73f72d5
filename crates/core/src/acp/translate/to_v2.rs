//! Translates the updates of a version 1 session for a version 2 client. It remembers the session's options, because
//! version 2 sends all options when one changes, and represents modes as options.

use agent_client_protocol_schema::v2;

use super::options::{
    commands_to_v2, is_mode_option, is_model_option, models_to_option, modes_to_option, option_to_v2,
};
use super::recent::RecentMap;
use super::sanitize::repaired;
use super::tool_content::{begin_again, call_to_v2};
use crate::model::{TurnId, is_another_call};
use crate::wire::json::{RawObject, array, items, string};

/// The id of the plan of version 1, which has only one.
pub(super) const PLAN: &str = "acpx.plan";

/// How many terminals are remembered.
const MAX_TERMINALS: usize = 4096;

/// How many tool calls are remembered.
const MAX_CALLS: usize = 4096;

/// Update kinds that only version 2 defines. A version 1 agent cannot have meant them.
const NOT_OF_V1: [&str; 7] = [
    "user_message",
    "agent_message",
    "agent_thought",
    "state_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
];

/// Translates the updates of one version 1 session. Every output is valid version 2; what version 2 cannot express is
/// left out.
#[derive(Debug, Default)]
pub(crate) struct UpdatesToV2 {
    /// The modes, as a version 2 option.
    modes: Option<Box<str>>,
    /// The models that are separate from the options, as a version 2 option.
    models: Option<Box<str>>,
    /// The other options, in version 2 form.
    options: Vec<Box<str>>,
    /// The terminals sent so far.
    terminals: RecentMap<(), MAX_TERMINALS>,
    /// The tool calls sent so far, each with the turn it began in.
    calls: RecentMap<Option<TurnId>, MAX_CALLS>,
    /// The turn of the updates that follow.
    turn: Option<TurnId>,
    /// Whether the client has received earlier turns that this translator has not seen.
    begins_late: bool,
}

impl UpdatesToV2 {
    /// An empty translator. Each ACP session needs its own, because ids are unique only within a session.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Marks that the client has received earlier turns that this translator has not seen.
    pub(crate) fn begins_late(&mut self) {
        self.begins_late = true;
    }

    /// Sets the turn of the updates that follow.
    pub(crate) fn in_turn(&mut self, turn: Option<TurnId>) {
        self.turn = turn;
    }

    /// The `update` objects that express this one. A chunk without a message id gets `message_id`.
    pub(crate) fn update(&mut self, update: &str, message_id: &str) -> Vec<Box<str>> {
        let translated = self.translated(&repaired(update), message_id);
        let is_readable = |update: &String| serde_json::from_str::<v2::SessionUpdate>(update).is_ok();
        translated.filter(is_readable).map(Into::into).into_iter().collect()
    }

    fn translated(&mut self, update: &str, message_id: &str) -> Option<String> {
        let mut members = RawObject::parse(update)?;
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
                let mut plan = RawObject::new();
                plan.set_text("type", "items");
                plan.set_text("planId", PLAN);
                plan.set("entries", members.remove("entries")?);
                members.set_text("sessionUpdate", "plan_update");
                members.set("plan", plan.to_string());
            }
            "available_commands_update" => {
                let commands = commands_to_v2(members.get("availableCommands")?)?;
                members.set("availableCommands", commands);
            }
            "current_mode_update" => {
                self.set_mode(&string(&members.remove("currentModeId")?)?);
                members.set_text("sessionUpdate", "config_option_update");
                members.set("configOptions", self.config_options());
            }
            "config_option_update" => {
                self.set_options(members.get("configOptions"));
                members.set("configOptions", self.config_options());
            }
            // An absent cost is unchanged in both versions; `null` means that only in version 1.
            "usage_update" => members.remove_nulls(&["cost"]),
            kind if NOT_OF_V1.contains(&kind) => return None,
            _ => return Some(update.to_owned()),
        }
        Some(members.to_string())
    }

    /// Whether a tool call is, or may be, another call than the last one with its id. If it is the first one,
    /// clearing its fields does no harm: the client has nothing of it.
    fn is_another(&mut self, id: &str, is_new: bool) -> bool {
        let began = self.calls.entry(id);
        let is_first = is_new && began.is_none() && self.turn.is_some();
        let is_another = is_another_call(is_new, *began, self.turn) || is_first && self.begins_late;
        if is_another || began.is_none() {
            *began = self.turn;
        }
        is_another
    }

    /// Records that a terminal of acpx was sent: tool calls may refer to it.
    pub(crate) fn note_terminal(&mut self, id: &str) {
        self.terminals.entry(id);
    }

    /// Translates the response to `session/new`, `load`, `resume` or `fork`, and remembers the options in it.
    pub(crate) fn setup_answer(&mut self, result: &str) -> Box<str> {
        let mut members = RawObject::parse(result).unwrap_or_default();
        self.modes = members.remove("modes").as_deref().and_then(modes_to_option).map(Into::into);
        self.models = members.remove("models").as_deref().and_then(models_to_option).map(Into::into);
        self.set_options(members.remove("configOptions").as_deref());
        let options = self.config_options();
        if options != "[]" {
            members.set("configOptions", options);
        }
        members.to_string().into()
    }

    /// Translates the agent's response to `session/set_config_option`.
    pub(crate) fn options_answer(&mut self, result: &str) -> Box<str> {
        let mut members = RawObject::parse(result).unwrap_or_default();
        self.set_options(members.get("configOptions"));
        members.set("configOptions", self.config_options());
        members.to_string().into()
    }

    /// The response after the agent accepted `session/set_mode`: in version 1 that response has no options.
    pub(crate) fn mode_answer(&mut self, mode: &str) -> Box<str> {
        self.set_mode(mode);
        format!(r#"{{"configOptions":{}}}"#, self.config_options()).into()
    }

    /// The response after the agent accepted `session/set_model`.
    pub(crate) fn model_answer(&mut self, model: &str) -> Box<str> {
        if let Some(changed) = self.models.as_deref().and_then(|option| with_value(option, model)) {
            self.models = Some(changed);
        }
        format!(r#"{{"configOptions":{}}}"#, self.config_options()).into()
    }

    /// Whether the session has version 1 modes.
    pub(crate) fn has_modes(&self) -> bool {
        self.modes.is_some()
    }

    /// All options of the session, as a version 2 list.
    pub(crate) fn config_options(&self) -> String {
        let has = |is_own: fn(&str) -> bool| self.options.iter().any(|option| is_own(option));
        let mode = self.modes.as_ref().filter(|_| !has(is_mode_option));
        let model = self.models.as_ref().filter(|_| !has(is_model_option));
        array(mode.into_iter().chain(model).chain(&self.options))
    }

    fn set_options(&mut self, options: Option<&str>) {
        let options = options.and_then(items).unwrap_or_default();
        self.options = options.into_iter().map(|option| option_to_v2(option).into()).collect();
    }

    /// Sets the mode, also in an option of the agent's own that selects it. If the modes are unknown, this mode
    /// becomes the only choice.
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
    let mut option = RawObject::parse(option)?;
    option.set_text("currentValue", value);
    Some(option.to_string().into())
}
