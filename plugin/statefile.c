/* SPDX-License-Identifier: GPL-2.0-or-later */
/* statefile.c - see statefile.h. */

#include "statefile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_LEN 32u /* of a file, with what a new one has behind it */
#define FRESH ".new"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char place[PATH_MAX]; /* under the lock */

extern void statefile_place(const char *dir)
{
	pthread_mutex_lock(&lock);
	place[0] = '\0';
	if (dir && strlen(dir) < sizeof(place) - NAME_MAX_LEN)
		strcpy(place, dir);
	pthread_mutex_unlock(&lock);
}

/* OUT path - PATH_MAX bytes
 * RET false where there is no directory */
static bool _path(const char *name, const char *end, char *path)
{
	int len = 0;

	pthread_mutex_lock(&lock);
	if (*place)
		len = snprintf(path, PATH_MAX, "%s/%s%s", place, name, end);
	pthread_mutex_unlock(&lock);
	return len > 0 && len < PATH_MAX;
}

static FILE *_open(const char *path, int flags, const char *mode)
{
	int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
	int err = errno;

	if (!f && fd >= 0)
		(void) close(fd);
	errno = err;
	return f;
}

extern int statefile_write(const char *name, void (*fill)(FILE *f, const void *arg),
			   const void *arg, char *path)
{
	char fresh[PATH_MAX];
	int err = 0;
	FILE *f;

	path[0] = '\0';
	if (!_path(name, FRESH, fresh) || !_path(name, "", path))
		return ENOENT;
	(void) unlink(fresh);
	f = _open(fresh, O_WRONLY | O_CREAT | O_EXCL, "w");
	if (!f)
		return errno;
	fill(f, arg);
	if (ferror(f))
		err = EIO;
	if (fclose(f) && !err)
		err = errno;
	if (!err && rename(fresh, path))
		err = errno;
	if (err)
		(void) unlink(fresh);
	return err;
}

extern FILE *statefile_read(const char *name)
{
	char path[PATH_MAX];

	return _path(name, "", path) ? _open(path, O_RDONLY, "r") : NULL;
}
