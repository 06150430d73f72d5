//! Commands that exit, that do not, and that leave processes behind.

use super::*;
use crate::model::ProcessIdentity;
use crate::tools::Tag;

const GRACE: GracePeriods = GracePeriods { eof: Duration::ZERO, term: Duration::from_millis(300) };

fn line(command: &str, args: &[&str]) -> CommandLine {
    CommandLine {
        command: command.to_owned(),
        args: args.iter().map(|argument| (*argument).to_owned()).collect(),
        env: Vec::new(),
        cwd: "/".into(),
        output_bytes: None,
        most_output_bytes: None,
    }
}

fn environment() -> Environment {
    [("PATH".into(), "/usr/bin:/bin".into()), ("GREETING".into(), "hello".into())].into_iter().collect()
}

async fn start(line: &CommandLine) -> Result<TerminalProcess, TerminalError> {
    TerminalProcess::start(&Spawner::default(), line, &environment(), GRACE, Arc::default()).await
}

async fn run(line: &CommandLine) -> (String, bool, String) {
    let terminal = start(line).await.unwrap();
    let exit = terminal.exited().await.unwrap();
    let shown = terminal.shown();
    assert_eq!(shown.exit, Some(exit.clone()));
    (shown.output, shown.is_cut, exit.to_string())
}

fn output_and_exit(output: &str, exit: &str) -> (String, bool, String) {
    (output.to_owned(), false, exit.to_owned())
}

#[tokio::test]
async fn terminal_command_has_cwd_environment_no_input_and_one_screen() {
    let script = "pwd; echo $GREETING $NAME; cat; echo err >&2; exit 3";
    let with = CommandLine { env: vec![("NAME".into(), "world".into())], ..line("sh", &["-c", script]) };
    assert_eq!(run(&with).await, output_and_exit("/\nhello world\nerr\n", "exit code 3"));
    let other = CommandLine { env: vec![("GREETING".into(), "bye".into())], ..with };
    assert_eq!(run(&other).await, output_and_exit("/\nbye\nerr\n", "exit code 3"));
    assert_eq!(run(&line("sh", &["-c", "kill -9 $$"])).await, output_and_exit("", "signal 9"));
}

#[tokio::test]
async fn an_agent_gives_a_command_no_variable_by_which_processes_are_known() {
    let marks = [RECORD_VARIABLE, "ACPX_TAG", "ACPX_KEEP", "ACPX_HOST"];
    let env = marks.map(|name| (name.to_owned(), "theirs".to_owned())).to_vec();
    let script = "echo $ACPX_RECORD ${ACPX_HOST-none} $ACPX_TAG ${ACPX_KEEP-none}";
    let with = CommandLine { env, ..line("sh", &["-c", script]) };
    let tag: Tag = "home:boot:3:1:2".parse().unwrap();
    let environment = environment().with(RECORD_VARIABLE, "ours").with("ACPX_HOST", "1");
    let spawners = [
        (Spawner::new(Some(tag.clone())), "none"),
        (Spawner::keeping(Some(tag), &["tmux: server".to_owned()]), "[\"tmux: server\"]"),
    ];
    for (spawner, kept) in spawners {
        let terminal =
            TerminalProcess::start(&spawner, &with, &environment, GRACE, Arc::default()).await.unwrap();
        terminal.exited().await.unwrap();
        assert_eq!(terminal.shown().output, format!("ours none home:boot:3:1:2 {kept}\n"));
    }
}

#[tokio::test]
async fn terminal_command_that_is_a_shell_line_runs_in_a_shell() {
    assert_eq!(
        run(&line("echo $GREETING | tr a-z A-Z", &[])).await,
        output_and_exit("HELLO\n", "exit code 0")
    );
    assert_eq!(run(&line("printf %s-%s", &["a b", "c"])).await, output_and_exit("a b-c", "exit code 0"));
    let error = start(&line("no-such-program", &["x"])).await.unwrap_err();
    assert_eq!(error.to_string(), "spawn no-such-program ENOENT: no such file or directory");
    let nowhere = CommandLine { cwd: "/no/such/directory".into(), ..line("true", &[]) };
    let error = start(&nowhere).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot run true in /no/such/directory: no such directory");
}

#[tokio::test]
async fn terminal_output_is_cut_at_its_beginning_and_reported_truncated() {
    let script = "echo begin; echo the-end";
    let bounded = |output_bytes, most_output_bytes| CommandLine {
        output_bytes,
        most_output_bytes,
        ..line("sh", &["-c", script])
    };
    let most = start(&bounded(Some(100), Some(8))).await.unwrap();
    most.exited().await.unwrap();
    assert_eq!(most.shown().output, "the-end\n");
    let terminal = start(&bounded(Some(8), None)).await.unwrap();
    let exit = terminal.exited().await.unwrap();
    let shown = TerminalView { output: "the-end\n".into(), is_cut: true, exit: Some(exit.clone()) };
    assert_eq!(terminal.shown(), shown);
    let news = TerminalDelta { output: "begin\nth".into(), exit: Some((exit, Some("the-end\n".into()))) };
    assert_eq!(terminal.take_new_output(false), news);
}

#[tokio::test]
async fn a_command_that_ignores_terminate_is_killed_with_its_children() {
    let script = "trap '' TERM; (trap '' TERM; sleep 1000) & echo $! $$; wait";
    let changed = Arc::new(Notify::new());
    let (line, spawner, environment) = (line("sh", &["-c", script]), Spawner::default(), environment());
    let terminal = TerminalProcess::start(&spawner, &line, &environment, GRACE, Arc::clone(&changed));
    let terminal = terminal.await.unwrap();
    while terminal.shown().output.is_empty() {
        changed.notified().await;
    }
    let pids = terminal.shown().output;
    let processes: Vec<_> =
        pids.split_whitespace().map(|pid| ProcessIdentity::of(pid.parse().unwrap()).unwrap()).collect();
    assert_eq!(terminal.kill(GRACE).await, TerminationOutcome::Gone);
    assert_eq!(terminal.shown().exit.unwrap().to_string(), "signal 9");
    assert!(processes.len() == 2 && processes.iter().all(|process| !process.is_alive()), "{processes:?}");
    // It has exited, and may be killed repeatedly.
    assert_eq!(terminal.kill(GRACE).await, TerminationOutcome::Gone);
}

#[tokio::test]
async fn exit_is_reported_while_another_process_holds_the_output() {
    // The process that holds the pipe has left the group, so it is not ended with the command.
    let terminal = start(&line("sh", &["-c", "echo out; setsid sleep 5 & exit 0"])).await.unwrap();
    let exit = timeout(Duration::from_secs(4), terminal.exited()).await.unwrap().unwrap();
    assert_eq!(terminal.shown(), TerminalView { output: "out\n".into(), is_cut: false, exit: Some(exit) });
}

#[test]
fn a_line_reads_as_one_would_type_it_and_shows_no_variable() {
    let with =
        CommandLine { env: vec![("TOKEN".into(), "s3cret".into())], ..line("echo", &["a-b", "it's $x", ""]) };
    assert_eq!(with.to_string(), r"echo a-b 'it'\''s $x' ''");
    assert!(!format!("{with:?}").contains("s3cret"));
}
