// SPDX-License-Identifier: GPL-3.0-or-later
//! Examples of the manual pages: command lines, each with its purpose.

use roff::{Roff, bold, roman};

/// Purpose of an example, and its command line.
pub type Example = (&'static str, &'static str);

/// Words of a command, purpose of an example and its command line.
const EXAMPLES: &str = "\
status: Who places jobs, and how placement calls were answered: phalanx status
status: The same as JSON, for a script: phalanx status --json
nodes: Use of each resource and node: phalanx nodes
nodes: Leaf switches and their idle nodes: phalanx nodes --topology
explain: Why job 4711 runs where it runs, or waits: phalanx explain 4711
explain: The same of a task of an array, as JSON: phalanx explain 4711_3 --json
advise time: Time limits that would have covered your jobs: phalanx advise time
advise time: Those of all users, from the accounting and without phalanxd: sacct -a -X -P -S \
    now-60days -E now -o ALL | phalanx advise time -a --sacct -
advise slurm.conf: Settings of backfill for last month's jobs: phalanx advise slurm.conf --sacct \
    month.sacct
report: What Phalanx did in the last 30 days: phalanx report
report: With what it would have done to last month's jobs, as a page: sacct -a -X -P -S \
    now-30days -E now -o ALL | phalanx report --sacct - --html r.html
report audit: What was changed for your jobs in 30 days: phalanx report audit
report shadow: Agreement of the last week: phalanx report shadow --since 7d
report compare: Slurm alone and Phalanx, job by job: phalanx report compare --since 30d
report energy: Power that decisions use: phalanx report energy
plan: What would start now: phalanx plan
plan: The queue's next day under another configuration: phalanx plan --config new.toml
daemon check: Check a file before a reload: phalanx daemon check /etc/phalanx/phalanx.toml
history speeds: How fast jobs run on one node: phalanx history speeds --node n1
history runs: The last day's runs: phalanx history runs --since 24h
history import: Learn from last month: sacct -a -P -S now-30days -E now -o ALL | phalanx history \
    import -
drill: What a hanging or dead phalanxd costs here: phalanx drill
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
share: Cut a file for four nodes: phalanx-share --input images.txt --nodes 'n[1-4]' --method C \
    --out parts
share: In a job, hand lines to its tasks one by one, by learned speed: phalanx-share --stream \
    items.txt -- srun phalanx-share --worker -- ./work_on
record replay: Decide again, under another configuration: phalanx record replay a.phxrec \
    --config new.toml
";

/// The examples of a command.
pub fn of(words: &str) -> Vec<Example> {
    let own = |line: &'static str| line.strip_prefix(words)?.strip_prefix(": ")?.split_once(": ");
    EXAMPLES.lines().filter_map(own).collect()
}

/// The section EXAMPLES of a page; nothing for a command without examples.
pub fn section(words: &str) -> String {
    let examples = of(words);
    let mut page = Roff::new();
    if !examples.is_empty() {
        page.control("SH", ["EXAMPLES"]);
    }
    for (what, line) in examples {
        page.control("TP", []);
        page.text([roman(format!("{what}:"))]);
        page.text([bold(line)]);
    }
    page.to_roff()
}
