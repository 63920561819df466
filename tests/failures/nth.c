/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Preloaded: the nth call fails that opens, writes, syncs, cuts, renames,
 * removes or makes something below $FAIL_DIR.
 *
 * The file $FAIL_FILE is shared with who tests: what shall fail, and what was
 * seen. A write that fails may have written the half, as on a disk that is full.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct control {
	_Atomic int64_t left;   /* calls until one fails, 0: none does */
	_Atomic int64_t seen;   /* calls below the directory */
	_Atomic int64_t failed; /* of these */
	_Atomic int64_t error;  /* errno */
	char what[104];         /* the last that failed */
};

static struct control none, *control = &none;
static char dir[PATH_MAX];

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("FAIL_FILE"), *below = getenv("FAIL_DIR");
	int (*real)(const char *, int, ...) =
		(int (*)(const char *, int, ...)) dlsym(RTLD_NEXT, "open");
	int fd = path && below ? real(path, O_RDWR | O_CLOEXEC) : -1;
	void *shared;

	if (fd < 0)
		return;
	shared = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	close(fd);
	if (shared == MAP_FAILED)
		return;
	snprintf(dir, sizeof(dir), "%s", below);
	control = shared;
}

static int is_below(const char *path)
{
	return dir[0] && path && !strncmp(path, dir, strlen(dir));
}

static int is_below_fd(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	if (!dir[0])
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return 0;
	path[n] = 0;
	return is_below(path);
}

/* RET whether this call below the directory fails; errno then */
static int fails(const char *what)
{
	control->seen++;
	if (control->left <= 0 || --control->left != 0)
		return 0;
	control->failed++;
	snprintf(control->what, sizeof(control->what), "%s", what);
	errno = (int) control->error;
	return 1;
}

#define REAL(name, type) ((type) dlsym(RTLD_NEXT, #name))

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list list; \
		mode_t mode; \
		va_start(list, flags); \
		mode = va_arg(list, mode_t); \
		va_end(list); \
		if (is_below(path) && fails(#name)) \
			return -1; \
		return REAL(name, int (*)(const char *, int, ...))(path, flags, \
								   mode); \
	}
OPEN(open)
OPEN(open64)

#define PWRITE(name, off) \
	ssize_t name(int fd, const void *data, size_t len, off at) \
	{ \
		ssize_t (*real)(int, const void *, size_t, off) = \
			REAL(name, ssize_t (*)(int, const void *, size_t, off)); \
		if (is_below_fd(fd) && fails(#name)) { \
			int error = errno; \
			(void) !real(fd, data, len / 2, at); \
			errno = error; \
			return -1; \
		} \
		return real(fd, data, len, at); \
	}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t (*real)(int, const void *, size_t) =
		REAL(write, ssize_t (*)(int, const void *, size_t));

	if (is_below_fd(fd) && fails("write")) {
		int error = errno;

		(void) !real(fd, data, len / 2);
		errno = error;
		return -1;
	}
	return real(fd, data, len);
}

#define ON_FD(name, params, args) \
	int name params \
	{ \
		if (is_below_fd(fd) && fails(#name)) \
			return -1; \
		return REAL(name, int (*) params) args; \
	}
ON_FD(fsync, (int fd), (fd))
ON_FD(fdatasync, (int fd), (fd))
ON_FD(ftruncate, (int fd, off_t len), (fd, len))
ON_FD(ftruncate64, (int fd, off64_t len), (fd, len))

#define ON_PATH(name, params, args) \
	int name params \
	{ \
		if (is_below(path) && fails(#name)) \
			return -1; \
		return REAL(name, int (*) params) args; \
	}
ON_PATH(unlink, (const char *path), (path))
ON_PATH(rename, (const char *path, const char *to), (path, to))
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
