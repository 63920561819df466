/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * meddle.c - LD_PRELOAD of the campaigns: clocks that jump, a state directory
 * that hangs, and an end inside the ledger's window.  What it does is read all
 * the time from a shared file, PHALANX_MEDDLE, which is a struct meddle.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LEDGER "phalanx_order"
#define STATE "/state/"

struct meddle {
	_Atomic int64_t jump_s;	  /* added to the clock of the day */
	_Atomic int32_t frozen;	  /* files below STATE wait */
	_Atomic int32_t kill_at;  /* so many steps on the ledger, then SIGKILL */
	_Atomic int32_t killed;	  /* times that it came to that */
};

static struct meddle none;
static struct meddle *it = &none;
static _Atomic int ledger_fd = -1;

__attribute__((constructor)) static void _open_it(void)
{
	const char *path = getenv("PHALANX_MEDDLE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*it), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void) close(fd);
	if (at != MAP_FAILED)
		it = at;
}

#define NEXT(name) \
	static __typeof__(name) *next; \
	if (!next) \
	next = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)

static void _nap(void)
{
	struct timespec ms20 = { .tv_nsec = 20000000 };

	(void) nanosleep(&ms20, NULL);
}

/* A step on a file of that name, or NULL: on an open file. */
static void _step(const char *path, bool of_ledger)
{
	while (atomic_load(&it->frozen) && (!path || strstr(path, STATE)))
		_nap();
	if (of_ledger && atomic_load(&it->kill_at) > 0 &&
	    atomic_fetch_sub(&it->kill_at, 1) == 1) {
		atomic_fetch_add(&it->killed, 1);
		(void) kill(getpid(), SIGKILL);
		(void) pause();
	}
}

/* ---- clocks */

extern time_t time(time_t *out)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

extern int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc;
	NEXT(clock_gettime);

	rc = next(clock, now);
	if (!rc && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += (time_t) atomic_load(&it->jump_s);
	return rc;
}

extern int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;

	(void) zone;
	(void) clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

/* The kernel's clock has not jumped. */
extern int pthread_cond_timedwait(pthread_cond_t *restrict cond,
				  pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict until)
{
	struct timespec real = *until;
	NEXT(pthread_cond_timedwait);

	real.tv_sec -= (time_t) atomic_load(&it->jump_s);
	return next(cond, mutex, &real);
}

/* ---- files */

static int _opened(const char *path, int fd)
{
	if (fd >= 0 && strstr(path, LEDGER))
		atomic_store(&ledger_fd, fd);
	return fd;
}

static mode_t _mode(int flags, va_list args)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

extern int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;
	NEXT(open);

	va_start(args, flags);
	mode = _mode(flags, args);
	va_end(args);
	_step(path, strstr(path, LEDGER));
	return _opened(path, next(path, flags, mode));
}

extern int open64(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;
	NEXT(open64);

	va_start(args, flags);
	mode = _mode(flags, args);
	va_end(args);
	_step(path, strstr(path, LEDGER));
	return _opened(path, next(path, flags, mode));
}

extern ssize_t write(int fd, const void *data, size_t len)
{
	NEXT(write);

	if (fd == atomic_load(&ledger_fd))
		_step(STATE, true);
	return next(fd, data, len);
}

extern int fsync(int fd)
{
	NEXT(fsync);

	_step(NULL, fd == atomic_load(&ledger_fd));
	return next(fd);
}

extern int close(int fd)
{
	int ledger = fd;
	NEXT(close);

	if (atomic_compare_exchange_strong(&ledger_fd, &ledger, -1))
		_step(STATE, true);
	return next(fd);
}

extern int rename(const char *from, const char *to)
{
	int rc;
	NEXT(rename);

	_step(from, strstr(from, LEDGER));
	rc = next(from, to);
	_step(to, strstr(to, LEDGER));
	return rc;
}

extern int unlink(const char *path)
{
	int rc;
	NEXT(unlink);

	_step(path, strstr(path, LEDGER));
	rc = next(path);
	return rc;
}
