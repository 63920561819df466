// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx generate`: manual pages and completion for packages.

mod examples;
mod shells;
mod toml_page;

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;

use phalanx_config::args::Args as DaemonArgs;

use super::Cli;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;

/// Write manual pages and completion scripts into a directory
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub struct Args {
    /// Directory, made if missing: man/, bash/, zsh/, fish/ below it
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Args {
    pub fn run(&self, _: &Global) -> Result<Outcome, Failure> {
        let directory = &self.directory;
        let text = write(directory).map_err(|error| {
            Failure::usage(format!("cannot write into {}: {error}", directory.display()))
        })?;
        Ok(Outcome::ok(text))
    }
}

/// Writes everything; the result lists the files.
fn write(directory: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let man = directory.join("man");
    for section in ["man1", "man5", "man8"] {
        fs::create_dir_all(man.join(section))?;
    }
    let mut command = Cli::command();
    command.build();
    pages(&command, &[], &man.join("man1"), &mut text)?;
    let daemon = clap_mangen::Man::new(DaemonArgs::command()).section("8");
    let mut bytes = Vec::new();
    daemon.render(&mut bytes)?;
    put(&man.join("man8/phalanxd.8"), &bytes, &mut text)?;
    put(&man.join("man5/phalanx.toml.5"), toml_page::page().as_bytes(), &mut text)?;
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let directory = directory.join(name);
        fs::create_dir_all(&directory)?;
        let path = clap_complete::generate_to(shell, &mut Cli::command(), "phalanx", &directory)?;
        let script = fs::read_to_string(&path)?;
        fs::write(&path, shells::with_names(shell, &script))?;
        text.push_str(&format!("{}\n", path.display()));
    }
    Ok(text)
}

/// Writes a file and notes its path.
fn put(path: &Path, bytes: &[u8], text: &mut String) -> std::io::Result<()> {
    fs::write(path, bytes)?;
    text.push_str(&format!("{}\n", path.display()));
    Ok(())
}

/// One page for a command and for each one below it that is not hidden.
fn pages(
    command: &clap::Command,
    words: &[&str],
    man: &Path,
    text: &mut String,
) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    if let Some(examples) = examples::section(&words.join(" ")) {
        bytes.extend(examples.as_bytes());
    }
    put(&man.join(page.get_filename()), &bytes, text)?;
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            pages(inner, &[words, &[inner.get_name()]].concat(), man, text)?;
        }
    }
    Ok(())
}
