use std::fs;

use super::*;
use crate::cli::PromptAttachment;

struct Pipe(&'static [u8]);

impl Stdin for Pipe {
    fn is_terminal(&self) -> bool {
        false
    }

    fn arrival(&self) -> io::Result<StdinArrival> {
        Ok(StdinArrival::Input)
    }

    fn reader(&mut self) -> &mut dyn Read {
        &mut self.0
    }
}

struct Terminal;

impl Stdin for Terminal {
    fn is_terminal(&self) -> bool {
        true
    }

    fn arrival(&self) -> io::Result<StdinArrival> {
        Ok(StdinArrival::Nothing)
    }

    fn reader(&mut self) -> &mut dyn Read {
        panic!("a person is not asked to type a prompt into stdin")
    }
}

fn words(words: &[&str], file: Option<&str>) -> PromptWords {
    PromptWords {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        file: file.map(Into::into),
        attachments: Vec::new(),
    }
}

fn blocks_of(input: &PromptWords, piped: &'static str) -> Result<String, String> {
    let read = read(input, Path::new("/nowhere"), StdinUse::Ignore, &mut Pipe(piped.as_bytes()));
    read.map(|blocks| blocks.json.to_string()).map_err(|error| error.to_string())
}

fn text(text: &str) -> String {
    serde_json::json!([{"type": "text", "text": text}]).to_string()
}

#[test]
fn prompt_comes_from_words_or_stdin() {
    assert_eq!(blocks_of(&words(&["fix", "the ", "tests"], None), "not read"), Ok(text("fix the  tests")));
    assert_eq!(blocks_of(&words(&[], None), "  piped\ntext\n"), Ok(text("piped\ntext")));
    assert_eq!(blocks_of(&words(&[], Some("-")), "piped"), Ok(text("piped")));
    let both = serde_json::json!([{"type": "text", "text": "piped"}, {"type": "text", "text": "and words"}]);
    assert_eq!(blocks_of(&words(&["and", "words"], Some("-")), "piped"), Ok(both.to_string()));
}

/// An open pipe without input.
struct SilentPipe;

impl Stdin for SilentPipe {
    fn is_terminal(&self) -> bool {
        false
    }

    fn arrival(&self) -> io::Result<StdinArrival> {
        Ok(StdinArrival::Silent)
    }

    fn reader(&mut self) -> &mut dyn Read {
        panic!("reading it would block")
    }
}

#[test]
fn stdin_is_appended_to_the_words_unless_it_is_silent() {
    let append = |input: &PromptWords, stdin: &mut dyn Stdin| {
        let read = read(input, Path::new("/nowhere"), StdinUse::Append, stdin);
        read.map(|PromptBlocks { json, is_stdin_silent }| (json.to_string(), is_stdin_silent))
            .map_err(|error| error.to_string())
    };
    let why = words(&["why", "this?"], None);
    assert_eq!(append(&why, &mut Pipe(b"  a\n b\n\n")), Ok((text("why this?\n\n  a\n b"), false)));
    assert_eq!(append(&why, &mut Pipe(b"[{}]")), Ok((text("why this?\n\n[{}]"), false)));
    assert_eq!(append(&why, &mut Pipe(b" \n")), Ok((text("why this?"), false)));
    assert_eq!(append(&why, &mut Terminal), Ok((text("why this?"), false)));
    assert_eq!(append(&why, &mut SilentPipe), Ok((text("why this?"), true)));
    assert_eq!(append(&why, &mut Pipe(b"\xff\xfe")), Err("stdin is not UTF-8 text".to_owned()));
    assert_eq!(append(&words(&[], None), &mut Pipe(b"\xff")), Err("stdin is not UTF-8 text".to_owned()));
    // Stdin that is an attachment is not appended.
    let resource = PromptAttachment::Resource(STDIN.into());
    let attached = PromptWords { attachments: vec![resource], ..why };
    let (blocks, _) = append(&attached, &mut Pipe(b"piped")).unwrap();
    assert!(blocks.starts_with(r#"[{"type":"text","text":"why this?"},"#), "{blocks}");
}

#[test]
fn stdin_is_attached_as_a_file_and_read_once() {
    let along = |said: &[&str], file, attachments| PromptWords { attachments, ..words(said, file) };
    let resource = || PromptAttachment::Resource(STDIN.into());
    let block = serde_json::json!({ "type": "resource", "resource": {
        "uri": "file:///dev/stdin", "mimeType": "text/plain", "text": "piped" } });
    let bare = along(&[], None, vec![resource()]);
    assert_eq!(blocks_of(&bare, "piped"), Ok(serde_json::json!([block]).to_string()));
    let with_words = serde_json::json!([{ "type": "text", "text": "see" }, block]);
    assert_eq!(blocks_of(&along(&["see"], None, vec![resource()]), "piped"), Ok(with_words.to_string()));
    let twice = Err("stdin is used more than once".to_owned());
    assert_eq!(blocks_of(&along(&[], Some(STDIN), vec![resource()]), "piped"), twice);
    assert_eq!(blocks_of(&along(&["see"], None, vec![resource(), resource()]), "piped"), twice);
    let typed = read(&bare, Path::new("/"), StdinUse::Append, &mut Terminal).unwrap_err();
    assert_eq!(typed.to_string(), "a prompt is required");
}

#[test]
fn a_file_is_looked_for_in_the_directory_the_command_works_in() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("prompt.md"), "from a file\n").unwrap();
    let from_file = |name| {
        let read = read(&words(&[], Some(name)), home.path(), StdinUse::Append, &mut Terminal);
        read.map(|blocks| blocks.json)
    };
    assert_eq!(&*from_file("prompt.md").unwrap(), text("from a file"));
    let missing = from_file("missing.md").unwrap_err();
    assert_eq!(
        missing.to_string(),
        format!("cannot read the prompt file {}", home.path().join("missing.md").display())
    );
    fs::write(home.path().join("empty.md"), " \n").unwrap();
    assert_eq!(from_file("empty.md").unwrap_err().to_string(), "the prompt file empty.md is empty");
    fs::write(home.path().join("bytes"), [0xff, 0xfe]).unwrap();
    fs::write(home.path().join("img.png"), "a\0b").unwrap();
    for name in ["bytes", "img.png"] {
        let error = from_file(name).unwrap_err();
        let file = home.path().join(name).display().to_string();
        assert_eq!(error.to_string(), format!("the prompt file {file} is not UTF-8 text"));
        let hint = format!("attach it instead, with --image {file}, --audio {file} or --resource {file}");
        assert_eq!(error.hint(), hint);
    }
}

#[test]
fn no_prompt_is_an_error_whichever_way_it_is_not_there() {
    let missing = read(&words(&[], None), Path::new("/"), StdinUse::Append, &mut Terminal).unwrap_err();
    assert_eq!(missing.to_string(), "a prompt is required");
    assert_eq!(blocks_of(&words(&[], None), " \n"), Err("the prompt from stdin is empty".to_owned()));
    assert_eq!(blocks_of(&words(&[], Some("-")), ""), Err("the prompt from stdin is empty".to_owned()));
    assert_eq!(blocks_of(&words(&["", " "], None), "x"), Err("the prompt is empty".to_owned()));
    assert_eq!(blocks_of(&words(&[], None), "[]"), Err("the prompt has no content block".to_owned()));
}

#[test]
fn content_blocks_go_out_byte_for_byte_and_words_after_them() {
    let blocks = r#"[{"type":"text","text":"a","n":1e3}, {"type":"image","data":"aGk=","mimeType":"image/png"},
        {"type":"resource_link","uri":"file:///a","name":"a"},
        {"type":"resource","resource":{"uri":"file:///b","text":""}} ]"#;
    assert_eq!(
        blocks_of(&words(&[], None), "\n [{\"type\":\"text\",\"text\":\"a\",\"n\":1e3}]\n"),
        Ok(r#"[{"type":"text","text":"a","n":1e3}]"#.to_owned())
    );
    assert_eq!(blocks_of(&words(&[], None), blocks), Ok(blocks.to_owned()));
    let with_words = format!("{},{}", &blocks[..blocks.len() - 1], &text("w")[1..]);
    assert_eq!(blocks_of(&words(&["w"], Some("-")), blocks), Ok(with_words));
    assert_eq!(blocks_of(&words(&["w"], Some("-")), "[]"), Ok(text("w")));
    assert_eq!(blocks_of(&words(&[], None), "[not json"), Ok(text("[not json")));
    assert_eq!(blocks_of(&words(&["[1]"], None), ""), Ok(text("[1]")), "words are always text");
}

#[test]
fn words_that_look_like_content_blocks_are_text() {
    let cases = [
        (r#"[{"type":"text","text":"x"}]"#, true),
        (r#" [{"type":"bogus"}] "#, true),
        ("[WIP] fix it", false),
        ("[1]", false),
        ("[]", false),
        (r#"[{"m":"x"}]"#, false),
        (r#"{"type":"text","text":"x"}"#, false),
    ];
    for (typed, looks) in cases {
        let input = words(&[typed], None);
        assert_eq!(blocks_of(&input, "not read"), Ok(text(typed.trim())), "{typed}");
        assert_eq!(words_look_like_blocks(&input), looks, "{typed}");
    }
    let with_file = words(&[r#"[{"type":"text","text":"x"}]"#], Some("-"));
    assert!(!words_look_like_blocks(&with_file), "with a file they are what is said about it");
}

#[test]
fn a_block_that_is_none_is_named_by_its_place() {
    let cases = [
        ("[1]", "prompt[0] must be an object"),
        ("[{}]", "prompt[0].type must be a string"),
        (
            r#"[{"type":"text","text":"a"},{"type":"x"}]"#,
            "prompt[1] has the type \"x\", which the protocol does not know",
        ),
        (r#"[{"type":"text"}]"#, "prompt[0].text must be a string"),
        (r#"[{"type":"image","data":"a b","mimeType":"x"}]"#, "prompt[0].data must be valid base64"),
        (r#"[{"type":"image","data":"","mimeType":"x"}]"#, "prompt[0].data must be valid base64"),
        (r#"[{"type":"audio","data":"aGk="}]"#, "prompt[0].mimeType must be a non-empty string"),
        (r#"[{"type":"resource_link","name":"a"}]"#, "prompt[0].uri must be a non-empty string"),
        (
            r#"[{"type":"resource","resource":{"uri":"u"}}]"#,
            "prompt[0].resource must be an object with text, or with a base64 blob",
        ),
        (r#"[{"type":"resource"}]"#, "prompt[0].resource must be an object"),
    ];
    for (piped, message) in cases {
        assert_eq!(blocks_of(&words(&[], None), piped), Err(message.to_owned()), "{piped}");
    }
}

#[test]
fn attachments_follow_the_text_and_may_be_alone() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.gif"), "GIF89a").unwrap();
    fs::write(home.path().join("a.ogg"), "OggS").unwrap();
    let along = vec![PromptAttachment::Image("a.gif".into()), PromptAttachment::Audio("a.ogg".into())];
    let types = |words_of: &[&str], piped: &'static [u8]| {
        let input = PromptWords { attachments: along.clone(), ..words(words_of, None) };
        let blocks = read(&input, home.path(), StdinUse::Ignore, &mut Pipe(piped)).unwrap().json;
        let blocks: Vec<serde_json::Value> = serde_json::from_str(&blocks).unwrap();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types(&["look"], b"not read"), ["text", "image", "audio"]);
    assert_eq!(types(&[], b""), ["image", "audio"]);
    assert_eq!(types(&[], br#"[{"type":"text","text":"a"} ]"#), ["text", "image", "audio"]);
}
