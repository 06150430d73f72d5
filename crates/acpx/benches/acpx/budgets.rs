//! The budgets: each work that is measured, and what it may take. The report's table is made from this list, and a
//! test compares it with `docs/internals/performance.md`, so a budget cannot change without both.

use std::fmt;

/// A work that is measured, with its bounds.
pub(crate) struct Budget {
    /// What is done.
    pub(crate) work: &'static str,
    /// What it may take.
    pub(crate) limits: &'static [Limit],
}

/// One bound.
pub(crate) enum Limit {
    /// No less than this.
    AtLeast(f64, Measure),
    /// No more than this.
    AtMost(f64, Measure),
}

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// npm acpx's time over ours.
    Faster,
    /// The same, with the agent's own time taken off both.
    FasterNet,
    /// Our time over that of a program that does nothing.
    OverEmpty,
    /// Megabytes of memory.
    Megabytes,
    /// Our time over the time with one record.
    OverOneRecord,
    /// Our time over the same with a short record.
    OverShortRecord,
    /// Our time over the same while nothing is indexed.
    OverIdle,
    /// Milliseconds without the agent's own.
    MillisNet,
    /// Milliseconds of the whole command.
    Millis,
    /// Megabytes in a second.
    MegabytesPerSecond,
    /// How many in a second.
    PerSecond,
    /// Our time over that of a loop over the same rows without acpx.
    OverBareLoop,
    /// How many microseconds longer than without acpx, for the message in the middle.
    MicrosMoreMedian,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(value, measure) => write!(f, "≥ {value}{measure}"),
            Self::AtMost(value, measure) => write!(f, "≤ {value}{measure}"),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "× faster",
            Self::FasterNet => "× faster, net",
            Self::OverEmpty => "× an empty program",
            Self::Megabytes => " MB",
            Self::OverOneRecord => "× with one record",
            Self::OverShortRecord => "× with a short record",
            Self::OverIdle => "× without an update",
            Self::MillisNet => " ms, net",
            Self::Millis => " ms",
            Self::MegabytesPerSecond => " MB a second",
            Self::PerSecond => " a second",
            Self::OverBareLoop => "× a bare loop",
            Self::MicrosMoreMedian => " µs more at the median",
        })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<String> = self.limits.iter().map(ToString::to_string).collect();
        f.write_str(&limits.join("; "))
    }
}

use Limit::{AtLeast, AtMost};
use Measure::{
    Faster, FasterNet, Megabytes, MegabytesPerSecond, MicrosMoreMedian, Millis, MillisNet, OverBareLoop,
    OverEmpty, OverIdle, OverOneRecord, OverShortRecord, PerSecond,
};

/// The start of the program.
pub(crate) const VERSION: Budget =
    Budget { work: "`--version`", limits: &[AtLeast(100.0, Faster), AtMost(2.0, OverEmpty)] };
/// One session, read.
pub(crate) const STATUS: Budget =
    Budget { work: "`status`", limits: &[AtLeast(80.0, Faster), AtMost(3.0, OverEmpty)] };
/// All sessions, read.
pub(crate) const LIST: Budget =
    Budget { work: "`sessions list`", limits: &[AtLeast(80.0, Faster), AtMost(3.0, OverEmpty)] };
/// An agent for one turn.
pub(crate) const EXEC: Budget = Budget { work: "`exec`, one turn", limits: &[AtLeast(60.0, FasterNet)] };
/// A turn with nothing running yet.
pub(crate) const COLD: Budget =
    Budget { work: "cold `prompt`: host and agent start", limits: &[AtLeast(60.0, FasterNet)] };
/// A turn with an agent that waits for it.
pub(crate) const WARM: Budget =
    Budget { work: "warm `prompt`: the agent answers at once", limits: &[AtLeast(150.0, Faster)] };
/// A long answer.
pub(crate) const CHUNKS: Budget =
    Budget { work: "10,000 chunks through a warm `prompt`, stored", limits: &[AtLeast(60.0, FasterNet)] };
/// The host with little to do.
pub(crate) const HOST_MEMORY: Budget =
    Budget { work: "memory of the host with one live session", limits: &[AtMost(20.0, Megabytes)] };
/// What each further session costs.
pub(crate) const SESSION_MEMORY: Budget =
    Budget { work: "memory for one more live session, of 100", limits: &[AtMost(0.2, Megabytes)] };
/// One session among many.
pub(crate) const MANY_RECORDS: Budget =
    Budget { work: "`status` with 50,000 records", limits: &[AtMost(1.25, OverOneRecord)] };
/// A page of many sessions.
pub(crate) const MANY_LISTED: Budget =
    Budget { work: "`sessions list --limit 50` with 50,000 records", limits: &[AtMost(2.5, OverOneRecord)] };
/// A prompt that has to create its session among many.
pub(crate) const MANY_CREATED: Budget =
    Budget { work: "`prompt --create` with 50,000 records", limits: &[AtMost(2.0, OverOneRecord)] };
/// An agent that gets a long conversation back.
pub(crate) const LONG_RESTORE: Budget =
    Budget { work: "restore of a record of 1,000,000 events", limits: &[AtMost(50.0, MillisNet)] };
/// The end of a long conversation, listed.
pub(crate) const LONG_HISTORY: Budget =
    Budget { work: "`sessions history` of that record", limits: &[AtMost(1.5, OverShortRecord)] };
/// The end of a long conversation, shown.
pub(crate) const LONG_REPLAY: Budget =
    Budget { work: "`sessions replay --last 1` of that record", limits: &[AtMost(1.5, OverShortRecord)] };
/// The end of a long conversation in an editor.
pub(crate) const LONG_LOAD: Budget =
    Budget { work: "an editor's load of its last 5 turns", limits: &[AtMost(1.5, OverShortRecord)] };
/// Every conversation on the machine, read once.
pub(crate) const INDEX: Budget = Budget {
    work: "`index rebuild` of 1,000,000 messages in 10,000 transcripts",
    limits: &[AtLeast(5.0, MegabytesPerSecond)],
};
/// A turn and its host while the conversations are read in the background.
pub(crate) const INDEXING: Budget = Budget {
    work: "warm `prompt`, and the host's memory, during an update of the index",
    limits: &[AtMost(2.0, OverIdle), AtMost(20.0, Megabytes)],
};
/// The conversations of all agents.
pub(crate) const TRANSCRIPTS_LISTED: Budget =
    Budget { work: "`sessions list --all` with these", limits: &[AtMost(150.0, Millis)] };
/// Two words among all that was said.
pub(crate) const SEARCH: Budget = Budget { work: "`search` over these", limits: &[AtMost(30.0, Millis)] };
/// A word of half of all messages: the newest are found.
pub(crate) const COMMON_SEARCH: Budget =
    Budget { work: "`search` for a word of every second message", limits: &[AtMost(30.0, Millis)] };
/// A fast agent.
pub(crate) const STORED: Budget =
    Budget { work: "280-byte updates, stored and forwarded", limits: &[AtLeast(100_000.0, PerSecond)] };
/// A conversation from the store.
pub(crate) const REPLAY: Budget =
    Budget { work: "replay of 100,000 updates", limits: &[AtMost(2.0, OverBareLoop)] };
/// One message of an agent that waits for its next, to an editor.
pub(crate) const FACE_MESSAGE: Budget =
    Budget { work: "one update through `acpx acp`, one way", limits: &[AtMost(150.0, MicrosMoreMedian)] };
/// One message of an editor to its agent, on the disk before it is there.
pub(crate) const FACE_PROMPT: Budget =
    Budget { work: "one prompt through `acpx acp`, one way", limits: &[AtMost(2000.0, MicrosMoreMedian)] };
/// A fast agent behind an editor.
pub(crate) const FACE_STORED: Budget = Budget {
    work: "280-byte updates through `acpx acp`, stored and forwarded",
    limits: &[AtLeast(100_000.0, PerSecond)],
};
/// A conversation replayed to an editor.
pub(crate) const FACE_REPLAY: Budget =
    Budget { work: "replay of 100,000 updates through `acpx acp`", limits: &[AtLeast(200_000.0, PerSecond)] };
/// The same in version 2, of an agent of version 1.
pub(crate) const FACE_REPLAY_V2: Budget =
    Budget { work: "the same to a client of version 2", limits: &[AtLeast(150_000.0, PerSecond)] };
/// The same with nothing to join.
pub(crate) const FACE_REPLAY_UNJOINED: Budget =
    Budget { work: "the same if no two can be joined", limits: &[AtLeast(200_000.0, PerSecond)] };
/// The same with nothing to join and each of them translated.
pub(crate) const FACE_REPLAY_TRANSLATED: Budget = Budget {
    work: "the same if no two can be joined, to version 2",
    limits: &[AtLeast(150_000.0, PerSecond)],
};
/// A client that never reads.
pub(crate) const STALLED: Budget =
    Budget { work: "memory for a client that reads nothing", limits: &[AtMost(5.0, Megabytes)] };

/// All of them, in the order of the report.
pub(crate) const BUDGETS: [&Budget; 31] = [
    &VERSION,
    &STATUS,
    &LIST,
    &EXEC,
    &COLD,
    &WARM,
    &CHUNKS,
    &HOST_MEMORY,
    &SESSION_MEMORY,
    &MANY_RECORDS,
    &MANY_LISTED,
    &MANY_CREATED,
    &LONG_RESTORE,
    &LONG_HISTORY,
    &LONG_REPLAY,
    &LONG_LOAD,
    &INDEX,
    &INDEXING,
    &TRANSCRIPTS_LISTED,
    &SEARCH,
    &COMMON_SEARCH,
    &STORED,
    &REPLAY,
    &FACE_MESSAGE,
    &FACE_PROMPT,
    &FACE_STORED,
    &FACE_REPLAY,
    &FACE_REPLAY_V2,
    &FACE_REPLAY_UNJOINED,
    &FACE_REPLAY_TRANSLATED,
    &STALLED,
];
