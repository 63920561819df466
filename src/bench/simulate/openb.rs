// SPDX-License-Identifier: GPL-3.0-or-later
//! Pod and node lists of the Alibaba 2023 GPU trace ("openb"): CSV with a
//! header; `cpu_milli` and `gpu_milli` are thousandths, memory is MiB.

use std::io::BufRead;

use phalanx_core::limits::{NODES_MAX, TRACE_JOBS_MAX};
use phalanx_core::trace::spec::NodeSpec;
use phalanx_core::trace::{Lines, TraceError, shorten};

/// A pod of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory, MiB.
    pub memory_mb: u64,
    /// GPUs.
    pub gpus: u32,
    /// Thousandths of each of the GPUs; 1000 is a whole one.
    pub gpu_milli: u32,
    /// GPU models that the pod accepts; empty: any.
    pub models: Vec<String>,
}

/// Columns of a header by name.
struct Columns {
    names: Vec<String>,
}

impl Columns {
    fn of(header: &str) -> Self {
        Self { names: header.split(',').map(|name| bare(name).to_owned()).collect() }
    }

    fn need(&self, line: u64, name: &str) -> Result<usize, TraceError> {
        self.names.iter().position(|n| n == name).ok_or_else(|| {
            let got = shorten(&self.names.join(","));
            TraceError::line(line, format!("header: column {name} is missing in {got:?}"))
        })
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }
}

/// A field without blanks and the quotes that some programs put around each.
fn bare(field: &str) -> &str {
    let field = field.trim();
    let inside = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map_or(field, str::trim)
}

fn value<T: std::str::FromStr>(
    line: u64,
    fields: &[&str],
    at: usize,
    name: &str,
) -> Result<T, TraceError> {
    let field = fields.get(at).copied().unwrap_or_default();
    field.parse().map_err(|_| {
        let got = shorten(field);
        TraceError::line(line, format!("{name}: expected a whole number, got {got:?}"))
    })
}

/// Reads a table: the header, then each row through `row`; empty lines are skipped.
fn table<T>(
    reader: impl BufRead,
    most: usize,
    what: &str,
    mut row: impl FnMut(u64, &Columns, &[&str]) -> Result<T, TraceError>,
) -> Result<Vec<T>, TraceError> {
    let mut lines = Lines::new(reader);
    let Some((_, header)) = lines.next_line()? else {
        return Err(TraceError::Empty(format!("empty: expected a CSV header of a {what} list")));
    };
    let columns = Columns::of(&header);
    let mut rows = Vec::new();
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(bare).collect();
        if rows.len() >= most {
            return Err(TraceError::line(number, format!("more than {most} {what}s")));
        }
        rows.push(row(number, &columns, &fields)?);
    }
    if rows.is_empty() {
        return Err(TraceError::Empty(format!("no {what} after the header")));
    }
    Ok(rows)
}

/// Reads all pods of a list.
///
/// # Errors
/// A missing column, or a value that is no number, with its line.
pub fn pods(reader: impl BufRead) -> Result<Vec<Pod>, TraceError> {
    table(reader, TRACE_JOBS_MAX, "pod", |line, columns, fields| {
        let number = |name: &str| value(line, fields, columns.need(1, name)?, name);
        let share = |name: &str| value::<u32>(line, fields, columns.need(1, name)?, name);
        let text = |at: Option<usize>| at.and_then(|at| fields.get(at)).copied().unwrap_or("");
        let gpus = share("num_gpu")?;
        let gpu_milli = share("gpu_milli")?;
        if gpu_milli > 1000 || (gpus > 1 && gpu_milli != 1000) {
            let what = format!(
                "gpu_milli: expected at most 1000, and 1000 for several GPUs, got {gpu_milli}"
            );
            return Err(TraceError::line(line, what));
        }
        let models = text(columns.find("gpu_spec")).split('|').map(str::trim);
        Ok(Pod {
            name: text(columns.find("name")).trim().to_owned(),
            cpu_milli: number("cpu_milli")?,
            memory_mb: number("memory_mib")?,
            gpus: if gpu_milli == 0 { 0 } else { gpus },
            gpu_milli: if gpus == 0 { 0 } else { gpu_milli },
            models: models.filter(|m| !m.is_empty()).map(str::to_owned).collect(),
        })
    })
}

/// Reads all nodes of a list.
///
/// # Errors
/// Fails as [`pods`] does.
pub fn nodes(reader: impl BufRead) -> Result<Vec<NodeSpec>, TraceError> {
    table(reader, NODES_MAX, "node", |line, columns, fields| {
        let number = |name: &str| value(line, fields, columns.need(1, name)?, name);
        let text = |at: Option<usize>| at.and_then(|at| fields.get(at)).copied().unwrap_or("");
        Ok(NodeSpec {
            name: text(columns.find("sn")).trim().to_owned(),
            cpu_milli: number("cpu_milli")?,
            memory_mb: number("memory_mib")?,
            gpus: value(line, fields, columns.need(1, "gpu")?, "gpu")?,
            model: text(columns.find("model")).trim().to_owned(),
            weight: 1,
            features: Vec::new(),
            watts: None,
            speed: None,
        })
    })
}

/// Whether a first line is the header of a pod list.
pub fn is_pod_header(line: &str) -> bool {
    let columns = Columns::of(&line.to_lowercase());
    columns.find("num_gpu").is_some() && columns.find("cpu_milli").is_some()
}

#[cfg(test)]
mod tests {
    use phalanx_fuzz::{kind_of, run, size_of};

    use super::*;

    #[test]
    fn damaged_lists() {
        fn way<T>(found: Result<Vec<T>, TraceError>) -> u64 {
            match found {
                Ok(rows) => size_of(rows.len()).wrapping_add(1 << 40),
                Err(error) => kind_of(&error.to_string()),
            }
        }
        let words = ["cpu_milli", "num_gpu", "gpu_milli", "\"", ",", "\n", " -1", "1e300"];
        run("openb", &words, |input| way(pods(input)) ^ way(nodes(input)).rotate_left(13));
    }

    #[test]
    fn pods_and_nodes_are_read() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                    a,6000,12288,1,460,\nb,1000,0,0,0,T4|P100\n";
        let found = pods(text.as_bytes()).unwrap();
        assert_eq!((found[0].gpus, found[0].gpu_milli, found[0].models.len()), (1, 460, 0));
        assert_eq!((found[1].gpus, found[1].models.len()), (0, 2));
        let text = "sn,cpu_milli,memory_mib,gpu,model\nx,64000,262144,2,P100\n";
        assert_eq!(nodes(text.as_bytes()).unwrap()[0].model, "P100");
        assert!(is_pod_header("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"));
        assert!(!is_pod_header("sn,cpu_milli,memory_mib,gpu,model"));
    }

    #[test]
    fn quoted_fields_in_another_order_are_read() {
        let text = "\"gpu_milli\",\"name\",\"num_gpu\",\"memory_mib\",\"cpu_milli\"\r\n\
                    \"460\",\"a\",\"1\", \"12\" ,6000\r\n";
        let found = pods(text.as_bytes()).unwrap();
        let pod = found.first().unwrap();
        assert_eq!((pod.name.as_str(), pod.gpu_milli, pod.memory_mb), ("a", 460, 12));
    }

    #[test]
    fn errors_name_line_and_column() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,6000,x,1,460\n";
        let error = pods(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "line 2: memory_mib: expected a whole number, got \"x\"");
        let error = pods("name,cpu\na,1\n".as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 1: header: column num_gpu is missing"), "{error}");
        let cut = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,6000,5\n";
        assert!(pods(cut.as_bytes()).unwrap_err().to_string().starts_with("line 2: num_gpu"));
        assert!(pods("".as_bytes()).is_err());
    }
}
