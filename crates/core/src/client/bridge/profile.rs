//! What differs between bridges: for a client on this machine, for one from elsewhere, and to another machine.

/// How much of what was asked is kept.
pub(super) const KEPT_BYTES: usize = 128 << 20;
/// How much for a client from elsewhere, of which there are many at once.
const KEPT_BYTES_FROM_ELSEWHERE: usize = 4 << 20;
/// How many hosts are asked the same thing. What ends each of them is not asked of another.
pub(super) const HOSTS_ASKED: u32 = 3;

/// What a bridge says to its hosts of its own, and how much it remembers.
pub(super) struct BridgeProfile {
    pub(super) greeting: Greeting,
    /// How much of what was asked may be kept.
    pub(super) most_bytes: usize,
    /// Whether it is the line that goes away: a prompt that was kept has passed it, and is asked for however often.
    pub(super) loses_lines: bool,
    /// Whether what is there is known to be a host of ours.
    pub(super) is_host: bool,
}

/// What a bridge adds to `initialize`.
pub(super) enum Greeting {
    /// Who the client is, an object of JSON.
    Client(String),
    /// That the numbers of events are wanted.
    Numbers,
    /// Nothing: it was said at the door.
    Nothing,
}

impl BridgeProfile {
    /// Of a client on this machine; an object of JSON.
    pub(super) fn near(client: String) -> Self {
        let greeting = Greeting::Client(client);
        Self { greeting, most_bytes: KEPT_BYTES, loses_lines: false, is_host: true }
    }

    /// Of a client from elsewhere.
    pub(super) fn from_elsewhere() -> Self {
        let (greeting, most_bytes) = (Greeting::Nothing, KEPT_BYTES_FROM_ELSEWHERE);
        Self { greeting, most_bytes, loses_lines: false, is_host: true }
    }

    /// Of whoever is on another machine. It says itself whether it is a host of ours.
    pub(super) fn far() -> Self {
        let greeting = Greeting::Numbers;
        Self { greeting, most_bytes: KEPT_BYTES, loses_lines: true, is_host: false }
    }
}
