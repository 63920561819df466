// SPDX-License-Identifier: GPL-3.0-or-later
//! The three evaluation methods of capabilities as processors.

use super::context::Context;
use super::proc;
use phalanx_messages::collect::{Row, Value, short};
use phalanx_methods::share::capability::{by_configuration, by_cpu_load, by_history};

/// Method A: capability from the node's configuration.
pub(super) fn configuration(context: &Context<'_>) -> Result<f64, String> {
    Ok(by_configuration(proc::cpus(context.root)?, proc::ghz(context.root)?))
}

/// Method B: capability from the free share of the CPU, which is the first input.
pub(super) fn cpu_load(context: &Context<'_>) -> Result<f64, String> {
    let required = share_of(context, 1.0)?;
    let (name, row) = newest(context)?;
    let free = number(name, row)?;
    by_cpu_load(free, required)
        .ok_or_else(|| format!("input {name}: expected a share of 0 to 1, got {free}"))
}

/// Method C: capability from the program's speed in its last run, which is the first input; `mean`
/// is that of the earlier runs.
pub(super) fn history(context: &Context<'_>, mean: &mut Option<(f64, u64)>) -> Result<f64, String> {
    let weight = share_of(context, 0.5)?;
    let (name, row) = newest(context)?;
    let speed = number(name, row)?;
    let next = match *mean {
        // The same value again is not another run.
        Some((mean, time_ms)) if time_ms == row.time_ms => Some(mean),
        Some((mean, _)) => by_history(&[mean, speed], weight),
        None => {
            // After a restart of the agent its own last value is the mean so far.
            let own = context.inputs.iter().find(|(name, _)| name == OWN);
            let before = own.and_then(|(_, rows)| rows.first()?.value.number());
            by_history(&before.into_iter().chain([speed]).collect::<Vec<_>>(), weight)
        }
    };
    let next = next.ok_or_else(|| format!("input {name}: expected a speed > 0, got {speed}"))?;
    *mean = Some((next, row.time_ms));
    Ok(next)
}

/// Returns the measured throughput of the node's accelerators, all or those of a GRES type. The
/// first input is a text with a line `TYPE THROUGHPUT` for each device or slice of one. A node
/// without such devices has 0.
pub(super) fn accelerator(context: &Context<'_>) -> Result<f64, String> {
    let (name, row) = newest(context)?;
    let Value::Text(text) = &row.value else {
        return Err(format!("input {name}: expected text, a line TYPE THROUGHPUT a device"));
    };
    let wanted = context.args.first();
    let mut sum = 0.0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let device = line.rsplit_once(char::is_whitespace).and_then(|(kind, throughput)| {
            let throughput: f64 = throughput.parse().ok()?;
            (throughput.is_finite() && throughput >= 0.0).then_some((kind.trim(), throughput))
        });
        let (kind, throughput) = device.ok_or_else(|| {
            format!("input {name}: expected TYPE THROUGHPUT, got {:?}", short(line))
        })?;
        if wanted.is_none_or(|wanted| wanted == kind) {
            sum += throughput;
        }
    }
    Ok(sum)
}

/// Name under which a processor finds its own latest value among its inputs.
pub const OWN: &str = "@own";

fn share_of(context: &Context<'_>, otherwise: f64) -> Result<f64, String> {
    let Some(text) = context.args.first() else { return Ok(otherwise) };
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("args: expected a share above 0 and at most 1, got {text:?}")),
    }
}

/// Returns the node's own value of the first input, if it is not stale.
fn newest<'a>(context: &Context<'a>) -> Result<(&'a str, &'a Row), String> {
    let own = |(name, _): &&(String, Vec<Row>)| name != OWN;
    let (name, rows) = context.inputs.iter().find(own).ok_or("inputs: expected one, got none")?;
    let row = rows.iter().find(|row| row.node == context.node);
    let row = row.ok_or_else(|| format!("input {name}: no value of {} yet", context.node))?;
    if row.stale {
        return Err(format!("input {name}: stale, {} ms old", row.age_ms));
    }
    Ok((name, row))
}

fn number(name: &str, row: &Row) -> Result<f64, String> {
    row.value.number().ok_or_else(|| format!("input {name}: expected a number, got text"))
}
