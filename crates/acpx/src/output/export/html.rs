//! One HTML page without scripts: it loads nothing, its style is inline, and it is readable in light and dark.
//!
//! Text of agents is rendered from Markdown with HTML shown as text, links only to the web and mail, and no images but
//! those of content blocks.

use std::io::{self, Write};

use acpx_core::acp;
use acpx_core::model::{MessageKind, Record};
use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde_json::Value;

use super::image::Image;
use super::section::{ConversationSection, SectionItem};
use super::tool::{ToolPart, ToolView, terminal};
use super::{SectionWriter, end_words, head_rows, heading, time, title, usage_words};
use crate::output::sanitize::clean;

/// The style of the page.
const STYLE: &str = include_str!("export.css");
/// What the page may load: nothing but its own style and embedded images.
const POLICY: &str = include_str!("policy.txt");

/// Writes HTML.
#[derive(Debug)]
pub(super) struct Html;

impl SectionWriter for Html {
    fn begin(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let title = escape(&title(record));
        writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">", POLICY.trim_end())?;
        writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(out, "<meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>")?;
        writeln!(out, "<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n<dl>")?;
        for (name, value) in head_rows(record) {
            writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value))?;
        }
        writeln!(out, "</dl>\n</header>")
    }

    fn section(&mut self, section: &ConversationSection, out: &mut dyn Write) -> io::Result<()> {
        let class = if section.turn.is_some() { "turn" } else { "between" };
        let at = section.begun_at.map(|at| format!(" <time>{}</time>", time(at))).unwrap_or_default();
        writeln!(out, "<section class=\"{class}\">\n<h2>{}{at}</h2>", heading(section))?;
        section.items.iter().try_for_each(|item| self::item(item, out))?;
        if let Some(words) = end_words(section) {
            writeln!(out, "<p class=\"end\">{}</p>", escape(&words))?;
        }
        writeln!(out, "</section>")
    }

    fn end(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<footer>")?;
        if let Some(words) = usage_words(record) {
            writeln!(out, "<p>{}</p>", escape(&words))?;
        }
        writeln!(out, "<p>Exported by acpx</p>\n</footer>\n</main>\n</body>\n</html>")
    }
}

fn item(item: &SectionItem, out: &mut dyn Write) -> io::Result<()> {
    match item {
        SectionItem::Message { kind, text, blocks, .. } => message(*kind, text, blocks, out),
        SectionItem::Unsent { text, .. } => {
            writeln!(
                out,
                "<article class=\"user\"><h3>You, not sent</h3>\n<p class=\"plain\">{}</p></article>",
                escape(text)
            )
        }
        SectionItem::Tool { fields, terminals, .. } => tool(&ToolView::new(fields, terminals), out),
        SectionItem::Plan { entries } => {
            writeln!(out, "<article class=\"plan\"><h3>Plan</h3>\n<ul>")?;
            for entry in entries {
                let status = class(&entry.status);
                writeln!(out, "<li class=\"{status}\">{}</li>", escape(&entry.text))?;
            }
            writeln!(out, "</ul></article>")
        }
        SectionItem::Permission { title, outcome, .. } => {
            let (title, outcome) = (escape(title), escape(outcome));
            writeln!(out, "<p class=\"permission\"><b>Permission</b> {title} <span>{outcome}</span></p>")
        }
        SectionItem::Request { words, terminal: run, .. } => match run {
            None => writeln!(out, "<p class=\"request\">{}</p>", escape(words)),
            Some(run) => {
                writeln!(out, "<details class=\"tool\"><summary>{}</summary>", escape(&run.command))?;
                part(&terminal(run), out)?;
                writeln!(out, "</details>")
            }
        },
        SectionItem::Reset { words, at } => {
            writeln!(out, "<p class=\"reset\">{} <time>{}</time></p>", escape(words), time(*at))
        }
        SectionItem::Note { words, .. } => writeln!(out, "<p class=\"note\">{}</p>", escape(words)),
    }
}

fn message(kind: MessageKind, text: &str, blocks: &[Box<str>], out: &mut dyn Write) -> io::Result<()> {
    let (class, name) = match kind {
        MessageKind::User => ("user", "You"),
        MessageKind::Agent => ("agent", "Agent"),
        MessageKind::Thought => {
            writeln!(
                out,
                "<details class=\"thought\"><summary>Thought</summary>\n{}</details>",
                markdown(text)
            )?;
            return Ok(());
        }
    };
    writeln!(out, "<article class=\"{class}\"><h3>{name}</h3>")?;
    out.write_all(markdown(text).as_bytes())?;
    for block in blocks {
        let block: Value = serde_json::from_str(block).unwrap_or_default();
        match Image::of_block(&block) {
            Some(image) => write_image(&image, out)?,
            None => writeln!(out, "<p class=\"attachment\">{}</p>", escape(&acp::block_words(&block)))?,
        }
    }
    writeln!(out, "</article>")
}

fn tool(view: &ToolView, out: &mut dyn Write) -> io::Result<()> {
    let label = |text: Option<&String>, name: &str| {
        text.map(|text| format!(" <span class=\"{name} {}\">{}</span>", class(text), escape(text)))
            .unwrap_or_default()
    };
    let (kind, status) = (label(view.kind.as_ref(), "kind"), label(view.status.as_ref(), "status"));
    writeln!(out, "<details class=\"tool\"><summary>{}{kind}{status}</summary>", escape(&view.title))?;
    view.parts.iter().try_for_each(|shown| part(shown, out))?;
    writeln!(out, "</details>")
}

fn part(part: &ToolPart, out: &mut dyn Write) -> io::Result<()> {
    match part {
        ToolPart::Code { language: "diff", text, .. } => {
            write!(out, "<pre class=\"diff\"><code class=\"language-diff\">")?;
            for line in text.lines() {
                let class = match line.as_bytes() {
                    [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "file",
                    [b'+', ..] => "add",
                    [b'-', ..] => "del",
                    [b'@', ..] => "hunk",
                    _ => "",
                };
                write!(out, "<span class=\"{class}\">{}</span>", escape(line))?;
            }
            writeln!(out, "</code></pre>")
        }
        ToolPart::Code { label, language, text } => {
            let language = if language.is_empty() { "text" } else { language };
            writeln!(
                out,
                "<h4>{label}</h4>\n<pre><code class=\"language-{language}\">{}</code></pre>",
                escape(text)
            )
        }
        ToolPart::Text(text) => writeln!(out, "{}", markdown(text)),
        ToolPart::Image(image) => write_image(image, out),
    }
}

fn write_image(image: &Image, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<p><img alt=\"\" src=\"{}\"></p>", image.address())
}

/// A word of an agent as the name of a class: letters and hyphens only.
fn class(word: &str) -> String {
    word.chars()
        .map(|letter| if letter == '_' { '-' } else { letter })
        .filter(|letter| letter.is_ascii_alphabetic() || *letter == '-')
        .collect()
}

/// Text that means itself in HTML, in elements and in quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in clean(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Markdown as HTML. HTML in it is text.
pub(super) fn markdown(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer::default();
    for event in Parser::new_ext(text, options) {
        renderer.event(event);
    }
    renderer.html
}

/// The state of the rendering of one text.
#[derive(Default)]
struct Renderer {
    html: String,
    /// For each open link, whether it has a tag.
    links: Vec<bool>,
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.finish(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.html.push_str("<code>");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::TaskListMarker(is_done) => self.html.push_str(if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn text(&mut self, text: &str) {
        self.html.push_str(&escape(text));
    }

    fn start(&mut self, tag: Tag<'_>) {
        let html = match tag {
            Tag::Paragraph => "<p>".to_owned(),
            Tag::Heading { level, .. } => ["<h", below(level), ">"].concat(),
            Tag::BlockQuote(_) => "<blockquote>".to_owned(),
            Tag::CodeBlock(kind) => format!("<pre><code class=\"language-{}\">", language(&kind)),
            Tag::HtmlBlock => "<p class=\"plain\">".to_owned(),
            Tag::List(None) => "<ul>\n".to_owned(),
            Tag::List(Some(1)) => "<ol>\n".to_owned(),
            Tag::List(Some(start)) => format!("<ol start=\"{start}\">\n"),
            Tag::Item => "<li>".to_owned(),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                "<table>".to_owned()
            }
            Tag::TableHead => {
                (self.is_head, self.column) = (true, 0);
                "<thead><tr>".to_owned()
            }
            Tag::TableRow => {
                self.column = 0;
                "<tr>".to_owned()
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => "<em>".to_owned(),
            Tag::Strong => "<strong>".to_owned(),
            Tag::Strikethrough => "<s>".to_owned(),
            Tag::Link { dest_url, .. } => {
                let address = web_address(&dest_url);
                self.links.push(address.is_some());
                let link = |address| format!("<a rel=\"noreferrer noopener\" href=\"{}\">", escape(address));
                address.map(link).unwrap_or_default()
            }
            // The text of an image follows; the image itself is not loaded.
            Tag::Image { .. } => "<span class=\"attachment\">[image] ".to_owned(),
            _ => String::new(),
        };
        self.html.push_str(&html);
    }

    fn finish(&mut self, tag: TagEnd) {
        let html = match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => "</p>\n",
            TagEnd::Heading(level) => return self.html.extend(["</h", below(level), ">\n"]),
            TagEnd::BlockQuote(_) => "</blockquote>\n",
            TagEnd::CodeBlock => "</code></pre>\n",
            TagEnd::List(true) => "</ol>\n",
            TagEnd::List(false) => "</ul>\n",
            TagEnd::Item => "</li>\n",
            TagEnd::Table => "</tbody></table>\n",
            TagEnd::TableHead => {
                self.is_head = false;
                "</tr></thead>\n<tbody>\n"
            }
            TagEnd::TableRow => "</tr>\n",
            TagEnd::TableCell if self.is_head => "</th>",
            TagEnd::TableCell => "</td>",
            TagEnd::Emphasis => "</em>",
            TagEnd::Strong => "</strong>",
            TagEnd::Strikethrough => "</s>",
            TagEnd::Link if self.links.pop() == Some(true) => "</a>",
            TagEnd::Image => "</span>",
            _ => "",
        };
        self.html.push_str(html);
    }

    fn cell(&mut self) -> String {
        let alignment = self.alignments.get(self.column);
        self.column += 1;
        let class = match alignment {
            Some(Alignment::Center) => " class=\"center\"",
            Some(Alignment::Right) => " class=\"right\"",
            _ => "",
        };
        format!("<{}{class}>", if self.is_head { "th" } else { "td" })
    }
}

/// The level of a heading of an agent: below those of the page.
fn below(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 => "4",
        HeadingLevel::H2 => "5",
        _ => "6",
    }
}

/// The language of a code block, as a class.
fn language(kind: &CodeBlockKind<'_>) -> String {
    let info = match kind {
        CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
        CodeBlockKind::Indented => "",
    };
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "+-#_.".contains(*letter);
    let language: String = info.chars().filter(is_plain).take(40).collect();
    if language.is_empty() { "text".to_owned() } else { language }
}

/// An address that a link may have.
fn web_address<'a>(address: &'a CowStr<'_>) -> Option<&'a str> {
    let (scheme, _) = address.split_once(':')?;
    let is_known = ["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known.then_some(&**address)
}
