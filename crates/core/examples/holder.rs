//! A process that holds agents as a host does and may be killed. The tests of processes start it and look at what
//! becomes of the agents.
//!
//!     holder hold|adopt HOME PROGRAM [ARGUMENT]...
//!     holder sweep HOME
//!     holder connect SOCKET
//!
//! `hold` starts an agent, says its pid and what it says, closes its stdin with its own, and says how it ended.
//! `adopt` does the same as the one that orphans come to. `sweep` says what it has ended. `connect` passes
//! lines on between a socket and its own stdin and stdout, for a test that needs a client with an environment.

use std::error::Error;
use std::io::{self, Write};

use acpx_core::model::{AbsolutePath, AgentSpec};
use acpx_core::tools::{
    AgentProcess, Environment, GracePeriods, OrphanReaper, Pipes, Spawner, Tag, TerminationOutcome, sweep,
};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.as_slice() {
        ["hold", home, program, arguments @ ..] => {
            runtime.block_on(hold(home, &AgentSpec::new(*program, arguments.iter().copied())))
        }
        ["adopt", home, program, arguments @ ..] => {
            runtime.block_on(adopt(home, &AgentSpec::new(*program, arguments.iter().copied())))
        }
        ["sweep", home] => {
            for process in sweep(home, &[], &[], GracePeriods::default()).ended {
                say(&format!("ended {}", process.identity.pid))?;
            }
            Ok(())
        }
        ["connect", socket] => runtime.block_on(connect(socket)),
        _ => Err("holder hold|adopt HOME PROGRAM [ARGUMENT]... or holder sweep HOME".into()),
    }
}

async fn connect(socket: &str) -> Result<(), Failure> {
    let (mut source, mut target) = tokio::net::UnixStream::connect(socket).await?.into_split();
    let (mut stdin, mut stdout) = (tokio::io::stdin(), tokio::io::stdout());
    tokio::select! {
        heard = tokio::io::copy(&mut source, &mut stdout) => heard?,
        said = tokio::io::copy(&mut stdin, &mut target) => said?,
    };
    Ok(())
}

async fn adopt(home: &str, agent: &AgentSpec) -> Result<(), Failure> {
    let orphans = OrphanReaper::adopt()?;
    hold(home, agent).await?;
    orphans.release().await;
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::All, look) {
        Err(rustix::io::Errno::CHILD) => Ok(say("no child is left")?),
        other => Err(format!("a child is left: {other:?}").into()),
    }
}

async fn hold(home: &str, agent: &AgentSpec) -> Result<(), Failure> {
    let cwd = AbsolutePath::new("/")?;
    let environment: Environment = std::env::vars_os().collect();
    let spawner = Spawner::new(Tag::of_this_process(home));
    let (mut process, Pipes { stdin, stdout }) =
        AgentProcess::spawn(&spawner, agent, &cwd, &environment, GracePeriods::default()).await?;
    say(&format!("agent {}", process.pid()))?;
    let hear = async {
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            say(&line)?;
        }
        Ok::<(), Failure>(())
    };
    let close = async {
        tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        drop(stdin);
        Ok::<(), Failure>(())
    };
    tokio::try_join!(hear, close)?;
    let grace = GracePeriods::default();
    match process.exited_within(grace.eof).await {
        Some(exit) => say(&exit.to_string())?,
        None => say("it does not exit")?,
    }
    match process.end(grace).await {
        TerminationOutcome::Gone => Ok(()),
        TerminationOutcome::Left => Err("it does not go".into()),
    }
}

/// A line that is out before anything else happens.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
