/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dump.c - see dump.h. */

#include "dump.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "statefile.h"
#include "stats.h"

#define ASKS_KEPT 256u

struct kept {
	struct phx_outcome out;
	time_t at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept kept[ASKS_KEPT]; /* a ring, under the lock */
static uint64_t count;              /* of all, under the lock */

extern void dump_note(const struct phx_outcome *out)
{
	pthread_mutex_lock(&lock);
	kept[count++ % ASKS_KEPT] = (struct kept) { *out, time(NULL) };
	pthread_mutex_unlock(&lock);
}

static const char *_reason(uint16_t reason)
{
	static const char *const words[PHX_REASONS] = {
		[PHX_R_NONE] = "placed", [PHX_R_OFF] = "off",
		[PHX_R_SHADOW] = "shadow", [PHX_R_NO_FIT] = "no-fit",
		[PHX_R_UNSUPPORTED] = "unsupported",
		[PHX_R_NOT_SYNCED] = "not-synced",
		[PHX_R_NO_CHOICE] = "no-choice", [PHX_R_HELD] = "held",
		[PHX_R_LATE] = "late", [PHX_R_DOWN] = "down",
		[PHX_R_TIMEOUT] = "timeout", [PHX_R_INVALID] = "invalid",
		[PHX_R_SEND] = "send", [PHX_R_NARROW_FAILED] = "narrow-failed",
		[PHX_R_NARROW_LATER] = "narrow-later",
	};

	return reason < PHX_REASONS && words[reason] ? words[reason] : "other";
}

static void _counters(FILE *f)
{
	struct phx_stats s;

	stats_fill(&s);
#define LINE(name) fprintf(f, #name " %llu\n", (unsigned long long) s.name)
	LINE(asks);
	LINE(answers);
	LINE(narrowed);
	LINE(late_answers);
	LINE(resyncs);
	LINE(connects);
	LINE(breaker_opens);
	LINE(ejections);
	LINE(late_ns);
	LINE(held_calls);
	LINE(held_ns);
#undef LINE
	for (uint32_t i = PHX_B_LATE; i < PHX_BREACHES; i++)
		if (s.breaches[i])
			fprintf(f, "opened by %s: %llu\n", breaker_word(i),
				(unsigned long long) s.breaches[i]);
	for (uint16_t i = 1; i < PHX_REASONS; i++)
		if (s.reasons[i])
			fprintf(f, "reason %u %s %llu\n", i, _reason(i),
				(unsigned long long) s.reasons[i]);
}

static void _asks(FILE *f)
{
	static struct kept last[ASKS_KEPT]; /* of the thread */
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = count;
	memcpy(last, kept, sizeof(last));
	pthread_mutex_unlock(&lock);
	fputs("# unix_s job mode decision reason rc nodes ask_us narrowed_us full_us\n", f);
	for (uint64_t i = n > ASKS_KEPT ? n - ASKS_KEPT : 0; i < n; i++) {
		const struct phx_outcome *o = &last[i % ASKS_KEPT].out;

		fprintf(f, "%lld %u %s %llu %s %d %u %llu %llu %llu\n",
			(long long) last[i % ASKS_KEPT].at, o->job_id,
			o->mode == PHX_RUN_NOW ? "run_now" : "will_run",
			(unsigned long long) o->decision, _reason(o->reason),
			o->rc, o->count,
			(unsigned long long) o->ask_ns / 1000,
			(unsigned long long) o->narrowed_ns / 1000,
			(unsigned long long) o->full_ns / 1000);
	}
}

static void _dump(FILE *f, const void *head)
{
	fprintf(f, "%s\n", (const char *) head);
	_counters(f);
	_asks(f);
}

extern int dump_write(const char *head, char *path)
{
	return statefile_write(DUMP_FILE, _dump, head, path);
}
