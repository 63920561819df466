/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_check.c - what must hold at every moment, looked at from outside the
 * overlay; see sim.h. What must hold when it is quiet, the campaign checks. */

#include "sim_ctld.h"

#include <string.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
/* Beyond its deadline an ask may look at a clock and lose the processor. */
#define SLACK_NS 300000ull
#define USERS 8
#define ASKS 4096

static struct {
	uint32_t state, open_ms, opens;
	uint64_t until, closed, crossings, ejections;
} was;
static uint64_t enabled_at, ejected_at;
static uint32_t half_open_asks;
static uint64_t half_open_answers; /* there were, as it became so */
static uint32_t silent;
static bool call_open; /* it was open as the call began */
static bool by_proof; /* the answer that was read last, or an earlier one */
static struct {
	uint64_t end, took;
} asked[ASKS]; /* a ring */
static uint32_t asked_count;
static uint64_t call_at, call_stock, call_asks, call_answers;
static struct {
	uint64_t last, held, since;
} users[2 * USERS]; /* those of proofs have budgets of their own */

extern void sim_check_begin(void)
{
	memset(&was, 0, sizeof(was));
	memset(users, 0, sizeof(users));
	enabled_at = ejected_at = silent = 0;
	half_open_asks = 0;
	memset(asked, 0, sizeof(asked));
}

/* A new process has a breaker of its own. */
extern void sim_check_boot(void)
{
	sim_counts.opens += was.opens;
	sim_counts.ejections += was.ejections;
	sim_check_begin();
}

static void _say(const char *what)
{
	sim_fail("breaker: %s (state %u after %u, opens %u, open_ms %u after %u)",
		 what, atomic_load(&overlay_breaker.state), was.state,
		 (uint32_t) atomic_load(&overlay_breaker.opens),
		 overlay_breaker.open_ms, was.open_ms);
}

/* Each crossing opens it for twice as long as the last, unless it was closed
 * for long. */
static void _check_crossing(const struct breaker *b)
{
	struct link_limits limits = link_limits();
	bool quiet = was.state == BREAKER_CLOSED &&
		     sim_clock - was.closed >= BREAKER_QUIET_NS;
	uint64_t ms = was.open_ms && !quiet ? 2ull * was.open_ms :
		      limits.breaker.open_ms ? limits.breaker.open_ms : 1;

	if (ms > BREAKER_OPEN_MS_MAX)
		ms = BREAKER_OPEN_MS_MAX;
	if (b->open_ms != ms)
		_say("a crossing does not open it for twice as long");
}

static void _check_change(const struct breaker *b, uint32_t state)
{
	uint64_t until = atomic_load(&b->until_ns);
	bool enabled = enabled_at && sim_clock - enabled_at < SLACK_NS;

	if (b->crossings == was.crossings + 1 && !enabled)
		_check_crossing(b);
	if (state == BREAKER_OPEN && until > sim_clock +
	    BREAKER_OPEN_MS_MAX * NS_PER_MS)
		_say("open for longer than the longest time");
	if (state == was.state)
		return;
	if (state == BREAKER_CLOSED && !enabled &&
	    (was.state != BREAKER_HALF_OPEN ||
	     stat_get(&overlay_stats.answers) == half_open_answers))
		_say("closed without an answer");
	if (state == BREAKER_HALF_OPEN) {
		half_open_answers = stat_get(&overlay_stats.answers);
		if (was.state != BREAKER_OPEN || was.until > sim_clock)
			_say("half open before its time");
	}
	if (state == BREAKER_EJECTED)
		ejected_at = sim_clock;
	if (state == BREAKER_EJECTED && b->ejections == was.ejections)
		_say("ejected without a count");
	if (was.state == BREAKER_EJECTED && !enabled)
		_say("not ejected any more");
}

extern void sim_check_slice(void)
{
	struct breaker *b = &overlay_breaker;
	uint32_t state;

	if (sim.sabotage == SIM_DEAF_BREAKER &&
	    atomic_load(&b->state) == BREAKER_OPEN && !sim_random(64))
		atomic_store(&b->state, BREAKER_CLOSED);
	state = atomic_load(&b->state);
	/* It may have been half open and opened again within a slice. */
	if (state != BREAKER_HALF_OPEN || b->crossings != was.crossings)
		half_open_asks = 0;
	if (b->crossings != was.crossings || state != was.state)
		_check_change(b, state);
	if (state != was.state && sim.log)
		sim_trace("breaker %u -> %u", was.state, state);
	was.state = state;
	was.open_ms = b->open_ms;
	was.opens = (uint32_t) atomic_load(&b->opens);
	was.until = atomic_load(&b->until_ns);
	was.closed = b->closed_ns;
	was.crossings = b->crossings;
	was.ejections = b->ejections;
	sim_counts.checks++;
}

extern void sim_check_sent(const void *packet)
{
	const struct phx_hdr *hdr = packet;
	uint32_t state = atomic_load(&overlay_breaker.state);

	if (hdr->type == PHX_JOB || hdr->type == PHX_JOB_END)
		sim_counts.events++;
	if (hdr->type == PHX_HELLO)
		sim_counts.connects++;
	if (hdr->type == PHX_SYNC_BEGIN) {
		sim_counts.syncs++;
		/* The one that ejected it may wait for room. */
		if (was.state == BREAKER_EJECTED &&
		    sim_clock - ejected_at > 6 * NS_PER_S)
			sim_fail("a whole state is sent although ejected");
	}
	if (hdr->type != PHX_ASK)
		return;
	sim_counts.asks++;
	/* It may have been opened since the call began. */
	if (call_open && (state == BREAKER_OPEN || state == BREAKER_EJECTED))
		sim_fail("an ask is made although the breaker is open");
	if (state == BREAKER_HALF_OPEN && ++half_open_asks > 1)
		sim_fail("a second ask is made although it is half open");
}

extern void sim_check_read(const void *packet, uint32_t len)
{
	const struct phx_hdr *hdr = packet;
	const struct phx_answer *a = packet;

	if (len >= sizeof(*a) && hdr->type == PHX_ANSWER) {
		by_proof = a->flags & PHX_A_PROOF;
	}
}

/* By slurm.conf, which alone closes it. */
extern void sim_check_enabled(void)
{
	enabled_at = sim_clock;
	memset(users, 0, sizeof(users));
}

/* In no minute the asks take longer than slurm.conf gives. */
static void _check_asked(uint64_t took)
{
	uint64_t sum = 0, count = 0, most = link_limits().breaker.ask_ms * NS_PER_MS;

	asked[asked_count % ASKS].end = sim_clock;
	asked[asked_count++ % ASKS].took = took;
	for (uint32_t i = 0; i < ASKS; i++) {
		if (asked[i].end + 60 * NS_PER_S > sim_clock && asked[i].took) {
			sum += asked[i].took;
			count++;
		}
	}
	/* What a call takes beside the wait for its answer is not counted. */
	if (sum > most + count * SLACK_NS / 8 + SLACK_NS)
		sim_fail("asks took %llu us of a minute, the limit is %llu us",
			 (unsigned long long) sum / 1000, (unsigned long long) most / 1000);
}

/* A call of job_test() begins or ends. */
extern void sim_check_call(bool begin)
{
	struct breaker *b = &overlay_breaker;
	uint32_t state = atomic_load(&b->state);
	uint64_t took, deadline;

	if (begin) {
		call_open = state == BREAKER_EJECTED ||
			    (state == BREAKER_OPEN &&
			     atomic_load(&b->until_ns) > sim_clock + NS_PER_MS);
		call_at = sim_clock;
		call_stock = stock_ns;
		call_asks = stat_get(&overlay_stats.asks);
		call_answers = stat_get(&overlay_stats.answers);
		return;
	}
	took = sim_clock - call_at - (stock_ns - call_stock);
	deadline = link_limits().deadline_us * 1000ull;
	sim_counts.checks++;
	if (took > deadline + SLACK_NS)
		sim_fail("a call waits for %llu us beside stock, the deadline is %llu us",
			 (unsigned long long) took / 1000,
			 (unsigned long long) deadline / 1000);
	if (stat_get(&overlay_stats.asks) == call_asks)
		return;
	_check_asked(took);
	if (stat_get(&overlay_stats.answers) != call_answers) {
		silent = 0;
		sim_counts.answers++;
		return;
	}
	sim_counts.late++;
	if (++silent >= BREAKER_SILENT &&
	    atomic_load(&b->state) == BREAKER_CLOSED &&
	    atomic_load(&b->opens) == was.opens &&
	    sim_clock - enabled_at > NS_PER_S)
		sim_fail("breaker: closed after %u misses in a row", silent);
}

/* The budget is spent by the time between two holds of a user's jobs, and grows
 * again over an hour. */
extern void sim_check_held(uint32_t user, int64_t age)
{
	int64_t longest = link_limits().hold_s;
	struct breaker *b = &overlay_breaker;
	uint64_t limit = link_limits().breaker.held_s * NS_PER_S, room;
	uint32_t u = user % USERS + (by_proof ? USERS : 0);

	sim_counts.checks++;
	if (!(link_flags() & PHX_W_MAY_HOLD) && !by_proof)
		sim_fail("a job is held although the daemon may not");
	if (age > longest)
		sim_fail("a job is held %lld s after it could start, the limit is %lld s",
			 (long long) age, (long long) longest);
	if (sim.sabotage == SIM_LONG_HOLD)
		memset(b->holders, 0, sizeof(b->holders));
	if (!users[u].since)
		users[u].since = sim_clock;
	if (users[u].last && sim_clock - users[u].last < BREAKER_HOLD_GAP_NS)
		users[u].held += sim_clock - users[u].last;
	users[u].last = sim_clock;
	room = limit + (uint64_t) ((double) limit *
				   (double) (sim_clock - users[u].since) /
				   3.6e12);
	/* The two clocks are read some time apart at each hold. */
	if (limit && users[u].held > room + NS_PER_S)
		sim_fail("jobs of user %u are held for %llu ms, the limit is %llu ms",
			 user, (unsigned long long) (users[u].held / NS_PER_MS),
			 (unsigned long long) (room / NS_PER_MS));
}

/* ---- for the campaign */

extern void sim_count(struct sim_counts *out)
{
	*out = sim_counts;
	out->opens += was.opens;
	out->ejections += was.ejections;
	out->narrowed = stat_get(&overlay_stats.narrowed);
	out->deltas = stat_get(&order.counts.written);
}

extern bool sim_ready(void)
{
	return link_state() == LINK_READY;
}

extern bool sim_settled(void)
{
	return sim_ready() && !sim_acting && sim_io_idle();
}

extern uint32_t sim_breaker(void)
{
	return atomic_load(&overlay_breaker.state);
}
