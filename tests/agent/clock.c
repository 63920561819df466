/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Preloaded: a wall clock that is off by the seconds in the file $CLOCK_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long offset(void)
{
	static int fd = -2;
	char text[32] = "";

	if (fd == -2) {
		const char *path = getenv("CLOCK_FILE");
		fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	}
	if (fd < 0 || pread(fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	int done;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	done = real(clock, now);
	if (!done && clock == CLOCK_REALTIME)
		now->tv_sec += offset();
	return done;
}
