//! `acpx set-mode` and `acpx set`: change a setting of a session. The agent is started for it, so that its options are
//! known and the change is in effect when the command returns; from then on it is restored with the session.

use std::process::ExitCode;

use acpx_core::model::{Record, SettingValue};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{ForgottenMeta, RestoreMeta, SettingMeta, StartMeta};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::agents;
use crate::cli::SetCommand;
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, SettingChange};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::interrupt::InterruptWatcher;
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
pub(super) fn run(command: &SetCommand, settings: &CommandSettings) -> Result<ExitCode, CliError> {
    let reach = HostLocator::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = RecordLookup::open()?.open_one(settings).await?;
        let Some(value) = &command.value else {
            return forget(command.option.as_deref(), &record, settings, &reach, &mut console).await;
        };
        let is_with_it = record.agent.key() == settings.agent.key();
        let start = settings.start(&record.agent, settings.ttl, None);
        let chosen = SettingMeta { option: command.option.clone(), value: value.clone() };
        let meta = RestoreMeta {
            agent: is_with_it.then(|| (&settings.agent).into()),
            start: StartMeta { settings: vec![chosen], ..start },
            ..RestoreMeta::default()
        };
        let resume = ResumeParams::new(&record, settings, None, meta);
        let mut talk = HostSession::new(&mut console, InterruptWatcher::new(settings.timeout)?, Some(&reach));
        let asked = talk.persist(async |talk| {
            let mut client = talk.host(&reach).await?;
            talk.start(
                &mut client,
                "session/resume",
                &resume,
                &record.agent.label(),
                Some(record.id.as_str()),
            )
            .await
        });
        let answer = asked
            .await
            .map_err(|error| error.with_login_of(&agents::typed(&record.agent)).about(record.identity()))?;
        let bad = || HostError::BadAnswer { method: "session/resume".to_owned() };
        let (identity, meta) = setup_request::read(&answer).ok_or_else(bad)?;
        let ConfigOptionsAnswer { config_options } = serde_json::from_str(&answer).map_err(|_| bad())?;
        // Unreadable options count as none.
        let config_options: Vec<Box<RawValue>> =
            config_options.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
        setup_request::say_what_is_shown(resume.wanted(), &answer, &mut console);
        let shown = setup_request::shown(&answer, command.option.as_deref());
        let value = &shown.unwrap_or_else(|| SettingValue::Id(value.as_str().into()));
        let woken = meta.awakening.filter(|how| how.by != "live");
        if let Some(how) = &woken {
            output::awake(how, &mut console);
            output::unmet(&meta.unmet_settings, &mut console);
        }
        let resumed = woken.is_some();
        // If the agent has no option for the mode, the mode itself was set.
        let is_option = |word: &&str| *word != MODE || has_mode(&config_options);
        let option = command.option.as_deref().filter(is_option);
        let chosen =
            SettingChange { identity: &identity, option, value, resumed, config_options: &config_options };
        output::chosen(&chosen, &mut console)?;
        Ok(CliExit::Success.into())
    })
}

/// Drops the stored setting. Starts no agent.
async fn forget(
    option: Option<&str>,
    record: &Record,
    settings: &CommandSettings,
    reach: &HostLocator,
    console: &mut Console<'static>,
) -> Result<ExitCode, CliError> {
    let params = json!({ "sessionId": record.id, "option": option });
    let mut talk = HostSession::new(console, InterruptWatcher::new(settings.timeout)?, Some(reach));
    let asked = talk.persist(async |talk| {
        let mut client = talk.host(reach).await?;
        talk.call::<ForgottenMeta>(&mut client, "_acpx/forget", &params).await
    });
    let forgotten = asked.await.map_err(|error| error.about(record.identity()))?;
    output::forgotten(option, &forgotten, console)?;
    Ok(CliExit::Success.into())
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
