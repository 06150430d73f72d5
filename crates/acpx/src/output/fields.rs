//! Named values for a terminal: one line for each, with the names in a column of their own.

use std::io;

use acpx_core::model::SessionUsage;

use super::sanitize::on_one_line;
use super::style::{Style, StyledWriter};
use super::turn::{cost, percent, thousands};

/// Values in the order of their lines.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Adds a value, unless there is none.
    pub(super) fn add(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        let value = value.map(|value| on_one_line(&value.to_string())).filter(|value| value != "-");
        self.0.extend(value.map(|value| (on_one_line(&name.into()), value)));
    }

    /// Adds what a session has used.
    pub(super) fn add_usage(&mut self, usage: Option<&SessionUsage>) {
        let Some(usage) = usage else { return };
        let (used, size) = (thousands(usage.used), thousands(usage.size));
        self.add("context", Some(format!("{} % ({used} of {size} tokens)", percent(usage))));
        self.add("cost", usage.cost.as_ref().map(cost));
    }

    /// Writes the lines.
    pub(super) fn write(&self, out: &mut StyledWriter<'_>) -> io::Result<()> {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.0.iter().try_for_each(|(name, value)| {
            out.styled(Style::Dim, &format!("{name:<width$}  "))?;
            out.styled(Style::Plain, &format!("{value}\n"))
        })
    }
}
