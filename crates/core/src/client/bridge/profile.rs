//! What differs between bridges: for a local client, for a remote client, and to a remote host.

/// How many bytes of requests and session params are kept.
pub(super) const KEPT_BYTES: usize = 128 << 20;
/// The same for a remote client, of which there may be many.
const KEPT_BYTES_REMOTE: usize = 4 << 20;
/// How many hosts get the same request. A request that crashes each of them is not sent to another.
pub(super) const MAX_HOSTS: u32 = 3;

/// How a bridge describes itself to hosts, and how much state it keeps.
pub(super) struct BridgeProfile {
    pub(super) greeting: Greeting,
    /// How many bytes of requests and session params may be kept.
    pub(super) max_bytes: usize,
    /// Whether the connection may be lost rather than the host. Accepted prompts are then re-sent without a limit.
    pub(super) may_lose_connection: bool,
    /// Whether the other end is known to be an acpx host.
    pub(super) is_host: bool,
    /// Whether the client's connection ends with its host. The page reconnects by its cursor and subscribes again.
    pub(super) ends_with_host: bool,
}

/// What a bridge adds to `initialize`.
pub(super) enum Greeting {
    /// The client's description, a JSON object.
    Client(String),
    /// The request for event numbers.
    Numbers,
    /// Nothing: the client was announced before.
    Nothing,
}

impl BridgeProfile {
    /// For a local client, with its description as a JSON object.
    pub(super) fn local(client: String) -> Self {
        let greeting = Greeting::Client(client);
        Self {
            greeting,
            max_bytes: KEPT_BYTES,
            may_lose_connection: false,
            is_host: true,
            ends_with_host: false,
        }
    }

    /// For a remote client, or for the page.
    pub(super) fn remote_client(is_page: bool) -> Self {
        let (greeting, max_bytes) = (Greeting::Nothing, KEPT_BYTES_REMOTE);
        Self { greeting, max_bytes, may_lose_connection: false, is_host: true, ends_with_host: is_page }
    }

    /// To a remote agent. Its `initialize` response shows whether it is an acpx host.
    pub(super) fn remote_agent() -> Self {
        let greeting = Greeting::Numbers;
        Self {
            greeting,
            max_bytes: KEPT_BYTES,
            may_lose_connection: true,
            is_host: false,
            ends_with_host: false,
        }
    }
}
