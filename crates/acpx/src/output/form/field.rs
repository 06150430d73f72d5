//! One field of a form: how it is asked for, and what may be typed into it.

use acpx_core::acp::client::is_secret_field;
use serde_json::{Value, json};

use super::super::question::one_line;
use super::{DECLINES, HYPHEN, WORDS, strings};

/// How many choices a field may have.
const CHOICES: usize = 64;

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its name in the answer.
    pub(super) key: String,
    title: String,
    description: Option<String>,
    kind: Kind,
    default: Option<Value>,
    is_required: bool,
    is_secret: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text {
        shortest: usize,
        longest: usize,
        format: Option<String>,
    },
    /// One of these: value and title.
    Choice(Vec<(String, String)>),
    /// Any of these, between so many and so many.
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

impl Field {
    /// Reads a property of a form; `None` if it is of a type that cannot be typed.
    pub(super) fn read(key: &str, property: &Value, is_required: bool) -> Option<Self> {
        let text = |name: &str| property[name].as_str().map(str::to_owned);
        let bound = |name: &str, otherwise: usize| {
            property[name].as_u64().and_then(|bound| usize::try_from(bound).ok()).unwrap_or(otherwise)
        };
        let format = text("format");
        let kind = match property["type"].as_str()? {
            "string" => match choices(property) {
                of if !of.is_empty() => Kind::Choice(of),
                _ => Kind::Text {
                    shortest: bound("minLength", 0),
                    longest: bound("maxLength", usize::MAX),
                    format: format.clone(),
                },
            },
            "array" => match choices(&property["items"]) {
                of if of.is_empty() => return None,
                of => Kind::Choices { of, fewest: bound("minItems", 0), most: bound("maxItems", usize::MAX) },
            },
            "integer" => {
                Kind::Integer { least: property["minimum"].as_i64(), most: property["maximum"].as_i64() }
            }
            "number" => {
                Kind::Number { least: property["minimum"].as_f64(), most: property["maximum"].as_f64() }
            }
            "boolean" => Kind::Boolean,
            _ => return None,
        };
        let is_secret = matches!(kind, Kind::Text { .. }) && is_secret_field(key, property);
        Some(Self {
            key: key.to_owned(),
            title: text("title").unwrap_or_else(|| key.to_owned()),
            description: text("description"),
            kind,
            default: Some(property["default"].clone()).filter(|default| !default.is_null()),
            is_required,
            is_secret,
        })
    }

    /// Whether what is typed into it is nobody's to see.
    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// The lines that ask for it.
    pub(super) fn asks(&self) -> String {
        let mut asks = String::new();
        if let Some(description) = &self.description {
            asks.extend(["  ", &one_line(description, WORDS), "\n"]);
        }
        if let Kind::Choice(of) | Kind::Choices { of, .. } = &self.kind {
            for (number, (_, title)) in (1..).zip(of) {
                asks.extend([&format!("  {number}  "), &one_line(title, WORDS), "\n"]);
            }
        }
        let kind = match &self.kind {
            Kind::Text { format: Some(format), .. } => one_line(format, WORDS),
            Kind::Text { .. } => "text".to_owned(),
            Kind::Choice(_) => "a number of the list".to_owned(),
            Kind::Choices { .. } => "numbers of the list".to_owned(),
            Kind::Integer { .. } => "whole number".to_owned(),
            Kind::Number { .. } => "number".to_owned(),
            Kind::Boolean => "y/n".to_owned(),
        };
        let empty = match (&self.default, self.is_required) {
            (Some(default), _) => format!(", empty for {}", one_line(&plain(default), WORDS)),
            (None, true) => ", required".to_owned(),
            (None, false) => ", empty to skip".to_owned(),
        };
        let hidden = if self.is_secret { ", not shown as it is typed" } else { "" };
        // What is chosen or counted, or has a format, is never the sign by itself.
        let hyphen = match self.kind {
            Kind::Text { format: None, .. } => format!(", {HYPHEN} for a hyphen"),
            _ => String::new(),
        };
        let title = one_line(&self.title, WORDS);
        format!("{asks}[question] {title} ({kind}{hidden}{empty}, {DECLINES} to decline{hyphen}): ")
    }

    /// What a line means for this field; `None` leaves it out.
    pub(super) fn value(&self, typed: &str) -> Result<Option<Value>, String> {
        if typed.is_empty() {
            return match (&self.default, self.is_required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err(format!("{} is required", one_line(&self.title, WORDS))),
            };
        }
        match &self.kind {
            Kind::Text { shortest, longest, format } => {
                let typed = if typed == HYPHEN { DECLINES } else { typed };
                written(typed, *shortest, *longest, format.as_deref())
            }
            Kind::Choice(of) => Ok(json!(chosen(of, typed)?)),
            Kind::Choices { of, fewest, most } => {
                let split = typed.split([',', ' ']).filter(|word| !word.is_empty());
                let chosen: Vec<&str> = split.map(|word| chosen(of, word)).collect::<Result<_, _>>()?;
                if chosen.len() < *fewest || chosen.len() > *most {
                    return Err(between(
                        "choose",
                        Some(*fewest),
                        Some(*most).filter(|most| *most < usize::MAX),
                    ));
                }
                Ok(json!(chosen))
            }
            Kind::Integer { least, most } => {
                let number: i64 = typed.parse().map_err(|_| "type a whole number".to_owned())?;
                within(number, *least, *most).map(|number| json!(number))
            }
            Kind::Number { least, most } => {
                let number: Option<f64> = typed.parse().ok().filter(|number: &f64| number.is_finite());
                within(number.ok_or("type a number")?, *least, *most).map(|number| json!(number))
            }
            Kind::Boolean => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(json!(true)),
                "n" | "no" | "false" => Ok(json!(false)),
                _ => Err("type y or n".to_owned()),
            },
        }
        .map(Some)
    }
}

/// The values that may be chosen, each with its title.
fn choices(property: &Value) -> Vec<(String, String)> {
    let titled = property["oneOf"].as_array().or_else(|| property["anyOf"].as_array());
    let titled = titled.into_iter().flatten().filter_map(|option| {
        let value = option["const"].as_str()?;
        Some((value.to_owned(), option["title"].as_str().unwrap_or(value).to_owned()))
    });
    let plain = strings(&property["enum"]).into_iter().map(|value| (value.to_owned(), value.to_owned()));
    titled.chain(plain).take(CHOICES).collect()
}

/// A choice by its number, or by its value.
fn chosen<'a>(of: &'a [(String, String)], typed: &str) -> Result<&'a str, String> {
    let by_number = typed.parse::<usize>().ok().and_then(|number| of.get(number.checked_sub(1)?));
    let by_value = || of.iter().find(|(value, title)| value == typed || title == typed);
    let found = by_number.or_else(by_value).map(|(value, _)| value.as_str());
    found.ok_or_else(|| format!("type a number from 1 to {}", of.len()))
}

fn written(typed: &str, shortest: usize, longest: usize, format: Option<&str>) -> Result<Value, String> {
    let length = typed.chars().count();
    if length < shortest || length > longest {
        let longest = Some(longest).filter(|longest| *longest < usize::MAX);
        return Err(format!("{} characters", between("type", Some(shortest), longest)));
    }
    let is_right = match format {
        Some("email") => {
            typed.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
        }
        Some("uri") => {
            typed.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty())
        }
        Some("date") => is_date(typed),
        Some("date-time") => {
            typed.split_once(['T', 't']).is_some_and(|(day, time)| is_date(day) && !time.is_empty())
        }
        _ => true,
    };
    if is_right { Ok(json!(typed)) } else { Err(format!("that is no {}", format.unwrap_or("text"))) }
}

/// A day as in 2026-11-16.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize, most: u32| {
        part.len() == digits && part.parse::<u32>().is_ok_and(|number| number >= 1 && number <= most)
    };
    matches!(parts[..], [year, month, day] if number(year, 4, 9999) && number(month, 2, 12) && number(day, 2, 31))
}

fn within<N: PartialOrd + std::fmt::Display>(
    number: N,
    least: Option<N>,
    most: Option<N>,
) -> Result<N, String> {
    let is_right = least.as_ref().is_none_or(|least| number >= *least)
        && most.as_ref().is_none_or(|most| number <= *most);
    if is_right { Ok(number) } else { Err(between("type", least, most)) }
}

fn between<N: std::fmt::Display>(what: &str, least: Option<N>, most: Option<N>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
        (Some(least), None) => format!("{what} {least} or more"),
        (None, Some(most)) => format!("{what} {most} or less"),
        (None, None) => what.to_owned(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
