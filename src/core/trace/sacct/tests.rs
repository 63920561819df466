// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the sacct reader.

#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

const TEXT: &str = "\
JobID|JobIDRaw|User|Account|JobName|Partition|Submit|Start|End|Elapsed|State|ExitCode|NodeList|\
NCPUS|ReqTRES|AllocTRES|Timelimit|ConsumedEnergyRaw|Comment
100|100|eve|phys|train_1|main|2026-11-21T09:59:00|2026-11-21T10:00:00|2026-11-21T10:02:30|00:02:30\
|COMPLETED|0:0|n[1-2]|8|billing=8,cpu=8,mem=4G,node=2|billing=8,cpu=8,energy=900,mem=4G,node=2|\
1-00:00:00|900|class=big
100.batch|100.batch|||batch||2026-11-21T10:00:00|2026-11-21T10:00:00|2026-11-21T10:02:30|00:02:30\
|COMPLETED|0:0|n1|4|||||
120_7|121|bob|chem|sweep|main|2026-11-21T09:00:00|2026-11-21T10:00:00|2026-11-22T11:00:01\
|1-01:00:01|CANCELLED by 1000|0:15|n3|1|||UNLIMITED||
130+1|131|bob|chem|het|main|2026-11-21T09:00:00|Unknown|Unknown|00:00:00|PENDING|0:0|None assigned\
|1|||Partition_Limit||
";

fn rows(text: &str) -> (Vec<Row>, Vec<(u64, String)>, u64) {
    let (mut jobs, mut bad) = (Vec::new(), Vec::new());
    let steps = read(
        text.as_bytes(),
        &TimeZone::UTC,
        |_, row| jobs.push(row),
        |line, what| bad.push((line, what)),
    );
    (jobs, bad, steps.unwrap())
}

#[test]
fn a_text_of_every_form() {
    let (jobs, bad, steps) = rows(TEXT);
    assert_eq!((bad.len(), steps, jobs.len()), (0, 1, 3), "{bad:?}");
    let first = &jobs[0];
    assert_eq!((first.job.as_str(), first.job_id, first.elapsed_s), ("100", 100, 150));
    assert_eq!((first.nodes.as_str(), first.node_count, first.cpus), ("n[1-2]", 2, 8));
    assert_eq!((first.limit_min, first.joules), (Some(1440), Some(900.0)));
    assert_eq!(first.end_s.unwrap() - first.start_s.unwrap(), 150);
    assert!(first.is_ended() && first.ran());
    let task = &jobs[1];
    assert_eq!((task.array, task.job_id, task.state.as_str()), (Some((120, 7)), 121, "CANCELLED"));
    assert_eq!((task.exit, task.limit_min, task.elapsed_s), ((0, 15), None, 90_001));
    let het = &jobs[2];
    assert_eq!((het.het_job_id, het.job_id, het.start_s), (Some(130), 131, None));
    assert!(!het.is_ended() && !het.ran());
}

#[test]
fn columns_come_in_any_order_and_number() {
    let text = "state|elapsedraw|START|jobid|\nCOMPLETED|90|1700000000|7|\n";
    let (jobs, bad, _) = rows(text);
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!((jobs[0].job_id, jobs[0].end_s), (7, Some(1_700_000_090)));
}

#[test]
fn a_separator_in_the_job_name_is_a_part_of_it() {
    let text = "JobID|JobName|State|Start|End\n1|a|b|c|FAILED|1700000000|1700000001\n";
    let (jobs, bad, _) = rows(text);
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!((jobs[0].name.as_str(), jobs[0].state.as_str()), ("a|b|c", "FAILED"));
}

#[test]
fn bad_lines_are_named_and_passed_over() {
    let head = "JobID|State|Start|End|NodeList";
    for (line, words) in [
        ("1|COMPLETED|1|2", "expected 5 fields as in the header, got 4"),
        ("x|COMPLETED|1|2|n1", "field JobID: expected a job"),
        ("1|COMPLETED|yesterday|2|n1", "field Start: expected a time"),
        ("1|done|1|2|n1", "field State: expected a state"),
        ("1|COMPLETED|5|2|n1", "field End"),
        ("1|COMPLETED|1|2|n[1-", "field NodeList"),
        ("1_x|COMPLETED|1|2|n1", "field JobID"),
        ("99999999999|COMPLETED|1|2|n1", "field JobID"),
    ] {
        let text = format!("{head}\n{line}\n2|COMPLETED|1|2|n1\n");
        let (jobs, bad, _) = rows(&text);
        assert_eq!((jobs.len(), bad.len(), bad[0].0), (1, 1, 2), "{line}: {bad:?}");
        assert!(bad[0].1.contains(words), "{line}: {}", bad[0].1);
    }
}

/// Goal: where a clock was set back, or shows an hour twice, the time that the job ran decides.
#[test]
fn elapsed_decides_what_the_clock_cannot() {
    let head = "JobID|State|Start|End|Elapsed";
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    for (line, seconds) in [
        // Summer time ended at 01:00 UTC.
        ("1|COMPLETED|2025-10-26T02:50:00|2025-10-26T02:10:00|00:20:00", Some((-600, 600))),
        ("1|COMPLETED|2025-10-26T02:31:00|2025-10-26T02:51:00|01:20:00", Some((-1740, 3060))),
        ("1|COMPLETED|2025-10-26T02:31:00|2025-10-26T02:51:00|00:20:00", Some((-1740, -540))),
        ("1|COMPLETED|2025-10-26T01:10:00|2025-10-26T03:10:00|03:00:00", Some((-6600, 4200))),
        // In spring the clock shows no time from 02:00 to 03:00.
        ("1|COMPLETED|2025-03-30T01:50:00|2025-03-30T03:10:00|00:20:00", None),
        // Set back by hand.
        ("1|COMPLETED|2025-10-26T12:00:00|2025-10-26T11:00:00|00:20:00", Some((36_000, 37_200))),
        // Offsets count, whatever the zone.
        (
            "1|COMPLETED|2025-10-26T02:55:00+0200|2025-10-26T02:25:00+01:00|00:30:00",
            Some((-300, 1500)),
        ),
        ("1|COMPLETED|2025-10-26T01:10:00Z|2025-10-26T01:40:00Z|00:30:00", Some((600, 2400))),
    ] {
        let (mut found, text) = (None, format!("{head}\n{line}\n"));
        let job = |_, row: Row| found = Some(row);
        read(text.as_bytes(), &zone, job, |_, what| panic!("{line}: {what}")).unwrap();
        let row = found.unwrap();
        let (start, end) = (row.start_s.unwrap(), row.end_s.unwrap());
        let back = 1_761_440_400;
        assert_eq!(row.elapsed_s, u64::try_from(end - start).unwrap(), "{line}");
        if let Some((from, to)) = seconds {
            assert_eq!((start - back, end - back), (from, to), "{line}");
        }
    }
    let text = format!("{head}\n1|COMPLETED|2025-10-26T12:00:00|2025-10-26T11:00:00|INVALID\n");
    let (jobs, bad, _) = rows(&text);
    assert!(jobs.is_empty() && bad[0].1.contains("before Start"), "{bad:?}");
}

#[test]
fn separators_of_several_characters() {
    for separator in ["|#", "^|^", "\u{1f}", " | ", ";;"] {
        for end in ["", separator] {
            let line = |fields: [&str; 5]| fields.join(separator) + end + "\n";
            let text = line(["JobID", "JobName", "State", "Start", "Elapsed"])
                + &line(["1", &format!("a{separator}b#|c"), "COMPLETED", "7", "00:00:03"]);
            let (jobs, bad, _) = rows(&text);
            assert!(bad.is_empty(), "{separator}: {bad:?}");
            assert_eq!(jobs[0].name, format!("a{separator}b#|c"));
        }
    }
}

/// Goal: no text of a user breaks a column that is used, even where later releases add columns.
#[test]
fn columns_that_are_not_known_are_text() {
    let head = "JobID|FutureText|NCPUS|StdOut|Submit|SubmitLine|Start|Elapsed|State";
    for odd in ["a|b", "a|b|c|d", "x\ny|z", "a|COMPLETED"] {
        for at in [1, 3, 5] {
            let mut fields = ["4", "", "8", "", "5", "", "7", "00:00:03", "COMPLETED"];
            fields[at] = odd;
            let text = format!("{head}\n{}\n5|||||||00:00:01|FAILED\n", fields.join("|"));
            let (jobs, bad, _) = rows(&text);
            assert!(bad.is_empty(), "{odd:?} at {at}: {bad:?}");
            assert_eq!((jobs[0].cpus, jobs[0].submit_s, jobs[0].start_s), (8, Some(5), Some(7)));
            assert_eq!(jobs.len(), 2, "{odd:?} at {at}");
        }
    }
}

#[test]
fn numbers_that_are_none() {
    let head = "JobID|State|Start|Elapsed|NCPUS|TimelimitRaw|ExitCode|NodeList|NNodes";
    let line = "1|OUT_OF_ME+|7|00:00:03|4294967294|4294967295|271:0|n[001-003,0+|4";
    let (jobs, bad, _) = rows(&format!("{head}\n{line}\n2|FAILED|7|INVALID||INVALID|-1:0||\n"));
    assert!(bad.is_empty(), "{bad:?}");
    let (first, second) = (&jobs[0], &jobs[1]);
    assert_eq!((first.cpus, first.limit_min, first.exit), (0, None, (15, 0)));
    assert_eq!((first.node_count, first.ran()), (4, true), "sacct cut the names off");
    assert_eq!((second.limit_min, second.exit, second.elapsed_s), (None, (255, 0), 0));
}

#[test]
fn a_missing_header_is_an_error() {
    let fail = |text: &str| {
        read(text.as_bytes(), &TimeZone::UTC, |_, _| {}, |_, _| {}).unwrap_err().to_string()
    };
    assert!(fail("").contains("empty"));
    let headerless = fail("1|1|main|COMPLETED\n");
    assert!(headerless.contains("line 1: expected the header line"), "{headerless}");
    assert!(headerless.contains("leave out -n") && headerless.contains("sed '1i JobID|State"));
    assert!(fail("{\n \"jobs\": [\n").contains("line 1: JSON is not read"));
    assert!(fail("JobID|State|Start\n").contains("column End, Elapsed or ElapsedRaw is missing"));
}

#[test]
fn durations() {
    for (text, seconds) in [
        ("00:02:30", 150),
        ("1-02:03:04", 93_784),
        ("05:30", 330),
        ("05:30.123", 330),
        ("2-00", 172_800),
        ("125-00:00:00", 10_800_000),
    ] {
        assert_eq!(duration(text), Some(seconds), "{text}");
    }
    for bad in ["", "x", "1", "1:2:3:4", "-1:00:00", "99999999999999999999-00:00:00"] {
        assert_eq!(duration(bad), None, "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Goal: no text makes the reader panic, and every line is accounted for.
    #[test]
    fn any_text_is_read_or_refused(lines in prop::collection::vec(".{0,60}", 0..20)) {
        let head = TEXT.lines().next().unwrap();
        for text in [lines.join("\n"), format!("{head}\n{}", lines.join("\n"))] {
            let _ = read(text.as_bytes(), &TimeZone::UTC, |_, _| {}, |_, _| {});
        }
    }

    /// Goal: no line that is nearly right makes the reader panic.
    #[test]
    fn damaged_lines_are_read_or_refused(
        at in 0_usize..900,
        with in "[|:\\-\\[\\]0-9A-Za-z ]{0,3}",
    ) {
        let at = at.min(TEXT.len());
        let text = format!("{}{with}{}", &TEXT[..at], TEXT.get(at + 1..).unwrap_or(""));
        let _ = read(text.as_bytes(), &TimeZone::UTC, |_, _| {}, |_, _| {});
    }

    /// Goal: a row that is written is read back unchanged.
    #[test]
    fn a_row_survives(
        id in 1_u32.., task in prop::option::of(0_u32..), start in 1_i64..4_000_000_000,
        elapsed in 0_u32.., nodes in 1_u32..200, name in "[a-z|_0-9]{1,12}",
    ) {
        let job = task.map_or(id.to_string(), |t| format!("{id}_{t}"));
        let elapsed = u64::from(elapsed);
        let (days, rest) = (elapsed / 86_400, elapsed % 86_400);
        let clock = format!("{days}-{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
        let text = format!(
            "JobID|JobName|State|Start|Elapsed|NodeList\n\
             {job}|{name}|COMPLETED|{start}|{clock}|n[1-{nodes}]\n"
        );
        let (jobs, bad, _) = rows(&text);
        prop_assert!(bad.is_empty(), "{bad:?}");
        let row = &jobs[0];
        prop_assert_eq!((&row.job, row.array), (&job, task.map(|t| (id, t))));
        prop_assert_eq!((row.elapsed_s, row.start_s), (elapsed, Some(start)));
        prop_assert_eq!(row.node_count, nodes);
        prop_assert_eq!(&row.name, &name);
    }
}

/// Goal: without NodeList and CPUs a dump is still of use; times follow from each other.
#[test]
fn what_a_column_does_not_say_another_one_does() {
    let text = "JobID|State|End|ElapsedRaw|ReqCPUS|NNodes|ReqMem|Timelimit\n\
                7|COMPLETED|2026-11-21T10:00:00|90|4|2|4Gn|Partition_Limit\n\
                8|CANCELLED by 7|2026-11-21T10:00:00|0|4|1|16G|2-03:04:05\n\
                9_[1-10,...|PENDING|Unknown|0|1.50K|1|2000Mc|Unknown\n";
    let (jobs, bad, _) = rows(text);
    assert!(bad.is_empty(), "{bad:?}");
    let first = &jobs[0];
    assert!(first.ran() && first.is_ended() && first.start_s == first.end_s.map(|s| s - 90));
    assert_eq!((first.cpus, first.node_count, first.limit_min), (4, 2, None));
    assert_eq!(first.req_mem_mb(2, 4), Some(8192));
    assert!(!jobs[1].ran());
    assert_eq!((jobs[1].limit_min, jobs[1].req_mem_mb(1, 4)), (Some(3065), Some(16_384)));
    assert_eq!((jobs[2].cpus, jobs[2].req_mem_mb(1, 3)), (1500, Some(6000)));
}

/// Goal: a separator inside a text is told from one between texts by which way the line fits.
#[test]
fn separators_in_any_text_are_told_apart() {
    let text = "JobName|JobID|Start|Elapsed|State|Comment\n\
                a|b|c|7|2026-11-21T10:00:00|00:01:00|COMPLETED|\n\
                fréd|8|2026-11-21T10:00:00|00:01:00|COMPLETED|x|y\n\
                z|9|2026-11-21T10:00:00|COMPLETED|x\n";
    let (jobs, bad, _) = rows(text);
    assert_eq!((jobs[0].name.as_str(), jobs[0].job_id), ("a|b|c", 7));
    assert_eq!((jobs[1].name.as_str(), jobs[1].comment.as_str()), ("fréd", "x|y"));
    assert_eq!(bad, [(4, "expected 6 fields as in the header, got 5".to_owned())]);
}

/// Goal: separators in two texts at once (`-J 'a|b'` is in the command line too) are told apart.
#[test]
fn separators_in_several_texts_are_told_apart() {
    let text = "Constraints|JobID|JobName|State|Start|Elapsed|SubmitLine|Timelimit\n\
                big|x.y|7|a|b|COMPLETED|2026-11-21T10:00:00|00:01:00|sbatch -C big|x.y -J a|b|\
                00:05:00\n\
                |8||COMPLETED|2026-11-21T10:00:00|00:01:00|sh -c a|b|c|d|e|f|g|00:05:00\n";
    let (jobs, bad, steps) = rows(text);
    assert!(bad.is_empty() && steps == 0, "{bad:?}");
    assert_eq!((jobs[0].job_id, jobs[0].name.as_str()), (7, "a|b"));
    assert_eq!(jobs.iter().map(|job| job.limit_min).collect::<Vec<_>>(), [Some(5), Some(5)]);
}

/// Goal: a separator at the end of a line is told apart from one in a text.
#[test]
fn lines_that_end_with_a_separator() {
    let row = "7|a|b|COMPLETED|2026-11-21T10:00:00|00:01:00|";
    for (head, end) in [("", ""), ("|Comment", ""), ("|Comment|", "|"), ("|", "")] {
        let (jobs, bad, _) =
            rows(&format!("JobID|JobName|State|Start|Elapsed{head}\n{row}{end}\n"));
        assert!(head.is_empty() || bad.is_empty(), "{head}: {bad:?}");
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, if head.is_empty() { vec![] } else { vec!["a|b"] }, "{head}");
    }
    let (jobs, bad, _) =
        rows("JobID|JobName|State|Start|Elapsed\n7|a|COMPLETED|1700000000|00:01:00|\n");
    assert_eq!((jobs.len(), bad.len()), (1, 0), "the header lost its separator");
}

/// Goal: a job name or command line of several lines is one job, and nothing else is joined.
#[test]
fn lines_of_one_job_are_joined() {
    let head = "JobID|User|JobName|State|Start|Elapsed|SubmitLine|Timelimit\n";
    let times = "COMPLETED|2026-11-21T10:00:00|00:01:00";
    let text = format!(
        "{head}7|ann|two\nlines|{times}|sbatch --wrap=\n\necho a | sort\n|00:05:00\n\
         8|ann|x|{times}||00:05:00\n9|ann|na\n10|bob|y|{times}||00:05:00\n11|ann\nz|{times}||\n"
    );
    let (jobs, bad, _) = rows(&text);
    let ids: Vec<u32> = jobs.iter().map(|job| job.job_id).collect();
    assert_eq!(ids, [7, 8, 10], "{bad:?}");
    assert_eq!((jobs[0].name.as_str(), jobs[0].limit_min), ("two\nlines", Some(5)));
    let lines: Vec<u64> = bad.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [8, 10, 11], "cut off, and users have no line ends");
    let last = "JobID|State|Start|Elapsed|JobName";
    let text = format!("{last}\n7|{times}|two\nlines | or\nmore\n8|{times}|x\n9|COMP\n");
    let (jobs, bad, _) = rows(&text);
    assert_eq!((jobs.len(), bad.len(), bad.first().map(|bad| bad.0)), (2, 1, Some(6)), "{bad:?}");
    let first = "JobName|JobID|State|Start|Elapsed";
    let (jobs, bad, _) = rows(&format!("{first}\ntwo\n\nlines|7|{times}\nx|8|{times}\nx|9|COMP\n"));
    assert_eq!((jobs.len(), bad.len(), bad.first().map(|bad| bad.0)), (2, 1, Some(6)), "{bad:?}");
}

#[test]
fn headers_that_are_not_enough_say_what_to_ask_for() {
    let refused = |text: &str| {
        let read = read(text.as_bytes(), &TimeZone::UTC, |_, _| {}, |_, _| {});
        read.unwrap_err().to_string()
    };
    let short = refused("JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n");
    assert!(short.contains("column Start") && short.contains("--format=JobID"), "{short}");
    let padded = refused("JobID           State               Start\n----- -----\n");
    assert!(padded.contains("padded with blanks"), "{padded}");
}

/// Goal: the time for a text depends on its length, not on what its lists stand for or on the ways
/// in which its lines could be read: without the bounds this test takes many minutes.
#[test]
fn a_text_made_to_take_long_ends_soon() {
    let line = "7|COMPLETED|1700000000|00:01:00|n[1-131072]\n";
    let listed = format!("JobID|State|Start|Elapsed|NodeList\n{}", line.repeat(20_000));
    let (jobs, bad, _) = rows(&listed);
    assert_eq!((jobs.len(), bad.len(), jobs[0].node_count), (20_000, 0, 131_072));
    let head = "JobID|State|Start|Elapsed|JobName|Comment|WorkDir|SubmitLine|Timelimit\n";
    let good = "7|COMPLETED|1700000000|00:01:00||||a|b|00:05:00\n";
    let (jobs, bad, _) = rows(&format!("{head}{}", good.repeat(14_000)));
    assert_eq!((jobs.len(), bad.len()), (14_000, 0), "what can be read leaves readings to others");
    let unread = format!("{}\n", "|".repeat(15)).repeat(5000);
    let (jobs, bad, _) = rows(&format!("{head}{unread}{good}"));
    assert_eq!((jobs.len(), bad.len()), (0, 5001));
    assert_eq!(bad[5000].1, "expected 9 fields as in the header, got 10");
    let wide = format!("JobID|State|Start|Elapsed|JobName{}\n", "|".repeat(1000));
    let error = read(wide.as_bytes(), &TimeZone::UTC, |_, _| (), |_, _| ()).unwrap_err();
    assert_eq!(error.to_string(), "line 1: more than 1000 columns");
}
