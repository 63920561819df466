/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ends.c - see ends.h. */

#include "slurm_api.h"

#include "ends.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "turn.h"
#include "pktbuf.h"
#include "stats.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Hash table with open addressing; the number of slots is a power of two, half of them free. Job id
 * 0 is none. */
static struct phx_end *slots;
static uint32_t slot_count, used;
static struct phx_end *changed; /* room for half as many */
static bool incomplete; /* memory ran out */
static bool uneven; /* components of a het job end apart */

static time_t told_update; /* last_job_update at the last comparison */
static time_t told_at;
static uint64_t told_in; /* the turn */

static uint32_t _home(uint32_t job_id)
{
	return (job_id * 2654435769u) & (slot_count - 1);
}

static struct phx_end *_find(uint32_t job_id)
{
	uint32_t i = _home(job_id);

	while (slots[i].job_id && slots[i].job_id != job_id)
		i = (i + 1) & (slot_count - 1);
	return &slots[i];
}

static bool _grow(void)
{
	uint32_t before = slot_count, count = before ? 2 * before : 1024;
	struct phx_end *old = slots, *new = calloc(count, sizeof(*new));
	struct phx_end *room = realloc(changed, count / 2 * sizeof(*room));

	if (room)
		changed = room;
	if (!new || !room) {
		free(new);
		return false;
	}
	slots = new;
	slot_count = count;
	for (uint32_t i = 0; i < before; i++) {
		if (old[i].job_id)
			*_find(old[i].job_id) = old[i];
	}
	free(old);
	return true;
}

extern void ends_clear(void)
{
	pthread_mutex_lock(&lock);
	if (slot_count)
		memset(slots, 0, slot_count * sizeof(*slots));
	used = 0;
	incomplete = false;
	told_at = 0;
	pthread_mutex_unlock(&lock);
}

static __typeof__(find_job_record) *_find_job_record(void)
{
	static __typeof__(find_job_record) *found;

	if (!found)
		*(void **) &found = dlsym(RTLD_DEFAULT, "find_job_record");
	return found;
}

/* RET the end of a component's leader, with which stock's future test ends it. */
static time_t _leader_end(const job_record_t *job_ptr)
{
	job_record_t *leader = NULL;

	if (job_ptr->het_job_id && _find_job_record())
		leader = _find_job_record()(job_ptr->het_job_id);
	return leader ? leader->end_time : job_ptr->end_time;
}

extern uint64_t ends_of(const job_record_t *job_ptr)
{
	return (uint64_t) MIN(job_ptr->end_time, _leader_end(job_ptr));
}

extern void ends_told(const job_record_t *job_ptr)
{
	uint32_t job_id = job_ptr->job_id;
	struct phx_end *slot;

	turn_over();
	pthread_mutex_lock(&lock);
	told_at = 0; /* its end may be set only now, in the same hold */
	if (!job_id || (2 * used >= slot_count && !_grow())) {
		incomplete = true;
	} else {
		slot = _find(job_id);
		used += !slot->job_id;
		*slot = (struct phx_end) {
			.job_id = job_id,
			.end_time = ends_of(job_ptr),
		};
	}
	pthread_mutex_unlock(&lock);
}

/* Remove a slot; those that follow move up, so that none is cut off from its home. */
static void _remove(struct phx_end *slot)
{
	uint32_t hole = (uint32_t) (slot - slots), i = hole;

	for (;;) {
		uint32_t home;

		i = (i + 1) & (slot_count - 1);
		if (!slots[i].job_id)
			break;
		home = _home(slots[i].job_id);
		if (((i - home) & (slot_count - 1)) < ((i - hole) & (slot_count - 1)))
			continue;
		slots[hole] = slots[i];
		hole = i;
	}
	slots[hole].job_id = 0;
	used--;
}

extern void ends_drop(uint32_t job_id)
{
	struct phx_end *slot;

	turn_over();
	pthread_mutex_lock(&lock);
	if (job_id && used && (slot = _find(job_id))->job_id)
		_remove(slot);
	pthread_mutex_unlock(&lock);
}

/* Append the changed ends as messages. RET false if memory ran out */
static bool _put(struct pktbuf *out, uint32_t count)
{
	for (uint32_t at = 0; at < count;) {
		uint32_t n = MIN(count - at, PHX_ENDS_PER_MSG);
		size_t bytes = n * sizeof(*changed);
		struct phx_ends *msg = pktbuf_add(out, PHX_ENDS, sizeof(*msg) + bytes);

		if (!msg)
			return false;
		msg->count = n;
		memcpy(msg + 1, changed + at, bytes);
		at += n;
	}
	return true;
}

/* RET number of ends that differ from the daemon's */
static uint32_t _compare(__typeof__(find_job_record) *find)
{
	uint32_t count = 0;

	uneven = false;
	for (uint32_t i = 0; i < slot_count; i++) {
		job_record_t *job_ptr;
		uint64_t end_time;

		if (!slots[i].job_id || !(job_ptr = find(slots[i].job_id)))
			continue;
		end_time = ends_of(job_ptr);
		uneven |= job_ptr->end_time != _leader_end(job_ptr);
		if (end_time != slots[i].end_time) {
			slots[i].end_time = end_time;
			changed[count++] = slots[i];
		}
	}
	return count;
}

extern bool ends_free(bitstr_t *candidates, bitstr_t *like, time_t at, int count)
{
	bitstr_t *empty = bit_copy(candidates);
	bool found;

	if (like)
		bit_and(empty, like);
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < slot_count; i++) {
		job_record_t *job_ptr;

		if (!slots[i].job_id || slots[i].end_time <= (uint64_t) at)
			continue;
		job_ptr = _find_job_record()(slots[i].job_id);
		if (job_ptr && job_ptr->job_resrcs)
			bit_and_not(empty, job_ptr->job_resrcs->node_bitmap);
	}
	pthread_mutex_unlock(&lock);
	found = bit_set_count(empty) >= count;
	bit_free(empty);
	return found;
}

/* Whether nothing changed: a change sets last_job_update to its second, which was over when the
 * ends were compared, or it would have been made in this turn. */
static bool _unchanged(uint64_t turn)
{
	return told_at && last_job_update == told_update &&
	       (told_in == turn || told_update < told_at);
}

extern bool ends_tell(uint64_t turn)
{
	__typeof__(find_job_record) *find = _find_job_record();
	static struct pktbuf out;
	bool ok;

	pthread_mutex_lock(&lock);
	ok = find && !incomplete;
	if (ok && !_unchanged(turn)) {
		pktbuf_reset(&out);
		told_update = last_job_update;
		told_at = time(NULL);
		ok = _put(&out, _compare(find));
		if (!ok) /* what is not told would be taken for told */
			incomplete = true;
		else if (out.len)
			link_events(&out);
	}
	ok = ok && !uneven;
	told_in = turn;
	pthread_mutex_unlock(&lock);
	return ok;
}
