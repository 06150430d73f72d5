//! Times as agents write them: RFC 3339 text, or a number since 1970 in seconds or a smaller unit.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, from_str};

use crate::model::Timestamp;

/// Reads a time that a member has; `None` if it is no time.
pub(super) fn written_time<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Timestamp>, D::Error> {
    let raw = <&RawValue>::deserialize(source)?.get();
    Ok(if raw.len() > 100 { None } else { from_str(raw).ok().as_ref().and_then(time_of) })
}

/// The time that a value means, if any.
pub(super) fn time_of(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => time_of_text(text),
        Value::Number(number) => match number.as_i64() {
            Some(number) => time_of_number(number),
            // A fraction is of seconds or milliseconds.
            None => time_of_fraction(number.as_f64()?),
        },
        _ => None,
    }
}

/// The time that a text means, in UTC unless it says otherwise.
pub(super) fn time_of_text(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let in_utc = || format!("{}Z", text.replacen(' ', "T", 1));
    Timestamp::parse(text).or_else(|_| Timestamp::parse(&in_utc())).ok()
}

/// The time that a number means. Its size tells the unit: seconds, milliseconds, microseconds or nanoseconds.
pub(super) fn time_of_number(number: i64) -> Option<Timestamp> {
    let millis = match number.unsigned_abs() {
        0..100_000_000_000 => number.checked_mul(1000)?,
        100_000_000_000..100_000_000_000_000 => number,
        100_000_000_000_000..100_000_000_000_000_000 => number / 1000,
        _ => number / 1_000_000,
    };
    Timestamp::from_millis(millis).ok()
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
fn time_of_fraction(number: f64) -> Option<Timestamp> {
    let millis = if number.abs() < 1e11 { number * 1000.0 } else { number };
    if millis.is_finite() && millis.abs() < 1e15 { Timestamp::from_millis(millis as i64).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_in_every_unit_are_read_and_others_are_none() {
        let expected = Timestamp::parse("2026-11-17T09:30:15Z").unwrap();
        for written in [
            json!("2026-11-17T09:30:15Z"),
            json!("2026-11-17T10:30:15.000+01:00"),
            json!("2026-11-17 09:30:15"),
            json!(1_794_907_815),
            json!(1_794_907_815_000_i64),
            json!(1_794_907_815_000_000_i64),
            json!(1_794_907_815_000_000_000_i64),
            json!(1_794_907_815.0),
        ] {
            assert_eq!(time_of(&written), Some(expected), "{written}");
        }
        for invalid in [json!("yesterday"), json!(""), json!(null), json!(1e300), json!(u64::MAX), json!([1])]
        {
            assert_eq!(time_of(&invalid), None, "{invalid}");
        }
    }
}
