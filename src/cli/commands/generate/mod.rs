// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx generate`: manual pages and completion for packages.

mod examples;
mod names;
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
    #[arg(value_name = "DIRECTORY", required_unless_present = "names")]
    directory: Option<PathBuf>,
    /// For completion scripts: print the names of jobs or nodes, one a line, nothing where
    /// phalanxd does not answer at once
    #[arg(long, value_enum, conflicts_with = "directory")]
    names: Option<names::What>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        if let Some(names) = self.names {
            return Ok(names.list(global));
        }
        let directory = self.directory.as_deref().unwrap_or(Path::new("."));
        write(directory).map(Outcome::ok).map_err(|error| cannot(directory, &error))
    }
}

/// Writes everything; the result lists the files.
fn write(directory: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let man = directory.join("man");
    for section in ["man1", "man5", "man8"] {
        fs::create_dir_all(man.join(section))?;
    }
    let mut command = Cli::described();
    command.build();
    pages(&command, &[], &man.join("man1"), &mut text)?;
    let daemon = clap_mangen::Man::new(DaemonArgs::command()).section("8");
    let mut bytes = Vec::new();
    daemon.render(&mut bytes)?;
    put(&man.join("man8/phalanxd.8"), &bytes, &mut text)?;
    put(&man.join("man5/phalanx.toml.5"), toml_page::page().as_bytes(), &mut text)?;
    scripts(Cli::described(), directory, shells::with_names, &mut text)?;
    Ok(text)
}

/// Writes manual page and completion scripts of a program without commands.
///
/// # Errors
/// [`Failure::usage`]: the directory cannot be written to.
pub fn program(
    command: clap::Command,
    examples: &[(&str, &str)],
    directory: &Path,
) -> Result<Outcome, Failure> {
    let written = || -> std::io::Result<String> {
        let mut text = String::new();
        let man = directory.join("man/man1");
        fs::create_dir_all(&man)?;
        page(&command, Some(examples::section(examples)), &man, &mut text)?;
        scripts(command, directory, |_, script| script.to_owned(), &mut text)?;
        Ok(text)
    };
    written().map(Outcome::ok).map_err(|error| cannot(directory, &error))
}

fn cannot(directory: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write into {}: {error}", directory.display()))
}

/// Writes a completion script for each shell; `more` completes the one that clap makes.
fn scripts(
    mut command: clap::Command,
    directory: &Path,
    more: fn(Shell, &str) -> String,
    text: &mut String,
) -> std::io::Result<()> {
    let program = command.get_name().to_owned();
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let directory = directory.join(name);
        fs::create_dir_all(&directory)?;
        let path = clap_complete::generate_to(shell, &mut command, &program, &directory)?;
        let script = fs::read_to_string(&path)?;
        fs::write(&path, more(shell, &script))?;
        text.push_str(&format!("{}\n", path.display()));
    }
    Ok(())
}

/// Writes a file and notes its path.
fn put(path: &Path, bytes: &[u8], text: &mut String) -> std::io::Result<()> {
    fs::write(path, bytes)?;
    text.push_str(&format!("{}\n", path.display()));
    Ok(())
}

/// Writes a page for a command and for each one below it that is not hidden.
fn pages(
    command: &clap::Command,
    words: &[&str],
    man: &Path,
    text: &mut String,
) -> std::io::Result<()> {
    page(command, examples::of(&words.join(" ")).map(|all| examples::section(&all)), man, text)?;
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            pages(inner, &[words, &[inner.get_name()]].concat(), man, text)?;
        }
    }
    Ok(())
}

/// Writes one page, with its examples where there are some.
fn page(
    command: &clap::Command,
    examples: Option<String>,
    man: &Path,
    text: &mut String,
) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    bytes.extend(examples.unwrap_or_default().into_bytes());
    put(&man.join(page.get_filename()), &bytes, text)
}
