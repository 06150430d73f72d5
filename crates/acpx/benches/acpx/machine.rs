//! What a report has to say about the machine it was made on.

use std::fs;
use std::thread;
use std::time::SystemTime;

use acpx_core::model::Timestamp;

/// Cores, memory, processor, how busy it is, and the day.
pub(crate) fn describe() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| {
        let kilobytes: u64 = text.strip_suffix(" kB")?.parse().ok()?;
        Some(format!("{} GB", kilobytes.div_ceil(1 << 20)))
    });
    let processor = field("/proc/cpuinfo", "model name");
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load = load
        .as_deref()
        .and_then(|text| text.split(' ').next())
        .map(|load| format!("load {load} at the start"));
    let facts = [
        Some(format!("{cores} cores")),
        memory,
        processor,
        Some(std::env::consts::OS.to_owned()),
        load,
        day(),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The value of a line `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let named = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(named.1.trim().to_owned())
}

fn day() -> Option<String> {
    let millis = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
    let now = Timestamp::from_millis(millis.try_into().ok()?).ok()?.to_string();
    now.split('T').next().map(str::to_owned)
}
