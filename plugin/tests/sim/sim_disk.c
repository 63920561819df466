/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_disk.c - StateSaveLocation in memory: slow, failing, and without what was
 * not synced where the machine goes down; see sim.h. */

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define INODES 8
#define NAMES 4
#define FDS 8
#define FD_FILE 3000
#define FD_DIR 3999
#define FD_EVENT 2000

extern ssize_t sim_event_write(const void *data);
extern ssize_t sim_event_read(void *data);

struct bytes {
	uint8_t *data;
	size_t len, cap;
};

struct inode {
	uint64_t number; /* 0: free */
	uint64_t changed;
	struct bytes now, synced;
};

/* Names and their inodes, or -1; the second survives the machine. */
static const char *const names[NAMES] = {
	"phalanx_order", "phalanx_order.new", "job_state", "phalanx_dump",
};
static int dir[NAMES], synced_dir[NAMES];
static struct inode inodes[INODES];
static struct { int inode; size_t at; } fds[FDS];
static uint64_t numbers;

static int _name(const char *path)
{
	const char *slash = strrchr(path, '/');

	path = slash ? slash + 1 : path;
	for (int i = 0; i < NAMES; i++) {
		if (!strcmp(names[i], path))
			return i;
	}
	return -1;
}

static void _copy(struct bytes *to, const struct bytes *from)
{
	if (to->cap < from->len) {
		to->cap = 2 * from->len;
		to->data = realloc(to->data, to->cap);
		if (!to->data)
			abort();
	}
	if (from->len)
		memcpy(to->data, from->data, from->len);
	to->len = from->len;
}

static bool _used(int inode)
{
	for (int i = 0; i < NAMES; i++) {
		if (dir[i] == inode || synced_dir[i] == inode)
			return true;
	}
	for (int i = 0; i < FDS; i++) {
		if (fds[i].inode == inode)
			return true;
	}
	return false;
}

static int _new_inode(void)
{
	for (int i = 0; i < INODES; i++) {
		if (_used(i))
			continue;
		inodes[i].number = ++numbers;
		inodes[i].changed = sim_clock;
		inodes[i].now.len = inodes[i].synced.len = 0;
		return i;
	}
	abort();
}

/* The operation lasts; RET false, with errno, if it fails */
static bool _works(void)
{
	if (!sim_in_fiber())
		return true;
	if (!sim_is_quiet && sim.disk_us)
		sim_sleep(sim_random(sim.disk_us) * 1000ull);
	if (sim_is_quiet || sim_random(1000) >= sim.disk_fail)
		return true;
	errno = sim_random(2) ? ENOSPC : EIO;
	return false;
}

extern void sim_disk_begin(void)
{
	for (int i = 0; i < NAMES; i++)
		dir[i] = synced_dir[i] = -1;
	for (int i = 0; i < FDS; i++)
		fds[i].inode = -1;
	numbers = 0;
}

extern void sim_disk_reset(bool power)
{
	for (int i = 0; i < FDS; i++)
		fds[i].inode = -1;
	if (!power)
		return;
	memcpy(dir, synced_dir, sizeof(dir));
	for (int i = 0; i < INODES; i++)
		_copy(&inodes[i].now, &inodes[i].synced);
}

/* As slurmctld does it: written aside, synced, renamed. */
extern void sim_disk_touch(const char *name)
{
	int at = _name(name);

	dir[at] = -1;
	synced_dir[at] = -1;
	dir[at] = synced_dir[at] = _new_inode();
}

extern bool sim_disk_has(const char *name)
{
	return dir[_name(name)] >= 0;
}

extern void sim_disk_drop(const char *name)
{
	dir[_name(name)] = synced_dir[_name(name)] = -1;
}

extern bool sim_disk_owns(int fd)
{
	return fd == FD_DIR || (fd >= FD_FILE && fd < FD_FILE + FDS);
}

extern int sim_disk_close(int fd)
{
	if (fd != FD_DIR)
		fds[fd - FD_FILE].inode = -1;
	return 0;
}

/* ---- instead of the C library's */

extern int sim_open(const char *path, int flags, ...)
{
	int at = _name(path);

	if (!_works())
		return -1;
	if (flags & O_DIRECTORY)
		return FD_DIR;
	if (at < 0 || !strcmp(names[at], "phalanx_dump")) {
		errno = ENOENT;
		return -1;
	}
	if ((flags & O_CREAT) && (flags & O_EXCL) && dir[at] >= 0) {
		errno = EEXIST;
		return -1;
	}
	if (!(flags & O_CREAT) && dir[at] < 0) {
		errno = ENOENT;
		return -1;
	}
	for (int i = 0; i < FDS; i++) {
		if (fds[i].inode >= 0)
			continue;
		if (dir[at] < 0)
			dir[at] = _new_inode();
		fds[i].inode = dir[at];
		fds[i].at = 0;
		return FD_FILE + i;
	}
	errno = EMFILE;
	return -1;
}

extern ssize_t sim_write(int fd, const void *data, size_t len)
{
	struct bytes *b;

	if (fd == FD_EVENT)
		return sim_event_write(data);
	if (!_works())
		return -1;
	/* A part may be all that is taken. */
	if (len > 1 && !sim_is_quiet && !sim_random(8))
		len = 1 + sim_random((uint32_t) len - 1);
	b = &inodes[fds[fd - FD_FILE].inode].now;
	if (b->len + len > b->cap) {
		b->cap = 2 * (b->len + len);
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			abort();
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
	return (ssize_t) len;
}

extern ssize_t sim_read(int fd, void *data, size_t len)
{
	struct bytes *b;
	size_t left;

	if (fd == FD_EVENT)
		return sim_event_read(data);
	b = &inodes[fds[fd - FD_FILE].inode].now;
	left = b->len - fds[fd - FD_FILE].at;
	if (len > left)
		len = left;
	if (len)
		memcpy(data, b->data + fds[fd - FD_FILE].at, len);
	fds[fd - FD_FILE].at += len;
	return (ssize_t) len;
}

extern int sim_fsync(int fd)
{
	if (!_works())
		return -1;
	if (fd == FD_DIR)
		memcpy(synced_dir, dir, sizeof(dir));
	else
		_copy(&inodes[fds[fd - FD_FILE].inode].synced,
		      &inodes[fds[fd - FD_FILE].inode].now);
	return 0;
}

extern int sim_rename(const char *from, const char *to)
{
	if (!_works())
		return -1;
	if (_name(from) < 0 || dir[_name(from)] < 0) {
		errno = ENOENT;
		return -1;
	}
	dir[_name(to)] = dir[_name(from)];
	dir[_name(from)] = -1;
	return 0;
}

extern int sim_unlink(const char *path)
{
	int at = _name(path);

	if (!_works())
		return -1;
	if (at < 0 || dir[at] < 0) {
		errno = ENOENT;
		return -1;
	}
	dir[at] = -1;
	return 0;
}

static void _stat(const struct inode *inode, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFREG | 0600;
	st->st_size = (off_t) inode->now.len;
	st->st_ino = inode->number;
	st->st_mtim.tv_sec = (time_t) (inode->changed / 1000000000ull);
	st->st_mtim.tv_nsec = (long) (inode->changed % 1000000000ull);
}

extern int sim_stat(const char *path, struct stat *st)
{
	int at = _name(path);

	if (at < 0 || dir[at] < 0) {
		errno = ENOENT;
		return -1;
	}
	_stat(&inodes[dir[at]], st);
	return 0;
}

extern int sim_fstat(int fd, struct stat *st)
{
	_stat(&inodes[fds[fd - FD_FILE].inode], st);
	return 0;
}
