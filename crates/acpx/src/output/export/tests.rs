//! Text of agents in exported documents: nothing of it leaves its place.

use acpx_core::model::{MessageKind, TerminalText};
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value, json};

use super::section::{PlanEntry, SectionEnd, SectionItem};
use super::*;
use crate::output::tests::samples::{at, record};

/// A section with this text in every place that an agent can write to.
fn section(text: &str) -> ConversationSection {
    let message = |kind| SectionItem::Message {
        kind,
        at: at(1),
        text: text.to_owned(),
        blocks: vec![image("image/png")],
    };
    let fields = json!({
        "title": text, "kind": text, "status": text, "rawInput": { "text": text },
        "content": [
            { "type": "content", "content": { "type": "text", "text": text } },
            { "type": "diff", "path": text, "oldText": "one\n", "newText": text },
        ],
    });
    let fields: Map<String, Value> = serde_json::from_value(fields).unwrap();
    let terminal =
        TerminalText { command: text.to_owned(), output: text.to_owned(), exit: Some(text.to_owned()) };
    ConversationSection {
        turn: Some(TurnId(1)),
        begun_at: Some(at(0)),
        request_id: None,
        items: vec![
            message(MessageKind::User),
            message(MessageKind::Thought),
            message(MessageKind::Agent),
            SectionItem::Unsent { at: at(1), text: text.to_owned() },
            SectionItem::Tool { at: None, fields, terminals: vec![terminal.clone()] },
            SectionItem::Plan { entries: vec![PlanEntry { text: text.to_owned(), status: text.to_owned() }] },
            SectionItem::Permission { at: at(1), title: text.to_owned(), outcome: text.to_owned() },
            SectionItem::Request { at: at(1), words: text.to_owned(), terminal: Some(terminal) },
            SectionItem::Reset { at: at(1), words: text.to_owned() },
            SectionItem::Note { at: at(1), words: text.to_owned() },
        ],
        end: Some(SectionEnd {
            at: at(2),
            stop_reason: Some(text.to_owned()),
            error: None,
            is_interrupted: false,
        }),
        usage: None,
    }
}

fn image(mime_type: &str) -> Box<str> {
    json!({ "type": "image", "data": "aGk=", "mimeType": mime_type }).to_string().into()
}

fn written(kind: DocumentKind, sections: &[ConversationSection]) -> String {
    let (mut out, mut writer, record) = (Vec::new(), document(kind), record());
    writer.begin(&record, &mut out).unwrap();
    for section in sections {
        writer.section(section, &mut out).unwrap();
    }
    writer.end(&record, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The tags of a page, as `name attributes`.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()).collect()
}

/// Every tag that the writer itself makes.
const TAGS: &[&str] = &[
    "!doctype",
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "dl",
    "div",
    "dt",
    "dd",
    "section",
    "time",
    "article",
    "p",
    "details",
    "summary",
    "span",
    "pre",
    "code",
    "ul",
    "ol",
    "li",
    "b",
    "img",
    "footer",
    "blockquote",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "em",
    "strong",
    "s",
    "a",
    "br",
    "hr",
];

fn check_html(html: &str) {
    for tag in tags(html) {
        let name = tag.trim_start_matches('/').split(' ').next().unwrap_or_default();
        assert!(TAGS.contains(&name), "<{tag}>");
        for (_, address) in tag.match_indices("src=\"").map(|(at, _)| tag.split_at(at + 5)) {
            assert!(address.starts_with("data:image/"), "<{tag}>");
        }
        if let Some((_, address)) = tag.split_once("href=\"") {
            let is_web = ["http:", "https:", "mailto:"]
                .iter()
                .any(|scheme| address.to_lowercase().starts_with(scheme));
            assert!(name == "a" && is_web, "<{tag}>");
        }
        // Attributes are class, href, rel, src, alt, start and those of the head, each in quotes of ours.
        let names = tag.split("=\"").map(|part| part.rsplit([' ', '"']).next().unwrap_or_default());
        assert!(names.clone().all(|name| !name.starts_with("on")), "<{tag}>");
    }
    let lower = html.to_lowercase();
    assert!(!lower.contains("<script") && !lower.contains("<iframe"), "{html}");
}

/// The headings of turns in Markdown, and the tags of HTML in it. Headings in a quote are words of a client or an agent.
fn outline(markdown: &str) -> (Vec<String>, Vec<String>) {
    let (mut headings, mut html, mut in_heading, mut quotes) = (Vec::new(), Vec::new(), false, 0);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => quotes += 1,
            Event::End(TagEnd::BlockQuote(_)) => quotes -= 1,
            Event::Start(Tag::Heading { .. }) if quotes == 0 => {
                in_heading = true;
                headings.push(String::new());
            }
            Event::End(_) => in_heading = false,
            Event::Text(text) if in_heading => headings.last_mut().unwrap().push_str(&text),
            Event::Html(tag) | Event::InlineHtml(tag) => html.push(tag.to_string()),
            _ => {}
        }
    }
    headings.retain(|heading| heading.starts_with("Turn 1 ·"));
    (headings, html)
}

fn check_markdown(markdown: &str, sections: usize) {
    let (headings, html) = outline(markdown);
    assert_eq!(headings.len(), sections, "{markdown}");
    for tag in html.iter().flat_map(|html| tags(html)) {
        assert!(["details", "summary", "/summary", "/details"].contains(&tag), "<{tag}> in {markdown}");
    }
}

const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](data:text/html,x) [d](https://example.com/\"onclick=x)",
    "![x](https://example.com/x.png) <https://example.com/> <javascript:x>",
    "```\nno end",
    "~~~~ rust\n```\nno end",
    "- item\n  ```\n  no end",
    "> ```\n> no end",
    "</details></section></main><h2>Turn 1 · x</h2>",
    "<!-- no end",
    "<![CDATA[ no end",
    "a\r\n## Turn 1 · forged\r```\r",
    "````\n```\n## x\n",
    "\u{1b}[31mred\u{7}",
    "| a | b |\n|---|:-:|\n| <b> | `x` |",
    "``` \"><script>\nx\n```",
    "text\n===",
    "&lt;script&gt; &#60;script>",
    "<details>\n<summary>x",
    "\\<script>",
];

#[test]
fn hostile_text_stays_in_its_place_in_every_document() {
    for text in HOSTILE {
        check_html(&written(DocumentKind::Html, &[section(text), section("x")]));
        check_markdown(&written(DocumentKind::Markdown, &[section(""), section("x")]), 2);
        check_markdown(&written(DocumentKind::Markdown, &[section(text), section("x")]), 2);
        let json: Value = serde_json::from_str(&written(DocumentKind::Json, &[section(text)])).unwrap();
        assert_eq!(json["turns"][0]["entries"][2]["text"], *text);
    }
}

#[test]
fn only_images_of_known_types_with_base64_are_embedded() {
    let block = |mime_type: &str, data: &str| json!({ "type": "image", "data": data, "mimeType": mime_type });
    let address = |block: &Value| image::Image::of_block(block).map(|image| image.address());
    assert_eq!(address(&block("image/png", "aGk=")).as_deref(), Some("data:image/png;base64,aGk="));
    for other in [
        block("image/svg+xml", "aGk="),
        block("image/png\" onerror=\"x", "aGk="),
        block("image/png", "\"><script>"),
        block("image/png", ""),
        json!({ "type": "image", "uri": "https://example.com/x.png", "mimeType": "image/png" }),
    ] {
        assert_eq!(address(&other), None, "{other}");
    }
}

#[test]
fn markdown_of_agents_becomes_html() {
    let cases = [
        ("# One\n\ntwo *three*", "<h4>One</h4>\n<p>two <em>three</em></p>\n"),
        ("```rust\nfn x() {}\n```", "<pre><code class=\"language-rust\">fn x() {}\n</code></pre>\n"),
        (
            "[a](https://a.b/?c&d)",
            "<p><a rel=\"noreferrer noopener\" href=\"https://a.b/?c&amp;d\">a</a></p>\n",
        ),
        ("[a](javascript:x)", "<p>a</p>\n"),
        ("![a](https://a.b/c.png)", "<p><span class=\"attachment\">[image] a</span></p>\n"),
        ("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>\n"),
        ("- [x] a\n- [ ] b", "<ul>\n<li>☑ a</li>\n<li>☐ b</li>\n</ul>\n"),
        (
            "|a|b|\n|-|-:|\n|c|d|",
            "<table><thead><tr><th>a</th><th class=\"right\">b</th></tr></thead>\n<tbody>\n<tr><td>c</td><td class=\"right\">d</td></tr>\n</tbody></table>\n",
        ),
    ];
    for (text, html) in cases {
        assert_eq!(html::markdown(text), html, "{text}");
    }
}

#[test]
fn markdown_of_an_agent_has_closed_fences_and_neither_html_nor_images() {
    let cases = [
        ("```\na", "```\na\n```"),
        ("```\na\n```", "```\na\n```"),
        ("~~~~rust\n~~~\na", "~~~~rust\n~~~\na\n~~~~"),
        ("a <i>b", "a &lt;i>b"),
        ("`<i>` a", "`<i>` a"),
        ("- a\n  ```\n  b", "- a\n  ```\n  b"),
        ("a\r\nb", "a\nb"),
        ("a ![b](https://evil.example/?x) c", "a \\![b](https://evil.example/?x) c"),
        ("![b ![c](d) <i>](e)", "\\![b \\![c](d) &lt;i>](e)"),
        ("![b][c]\n\n[c]: https://evil.example", "\\![b][c]\n\n[c]: https://evil.example"),
        ("`![b](c)`", "`![b](c)`"),
    ];
    for (text, expected) in cases {
        assert_eq!(markdown::contained(text), expected, "{text}");
    }
}

/// Text of pieces that mean something in Markdown or HTML.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "<",
        ">",
        "\"",
        "'",
        "&",
        "`",
        "```",
        "~~~",
        "\n",
        "\r",
        "- ",
        "> ",
        "    ",
        "[",
        "](",
        ")",
        "!",
        "|",
        "script",
        "x",
        " ",
        "\t",
        "<!--",
        "-->",
        "</details>",
        "javascript:",
        "https://a",
        "\\",
        "*",
        "_",
        "1. ",
        "===",
    ];
    prop_oneof![
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..24)
            .prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn agent_text_makes_no_tag_and_leaves_no_fence_open(text in any_text()) {
        check_html(&written(DocumentKind::Html, &[section(&text), section("x")]));
        check_markdown(&written(DocumentKind::Markdown, &[section(&text), section("x")]), 2);
    }
}
