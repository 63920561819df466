// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx-bench pages DIRECTORY`: manual pages and completion scripts of phalanx, phalanx-share
//! and phalanxd, for packages. Options and exit codes come from the programs themselves, examples
//! and the meaning of each field of an output from texts in this module.

mod examples;
mod man;
mod shells;
#[cfg(test)]
mod tests;
mod toml_page;

use std::fs;
use std::io::Result;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use phalanx_config::args::{Args as DaemonArgs, GateArgs};

/// Writes everything below a directory, which is made if missing: man/, bash/, zsh/, fish/.
///
/// # Errors
/// The directory cannot be written to.
pub fn run(directory: &Path) -> Result<()> {
    let man = directory.join("man");
    for section in ["man1", "man5", "man8"] {
        fs::create_dir_all(man.join(section))?;
    }
    let mut command = phalanx_cli::command();
    command.build();
    pages(&command, &[], &man.join("man1"))?;
    let share = phalanx_share::command();
    fs::write(man.join("man1/phalanx-share.1"), man::page(&share, "1", "share"))?;
    for (command, name) in
        [(DaemonArgs::command(), "phalanxd"), (GateArgs::command(), "phalanx-gate")]
    {
        fs::write(man.join(format!("man8/{name}.8")), man::page(&command, "8", name))?;
    }
    fs::write(man.join("man5/phalanx.toml.5"), toml_page::page())?;
    scripts(phalanx_cli::command(), directory, shells::with_names)?;
    scripts(share, directory, |_, script| script.to_owned())
}

/// Writes a completion script for each shell; `more` completes the script that clap makes.
fn scripts(mut command: Command, directory: &Path, more: fn(Shell, &str) -> String) -> Result<()> {
    let program = command.get_name().to_owned();
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let directory = directory.join(name);
        fs::create_dir_all(&directory)?;
        let path = clap_complete::generate_to(shell, &mut command, &program, &directory)?;
        let script = fs::read_to_string(&path)?;
        fs::write(&path, more(shell, &script))?;
    }
    Ok(())
}

/// Writes a page for a command and for each one below it that is not hidden.
fn pages(command: &Command, words: &[&str], man: &Path) -> Result<()> {
    let name = format!("{}.1", [&["phalanx"], words].concat().join("-"));
    fs::write(man.join(name), man::page(command, "1", &words.join(" ")))?;
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            pages(inner, &[words, &[inner.get_name()]].concat(), man)?;
        }
    }
    Ok(())
}
