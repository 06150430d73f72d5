//! `--skill`: how a program offers its skills to agents. The flag works anywhere before `--` and takes the place of a
//! command, as the skillflag convention has it.

use super::usage::UsageError;

/// What to do with the program's skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SkillAction {
    /// List them.
    List {
        /// As JSON.
        json: bool,
    },
    /// Print the text of one.
    Show(String),
    /// Write one as a tar archive to stdout.
    Export(String),
    /// Print what there is to do.
    Help,
}

impl SkillAction {
    /// Reads the action, if the arguments have `--skill`.
    pub(super) fn read(arguments: &[String]) -> Option<Result<Self, UsageError>> {
        let flags = arguments.iter().take_while(|argument| *argument != "--");
        let index = flags.clone().position(|argument| argument == "--skill")?;
        let rest: Vec<&str> = flags.skip(index + 1).map(String::as_str).collect();
        Some(Self::of(&rest))
    }

    fn of(rest: &[&str]) -> Result<Self, UsageError> {
        let mistake = |problem: String| Err(UsageError::Skill { problem });
        let id = || rest.get(1).filter(|id| !id.starts_with('-')).map(|id| (*id).to_owned());
        match rest.first().copied() {
            None => mistake("--skill needs an action".to_owned()),
            Some("list") => Ok(Self::List { json: rest.contains(&"--json") }),
            Some("help") => Ok(Self::Help),
            Some("install") => mistake("acpx installs no skills itself".to_owned()),
            Some(action @ ("show" | "export")) => match id() {
                Some(id) if action == "show" => Ok(Self::Show(id)),
                Some(id) => Ok(Self::Export(id)),
                None => mistake(format!("--skill {action} needs the id of a skill")),
            },
            Some(action) => mistake(format!("--skill has no action {action:?}")),
        }
    }
}
