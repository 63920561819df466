// SPDX-License-Identifier: GPL-3.0-or-later
//! Log lines on standard error, with systemd's priority prefix when the journal reads them.

use std::io::Write;

use env_logger::{Builder, Target};
use log::{Level, Record};

use crate::LogConfig;

/// Starts logging. Later calls of [`set_level`] change the level only.
pub fn start(config: &LogConfig) {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let mut builder = Builder::new();
    builder.target(Target::Stderr).filter_level(log::LevelFilter::Trace);
    builder.format(move |out, record| writeln!(out, "{}", text_line(record, journal)));
    // A second start in one process (tests) keeps the first logger.
    let _ = builder.try_init();
    set_level(config);
}

/// Puts the configured level in force.
pub fn set_level(config: &LogConfig) {
    log::set_max_level(config.level.into());
}

fn text_line(record: &Record<'_>, journal: bool) -> String {
    let start = if journal {
        format!("<{}>", priority(record.level()))
    } else {
        let now = jiff::Timestamp::now();
        format!("{now:.3} {:5} ", record.level())
    };
    start + &record.args().to_string().replace('\n', " ")
}

/// Returns the syslog(3) priority that sd-daemon(3) wants in front of a line.
fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}
