/* SPDX-License-Identifier: GPL-2.0-or-later */
/* thread.c - starting and ending a thread of the overlay. */

#include "slurm_api.h"

#include <signal.h>
#include <time.h>

#include "thread.h"

#define JOIN_S 5 /* longest wait for a thread to end */

extern int thread_start(struct thread *thread, void *(*run)(void *))
{
	sigset_t all, old;
	int err;

	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread->id, NULL, run, NULL);
	(void) pthread_sigmask(SIG_SETMASK, &old, NULL);
	thread->started = !err;
	return err;
}

extern bool thread_join(struct thread *thread)
{
	struct timespec until;

	(void) clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += JOIN_S;
	if (pthread_clockjoin_np(thread->id, NULL, CLOCK_MONOTONIC, &until)) {
		(void) pthread_detach(thread->id);
		error("phalanx: %s did not end within %d s", thread->name, JOIN_S);
		return false;
	}
	thread->started = false;
	return true;
}
