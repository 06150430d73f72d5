//! Which events are written: a level for the events of acpx, and levels of single modules.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// The targets of the program and of the library begin with this. Those of other libraries do not.
const OURS: &str = "acpx";

/// A filter, and the part of its text that could not be read.
pub(crate) struct LogFilter {
    pub(super) targets: Targets,
    pub(super) problem: Option<String>,
}

impl LogFilter {
    /// Reads a list such as `debug` or `info,acpx_core::host=debug`. A level alone is that of acpx, `info` by default;
    /// other libraries log only if the list names them. An unreadable part is left out.
    pub(crate) fn parse(text: &str) -> Self {
        let (mut targets, mut problem) = (Targets::new(), None);
        let mut level = LevelFilter::INFO;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (target, word) =
                part.split_once('=').map_or((None, part), |(target, word)| (Some(target), word));
            match (target, word.parse()) {
                (None, Ok(own)) => level = own,
                (Some(target), Ok(of_target)) if !target.is_empty() => {
                    targets = targets.with_target(target, of_target);
                }
                _ => problem = problem.or_else(|| Some(part.to_owned())),
            }
        }
        // The longest matching target wins, so a module's own level goes before this one.
        Self { targets: targets.with_target(OURS, level), problem }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn log_filter_has_levels_of_acpx_and_of_modules() {
        let enabled = |text: &str| {
            let LogFilter { targets, problem } = LogFilter::parse(text);
            let seen = [
                ("acpx::commands", Level::INFO),
                ("acpx_core::engine", Level::DEBUG),
                ("acpx_core::host::process", Level::DEBUG),
                ("hyper::proto", Level::ERROR),
            ];
            (seen.map(|(target, level)| targets.would_enable(target, &level)), problem)
        };
        assert_eq!(enabled(""), ([true, false, false, false], None));
        assert_eq!(enabled("debug"), ([true, true, true, false], None));
        assert_eq!(enabled(" WARN "), ([false, false, false, false], None));
        assert_eq!(enabled("acpx_core::host=debug"), ([true, false, true, false], None));
        assert_eq!(enabled("off,hyper=trace,acpx_core::host=debug"), ([false, false, true, true], None));
        for wrong in ["verbose", "hyper=loud", "=debug"] {
            assert_eq!(enabled(wrong), ([true, false, false, false], Some(wrong.to_owned())));
            let both = format!("{wrong},debug");
            assert_eq!(enabled(&both), ([true, true, true, false], Some(wrong.to_owned())));
        }
    }
}
