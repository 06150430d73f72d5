//! Options, modes and models of a session. Version 2 has only options: the modes and the models of version 1 become
//! one option each, under ids reserved for acpx. Commands, which differ only in their tags, are translated here too.

use std::borrow::Cow;

use crate::model::MODEL_OPTION;
use crate::wire::json::{RawObject, array, items};

/// The version 2 option that represents the modes of version 1.
pub(crate) const MODE_OPTION: &str = "acpx.mode";

/// Maps the modes or the models of version 1 to an option of version 2.
struct OptionMapping {
    current: &'static str,
    available: &'static str,
    id: &'static str,
    option: &'static str,
    name: &'static str,
    category: &'static str,
}

const MODES: OptionMapping = OptionMapping {
    current: "currentModeId",
    available: "availableModes",
    id: "id",
    option: MODE_OPTION,
    name: "Mode",
    category: "mode",
};

const MODELS: OptionMapping = OptionMapping {
    current: "currentModelId",
    available: "availableModels",
    id: "modelId",
    option: MODEL_OPTION,
    name: "Model",
    category: "model",
};

/// Translates a version 1 option to version 2.
pub(super) fn option_to_v2(option: &str) -> String {
    let Some(mut option) = RawObject::parse(option) else { return option.to_owned() };
    option.rename("id", "configId");
    renamed_groups(&mut option, "group", "groupId");
    option.to_string()
}

/// Translates a version 2 option to version 1; `None` for unknown kinds and for the mode option of acpx.
pub(super) fn option_to_v1(option: &str) -> Option<String> {
    let mut option = RawObject::parse(option)?;
    let is_ours = option.text("configId").as_deref() == Some(MODE_OPTION);
    let is_known = matches!(option.text("type").as_deref(), Some("select" | "boolean"));
    if is_ours || !is_known {
        return None;
    }
    option.rename("configId", "id");
    renamed_groups(&mut option, "groupId", "group");
    Some(option.to_string())
}

fn renamed_groups(option: &mut RawObject<'_>, from: &str, to: &'static str) {
    let Some(choices) = option.get("options").and_then(items) else { return };
    let renamed = choices.into_iter().map(|choice| match RawObject::parse(choice) {
        Some(mut group) if group.get(from).is_some() => {
            group.rename(from, to);
            Cow::Owned(group.to_string())
        }
        _ => Cow::Borrowed(choice),
    });
    let renamed = array(renamed);
    option.set("options", renamed);
}

/// Whether an option selects the mode, in either version.
pub(super) fn is_mode_option(option: &str) -> bool {
    is_option_for(option, MODES.category)
}

/// Whether an option selects the model, in either version.
pub(super) fn is_model_option(option: &str) -> bool {
    is_option_for(option, MODELS.category)
}

fn is_option_for(option: &str, category: &str) -> bool {
    RawObject::parse(option).is_some_and(|option| {
        option.text("category").as_deref() == Some(category) && option.get("type") == Some(r#""select""#)
    })
}

/// The modes of version 1 as a version 2 option.
pub(super) fn modes_to_option(modes: &str) -> Option<String> {
    choice_to_option(modes, &MODES)
}

/// The models of version 1 as a version 2 option.
pub(super) fn models_to_option(models: &str) -> Option<String> {
    choice_to_option(models, &MODELS)
}

fn choice_to_option(state: &str, kind: &OptionMapping) -> Option<String> {
    let mut state = RawObject::parse(state)?;
    let current = state.remove(kind.current)?;
    let available = state.remove(kind.available).unwrap_or(Cow::Borrowed("[]"));
    let choice = |choice: &str| {
        let mut choice = RawObject::parse(choice)?;
        choice.rename(kind.id, "value");
        Some(choice.to_string())
    };
    let choices = array(items(&available)?.into_iter().filter_map(choice));
    let mut option = RawObject::new();
    option.set_text("configId", kind.option);
    option.set_text("name", kind.name);
    option.set_text("category", kind.category);
    option.set_text("type", "select");
    option.set("currentValue", &*current);
    option.set("options", choices);
    if let Some(meta) = state.remove("_meta") {
        option.set("_meta", meta);
    }
    Some(option.to_string())
}

/// The version 2 option that selects the mode, as version 1 modes.
pub(super) fn option_to_modes(option: &str) -> Option<String> {
    let mut option = RawObject::parse(option)?;
    let current = option.remove("currentValue")?;
    let choices = option.remove("options")?;
    let mut modes = Vec::new();
    for choice in items(&choices)? {
        let Some(members) = RawObject::parse(choice) else { continue };
        // Version 1 has no groups of modes, so groups are flattened.
        let grouped = members.get("options").and_then(items);
        for choice in grouped.unwrap_or_else(|| vec![choice]) {
            let Some(mut mode) = RawObject::parse(choice) else { continue };
            mode.rename("value", "id");
            modes.push(mode.to_string());
        }
    }
    let mut state = RawObject::new();
    state.set("currentModeId", &*current);
    state.set("availableModes", array(modes));
    if let Some(meta) = option.remove("_meta") {
        state.set("_meta", meta);
    }
    Some(state.to_string())
}

/// Translates a list of commands to version 2, which tags commands and their inputs.
pub(super) fn commands_to_v2(commands: &str) -> Option<String> {
    let command = |command: &str| {
        let Some(mut command) = RawObject::parse(command) else { return command.to_owned() };
        command.set_text("type", "command");
        if let Some(mut input) = command.get("input").and_then(RawObject::parse) {
            input.set_text("type", "text");
            let input = input.to_string();
            command.set("input", input);
        }
        command.to_string()
    };
    Some(array(items(commands)?.into_iter().map(command)))
}

/// Translates a list of commands to version 1; unknown kinds are left out.
pub(super) fn commands_to_v1(commands: &str) -> Option<String> {
    let command = |command: &str| {
        let mut command = RawObject::parse(command)?;
        if command.remove("type").as_deref() != Some(r#""command""#) {
            return None;
        }
        if let Some(mut input) = command.get("input").and_then(RawObject::parse) {
            let kind = input.remove("type");
            let input = input.to_string();
            if kind.as_deref() == Some(r#""text""#) {
                command.set("input", input);
            } else {
                command.remove("input");
            }
        }
        Some(command.to_string())
    };
    Some(array(items(commands)?.into_iter().filter_map(command)))
}
