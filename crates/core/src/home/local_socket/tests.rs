use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn pair() -> (LocalSocket, LocalSocket) {
    let (one, other) = UnixStream::pair().unwrap();
    (LocalSocket::new(one).unwrap(), LocalSocket::new(other).unwrap())
}

#[tokio::test]
async fn a_local_socket_carries_bytes_and_the_end_of_the_stream() {
    let (mut one, mut other) = pair();
    other.writer.write_all(b"a line\n").await.unwrap();
    drop(other.writer);
    let mut said = String::new();
    one.reader.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "a line\n");
    drop(one.writer);
    assert_eq!(other.reader.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_write_waits_for_a_full_local_socket() {
    let (LocalSocket { mut writer, .. }, LocalSocket { mut reader, .. }) = pair();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|index| index.to_le_bytes()[0]).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        assert!(writer.full.is_none(), "it waits for room that it does not need");
    });
    let mut read = Vec::new();
    reader.read_to_end(&mut read).await.unwrap();
    writing.await.unwrap();
    assert!(read == expected, "{} bytes came", read.len());
}

#[tokio::test]
async fn writing_to_a_closed_local_socket_is_an_error_without_signal() {
    let (mut one, other) = pair();
    drop(other);
    assert_eq!(one.writer.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
