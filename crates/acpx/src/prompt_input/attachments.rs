//! Attachments of a prompt: images, audio, and other files with their content. The type of a file comes from its first
//! bytes, or else from its extension; an image or audio file of unknown type is rejected.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::STDIN;
use crate::cli::PromptAttachment;

/// The path that stands for stdin.
const STDIN_PATH: &str = "/dev/stdin";
/// Maximum size of a file, which must fit into one line of the protocol as base64.
pub(super) const LARGEST: u64 = 32 * 1024 * 1024;

/// Why a file cannot be attached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachmentError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// It is too large.
    #[error("{} is larger than {} MiB", path.display(), LARGEST / (1024 * 1024))]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is empty.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is not of the requested kind.
    #[error("{} is no {kind} of a known type", path.display())]
    UnknownType {
        /// The file.
        path: PathBuf,
        /// The requested kind.
        kind: &'static str,
    },
}

impl AttachmentError {
    /// What the user can do next.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path; it is taken from the directory the command works in",
            Self::Empty { .. } => "check that it was written; an image or a sound has something in it",
            Self::TooLarge { .. } => "tell the agent where the file is instead",
            Self::UnknownType { .. } => {
                "send it with --resource, or give the block itself with its mimeType: a JSON array on stdin or in --file"
            }
        }
    }
}

/// Magic numbers: offset, bytes and type.
const BEGINNINGS: [(usize, &[u8], &str); 12] = [
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
    (0, b"%PDF-", "application/pdf"),
];

/// Types by file extension.
const ENDINGS: [(&str, &str); 21] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("bmp", "image/bmp"),
    ("svg", "image/svg+xml"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("flac", "audio/flac"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("pdf", "application/pdf"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("html", "text/html"),
    ("txt", "text/plain"),
];

impl PromptAttachment {
    /// The flag as typed, and the capability that the agent must advertise for it.
    pub(crate) fn typed(&self) -> (String, &'static str) {
        let (flag, file, capability) = match self {
            Self::Image(file) => ("--image", file, "promptCapabilities.image"),
            Self::Audio(file) => ("--audio", file, "promptCapabilities.audio"),
            Self::Resource(file) => ("--resource", file, "promptCapabilities.embeddedContext"),
        };
        (format!("{flag} {}", file.display()), capability)
    }

    fn file(&self) -> &Path {
        let (Self::Image(file) | Self::Audio(file) | Self::Resource(file)) = self;
        file
    }

    /// Whether it is read from stdin.
    pub(super) fn is_stdin(&self) -> bool {
        self.file().as_os_str() == STDIN
    }

    /// The content block of the file; the path is relative to `cwd`.
    pub(super) fn block(&self, cwd: &Path, stdin: &mut dyn Read) -> Result<Value, AttachmentError> {
        let path = if self.is_stdin() { PathBuf::from(STDIN_PATH) } else { cwd.join(self.file()) };
        let bytes = if self.is_stdin() { whole(stdin, &path)? } else { read(&path)? };
        if bytes.is_empty() && !matches!(self, Self::Resource(_)) {
            return Err(AttachmentError::Empty { path });
        }
        let mime = mime(&path, &bytes);
        let of_kind = |kind: &'static str| {
            let is_meant = |mime: &&str| mime.split('/').next() == Some(kind);
            mime.filter(is_meant).ok_or_else(|| AttachmentError::UnknownType { path: path.clone(), kind })
        };
        Ok(match self {
            Self::Image(_) => json!({
                "type": "image", "mimeType": of_kind("image")?, "data": STANDARD.encode(&bytes), "uri": uri(&path),
            }),
            Self::Audio(_) => json!({
                "type": "audio", "mimeType": of_kind("audio")?, "data": STANDARD.encode(&bytes),
            }),
            Self::Resource(_) => json!({ "type": "resource", "resource": resource(&path, bytes, mime) }),
        })
    }
}

/// UTF-8 content is sent as text, anything else as base64.
fn resource(path: &Path, bytes: Vec<u8>, mime: Option<&str>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => {
            json!({ "uri": uri(path), "mimeType": mime.unwrap_or("text/plain"), "text": text })
        }
        Err(error) => {
            let blob = STANDARD.encode(error.as_bytes());
            json!({ "uri": uri(path), "mimeType": mime.unwrap_or("application/octet-stream"), "blob": blob })
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, AttachmentError> {
    let unreadable = |source| AttachmentError::Unreadable { path: path.to_owned(), source };
    whole(&mut File::open(path).map_err(unreadable)?, path)
}

/// Reads a whole file, unless it is too large. `path` is for errors.
fn whole(file: &mut dyn Read, path: &Path) -> Result<Vec<u8>, AttachmentError> {
    let unreadable = |source| AttachmentError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let size = file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if size as u64 > LARGEST {
        return Err(AttachmentError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

fn mime(path: &Path, bytes: &[u8]) -> Option<&'static str> {
    let begins = |(at, beginning, _): &&(usize, &[u8], &str)| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(beginning))
    };
    let by_content = BEGINNINGS.iter().find(begins).map(|(_, _, mime)| *mime);
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let by_name =
        || ENDINGS.iter().find(|(known, _)| Some(*known) == ending.as_deref()).map(|(_, mime)| *mime);
    by_content.or_else(by_name)
}

/// A path as a percent-encoded file URI.
fn uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file://");
    for byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.extend([&*format!("%{byte:02X}")]),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, bytes: &[u8], attachment: fn(PathBuf) -> PromptAttachment) -> Result<Value, String> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(name), bytes).unwrap();
        let block =
            attachment(name.into()).block(home.path(), &mut io::empty()).map_err(|error| error.to_string());
        let place = uri(home.path());
        block
            .map(|block| serde_json::from_str(&block.to_string().replace(&place, "file://")).unwrap())
            .map_err(|words| words.replace(home.path().to_str().unwrap(), ""))
    }

    #[test]
    fn attachment_type_comes_from_magic_bytes_or_the_name() {
        let png = b"\x89PNG\r\n\x1a\nrest";
        assert_eq!(
            block("shot 1.jpg", png, PromptAttachment::Image),
            Ok(json!({
                "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgpyZXN0", "uri": "file:///shot%201.jpg",
            }))
        );
        assert_eq!(
            block("a.MP3", b"hi", PromptAttachment::Audio),
            Ok(json!({ "type": "audio", "mimeType": "audio/mpeg", "data": "aGk=" }))
        );
        assert_eq!(
            block("a.bin", b"hi", PromptAttachment::Image),
            Err("/a.bin is no image of a known type".to_owned())
        );
        assert_eq!(
            block("a.png", b"OggS", PromptAttachment::Image),
            Err("/a.png is no image of a known type".to_owned()),
            "a sound is no image, whatever it is called"
        );
    }

    #[test]
    fn a_resource_is_sent_as_text_if_it_is_text() {
        let resource = |resource: Value| Ok(json!({ "type": "resource", "resource": resource }));
        assert_eq!(
            block("a.md", "# é".as_bytes(), PromptAttachment::Resource),
            resource(json!({ "uri": "file:///a.md", "mimeType": "text/markdown", "text": "# é" }))
        );
        assert_eq!(
            block("a", b"", PromptAttachment::Resource),
            resource(json!({ "uri": "file:///a", "mimeType": "text/plain", "text": "" }))
        );
        assert_eq!(
            block("a", b"\xff", PromptAttachment::Resource),
            resource(json!({ "uri": "file:///a", "mimeType": "application/octet-stream", "blob": "/w==" }))
        );
    }

    #[test]
    fn an_empty_file_is_no_image_and_no_sound() {
        for attachment in [PromptAttachment::Image, PromptAttachment::Audio] {
            assert_eq!(block("a.png", b"", attachment), Err("/a.png is empty".to_owned()));
        }
    }

    #[test]
    fn a_hyphen_is_stdin() {
        let block = PromptAttachment::Image(STDIN.into()).block(Path::new("/w"), &mut &b"GIF8"[..]).unwrap();
        assert_eq!(
            block,
            json!({ "type": "image", "mimeType": "image/gif", "data": "R0lGOA==", "uri": "file:///dev/stdin" })
        );
    }

    #[test]
    fn a_file_that_is_missing_or_too_large_is_named() {
        let home = tempfile::tempdir().unwrap();
        let missing =
            PromptAttachment::Resource("missing".into()).block(home.path(), &mut io::empty()).unwrap_err();
        assert_eq!(missing.to_string(), format!("cannot read {}", home.path().join("missing").display()));
        let path = home.path().join("large");
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        let large =
            PromptAttachment::Resource("large".into()).block(home.path(), &mut io::empty()).unwrap_err();
        assert_eq!(large.to_string(), format!("{} is larger than 32 MiB", path.display()));
    }
}
