//! Hosts that do not answer. The test holds the lock, and another process stands in for the host.

use std::process::{Child, Command};

use tokio::net::UnixListener;

use super::*;
use crate::home::HostInfo;
use crate::protocol::meta::PROTOCOL;

const SHORT: StopTimeouts = StopTimeouts {
    answer: Duration::from_millis(50),
    exit: Duration::from_secs(5),
    term: Duration::from_millis(300),
    kill: Duration::from_secs(5),
};

/// A process that appears as the holder of a home's lock, and may listen.
struct Stuck {
    home: tempfile::TempDir,
    paths: HostPaths,
    child: Child,
    lock: HostLock,
}

impl Stuck {
    fn new(program: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(home.path().join("home"), None, &home.path().join("run"));
        let mut lock = HostLock::try_take(&paths).unwrap().unwrap();
        let child = Command::new("sh").args(["-c", program]).spawn().unwrap();
        let process = ProcessIdentity::of(child.id()).unwrap();
        let socket = paths.make_socket_path().unwrap();
        let info = HostInfo { process, socket, protocol: PROTOCOL, version: "stuck".to_owned(), build: None };
        lock.publish(&info).unwrap();
        Self { home, paths, child, lock }
    }

    fn listen(&self) -> UnixListener {
        UnixListener::bind(self.paths.make_socket_path().unwrap()).unwrap()
    }

    /// The signal that ended it.
    fn signal(&mut self) -> Option<i32> {
        std::os::unix::process::ExitStatusExt::signal(&self.child.wait().unwrap())
    }
}

#[tokio::test]
async fn a_host_that_does_not_answer_gets_term_then_kill() {
    let deaf = "trap '' TERM; while :; do sleep 0.01; done";
    for (program, signal) in [("exec sleep 600", Signal::TERM), (deaf, Signal::KILL)] {
        let mut stuck = Stuck::new(program);
        let _listens = stuck.listen();
        assert!(stop_within(&stuck.paths, SHORT).await.unwrap());
        assert_eq!(stuck.signal(), Some(signal.as_raw()));
    }
}

#[tokio::test]
async fn a_host_with_an_unreachable_socket_is_stopped() {
    let mut stuck = Stuck::new("exec sleep 600");
    assert!(stop_within(&stuck.paths, SHORT).await.unwrap());
    assert_eq!(stuck.signal(), Some(Signal::TERM.as_raw()));
}

#[tokio::test]
async fn a_process_that_is_not_the_host_is_never_signalled() {
    // The lock is free: the process has the reused pid of an exited host, or is from another boot.
    let Stuck { home: _home, paths, mut child, lock } = Stuck::new("exec sleep 600");
    drop(lock);
    assert!(!stop_within(&paths, SHORT).await.unwrap());
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();

    let mut stuck = Stuck::new("exec sleep 600");
    let mut info = published(&stuck.paths).unwrap();
    info.process.started += 1;
    stuck.lock.publish(&info).unwrap();
    assert!(stop_within(&stuck.paths, SHORT).await.unwrap());
    assert!(stuck.child.try_wait().unwrap().is_none());
    stuck.child.kill().unwrap();
    stuck.child.wait().unwrap();
}
