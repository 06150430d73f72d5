//! Markdown of an agent as styled lines that fit a width.
//!
//! Nothing of the text is lost: what cannot be shown as Markdown, such as HTML, is shown as text. A link shows its
//! address, so that no text can pretend to lead somewhere else.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};

use super::highlight;
use super::wrap::{Prefix, width_of_spans, wrap, wrap_code};

/// A column of a table never gets narrower than this.
const LEAST_COLUMN: usize = 6;

/// The lines of a text.
pub(crate) fn render(text: &str, width: usize) -> Vec<Line<'static>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer { width, ..Writer::default() };
    for event in Parser::new_ext(text, options) {
        writer.event(event);
    }
    writer.end_paragraph();
    writer.lines
}

/// The length of the first part of a text that more text cannot change: whole blocks, up to an empty line.
pub(crate) fn finished_part(text: &str) -> usize {
    let (mut at, mut finished, mut fence) = (0, 0, None);
    let mut after_blank = true;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let indent = content.len() - content.trim_start().len();
        let mark = fence_of(content.trim_start());
        // Text after a list may still belong to its last item; only a block at the margin ends it.
        let begins_block = after_blank && indent == 0 && !content.is_empty() && !is_list_item(content);
        if fence.is_none() && begins_block && at > 0 {
            finished = at;
        }
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if mark == open => fence = None,
            _ => {}
        }
        after_blank = fence.is_none() && content.is_empty();
        at += line.len();
    }
    finished
}

fn fence_of(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark))
}

fn is_list_item(line: &str) -> bool {
    let after_number = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let is_numbered = after_number.len() < line.len() && after_number.starts_with(['.', ')']);
    is_numbered || line.starts_with(['-', '*', '+'])
}

#[derive(Default)]
struct Writer {
    width: usize,
    lines: Vec<Line<'static>>,
    /// The paragraph that is being read.
    spans: Vec<Span<'static>>,
    /// The styles of the enclosing elements.
    styles: Vec<Style>,
    /// The blocks around the paragraph.
    blocks: Vec<Block>,
    /// The address of the link that is being read, and where its text begins.
    link: Option<(String, usize)>,
    /// The language and the text of the code block that is being read.
    code: Option<(String, String)>,
    table: Option<MarkdownTable>,
    /// Whether the next block is separated from the previous one.
    needs_space: bool,
}

/// A block that indents the lines in it.
enum Block {
    Quote,
    /// The number of the next item, for a numbered list.
    List(Option<u64>),
    /// An item, with its mark until it is written.
    Item {
        mark: Option<String>,
        width: usize,
    },
}

#[derive(Default)]
struct MarkdownTable {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span<'static>>>>,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.push(code.into_string(), Style::new().fg(Color::Cyan)),
            Event::Html(html) | Event::InlineHtml(html) => self.text(&html),
            Event::InlineMath(math) | Event::DisplayMath(math) => self.text(&math),
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.break_line(),
            Event::Rule => {
                self.begin_block();
                self.lines.push(Line::from("─".repeat(self.width.min(40)).dim()));
                self.needs_space = true;
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = Style::new().add_modifier(Modifier::BOLD);
                let underlined = style.add_modifier(Modifier::UNDERLINED);
                self.styles.push(if level == HeadingLevel::H1 { underlined } else { style });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.blocks.push(Block::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                // The text of an item above a list in it is a paragraph of its own.
                self.end_paragraph();
                if self.blocks.is_empty() {
                    self.begin_block();
                }
                self.blocks.push(Block::List(first));
            }
            Tag::Item => {
                self.end_paragraph();
                self.needs_space = false;
                let mark = match self.blocks.last_mut() {
                    Some(Block::List(Some(number))) => {
                        let mark = format!("{number}. ");
                        *number += 1;
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let width = mark.chars().count();
                self.blocks.push(Block::Item { mark: Some(mark), width });
            }
            Tag::Emphasis => self.styles.push(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(Style::new().add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(Style::new().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.into_string(), self.spans.len()));
                self.styles.push(Style::new().add_modifier(Modifier::UNDERLINED));
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(MarkdownTable { alignments, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                self.table.iter_mut().for_each(|table| table.rows.push(Vec::new()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) => {
                self.end_paragraph();
                self.blocks.pop();
                self.needs_space = !self.blocks.iter().any(|block| matches!(block, Block::Item { .. }));
            }
            TagEnd::Item => {
                // An empty item is shown too.
                if matches!(self.blocks.last(), Some(Block::Item { mark: Some(_), .. }))
                    && self.spans.is_empty()
                {
                    self.spans.push(Span::raw(""));
                }
                self.end_paragraph();
                self.blocks.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_link();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                let row = self.table.as_mut().and_then(|table| table.rows.last_mut());
                if let Some(row) = row {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
            return;
        }
        // HTML has line breaks of its own.
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.break_line();
            }
            if !line.is_empty() {
                self.push(line.to_owned(), Style::new());
            }
        }
    }

    fn push(&mut self, text: String, style: Style) {
        let style = self.styles.iter().fold(style, |style, outer| style.patch(*outer));
        self.spans.push(Span::styled(text, style));
    }

    fn break_line(&mut self) {
        if !self.spans.is_empty() && self.table.is_none() {
            self.end_paragraph();
        }
    }

    fn begin_block(&mut self) {
        self.end_paragraph();
        if std::mem::take(&mut self.needs_space) && !self.lines.is_empty() {
            let prefix = self.prefix().rest;
            self.lines.push(Line::from(prefix));
        }
    }

    fn end_block(&mut self) {
        self.end_paragraph();
        self.needs_space = true;
    }

    fn end_paragraph(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let (spans, prefix) = (std::mem::take(&mut self.spans), self.take_prefix());
        self.lines.extend(wrap(&spans, &prefix, self.width));
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let mut prefix = self.take_prefix();
        prefix.first.push(Span::raw("  "));
        prefix.rest.push(Span::raw("  "));
        for spans in highlight::code(&language, &code) {
            self.lines.extend(wrap_code(&spans, &prefix, self.width));
            prefix.first.clone_from(&prefix.rest);
        }
        self.needs_space = true;
    }

    /// Shows the address of a link after its text, unless they are the same.
    fn end_link(&mut self) {
        let Some((address, from)) = self.link.take() else { return };
        let text: String = self.spans.iter().skip(from).map(|span| span.content.as_ref()).collect();
        if !address.is_empty() && text != address && format!("mailto:{text}") != address {
            let shown = if text.is_empty() { address } else { format!(" ({address})") };
            self.push(shown, Style::new().add_modifier(Modifier::DIM));
        }
    }

    fn end_table(&mut self) {
        let Some(MarkdownTable { alignments, rows }) = self.table.take() else { return };
        let prefix = self.take_prefix();
        let room = self.width.saturating_sub(width_of_spans(&prefix.rest));
        let widths = column_widths(&rows, room);
        for (index, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<Line<'static>>> =
                row.iter().zip(&widths).map(|(cell, width)| wrap(cell, &Prefix::default(), *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let mut spans = prefix.rest.clone();
                for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                    if column > 0 {
                        spans.push(" │ ".dim());
                    }
                    let content = cell.get(line).cloned().unwrap_or_default().spans;
                    let rest = " ".repeat(width.saturating_sub(width_of_spans(&content)));
                    let is_right = alignments.get(column) == Some(&Alignment::Right);
                    if is_right {
                        spans.push(rest.clone().into());
                    }
                    spans.extend(content.into_iter().map(|span| if index == 0 { span.bold() } else { span }));
                    if !is_right && column + 1 < cells.len() {
                        spans.push(rest.into());
                    }
                }
                self.lines.push(Line::from(spans));
            }
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                let mut spans = prefix.rest.clone();
                spans.push(rule.join("─┼─").dim());
                self.lines.push(Line::from(spans));
            }
        }
        self.needs_space = true;
    }

    /// The prefix of the next line; the mark of an item is used up.
    fn take_prefix(&mut self) -> Prefix {
        let prefix = self.prefix();
        for block in &mut self.blocks {
            if let Block::Item { mark, .. } = block {
                *mark = None;
            }
        }
        prefix
    }

    fn prefix(&self) -> Prefix {
        let mut prefix = Prefix::default();
        for block in &self.blocks {
            match block {
                Block::Quote => {
                    prefix.first.push("│ ".dim());
                    prefix.rest.push("│ ".dim());
                }
                Block::List(_) => {}
                Block::Item { mark, width } => {
                    let space = " ".repeat(*width);
                    prefix.first.push(mark.clone().unwrap_or_else(|| space.clone()).into());
                    prefix.rest.push(space.into());
                }
            }
        }
        prefix
    }
}

/// The width of each column: as wide as its widest cell, or less in proportion if the table does not fit.
fn column_widths(rows: &[Vec<Vec<Span<'_>>>], room: usize) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| width_of_spans(cell)).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns).map(|column| widest(column).max(1)).collect();
    let room = room.saturating_sub(3 * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let Some(width) = widths.iter_mut().max().filter(|width| **width > LEAST_COLUMN) else { break };
        *width -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str, width: usize) -> Vec<String> {
        render(text, width).iter().map(|line| line.to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn paragraphs_headings_and_lists_are_separated_and_wrapped() {
        let text =
            "# Plan\n\nFirst *do* this,\nthen **that**.\n\n- one two three four\n- b\n  1. c\n  2. d\n\nEnd.";
        let expected = [
            "Plan",
            "",
            "First do this, then",
            "that.",
            "",
            "• one two three",
            "  four",
            "• b",
            "  1. c",
            "  2. d",
            "",
            "End.",
        ];
        assert_eq!(texts(text, 19), expected);
    }

    #[test]
    fn code_is_indented_and_kept_as_it_is() {
        let text = "Run:\n\n```sh\nfor f in *; do\n  echo  $f\ndone\n```\n\n> quoted\n> text";
        let expected = ["Run:", "", "  for f in *; do", "    echo  $f", "  done", "", "│ quoted text"];
        assert_eq!(texts(text, 40), expected);
    }

    #[test]
    fn link_shows_its_address_and_html_is_text() {
        let text = "[docs](https://x.example/a) <https://y.example> and <b>bold</b> `<i>`";
        assert_eq!(texts(text, 80), ["docs (https://x.example/a) https://y.example and <b>bold</b> <i>"]);
    }

    #[test]
    fn table_fits_the_width() {
        let text = "| a | long heading |\n|---|---|\n| 1 | some words in a cell |\n| 2 | x |";
        let expected = ["a │ long heading", "──┼───────────────", "1 │ some words in", "  │ a cell", "2 │ x"];
        assert_eq!(texts(text, 18), expected);
    }

    #[test]
    fn finished_part_ends_before_the_last_block() {
        let cases = [
            ("one", ""),
            ("one\n\ntwo", "one\n\n"),
            ("one\n\n```\na\n\nb", "one\n\n"),
            ("one\n\n```\na\n\nb\n```\n\ntw", "one\n\n```\na\n\nb\n```\n\n"),
            ("- a\n\n- b\n\n  c", ""),
            ("- a\n\n- b\n\nend", "- a\n\n- b\n\n"),
            ("1. a\n\n2. b", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(&text[..finished_part(text)], expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_shown_within_the_width(text in "[-a-z#>*_`|~\\[\\]()1.: \n日]{0,300}", width in 20usize..80) {
            for line in render(&text, width) {
                prop_assert!(line.width() <= width.max(60), "{line:?}");
            }
            prop_assert!(text.is_char_boundary(finished_part(&text)));
        }
    }
}
