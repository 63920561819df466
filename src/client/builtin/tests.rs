// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of built-ins on invented `/proc` and `/sys` trees.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::prometheus::sample;
use super::*;
use phalanx_messages::collect::{Row, Value};

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn inputs(name: &str, value: f64, time_ms: u64) -> Vec<(String, Vec<Row>)> {
    let (node, received_ms, age_ms, stale) = ("n1".to_owned(), 0, 5, false);
    let value = Value::Number(value);
    vec![(name.to_owned(), vec![Row { node, value, time_ms, received_ms, age_ms, stale }])]
}

fn get(
    root: &Path,
    name: &str,
    args: &[&str],
    inputs: &[(String, Vec<Row>)],
    memory: &mut Memory,
) -> Result<f64, String> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let deadline = Instant::now() + Duration::from_secs(2);
    let context = Context { root, args: &args, node: "n1", inputs, deadline };
    run(find(name).unwrap(), &context, memory)
}

fn near(value: Result<f64, String>, expected: f64) {
    let value = value.unwrap();
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{value} not {expected}");
}

/// Goal: CPU usage is formula 5 of docs/methods.md, section 3 (b).
#[test]
fn cpu_usage_of_two_readings() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let mut memory = Memory::default();
    write(root, "proc/stat", "cpu 10132153 290696 3084719 46828483 16683 0 25195 0 175628 0\n");
    let first = get(root, "cpu_usage_ratio", &[], &[], &mut memory);
    assert!(first.unwrap_err().contains("no time has passed"));
    write(root, "proc/stat", "cpu 10132453 290700 3084819 46829483 16700 0 25200 74 175700 0\n");
    near(get(root, "cpu_usage_ratio", &[], &[], &mut memory), 0.322);
    write(root, "proc/stat", "intr 5\n");
    assert!(get(root, "cpu_usage_ratio", &[], &[], &mut memory).unwrap_err().contains("cpu"));
}

#[test]
fn memory_load_and_clock() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let memory = &mut Memory::default();
    assert!(get(root, "mem_free_mib", &[], &[], memory).unwrap_err().starts_with("/proc/meminfo"));
    write(root, "proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n");
    near(get(root, "mem_free_mib", &[], &[], memory), 1.0);
    near(get(root, "mem_free_ratio", &[], &[], memory), 0.25);
    write(root, "proc/loadavg", "0.52 0.58 0.59 1/467 12345\n");
    near(get(root, "load1", &[], &[], memory), 0.52);
    write(root, "proc/stat", "cpu 1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n");
    write(root, "proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2500.000\n");
    near(get(root, "cpu_ghz", &[], &[], memory), 2.5);
    near(get(root, "capability_configuration", &[], &[], memory), 5.0);
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3000000\n");
    near(get(root, "capability_configuration", &[], &[], memory), 6.0);
}

#[test]
fn rates_are_sums_that_survive_wraps_and_new_devices() {
    let counters = |values: &[(&str, u64)], wraps: &[(&str, u64)]| {
        let map = |list: &[(&str, u64)]| list.iter().map(|&(k, v)| (k.to_owned(), v)).collect();
        Counters { values: map(values), wraps: map(wraps) }
    };
    let earlier = counters(&[("a", 100), ("b", 900), ("gone", 7)], &[]);
    let now = counters(&[("a", 300), ("b", 50), ("new", 1 << 40)], &[("b", 1000)]);
    assert_eq!(sum_rate(&earlier, &now, 2.0), Some((200.0 + 150.0) / 2.0));
    assert_eq!(sum_rate(&earlier, &now, 0.0), None);
}

#[test]
fn devices_are_counted_once() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write(
        root,
        "proc/net/dev",
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n    \
         lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n  eth0: 100 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n",
    );
    assert_eq!(proc::net(root).unwrap().values, [("eth0".to_owned(), 150)].into());
    for disk in ["sda", "dm-0", "loop0"] {
        write(root, &format!("sys/block/{disk}/stat"), "");
    }
    write(
        root,
        "proc/diskstats",
        "   8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n   8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n 253 0 dm-0 1 0 \
         10 0 1 0 20 0 0 0 0\n   7 0 loop0 1 0 10 0 1 0 20 0 0 0 0\n",
    );
    assert_eq!(proc::disk(root).unwrap().values, [("sda".to_owned(), 30 * 512)].into());
    assert!(power::energy(root).unwrap_err().contains("RAPL"));
    for (zone, energy) in
        [("intel-rapl:0", "5"), ("intel-rapl:0:0", "3"), ("intel-rapl-mmio:0", "5")]
    {
        write(root, &format!("sys/class/powercap/{zone}/energy_uj"), &format!("{energy}\n"));
    }
    write(root, "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
    let energy = power::energy(root).unwrap();
    assert_eq!(energy.values, [("intel-rapl:0".to_owned(), 5)].into());
    assert_eq!(energy.wraps, [("intel-rapl:0".to_owned(), 262_143_328_850)].into());
}

#[test]
fn gpu_tools() {
    let root = tempfile::tempdir().unwrap();
    assert!(plan(find("gpu_usage_ratio").unwrap(), root.path()).is_err());
    write(root.path(), "opt/rocm/bin/rocm-smi", "");
    let found = plan(find("gpu_usage_ratio").unwrap(), root.path()).unwrap();
    assert!(matches!(found, Plan::Program(_, _, Tool::RocmSmi)));
    write(root.path(), "usr/bin/nvidia-smi", "");
    let found = plan(find("gpu_usage_ratio").unwrap(), root.path()).unwrap();
    assert!(matches!(found, Plan::Program(_, _, Tool::NvidiaSmi)));
    near(Tool::NvidiaSmi.parse("100\n50\n[N/A]\n 0\n"), 0.5);
    assert!(Tool::NvidiaSmi.parse("[N/A]\n").is_err());
    near(
        Tool::RocmSmi.parse(
            r#"{"card0": {"GPU use (%)": "30"}, "card1": {"GPU use (%)": 50}, "system": {}}"#,
        ),
        0.4,
    );
    assert!(Tool::RocmSmi.parse("WARNING: no card").is_err());
}

/// Goal: method B, capability from the CPU's free share, is a formula of docs/methods.md, section 3
/// (b).
#[test]
fn method_b_is_formula_1() {
    let memory = &mut Memory::default();
    let root = Path::new("/");
    for (free, capability) in
        [(0.0, 0.0), (0.15, 0.25), (0.3, 0.5), (0.6, 1.0), (0.9, 1.0), (1.0, 1.0)]
    {
        let inputs = inputs("cpu_free_ratio", free, 1);
        near(get(root, "capability_cpu_load", &["0.6"], &inputs, memory), capability);
    }
    let mut stale = inputs("cpu_free_ratio", 0.5, 1);
    stale[0].1[0].stale = true;
    for (args, inputs, why) in [
        (&["0"][..], inputs("x", 0.5, 1), "above 0"),
        (&["x"], inputs("x", 0.5, 1), "above 0"),
        (&[], inputs("x", 1.5, 1), "0 to 1"),
        (&[], Vec::new(), "expected one"),
        (&[], vec![("x".to_owned(), Vec::new())], "no value of n1"),
        (&[], stale, "stale"),
    ] {
        let error = get(root, "capability_cpu_load", args, &inputs, memory).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn accelerators_count_by_their_type() {
    let root = Path::new("/");
    let text = |text: &str| {
        let mut inputs = inputs("gpu_throughput", 0.0, 1);
        inputs[0].1[0].value = Value::Text(text.to_owned());
        inputs
    };
    let all = text("a100 100.5\na100 99.5\n\na100_1g.5gb 14\ntesla t4 30\n");
    let memory = &mut Memory::default();
    for (args, sum) in [
        (&[][..], 244.0),
        (&["a100"], 200.0),
        (&["a100_1g.5gb"], 14.0),
        (&["tesla t4"], 30.0),
        (&["h100"], 0.0),
    ] {
        near(get(root, "capability_accelerator", args, &all, memory), sum);
    }
    near(get(root, "capability_accelerator", &[], &text(""), memory), 0.0);
    for (inputs, why) in [
        (inputs("x", 1.0, 1), "expected text"),
        (text("a100"), "got \"a100\""),
        (text("a100 fast"), "got \"a100 fast\""),
        (text("a100 -1"), "got \"a100 -1\""),
        (Vec::new(), "expected one"),
    ] {
        let error = get(root, "capability_accelerator", &[], &inputs, memory).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn method_c_counts_each_run_once() {
    let mut memory = Memory::default();
    let root = Path::new("/");
    let mut next = |speed: f64, time_ms: u64| {
        get(root, "capability_history", &["0.5"], &inputs("speed", speed, time_ms), &mut memory)
    };
    near(next(8.0, 1), 8.0);
    near(next(4.0, 2), 6.0);
    near(next(4.0, 2), 6.0);
    near(next(6.0, 3), 6.0);
    // After a restart its own last value is where it goes on.
    let mut with_own = inputs("speed", 4.0, 9);
    with_own.extend(inputs(OWN, 6.0, 8));
    near(get(root, "capability_history", &["0.5"], &with_own, &mut Memory::default()), 5.0);
}

#[test]
fn the_benchmark_gives_a_speed() {
    let speed = get(Path::new("/"), "benchmark_speed", &[], &[], &mut Memory::default()).unwrap();
    assert!(speed > 0.001 && speed < 10_000.0, "{speed}");
}

#[test]
fn text_expositions() {
    let text = "# HELP x y\n# TYPE x gauge\nx{a=\"1\",b=\"q}\\\"\"} 2 1790000000\nx{a=\"2\"} 3\n\
                y 1e3\nnan_value NaN\n";
    near(sample(text, "x"), 5.0);
    near(sample(text, "x{a=\"1\"}"), 2.0);
    near(sample(text, "x{ b=\"q}\\\"\", a=\"1\" }"), 2.0);
    near(sample(text, "y"), 1000.0);
    assert!(sample(text, "nan_value").unwrap().is_nan(), "refused later, as any output");
    for bad in ["z", "x{a=\"9\"}", "x{a=1}", "", "{", "x{a"] {
        assert!(sample(text, bad).is_err(), "{bad}");
    }
}

/// Serves one request.
fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let read = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&request[..read]).lines().next().unwrap_or_default().to_owned()
    });
    (address, thread)
}

#[test]
fn prometheus_over_http() {
    let (root, memory) = (Path::new("/"), &mut Memory::default());
    let (address, server) = serve("HTTP/1.1 200 OK\r\n\r\nnode_load1 0.75\n");
    let url = format!("http://{address}/metrics");
    near(get(root, "prometheus", &[&url, "node_load1"], &[], memory), 0.75);
    assert_eq!(server.join().unwrap(), "GET /metrics HTTP/1.1");
    let (address, server) = serve(
        "HTTP/1.1 200 OK\r\n\r\n{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\
         \"result\":[{\"metric\":{},\"value\":[1790000000,\"0.25\"]}]}}",
    );
    let url = format!("http://{address}/api/v1/query");
    near(get(root, "prometheus", &[&url, "up{host=\"{node}\"}"], &[], memory), 0.25);
    let line = server.join().unwrap();
    assert_eq!(line, "GET /api/v1/query?query=up%7Bhost%3D%22n1%22%7D HTTP/1.1");
    let (address, _server) = serve("HTTP/1.1 500 Oops\r\n\r\n");
    let url = format!("http://{address}/metrics");
    assert!(get(root, "prometheus", &[&url, "x"], &[], memory).unwrap_err().contains("500"));
    for url in ["https://x/metrics", "http:///metrics", "http://a b/metrics", "x"] {
        assert!(get(root, "prometheus", &[url, "x"], &[], memory).is_err(), "{url}");
    }
}
