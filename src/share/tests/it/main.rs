// SPDX-License-Identifier: GPL-3.0-or-later
//! The program `phalanx-share`, run as users run it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod split;
mod stream;

use std::process::{Command, Output, Stdio};

fn phalanx_share(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-share"));
    command.args(arguments).env_remove("PHALANX_SOCKET").stdin(Stdio::null());
    command.output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("not ended by a signal")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Goal: the manual page and the completion scripts name the options of both uses.
#[test]
fn manual_page_and_completion_are_generated() {
    let dir = tempfile::tempdir().unwrap();
    let output = phalanx_share(&["--generate", dir.path().to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    let page = read("man/man1/phalanx-share.1");
    for text in ["\\-\\-input", "\\-\\-worker", ".SH EXAMPLES", "4  phalanxd does not answer"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    for script in ["bash/phalanx-share.bash", "zsh/_phalanx-share", "fish/phalanx-share.fish"] {
        assert!(read(script).contains("item-timeout"), "{script}");
    }
    let help = out(&phalanx_share(&["--help"]));
    assert!(help.contains("Exit status:") && !help.contains("--generate"), "{help}");
}
