//! The program in a home of its own, for tests of single commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use acpx_testkit::TempHome;

/// A home and a directory to work in.
pub(crate) struct Place {
    home: TempHome,
}

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = TempHome::new();
        std::fs::create_dir_all(home.join("home")).unwrap();
        std::fs::create_dir_all(home.join("work")).unwrap();
        Self { home }
    }

    /// The directory that commands work in, every link followed.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.join("work").canonicalize().unwrap()
    }

    /// `ACPX_HOME`.
    pub(crate) fn acpx_home(&self) -> PathBuf {
        self.home.join("home")
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.acpx_home().join("config.json"), text).unwrap();
    }

    /// Runs a command with nothing on its stdin.
    pub(crate) fn acpx(&self, arguments: &[&str]) -> Done {
        self.acpx_in(&self.work(), arguments)
    }

    /// Runs a command in another directory.
    pub(crate) fn acpx_in(&self, directory: &Path, arguments: &[&str]) -> Done {
        let output = Command::new(env!("CARGO_BIN_EXE_acpx"))
            .args(arguments)
            .current_dir(directory)
            .env("ACPX_HOME", self.acpx_home())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Done { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }
}

impl Done {
    /// The one line of stdout, as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }
}
