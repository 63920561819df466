/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ledger.c - see ledger.h. */

#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fnv.h"
#include "grow.h"

#define MAGIC 0x3252444f584c4850ull /* "PHLXODR2" in memory */

struct file_head {
	uint64_t magic;
	uint64_t hash; /* of the entries */
	uint32_t count;
	uint32_t entry_size;
};

/* RET the position of the job's entry, or where it would be */
static uint32_t _position(const struct ledger *l, uint32_t job_id)
{
	uint32_t low = 0, high = l->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (l->entries[mid].job_id < job_id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

extern struct ledger_entry *ledger_find(const struct ledger *l, uint32_t job_id)
{
	uint32_t at = _position(l, job_id);

	if (at < l->count && l->entries[at].job_id == job_id)
		return &l->entries[at];
	return NULL;
}

static bool _reserve(struct ledger *l, uint32_t count)
{
	return count <= LEDGER_MAX && grow((void **) &l->entries, &l->cap,
					   count, sizeof(*l->entries));
}

extern struct ledger_entry *ledger_add(struct ledger *l, uint32_t job_id)
{
	uint32_t at = _position(l, job_id);
	struct ledger_entry *e;

	if (!_reserve(l, l->count + 1))
		return NULL;
	e = &l->entries[at];
	memmove(e + 1, e, (l->count - at) * sizeof(*e));
	*e = (struct ledger_entry) { .job_id = job_id, .state = LEDGER_OFF };
	l->count++;
	return e;
}

extern bool ledger_note(struct ledger_entry *e, uint32_t value)
{
	for (uint32_t i = 0; i < e->count; i++) {
		if (e->values[i] == value)
			return true;
	}
	if (e->count == LEDGER_VALUES)
		return false;
	e->values[e->count++] = value;
	return true;
}

extern bool ledger_is_ours(const struct ledger_entry *e, uint32_t value)
{
	if (value == e->base)
		return false;
	for (uint32_t i = 0; i < e->count; i++) {
		if (e->values[i] == value)
			return true;
	}
	return false;
}

extern bool ledger_prune(struct ledger *l, uint32_t saves)
{
	uint32_t kept = 0;
	bool found = false;

	for (uint32_t i = 0; i < l->count; i++) {
		struct ledger_entry *e = &l->entries[i];
		bool saved = saves - e->saves >= LEDGER_SAVES;

		if (e->state == LEDGER_OFF && saved && !e->recalc) {
			found = true;
			continue;
		}
		if (e->state == LEDGER_ON && saved && e->count > 1) {
			e->count = 1;
			e->values[0] = e->written;
			found = true;
		}
		l->entries[kept++] = *e;
	}
	l->count = kept;
	return found;
}

extern uint32_t ledger_count(const struct ledger *l, enum ledger_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->count; i++)
		n += l->entries[i].state == (uint32_t) state;
	return n;
}

extern bool ledger_copy(struct ledger *to, const struct ledger *from)
{
	if (!_reserve(to, from->count))
		return false;
	if (from->count)
		memcpy(to->entries, from->entries, from->count * sizeof(*to->entries));
	to->count = from->count;
	return true;
}

extern void ledger_free(struct ledger *l)
{
	free(l->entries);
	*l = (struct ledger) {0};
}

/* ---- the file */

static uint64_t _hash(const struct ledger *l)
{
	return fnv_bytes(FNV_OFFSET, l->entries, l->count * sizeof(*l->entries));
}

/* RET 0 or an errno value */
static int _write(int fd, const void *data, size_t len)
{
	const uint8_t *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		at += n;
		len -= (size_t) n;
	}
	return 0;
}

/* RET bytes read, less than `len` only at the end; -1 with errno */
static ssize_t _read(int fd, void *data, size_t len)
{
	uint8_t *at = data;
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, at + got, len - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		got += (size_t) n;
	}
	return (ssize_t) got;
}

/* Sync a directory: a rename is on disk when its directory is. RET 0 or an errno value */
static int _sync_dir(const char *path)
{
	char dir[PATH_MAX];
	char *slash;
	int fd, err = 0;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash)
		return 0;
	*slash = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	/* EINVAL: this file system has no such thing */
	if (fsync(fd) && errno != EINVAL)
		err = errno;
	(void) close(fd);
	return err;
}

static int _store_new(const struct ledger *l, const char *path)
{
	struct file_head head = { .magic = MAGIC, .hash = _hash(l),
				  .count = l->count,
				  .entry_size = sizeof(*l->entries) };
	int err, fd;

	(void) unlink(path); /* of an attempt that was cut off */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	err = _write(fd, &head, sizeof(head));
	if (!err)
		err = _write(fd, l->entries, l->count * sizeof(*l->entries));
	if (!err && fsync(fd))
		err = errno;
	if (close(fd) && !err)
		err = errno;
	return err;
}

extern int ledger_store(const struct ledger *l, const char *path)
{
	char new_path[PATH_MAX];
	int len, err;

	if (!l->count) {
		if (unlink(path) && errno != ENOENT)
			return errno;
		return 0;
	}
	len = snprintf(new_path, sizeof(new_path), "%s.new", path);
	if (len < 0 || (size_t) len >= sizeof(new_path))
		return ENAMETOOLONG;
	err = _store_new(l, new_path);
	if (!err && rename(new_path, path))
		err = errno;
	if (err) {
		(void) unlink(new_path);
		return err;
	}
	return _sync_dir(path);
}

static const char *_check_entries(struct ledger *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		struct ledger_entry *e = &l->entries[i];

		if (!e->job_id || (i && e->job_id <= e[-1].job_id))
			return "ascending job ids";
		if (e->count > LEDGER_VALUES)
			return "values within their maximum";
		if (e->job_id & LEDGER_TIME_MIN) {
			l->dropped++;
			continue;
		}
		e->state = LEDGER_LOADED;
		e->saves = 0;
		e->recalc = 0;
	}
	l->count -= l->dropped; /* the last ones: ids ascend */
	return NULL;
}

/* RET NULL, or what was expected. OUT err - the system's error, else unchanged */
static const char *_read_entries(struct ledger *l, int fd, off_t size, int *err)
{
	struct file_head head;
	ssize_t len, got = _read(fd, &head, sizeof(head));

	if (got < 0) {
		*err = errno;
		return NULL;
	}
	if (got != (ssize_t) sizeof(head) || head.magic != MAGIC)
		return "a ledger of this version";
	if (head.entry_size != sizeof(*l->entries) || head.count > LEDGER_MAX)
		return "entries of this version within their maximum";
	len = (ssize_t) (head.count * sizeof(*l->entries));
	if (size != (off_t) sizeof(head) + len)
		return "the length that its head says";
	if (!_reserve(l, head.count)) {
		*err = ENOMEM;
		return NULL;
	}
	got = _read(fd, l->entries, (size_t) len);
	if (got < 0) {
		*err = errno;
		return NULL;
	}
	if (got != len)
		return "to be read whole";
	l->count = head.count;
	if (_hash(l) != head.hash)
		return "entries that fit their hash";
	return _check_entries(l);
}

extern int ledger_load(struct ledger *l, const char *path, const char **why)
{
	struct stat st;
	int err = 0;
	/* O_NONBLOCK: a pipe must not keep us waiting */
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	*why = NULL;
	l->count = l->dropped = 0;
	if (fd < 0)
		return errno;
	if (fstat(fd, &st)) {
		err = errno;
	} else if (!S_ISREG(st.st_mode)) {
		*why = "a regular file";
		err = EINVAL;
	} else if ((st.st_uid && st.st_uid != geteuid()) ||
		   st.st_mode & (S_IWGRP | S_IWOTH)) {
		*why = "to be written by slurmctld's user only";
		err = EPERM;
	} else {
		*why = _read_entries(l, fd, st.st_size, &err);
		if (*why)
			err = EINVAL;
	}
	(void) close(fd);
	if (err)
		l->count = 0;
	return err;
}
