// SPDX-License-Identifier: GPL-3.0-or-later
//! Makes `openapi.json` from the routes and the types of their answers; a test compares the file.
//! `UPDATE_OPENAPI=1 cargo test -p phalanx-service openapi` writes it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use schemars::generate::{Contract, SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::auth::OPEN;
use super::backend::Backend;
use super::extract::{Arg, Body, Params};
use super::handler::{Ask, Told};
use super::{collect, routes};
use phalanx_messages::collect::{NAME_PATTERN, request_head};
use phalanx_messages::rest::ErrorBody;

/// Purpose of each operation, and the errors that it has beyond those of its kind.
#[rustfmt::skip]
const SAID: &[(&str, &str, &[u16])] = &[
    ("status", "The daemon, the plugin, and the outcomes of Slurm's placement calls", &[]),
    ("nodes", "Usage and weight of each resource, and of each node", &[]),
    ("forgive", "Forget the jobs that died on a node until now", &[404]),
    ("heat", "Usage of each node by resource, for the page", &[]),
    ("explain", "The reasons for which a job runs where it runs, or waits", &[404]),
    ("blockMap", "The block map of a running job: the blocks that each task reads", &[404]),
    ("shadow", "Agreement of Slurm with the decisions of shadow mode", &[]),
    ("report", "What happened since a time, summed up from the history", &[]),
    ("audit", "What was changed for which job; users get their own jobs", &[404, 409]),
    ("decisions", "The latest decisions and what became of them", &[]),
    ("plan", "The plan for the pending jobs", &[]),
    ("state", "The state that a simulation of the live cluster starts from; its snapshot, running \
               jobs and topology are for phalanx of the same version", &[]),
    ("runs", "Runs of jobs that ended, newest first", &[]),
    ("speeds", "Learned speeds of job classes", &[404]),
    ("energy", "Believed power and energy", &[]),
    ("metered", "Take energy of runs found in Slurm's accounting, and tell the first and last end \
                 of the runs whose energy is missing, unix seconds; administrators only", &[]),
    ("import", "Add runs to the history: one that is known by job and start_s gains energy and \
                work only; administrators only", &[]),
    ("reload", "Read the configuration again", &[]),
    ("drill", "Let slurmctld wait for answers for a minute, also where none counts", &[]),
    ("record", "Begin or end a recording of the decisions", &[409]),
    ("collectors", "All registrations with their states", &[]),
    ("addCollector", "Register a program; administrators only", &[409]),
    ("collector", "One registration with the state of each node", &[404]),
    ("updateCollector", "Change a registration; administrators only", &[404, 409]),
    ("removeCollector", "Remove a registration and its latest values; administrators only",
     &[404, 409]),
    ("startCollector", "Let it run again; administrators only", &[404, 409]),
    ("stopCollector", "Stop running it; administrators only", &[404, 409]),
    ("dataNames", "The names of all data", &[]),
    ("store", "Store values of any nodes; administrators only", &[]),
    ("data", "The latest values of one name; never waits for a collection", &[404]),
    ("dataOfNode", "The latest value of one node", &[404]),
    ("storeOne", "Store one value; administrators, and the node's agent", &[]),
    ("past", "Past values, oldest first", &[404]),
    ("agents", "The agents", &[]),
    ("sync", "An agent hands over values and reports; the answer is held for wait_ms, at most \
              60 s, until its assignments change", &[]),
    ("uses", "The datum that each method uses", &[]),
    ("used", "One number for each node: its own fresh value, else the fallback", &[404]),
    ("choose", "Switch what a method uses at once; administrators only", &[404]),
    ("unchoose", "Go back to the configuration; administrators only", &[404]),
    ("openapi", "This document", &[]),
    ("metrics", "OpenMetrics", &[503]),
    ("healthz", "A sign that the daemon answers", &[]),
    ("page", "The page", &[401, 403, 503]),
    ("pageStyle", "Its style", &[401, 403, 503]),
    ("pageScript", "Its script", &[401, 403, 503]),
    ("historyScript", "Its script for what came of it", &[401, 403, 503]),
];

const ERRORS: [(u16, &str); 9] = [
    (400, "Malformed"),
    (401, "No credential, or one that is not good for this request (TCP only)"),
    (403, "Not for this user"),
    (404, "No such thing"),
    (408, "The body did not arrive (TCP only)"),
    (409, "It collides with what is there"),
    (413, "Too large"),
    (415, "The body is not application/json"),
    (503, "Not now"),
];

/// A method of a resource.
pub(super) struct Operation {
    /// Method, path and operationId of the operation.
    of: (&'static str, &'static str, &'static str),
    parts: Vec<fn(&mut Asked)>,
    answer: Answer,
}

enum Answer {
    Json(fn(&mut SchemaGenerator) -> Schema),
    Text(&'static str),
}

impl Operation {
    pub(super) fn json<T: JsonSchema>(
        of: (&'static str, &'static str, &'static str),
        parts: Vec<fn(&mut Asked)>,
    ) -> Self {
        Self { of, parts, answer: Answer::Json(|schemas| schemas.subschema_for::<T>()) }
    }

    /// Makes the description of an operation from the types of its handler.
    pub(super) fn told<A: Part, C: Part, T: JsonSchema, F>(
        of: (&'static str, &'static str, &'static str),
        _: &Ask<F>,
    ) -> Self
    where
        F: FnOnce(&dyn Backend, A, C) -> Told<T>,
    {
        Self::json::<T>(of, vec![A::describe, C::describe])
    }

    pub(super) fn text(of: (&'static str, &'static str, &'static str), kind: &'static str) -> Self {
        Self { of, parts: Vec::new(), answer: Answer::Text(kind) }
    }
}

macro_rules! operation {
    ($of:expr, $handler:expr) => {
        crate::api::openapi::Operation::told($of, &$handler)
    };
    ($of:expr, $handler:expr, $kind:literal) => {
        crate::api::openapi::Operation::text($of, $kind)
    };
    ($of:expr, $handler:expr, [$($part:ty),*] $answer:ty) => {
        crate::api::openapi::Operation::json::<$answer>(
            $of,
            vec![$(<$part as crate::api::openapi::Part>::describe),*],
        )
    };
}
pub(super) use operation;

/// Parts of a request as the document describes them.
pub(super) struct Asked {
    path: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    schemas: SchemaGenerator,
}

/// A part of a request.
pub(super) trait Part {
    fn describe(asked: &mut Asked);
}

impl Part for () {
    fn describe(_: &mut Asked) {}
}

impl Part for axum::extract::Request {
    fn describe(_: &mut Asked) {}
}

impl<X: Part, Y: Part> Part for (X, Y) {
    fn describe(asked: &mut Asked) {
        X::describe(asked);
        Y::describe(asked);
    }
}

impl<T> Part for Arg<T> {
    fn describe(asked: &mut Asked) {
        let text = || json!({"type": "string", "minLength": 1});
        for name in variables(asked.path) {
            let (said, schema) = match name {
                "id" => ("Job id", json!({"type": "integer", "minimum": 1})),
                "job" => ("123, 123_4, 123_[1-6] or 123+1", text()),
                "key" => {
                    ("Key of the method that uses the datum, such as share.capability", text())
                }
                "name" => ("Name of the datum", json!({"type": "string", "pattern": NAME_PATTERN})),
                "node" => ("Node", text()),
                other => panic!("{}: describe {other}", asked.path),
            };
            asked.parameters.push(json!({
                "name": name, "in": "path", "required": true, "description": said, "schema": schema
            }));
        }
    }
}

impl<T: JsonSchema> Part for Params<T> {
    fn describe(asked: &mut Asked) {
        let query = plain(T::json_schema(&mut asked.schemas).to_value());
        for (name, schema) in query["properties"].as_object().unwrap() {
            let mut schema = schema.clone();
            let said = schema.as_object_mut().unwrap().remove("description").expect(name);
            // What is absent is absent: there is no word for null in a query.
            schema["type"] = schema["type"][0].clone();
            asked.parameters.push(json!({
                "name": name, "in": "query", "required": false, "description": said,
                "schema": schema
            }));
        }
    }
}

impl<T: JsonSchema> Part for Body<T> {
    fn describe(asked: &mut Asked) {
        asked.body = Some(plain(T::json_schema(&mut asked.schemas).to_value()));
    }
}

/// The variables of a path.
fn variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// A schema in few words, with the bounds of the integers' formats, descriptions of one line, and
/// no defaults. Words that OpenAPI 3.0 and early drafts do not have give way: to schemathesis a
/// tuple's `prefixItems` are no schema, so it becomes a list of its length.
fn plain(mut schema: Value) -> Value {
    match &mut schema {
        Value::Array(list) => {
            *list = std::mem::take(list).into_iter().map(plain).collect();
        }
        Value::Object(object) => {
            object.remove("default");
            if let Some(Value::Array(mut kinds)) = object.remove("prefixItems") {
                kinds.dedup();
                let each = if kinds.len() == 1 { kinds.remove(0) } else { json!({"anyOf": kinds}) };
                object.insert("items".to_owned(), each);
            }
            // A map by numbers.
            if let Some(Value::Object(named)) = object.remove("patternProperties") {
                let each = named.into_iter().map(|(_, each)| each).next().unwrap();
                object.insert("additionalProperties".to_owned(), each);
            }
            let bits = match object.get("format").and_then(Value::as_str) {
                Some("uint8") => Some((json!(0), json!(u8::MAX))),
                Some("uint32") => Some((json!(0), json!(u32::MAX))),
                Some("uint" | "uint64") => Some((json!(0), json!(u64::MAX))),
                Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
                Some("int64") => Some((json!(i64::MIN), json!(i64::MAX))),
                _ => None,
            };
            if let Some((least, most)) = bits {
                object.entry("minimum").or_insert(least);
                object.entry("maximum").or_insert(most);
            }
            for (key, value) in object {
                match (key.as_str(), &mut *value) {
                    ("description", Value::String(text)) => *text = text.replace('\n', " "),
                    // Names of fields, not words of a schema.
                    ("properties", Value::Object(fields)) => {
                        fields.values_mut().for_each(|field| *field = plain(field.take()));
                    }
                    _ => *value = plain(value.take()),
                }
            }
        }
        _ => {}
    }
    schema
}

fn content(kind: &str, schema: &Value) -> Value {
    json!({kind: {"schema": schema}})
}

/// Describes an operation in the form of OpenAPI.
fn described(operation: &Operation, answers: &mut SchemaGenerator) -> Map<String, Value> {
    let (_, path, name) = operation.of;
    let requests = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.contract = Contract::Deserialize;
    });
    let schemas = requests.into_generator();
    let mut asked = Asked { path, parameters: Vec::new(), body: None, schemas };
    operation.parts.iter().for_each(|describe| describe(&mut asked));
    let (_, summary, own) = SAID.iter().find(|(of, ..)| *of == name).expect(name);
    let mut errors: BTreeSet<u16> = own.iter().copied().collect();
    let answer = match operation.answer {
        Answer::Json(schema) => {
            errors.extend([400, 401, 403, 503]);
            content("application/json", &plain(schema(answers).to_value()))
        }
        Answer::Text(kind @ "application/json") => content(kind, &json!({"type": "object"})),
        Answer::Text(kind) => content(kind, &json!({"type": "string"})),
    };
    let mut said = Map::new();
    if let Some(schema) = &asked.body {
        errors.extend([408, 413, 415]);
        let content = content("application/json", schema);
        said.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
    }
    let mut responses = Map::new();
    let good = if name == "addCollector" { "201" } else { "200" };
    responses.insert(good.to_owned(), json!({"description": "Done", "content": answer}));
    for error in errors {
        let reference = format!("#/components/responses/E{error}");
        responses.insert(error.to_string(), json!({"$ref": reference}));
    }
    if !asked.parameters.is_empty() {
        said.insert("parameters".to_owned(), asked.parameters.into());
    }
    if OPEN.contains(&path) {
        said.insert("security".to_owned(), json!([]));
    }
    said.insert("operationId".to_owned(), name.into());
    said.insert("summary".to_owned(), (*summary).into());
    said.insert("responses".to_owned(), responses.into());
    said
}

fn document() -> Value {
    let answers = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.contract = Contract::Serialize;
    });
    let mut answers = answers.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in routes::operations().into_iter().chain(collect::operations()) {
        let (method, path, _) = operation.of;
        let said = described(&operation, &mut answers);
        paths.entry(path).or_default().insert(method.to_lowercase(), said.into());
    }
    let error = plain(answers.subschema_for::<ErrorBody>().to_value());
    let errors = ERRORS.map(|(code, said)| {
        let content = content("application/json", &error);
        (format!("E{code}"), json!({"description": said, "content": content}))
    });
    let payload = |realm| {
        let head = request_head(realm, "METHOD", "PATH?QUERY").replace('\n', "\\n");
        format!("`{head}SHA256-OF-BODY\\n`")
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "phalanxd",
            "version": "1",
            "license": {"name": "GPL-3.0-or-later", "identifier": "GPL-3.0-or-later"},
            "description": format!(
                "Served on the control socket, where the peer's user counts, and on \
                 control.listen, where each request carries `Authorization: Munge CREDENTIAL` with \
                 the payload {}, each line ended; REALM is the daemon's, from `WWW-Authenticate`. \
                 {} is taken too, by every daemon of the same munged users that was not sent it \
                 before.",
                payload(Some("REALM")),
                payload(None)
            ),
        },
        "security": [{"munge": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"munge": {
                "type": "apiKey", "in": "header", "name": "Authorization",
                "description": "A MUNGE credential, good for one request"
            }},
            "responses": Map::from_iter(errors),
            "schemas": plain(answers.take_definitions(true).into()),
        }
    })
}

/// JSON with a line for each member of an object, down to the properties of a schema.
fn write(to: &mut String, value: &Value, depth: usize) {
    match value.as_object().filter(|object| depth < 5 && !object.is_empty()) {
        Some(object) => {
            for (at, (key, value)) in object.iter().enumerate() {
                let begin = if at == 0 { "{" } else { "," };
                write!(to, "{begin}\n{}{}: ", " ".repeat(depth + 1), json!(key)).unwrap();
                write(to, value, depth + 1);
            }
            write!(to, "\n{}}}", " ".repeat(depth)).unwrap();
        }
        None => to.push_str(&value.to_string()),
    }
}

/// Goal: the served document is the one made of the router and the types.
#[test]
fn the_document_is_what_is_served() {
    let made = document();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        let mut text = String::new();
        write(&mut text, &made, 0);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/api/openapi.json");
        std::fs::write(path, text + "\n").unwrap();
        return;
    }
    let stored: Value = serde_json::from_str(routes::OPENAPI).unwrap();
    assert!(stored == made, "api/openapi.json is stale: run this test with UPDATE_OPENAPI=1");
}

/// The schemas of a part of the document, each with its place.
fn schemas<'a>(part: &'a Value, at: &str, found: &mut Vec<(String, &'a Value)>) {
    for (key, value) in part.as_object().into_iter().flatten() {
        let place = format!("{at}/{key}");
        match key.as_str() {
            "schema" => found.push((place, value)),
            "schemas" => {
                let named = value.as_object().unwrap();
                found.extend(named.iter().map(|(name, each)| (format!("{place}/{name}"), each)));
            }
            _ => schemas(value, &place, found),
        }
    }
}

/// Panics where a schema has a word, or a value of a word, that is not in the list. OpenAPI 3.1 has
/// more words, which not every reader of it knows.
fn check(schema: &Value, at: &str) {
    const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let texts = |list: &Value| {
        list.as_array().is_some_and(|list| {
            let known: BTreeSet<_> = list.iter().filter_map(Value::as_str).collect();
            !list.is_empty() && known.len() == list.len()
        })
    };
    let Some(words) = schema.as_object() else {
        return assert!(schema.is_boolean(), "{at}: {schema} is no schema");
    };
    for (word, value) in words {
        let at = format!("{at}/{word}");
        let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
        let good = match word.as_str() {
            "type" => {
                is_type(value) || texts(value) && value.as_array().unwrap().iter().all(is_type)
            }
            "$ref" | "const" | "description" | "format" | "pattern" => value.is_string(),
            "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            "enum" | "required" => texts(value),
            "items" | "additionalProperties" => {
                check(value, &at);
                true
            }
            "allOf" | "anyOf" | "oneOf" => {
                let each = value.as_array().into_iter().flatten();
                each.for_each(|each| check(each, &at));
                value.as_array().is_some_and(|list| !list.is_empty())
            }
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                fields.for_each(|(name, field)| check(field, &format!("{at}/{name}")));
                value.is_object()
            }
            _ => false,
        };
        assert!(good, "{at}: {value} is not understood");
    }
}

/// Goal: every reader of the document understands every schema.
#[test]
fn the_schemas_are_understood() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0", "the list of words is of this version");
    let mut found = Vec::new();
    schemas(&document, "", &mut found);
    assert!(found.len() > 100, "{} schemas", found.len());
    found.iter().for_each(|(at, schema)| check(schema, at));
}

/// Goal: the document has what a client's generator needs: references that lead somewhere, names of
/// one meaning, descriptions without the links of Rust's documentation.
#[test]
fn the_document_is_consistent() {
    let document = document();
    let text = document.to_string();
    assert!(!text.contains("[`"), "a link of Rust's documentation");
    for piece in text.split("\"$ref\":\"#").skip(1) {
        let pointer = piece.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "two types are called {name}");
        for (property, value) in schema["properties"].as_object().into_iter().flatten() {
            let known = value.get("description").is_some();
            assert!(known, "{name}.{property} has no description");
        }
    }
    let mut names = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for operation in operations.as_object().unwrap().values() {
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{operation}");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let given: BTreeSet<&str> = parameters
                .filter(|one| one["in"] == "path")
                .flat_map(|p| p["name"].as_str())
                .collect();
            assert_eq!(given, variables(path).collect(), "{path}");
        }
    }
    let said: BTreeSet<&str> = SAID.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, said);
}
