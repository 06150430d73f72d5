//! Colour: whether a stream has it, and the few styles that output is written in.
//!
//! A style is set by a typed call on `StyledWriter`, never by bytes in the text. So a stream that removes control
//! characters removes those of agents, and only acpx can change a style. The styles use the 16 base colours alone, which
//! every theme, light or dark, defines readably.

use std::ffi::OsString;
use std::io::{self, Write};

use anstyle::AnsiColor;

use super::sanitize::Clean;
use crate::cli::{ColorMode, Format};

/// What a part of the output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// Less important than the text around it.
    Dim,
    /// More important.
    Bold,
    /// Success.
    Good,
    /// Something to look at.
    Warning,
    /// A failure.
    Bad,
    /// A name to find with the eye, such as an agent or a session.
    Accent,
}

impl Style {
    fn sequences(self) -> anstyle::Style {
        let style = anstyle::Style::new();
        let color = |color: AnsiColor| style.fg_color(Some(color.into()));
        match self {
            Self::Plain => style,
            Self::Dim => style.dimmed(),
            Self::Bold => style.bold(),
            Self::Good => color(AnsiColor::Green),
            Self::Warning => color(AnsiColor::Yellow),
            Self::Bad => color(AnsiColor::Red).bold(),
            Self::Accent => color(AnsiColor::Cyan),
        }
    }
}

/// Text in parts, each in its style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StyledText(Vec<(Style, String)>);

impl StyledText {
    /// Adds a part.
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// Adds the parts of another text.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl From<String> for StyledText {
    fn from(text: String) -> Self {
        Self::default().with(Style::Plain, text)
    }
}

/// The variables that decide about colour, by their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ColorVariables {
    /// `NO_COLOR` is set and not empty.
    no_color: bool,
    /// `CLICOLOR_FORCE` is set, neither empty nor 0.
    is_forced: bool,
    /// `CLICOLOR` is 0, or `TERM` is `dumb`.
    is_refused: bool,
}

impl ColorVariables {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            no_color: value("NO_COLOR").is_some(),
            is_forced: value("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
            is_refused: value("CLICOLOR").is_some_and(|value| value == "0")
                || value("TERM").is_some_and(|value| value == "dumb"),
        }
    }

    /// Whether a stream has colour. The flag wins over the variables, and `NO_COLOR` over the others.
    fn decide(self, mode: ColorMode, is_terminal: bool) -> bool {
        match mode {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => !self.no_color && (self.is_forced || is_terminal && !self.is_refused),
        }
    }
}

/// Whether a stream of the program has colour.
pub(super) fn has_color(mode: ColorMode, is_terminal: bool) -> bool {
    ColorVariables::read(|name| std::env::var_os(name)).decide(mode, is_terminal)
}

/// A stream that can change the style of what is written to it.
pub(crate) struct StyledWriter<'a> {
    sink: Sink<'a>,
    has_color: bool,
}

enum Sink<'a> {
    /// Writes every byte. For a pipe.
    Exact(Box<dyn Write + 'a>),
    /// Removes control characters from text. For a terminal, and for what is shown on one later.
    Clean(Clean<Box<dyn Write + 'a>>),
}

impl<'a> StyledWriter<'a> {
    /// A stream of this format. JSON has no colour.
    pub(super) fn new(inner: impl Write + 'a, format: Format, is_terminal: bool, has_color: bool) -> Self {
        let has_color = has_color && format != Format::Json;
        let inner: Box<dyn Write + 'a> = Box::new(inner);
        let sink = if is_terminal || has_color {
            Sink::Clean(Clean::new(inner, format))
        } else {
            Sink::Exact(inner)
        };
        Self { sink, has_color }
    }

    /// Writes a text in a style. Every line has the sequences of its own, as pagers expect.
    pub(crate) fn styled(&mut self, style: Style, text: &str) -> io::Result<()> {
        for line in text.split_inclusive('\n') {
            let words = line.trim_end_matches('\n');
            let style = if words.is_empty() { Style::Plain } else { style }.sequences();
            self.sequence(&style.render().to_string())?;
            self.write_all(words.as_bytes())?;
            self.sequence(&style.render_reset().to_string())?;
            self.write_all(&line.as_bytes()[words.len()..])?;
        }
        Ok(())
    }

    /// Writes every part in its style.
    pub(crate) fn text(&mut self, text: &StyledText) -> io::Result<()> {
        text.0.iter().try_for_each(|(style, words)| self.styled(*style, words))
    }

    /// Writes a sequence of acpx, which is not cleaned.
    fn sequence(&mut self, sequence: &str) -> io::Result<()> {
        match &mut self.sink {
            Sink::Clean(clean) if self.has_color => clean.inner().write_all(sequence.as_bytes()),
            Sink::Clean(_) | Sink::Exact(_) => Ok(()),
        }
    }
}

impl Write for StyledWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Exact(inner) => inner.write(bytes),
            Sink::Clean(inner) => inner.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Exact(inner) => inner.flush(),
            Sink::Clean(inner) => inner.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(variables: &[(&str, &str)], mode: ColorMode) -> [bool; 2] {
        let value =
            |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
        let read = ColorVariables::read(value);
        [read.decide(mode, true), read.decide(mode, false)]
    }

    #[test]
    fn color_of_a_terminal_and_of_a_pipe_follows_flag_and_variables() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, ColorMode, [bool; 2]); 13] = [
            (&[], ColorMode::Auto, [true, false]),
            (&[], ColorMode::Always, [true, true]),
            (&[], ColorMode::Never, [false, false]),
            (&[("NO_COLOR", "1")], ColorMode::Auto, [false, false]),
            (&[("NO_COLOR", "")], ColorMode::Auto, [true, false]),
            (&[("NO_COLOR", "1")], ColorMode::Always, [true, true]),
            (&[("CLICOLOR_FORCE", "1")], ColorMode::Auto, [true, true]),
            (&[("CLICOLOR_FORCE", "0")], ColorMode::Auto, [true, false]),
            (&[("CLICOLOR_FORCE", "")], ColorMode::Auto, [true, false]),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], ColorMode::Auto, [false, false]),
            (&[("CLICOLOR_FORCE", "1")], ColorMode::Never, [false, false]),
            (&[("CLICOLOR", "0")], ColorMode::Auto, [false, false]),
            (&[("TERM", "dumb")], ColorMode::Auto, [false, false]),
        ];
        for (variables, mode, expected) in cases {
            assert_eq!(decided(variables, mode), expected, "{variables:?} {mode:?}");
        }
    }

    /// What an agent sends, in a style and without one.
    fn written(format: Format, is_terminal: bool, has_color: bool) -> String {
        let mut bytes = Vec::new();
        let mut out = StyledWriter::new(&mut bytes, format, is_terminal, has_color);
        out.styled(Style::Bad, "a\u{1b}[2J\n\nb\u{9b}m").unwrap();
        write!(out, "\u{1b}]0;c").unwrap();
        drop(out);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn only_style_calls_write_escape_sequences() {
        let exact = "a\u{1b}[2J\n\nb\u{9b}m\u{1b}]0;c";
        let red = "\u{1b}[1m\u{1b}[31m";
        let cases = [
            (Format::Text, true, true, format!("{red}a[2J\u{1b}[0m\n\n{red}bm\u{1b}[0m]0;c")),
            (Format::Text, true, false, "a[2J\n\nbm]0;c".to_owned()),
            (Format::Text, false, true, format!("{red}a[2J\u{1b}[0m\n\n{red}bm\u{1b}[0m]0;c")),
            (Format::Text, false, false, exact.to_owned()),
            (Format::Json, false, true, exact.to_owned()),
        ];
        for (format, is_terminal, has_color, expected) in cases {
            assert_eq!(
                written(format, is_terminal, has_color),
                expected,
                "{format:?} {is_terminal} {has_color}"
            );
        }
    }
}
