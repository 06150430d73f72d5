//! The kinds of form fields. Typed values and the agent's defaults are checked by the same rules, so that every answer
//! satisfies the agent's own schema.

use regex_lite::{Regex, RegexBuilder};
use serde_json::{Value, json};

use super::{DECLINES, HYPHEN, strings};
use crate::output::sanitize::agent_text;

/// How many choices of a list are shown.
const SHOWN: usize = 64;
/// The maximum size of a compiled pattern. Checking a line takes time proportional to its length times this.
const PATTERN_BYTES: usize = 1 << 16;

/// The kind of a field, with its constraints.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FormFieldKind {
    Text {
        shortest: usize,
        longest: usize,
        format: Option<String>,
        pattern: Option<String>,
    },
    /// One of these: value and title.
    Choice(Vec<(String, String)>),
    /// Several of these without duplicates, with a minimum and a maximum number.
    Choices {
        of: Vec<(String, String)>,
        fewest: usize,
        most: usize,
    },
    Integer {
        least: Option<i64>,
        most: Option<i64>,
    },
    Number {
        least: Option<f64>,
        most: Option<f64>,
    },
    Boolean,
}

impl FormFieldKind {
    /// Reads a property of a form; `None` if its type cannot be typed.
    pub(super) fn read(property: &Value) -> Option<Self> {
        let text = |name: &str| property[name].as_str().map(str::to_owned);
        let bound = |name: &str, otherwise: usize| {
            property[name].as_u64().and_then(|bound| usize::try_from(bound).ok()).unwrap_or(otherwise)
        };
        Some(match property["type"].as_str()? {
            "string" => match choices(property) {
                Some(of) if of.is_empty() => return None,
                Some(of) => Self::Choice(of),
                None => Self::Text {
                    shortest: bound("minLength", 0),
                    longest: bound("maxLength", usize::MAX),
                    format: text("format"),
                    pattern: text("pattern"),
                },
            },
            "array" => Self::Choices {
                of: choices(&property["items"]).filter(|of| !of.is_empty())?,
                fewest: bound("minItems", 0),
                most: bound("maxItems", usize::MAX),
            },
            "integer" => Self::Integer {
                least: rounded(&property["minimum"], f64::ceil),
                most: rounded(&property["maximum"], f64::floor),
            },
            "number" => {
                Self::Number { least: property["minimum"].as_f64(), most: property["maximum"].as_f64() }
            }
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The lines with the choices.
    pub(super) fn list(&self) -> String {
        let (Self::Choice(of) | Self::Choices { of, .. }) = self else { return String::new() };
        let mut list = String::new();
        for (number, (_, title)) in (1..).zip(of.iter().take(SHOWN)) {
            list.extend([&format!("  {number}  "), &agent_text(title), "\n"]);
        }
        if let more @ 1.. = of.len().saturating_sub(SHOWN) {
            list.extend(["  and ", &more.to_string(), " more, which can be typed in full\n"]);
        }
        list
    }

    /// What may be typed, in a few words.
    pub(super) fn words(&self) -> String {
        let with = |what: &str, limits: Option<String>| match limits {
            Some(limits) => format!("{what}, {limits}"),
            None => what.to_owned(),
        };
        match self {
            Self::Text { shortest, longest, format, pattern } => {
                let what = format.as_deref().map_or_else(|| "text".to_owned(), agent_text);
                let limits = limits(at_least(*shortest), at_most(*longest));
                let words = with(&what, limits.map(|limits| format!("{limits} characters")));
                match pattern {
                    Some(pattern) => {
                        let unchecked =
                            if compiled(pattern).is_some() { "" } else { ", which is not checked here" };
                        format!("{words}, matching {}{unchecked}", agent_text(pattern))
                    }
                    None => words,
                }
            }
            Self::Choice(_) => "a number of the list".to_owned(),
            Self::Choices { fewest, most, .. } => {
                let limits = limits(at_least(*fewest), at_most(*most));
                with("numbers of the list", limits.map(|limits| format!("{limits} of them")))
            }
            Self::Integer { least, most } => with("whole number", limits(*least, *most)),
            Self::Number { least, most } => with("number", limits(*least, *most)),
            Self::Boolean => "y/n".to_owned(),
        }
    }

    /// Whether the sign that declines may be a value. It is never a choice, a number or a formatted text.
    pub(super) fn may_be_hyphen(&self) -> bool {
        matches!(self, Self::Text { format: None, .. })
    }

    /// Interprets a typed line.
    pub(super) fn typed(&self, typed: &str) -> Result<Value, String> {
        let value = match self {
            Self::Text { .. } => json!(if typed == HYPHEN { DECLINES } else { typed }),
            Self::Choice(of) => json!(chosen(of, typed)?),
            Self::Choices { of, .. } => json!(all_chosen(of, typed)?),
            Self::Integer { .. } => {
                json!(typed.parse::<i64>().map_err(|_| "type a whole number".to_owned())?)
            }
            Self::Number { .. } => {
                let number: Option<f64> = typed.parse().ok().filter(|number: &f64| number.is_finite());
                json!(number.ok_or("type a number")?)
            }
            Self::Boolean => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => json!(true),
                "n" | "no" | "false" => json!(false),
                _ => return Err("type y or n".to_owned()),
            },
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Why a value is invalid, if it is.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        match self {
            Self::Text { shortest, longest, format, pattern } => {
                let text = value.as_str().ok_or("type a text")?;
                let length = text.chars().count();
                if length < *shortest || length > *longest {
                    let between = between("type", at_least(*shortest), at_most(*longest));
                    return Err(format!("{between} characters"));
                }
                if let Some(format) = format.as_deref().filter(|format| !is_of(text, format)) {
                    return Err(format!("that is no {}", agent_text(format)));
                }
                let is_right = |pattern: &&String| compiled(pattern).is_none_or(|regex| regex.is_match(text));
                match pattern.as_ref().filter(|pattern| !is_right(pattern)) {
                    Some(pattern) => Err(format!("type what matches {}", agent_text(pattern))),
                    None => Ok(()),
                }
            }
            Self::Choice(of) => offered(of, value),
            Self::Choices { of, fewest, most } => {
                let values = value.as_array().ok_or("choose from the list")?;
                values.iter().try_for_each(|value| offered(of, value))?;
                if values.len() < *fewest || values.len() > *most {
                    return Err(between("choose", at_least(*fewest), at_most(*most)));
                }
                Ok(())
            }
            Self::Integer { least, most } => {
                let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
                let number = rounded(value, f64::trunc).filter(|_| is_whole);
                within(&number.ok_or("type a whole number")?, *least, *most)
            }
            Self::Number { least, most } => within(&value.as_f64().ok_or("type a number")?, *least, *most),
            Self::Boolean => value.as_bool().map(|_| ()).ok_or_else(|| "type y or n".to_owned()),
        }
    }
}

/// Rounds a number in one direction: a schema may write the bounds of integers as fractions. Values out of range
/// saturate.
fn rounded(number: &Value, towards: fn(f64) -> f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates, as is wanted here")]
    let of_float = |number: f64| towards(number) as i64;
    number.as_i64().or_else(|| number.as_f64().map(of_float))
}

/// The values that may be chosen, each with its title; `None` if there is no list of them.
fn choices(property: &Value) -> Option<Vec<(String, String)>> {
    let titled = property["oneOf"].as_array().or_else(|| property["anyOf"].as_array());
    if titled.is_none() && !property["enum"].is_array() {
        return None;
    }
    let titled = titled.into_iter().flatten().filter_map(|option| {
        let value = option["const"].as_str()?;
        Some((value.to_owned(), option["title"].as_str().unwrap_or(value).to_owned()))
    });
    let plain = strings(&property["enum"]).into_iter().map(|value| (value.to_owned(), value.to_owned()));
    Some(titled.chain(plain).collect())
}

/// A choice by its number, if that is shown, or by its value.
fn chosen<'a>(of: &'a [(String, String)], typed: &str) -> Result<&'a str, String> {
    let shown = of.get(..SHOWN).unwrap_or(of);
    let by_number = typed.parse::<usize>().ok().and_then(|number| shown.get(number.checked_sub(1)?));
    let by_value = || of.iter().find(|(value, title)| value == typed || title == typed);
    let found = by_number.or_else(by_value).map(|(value, _)| value.as_str());
    found.ok_or_else(|| format!("type a number from 1 to {}", shown.len()))
}

/// Choices separated by commas or blanks. Duplicates count once.
fn all_chosen<'a>(of: &'a [(String, String)], typed: &str) -> Result<Vec<&'a str>, String> {
    let mut all = Vec::new();
    for part in typed.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        // A value may contain blanks.
        let found = match chosen(of, part) {
            Ok(value) => vec![value],
            Err(_) => part.split_whitespace().map(|word| chosen(of, word)).collect::<Result<_, _>>()?,
        };
        for value in found {
            if !all.contains(&value) {
                all.push(value);
            }
        }
    }
    Ok(all)
}

fn offered(of: &[(String, String)], value: &Value) -> Result<(), String> {
    let is_offered = of.iter().any(|(offered, _)| Some(offered.as_str()) == value.as_str());
    if is_offered { Ok(()) } else { Err("choose from the list".to_owned()) }
}

/// A pattern that can be checked here. JSON Schema's dialect has more features, such as lookahead.
fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().ok()
}

fn is_of(text: &str, format: &str) -> bool {
    match format {
        "email" => text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()),
        "uri" => text.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()),
        "date" => is_date(text),
        "date-time" => {
            text.split_once(['T', 't']).is_some_and(|(day, time)| is_date(day) && !time.is_empty())
        }
        _ => true,
    }
}

/// A date such as 2026-11-16.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize, most: u32| {
        part.len() == digits && part.parse::<u32>().is_ok_and(|number| number >= 1 && number <= most)
    };
    matches!(parts[..], [year, month, day] if number(year, 4, 9999) && number(month, 2, 12) && number(day, 2, 31))
}

fn at_least(bound: usize) -> Option<usize> {
    Some(bound).filter(|bound| *bound > 0)
}

fn at_most(bound: usize) -> Option<usize> {
    Some(bound).filter(|bound| *bound < usize::MAX)
}

fn within<N: PartialOrd + std::fmt::Display>(
    number: &N,
    least: Option<N>,
    most: Option<N>,
) -> Result<(), String> {
    let is_right =
        least.as_ref().is_none_or(|least| number >= least) && most.as_ref().is_none_or(|most| number <= most);
    if is_right { Ok(()) } else { Err(between("type", least, most)) }
}

fn between<N: std::fmt::Display>(what: &str, least: Option<N>, most: Option<N>) -> String {
    limits(least, most).map_or_else(|| what.to_owned(), |limits| format!("{what} {limits}"))
}

fn limits<N: std::fmt::Display>(least: Option<N>, most: Option<N>) -> Option<String> {
    match (least, most) {
        (Some(least), Some(most)) => Some(format!("from {least} to {most}")),
        (Some(least), None) => Some(format!("{least} or more")),
        (None, Some(most)) => Some(format!("{most} or less")),
        (None, None) => None,
    }
}
