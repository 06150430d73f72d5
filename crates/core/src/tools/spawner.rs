//! The one thread that starts agents.
//!
//! The parent-death signal goes by thread and not by process: an agent forked from a worker of the runtime would be
//! killed when that worker retires. So all agents of an owner are forked from one thread, which lives as long as
//! anyone holds a handle, and a running agent holds one.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::ending::Grace;
use super::leader::{Leader, Streams};
use super::parent_death::die_with_this_thread;
use super::tag::Tag;

/// How many starts may wait for the thread. Whoever comes when it is full waits for a place.
const WAITING: usize = 16;

/// A handle to the thread that starts agents. The thread begins with the first start and ends when the last handle
/// is dropped; on Linux the kernel then kills what is left of the agents it had started.
#[derive(Debug, Clone, Default)]
pub struct Spawner(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tag: Option<Tag>,
    orders: Mutex<Option<mpsc::Sender<Order>>>,
}

/// A process to be started.
struct Order {
    command: Command,
    grace: Grace,
    started: oneshot::Sender<io::Result<(Leader, Streams)>>,
}

impl Spawner {
    /// A spawner that gives every agent this tag, in place of any tag in the environment it is given.
    pub fn new(tag: Option<Tag>) -> Self {
        Self(Arc::new(Inner { tag, orders: Mutex::new(None) }))
    }

    /// Starts a command as the leader of a group of its own. Whoever stops waiting for it leaves no process.
    pub(super) async fn start(&self, mut command: Command, grace: Grace) -> io::Result<(Leader, Streams)> {
        if let Some(tag) = &self.0.tag {
            command.env(Tag::VARIABLE, tag.to_string());
        }
        let gone = || io::Error::other("the thread that starts agents is gone");
        let (started, answer) = oneshot::channel();
        let order = Order { command, grace, started };
        self.orders()?.send(order).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    fn orders(&self) -> io::Result<mpsc::Sender<Order>> {
        let mut orders = self.0.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(orders) = &*orders {
            return Ok(orders.clone());
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        std::thread::Builder::new().name("agent-spawn".into()).spawn(move || serve(receiver))?;
        Ok(orders.insert(sender).clone())
    }
}

/// Starts what is ordered until nobody can order any more.
fn serve(mut orders: mpsc::Receiver<Order>) {
    while let Some(Order { mut command, grace, started }) = orders.blocking_recv() {
        if started.is_closed() {
            continue;
        }
        die_with_this_thread(&mut command);
        // If nobody waits for it any more, it is dropped and thereby killed.
        drop(started.send(Leader::start(&mut command, grace)));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
