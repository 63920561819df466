/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nth.c - see nth.h.  Linked with --wrap for each function. */

#include "nth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic int left, code;
static const char *_Atomic what = "none";

extern void nth_fail(int n, int error)
{
	atomic_store(&code, error);
	atomic_store(&what, "none");
	atomic_store(&left, n);
}

extern bool nth_failed(void)
{
	return atomic_load(&left) < 0;
}

extern const char *nth_what(void)
{
	return atomic_load(&what);
}

/* Counts down to 0, then stays at -1.  RET whether this call fails */
static bool _fails(const char *name)
{
	int n = atomic_load(&left);

	do {
		if (n <= 0)
			return false;
	} while (!atomic_compare_exchange_weak(&left, &n, n > 1 ? n - 1 : -1));
	if (n > 1)
		return false;
	atomic_store(&what, name);
	errno = atomic_load(&code);
	return true;
}

static enum nth_draws draws;

extern void nth_compare(enum nth_draws which)
{
	draws = which;
}

extern bool __real_witness_draw(uint64_t kind, uint32_t most, uint64_t now_ns);
extern bool __wrap_witness_draw(uint64_t kind, uint32_t most, uint64_t now_ns);
extern bool __wrap_witness_draw(uint64_t kind, uint32_t most, uint64_t now_ns)
{
	bool drawn = __real_witness_draw(kind, most, now_ns);

	return draws == DRAWS_REAL ? drawn : draws == DRAWS_ALL;
}

extern bool __wrap_witness_one_in(uint32_t parts);
extern bool __wrap_witness_one_in(uint32_t parts)
{
	(void) parts;
	return draws == DRAWS_ALL;
}

static const char *_Atomic stall;
static _Atomic int stalled;

extern void nth_stall(const char *name)
{
	atomic_store(&stall, name);
}

extern int nth_stalled(void)
{
	return atomic_load(&stalled);
}

static void _wait(const char *name)
{
	const char *of = atomic_load(&stall);

	if (!of || strcmp(of, name))
		return;
	atomic_fetch_add(&stalled, 1);
	while (atomic_load(&stall))
		usleep(1000);
	atomic_fetch_sub(&stalled, 1);
}

/* Of a file. */
#define WRAP_FILE(ret, failure, name, params, args) \
	extern ret __real_##name params; \
	extern ret __wrap_##name params; \
	ret __wrap_##name params \
	{ \
		_wait(#name); \
		return _fails(#name) ? (failure) : __real_##name args; \
	}

#define WRAP(ret, failure, name, params, args) \
	extern ret __real_##name params; \
	extern ret __wrap_##name params; \
	ret __wrap_##name params \
	{ \
		return _fails(#name) ? (failure) : __real_##name args; \
	}

WRAP(void *, NULL, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, NULL, realloc, (void *p, size_t size), (p, size))
WRAP(char *, NULL, strdup, (const char *text), (text))
WRAP_FILE(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode))
WRAP(ssize_t, -1, write, (int fd, const void *p, size_t len), (fd, p, len))
WRAP(ssize_t, -1, read, (int fd, void *p, size_t len), (fd, p, len))
WRAP_FILE(int, -1, fsync, (int fd), (fd))
WRAP_FILE(int, -1, rename, (const char *from, const char *to), (from, to))
WRAP_FILE(int, -1, unlink, (const char *path), (path))
WRAP_FILE(int, -1, fstat, (int fd, struct stat *st), (fd, st))
WRAP_FILE(int, -1, stat, (const char *path, struct stat *st), (path, st))
WRAP(int, -1, socket, (int domain, int type, int proto), (domain, type, proto))
WRAP(int, -1, connect, (int fd, const struct sockaddr *to, socklen_t len),
     (fd, to, len))
WRAP(ssize_t, -1, send, (int fd, const void *p, size_t len, int flags),
     (fd, p, len, flags))
WRAP(ssize_t, -1, recv, (int fd, void *p, size_t len, int flags),
     (fd, p, len, flags))
WRAP(int, -1, eventfd, (unsigned int value, int flags), (value, flags))
WRAP(int, atomic_load(&code), pthread_create,
     (pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
      void *arg), (id, attr, run, arg))

extern int __real_open(const char *path, int flags, ...);
extern int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	_wait("open");
	if (_fails("open"))
		return -1;
	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	return __real_open(path, flags, mode);
}
