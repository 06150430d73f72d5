//! `acpx serve`: serves the sessions of this home to remote clients, until it is stopped.

use crate::cli::ServeArgs;
use crate::error::{CliError, with_causes};
use crate::http::guard::{ANY_ORIGIN, Guard, is_loopback};
use crate::http::listener::{self, listen};
use crate::http::router::router;
use crate::http::server::{Hosts, HttpServer};
use crate::http::tls;
use crate::http::tokens::Tokens;
use crate::output::{self, Console, Serving};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::interrupt::InterruptWatcher;
use crate::session::settings::{CommandSettings, DEFAULT_TTL};

/// Serves until a signal ends it.
pub(super) fn run(args: ServeArgs, settings: &CommandSettings) -> Result<(), CliError> {
    let allowance = args.allowance();
    let ServeArgs { listen: address, tls_cert, tls_key, insecure_public, allow_origin: origins, .. } = args;
    let tls = tls_cert.zip(tls_key);
    let locator = HostLocator::of_environment()?;
    locator.paths.make_home()?;
    refuse_inside(&locator.paths, "let others in")?;
    let home = locator.paths.name()?;
    let tokens = Tokens::of(locator.paths.home());
    let is_loopback = is_loopback(address);
    let tokens_needed = tokens.are_needed()?;
    let is_protected = tokens_needed && tls.is_some();
    if !(is_loopback || insecure_public || is_protected) {
        return Err(CliError::PublicAddress { address, token: tokens_needed, tls: tls.is_some() });
    }
    if origins.iter().any(|origin| origin == ANY_ORIGIN) && !tokens_needed {
        return Err(CliError::OpenToPages);
    }
    let acceptor = tls.map(|(certificate, key)| tls::acceptor(&certificate, &key)).transpose()?;
    // Remote clients keep no idle agent longer than this, regardless of what they request.
    let mut theirs = settings.clone();
    theirs.ttl.get_or_insert(DEFAULT_TTL);
    let client = theirs.client();
    let guard = Guard { is_loopback, insecure_public, origins };
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let mut interrupts = InterruptWatcher::new(None)?;
        let unusable = |source| CliError::Listen { address, source };
        let (listener, address) = listen(address).await.map_err(unusable)?;
        let serving = Serving { agent: settings.typed_agent(), address, is_secure: acceptor.is_some() };
        output::serving(&serving, &mut console)?;
        if address.ip().is_unspecified() {
            console.banner(&format!(
                "{} is every address of this machine; clients use one of them",
                address.ip()
            ));
        }
        if !tokens_needed {
            let whom = if is_loopback { "every program on this machine" } else { "everybody" };
            console.banner(&format!("there are no tokens, so {whom} can connect; acpx token new makes one"));
        }
        if settings.auto_approves() && !allowance.approve_all {
            console.banner(
                "remote clients do not get the automatic approvals configured here; --allow-approve-all grants them",
            );
        }
        let hosts = Hosts {
            directory: locator.paths.home().to_owned(),
            bridge: Box::new(move |client| locator.bridge_for_remote_client(client)),
            no_host: |error| output::log(&format!("no host for a client: {}", with_causes(error))),
        };
        let server = HttpServer::new(hosts, home, client, guard, allowance);
        let stop = async {
            interrupts.over().await;
        };
        listener::serve(&server, router(&server), listener, acceptor, stop).await;
        Ok(())
    })
}
