/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * thread.h - a thread of the overlay inside slurmctld.
 */

#pragma once

#include <pthread.h>
#include <stdbool.h>

struct thread {
	const char *name; /* as messages say it */
	pthread_t id;
	bool started;
};

/* Starts it with all signals blocked: they are slurmctld's business. Returns
 * zero or an errno. */
extern int thread_start(struct thread *thread, void *(*run)(void *));

/* Waits some seconds for its end: it may wait for a lock that the caller
 * holds. False where it still runs; it is then detached and its data must
 * stay. */
extern bool thread_join(struct thread *thread);
