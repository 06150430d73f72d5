//! `acpx complete`: prints what the word at the cursor can become, for the scripts of `acpx completions`. It starts
//! nothing and writes nothing; what it cannot read is not offered.
//!
//! A line has a value and, after a tab, a description. A line `:files` asks the shell for file names. Shells insert the
//! values into a command line, so only values without a character that any shell interprets are printed. Names and
//! titles of sessions are not trusted: a session with another name is offered by its id.

use std::collections::BTreeSet;
use std::io;

use acpx_core::host::title;
use acpx_core::model::{Choices, Lifecycle, OfferedSetting, Record, SettingName};
use acpx_core::store::{RecordFilter, SqliteStore, Store};

use crate::agents;
use crate::cli::{
    AgentChoice, Candidate, CliOptions, CompleteArgs, CompletionKind, CompletionRequest, SessionArgs,
    complete,
};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{self, Printer};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, ScopeDirectories, SessionFilter};
use crate::session::settings::{CommandSettings, LazyConfig};

/// How many sessions are offered, those used last.
const SESSIONS: usize = 50;
/// How long a description is at most.
const LONGEST: usize = 60;
/// The line that asks the shell for file names.
const FILES: &str = ":files";

/// Prints the candidates.
pub(super) fn run(args: &CompleteArgs, config: &LazyConfig) -> Result<(), CliError> {
    let request = complete(&args.words);
    let mut lines = BTreeSet::new();
    let mut text = String::new();
    for candidate in candidates(&request, config) {
        let Candidate { value, description } = candidate;
        let is_offered = value == FILES || value.starts_with(&request.typed) && is_plain(&value);
        if !is_offered || !lines.insert(value.clone()) {
            continue;
        }
        let flag = if value == FILES { "" } else { &request.flag };
        let description = described(&description);
        let tab = if description.is_empty() { "" } else { "\t" };
        text.extend([flag, &value, tab, &description, "\n"]);
    }
    print(&text)
}

fn print(text: &str) -> Result<(), CliError> {
    let printed: io::Result<()> = Printer::stdout().part(text);
    Ok(printed?)
}

/// Whether no shell interprets a character of a value, wherever it stands in a word.
fn is_plain(value: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._@:/+=,-".contains(character);
    !value.is_empty() && value.chars().all(is_plain)
}

/// A description on one line, without control characters.
fn described(text: &str) -> String {
    let line = output::on_one_line(text);
    output::cut_end(line.trim(), LONGEST)
}

fn candidates(request: &CompletionRequest, config: &LazyConfig) -> Vec<Candidate> {
    let mut found = Vec::new();
    for kind in &request.kinds {
        match kind {
            CompletionKind::Words(words) => found.extend(words.iter().cloned()),
            CompletionKind::File => found.push(candidate(FILES, "")),
            CompletionKind::Schema => {
                found.extend(output::schema_names().iter().map(|name| candidate(name, "")));
            }
            CompletionKind::Agent => found.extend(agent_names(config)),
            CompletionKind::Session => found.extend(sessions(request, config)),
            CompletionKind::Option => found.extend(offered(request, config).iter().filter_map(option)),
            CompletionKind::Value(option) => {
                let offered = offered(request, config);
                let setting = offered.iter().find(|setting| is_option(setting, option.as_deref()));
                found.extend(setting.into_iter().flat_map(values));
            }
        }
    }
    found
}

fn candidate(value: impl Into<String>, description: impl Into<String>) -> Candidate {
    Candidate { value: value.into(), description: description.into() }
}

/// The agents: those of the configuration, and the built-in ones.
fn agent_names(config: &LazyConfig) -> Vec<Candidate> {
    let configured = config.get().map(Config::configured_agents).unwrap_or_default();
    let configured = configured.into_iter().map(|agent| candidate(agent.name, "configured agent"));
    let built_in = agents::built_in_names().map(|name| {
        candidate(name, agents::about(name).map_or_else(|| "agent".to_owned(), ToString::to_string))
    });
    configured.chain(built_in).collect()
}

/// The settings of the line, or `None` if they cannot be read.
fn settings(request: &CompletionRequest, config: &LazyConfig) -> Option<CommandSettings> {
    let agent = request.agent.clone().map_or(AgentChoice::Default, AgentChoice::Named);
    let session = request.session.as_deref().and_then(|name| acpx_core::model::SessionName::new(name).ok());
    let flags = SessionArgs { cwd: request.cwd.clone(), ..SessionArgs::default() };
    config.without_start(&CliOptions { agent, session, flags }).ok()
}

/// The sessions used last, with the agent of the line.
fn sessions(request: &CompletionRequest, config: &LazyConfig) -> Vec<Candidate> {
    let Some(settings) = settings(request, config) else { return Vec::new() };
    let found = block_on(async {
        let lookup = RecordLookup::as_it_is()?;
        let Some(store) = lookup.store() else { return Ok(Vec::new()) };
        let agent = request.agent.as_ref().map(|_| settings.agent.key());
        let records = store.records(RecordFilter { agent, real_cwd: None }, None, SESSIONS).await?;
        let here = ScopeDirectories::from(settings.cwd.as_path())?.directories()?;
        let mut found = Vec::new();
        for record in &records {
            let is_here = here.contains(&record.real_cwd);
            found.push(session(store, record, is_here).await?);
        }
        if !found.is_empty() {
            found.push(candidate("@last", "the open session used last"));
        }
        lookup.leave();
        Ok(found)
    });
    found.unwrap_or_default()
}

/// A session, by its name where that selects it, and otherwise by the beginning of its id.
async fn session(store: &SqliteStore, record: &Record, is_here: bool) -> Result<Candidate, CliError> {
    let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref());
    let is_open = record.lifecycle == Lifecycle::Open;
    let name = name.map(ToString::to_string);
    let shown = match (&name, title(store, record).await?) {
        (Some(name), _) if !(is_here && is_open && is_plain(name)) => name.clone(),
        (_, Some(title)) => title,
        _ => record.cwd.to_string(),
    };
    let closed = if is_open { "" } else { ", closed" };
    let description = format!("{}{closed}: {shown}", record.agent.label());
    let value = match name.filter(|name| is_here && is_open && is_plain(name)) {
        Some(name) => name,
        None => store.short_ids(vec![record.id.clone()]).await?.pop().unwrap_or_default(),
    };
    Ok(candidate(value, description))
}

/// The settings that the selected session's agent offered last.
fn offered(request: &CompletionRequest, config: &LazyConfig) -> Vec<OfferedSetting> {
    let Some(settings) = settings(request, config) else { return Vec::new() };
    let found = block_on(async {
        let lookup = RecordLookup::as_it_is()?;
        let record = lookup.selected(&settings, SessionFilter::Open).await?;
        lookup.leave();
        Ok(record.map(|record| record.settings.reported.0).unwrap_or_default())
    });
    found.unwrap_or_default()
}

/// An option by its category where `set` accepts it, or by its id.
fn option(setting: &OfferedSetting) -> Option<Candidate> {
    let name = match (&setting.category, &setting.name) {
        (Some(category), _) => category,
        (None, SettingName::Option(id)) => id,
        (None, SettingName::Mode) => return None,
    };
    Some(candidate(&**name, "option of the session"))
}

fn is_option(setting: &OfferedSetting, typed: Option<&str>) -> bool {
    let is_mode = setting.name == SettingName::Mode || setting.category.as_deref() == Some("mode");
    match typed {
        None | Some("mode") => is_mode,
        Some(typed) => {
            let is_id = matches!(&setting.name, SettingName::Option(id) if **id == *typed);
            is_id || setting.category.as_deref() == Some(typed)
        }
    }
}

fn values(setting: &OfferedSetting) -> Vec<Candidate> {
    match &setting.choices {
        Choices::Of(values) => values.iter().map(|value| candidate(&**value, "")).collect(),
        Choices::Flag => ["true", "false"].map(|value| candidate(value, "")).into(),
        Choices::Unknown => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_that_a_shell_would_interpret_is_not_plain() {
        for plain in ["api", "@last", "019a5f3c", "gpt-5.2/high", "a:b", "x=1"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in [
            "",
            "a b",
            "$(id)",
            "`id`",
            "a;b",
            "~",
            "*",
            "a'b",
            "ü",
            "a\nb",
            "\u{1b}[2J",
            "!1",
            "{a,b}",
            "a#b",
        ] {
            assert!(!is_plain(other), "{other:?}");
        }
        assert_eq!(described("two\nlines \u{1b}[31mred\t!"), "two lines [31mred !");
    }
}
