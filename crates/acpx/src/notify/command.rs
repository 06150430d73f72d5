//! Runs the program of a sink: without a shell, in its own process group, and not for long.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Why a program did not take a notification.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("cannot run {program}: {source}")]
    NotStarted { program: String, source: io::Error },
    #[error("{program} did not end within {} s", limit.as_secs())]
    TooLong { program: String, limit: Duration },
    #[error("{program} failed: {status}")]
    Failed { program: String, status: ExitStatus },
}

/// Runs a program with a text on stdin, and ends its process group at the limit. It may ignore the text.
pub(super) async fn run(argv: &[String], input: String, limit: Duration) -> Result<(), CommandError> {
    let program = argv.first().cloned().unwrap_or_default();
    let not_started = |source| CommandError::NotStarted { program: program.clone(), source };
    let mut command = Command::new(&program);
    command.args(argv.get(1..).unwrap_or_default()).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(not_started)?;
    let group = RunningGroup(i32::try_from(child.id()).ok().and_then(Pid::from_raw));
    let mut ended = spawn_blocking(move || {
        // A program that reads nothing is no failure.
        drop(child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait()
    });
    let Ok(status) = timeout(limit, &mut ended).await else {
        drop(group);
        drop(ended.await);
        return Err(CommandError::TooLong { program, limit });
    };
    group.forget();
    let status = status.map_err(|_| io::ErrorKind::Interrupted.into()).flatten().map_err(not_started)?;
    if status.success() { Ok(()) } else { Err(CommandError::Failed { program, status }) }
}

/// A program's process group, which is killed when this is dropped: at the limit, or when the delivery ends early.
struct RunningGroup(Option<Pid>);

impl RunningGroup {
    /// The program has ended. What it left in the background stays.
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for RunningGroup {
    fn drop(&mut self) {
        // The group may have ended by now.
        let _ = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[tokio::test]
    async fn sink_command_gets_its_input_and_arguments_without_a_shell() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a file; rm $HOME");
        let argv = argv(&["tee", file.to_str().unwrap()]);
        run(&argv, "{}".to_owned(), Duration::from_secs(20)).await.unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "{}");
    }

    #[tokio::test]
    async fn sink_command_ends_with_its_delivery() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let script = "exec > \"$0\"; echo started; sleep 1000 & wait";
        let argv = argv(&["sh", "-c", script, pipe.to_str().unwrap()]);
        let delivery =
            tokio::spawn(async move { run(&argv, String::new(), Duration::from_secs(1000)).await });
        let read = spawn_blocking(move || {
            let mut reader = BufReader::new(std::fs::File::open(pipe).unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            (line, reader)
        });
        let (line, mut reader) = read.await.unwrap();
        assert_eq!(line, "started\n");
        delivery.abort();
        // The pipe ends with the last process of the group.
        let rest = spawn_blocking(move || io::read_to_string(&mut reader).unwrap());
        assert_eq!(rest.await.unwrap(), "");
    }

    #[tokio::test]
    async fn sink_command_that_fails_or_hangs_is_reported_without_its_arguments() {
        let limit = Duration::from_millis(50);
        let error =
            async |words: &[&str]| run(&argv(words), String::new(), limit).await.unwrap_err().to_string();
        assert_eq!(error(&["false", "secret"]).await, "false failed: exit status: 1");
        assert!(error(&["/no/such/program", "secret"]).await.starts_with("cannot run /no/such/program: "));
        // The shell's child is in the group and ends with it.
        let hanging = error(&["sh", "-c", "sleep 1000 & wait"]).await;
        assert_eq!(hanging, "sh did not end within 0 s");
    }
}
