//! JSON Schemas of the objects that acpx prints, made from the tables of `docs/reference/json.md`. That page is the one
//! source: the tests validate the output of every command against these schemas.
//!
//! A section `### name` describes an object. A row has a member, its type and its meaning; `?` marks a member that may
//! be absent, `a.b` a member of the object `a`, and `a[].b` a member of the objects in the array `a`.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::Console;
use crate::cli::Format;

const PAGE: &str = include_str!("../../../../docs/reference/json.md");
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The form of an error inside other objects.
const ERROR: &str = "error_object";
const IDS: [(&str, &str); 3] = [
    ("acpxRecordId", "id of the record"),
    ("acpxSessionId", "id of the current ACP session"),
    ("agentSessionId", "the agent's inner id"),
];

/// Prints the schema of one object, or of everything that a line may be; false if there is no such object.
pub(crate) fn schema(name: Option<&str>, console: &mut Console<'_>) -> io::Result<bool> {
    let mut schemas = schemas();
    let document = match name {
        Some(name) if !schemas.contains_key(name) => return Ok(false),
        Some(name) => {
            schemas.retain(|other, _| other == name || other == ERROR);
            json!({ "$schema": DIALECT, "$ref": format!("#/$defs/{name}"), "$defs": schemas })
        }
        None => {
            let reference = |name: &String| json!({ "$ref": format!("#/$defs/{name}") });
            let mut lines: Vec<Value> = schemas.keys().filter(|name| *name != ERROR).map(reference).collect();
            let row = |row: &str| json!({ "$ref": format!("#/$defs/{row}") });
            let listed = json!({ "anyOf": [row("record"), row("native_session")] });
            lines.extend([listed, row("compare")].map(|row| json!({ "type": "array", "items": row })));
            let message = json!({ "const": "2.0", "description": "a message exchanged with the agent" });
            lines.push(json!({ "properties": { "jsonrpc": message }, "required": ["jsonrpc"] }));
            json!({ "$schema": DIALECT, "title": "a line of JSON output of acpx", "anyOf": lines, "$defs": schemas })
        }
    };
    match console.mode.format {
        Format::Json => serde_json::to_writer(&mut console.out, &document)?,
        Format::Text | Format::Quiet => serde_json::to_writer_pretty(&mut console.out, &document)?,
    }
    writeln!(console.out)?;
    console.flush()?;
    Ok(true)
}

/// The names of all objects, in order.
pub(crate) fn schema_names() -> Vec<String> {
    schemas().into_iter().map(|(name, _)| name).collect()
}

/// The schema of each object by its name.
fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut name = None;
    for line in PAGE.lines() {
        if line.starts_with('#') {
            name = match line.strip_prefix("### ") {
                Some(name) => Some(name),
                None => (line == "## Error").then_some(ERROR),
            };
            continue;
        }
        let Some(name) = name else { continue };
        let schema = schemas.entry(name).or_insert_with(|| json!({ "type": "object" }));
        if line.starts_with('{') && name != ERROR {
            add_common(schema, line);
        } else if let Some((member, kind, meaning)) = row(line) {
            add(schema, member, typed(kind, meaning));
        }
    }
    if let Some(data) = schemas.get_mut(ERROR).and_then(|error| error.pointer_mut("/properties/data")) {
        add_ids(data);
    }
    let mut line = json!({ "type": "object" });
    add(&mut line, "jsonrpc", json!({ "const": "2.0" }));
    add(&mut line, "id", json!({ "type": "null" }));
    add(&mut line, "error", json!({ "$ref": format!("#/$defs/{ERROR}") }));
    schemas.insert("error".to_owned(), line);
    schemas
}

/// Adds what an object's example shows: its `action`, and whether it has ids.
fn add_common(schema: &mut Value, example: &str) {
    let Ok(Value::Object(example)) = serde_json::from_str(example) else { return };
    if let Some(action) = example.get("action") {
        add(schema, "action", json!({ "const": action }));
    }
    if example.contains_key("acpxSessionId") {
        add_ids(schema);
    }
}

fn add_ids(schema: &mut Value) {
    for (id, meaning) in IDS {
        add(schema, &format!("{id}?"), json!({ "type": "string", "description": meaning }));
    }
}

/// The member, type and meaning of a table row.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.splitn(3, " | ");
    Some((cells.next()?.strip_suffix('`')?, cells.next()?, cells.next()?))
}

/// The schema of a member of this type.
fn typed(kind: &str, meaning: &str) -> Value {
    let mut schema = match kind {
        "time" => json!({ "type": "string", "format": "date-time" }),
        "array of strings" => json!({ "type": "array", "items": { "type": "string" } }),
        "array of objects" => json!({ "type": "array", "items": { "type": "object" } }),
        "string or null" => json!({ "type": ["string", "null"] }),
        "number or null" => json!({ "type": ["number", "null"] }),
        "object or null" => json!({ "type": ["object", "null"] }),
        "string or boolean" => json!({ "type": ["string", "boolean"] }),
        "[error](#error)" => json!({ "$ref": format!("#/$defs/{ERROR}") }),
        "`true`" => json!({ "const": true }),
        "`false`" => json!({ "const": false }),
        other => json!({ "type": other }),
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), meaning.into());
    }
    schema
}

/// Adds a member at a path below an object. Objects on the way to it that have no row of their own are required.
fn add(object: &mut Value, path: &str, member: Value) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let (key, is_array) = name.strip_suffix("[]").map_or((name, false), |key| (key, true));
    let required = key.strip_suffix('?').is_none() && object["properties"].get(key).is_none();
    let key = key.trim_end_matches('?');
    if required {
        match object.get_mut("required").and_then(Value::as_array_mut) {
            Some(names) => names.push(key.into()),
            None => object["required"] = json!([key]),
        }
    }
    let place = &mut object["properties"][key];
    match rest {
        None => *place = member,
        Some(rest) => {
            let below = if is_array { &mut place["items"] } else { place };
            if below.is_null() {
                *below = json!({ "type": "object" });
            }
            add(below, rest, member);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_page_become_schemas() {
        let schemas = schemas();
        let text = |meaning: &str| json!({ "type": "string", "description": meaning });
        assert_eq!(
            schemas["host_stopped"],
            json!({
                "type": "object",
                "required": ["action", "stopped"],
                "properties": {
                    "action": { "const": "host_stopped" },
                    "stopped": { "type": "boolean", "description": "`false` if no host ran" },
                },
            })
        );
        let data = &schemas[ERROR]["properties"]["data"];
        assert_eq!(data["required"], json!(["acpxCode", "detailCode", "origin", "retryable"]));
        assert_eq!(data["properties"]["acpxRecordId"], text("id of the record"));
        assert_eq!(schemas[ERROR]["required"], json!(["code", "message", "data"]));
    }

    fn check_types(value: &Value) {
        match value {
            Value::Object(object) => {
                let known = ["string", "number", "boolean", "object", "array", "null"];
                if let Some(Value::String(kind)) = object.get("type") {
                    assert!(known.contains(&kind.as_str()), "{kind}");
                }
                object.values().for_each(check_types);
            }
            Value::Array(items) => items.iter().for_each(check_types),
            _ => {}
        }
    }

    #[test]
    fn every_type_of_the_page_is_one_of_json_schema() {
        check_types(&Value::Object(schemas()));
    }
}
