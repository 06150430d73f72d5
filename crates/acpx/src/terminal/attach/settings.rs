//! The modes and models that a session offers, read from its setup and from later updates.

use acpx_core::protocol::WatchedEvent;
use serde_json::Value;

use super::menu::{Choice, Menu};
use crate::output::on_one_line;

/// What can be chosen, and what is chosen.
#[derive(Debug, Default)]
pub(crate) struct SessionChoices {
    modes: Vec<Choice>,
    mode: Option<String>,
    options: Vec<ConfigOption>,
}

#[derive(Debug)]
struct ConfigOption {
    id: String,
    category: String,
    current: String,
    choices: Vec<Choice>,
}

impl SessionChoices {
    /// Reads the reply to `session/new` or `session/resume`.
    pub(crate) fn setup(&mut self, reply: &str) {
        let reply: Value = serde_json::from_str(reply).unwrap_or_default();
        if let Some(modes) = reply.get("modes") {
            self.modes = choices(modes.get("availableModes"), "id");
            self.mode = text(modes, "currentModeId");
        }
        self.config_options(reply.get("configOptions"));
    }

    /// Reads an update, if it changes a setting.
    pub(super) fn event(&mut self, event: &WatchedEvent) {
        let line = event.message.get();
        if !line.contains("current_mode_update") && !line.contains("config_option") {
            return;
        }
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let Some(update) = line.pointer("/params/update") else { return };
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("current_mode_update") => self.mode = text(update, "currentModeId").or(self.mode.take()),
            Some("config_option_update" | "config_options_update") => {
                self.config_options(update.get("configOptions"));
            }
            _ => {}
        }
    }

    /// Whether the agent has offered something.
    pub(crate) fn is_known(&self) -> bool {
        !self.modes.is_empty() || !self.options.is_empty()
    }

    /// A menu of the modes.
    pub(super) fn mode_menu(&self) -> Option<Menu> {
        let modes = Some(&self.modes).filter(|modes| !modes.is_empty());
        modes.map(|modes| Menu::new("Mode", modes.clone(), self.mode.as_deref()))
    }

    /// A menu of the models, with the option that it sets.
    pub(super) fn model_menu(&self) -> Option<(String, Menu)> {
        let option = self.model()?;
        Some((option.id.clone(), Menu::new("Model", option.choices.clone(), Some(&option.current))))
    }

    /// The name of the mode.
    pub(super) fn mode_label(&self) -> Option<String> {
        label(&self.modes, self.mode.as_deref()?)
    }

    /// The name of the model.
    pub(super) fn model_label(&self) -> Option<String> {
        let option = self.model()?;
        label(&option.choices, &option.current)
    }

    fn model(&self) -> Option<&ConfigOption> {
        let is_model = |option: &&ConfigOption| option.id == "model" || option.category == "model";
        self.options.iter().find(is_model).filter(|option| !option.choices.is_empty())
    }

    fn config_options(&mut self, options: Option<&Value>) {
        let Some(options) = options.and_then(Value::as_array) else { return };
        let option = |option: &Value| {
            Some(ConfigOption {
                id: text(option, "id")?,
                category: text(option, "category").unwrap_or_default(),
                current: text(option, "currentValue").unwrap_or_default(),
                choices: choices(option.get("options"), "value"),
            })
        };
        self.options = options.iter().filter_map(option).collect();
        // Some agents have the mode as an option only.
        if let Some(mode) =
            self.options.iter().find(|option| option.id == "mode" || option.category == "mode")
        {
            self.mode = Some(mode.current.clone());
            if self.modes.is_empty() {
                self.modes.clone_from(&mode.choices);
            }
        }
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The values of a list; a list may have groups.
fn choices(list: Option<&Value>, id: &str) -> Vec<Choice> {
    let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter()
        .flat_map(|item| {
            if let Some(group) = item.get("options") {
                choices(Some(group), id)
            } else {
                let choice = text(item, id).map(|value| Choice {
                    label: on_one_line(&text(item, "name").unwrap_or_else(|| value.clone())),
                    about: on_one_line(&text(item, "description").unwrap_or_default()),
                    value,
                });
                choice.into_iter().collect()
            }
        })
        .collect()
}

fn label(choices: &[Choice], value: &str) -> Option<String> {
    let known = choices.iter().find(|choice| choice.value == value);
    known
        .map(|choice| choice.label.clone())
        .or_else(|| Some(value.to_owned()))
        .filter(|text| !text.is_empty())
}
