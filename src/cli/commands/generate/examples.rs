// SPDX-License-Identifier: GPL-3.0-or-later
//! Examples of the manual pages: command lines, each with what it is for.

use roff::{Roff, bold, roman};

/// What it is for, and the line.
type Example = (&'static str, &'static str);

/// By the words of the command.
const EXAMPLES: &[(&str, &[Example])] = &[
    ("status", &[("Who places jobs, and what became of Slurm's calls", "phalanx status")]),
    (
        "top",
        &[
            ("Watch queue and decisions, every second", "phalanx top -d 1"),
            ("The same once, into a mail", "phalanx top --once | mail -s phalanx root"),
        ],
    ),
    (
        "nodes",
        &[
            ("Use of each resource and node", "phalanx nodes"),
            ("Leaf switches and their idle nodes", "phalanx nodes --topology"),
        ],
    ),
    (
        "explain",
        &[
            ("Why job 4711 runs where it runs, or waits", "phalanx explain 4711"),
            ("The same of a task of an array, as JSON", "phalanx explain 4711_3 --json"),
        ],
    ),
    ("shadow", &[("Agreement of the last week", "phalanx shadow --since 7d")]),
    (
        "advise time",
        &[
            ("Time limits that would have covered your jobs", "phalanx advise time"),
            (
                "Those of all users, from the accounting and without phalanxd",
                "sacct -a -X -P -S now-60days -E now -o ALL | phalanx advise time -a --sacct -",
            ),
        ],
    ),
    (
        "report",
        &[
            ("What Phalanx did in the last 30 days", "phalanx report"),
            (
                "With what it would have done to last month's jobs, as a page",
                "sacct -a -X -P -S now-30days -E now -o ALL | phalanx report --sacct - \
                 --html r.html",
            ),
        ],
    ),
    (
        "plan",
        &[
            ("What would start now", "phalanx plan"),
            ("How job arrays are split, with energy and profit", "phalanx plan --bags"),
        ],
    ),
    (
        "config check",
        &[("Check a file before a reload", "phalanx config check /etc/phalanx/phalanx.toml")],
    ),
    ("history speeds", &[("How fast jobs run on one node", "phalanx history speeds --node n1")]),
    ("history energy", &[("Power that decisions reckon with", "phalanx history energy")]),
    ("energy", &[("Energy and cost of the last month", "phalanx energy --since 30d")]),
    ("history runs", &[("The last day's runs", "phalanx history runs --since 24h")]),
    (
        "history import",
        &[(
            "Learn from last month",
            "sacct -a -P -S now-30days -E now -o ALL | phalanx history import -",
        )],
    ),
    ("reload", &[("Put the changed configuration in force", "phalanx reload")]),
    ("enable", &[("Ask again after an ejection", "phalanx enable")]),
    ("doctor", &[("What is wrong on this host", "phalanx doctor")]),
    ("solve", &[("One problem of method gang", "phalanx solve gang problem.json")]),
    ("splits", &[("Read what this task of a data job is to read", "phalanx splits -- wc -l")]),
    ("hdfs check", &[("Whether HDFS answers", "phalanx hdfs check")]),
    ("hdfs ls", &[("Files of a directory with their sizes", "phalanx hdfs ls hdfs://head/in")]),
    ("agent", &[("Run the collectors of this node", "phalanx agent")]),
    (
        "share",
        &[
            (
                "Cut a file for four nodes",
                "phalanx share --input images.txt --nodes 'n[1-4]' --method C --out parts",
            ),
            (
                "In a job: hand lines to its tasks one by one, by learned speed",
                "phalanx share --stream items.txt -- srun phalanx share --worker -- ./work_on",
            ),
        ],
    ),
    (
        "collector add",
        &[(
            "Measure the load of every node",
            "phalanx collector add load1 --cmd builtin:load1 --every 10s",
        )],
    ),
    ("collector update", &[("Measure less often", "phalanx collector update load1 --every 60s")]),
    ("collector list", &[("What is measured, and how fresh", "phalanx collector list")]),
    ("collector remove", &[("Measure it no longer", "phalanx collector remove load1")]),
    ("collector start", &[("Measure again", "phalanx collector start load1")]),
    ("collector stop", &[("Pause it", "phalanx collector stop load1")]),
    ("collector data", &[("The newest values", "phalanx collector data load1")]),
    (
        "collector use",
        &[("Let gangs go by a datum", "phalanx collector use gang.speed capability_history")],
    ),
    (
        "simulate",
        &[(
            "Last month's jobs on nodes such as yours",
            "sacct -a -X -P -S now-30days -E now -o ALL | phalanx simulate --jobs - --format sacct \
             --nodes '128x(cpu=64,mem=256G)'",
        )],
    ),
    ("record start", &[("Record the next day's decisions", "phalanx record start --for 24h")]),
    ("record stop", &[("End the recording", "phalanx record stop")]),
    ("record status", &[("Where it is written, and how much", "phalanx record status")]),
    (
        "replay",
        &[(
            "Decide again, under another configuration",
            "phalanx replay a.phxrec --config new.toml",
        )],
    ),
    ("what-if", &[("The queue's next day under another one", "phalanx what-if --config new.toml")]),
];

/// The section EXAMPLES of a command's page; nothing for one without.
pub fn section(words: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(of, _)| *of == words)?;
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]);
    for (what, line) in *examples {
        page.control("TP", []);
        page.text([roman(format!("{what}:"))]);
        page.text([bold(*line)]);
    }
    Some(page.to_roff())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::EXAMPLES;
    use crate::commands::Cli;
    use clap::{CommandFactory, Parser};

    /// The lines are right: clap takes their options, and no command is without.
    #[test]
    fn every_example_is_a_command_line() {
        for (words, examples) in EXAMPLES {
            for (_, line) in *examples {
                let own = line.split('|').find(|part| part.trim().starts_with("phalanx")).unwrap();
                let parsed = Cli::try_parse_from(own.replace('\'', "").split_whitespace());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                let begin = format!("phalanx {words}");
                assert!(own.trim().starts_with(&begin), "{line} is no example of {words}");
            }
        }
    }

    #[test]
    fn every_command_has_an_example() {
        let command = Cli::command();
        let shown = |inner: &&clap::Command| !inner.is_hide_set();
        for outer in command.get_subcommands().filter(shown) {
            let inner: Vec<_> = outer.get_subcommands().filter(shown).collect();
            let name = outer.get_name();
            let names = match inner.len() {
                0 => vec![name.to_owned()],
                _ => inner.iter().map(|of| format!("{name} {}", of.get_name())).collect(),
            };
            for words in names {
                assert!(EXAMPLES.iter().any(|(of, _)| *of == words), "{words} has no example");
            }
        }
    }
}
