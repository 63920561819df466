// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs programs of Slurm and munge, each with a limit of time.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest time that one program may take, seconds.
const TIMEOUT_S: &str = "10";
/// Status of `timeout` after it has ended the program; there is none if that took SIGKILL.
const ENDED: i32 = 124;
/// Directories of administrators' programs; they are added to the caller's path.
const MORE_PATH: &str = ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + MORE_PATH;
    path.split(':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| Path::new(directory).join(program))
        .find(|file| file.is_file())
}

/// Returns the output of a program that succeeded.
///
/// # Errors
/// A sentence: not installed, no end in time, or its own message.
pub fn output(program: &str, arguments: &[&str], input: &[u8]) -> Result<String, String> {
    within(TIMEOUT_S, program, arguments, input)
}

fn within(limit_s: &str, program: &str, args: &[&str], input: &[u8]) -> Result<String, String> {
    let file = find(program).ok_or_else(|| format!("{program} is not installed"))?;
    let failed = |error: std::io::Error| format!("{program}: {error}");
    let mut command = Command::new("timeout");
    command.args(["-k", "1", limit_s]).arg(file).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    // What is written is small: it fits the pipe.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input);
    }
    let done = child.wait_with_output().map_err(failed)?;
    let [out, err] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text));
    if done.status.success() {
        return Ok(out.into_owned());
    }
    if matches!(done.status.code(), None | Some(ENDED)) {
        return Err(format!("{program}: no end within {limit_s} s"));
    }
    let said = if err.trim().is_empty() { out } else { err };
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = if said.is_empty() { done.status.to_string() } else { said.join("; ") };
    Err(format!("{program}: {said}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{output, within};

    #[test]
    fn what_programs_say() {
        assert_eq!(output("cat", &[], b"text").unwrap(), "text");
        assert_eq!(output("sh", &["-c", "echo why >&2; exit 3"], b"").unwrap_err(), "sh: why");
        assert_eq!(
            output("no-such-program", &[], b"").unwrap_err(),
            "no-such-program is not installed"
        );
        for script in ["exec sleep 9", "trap '' TERM; while :; do :; done"] {
            let error = within("0.1", "sh", &["-c", script], b"").unwrap_err();
            assert_eq!(error, "sh: no end within 0.1 s");
        }
        let long = output("sh", &["-c", "yes | head -c 3000000"], b"").unwrap();
        assert_eq!(long.len(), 3_000_000);
    }
}
