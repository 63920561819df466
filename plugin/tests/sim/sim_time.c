/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_time.c - virtual time, threads as fibers, locks and memory; see sim.h. */

#include "sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#define FIBERS 12
#define STACK (256u << 10)
#define NS_PER_S 1000000000ull
#define TICK_NS 40 /* to look at the clock takes that long */

struct fiber {
	ucontext_t context;
	void *stack;
	void *(*run)(void *);
	void *arg;
	void *wait_on; /* a lock or condition, or NULL */
	uint64_t wake;
	uint64_t born;
	bool polls, alive, woken;
};

static struct fiber fibers[FIBERS];
static struct fiber *current; /* NULL: the campaign */
static ucontext_t campaign;
static uint64_t births;
static uint64_t state[2];
static char failure[512];

struct sim_params sim;
struct sim_counts sim_counts;
uint64_t sim_clock;
int64_t sim_wall_offset;
bool sim_is_quiet, sim_reborn, sim_in_list, sim_enable_wanted;

/* ---- random numbers: xorshift128+ */

static uint64_t _random(void)
{
	uint64_t a = state[0], b = state[1];

	state[0] = b;
	a ^= a << 23;
	state[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
	return state[1] + b;
}

extern uint32_t sim_random(uint32_t below)
{
	return below ? (uint32_t) ((_random() >> 11) % below) : 0;
}

static uint64_t _split(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* ---- what is said */

extern void sim_fail(const char *format, ...)
{
	va_list ap;
	int len;

	if (failure[0])
		return;
	len = snprintf(failure, sizeof(failure), "at %.6f s: ",
		       (double) sim_clock / 1e9);
	va_start(ap, format);
	(void) vsnprintf(failure + len, sizeof(failure) - (size_t) len, format,
			 ap);
	va_end(ap);
	sim_trace("FAILED %s", failure);
}

extern const char *sim_failure(void)
{
	return failure[0] ? failure : NULL;
}

static void _say(const char *format, va_list ap)
{
	fprintf(stderr, "%12.6f %td ", (double) sim_clock / 1e9,
		current ? current - fibers : -1);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
}

extern void sim_trace(const char *format, ...)
{
	va_list ap;

	if (!sim.log)
		return;
	va_start(ap, format);
	_say(format, ap);
	va_end(ap);
}

/* ---- fibers */

static void _entry(void)
{
	(void) current->run(current->arg);
	current->alive = false;
	sim_wake_on(current);
	(void) swapcontext(&current->context, &campaign);
}

static void _yield(uint64_t wake)
{
	struct fiber *f = current;

	f->wake = wake;
	(void) swapcontext(&f->context, &campaign);
}

static struct fiber *_spawn(void *(*run)(void *), void *arg)
{
	struct fiber *f = fibers;

	while (f < fibers + FIBERS && f->alive)
		f++;
	if (f == fibers + FIBERS)
		abort();
	if (!f->stack)
		f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void) getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK;
	f->context.uc_link = NULL;
	makecontext(&f->context, _entry, 0);
	f->run = run;
	f->arg = arg;
	f->wait_on = NULL;
	f->polls = false;
	f->alive = true;
	f->wake = sim_clock;
	f->born = ++births;
	return f;
}

extern void sim_spawn(void *(*run)(void *))
{
	(void) _spawn(run, NULL);
}

extern bool sim_in_fiber(void)
{
	return current;
}

static struct fiber *_first(void)
{
	struct fiber *first = NULL;

	for (struct fiber *f = fibers; f < fibers + FIBERS; f++) {
		if (f->alive && (!first || f->wake < first->wake))
			first = f;
	}
	return first;
}

extern uint64_t sim_next(void)
{
	const struct fiber *f = _first();

	return f ? f->wake : SIM_FOREVER;
}

extern void sim_run(uint64_t until)
{
	struct fiber *f = _first();

	if (!f || f->wake > until) {
		if (sim_clock < until)
			sim_clock = until;
		return;
	}
	if (sim_clock < f->wake)
		sim_clock = f->wake;
	current = f;
	(void) swapcontext(&campaign, &f->context);
	current = NULL;
	sim_check_slice();
	if (!sim_reborn)
		return;
	sim_reborn = false;
	sim_time_reset();
	sim_io_reset();
	sim_disk_reset(false);
	sim_ctld_boot();
}

extern void sim_sleep(uint64_t ns)
{
	_yield(sim_clock + ns);
}

/* RET true if woken before then */
static bool _wait_on(void *what, uint64_t until)
{
	current->wait_on = what;
	current->woken = false;
	_yield(until);
	current->wait_on = NULL;
	return current->woken;
}

extern void sim_wait_on(void *what, uint64_t until)
{
	(void) _wait_on(what, until);
}

static void _wake(struct fiber *f)
{
	f->wait_on = NULL;
	f->woken = true;
	f->wake = sim_clock;
}

extern void sim_wake_on(void *what)
{
	for (struct fiber *f = fibers; f < fibers + FIBERS; f++) {
		if (f->alive && f->wait_on == what)
			_wake(f);
	}
}

extern void sim_wake_pollers(void)
{
	for (struct fiber *f = fibers; f < fibers + FIBERS; f++) {
		if (f->alive && f->polls)
			f->wake = sim_clock;
	}
}

extern uint64_t sim_wait_io(uint64_t until)
{
	current->polls = true;
	_yield(until);
	current->polls = false;
	return sim_clock;
}

extern void sim_time_reset(void)
{
	for (struct fiber *f = fibers; f < fibers + FIBERS; f++)
		f->alive = false;
}

extern uint64_t sim_now(void)
{
	return sim_clock;
}

extern int64_t sim_wall(void)
{
	return (int64_t) (SIM_EPOCH + sim_clock / NS_PER_S) + sim_wall_offset;
}

/* ---- instead of the C library's */

extern int sim_clock_gettime(clockid_t id, struct timespec *ts)
{
	sim_clock += TICK_NS;
	ts->tv_sec = (time_t) (sim_clock / NS_PER_S);
	ts->tv_nsec = (long) (sim_clock % NS_PER_S);
	if (id == CLOCK_REALTIME)
		ts->tv_sec = (time_t) sim_wall();
	return 0;
}

extern time_t sim_time(time_t *out)
{
	if (out)
		*out = (time_t) sim_wall();
	return (time_t) sim_wall();
}

extern int sim_usleep(useconds_t us)
{
	sim_sleep(us * 1000ull);
	return 0;
}

extern ssize_t sim_getrandom(void *data, size_t size, unsigned int flags)
{
	(void) flags;
	for (size_t i = 0; i < size; i++)
		((uint8_t *) data)[i] = (uint8_t) sim_random(256);
	return (ssize_t) size;
}

extern int sim_get_nprocs(void)
{
	return (int) sim.processors;
}

extern pid_t sim_getpid(void)
{
	return (pid_t) (1000 + sim.seed % 1000);
}

extern int sim_prctl(int option, ...)
{
	(void) option;
	return 0;
}

extern int sim_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			      void *(*run)(void *), void *arg)
{
	(void) attr;
	*id = (pthread_t) _spawn(run, arg)->born;
	return 0;
}

extern int sim_pthread_clockjoin_np(pthread_t id, void **out, clockid_t clock,
				    const struct timespec *until)
{
	uint64_t at = (uint64_t) until->tv_sec * NS_PER_S + (uint64_t) until->tv_nsec;

	(void) out;
	(void) clock;
	for (struct fiber *f = fibers; f < fibers + FIBERS; f++) {
		while (f->alive && f->born == (uint64_t) id) {
			if (sim_clock >= at)
				return ETIMEDOUT;
			(void) _wait_on(f, at);
		}
	}
	return 0;
}

extern int sim_pthread_detach(pthread_t id)
{
	(void) id;
	return 0;
}

extern pthread_t sim_pthread_self(void)
{
	return (pthread_t) (current ? current->born : 0);
}

extern pid_t sim_gettid(void)
{
	return (pid_t) sim_pthread_self();
}

/* ---- locks: 0 is free, in every kind of initializer */

struct lock {
	uint32_t owner;
	uint32_t readers;
};

/* A thread may lose the processor anywhere; here that matters. The checks between two turns are of
 * no thread. */
static void _preempt(void)
{
	if (current && !sim_in_list && !sim_random(16))
		sim_sleep(sim_random(20000));
}

static bool _take(pthread_mutex_t *mutex, uint64_t until)
{
	struct lock *l = (struct lock *) mutex;

	_preempt();
	while (l->owner) {
		if (sim_clock >= until)
			return false;
		if (sim_in_list)
			sim_fail("a list of Slurm's stays locked for a lock");
		(void) _wait_on(l, until);
	}
	l->owner = (uint32_t) (current - fibers) + 1;
	return true;
}

extern int sim_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	return _take(mutex, SIM_FOREVER) ? 0 : EINVAL;
}

extern int sim_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t id,
				       const struct timespec *until)
{
	(void) id;
	return _take(mutex, (uint64_t) until->tv_sec * NS_PER_S +
			    (uint64_t) until->tv_nsec) ? 0 : ETIMEDOUT;
}

extern int sim_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	struct lock *l = (struct lock *) mutex;

	if (l->owner)
		return EBUSY;
	l->owner = (uint32_t) (current - fibers) + 1;
	return 0;
}

extern int sim_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct lock *l = (struct lock *) mutex;

	if (l->owner != (uint32_t) (current - fibers) + 1)
		sim_fail("a mutex is given back by somebody else");
	l->owner = 0;
	sim_wake_on(l);
	return 0;
}

extern int sim_pthread_cond_clockwait(pthread_cond_t *cond,
				      pthread_mutex_t *mutex, clockid_t id,
				      const struct timespec *until)
{
	uint64_t at = (uint64_t) until->tv_sec * NS_PER_S +
		      (uint64_t) until->tv_nsec;
	bool woken;

	(void) id;
	(void) sim_pthread_mutex_unlock(mutex);
	woken = _wait_on(cond, at);
	(void) sim_pthread_mutex_lock(mutex);
	return woken ? 0 : ETIMEDOUT;
}

extern int sim_pthread_cond_signal(pthread_cond_t *cond)
{
	sim_wake_on(cond);
	return 0;
}

/* slurmctld's, of which there is one: given back by a crash. */
static struct lock big;

extern int sim_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	(void) lock;
	_preempt();
	while (big.owner || big.readers)
		(void) _wait_on(&big, SIM_FOREVER);
	big.owner = 1;
	return 0;
}

extern int sim_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	(void) lock;
	_preempt();
	while (big.owner)
		(void) _wait_on(&big, SIM_FOREVER);
	big.readers++;
	return 0;
}

extern int sim_pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	(void) lock;
	if (big.owner)
		big.owner = 0;
	else
		big.readers--;
	sim_wake_on(&big);
	return 0;
}

/* ---- the overlay's memory: what a killed process has goes with it */

struct block {
	struct block *next, *before;
	size_t size;
	uint64_t pad;
};

static struct block heap = { .next = &heap, .before = &heap };

extern void *sim_malloc(size_t size)
{
	struct block *b = malloc(sizeof(*b) + size);

	if (!b)
		abort();
	b->size = size;
	b->next = heap.next;
	b->before = &heap;
	heap.next->before = b;
	heap.next = b;
	return b + 1;
}

extern void sim_free(void *p)
{
	struct block *b = (struct block *) p - 1;

	if (!p)
		return;
	b->next->before = b->before;
	b->before->next = b->next;
	free(b);
}

extern void *sim_calloc(size_t count, size_t size)
{
	return memset(sim_malloc(count * size), 0, count * size);
}

extern void *sim_realloc(void *p, size_t size)
{
	struct block *b = (struct block *) p - 1;
	void *fresh = sim_malloc(size);

	if (p)
		memcpy(fresh, p, b->size < size ? b->size : size);
	sim_free(p);
	return fresh;
}

extern char *sim_strdup(const char *text)
{
	return strcpy(sim_malloc(strlen(text) + 1), text);
}

extern void sim_heap_reset(void)
{
	while (heap.next != &heap)
		sim_free(heap.next + 1);
	memset(&big, 0, sizeof(big));
}

/* ---- Slurm's log */

extern void sim_error(const char *format, ...)
{
	va_list ap;

	if (!sim.log)
		return;
	va_start(ap, format);
	_say(format, ap);
	va_end(ap);
}

extern void sim_log_var(int level, const char *format, ...)
{
	va_list ap;

	(void) level;
	if (!sim.log)
		return;
	va_start(ap, format);
	_say(format, ap);
	va_end(ap);
}

extern int sim_get_log_level(void)
{
	return sim.log ? 6 : 0;
}

/* Of a CHECK in ctld.c. */
extern void sim_exit(int code)
{
	sim_fail("a CHECK of slurmctld in small failed (%d)", code);
	if (current)
		_yield(SIM_FOREVER);
	abort();
}

extern void sim_begin(const struct sim_params *params)
{
	uint64_t seed = params->seed;

	sim = *params;
	state[0] = _split(&seed);
	state[1] = _split(&seed);
	sim_clock = NS_PER_S; /* 0 means never to some */
	sim_wall_offset = 0;
	sim_is_quiet = sim_reborn = sim_in_list = sim_enable_wanted = false;
	births = 0;
	failure[0] = '\0';
	memset(&sim_counts, 0, sizeof(sim_counts));
	sim_time_reset();
	sim_heap_reset();
	sim_io_begin();
	sim_disk_begin();
	sim_check_begin();
	sim_ctld_begin();
}

extern void sim_tell(bool quiet)
{
	sim_is_quiet |= quiet;
	sim_enable_wanted |= !quiet;
}
