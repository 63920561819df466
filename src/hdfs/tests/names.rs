// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of URIs, patterns, Hadoop's configuration files.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::conf::Site;
use super::super::glob;
use super::super::uri::{Scheme, parse as parse_uri};
use super::super::{Hdfs, HdfsError};
use phalanx_config::HdfsConfig;

#[test]
fn uris() {
    for (uri, scheme, authority, path) in [
        ("/a//b/", Scheme::Hdfs, None, "/a/b"),
        ("/", Scheme::Hdfs, None, "/"),
        ("hdfs:///a", Scheme::Hdfs, None, "/a"),
        ("hdfs://nn:8020/a b%", Scheme::Hdfs, Some("nn:8020"), "/a b%"),
        ("webhdfs://nn:9870/a", Scheme::Webhdfs, Some("nn:9870"), "/a"),
    ] {
        let location = parse_uri(uri).unwrap();
        assert_eq!((location.scheme, location.authority.as_deref()), (scheme, authority), "{uri}");
        assert_eq!(location.path, path, "{uri}");
    }
    for uri in ["", "a/b", "s3://b/a", "hdfs://nn", "/a/../b", "/./a", "hdfs://u@nn/a"] {
        assert!(matches!(parse_uri(uri), Err(HdfsError::BadUri(_))), "{uri}");
    }
    assert!(parse_uri(&format!("/{}", "x".repeat(9000))).is_err());
}

fn matches(pattern: &str, name: &str) -> bool {
    let components = glob::parse(&format!("/{pattern}")).unwrap();
    components.len() == 1 && components[0].matches(name)
}

#[test]
fn patterns() {
    for (pattern, yes, no) in [
        ("*.csv", vec!["a.csv", ".csv"], vec!["a.csv.gz", "acsv"]),
        ("part-?", vec!["part-1"], vec!["part-", "part-12"]),
        ("[a-c]x", vec!["ax", "cx"], vec!["dx", "x"]),
        ("[^a-c]x", vec!["dx"], vec!["ax"]),
        ("{a,b{c,d}}*", vec!["a1", "bc", "bd2"], vec!["b", "c"]),
        (r"a\*b", vec!["a*b"], vec!["axb"]),
        (r"a\{b", vec!["a{b"], vec!["ab"]),
        ("a**b", vec!["ab", "axyb"], vec!["a"]),
    ] {
        for name in yes {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for name in no {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
    assert!(matches("[é-]?", "éé") && matches("[]x]", "]") && matches(r"[\]^]", "^"));
    for pattern in ["{a", "[a", r"a\", "{a,b}{c"] {
        assert!(matches!(glob::parse(pattern), Err(HdfsError::BadUri(_))), "{pattern}");
    }
    // 8 to the power of 12 alternatives must not be spelled out.
    let explosion = "{a,b,c,d,e,f,g,h}".repeat(12);
    assert!(matches(&explosion, "abcdefghabcd"));
    assert!(!matches(&explosion, "abcdefghabcx"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_a_pattern_or_refused(text in "[-ab*?{},^!\\\\\\[\\]/é]{0,24}") {
        let _ = glob::parse(&text);
        let _ = parse_uri(&text);
    }

    /// Goal: a name with each character escaped matches itself and nothing longer.
    #[test]
    fn escaped_names_match_themselves(name in "[-a-c*?{},^!\\[\\]]{1,12}") {
        let pattern: String = name.chars().flat_map(|c| ['\\', c]).collect();
        prop_assert!(matches(&pattern, &name), "{}", pattern);
        let longer = format!("{name}x");
        prop_assert!(!matches(&pattern, &longer));
    }
}

/// Writes `name` as a configuration with the `<property>` and other elements in `elements`.
fn write(dir: &Path, name: &str, elements: &str) {
    let text = format!("<?xml version=\"1.0\"?>\n<configuration>{elements}</configuration>");
    std::fs::write(dir.join(name), text).unwrap();
}

fn property(name: &str, value: &str) -> String {
    format!("<property>\n <name>{name}</name> <value>{value}</value></property>")
}

fn site(dir: &Path) -> Result<Site, HdfsError> {
    Site::read(&[dir.to_owned()], &["other".to_owned()])
}

fn ask(site: &Site, uri: &str) -> Result<Vec<String>, HdfsError> {
    site.service(&parse_uri(uri).unwrap()).map(|service| service.rpc)
}

#[test]
fn configuration_of_two_namenodes() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "core-site.xml", &property("fs.defaultFS", "hdfs://<!-- ours -->big"));
    let extra = [
        property("port", "9000"),
        property("dfs.ha.namenodes.big", "a, b"),
        property("dfs.namenode.rpc-address.big.a", "h1:${port}"),
        property("dfs.namenode.rpc-address.big.b", "h2"),
        property("dfs.namenode.http-address.big.a", "0.0.0.0:9870"),
    ];
    write(dir.path(), "extra.xml", &extra.concat());
    let rest = "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='extra.xml'/>\
                <include href='gone.xml'><fallback/></include>";
    let first = "<property><name>dfs.nameservices</name><value>big</value><final>true</final>\
                 </property>";
    let again = property("dfs.nameservices", "small");
    write(dir.path(), "hdfs-site.xml", &format!("{first}{again}{rest}"));
    let site = site(dir.path()).unwrap();
    assert_eq!(ask(&site, "/x").unwrap(), ["h1:9000", "h2:8020"]);
    assert_eq!(ask(&site, "hdfs://big/x").unwrap(), ["h1:9000", "h2:8020"]);
    // One NameNode of the service by its address means the service.
    assert_eq!(ask(&site, "hdfs://h2/x").unwrap(), ["h1:9000", "h2:8020"]);
    assert_eq!(site.services["big"].urls(false), ["http://h1:9870"]);
    assert_eq!(site.services["big"].urls(true), [""; 0]);
    assert_eq!(ask(&site, "hdfs://other:8020/x").unwrap(), ["other:8020"]);
    for uri in ["hdfs://small/x", "hdfs://h1/x", "hdfs://169.254.169.254/x", "hdfs://other:1/x"] {
        assert!(matches!(ask(&site, uri), Err(HdfsError::NotConfigured(_))), "{uri}");
    }
}

/// Goal: a fault in what no input names refuses no input: each service and default is judged when
/// asked.
#[test]
fn a_fault_is_of_its_service_alone() {
    let dir = tempfile::tempdir().unwrap();
    let of = |elements: &[String]| {
        write(dir.path(), "hdfs-site.xml", &elements.concat());
        site(dir.path()).unwrap()
    };
    let (two, ha) = (property("dfs.nameservices", "p,r"), property("dfs.ha.namenodes.p", "a"));
    let default = |uri: &str| property("fs.defaultFS", uri);
    let (p, r) = ("dfs.namenode.rpc-address.p.a", "name service r: dfs.namenode.rpc-address.r");
    let site = of(&[two.clone(), ha, property(p, "h"), default("hdfs://p")]);
    assert_eq!(ask(&site, "/x").unwrap(), ["h:8020"]);
    assert_eq!(ask(&site, "hdfs://r/x").unwrap_err().to_string(), format!("{r} is not set"));
    // Keys without a name are of no service where there are two.
    let plain = property("dfs.namenode.rpc-address", "h:1");
    let site = of(&[two, plain.clone(), default("hdfs://r")]);
    assert_eq!(ask(&site, "/x").unwrap_err().to_string(), format!("{r} is not set"));
    let one = property("dfs.nameservices", "p");
    let named = property("dfs.namenode.rpc-address.p", "h:2");
    assert_eq!(ask(&of(&[one.clone(), plain.clone()]), "hdfs://p/x").unwrap(), ["h:1"]);
    assert_eq!(ask(&of(&[one.clone(), plain, named]), "hdfs://p/x").unwrap(), ["h:2"]);
    assert_eq!(ask(&of(&[one, default("hdfs://h:3")]), "/x").unwrap(), ["h:3"]);
    let site = of(&[default("viewfs://table")]);
    for (uri, start) in [("/x", "fs.defaultFS is viewfs://table: "), ("viewfs:///x", "`viewfs:")] {
        let said = parse_uri(uri).and_then(|place| site.service(&place)).unwrap_err().to_string();
        assert!(said.starts_with(start) && said.contains("write hdfs://NAMENODE/PATH"), "{said}");
    }
    assert_eq!(ask(&site, "hdfs://other/x").unwrap(), ["other:8020"]);
}

/// Goal: `${env.NAME}` and its defaults are replaced as Hadoop replaces them.
#[test]
fn the_environment_stands_in_values() {
    let dir = tempfile::tempdir().unwrap();
    for (value, expected) in [
        ("${env.CARGO_PKG_NAME}", env!("CARGO_PKG_NAME")),
        ("${env.CARGO_PKG_NAME:-${port}}", env!("CARGO_PKG_NAME")),
        ("${env.PHALANX_NO:-h-1}:${port}", "h-1:9"),
        ("${env.PHALANX_NO-${env.PHALANX_NO:-h}}", "h"),
        ("${env.PHALANX_NO:-}h", "h"),
        ("${env.PHALANX_NO}", "${env.PHALANX_NO}"),
        ("${env.}${port}", "${env.}${port}"),
        ("}${port}", "}9"),
    ] {
        let default = property("fs.defaultFS", &format!("hdfs://{value}/"));
        write(dir.path(), "core-site.xml", &(default + &property("port", "9")));
        assert_eq!(site(dir.path()).unwrap().default.as_deref(), Some(expected), "{value}");
    }
}

#[test]
fn configurations_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |text: &str, expected: &str| {
        std::fs::write(dir.path().join("core-site.xml"), text).unwrap();
        let error = site(dir.path()).map(|s| ask(&s, "/x")).and_then(|r| r).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    };
    refused("<configuration><property>", "core-site.xml: ");
    refused("<html/>", "expected <configuration>, found <html>");
    refused("<configuration><include href='core-site.xml'/></configuration>", "too deeply");
    refused("<configuration><include href='gone.xml'/></configuration>", "gone.xml");
    // Entities could make a few bytes into many.
    refused("<!DOCTYPE c [<!ENTITY a 'b'>]><configuration/>", "core-site.xml");
    let token = property("hadoop.security.authentication", "token");
    let text = format!("<configuration>{token}</configuration>");
    refused(&text, "hadoop.security.authentication: expected simple or kerberos, got token");
}

/// Goal: a file of a few kilobytes takes no longer than its length: names given often, NameNodes
/// given often, and values that stand for long ones multiply.
#[test]
fn configurations_made_to_take_long_end_soon() {
    let dir = tempfile::tempdir().unwrap();
    let address = property("dfs.namenode.rpc-address.n.a", "h:1");
    let often = |services: usize, namenodes: usize| {
        let named = property("dfs.nameservices", &"n,".repeat(services));
        named + &property("dfs.ha.namenodes.n", &"a,".repeat(namenodes)) + &address
    };
    let twice = |name: &str, of: &str| property(name, &format!("${{{of}}}${{{of}}}"));
    let long = property("dfs.nameservices", "n")
        + &twice("dfs.ha.namenodes.n", "b")
        + &twice("b", "c")
        + &twice("c", "d")
        + &property("d", &"a,".repeat(1_000_000))
        + &address;
    for elements in [often(20_000, 20_000), long] {
        write(dir.path(), "core-site.xml", &elements);
        let error = site(dir.path()).unwrap_err().to_string();
        assert!(error.contains("more than 33554432 bytes of values"), "{error}");
    }
    write(dir.path(), "core-site.xml", &often(100, 100));
    assert_eq!(ask(&site(dir.path()).unwrap(), "hdfs://n/x").unwrap(), ["h:1"; 100]);
}

/// Goal: with Kerberos nothing is asked by RPC, which would go without it, nor without TLS where
/// there is TLS.
#[test]
fn what_wants_kerberos_is_asked_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let kerberos = property("hadoop.security.authentication", "kerberos");
    let address = |scheme: &str, port: u16| {
        property(&format!("dfs.namenode.{scheme}-address"), &format!("0.0.0.0:{port}"))
    };
    let urls = |properties: &[String], scheme| {
        let default = property("fs.defaultFS", "hdfs://nn:8020");
        write(dir.path(), "core-site.xml", &format!("{default}{}", properties.join("")));
        let job = HdfsConfig::default().job_time();
        let hdfs = Hdfs::new(&[dir.path().to_owned()], &[], job).unwrap();
        hdfs.urls(&hdfs.site.services["nn:8020"], scheme)
    };
    let (http, https) = (address("http", 9870), address("https", 9871));
    let only = property("dfs.http.policy", "HTTPS_ONLY");
    let (plain, tls) = (["http://nn:9870"], ["https://nn:9871"]);
    let both = [http.clone(), https.clone()];
    assert_eq!(urls(&both, Scheme::Hdfs), plain);
    assert_eq!(urls(&both, Scheme::Swebhdfs), tls);
    let secure = [kerberos.clone(), http.clone(), https.clone()];
    assert_eq!(urls(&secure, Scheme::Hdfs), tls);
    assert_eq!(urls(&secure, Scheme::Webhdfs), plain);
    assert_eq!(urls(&[only, http.clone(), https], Scheme::Webhdfs), tls);
    assert_eq!(urls(&[kerberos, http], Scheme::Hdfs), plain);
}

#[test]
fn nothing_configured_is_told() {
    let gone = PathBuf::from("/nonexistent/conf");
    let mut hdfs = Hdfs::new(&[gone], &[], HdfsConfig::default().job_time()).unwrap();
    let error = hdfs.locate("/x", false, "u", "c").unwrap_err().to_string();
    assert_eq!(error, "hdfs.conf_dirs: no NameNode is configured in /nonexistent/conf");
}
