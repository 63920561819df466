// SPDX-License-Identifier: GPL-3.0-or-later
//! The latest value of every datum on every node, in memory: readers never wait for a collection,
//! nor for the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::Now;
use phalanx_core::limits::{
    COLLECT_PAST_TEXT_BYTES_MAX, COLLECT_TEXTS_BYTES_MAX, COLLECT_VALUES_MAX,
};
use phalanx_messages::collect::{DataName, Row, Value};

/// Age assumed for a value of unknown age, in milliseconds.
const AGE_UNKNOWN_MS: u64 = 365 * 86_400_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) time_ms: u64,
    pub(super) received_ms: u64,
    /// Time of the measurement, by the daemon's monotonic clock.
    pub(super) made_ms: i64,
    /// Whether the value is not in the database yet.
    dirty: bool,
    /// Time at which a value last went into the history, by the monotonic clock.
    logged_ms: Option<i64>,
}

impl Entry {
    fn text_bytes(&self) -> usize {
        match &self.value {
            Value::Number(_) => 0,
            Value::Text(text) => text.len(),
        }
    }
}

/// A value that is not in the database yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unwritten {
    pub(super) name: Arc<str>,
    pub(super) node: Arc<str>,
    pub(super) value: Value,
    pub(super) time_ms: u64,
    pub(super) received_ms: u64,
    /// Whether the value goes into the history as well.
    pub(super) historic: bool,
}

type Column = BTreeMap<Arc<str>, Entry>;

/// Values by name and node.
#[derive(Debug, Default)]
pub(super) struct Latest {
    columns: BTreeMap<Arc<str>, Column>,
    count: usize,
    /// Bytes of all values that are text.
    text_bytes: usize,
    dirty: Vec<(Arc<str>, Arc<str>)>,
}

impl Latest {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(name)
    }

    pub(super) fn get(&self, name: &str, node: &str) -> Option<&Entry> {
        self.columns.get(name)?.get(node)
    }

    /// Stores a value that is `age_ms` old. A value older than the stored one changes nothing; a
    /// new node or name is refused when there are too many values.
    pub(super) fn put(
        &mut self,
        (name, node): (&str, &str),
        value: Value,
        (time_ms, age_ms): (Option<u64>, u64),
        now: Now,
    ) -> Result<(), String> {
        let made_ms = now.ago(age_ms);
        let new = Entry {
            value,
            time_ms: time_ms.unwrap_or_else(|| now.wall_ms.saturating_sub(age_ms)),
            received_ms: now.wall_ms,
            made_ms,
            dirty: true,
            logged_ms: None,
        };
        let (bytes, most) = (self.text_bytes, COLLECT_TEXTS_BYTES_MAX);
        let too_long = || format!("there are {bytes} bytes of text, of at most {most}");
        if let Some((name, column)) = entry_of(&mut self.columns, name)
            && let Some((node, old)) = entry_of(column, node)
        {
            if made_ms < old.made_ms {
                return Ok(());
            }
            let texts = bytes.saturating_sub(old.text_bytes()) + new.text_bytes();
            if texts > most {
                return Err(too_long());
            }
            self.text_bytes = texts;
            if !old.dirty {
                self.dirty.push((name, node));
            }
            *old = Entry { logged_ms: old.logged_ms, ..new };
            return Ok(());
        }
        if self.count >= COLLECT_VALUES_MAX {
            return Err(format!("there are {COLLECT_VALUES_MAX} values, the most that are stored"));
        }
        if self.text_bytes + new.text_bytes() > most {
            return Err(too_long());
        }
        self.insert(name, node, new);
        Ok(())
    }

    /// Stores a value from the database.
    pub(super) fn load(&mut self, name: &str, node: &str, stored: (Value, u64, u64), now: Now) {
        let (value, time_ms, received_ms) = stored;
        // From the future: the wall clock was set back, the age is unknown.
        let age = now.wall_ms.checked_sub(received_ms).unwrap_or(AGE_UNKNOWN_MS);
        let made_ms = now.ago(age.min(AGE_UNKNOWN_MS));
        let entry =
            Entry { value, time_ms, received_ms, made_ms, dirty: false, logged_ms: Some(made_ms) };
        let has_room = self.text_bytes + entry.text_bytes() <= COLLECT_TEXTS_BYTES_MAX;
        if self.count < COLLECT_VALUES_MAX && has_room {
            self.insert(name, node, entry);
        }
    }

    fn insert(&mut self, name: &str, node: &str, entry: Entry) {
        let name: Arc<str> = match self.columns.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => name.into(),
        };
        let node: Arc<str> = node.into();
        if entry.dirty {
            self.dirty.push((Arc::clone(&name), Arc::clone(&node)));
        }
        self.text_bytes += entry.text_bytes();
        self.columns.entry(name).or_default().insert(node, entry);
        self.count += 1;
    }

    /// Forgets a name.
    pub(super) fn drop_name(&mut self, name: &str) {
        if let Some(column) = self.columns.remove(name) {
            self.count -= column.len();
            let bytes: usize = column.values().map(Entry::text_bytes).sum();
            self.text_bytes = self.text_bytes.saturating_sub(bytes);
        }
    }

    /// Returns the changes since the last call, for the database; values go into the history at
    /// most once in `step_ms`.
    pub(super) fn take_dirty(&mut self, step_ms: u64, now: Now) -> Vec<Unwritten> {
        let mut out = Vec::new();
        for (name, node) in std::mem::take(&mut self.dirty) {
            let entry = self.columns.get_mut(&name).and_then(|column| column.get_mut(&node));
            let Some(entry) = entry else { continue };
            // Long texts would leave no room for the past of all others.
            let historic = entry.text_bytes() <= COLLECT_PAST_TEXT_BYTES_MAX
                && entry.logged_ms.is_none_or(|at| now.since(at) >= step_ms);
            entry.dirty = false;
            if historic {
                entry.logged_ms = Some(now.mono_ms);
            }
            let (value, time_ms) = (entry.value.clone(), entry.time_ms);
            out.push(Unwritten {
                name,
                node,
                value,
                time_ms,
                received_ms: entry.received_ms,
                historic,
            });
        }
        out
    }

    /// Marks values to be written again after a failed write, with their state at that time.
    pub(super) fn give_back(&mut self, unwritten: &[Unwritten]) {
        for item in unwritten {
            let column = self.columns.get_mut(&item.name);
            if let Some(entry) = column.and_then(|column| column.get_mut(&item.node))
                && !entry.dirty
            {
                entry.dirty = true;
                if item.historic {
                    entry.logged_ms = None;
                }
                self.dirty.push((Arc::clone(&item.name), Arc::clone(&item.node)));
            }
        }
    }

    /// Returns one line for each name; `stale_after` gives a name's limit.
    pub(super) fn names(&self, now: Now, stale_after: impl Fn(&str) -> u64) -> Vec<DataName> {
        let line = |(name, column): (&Arc<str>, &Column)| {
            let limit = stale_after(name);
            let mut out = DataName {
                name: name.to_string(),
                newest_age_ms: u64::MAX,
                nodes: column.len() as u64,
                ..DataName::default()
            };
            for entry in column.values() {
                let age = now.since(entry.made_ms);
                out.oldest_age_ms = out.oldest_age_ms.max(age);
                out.newest_age_ms = out.newest_age_ms.min(age);
                *(if age > limit { &mut out.stale } else { &mut out.fresh }) += 1;
            }
            out
        };
        self.columns.iter().filter(|(_, column)| !column.is_empty()).map(line).collect()
    }
}

/// Returns the entry with its key, which is shared and not copied.
fn entry_of<'m, T>(map: &'m mut BTreeMap<Arc<str>, T>, key: &str) -> Option<(Arc<str>, &'m mut T)> {
    let key = Arc::clone(map.get_key_value(key)?.0);
    let value = map.get_mut(&key)?;
    Some((key, value))
}

/// Returns a value in the form of the API's answers.
pub(super) fn row(node: &str, entry: &Entry, stale_after_ms: u64, now: Now) -> Row {
    let age_ms = now.since(entry.made_ms);
    Row {
        node: node.to_owned(),
        value: entry.value.clone(),
        time_ms: entry.time_ms,
        received_ms: entry.received_ms,
        age_ms,
        stale: age_ms > stale_after_ms,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const T0: Now = Now { wall_ms: 1_000_000, mono_ms: 50 };

    fn later(now: Now, ms: u64) -> Now {
        let mono_ms = now.mono_ms + i64::try_from(ms).unwrap();
        Now { wall_ms: now.wall_ms + ms, mono_ms }
    }

    fn put(latest: &mut Latest, key: (&str, &str), number: f64, age_ms: u64, now: Now) {
        latest.put(key, Value::Number(number), (None, age_ms), now).unwrap();
    }

    #[test]
    fn the_newest_value_counts_whatever_comes_last() {
        let mut latest = Latest::default();
        put(&mut latest, ("a", "n1"), 1.0, 10, T0);
        put(&mut latest, ("a", "n1"), 2.0, 5000, later(T0, 1000));
        assert_eq!(latest.get("a", "n1").unwrap().value, Value::Number(1.0));
        put(&mut latest, ("a", "n1"), 3.0, 0, later(T0, 1000));
        let row = row("n1", latest.get("a", "n1").unwrap(), 500, later(T0, 1600));
        assert_eq!((row.value, row.age_ms, row.stale), (Value::Number(3.0), 600, true));
        assert_eq!(latest.len(), 1);
    }

    /// Goal: setting the wall clock changes no age.
    #[test]
    fn ages_do_not_follow_the_wall_clock() {
        let mut latest = Latest::default();
        put(&mut latest, ("a", "n1"), 1.0, 0, T0);
        for wall_ms in [0, 1_000_000, 1 << 50] {
            let now = Now { wall_ms, mono_ms: 150 };
            let row = row("n1", latest.get("a", "n1").unwrap(), 99, now);
            assert_eq!((row.age_ms, row.stale), (100, true));
        }
        // Over a restart only the wall clock is left; from the future is stale.
        latest.load("a", "n2", (Value::Number(1.0), 0, 999_000), T0);
        latest.load("a", "n3", (Value::Number(1.0), 0, 2_000_000), T0);
        let age = |node| row(node, latest.get("a", node).unwrap(), 5000, T0);
        assert_eq!((age("n2").age_ms, age("n2").stale), (1000, false));
        assert!(age("n3").stale);
    }

    /// Goal: texts cannot use up the memory; removed texts free their room.
    #[test]
    fn texts_have_a_limit_together() {
        let mut latest = Latest { text_bytes: COLLECT_TEXTS_BYTES_MAX - 10, ..Latest::default() };
        let mut put =
            |name: &str, node: &str, value: Value| latest.put((name, node), value, (None, 0), T0);
        let text = || Value::Text("12345678".to_owned());
        put("a", "n1", text()).unwrap();
        put("a", "n1", text()).unwrap();
        assert!(put("b", "n2", text()).unwrap_err().contains("bytes of text"));
        put("a", "n1", Value::Number(1.0)).unwrap();
        put("b", "n2", text()).unwrap();
        assert!(put("a", "n1", text()).is_err());
        latest.drop_name("b");
        assert_eq!((latest.text_bytes, latest.len()), (COLLECT_TEXTS_BYTES_MAX - 10, 1));
    }

    #[test]
    fn long_texts_have_no_past() {
        let mut latest = Latest::default();
        for (node, bytes) in [("n1", COLLECT_PAST_TEXT_BYTES_MAX), ("n2", 1025)] {
            let text = Value::Text("x".repeat(bytes));
            latest.put(("a", node), text, (None, 0), T0).unwrap();
        }
        let past: Vec<bool> = latest.take_dirty(0, T0).iter().map(|item| item.historic).collect();
        assert_eq!(past, [true, false]);
    }

    #[test]
    fn the_database_gets_each_change_once_and_again_after_a_failure() {
        let mut latest = Latest::default();
        put(&mut latest, ("a", "n1"), 1.0, 0, T0);
        put(&mut latest, ("a", "n1"), 2.0, 0, T0);
        put(&mut latest, ("a", "n2"), 3.0, 0, T0);
        let first = latest.take_dirty(60_000, T0);
        assert_eq!(first.len(), 2);
        assert!(first[0].historic && first[0].value == Value::Number(2.0));
        assert!(latest.take_dirty(60_000, T0).is_empty());
        put(&mut latest, ("a", "n1"), 4.0, 0, later(T0, 1));
        assert!(!latest.take_dirty(60_000, later(T0, 1))[0].historic);
        latest.give_back(&first);
        let again = latest.take_dirty(60_000, later(T0, 2));
        assert_eq!(again.len(), 2);
        assert!(again[0].historic && again[0].value == Value::Number(4.0));
        latest.drop_name("a");
        assert_eq!((latest.len(), latest.names(T0, |_| 0).len()), (0, 0));
    }
}
