//! An agent made with the official SDK, on stdin and stdout: somebody else's reading of the protocol, for our
//! client side to be tested with. It echoes, and keeps its sessions in a directory.
//!
//!     sdk_agent DIRECTORY [--no-resume | --v2]

mod agent;
mod version_2;

use std::path::PathBuf;

use agent_client_protocol::{ByteStreams, Error};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map(PathBuf::from).ok_or_else(Error::invalid_params)?;
    let flag = arguments.next();
    let resumes = flag.as_deref() != Some("--no-resume");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::into_internal_error)?;
    runtime.block_on(async {
        let streams = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
        match flag.as_deref() {
            Some("--v2") => version_2::serve(version_2::SdkAgent::new(directory), streams).await,
            _ => agent::serve(agent::SdkAgent::new(directory, resumes), streams).await,
        }
    })
}
