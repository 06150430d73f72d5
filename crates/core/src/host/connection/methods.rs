//! Our own methods in addition to those of ACP. They are listed in `docs/reference/extensions.md`.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::acp::agent::{CallError, ClientLink, ExtensionCall};
use crate::engine::{RestoreSession, Session, SessionError};
use crate::model::{AbsolutePath, RecordId, Seq};

use super::Connection;
use crate::host::attach::attachment::{GateWaiter, StreamKind};
use crate::protocol::acpx_meta::problem;
use crate::protocol::meta::{ForgottenMeta, IdsMeta, MovedMeta, PROTOCOL, WaitReasonAnswer, WaitReasonMeta};
use crate::protocol::pending_requests::PendingParams;
use crate::protocol::rpc_error;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfSession {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Move {
    session_id: String,
    /// The new working directory.
    cwd: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Forget {
    session_id: String,
    /// The option, by its id or by its category; absent, the mode.
    option: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StopParams {
    /// Whether to stop only if the host is idle.
    if_idle: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watch {
    session_id: String,
    /// The first event to send; absent, the next new one.
    from: Option<u64>,
}

impl Connection {
    pub(crate) async fn own_method(
        &self,
        call: ExtensionCall,
        link: &ClientLink,
    ) -> Result<String, CallError> {
        match call.method.as_str() {
            method if !self.has_method(method) => Err(CallError::UnknownMethod(call.method)),
            "_acpx/watch" => self.watch(read(&call)?, link).await,
            "_acpx/cancel" => self.cancel(read(&call)?).await,
            "_acpx/close" => self.close(read(&call)?).await,
            "_acpx/move" => self.move_record(read(&call)?).await,
            "_acpx/forget" => self.forget(read(&call)?).await,
            "_acpx/waiting" => self.waiting(read(&call)?).await,
            "_acpx/pending" => {
                self.pending(if call.params.is_some() { read(&call)? } else { PendingParams::default() })
                    .await
            }
            "_acpx/answer" => self.answer_question(read(&call)?).await,
            "_acpx/host/status" => Ok(self.status()),
            "_acpx/host/stop" => self.stop(&call).await,
            "_acpx/import" => match &self.host.importer {
                Some(importer) => importer.answer(&self.host.engine, &call, self.is_confined()).await,
                None => Err(CallError::UnknownMethod(call.method)),
            },
            _ => Err(CallError::UnknownMethod(call.method)),
        }
    }

    /// Streams every event of a record from a number on. It neither starts the agent nor keeps it from being parked. A
    /// second watch of the same record replaces the first.
    async fn watch(&self, watch: Watch, link: &ClientLink) -> Result<String, CallError> {
        let session = self.session(&watch.session_id).await?;
        let next = session.last_seq().map_or(Seq::FIRST, Seq::next);
        let from = watch.from.map_or(next, Seq).max(Seq::FIRST);
        let record = session.record_id();
        let telling = self.telling(StreamKind::Events, record, from, GateWaiter::by_nothing(), link);
        self.attachments().entry(record.clone()).or_default().stream(telling);
        Ok(json!({ "from": from.0 }).to_string())
    }

    /// Cancels the running turn regardless of its owner, or the first queued one if none runs.
    async fn cancel(&self, of: OfSession) -> Result<String, CallError> {
        self.may_end(&record(&of.session_id)?, "cancel the turns of other sessions")?;
        let session = self.session(&of.session_id).await?;
        let had_work = session.status().has_work;
        session.cancel(None).await.map_err(|error| self.refused(&error))?;
        Ok(json!({ "cancelled": had_work }).to_string())
    }

    /// Closes the record for all clients: cancels its turns, sends the agent a close and ends it.
    async fn close(&self, of: OfSession) -> Result<String, CallError> {
        self.may_end(&record(&of.session_id)?, "close other sessions")?;
        let session = self.session(&of.session_id).await?;
        let identity = session.identity().ok_or_else(|| rpc_error::unknown(session.record_id()))?;
        session.close().await.map_err(|error| self.refused(&error))?;
        self.attachments().remove(session.record_id());
        Ok(serde_json::to_string(&IdsMeta::from(identity)).expect("ids are text"))
    }

    /// Changes the working directory of a record.
    async fn move_record(&self, to: Move) -> Result<String, CallError> {
        if self.is_confined() {
            return Err(rpc_error::not_allowed("move a session"));
        }
        let cwd = AbsolutePath::new(to.cwd).map_err(|error| problem("cwd", error.to_string()))?;
        let real_cwd = self.host.engine.real_directory(&cwd).await.map_err(|error| self.refused(&error))?;
        let session = self.session(&to.session_id).await?;
        let identity = session.identity().ok_or_else(|| rpc_error::unknown(session.record_id()))?;
        let staying = session.move_to(cwd, real_cwd).await.map_err(|error| self.refused(&error))?;
        let staying = staying.iter().map(ToString::to_string).collect();
        let moved = MovedMeta { ids: identity.into(), staying_directories: staying };
        Ok(serde_json::to_string(&moved).expect("ids and paths are text"))
    }

    /// Removes a requested setting of a record. Its agent is not started.
    async fn forget(&self, of: Forget) -> Result<String, CallError> {
        self.may_choose()?;
        let session = self.session(&of.session_id).await?;
        let identity = session.identity().ok_or_else(|| rpc_error::unknown(session.record_id()))?;
        let forgotten = session.forget_setting(of.option.as_deref()).await;
        let answer = ForgottenMeta::of(identity, forgotten.map_err(|error| self.refused(&error))?);
        Ok(serde_json::to_string(&answer).expect("ids and wishes are text"))
    }

    /// What the record's session waits for. A record without a running session waits for nothing, and is not started.
    async fn waiting(&self, of: OfSession) -> Result<String, CallError> {
        let record = record(&of.session_id)?;
        self.may_use(&record).await?;
        let refused = |error: SessionError| self.refused(&error);
        let waiting = if let Some(session) = self.host.engine.running(&record).await.map_err(refused)? {
            // A session that has just ended waits for nothing.
            session.waiting().await.ok().flatten()
        } else {
            let kept = self.host.engine.record(&record).await.map_err(refused)?;
            kept.map(|_| None).ok_or_else(|| rpc_error::unknown(&record))?
        };
        let mut waiting_for = waiting.map(WaitReasonMeta::from);
        if let Some(waiting) = &mut waiting_for {
            waiting.questions = self.host.askable.open().of(&record);
        }
        let answer = WaitReasonAnswer { waiting_for };
        Ok(serde_json::to_string(&answer).expect("what is waited for has only text and lists"))
    }

    /// Stops the host; with `if_idle`, only without other clients and live sessions. The accept loop decides, so that
    /// no client connects in between.
    async fn stop(&self, call: &ExtensionCall) -> Result<String, CallError> {
        if self.is_confined() {
            return Err(rpc_error::not_allowed("stop the host"));
        }
        let StopParams { if_idle } = if call.params.is_some() { read(call)? } else { StopParams::default() };
        let stops = !if_idle || self.host.stop_if_idle().await;
        if stops {
            self.host.stop();
        }
        Ok(json!({ "stopping": stops }).to_string())
    }

    fn status(&self) -> String {
        let host = &self.host;
        json!({
            "pid": std::process::id(),
            "version": host.version,
            "protocol": PROTOCOL,
            "startedAt": host.started_at.to_string(),
            "liveSessions": *host.engine.live().borrow(),
            "clients": *host.clients.borrow(),
        })
        .to_string()
    }

    async fn session(&self, id: &str) -> Result<Session, CallError> {
        let record = record(id)?;
        self.may_use(&record).await?;
        let session = self.host.engine.attach(&record, &RestoreSession::default()).await;
        session.map_err(|error: SessionError| self.refused(&error))
    }
}

fn record(id: &str) -> Result<RecordId, CallError> {
    RecordId::new(id).map_err(|error| problem("sessionId", error.to_string()))
}

pub(crate) fn read<T: DeserializeOwned>(call: &ExtensionCall) -> Result<T, CallError> {
    let params = call.params.as_deref().unwrap_or("null");
    serde_json::from_str(params).map_err(|error| problem("params", error.to_string()))
}
