// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs Slurm's and munge's own programs, each with a limit of time and output.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use phalanx_core::limits::DOCTOR_OUTPUT_BYTES_MAX;

/// Longest time that one program may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two checks whether the program has ended.
const POLL: Duration = Duration::from_millis(10);
/// Directories of administrators' programs; they are added to the caller's path.
const MORE_PATH: &str = ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds the file of a program.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + MORE_PATH;
    path.split(':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| Path::new(directory).join(program))
        .find(|file| file.is_file())
}

/// Output of a program that ended well.
///
/// # Errors
/// A sentence: not installed, no end in time, or its own message.
pub(in crate::commands) fn output(
    program: &str,
    arguments: &[&str],
    input: &[u8],
) -> Result<String, String> {
    let file = find(program).ok_or_else(|| format!("{program} is not installed"))?;
    let mut child = Command::new(file)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    // What is written is small: it fits the pipe.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input);
    }
    let out = child.stdout.take().map(drain);
    let err = child.stderr.take().map(drain);
    let end = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program}: no end within {} s", TIMEOUT.as_secs()));
            }
        }
    };
    let text = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, err) = (text(out), text(err));
    if status.success() {
        return Ok(out);
    }
    let said = if err.trim().is_empty() { &out } else { &err };
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(format!(
        "{program}: {}",
        if said.is_empty() { status.to_string() } else { said.join("; ") }
    ))
}

/// Reads a pipe in a thread, up to the limit.
fn drain(pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut pipe = pipe;
        let _ = (&mut pipe).take(DOCTOR_OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        // The rest is read and dropped, so that the program does not hang on it.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        bytes
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::output;

    #[test]
    fn what_programs_say() {
        assert_eq!(output("cat", &[], b"text").unwrap(), "text");
        assert_eq!(output("sh", &["-c", "echo why >&2; exit 3"], b"").unwrap_err(), "sh: why");
        assert_eq!(
            output("no-such-program", &[], b"").unwrap_err(),
            "no-such-program is not installed"
        );
    }
}
