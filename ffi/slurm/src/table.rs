// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of one load: records and their strings.

use std::marker::PhantomData;

use super::SlurmError;
use super::values::Limit;
use crate::shim;

/// Version of a table: pass the one of the last load to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateTime(pub(super) i64);

impl UpdateTime {
    /// Version that is older than any table: a load with it always returns one.
    pub const NEVER: Self = Self(0);
}

/// Result of a load.
#[derive(Debug)]
pub enum Load<T> {
    /// The table has not changed since the time given.
    Unchanged,
    /// The whole table.
    New(T),
}

mod sealed {
    /// Keeps [`Record`](super::Record) to this crate, which knows what the shim fills in.
    pub trait Sealed {}
    impl Sealed for crate::shim::pls_job {}
    impl Sealed for crate::shim::pls_node {}
    impl Sealed for crate::shim::pls_partition {}
    impl Sealed for crate::shim::pls_reservation {}
    impl Sealed for crate::shim::pls_license {}
    impl Sealed for crate::shim::pls_conf {}
}

/// A kind of record that a [`Table`] can have; for code that is generic over
/// tables.
///
/// # Safety
/// The shim's load functions that a table of `Self` comes from fill
/// `pls_load.records` with structs of exactly this type.
pub unsafe trait Record: sealed::Sealed + std::fmt::Debug {}

/// A record and the strings of its table.
#[derive(Debug)]
pub struct Row<'a, R> {
    /// The record as the shim wrote it, Slurm's sentinels included.
    pub(super) raw: &'a R,
    arena: &'a str,
}

impl<R> Clone for Row<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Row<'_, R> {}

impl<'a, R> Row<'a, R> {
    /// Returns the record as the shim wrote it, Slurm's sentinels included.
    pub fn raw(&self) -> &'a R {
        self.raw
    }

    /// Returns a string of the record. `None` for one that Slurm did not send or sent empty, which
    /// mean the same everywhere. Bytes that were not UTF-8 are `?`.
    pub fn text(&self, at: shim::pls_str) -> Option<&'a str> {
        if at.off == shim::PLS_ABSENT {
            return None;
        }
        let start = at.off as usize;
        let text = self.arena.get(start..start + at.len as usize)?;
        (!text.is_empty()).then_some(text)
    }
}

/// Records of one kind, and the one block of memory that holds their strings.
///
/// Made by C and freed on drop. Immutable, so it may be shared by threads.
pub struct Table<R: Record> {
    raw: shim::pls_load,
    records: PhantomData<R>,
}

// SAFETY: the table owns its memory and nothing else refers to it; freeing it
// needs no particular thread.
unsafe impl<R: Record + Send> Send for Table<R> {}
// SAFETY: shared access only reads.
unsafe impl<R: Record + Sync> Sync for Table<R> {}

impl<R: Record> Table<R> {
    /// Runs one load function of the shim.
    ///
    /// `load` must follow the shim's contract: on 0 the argument is a load of
    /// records of type `R` (see [`Record`]), else it is untouched.
    pub(super) fn load(
        attempt: &'static str,
        load: impl FnOnce(*mut shim::pls_load) -> i32,
    ) -> Result<Load<Self>, SlurmError> {
        let mut raw = shim::pls_load {
            records: std::ptr::null_mut(),
            count: 0,
            arena: std::ptr::null_mut(),
            arena_len: 0,
            memory_bytes: 0,
            last_update: 0,
        };
        match load(&raw mut raw) {
            0 => {
                let mut table = Self { raw, records: PhantomData };
                table.make_text();
                Ok(Load::New(table))
            }
            shim::PLS_UNCHANGED => Ok(Load::Unchanged),
            code => Err(SlurmError::call(attempt, code)),
        }
    }

    /// Makes the arena UTF-8 in place, so that rows can lend `&str`. Strings
    /// are separated by NULs, so no sequence spans two of them.
    fn make_text(&mut self) {
        if self.raw.arena.is_null() {
            return;
        }
        // SAFETY: the arena is `arena_len` initialised bytes that this table
        // owns, not null, and `&mut self` excludes other references.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(self.raw.arena.cast::<u8>(), len(self.raw.arena_len))
        };
        replace_invalid_utf8(bytes);
    }

    fn arena(&self) -> &str {
        if self.raw.arena.is_null() {
            return "";
        }
        // SAFETY: as in make_text(), shared; nothing writes after it.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.raw.arena.cast::<u8>(), len(self.raw.arena_len))
        };
        // SAFETY: make_text() left only valid UTF-8.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }

    fn records(&self) -> &[R] {
        if self.raw.records.is_null() {
            return &[];
        }
        // SAFETY: not null, allocated by C for `count` structs of type `R`
        // (promised by Record), all written, owned and never changed.
        unsafe { std::slice::from_raw_parts(self.raw.records.cast::<R>(), len(self.raw.count)) }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Whether the table has no records.
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    /// Returns the record at `index`.
    pub fn get(&self, index: usize) -> Option<Row<'_, R>> {
        self.records().get(index).map(|raw| Row { raw, arena: self.arena() })
    }

    /// Returns the records, in slurmctld's order.
    pub fn iter(&self) -> Rows<'_, R> {
        Rows { records: self.records().iter(), arena: self.arena() }
    }

    /// Returns the version of the table, for the next load.
    pub fn updated(&self) -> UpdateTime {
        UpdateTime(self.raw.last_update)
    }

    /// Returns the memory allocated for records and strings, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.raw.memory_bytes
    }
}

impl<R: Record> Drop for Table<R> {
    fn drop(&mut self) {
        // SAFETY: the load is this table's and is freed once; every borrow of
        // it ended before the drop.
        unsafe { shim::pls_free(&raw mut self.raw) };
    }
}

impl<R: Record> std::fmt::Debug for Table<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len())
            .field("updated", &self.updated())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

impl<'a, R: Record> IntoIterator for &'a Table<R> {
    type Item = Row<'a, R>;
    type IntoIter = Rows<'a, R>;

    fn into_iter(self) -> Rows<'a, R> {
        self.iter()
    }
}

/// Iterator over the rows of a table.
#[derive(Debug)]
pub struct Rows<'a, R> {
    records: std::slice::Iter<'a, R>,
    arena: &'a str,
}

impl<'a, R> Iterator for Rows<'a, R> {
    type Item = Row<'a, R>;

    fn next(&mut self) -> Option<Row<'a, R>> {
        self.records.next().map(|raw| Row { raw, arena: self.arena })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl<R> ExactSizeIterator for Rows<'_, R> {}

/// Converts a length that C gave. A length counts bytes or records in memory, so it fits.
fn len(from_c: u64) -> usize {
    usize::try_from(from_c).unwrap_or(usize::MAX)
}

/// Replaces every byte that is not of a valid UTF-8 sequence by `?`.
fn replace_invalid_utf8(bytes: &mut [u8]) {
    let mut start = 0;
    while let Err(error) = std::str::from_utf8(&bytes[start..]) {
        let bad = start + error.valid_up_to();
        let end = error.error_len().map_or(bytes.len(), |len| bad + len);
        bytes[bad..end].fill(b'?');
        start = end;
    }
}

/// Accessors that every kind of row has: strings, numbers, sentinels, times.
/// Each line is documented and names a field of the raw record.
macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident = $kind:ident $field:ident;)+) => {
        $($crate::table::accessors!(@ $kind $(#[$doc])* $name $field);)+
    };
    (@ text $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> Option<&'a str> {
            self.text(self.raw.$field)
        }
    };
    (@ u32 $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> u32 {
            self.raw.$field
        }
    };
    (@ u64 $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> u64 {
            self.raw.$field
        }
    };
    // `None` for the sentinels NO_VAL and INFINITE and for 0.
    (@ nonzero16 $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> Option<u16> {
            let value = $crate::values::limit16(self.raw.$field).value();
            value.filter(|value| *value != 0)
        }
    };
    (@ nonzero32 $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> Option<u32> {
            let value = $crate::values::limit32(self.raw.$field).value();
            value.filter(|value| *value != 0)
        }
    };
    // `None` for the sentinels only.
    (@ option32 $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> Option<u32> {
            $crate::values::limit32(self.raw.$field).value()
        }
    };
    (@ limit32 $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> $crate::values::Limit<u32> {
            $crate::values::limit32(self.raw.$field)
        }
    };
    (@ time $(#[$doc:meta])* $name:ident $field:ident) => {
        $(#[$doc])*
        pub fn $name(&self) -> Option<i64> {
            Some(self.raw.$field).filter(|time| *time != 0)
        }
    };
}
pub(super) use accessors;

const _: () = {
    // Rows must stay small: they are passed by value.
    assert!(size_of::<Row<'_, shim::pls_job>>() == 24);
    assert!(size_of::<Limit<u32>>() == 8);
};

#[cfg(test)]
mod tests {
    use super::replace_invalid_utf8;

    #[test]
    fn invalid_utf8_is_replaced_in_place() {
        for (raw, want) in [
            (&b"plain"[..], "plain"),
            ("\u{e9}t\u{e9}".as_bytes(), "\u{e9}t\u{e9}"),
            (b"a\xffb\0c", "a?b\0c"),
            // A sequence cut by the NUL between two strings.
            (b"a\xc3\0\xa9b", "a?\0?b"),
            (b"end\xe2\x82", "end??"),
            (b"\xf0\x9f\x98x\xff", "???x?"),
        ] {
            let mut bytes = raw.to_vec();
            replace_invalid_utf8(&mut bytes);
            assert_eq!(std::str::from_utf8(&bytes), Ok(want), "{raw:?}");
        }
    }
}
