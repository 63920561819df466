// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the configuration: the annotated file, errors, differences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

const FILE: &str = include_str!("../../config/examples/phalanx.toml");

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("p.toml")).map_err(|error| error.to_string())
}

/// Goal: the annotated file contains the defaults of the code.
#[test]
fn annotated_file_equals_the_defaults() {
    assert_eq!(parse(FILE).unwrap(), Config::default());
    assert_eq!(parse("").unwrap(), Config::default());
    let shipped = include_str!("../../config/phalanx.toml");
    assert_eq!(parse(shipped).unwrap(), Config::default());
    assert!(shipped.lines().count() <= 20);
    let all = shipped.replace("# [", "[").replace("# mode", "mode").replace("# listen", "listen");
    parse(&all.replace("# public", "public")).unwrap();
    assert_eq!(Config::default().mode, Mode::Shadow, "nothing is placed before somebody says so");
}

/// Goal: the keys outside sections of a fixed name are those of the structs, and every section of
/// the structs is in the table of keys.
#[test]
fn key_table_equals_the_structs() {
    let mut config = Config::default();
    config.partition.insert("*".into(), PartitionConfig { mode: Some(Mode::Off) });
    config.account.insert("*".into(), Mode::Off);
    let known: BTreeSet<&str> = keys::keys().map(|key| key.path).collect();
    for path in config.flatten().into_keys().map(|key| key.replace("\"*\"", "*")) {
        assert!(known.contains(path.as_str()), "{path}");
    }
    let sections = toml::Table::try_from(&config).unwrap();
    for path in known {
        let section = path.split('.').next().unwrap();
        assert!(sections.contains_key(section), "{path}");
    }
}

/// Goal: every field of a registration is in the annotated file's example.
#[test]
fn annotated_file_documents_every_field_of_a_registration() {
    let every_key = "kind = 'collector'\ncmd = ''\nargs = []\nevery_ms = 1\ntimeout_ms = 1\n\
                     nodes = ''\ninputs = []\nreplicas = 0\nrun_as = ''\noutput = 'value'\n\
                     type = 'text'\nenabled = true\nexcept = ''\nstart = ''\nstop = ''";
    let patch: Patch = toml::from_str(every_key).unwrap();
    let fields = toml::Table::try_from(&patch).unwrap();
    let example = FILE.split("# [collector.my_datum]").nth(1).unwrap();
    for field in fields.keys() {
        assert!(example.contains(&format!("\n# {field} = ")), "{field}");
    }
    assert_eq!(fields.len(), 15);
}

/// Goal: every key is in the annotated file, under its table, with a comment that names its range
/// and whether it needs a restart.
#[test]
fn annotated_file_documents_every_key() {
    for key in keys::keys().filter(|key| key.kind != keys::Kind::Registration) {
        let (table, leaf) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        let section = match table {
            "" => FILE.split("\n[").next().unwrap(),
            "partition.*" => FILE.split("# [partition.debug]").nth(1).unwrap(),
            "account" => FILE.split("# [account]").nth(1).unwrap(),
            table => {
                let at = FILE.find(&format!("\n[{table}]\n")).expect(table);
                FILE[at + 2..].split("\n[").next().unwrap()
            }
        };
        let example = key.path.contains('*');
        let leaf = leaf.replace('*', "physics");
        let line = format!("\n{}{leaf} = ", if example { "# " } else { "" });
        let (before, _) =
            section.split_once(line.as_str()).unwrap_or_else(|| panic!("{}", key.path));
        if example {
            continue;
        }
        // The comment block directly above the key.
        let comment: Vec<&str> =
            before.lines().rev().take_while(|line| line.starts_with('#')).collect();
        assert!(!comment.is_empty(), "{} has no comment", key.path);
        let comment = comment.join("\n");
        let restart = comment.contains("[restart]");
        assert_eq!(restart, key.needs_restart, "{}: [restart]", key.path);
        match key.kind {
            keys::Kind::Int { min, max, .. } => {
                assert!(comment.contains(&min.to_string()), "{}: {min}", key.path);
                assert!(comment.contains(&max.to_string()), "{}: {max}", key.path);
            }
            keys::Kind::Real { min, max } => {
                assert!(comment.contains(&format!("{min:.1}")), "{}: {min}", key.path);
                assert!(comment.contains(&format!("{max:.1}")), "{}: {max}", key.path);
            }
            keys::Kind::Choice(words) | keys::Kind::Choices(words) => {
                for word in words {
                    assert!(comment.contains(&format!("\"{word}\"")), "{}: {word}", key.path);
                }
            }
            _ => {}
        }
    }
}

/// Goal: each default lies in its own range: a file that states all of them passes.
#[test]
fn defaults_pass_their_own_checks() {
    let text = toml::to_string(&Config::default()).unwrap();
    assert_eq!(parse(&text).unwrap(), Config::default());
}

/// Goal: a registration of the file is checked like one of the API.
#[test]
fn collectors_of_the_file_are_checked_as_a_whole() {
    let text = "[collector.free]\ncmd = \"builtin:cpu\"\nevery_ms = 2000\n";
    let config = parse(text).unwrap();
    let registration = &config.registrations()[0];
    assert_eq!((registration.name.as_str(), registration.every_ms), ("free", 2000));
    assert_eq!(registration.timeout_ms, 5000);
    for (text, expected) in [
        ("[collector.free]\nevery_ms = 2000\n", "p.toml:1:12: collector.free: cmd: expected"),
        ("[collector.\"a b\"]\ncmd = \"/c\"\n", "p.toml:1:12: collector.\"a b\": name: expected"),
        ("[collector.a]\ncmd = \"/c\"\nnodes = \"n[\"\n", "collector.a: nodes: hostlist"),
        ("[collector.a]\ncmd = \"/c\"\nexcept = \"n[\"\n", "collector.a: except: hostlist"),
        ("[collector.a]\ncmd = \"/c\"\nstop = \"08:00\"\n", "collector.a: stop: expected a start"),
        (
            "[collector.a]\ncmd = \"/c\"\nstart = \"8\"\n",
            "collector.a: start: expected a time such as 08:00",
        ),
        (
            "[collector.a]\ncmd = \"/c\"\nname = \"b\"\n",
            "p.toml:3:1: collector.a.name: unknown key",
        ),
        (
            "[collector.a]\ncmd = \"/c\"\nevry_ms = 1\n",
            "p.toml:3:1: collector.a.evry_ms: unknown key; did you mean `every_ms`?",
        ),
        ("[collector.a]\ncmd = \"/c\"\nevery_ms = \"1s\"\n", "p.toml:3:12: collector.a.every_ms: "),
        (
            "[collector.a]\ncmd = \"/c\"\nevery_ms = 5\n",
            "p.toml:1:12: collector.a: every_ms: expected",
        ),
        ("[collector]\na = 5\n", "p.toml:2:5: collector.a: expected a table of a registration"),
        ("[control]\nlisten = \"127.0.0.1\"\n", "control.listen: expected \"\" or an address"),
        ("[collect]\ncommand_dirs = [\"a\"]\n", "collect.command_dirs[0]: expected"),
        ("[balance]\nhealth = \"a b\"\n", "balance.health: expected the name of a datum"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// Invalid files: text, then the whole message.
const BAD: &[(&str, &str)] = &[
    (
        "mode = enforce\n",
        "p.toml:1:8: mode: expected \"off\", \"shadow\" or \"enforce\", got `enforce`: \
         string values must be quoted, expected literal string",
    ),
    (
        "[ link ]\nproofs = true\ndeadline_us = 2ms # soon\n",
        "p.toml:3:15: link.deadline_us: expected an integer from 100 to 20000 (microseconds), \
         got `2ms`: \
         string values must be quoted, expected literal string",
    ),
    (
        "[link]\nno_such = 2ms\n",
        "p.toml:2:11: string values must be quoted, expected literal string",
    ),
    (
        "mode = \"enforced\"\n",
        "p.toml:1:8: mode: expected \"off\", \"shadow\" or \"enforce\", got string \"enforced\"; \
      did you mean \"enforce\"?",
    ),
    (
        "mode = false\n",
        "p.toml:1:8: mode: expected \"off\", \"shadow\" or \"enforce\", got boolean false",
    ),
    ("\n\n[lnk]\nsocket = \"/a\"\n", "p.toml:3:2: lnk: unknown key; did you mean `link`?"),
    (
        "[link]\ndedline_us = 1000\n",
        "p.toml:2:1: link.dedline_us: unknown key; did you mean `deadline_us`?",
    ),
    (
        "[link]\n  deadline_us = 99\n",
        "p.toml:2:17: link.deadline_us: expected an integer from 100 to 20000 (microseconds), \
      got integer 99",
    ),
    (
        "[link]\ndeadline_us = 20001\n",
        "p.toml:2:15: link.deadline_us: expected an integer from 100 to 20000 (microseconds), \
      got integer 20001",
    ),
    (
        "link.deadline_us = \"2 ms\"\n",
        "p.toml:1:20: link.deadline_us: expected an integer from 100 to 20000 (microseconds), \
      got string \"2 ms\"",
    ),
    (
        "[order]\nshort_s = -3\n",
        "p.toml:2:11: order.short_s: expected an integer from 0 to 604800 (seconds), \
         got integer -3",
    ),
    (
        "[expert]\nbreaker = \"yes\"\n",
        "p.toml:2:11: expert.breaker: expected true or false, got string \"yes\"",
    ),
    (
        "[link]\nsocket = \"run/p.sock\"\n",
        "p.toml:2:10: link.socket: expected the absolute path of a socket, got \"run/p.sock\"",
    ),
    (
        "[link]\nallowed_uids = [1000, -1, 1000]\n",
        "p.toml:2:23: link.allowed_uids[1]: expected an integer from 0 to 4294967294, \
      got integer -1\n\
      p.toml:2:27: link.allowed_uids[2]: 1000 is listed twice",
    ),
    (
        "[link]\nallowed_uids = 1000\n",
        "p.toml:2:16: link.allowed_uids: expected a list of user ids (integers), \
      got integer 1000",
    ),
    (
        "[control]\nsocket = \"/run/phalanx/plugin.sock\"\n",
        "p.toml:2:10: control.socket: same path as link.socket: /run/phalanx/plugin.sock",
    ),
    (
        "[planner]\nhold_max_s = 3601\n",
        "p.toml:2:14: planner.hold_max_s: expected an integer from 0 to 3600 (seconds), \
      got integer 3601",
    ),
    (
        "threshold = 0.5\n",
        "p.toml:1:1: threshold: unknown key here; did you mean `threshold` of [balance]?",
    ),
    (
        "[link]\npoll_ms = 5\n",
        "p.toml:2:1: link.poll_ms: unknown key here; did you mean `poll_ms` of [source]?",
    ),
    (
        "[balance]\nthreshold = 1.5\n",
        "p.toml:2:13: balance.threshold: expected a number from 0 to 1, got float 1.5",
    ),
    (
        "[balance]\nthreshold = nan\n",
        "p.toml:2:13: balance.threshold: expected a number from 0 to 1, got float nan",
    ),
    (
        "[learn]\nnode_class_by = []\n",
        "p.toml:2:17: learn.node_class_by: expected 1 to 6 entries, got 0",
    ),
    (
        "[learn]\nnode_class_by = [\"gres\", \"weigth\"]\n",
        "p.toml:2:26: learn.node_class_by[1]: expected \"features\", \"cpus\", \"memory\", \
      \"gres\", \"weight\" or \"name\", got string \"weigth\"; did you mean \"weight\"?",
    ),
    (
        "[balance.initial_weights]\ncpu = 1\ngpu = 2\n",
        "p.toml:3:1: balance.initial_weights.gpu: expected a dimension: cpu, mem, gres/NAME, \
      gres/NAME:TYPE or license/NAME; did you mean \"gres/gpu\"?",
    ),
    (
        "[balance]\ninitial_weights = { cpu = 1.0, \"gres/gpu\" = -1 }\n",
        "p.toml:2:45: balance.initial_weights.\"gres/gpu\": expected a number from 0 to \
      1000000000, got integer -1",
    ),
    (
        "[balance]\ninitial_weights = { cpu = 0 }\n",
        "p.toml:2:19: balance.initial_weights: expected at least one weight above 0",
    ),
    ("balance = 3\n", "p.toml:1:11: balance: expected a table [balance], got integer 3"),
    (
        "[history]\npath = \"/var/lib/\"\n",
        "p.toml:2:8: history.path: expected the absolute path of a file, got \"/var/lib/\"",
    ),
    (
        "[log]\nlevel = \"warning\"\n",
        "p.toml:2:9: log.level: expected \"error\", \"warn\", \"info\", \"debug\" or \"trace\", \
      got string \"warning\"; did you mean \"warn\"?",
    ),
    (
        "[partition.debug]\nmod = \"off\"\n",
        "p.toml:2:1: partition.debug.mod: unknown key; did you mean `mode`?",
    ),
    (
        "[partition.\"a b\"]\nmode = \"off\"\n",
        "p.toml:1:12: partition.\"a b\": expected a partition's name of 1 to 63 bytes \
      without spaces or commas",
    ),
    (
        "[partition]\ndebug = \"off\"\n",
        "p.toml:2:9: partition.debug: expected a table [partition.debug], got string \"off\"",
    ),
    (
        "[link]\nxyzzyx = 1\n",
        "p.toml:2:1: link.xyzzyx: unknown key, expected one of `socket`, `deadline_us`, \
      `proofs`, `allowed_uids`",
    ),
    (
        "# größer\n[link]\n\"dädline_us\" = 1\n",
        "p.toml:3:1: link.\"dädline_us\": unknown key; did you mean `deadline_us`?",
    ),
    (
        "partition = { \"größe\" = { mode = 1 } }\n",
        "p.toml:1:34: partition.\"größe\".mode: expected \"off\", \"shadow\" or \"enforce\", \
      got integer 1",
    ),
    ("mode = \"off\"\nmode = \"off\"\n", "p.toml:2:1: duplicate key"),
    (
        "[link]\nsocket = \"/a\n",
        "p.toml:2:13: link.socket: expected the absolute path of a socket, got `\"/a`: \
         invalid basic string, expected `\"`",
    ),
];

#[test]
fn wrong_files_are_refused_with_place_and_expectation() {
    for (text, expected) in BAD {
        let message = parse(text).expect_err(text);
        assert_eq!(&message, expected, "\nfile:\n{text}");
    }
}

/// Goal: all problems are reported, in the order of the file.
#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let text = "mode = 1\n[link]\ndeadline_us = -1\nfoo_bar_baz = 1\n[log]\nlevel = 2\n";
    let error = Config::parse(text, Path::new("p.toml")).unwrap_err();
    let places: Vec<(usize, usize, &str)> =
        error.issues().iter().map(|i| (i.line, i.column, i.key.as_str())).collect();
    assert_eq!(
        places,
        [
            (1, 8, "mode"),
            (3, 15, "link.deadline_us"),
            (4, 1, "link.foo_bar_baz"),
            (6, 9, "log.level")
        ]
    );
}

#[test]
fn long_socket_path_is_refused() {
    let fits = format!("[link]\nsocket = \"/{}\"\n", "a".repeat(106));
    assert!(parse(&fits).is_ok());
    let long = format!("[link]\nsocket = \"/{}\"\n", "a".repeat(107));
    let message = parse(&long).unwrap_err();
    assert!(message.contains("at most 107 bytes"), "{message}");
}

#[test]
fn many_problems_are_cut_short() {
    let text: String = (0..500).map(|i| format!("key_{i} = 1\n")).collect();
    let error = Config::parse(&text, Path::new("p.toml")).unwrap_err();
    assert_eq!(error.issues().len(), 50);
    assert!(error.to_string().ends_with("(and 450 more problems)"), "{error}");
}

/// Goal: what a text costs depends on its length, not on what its lists stand for or on how much
/// is wrong.
#[test]
fn a_text_made_to_take_long_ends_soon() {
    let begin = std::time::Instant::now();
    let wrong: String = (0..50_000).map(|i| format!("wrong_{i} = 1\n")).collect();
    assert!(parse(&wrong).unwrap_err().ends_with("(and 49950 more problems)"));
    let one = |i| format!("[collector.c{i}]\ncmd = \"builtin:loadavg\"\nnodes = \"n[1-131072]\"\n");
    let few: String = (0..3).map(one).collect();
    assert!(parse(&few).is_ok());
    let error = parse(&(0..5000).map(one).collect::<String>()).unwrap_err();
    assert!(error.contains("nodes: hostlist: more names than"), "{error}");
    assert!(begin.elapsed().as_secs() < 120);
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    let error = Config::load(&path).unwrap_err();
    assert!(error.to_string().contains("cannot read the configuration"), "{error}");
    std::fs::write(&path, "# a\n# \u{e4}\n#\u{e4} ".as_bytes()).unwrap();
    assert!(Config::load(&path).is_ok());
    std::fs::write(&path, b"# a\n# \xc3\xa4 \xff\n").unwrap();
    let error = Config::load(&path).unwrap_err();
    assert!(error.to_string().ends_with(":2:5: expected UTF-8 text"), "{error}");
    std::fs::write(&path, vec![b'#'; usize::try_from(CONFIG_BYTES_MAX).unwrap() + 1]).unwrap();
    let error = Config::load(&path).unwrap_err();
    assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
    assert!(Config::load(dir.path()).is_err());
}

#[test]
fn values_reach_their_fields() {
    let config = parse(
        "mode = \"shadow\"\nlink.deadline_us = 0x7d0\nlink.allowed_uids = [4_294_967_294]\n\
         [balance]\nthreshold = 1\nno_improvement = \"hold\"\n\
         mode = \"seed\"\ninitial_weights = { \"license/matlab\" = 2, \"gres/gpu:a100\" = 1e3 }\n\
         [partition.debug]\nmode = \"off\"\n[partition.\"a.b\"]\n\
         [account]\nphysics = \"enforce\"\n",
    )
    .unwrap();
    assert_eq!(config.link.deadline_us, 2000);
    assert_eq!(config.link.allowed_uids, [u32::MAX - 1]);
    assert_eq!(config.balance.threshold, 1.0);
    assert_eq!(config.balance.mode, BalanceMode::Seed);
    assert_eq!(config.balance.no_improvement, NoImprovement::Hold);
    assert_eq!(config.balance.initial_weights["license/matlab"], 2.0);
    assert_eq!(config.balance.initial_weights["gres/gpu:a100"], 1000.0);
    assert_eq!(config.mode_for("debug", "chemistry"), Mode::Off);
    assert_eq!(config.mode_for("a.b", ""), Mode::Shadow);
    assert_eq!(config.mode_for("main", ""), Mode::Shadow);
    assert_eq!(config.mode_for("debug", "physics"), Mode::Enforce);
    assert!(config.any_active());
}

#[test]
fn off_everywhere_unless_a_partition_or_account_says_otherwise() {
    assert!(!parse("mode = \"off\"").unwrap().any_active());
    assert!(parse("mode = \"off\"\n[account]\na = \"shadow\"").unwrap().any_active());
    assert!(parse("mode = \"off\"\n[partition.a]\nmode = \"shadow\"").unwrap().any_active());
}

#[test]
fn differences_name_the_keys_and_restarts() {
    let old = Config::default();
    assert!(Config::diff(&old, &old).is_empty());
    let new = parse(
        "[link]\nsocket = \"/tmp/x\"\n[balance]\ninitial_weights = { cpu = 2.0 }\n\
         [partition.\"a.b\"]\nmode = \"off\"\n",
    )
    .unwrap();
    let changes = Config::diff(&old, &new);
    let short: Vec<(&str, bool)> =
        changes.iter().map(|key| (key.as_str(), keys::needs_restart(key))).collect();
    assert_eq!(
        short,
        [
            ("balance.initial_weights.cpu", false),
            ("link.socket", true),
            ("partition.\"a.b\".mode", false),
        ]
    );
}

#[test]
fn warnings_for_what_has_no_effect() {
    assert_eq!(Config::default().warnings(), Vec::<String>::new());
    let config = parse("mode = 'shadow'\norder.by = 'price'\n").unwrap();
    assert_eq!(config.warnings().len(), 2);
    assert!(config.warnings()[0].starts_with("order.by = \"price\" has no effect"));
}

/// Goal: any bytes give a configuration or a message. Each section of the annotated file is read
/// alone, which saves time: cut off before each of its bytes, and with each byte replaced.
#[test]
fn damaged_files_never_panic() {
    let mut rest = FILE;
    while !rest.is_empty() {
        let end = rest.get(1..).and_then(|rest| rest.find("\n[")).map_or(rest.len(), |at| at + 2);
        let (section, after) = rest.split_at(end);
        for at in 0..section.len() {
            if let Some(head) = section.get(..at) {
                let _ = parse(head);
            }
            for byte in [b'"', b'=', b'[', b'\n', b'0', 0] {
                let mut bytes = section.as_bytes().to_vec();
                bytes[at] = byte;
                let _ = parse(&String::from_utf8_lossy(&bytes));
            }
        }
        rest = after;
    }
}

#[test]
fn suggestions_are_near() {
    use super::check::nearest;
    use strsim::osa_distance as edits;
    assert_eq!(edits("kitten", "sitting"), 3);
    assert_eq!(edits("ab", "ba"), 1);
    assert_eq!(edits("", "abc"), 3);
    assert_eq!(nearest("Socket", ["socket", "mode"]), Some("socket"));
    assert_eq!(nearest("zz", ["socket", "mode"]), None);
}
