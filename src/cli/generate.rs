// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx generate`: manual pages and completion for packages.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Outcome;
use super::args::Cli;
use super::exit::{Exit, Failure};

pub(super) fn run(directory: &Path) -> Result<Outcome, Failure> {
    write(directory).map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot write into {}: {error}", directory.display()))
    })
}

fn write(directory: &Path) -> std::io::Result<Outcome> {
    let mut text = String::new();
    let man = directory.join("man/man1");
    fs::create_dir_all(&man)?;
    let mut command = Cli::command();
    command.build();
    pages(&command, &man, &mut text)?;
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let directory = directory.join(name);
        fs::create_dir_all(&directory)?;
        let path = clap_complete::generate_to(shell, &mut Cli::command(), "phalanx", &directory)?;
        text.push_str(&format!("{}\n", path.display()));
    }
    Ok(Outcome::ok(text))
}

/// One page for a command and for each one below it that is not hidden.
fn pages(command: &clap::Command, man: &Path, text: &mut String) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    let path = man.join(page.get_filename());
    fs::write(&path, bytes)?;
    text.push_str(&format!("{}\n", path.display()));
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            pages(inner, man, text)?;
        }
    }
    Ok(())
}
