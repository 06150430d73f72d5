//! `acpx set-mode` and `acpx set`: change a setting of a session. The agent is started for it, so that its options are
//! known and the change is in effect when the command returns; from then on it is restored with the session.

use acpx_core::engine::SessionError;
use acpx_core::model::{Record, SettingError, SettingValue};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{ForgottenMeta, SettingMeta};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::host_request::{StartedSession, call_host, restore_meta, resume_session};
use crate::cli::{SetAction, SetCommand};
use crate::error::CliError;
use crate::output::{self, Console, SettingChange};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::ResumeParams;

/// The name of the mode, as an option and by itself.
const MODE: &str = "mode";

/// The options in the reply.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigOptionsAnswer {
    config_options: Option<Box<RawValue>>,
}

/// Changes the setting in the selected session.
pub(super) fn run(command: &SetCommand, settings: &CommandSettings) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = RecordLookup::open()?.open_one(settings).await?;
        let value = match &command.change {
            SetAction::Set(value) => value,
            SetAction::Forget => {
                return forget(command.option.as_deref(), &record, settings, &mut console).await;
            }
            SetAction::List => {
                return list(command.option.as_deref(), &record, settings, &mut console).await;
            }
        };
        let mut meta = restore_meta(&record, settings, None);
        meta.start.settings = vec![SettingMeta { option: command.option.clone(), value: value.clone() }];
        let resume = ResumeParams::new(&record, settings, None, meta);
        let StartedSession { identity, meta, reply } =
            resume_session(&resume, &record, settings, &mut console).await?;
        let bad = |_| HostError::BadAnswer { method: "session/resume".to_owned() };
        let ConfigOptionsAnswer { config_options } = serde_json::from_str(&reply).map_err(bad)?;
        // Unreadable options count as none.
        let config_options: Vec<Box<RawValue>> =
            config_options.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
        setup_request::report_applied_settings(resume.wanted(), &reply, &mut console);
        let shown = setup_request::shown(&reply, command.option.as_deref());
        let value = &shown.unwrap_or_else(|| SettingValue::Id(value.as_str().into()));
        let woken = meta.agent.awakening.filter(|how| how.by != "live");
        if let Some(how) = &woken {
            output::awake(how, &mut console);
            output::unmet(&meta.agent.unmet_settings, &mut console);
        }
        let resumed = woken.is_some();
        // If the agent has no option for the mode, the mode itself was set.
        let is_option = |word: &&str| *word != MODE || has_mode(&config_options);
        let option = command.option.as_deref().filter(is_option);
        let chosen =
            SettingChange { identity: &identity, option, value, resumed, config_options: &config_options };
        Ok(output::chosen(&chosen, &mut console)?)
    })
}

/// Lists the values that a setting can have. Starts the agent, which knows them.
async fn list(
    option: Option<&str>,
    record: &Record,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<(), CliError> {
    let resume = ResumeParams::new(record, settings, None, restore_meta(record, settings, None));
    let StartedSession { identity, reply, .. } = resume_session(&resume, record, settings, console).await?;
    let word = option.unwrap_or(MODE);
    let Some(choices) = setup_request::choices(&reply, word) else {
        let (wanted, offered) = (option.map(Into::into), setup_request::option_words(&reply));
        return Err(SessionError::from(SettingError::NotOffered { wanted, offered }).into());
    };
    let current = setup_request::shown(&reply, option).map(|value| value.to_string());
    Ok(output::setting_choices(&identity, word, current.as_deref(), &choices, console)?)
}

/// Drops the stored setting. Starts no agent.
async fn forget(
    option: Option<&str>,
    record: &Record,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<(), CliError> {
    let params = json!({ "sessionId": record.id, "option": option });
    let forgotten: ForgottenMeta = call_host("_acpx/forget", &params, record, settings, console).await?;
    Ok(output::forgotten(option, &forgotten, console)?)
}

/// Whether the mode is among these options, by id or category.
fn has_mode(options: &[Box<RawValue>]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        id: Option<String>,
        category: Option<String>,
    }
    let is_mode = |option: &RawValue| {
        let head = serde_json::from_str::<Head>(option.get()).ok();
        head.is_some_and(|head| [head.id, head.category].iter().flatten().any(|word| word == MODE))
    };
    options.iter().any(|option| is_mode(option))
}
