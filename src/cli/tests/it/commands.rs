// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that every command has help. To add one: write its module in `src/cli/commands` with
//! `Args` (the options; their comments are the help text) and `Args::run`, add its line to the list
//! of `src/cli/commands/mod.rs`, and its name to [`COMMANDS`] here, which lists them as the help
//! text does.
#![allow(clippy::unwrap_used)]

use crate::cli::{code, err, out, phalanx};

const COMMANDS: &[&str] = &[
    "status",
    "nodes",
    "explain",
    "plan",
    "report",
    "report audit",
    "report shadow",
    "report compare",
    "report energy",
    "advise time",
    "advise slurm.conf",
    "history speeds",
    "history runs",
    "history import",
    "doctor",
    "drill",
    "daemon check",
    "daemon reload",
    "daemon enable",
    "daemon restore",
    "data splits",
    "data check",
    "data ls",
    "collector add",
    "collector update",
    "collector list",
    "collector remove",
    "collector start",
    "collector stop",
    "collector data",
    "collector use",
    "collector agent",
    "record start",
    "record stop",
    "record status",
    "record replay",
    "simulate",
    "solve",
];

/// Most commands at top level.
const TOP_LEVEL_MAX: usize = 15;

/// The commands that users see and that do something by themselves, each with its words.
fn listed(command: &clap::Command, words: &[&str], found: &mut Vec<(String, clap::Command)>) {
    let shown = |inner: &&clap::Command| !inner.is_hide_set() && inner.get_name() != "help";
    for inner in command.get_subcommands().filter(shown) {
        let words = [words, &[inner.get_name()]].concat();
        if !inner.is_subcommand_required_set() {
            found.push((words.join(" "), inner.clone()));
        }
        listed(inner, &words, found);
    }
}

fn all() -> Vec<(String, clap::Command)> {
    let mut command = phalanx_cli::command();
    command.build();
    let mut found = Vec::new();
    listed(&command, &[], &mut found);
    found
}

#[test]
fn all_commands_are_listed() {
    let names: Vec<String> = all().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, COMMANDS);
    let top = phalanx_cli::command();
    assert!(top.get_subcommands().count() <= TOP_LEVEL_MAX);
}

/// Goal: the options of a command stand together, apart from the options of every command.
#[test]
fn global_options_have_a_heading_of_their_own() {
    for (name, command) in all() {
        let global = Some("Global options");
        let options = command.get_arguments().filter(|option| option.is_global_set());
        let heads: Vec<_> = options.map(|option| option.get_help_heading()).collect();
        assert_eq!(heads, [global; 4], "{name}");
    }
}

#[test]
fn every_command_and_option_has_help() {
    for (name, mut command) in all() {
        let about = command.get_about().unwrap().to_string();
        assert!(about.starts_with(char::is_uppercase) && !about.ends_with('.'), "{name}: {about}");
        for option in command.get_arguments() {
            let help = option.get_help().or(option.get_long_help());
            assert!(help.is_some(), "{name}: {} has no help", option.get_id());
        }
        let help = command.render_long_help().to_string();
        assert!(help.starts_with(&about) && help.contains("Exit status:"), "{name}: {help}");
    }
}

#[test]
fn every_command_refuses_an_option_that_it_does_not_have() {
    for (name, _) in all() {
        let words: Vec<&str> = name.split(' ').chain(["--no-such-option"]).collect();
        let output = phalanx(&words);
        assert_eq!((code(&output), out(&output)), (2, String::new()), "{name}");
        assert!(err(&output).contains("--no-such-option"), "{name}: {}", err(&output));
    }
}
