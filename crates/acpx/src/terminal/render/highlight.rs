//! Colours code by its syntax, with the sixteen colours of the terminal's own theme.

use std::sync::LazyLock;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Longer code is shown without colours: parsing it would delay the screen.
const MAX_BYTES: usize = 64 * 1024;
/// A longer line is shown without colours: the patterns of some languages are slow on it.
const MAX_LINE: usize = 2048;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// The scopes that have a colour. The innermost scope that has one wins.
static COLORS: LazyLock<Vec<(Scope, Style)>> = LazyLock::new(|| {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let color = |color| Style::new().fg(color);
    let rows = [
        ("comment", dim),
        ("string", color(Color::Green)),
        ("constant", color(Color::Cyan)),
        ("keyword.operator", Style::new()),
        ("keyword", color(Color::Magenta)),
        ("storage", color(Color::Magenta)),
        ("entity.name.function", color(Color::Blue)),
        ("support.function", color(Color::Blue)),
        ("entity.name.type", color(Color::Yellow)),
        ("entity.name.class", color(Color::Yellow)),
        ("entity.name.struct", color(Color::Yellow)),
        ("entity.name.tag", color(Color::Blue)),
        ("support.type", color(Color::Yellow)),
        ("support.class", color(Color::Yellow)),
        ("markup.inserted", color(Color::Green)),
        ("markup.deleted", color(Color::Red)),
        ("meta.diff.header", dim),
        ("meta.diff.range", color(Color::Cyan)),
    ];
    rows.into_iter().filter_map(|(name, style)| Some((Scope::new(name).ok()?, style))).collect()
});

/// The lines of a block of code in the language of its fence. Code of an unknown language has no colours.
pub(super) fn code(language: &str, code: &str) -> Vec<Vec<Span<'static>>> {
    let syntax = Some(code).filter(|code| code.len() <= MAX_BYTES).and_then(|_| syntax(language));
    match syntax {
        Some(syntax) => highlighted(syntax, code),
        None => code.lines().map(|line| vec![Span::raw(line.to_owned())]).collect(),
    }
}

fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    // Names that models write and the definitions do not know.
    let name = match language.to_ascii_lowercase().as_str() {
        "" | "text" | "console" | "output" => return None,
        "shell" | "zsh" | "sh" | "bash" => "bash".to_owned(),
        "typescript" | "ts" | "tsx" | "jsx" | "javascript" | "mjs" => "js".to_owned(),
        "jsonc" | "json5" | "jsonl" => "json".to_owned(),
        "toml" | "ini" => "properties".to_owned(),
        other => other.to_owned(),
    };
    SYNTAXES.find_syntax_by_token(&name)
}

fn highlighted(syntax: &SyntaxReference, code: &str) -> Vec<Vec<Span<'static>>> {
    let (mut state, mut stack) = (ParseState::new(syntax), ScopeStack::new());
    let line = |line: &str| {
        let shown = line.trim_end_matches('\n');
        let parsed = if line.len() > MAX_LINE { None } else { state.parse_line(line, &SYNTAXES).ok() };
        let Some(operations) = parsed else { return vec![Span::raw(shown.to_owned())] };
        let (mut spans, mut from) = (Vec::new(), 0);
        for (at, operation) in operations {
            let at = at.min(shown.len());
            push(&mut spans, shown.get(from..at).unwrap_or_default(), &stack);
            from = at.max(from);
            if stack.apply(&operation).is_err() {
                break;
            }
        }
        push(&mut spans, shown.get(from..).unwrap_or_default(), &stack);
        spans
    };
    syntect::util::LinesWithEndings::from(code).map(line).collect()
}

fn push(spans: &mut Vec<Span<'static>>, text: &str, stack: &ScopeStack) {
    if text.is_empty() {
        return;
    }
    let color = |scope: &Scope| COLORS.iter().find(|(known, _)| known.is_prefix_of(*scope));
    let style = stack.as_slice().iter().rev().find_map(color).map_or_else(Style::new, |(_, style)| *style);
    spans.push(Span::styled(text.to_owned(), style));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_known_language_has_colors_and_loses_no_character() {
        let text = "// note\nfn main() {\n    let x = \"y\";\n}\n";
        let lines = code("rust", text);
        let joined: Vec<String> =
            lines.iter().map(|line| line.iter().map(|span| span.content.as_ref()).collect()).collect();
        assert_eq!(joined, ["// note", "fn main() {", "    let x = \"y\";", "}"]);
        let style_of = |text: &str| {
            lines.iter().flatten().find(|span| span.content.contains(text)).map(|span| span.style)
        };
        assert_eq!(style_of("fn"), Some(Style::new().fg(Color::Magenta)));
        assert_eq!(style_of("y"), Some(Style::new().fg(Color::Green)));
        assert_eq!(style_of("note"), Some(Style::new().add_modifier(Modifier::DIM)));
    }

    #[test]
    fn unknown_language_and_very_long_code_have_no_colors() {
        let long = "let x = 1;\n".repeat(7000);
        for (language, text) in [("klingon", "let x"), ("", "let x"), ("rust", long.as_str())] {
            let lines = code(language, text);
            assert!(lines.iter().flatten().all(|span| span.style == Style::new()), "{language}");
            assert_eq!(lines.len(), text.lines().count());
        }
    }
}
