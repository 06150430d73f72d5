//! Times of the same work, and how they are taken: those that are compared take turns, and who goes first changes
//! from round to round, so that whatever else the machine does hits all of them.

use std::fmt;
use std::time::Duration;

/// The times of one work, at least one, the shortest first.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// The shortest: what the work takes when nothing is in its way.
    pub(crate) fn least(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }

    /// How often another work's shortest time goes into ours.
    pub(crate) fn over(&self, other: &Self) -> f64 {
        self.least().as_secs_f64() / other.least().as_secs_f64()
    }

    /// Half of them are shorter.
    pub(crate) fn median(&self) -> Duration {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    /// Of a hundred, one is longer.
    pub(crate) fn p99(&self) -> String {
        millis(self.0.get(self.0.len() * 99 / 100).copied().unwrap_or_default())
    }
}

/// The shortest, and the median in brackets.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", millis(self.least()), millis(self.median()))
    }
}

/// A time with as many places as mean something.
fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match millis {
        0.0..0.1 => format!("{:.0} µs", millis * 1000.0),
        0.1..10.0 => format!("{millis:.2} ms"),
        10.0..100.0 => format!("{millis:.1} ms"),
        _ => format!("{millis:.0} ms"),
    }
}

/// The times of the same work, done by each.
pub(crate) struct Race {
    /// The least that any program would have to do.
    pub(crate) floor: Samples,
    /// Our program.
    pub(crate) ours: Samples,
    /// npm acpx, if it takes part.
    pub(crate) npm: Option<Samples>,
}

/// Something that is timed: it says itself how long it took, so that what prepares it does not count.
pub(crate) type Work<'a> = &'a mut (dyn FnMut() -> Duration + 'a);

impl Race {
    /// Lets them run in turn, so many rounds.
    pub(crate) fn run<'a>(rounds: usize, floor: Work<'a>, ours: Work<'a>, npm: Option<Work<'a>>) -> Self {
        let mut works = vec![floor, ours];
        works.extend(npm);
        let mut times = vec![Vec::new(); works.len()];
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..works.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                times[index].push(works[index]());
            }
        }
        let mut samples = times.into_iter().map(Samples::new);
        let mut next = || samples.next();
        let (floor, ours) = next().zip(next()).expect("two works always take part");
        Self { floor, ours, npm: next() }
    }

    /// How many times faster than npm acpx we are.
    pub(crate) fn faster(&self) -> Option<f64> {
        Some(self.npm.as_ref()?.over(&self.ours))
    }

    /// The same with the floor taken off both.
    pub(crate) fn faster_net(&self) -> Option<f64> {
        let net = |samples: &Samples| samples.least().saturating_sub(self.floor.least()).as_secs_f64();
        Some(net(self.npm.as_ref()?) / net(&self.ours))
    }
}

/// The times of one work alone.
pub(crate) fn alone(rounds: usize, mut work: impl FnMut() -> Duration) -> Samples {
    Samples::new((0..rounds).map(|_| work()).collect())
}
