//! The settings with their origins, for `acpx config`, and the project files that are trusted, for `acpx trust`.
//!
//! In a pipe the settings are the JSON of npm acpx, with `origins` added; on a terminal they are a table. Names and
//! values come from a file whose author may be anyone, so each is written on one line.

use std::io::{self, Write};
use std::path::Path;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::sanitize::on_one_line;
use super::style::Style;
use super::table::{Align, Cell, Column, Fit, Table};
use super::{Console, columns, json_line};
use crate::cli::Format;
use crate::config::layers::ConfigOrigin;

/// The columns of a forced terminal layout in a pipe.
const USUAL_COLUMNS: usize = 80;

/// One setting: a key, or an agent as `agents.NAME`, or a credential as `authMethods.ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownSetting {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: ConfigOrigin,
    /// The flag, the variable or the file that it comes from.
    pub(crate) source: String,
}

/// What `acpx config` shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ShownConfig {
    pub(crate) settings: Vec<ShownSetting>,
    /// Whether the files of `paths.global` and `paths.project` are loaded.
    pub(crate) loaded: [(&'static str, bool); 2],
    /// Keys of the project's file that are not in force.
    pub(crate) withheld: Vec<String>,
}

impl Serialize for ShownConfig {
    /// One object: a group such as `agents` is a member, in the place of its first key.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members: Vec<(&str, Value)> = Vec::new();
        for ShownSetting { key, value, .. } in &self.settings {
            let (group, name) = key.split_once('.').map_or((key.as_str(), None), |(g, n)| (g, Some(n)));
            let place = members.iter_mut().find(|(known, _)| *known == group);
            match (place, name) {
                (Some((_, Value::Array(ids))), Some(id)) => ids.push(id.into()),
                (Some((_, Value::Object(group))), Some(name)) => {
                    drop(group.insert(name.to_owned(), value.clone()));
                }
                (_, None) => members.push((group, value.clone())),
                (_, Some(name)) => {
                    members.push((group, Map::from_iter([(name.to_owned(), value.clone())]).into()));
                }
            }
        }
        let origins: Map<String, Value> = self
            .settings
            .iter()
            .filter(|setting| !setting.is_empty_group())
            .map(|setting| (setting.key.clone(), setting.origin.as_str().into()))
            .collect();
        let mut map = serializer.serialize_map(None)?;
        members.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.serialize_entry(
            "loaded",
            &Map::from_iter(self.loaded.map(|(key, is)| (key.to_owned(), is.into()))),
        )?;
        if !self.withheld.is_empty() {
            map.serialize_entry("withheld", &self.withheld)?;
        }
        map.serialize_entry("origins", &origins)?;
        map.end()
    }
}

impl ShownSetting {
    /// Whether it only opens a group of which more settings are members.
    fn is_empty_group(&self) -> bool {
        ["agents", "authMethods"].contains(&self.key.as_str())
    }

    fn row(&self, config: &ShownConfig) -> [Cell; 3] {
        let text = match &self.value {
            _ if self.key.starts_with("authMethods.") => "(not shown)".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let is_missing = |(name, is_loaded): &(&str, bool)| !is_loaded && self.key == format!("paths.{name}");
        let is_missing = config.loaded.iter().any(is_missing);
        let text = if is_missing { format!("{text} (not there)") } else { text };
        let style = if self.origin == ConfigOrigin::BuiltIn { Style::Dim } else { Style::Plain };
        [(&self.key, Style::Accent), (&text, Style::Plain), (&self.source, style)]
            .map(|(text, style)| Cell { text: on_one_line(text), style })
    }
}

/// Writes the settings: a table for a person, or else JSON as npm acpx writes it.
pub(crate) fn config(config: &ShownConfig, console: &mut Console<'_>) -> io::Result<()> {
    if console.mode.is_text_on_terminal() {
        let column = |title, fit| Column { title, fit, align: Align::Left, rank: 0 };
        let columns_of = [
            column("KEY", Fit::CutEnd(16)),
            column("VALUE", Fit::CutMiddle(12)),
            column("FROM", Fit::CutMiddle(12)),
        ];
        let shown = config.settings.iter().filter(|setting| !setting.is_empty_group());
        let table = Table { columns: columns_of, rows: shown.map(|setting| setting.row(config)).collect() };
        table.write(columns().unwrap_or(USUAL_COLUMNS), &mut console.out)?;
        return console.flush();
    }
    match console.mode.format {
        Format::Json => json_line(config, &mut console.out)?,
        Format::Text | Format::Quiet => {
            serde_json::to_writer_pretty(&mut console.out, config)?;
            writeln!(console.out)?;
        }
    }
    console.flush()
}

#[derive(serde::Serialize)]
struct ConfigInitObject<'a> {
    path: &'a Path,
    created: bool,
}

/// Writes whether `config.json` was created, as npm acpx does.
pub(crate) fn config_created(path: &Path, created: bool, console: &mut Console<'_>) -> io::Result<()> {
    let shown = path.display();
    match console.mode.format {
        Format::Json => json_line(&ConfigInitObject { path, created }, &mut console.out)?,
        Format::Quiet => writeln!(console.out, "{shown}")?,
        Format::Text if created => writeln!(console.out, "Created {shown}")?,
        Format::Text => writeln!(console.out, "Config already exists: {shown}")?,
    }
    console.flush()
}
