//! Checks and repairs the directory that a record's agent starts in: the one the record was created in, or none.
//!
//! The agent receives the record's path byte for byte while that path leads to this directory. If the path leads to
//! another directory, and the client asked for the session by another path to the original one, the real path replaces
//! it. Every other difference is an error, and no agent is started.

use std::io::ErrorKind;

use crate::model::{AbsolutePath, AgentError, Record, RecordId};
use crate::store::real_path;

use super::launch_spec::LaunchSpec;
use crate::engine::path_queries::{Disk, NoAnswer};
use crate::engine::{Engine, SessionError};

/// What a start resolved about a record's directory that the record does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryChange {
    pub(crate) cwd: AbsolutePath,
    pub(crate) real_cwd: AbsolutePath,
}

impl LaunchSpec {
    /// Checks where the path leads. Replaces a path that leads to another directory by the real path if the client
    /// asked for the session there.
    pub(crate) async fn settle(
        &mut self,
        disk: &Disk,
        record: &RecordId,
    ) -> Result<Option<DirectoryChange>, AgentError> {
        let found = self.look(disk, &self.cwd).await?;
        let real_cwd = match (self.real_cwd.clone(), &found) {
            (None, Ok(found)) => {
                return Ok(Some(DirectoryChange { cwd: self.cwd.clone(), real_cwd: found.clone() }));
            }
            (None, Err(_)) => self.cwd.clone(),
            (Some(known), Ok(found)) if known == *found => return Ok(None),
            (Some(known), _) => known,
        };
        if let Some(asked_by) = &self.asked_by
            && self.look(disk, asked_by).await? == Ok(real_cwd.clone())
        {
            let old = std::mem::replace(&mut self.cwd, real_cwd.clone());
            self.additional_directories = moved_with(&old, &self.cwd, &self.additional_directories);
            return Ok(Some(DirectoryChange { cwd: real_cwd.clone(), real_cwd }));
        }
        let (record, cwd, now) = (record.clone(), self.cwd.clone(), in_words(found));
        Err(AgentError::DirectoryMoved { record, cwd, real_cwd, now })
    }

    async fn look(
        &self,
        disk: &Disk,
        path: &AbsolutePath,
    ) -> Result<Result<AbsolutePath, String>, AgentError> {
        look(disk, path).await.map_err(|no_answer| AgentError::SilentDirectory {
            agent: self.agent.label().into_owned(),
            directory: path.to_string(),
            reason: no_answer.to_string(),
        })
    }
}

impl Engine {
    /// Checks that the path in a client's request leads to the directory that the record was created in. A live agent
    /// does not need its directory to exist.
    pub(crate) async fn check_directory(
        &self,
        kept: &Record,
        asked_by: &AbsolutePath,
    ) -> Result<(), SessionError> {
        let is_its_own = kept.cwd == *asked_by;
        let found = match look(self.disk(), asked_by).await {
            Ok(found) => found,
            // If an agent has to be started, the start reports this.
            Err(_) if is_its_own => return Ok(()),
            Err(no_answer) => return Err(unusable(asked_by, no_answer.to_string())),
        };
        let real_cwd = match kept.known_real_cwd() {
            Some(real) => real.clone(),
            None if is_its_own && found.is_ok() => return Ok(()),
            None => self.disk().real(&kept.cwd).await.unwrap_or_else(|_| kept.cwd.clone()),
        };
        match found {
            Ok(found) if found == real_cwd => Ok(()),
            Err(_) if is_its_own && self.has_agent(&kept.id).await? => Ok(()),
            found if is_its_own => {
                let (record, cwd, now) = (kept.id.clone(), kept.cwd.clone(), in_words(found));
                Err(AgentError::DirectoryMoved { record, cwd, real_cwd, now }.into())
            }
            Ok(_) => Err(SessionError::WorksElsewhere {
                record: kept.id.clone(),
                cwd: kept.cwd.clone(),
                asked_by: asked_by.clone(),
            }),
            Err(problem) => Err(unusable(asked_by, format!("it {problem}"))),
        }
    }

    async fn has_agent(&self, record: &RecordId) -> Result<bool, SessionError> {
        Ok(self.running(record).await?.is_some_and(|session| session.status().has_agent))
    }
}

fn unusable(path: &AbsolutePath, reason: String) -> SessionError {
    SessionError::Directory { cwd: path.clone(), reason }
}

/// Rewrites additional directories after a project's path changed: those inside the project move with it.
pub(crate) fn moved_with(
    old: &AbsolutePath,
    new: &AbsolutePath,
    directories: &[AbsolutePath],
) -> Vec<AbsolutePath> {
    let moved = |directory: &AbsolutePath| {
        let rest = directory.as_path().strip_prefix(old.as_path()).ok()?;
        AbsolutePath::from_path(&new.as_path().join(rest)).ok()
    };
    directories.iter().map(|directory| moved(directory).unwrap_or_else(|| directory.clone())).collect()
}

/// Resolves a path to a real directory, or describes what is wrong with it.
async fn look(disk: &Disk, path: &AbsolutePath) -> Result<Result<AbsolutePath, String>, NoAnswer> {
    let queried = path.clone();
    let look = move || match real_path(&queried) {
        Ok(real) if real.as_path().is_dir() => Ok(real),
        Ok(_) => Err("is not a directory".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("is gone".to_owned()),
        Err(error) => Err(format!("cannot be used: {error}")),
    };
    disk.ask(path.as_path(), look).await
}

fn in_words(found: Result<AbsolutePath, String>) -> String {
    found.map_or_else(|problem| problem, |real| format!("leads to {real} now"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NewSession;
    use crate::model::AgentSpec;
    use crate::tools::Environment;

    #[tokio::test]
    async fn additional_directories_inside_a_mended_cwd_get_its_real_path() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let path = |name: &str| AbsolutePath::from_path(&home.join(name)).unwrap();
        for name in ["one", "two"] {
            std::fs::create_dir(path(name).as_path()).unwrap();
        }
        std::os::unix::fs::symlink(path("two").as_path(), path("link").as_path()).unwrap();
        let agent = AgentSpec::new("demo", [""; 0]);
        let alone = LaunchSpec::alone(NewSession::new(agent, path("link"), Environment::default()));
        let given = LaunchSpec {
            real_cwd: Some(path("one")),
            additional_directories: vec![path("link/lib"), path("two")],
            ..alone
        };
        let (disk, record) = (Disk::default(), RecordId::new("r").unwrap());
        let moved = |now: &str| AgentError::DirectoryMoved {
            record: record.clone(),
            cwd: path("link"),
            real_cwd: path("one"),
            now: now.to_owned(),
        };

        let mut launch = given.clone();
        let elsewhere = moved(&format!("leads to {} now", path("two")));
        assert_eq!(launch.settle(&disk, &record).await, Err(elsewhere));
        launch.asked_by = Some(path("one/."));
        let mended = DirectoryChange { cwd: path("one"), real_cwd: path("one") };
        assert_eq!(launch.settle(&disk, &record).await, Ok(Some(mended)));
        assert_eq!(
            (launch.cwd, launch.additional_directories),
            (path("one"), vec![path("one/lib"), path("two")])
        );

        std::fs::remove_file(path("link").as_path()).unwrap();
        assert_eq!(given.clone().settle(&disk, &record).await, Err(moved("is gone")));
        std::fs::write(path("link").as_path(), "").unwrap();
        assert_eq!(given.clone().settle(&disk, &record).await, Err(moved("is not a directory")));
    }
}
