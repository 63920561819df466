/* SPDX-License-Identifier: GPL-2.0-or-later */
/* breaker.c - see breaker.h. */

#include "breaker.h"

#include <string.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
#define MINUTE_NS (60 * NS_PER_S)
#define HOUR_NS (3600 * NS_PER_S)

/* RET the amount left when `full` drains evenly over the period */
static double _left(const struct bucket *k, uint64_t now_ns, uint64_t period_ns, double full)
{
	uint64_t since = now_ns > k->at_ns ? now_ns - k->at_ns : 0;
	double left = k->level - full * ((double) since / (double) period_ns);

	return left > 0 ? left : 0;
}

/* Drain, then add. RET true if above full */
static bool _spend(struct bucket *k, uint64_t now_ns, uint64_t period_ns,
		   double full, double amount)
{
	k->level = _left(k, now_ns, period_ns, full) + amount;
	if (now_ns > k->at_ns)
		k->at_ns = now_ns;
	return k->level > full;
}

/* ---- opening and closing; under the lock */

static void _open(struct breaker *b, uint64_t now_ns)
{
	atomic_store_explicit(&b->until_ns, now_ns + b->open_ms * NS_PER_MS, memory_order_relaxed);
	atomic_fetch_add_explicit(&b->opens, 1, memory_order_relaxed);
	atomic_store_explicit(&b->state, BREAKER_OPEN, memory_order_release);
}

static bool _too_often(const struct breaker *b, uint64_t now_ns,
		       const struct breaker_limits *limits)
{
	uint32_t n = limits->eject_openings;
	uint64_t first;

	if (!n || n > BREAKER_CROSSINGS_MAX || b->crossings < n)
		return false;
	first = b->crossed_ns[(b->crossings - n) % BREAKER_CROSSINGS_MAX];
	return now_ns - first <= limits->eject_window_s * NS_PER_S;
}

static void _cross(struct breaker *b, uint64_t now_ns, enum phx_breach breach,
		   const struct breaker_limits *limits)
{
	uint32_t state = atomic_load(&b->state);
	uint64_t ms;

	if (state == BREAKER_EJECTED)
		return;
	if (state == BREAKER_CLOSED && now_ns - b->closed_ns >= BREAKER_QUIET_NS)
		b->open_ms = 0;
	b->breach = breach;
	b->breaches[breach]++;
	b->crossed_ns[b->crossings++ % BREAKER_CROSSINGS_MAX] = now_ns;
	/* The next one has to be crossed anew. */
	b->late.level = b->tried = b->refused = 0;
	b->synced_crossed = b->synced;
	b->silent = 0;
	ms = b->open_ms ? 2ull * b->open_ms : limits->open_ms ? limits->open_ms : 1;
	b->open_ms = (uint32_t) (ms < BREAKER_OPEN_MS_MAX ? ms : BREAKER_OPEN_MS_MAX);
	_open(b, now_ns);
	if (breach == PHX_B_REFUTED || _too_often(b, now_ns, limits)) {
		b->ejections++;
		atomic_store_explicit(&b->state, BREAKER_EJECTED, memory_order_release);
	}
}

/* ---- asks */

extern bool breaker_allows(struct breaker *b, uint64_t now_ns)
{
	uint32_t state = atomic_load_explicit(&b->state, memory_order_acquire);

	if (state == BREAKER_CLOSED)
		return true;
	if (state != BREAKER_OPEN)
		return false; /* half open: one ask is on its way and decides */
	if (now_ns < atomic_load_explicit(&b->until_ns, memory_order_relaxed))
		return false;
	/* Of several callers only the one that makes this change may ask. */
	return atomic_compare_exchange_strong(&b->state, &state, BREAKER_HALF_OPEN);
}

extern bool breaker_spent(const struct breaker *b, uint64_t now_ns)
{
	return now_ns < atomic_load_explicit(&b->spent_ns, memory_order_relaxed);
}

/* RET what may be spent at once: three quarters of ask_ms drain in a minute, so one in a third */
static double _at_once(const struct breaker_limits *limits)
{
	return (limits->ask_ms ? limits->ask_ms : 1) * (double) NS_PER_MS / 4;
}

extern bool breaker_spares(struct breaker *b, uint64_t now_ns, const struct breaker_limits *limits)
{
	double full = _at_once(limits);
	bool spares;

	pthread_mutex_lock(&b->lock);
	spares = _left(&b->asked, now_ns, MINUTE_NS / 3, full) <= full / 2;
	pthread_mutex_unlock(&b->lock);
	return spares;
}

extern void breaker_pay(struct breaker *b, uint64_t now_ns, uint64_t waited_ns,
			uint64_t saved_ns, const struct breaker_limits *limits)
{
	double full = _at_once(limits), lacks;
	uint64_t least = waited_ns / BREAKER_SAVED_COSTS;

	pthread_mutex_lock(&b->lock);
	(void) _spend(&b->asked, now_ns, MINUTE_NS / 3, full,
		      (double) (saved_ns < waited_ns - least ? waited_ns - saved_ns : least));
	lacks = b->asked.level + limits->deadline_us * 1000.0 - full;
	if (lacks > 0)
		atomic_store(&b->spent_ns, now_ns + (uint64_t) (lacks * (MINUTE_NS / 3) / full));
	pthread_mutex_unlock(&b->lock);
}

extern void breaker_asked(struct breaker *b, uint64_t now_ns, uint64_t waited_ns,
			  bool answered, const struct breaker_limits *limits)
{
	double full = (limits->late_ms ? limits->late_ms : 1) * (double) NS_PER_MS;
	uint32_t state;
	bool above;

	pthread_mutex_lock(&b->lock);
	state = atomic_load(&b->state);
	if (answered) {
		b->silent = 0;
		if (state == BREAKER_HALF_OPEN) {
			b->closed_ns = now_ns;
			atomic_store_explicit(&b->state, BREAKER_CLOSED, memory_order_release);
		}
	} else {
		b->late_ns += waited_ns;
		above = _spend(&b->late, now_ns, MINUTE_NS, full, (double) waited_ns);
		above |= ++b->silent >= BREAKER_SILENT;
		if (state == BREAKER_HALF_OPEN) /* nothing new: it lasts */
			_open(b, now_ns);
		else if (state == BREAKER_CLOSED && above)
			_cross(b, now_ns, PHX_B_LATE, limits);
	}
	pthread_mutex_unlock(&b->lock);
}

extern void breaker_cancel(struct breaker *b)
{
	uint32_t half_open = BREAKER_HALF_OPEN;

	/* until_ns has passed, so that the next ask is let through again. */
	(void) atomic_compare_exchange_strong(&b->state, &half_open, BREAKER_OPEN);
}

/* RET whether the refusal counts */
static bool _counts(struct breaker *b, uint32_t job_id, uint64_t who,
		    const struct breaker_limits *limits)
{
	uint32_t *job = &b->refused_jobs[job_id % BREAKER_REFUSED];
	uint32_t each = BREAKER_TRIED_MIN * limits->refused_pct / 100 /
			BREAKER_REFUSED_MANY;
	uint8_t *user = &b->refusals[(uint32_t) who % BREAKER_REFUSERS];
	uint8_t *part = &b->refusals[BREAKER_REFUSERS + (who >> 32) % BREAKER_REFUSERS];

	if (*job == job_id || (who && (*user > each || *part > each)))
		return false;
	*job = job_id;
	*user += who != 0;
	*part += who != 0;
	return true;
}

extern void breaker_tried(struct breaker *b, uint64_t now_ns, uint32_t job_id,
			  uint64_t who, bool kept,
			  const struct breaker_limits *limits)
{
	uint64_t minutes;

	pthread_mutex_lock(&b->lock);
	minutes = now_ns > b->tried_ns ? (now_ns - b->tried_ns) / MINUTE_NS : 0;
	b->tried_ns += minutes * MINUTE_NS;
	for (; minutes && b->tried >= 1; minutes--) {
		b->tried /= 2;
		b->refused /= 2;
		for (uint32_t i = 0; i < 2 * BREAKER_REFUSERS; i++)
			b->refusals[i] /= 2;
	}
	if (!kept && !_counts(b, job_id, who, limits)) {
		pthread_mutex_unlock(&b->lock);
		return;
	}
	b->tried++;
	b->refused += !kept;
	if (atomic_load(&b->state) == BREAKER_CLOSED && limits->refused_pct &&
	    limits->refused_pct < 100 && b->tried >= BREAKER_TRIED_MIN &&
	    b->refused * 100 > b->tried * limits->refused_pct)
		_cross(b, now_ns, PHX_B_REFUSED, limits);
	pthread_mutex_unlock(&b->lock);
}

/* ---- holds */

/* RET the entry of this key; a new key replaces the one held longest ago */
static struct holder *_holder(struct breaker *b, uint64_t key)
{
	struct holder *oldest = b->holders;

	for (uint32_t i = 0; i < BREAKER_HOLDERS; i++) {
		struct holder *h = &b->holders[i];

		if (h->key == key)
			return h;
		if (!h->key || (oldest->key && h->last_ns < oldest->last_ns))
			oldest = h;
	}
	*oldest = (struct holder) { .key = key };
	return oldest;
}

/* Open the breaker if the holds of many users were ended. */
static void _count_holders(struct breaker *b, uint64_t now_ns, double full,
			   const struct breaker_limits *limits)
{
	uint32_t users[BREAKER_HELD_USERS], count = 0;

	for (uint32_t i = 0; i < BREAKER_HOLDERS; i++) {
		const struct holder *other = &b->holders[i];
		uint32_t user = (uint32_t) other->key, seen = 0;

		if (other->over != HOLDER_NEW ||
		    _left(&other->held, now_ns, HOUR_NS, full) <= full / 2)
			continue;
		while (seen < count && users[seen] != user)
			seen++;
		if (seen < count)
			continue;
		users[count++] = user;
		if (count == BREAKER_HELD_USERS)
			break;
	}
	if (count < BREAKER_HELD_USERS)
		return;
	for (uint32_t i = 0; i < BREAKER_HOLDERS; i++)
		if (b->holders[i].over)
			b->holders[i].over = HOLDER_COUNTED;
	_cross(b, now_ns, PHX_B_HELD, limits);
}

extern bool breaker_hold(struct breaker *b, uint64_t now_ns, uint32_t user,
			 uint32_t partition, bool counts,
			 const struct breaker_limits *limits, bool *ended)
{
	uint64_t key = BREAKER_WHO(user, partition);
	double full = limits->held_s * (double) NS_PER_S;
	struct holder *h;
	uint64_t since;
	bool may;

	*ended = false;
	pthread_mutex_lock(&b->lock);
	h = _holder(b, key);
	since = h->last_ns && now_ns > h->last_ns ? now_ns - h->last_ns : 0;
	/* Between calls far apart, and while stock decided, nothing was held. */
	if (since > BREAKER_HOLD_GAP_NS || h->over)
		since = 0;
	h->last_ns = now_ns;
	b->held_ns += since;
	if (!limits->held_s) {
		h->over = HOLDER_UNDER;
	} else if (_spend(&h->held, now_ns, HOUR_NS, full, (double) since)) {
		if (!h->over) {
			*ended = true;
			h->over = counts ? HOLDER_NEW : HOLDER_COUNTED;
			_count_holders(b, now_ns, full, limits);
		}
	} else if (h->held.level <= full / 2) {
		h->over = HOLDER_UNDER;
	}
	may = !h->over;
	pthread_mutex_unlock(&b->lock);
	return may;
}

/* ---- whole states */

extern uint64_t breaker_sync_at(struct breaker *b, uint64_t now_ns, bool caused)
{
	uint64_t at = 0, pause = 0;

	if (!caused)
		return breaker_is_ejected(b) ? UINT64_MAX : 0;
	pthread_mutex_lock(&b->lock);
	if (b->syncs_near > 1) {
		uint32_t steps = b->syncs_near - 2;

		pause = steps > 2 ? BREAKER_SYNC_PAUSE_MAX_NS : NS_PER_S << steps;
	}
	if (b->sync_ns)
		at = b->sync_ns + pause;
	if (b->syncs_from_ns > at)
		at = b->syncs_from_ns;
	if (b->breach == PHX_B_SYNCS &&
	    atomic_load(&b->state) == BREAKER_OPEN && atomic_load(&b->until_ns) > at)
		at = atomic_load(&b->until_ns);
	if (atomic_load(&b->state) == BREAKER_EJECTED)
		at = UINT64_MAX;
	pthread_mutex_unlock(&b->lock);
	return at > now_ns ? at : 0;
}

extern void breaker_sync(struct breaker *b, uint64_t now_ns, bool caused,
			 const struct breaker_limits *limits)
{
	uint32_t n = limits->syncs < BREAKER_SYNCS_MAX ? limits->syncs : BREAKER_SYNCS_MAX;

	if (!caused)
		return;
	pthread_mutex_lock(&b->lock);
	if (b->sync_ns && now_ns - b->sync_ns < BREAKER_SYNC_NEAR_NS)
		b->syncs_near++;
	else
		b->syncs_near = 0;
	b->sync_ns = now_ns;
	b->synced_ns[b->synced++ % BREAKER_SYNCS_MAX] = now_ns;
	if (n && b->synced >= n)
		b->syncs_from_ns = b->synced_ns[(b->synced - n) % BREAKER_SYNCS_MAX] + MINUTE_NS;
	if (b->syncs_from_ns > now_ns && b->synced - b->synced_crossed >= n)
		_cross(b, now_ns, PHX_B_SYNCS, limits);
	pthread_mutex_unlock(&b->lock);
}

/* ---- ejection */

extern void breaker_refuted(struct breaker *b, uint64_t now_ns, const struct breaker_limits *limits)
{
	pthread_mutex_lock(&b->lock);
	_cross(b, now_ns, PHX_B_REFUTED, limits);
	pthread_mutex_unlock(&b->lock);
}

extern void breaker_enable(struct breaker *b, uint64_t now_ns)
{
	pthread_mutex_lock(&b->lock);
	b->late.level = b->tried = b->refused = 0;
	b->synced = b->synced_crossed = b->syncs_from_ns = 0;
	b->crossings = 0;
	b->open_ms = 0;
	b->syncs_near = 0;
	b->breach = PHX_B_NONE;
	b->closed_ns = now_ns;
	memset(b->holders, 0, sizeof(b->holders));
	memset(b->refused_jobs, 0, sizeof(b->refused_jobs));
	memset(b->refusals, 0, sizeof(b->refusals));
	atomic_store_explicit(&b->state, BREAKER_CLOSED, memory_order_release);
	pthread_mutex_unlock(&b->lock);
}

extern bool breaker_is_ejected(struct breaker *b)
{
	return atomic_load_explicit(&b->state, memory_order_acquire) == BREAKER_EJECTED;
}

extern const char *breaker_word(uint32_t breach)
{
	switch (breach) {
	case PHX_B_LATE:
		return "answers that came too late or not at all";
	case PHX_B_REFUSED:
		return "nodes that Slurm refused";
	case PHX_B_SYNCS:
		return "whole states asked for";
	case PHX_B_HELD:
		return "jobs held back";
	case PHX_B_REFUTED:
		return "proofs that Slurm refuted";
	default:
		return "nothing";
	}
}
