// SPDX-License-Identifier: GPL-3.0-or-later
//! Examples of the manual pages: command lines with their purpose.

use roff::{Roff, bold, roman};

/// Purpose of an example, and its command line.
type Example = (&'static str, &'static str);

/// Words of a command, purpose of an example and its command line.
const EXAMPLES: &str = "\
status: Who places jobs, and how placement calls were answered: phalanx status
status: Watch queue and decisions, every second: phalanx status --watch -d 1
status: The same once, into a mail: phalanx status -w --once | mail -s phalanx root
nodes: Use of each resource and node: phalanx nodes
nodes: Leaf switches and their idle nodes: phalanx nodes --topology
explain: Why job 4711 runs where it runs, or waits: phalanx explain 4711
explain: The same of a task of an array, as JSON: phalanx explain 4711_3 --json
advise time: Time limits that would have covered your jobs: phalanx advise time
advise time: Those of all users, from the accounting and without phalanxd: sacct -a -X -P -S \
    now-60days -E now -o ALL | phalanx advise time -a --sacct -
report: What Phalanx did in the last 30 days: phalanx report
report: With what it would have done to last month's jobs, as a page: sacct -a -X -P -S \
    now-30days -E now -o ALL | phalanx report --sacct - --html r.html
report shadow: Agreement of the last week: phalanx report shadow --since 7d
report energy: Energy and cost of the last month: phalanx report energy --since 30d
report energy: Power that decisions use: phalanx report energy --power
plan: What would start now: phalanx plan
plan: How job arrays are split, with energy and profit: phalanx plan --bags
plan: The queue's next day under another configuration: phalanx plan --config new.toml
config check: Check a file before a reload: phalanx config check /etc/phalanx/phalanx.toml
history speeds: How fast jobs run on one node: phalanx history speeds --node n1
history runs: The last day's runs: phalanx history runs --since 24h
history import: Learn from last month: sacct -a -P -S now-30days -E now -o ALL | phalanx history \
    import -
daemon reload: Put the changed configuration in force: phalanx daemon reload
daemon enable: How an ejected plugin asks again: phalanx daemon enable
daemon restore: What a lost plugin left: phalanx daemon restore --dry-run
doctor: What is wrong on this host: phalanx doctor
solve: One problem of method gang: phalanx solve gang problem.json
data splits: Read the splits of this task of a data job: phalanx data splits -- wc -l
data check: Whether HDFS answers: phalanx data check
data ls: Blocks of a directory's files by node: phalanx data ls hdfs://head/in
collector agent: Run the collectors of this node: phalanx collector agent
collector add: Measure the load of every node: phalanx collector add load1 --cmd builtin:load1 \
    --every 10s
collector update: Measure less often: phalanx collector update load1 --every 60s
collector list: What is measured, and how fresh: phalanx collector list
collector remove: Measure it no longer: phalanx collector remove load1
collector start: Measure again: phalanx collector start load1
collector stop: Pause it: phalanx collector stop load1
collector data: The newest values: phalanx collector data load1
collector use: Let gangs go by a datum: phalanx collector use gang.speed capability_history
simulate: Last month's jobs on nodes such as yours: sacct -a -X -P -S now-30days -E now -o ALL | \
    phalanx simulate --jobs - --format sacct --nodes '128x(cpu=64,mem=256G)'
record start: Record the next day's decisions: phalanx record start --for 24h
record stop: End the recording: phalanx record stop
record status: Where it is written, and how much: phalanx record status
record replay: Decide again, under another configuration: phalanx record replay a.phxrec \
    --config new.toml
";

/// The examples of a command; none for one without.
pub fn of(words: &str) -> Option<Vec<Example>> {
    let own = |line: &'static str| line.strip_prefix(words)?.strip_prefix(": ")?.split_once(": ");
    let found: Vec<Example> = EXAMPLES.lines().filter_map(own).collect();
    (!found.is_empty()).then_some(found)
}

/// The section EXAMPLES of a page.
pub fn section(examples: &[(&str, &str)]) -> String {
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]);
    for (what, line) in examples {
        page.control("TP", []);
        page.text([roman(format!("{what}:"))]);
        page.text([bold(*line)]);
    }
    page.to_roff()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{EXAMPLES, of};
    use crate::commands::Cli;
    use clap::{CommandFactory, Parser};

    /// Goal: clap takes the options of every example, and no command is without one.
    #[test]
    fn every_example_is_a_command_line() {
        for words in EXAMPLES.lines().map(|line| line.split(": ").next().unwrap()) {
            for (_, line) in of(words).unwrap() {
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
            let name = outer.get_name();
            let alone = !outer.is_subcommand_required_set();
            let inner = outer.get_subcommands().filter(shown);
            let inner = inner.map(|of| format!("{name} {}", of.get_name()));
            for words in inner.chain(alone.then(|| name.to_owned())) {
                assert!(of(&words).is_some(), "{words} has no example");
            }
        }
    }
}
