//! `session/load` and `session/resume` by the paths of a session's directory: links, and projects that have moved.

use acpx_core::model::{Fact, RecordId, Seq};
use acpx_core::store::Store;
use serde_json::{Value, json};

use super::Bench;
use super::editor::Editor;
use crate::engine::{everything, faithful, received};

/// A project at `one` with a link to it, `two` beside it, and a parked session that was created by the link.
struct Linked {
    bench: Bench,
    argv: Vec<String>,
    editor: Editor,
    session: String,
}

impl Linked {
    async fn new() -> Self {
        let bench = Bench::new();
        for name in ["one", "two"] {
            std::fs::create_dir(bench.home.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(bench.home.join("one"), bench.home.join("link")).unwrap();
        let argv = bench.agent(&faithful(everything()));
        let mut editor = bench.editor(&argv).await;
        let new = json!({ "cwd": bench.home.join("link"), "mcpServers": [] });
        let made = editor.call("session/new", new).await.unwrap();
        let session = made["sessionId"].as_str().unwrap().to_owned();
        editor.turn(&session, "hello").await;
        editor.call("session/close", json!({ "sessionId": session })).await.unwrap();
        Self { bench, argv, editor, session }
    }

    fn path(&self, name: &str) -> String {
        self.bench.home.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned()
    }

    /// The path that the session was given.
    fn link(&self) -> String {
        self.bench.home.join("link").to_str().unwrap().to_owned()
    }

    fn point_link_to(&self, name: &str) {
        std::fs::remove_file(self.link()).unwrap();
        std::os::unix::fs::symlink(self.bench.home.join(name), self.link()).unwrap();
    }

    /// Asks for the session by a path: the answer, and how many updates came before it.
    async fn ask(&mut self, method: &str, cwd: &str) -> (Result<Value, Value>, usize) {
        let params = json!({ "sessionId": self.session, "cwd": cwd, "mcpServers": [] });
        let id = self.editor.ask(method, params).await;
        let (answer, told) = self.editor.answer(id).await;
        (answer, told.len())
    }

    /// The error that a load and a resume by this path have in common. Nothing of the conversation is told before it.
    async fn refused(&mut self, cwd: &str) -> Value {
        let (loaded, told) = self.ask("session/load", cwd).await;
        let (resumed, _) = self.ask("session/resume", cwd).await;
        let error = loaded.unwrap_err();
        assert_eq!((&resumed.unwrap_err(), told), (&error, 0), "{cwd}");
        error
    }

    /// An error as it is told of a path, with what to do next.
    fn error(code: &str, problem: &str, hint: &str) -> Value {
        json!({
            "code": -32602,
            "message": problem,
            "data": {
                "field": "cwd",
                "problem": problem,
                "details": format!("{problem}; {hint}"),
                "acpx": { "code": code, "hint": hint },
            },
        })
    }

    /// In which directory the agent has brought the session back, each time.
    fn restored_in(&self) -> Vec<String> {
        let restores = received(&self.argv).into_iter().filter(|(method, _)| method == "session/resume");
        restores.map(|(_, params)| params["cwd"].as_str().unwrap().to_owned()).collect()
    }

    async fn close(&mut self) {
        self.editor.call("session/close", json!({ "sessionId": self.session })).await.unwrap();
    }
}

#[tokio::test]
async fn load_through_a_link_to_another_directory_names_sessions_move() {
    let mut linked = Linked::new().await;
    linked.point_link_to("two");
    let (session, link) = (linked.session.clone(), linked.link());
    let (one, two) = (linked.path("one"), linked.path("two"));
    let problem =
        format!("the session {session} was created in {one}, and its path {link} leads to {two} now");
    let hint = "put the directory back, or move the session to where its project is now";
    let hint = format!("{hint}: acpx sessions move {session} --cwd DIR");
    let expected = Linked::error("SESSION_DIRECTORY_MOVED", &problem, &hint);
    assert_eq!(linked.refused(&link).await, expected);
    assert_eq!(linked.restored_in(), [""; 0]);
}

#[tokio::test]
async fn load_by_another_path_to_the_same_directory_updates_the_cwd() {
    let mut linked = Linked::new().await;
    let (one, link) = (linked.path("one"), linked.link());
    // As long as the path of the record is good, it goes out as it was given.
    linked.ask("session/load", &one).await.0.unwrap();
    linked.close().await;
    assert_eq!(linked.restored_in(), std::slice::from_ref(&link));

    linked.point_link_to("two");
    let other = linked.path("other");
    std::os::unix::fs::symlink(&one, &other).unwrap();
    linked.ask("session/load", &other).await.0.unwrap();
    assert_eq!(linked.restored_in(), [link.clone(), one.clone()]);
    let record = linked.bench.record(&linked.session).await;
    assert_eq!((record.cwd.as_str(), record.real_cwd.as_str()), (one.as_str(), one.as_str()));
    let id = RecordId::new(&*linked.session).unwrap();
    let events = linked.bench.store().events(id, Seq::FIRST, 1000).await.unwrap();
    let moves: Vec<_> = events
        .iter()
        .filter_map(|event| Fact::from_body(&event.body))
        .filter(|fact| matches!(fact, Fact::Moved { .. }))
        .collect();
    assert_eq!(moves, [Fact::Moved { from: link, to: one.clone() }]);
    linked.close().await;
    linked.ask("session/resume", &one).await.0.unwrap();
}

#[tokio::test]
async fn load_of_a_moved_project_fails_before_the_replay_with_hint() {
    let mut linked = Linked::new().await;
    let (session, link) = (linked.session.clone(), linked.link());
    let (one, new) = (linked.path("one"), linked.path("new place"));
    std::fs::rename(&one, &new).unwrap();
    let problem = format!("the session {session} was created in {one}, and its path {link} is gone");
    let hint = "put the directory back, or move the session to where its project is now";
    let hint = format!("{hint}: acpx sessions move {session} --cwd DIR");
    let expected = Linked::error("SESSION_DIRECTORY_MOVED", &problem, &hint);
    assert_eq!(linked.refused(&link).await, expected);

    let problem = format!("the session {session} works in {link}, and was asked for in {new}");
    let moving = format!("acpx sessions move {session} --cwd '{new}'");
    let hint = format!("open it in {link}; if its project has moved: {moving}");
    let expected = Linked::error("SESSION_WORKS_ELSEWHERE", &problem, &hint);
    assert_eq!(linked.refused(&new).await, expected);

    // What the hint says is what helps.
    let mut shell = linked.bench.client().await;
    shell.call::<Value>("_acpx/move", &json!({ "sessionId": session, "cwd": new })).await.unwrap();
    linked.ask("session/load", &new).await.0.unwrap();
    assert_eq!(linked.restored_in(), [new]);
}
