/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ask.c - see ask.h. */

#include "ask.h"

#include <errno.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "link.h"
#include "stats.h"

#define NS_PER_US 1000ull
#define SPIN_NS 250000ull  /* looking for an answer before sleeping */
#define SPIN_SKIP_MAX 64u  /* asks without it after it was in vain */

/* Number of asks that still sleep at once. An answer usually comes within 50 to 150
 * microseconds; a thread that sleeps gets a busy CPU back only after milliseconds. So an ask polls
 * for a short time first; after a vain poll one ask sleeps at once, then two, four ... Protected,
 * as spin_fails, by the right to read (link_rx_begin()). */
static uint32_t spin_skip;  /* asks that sleep at once, still to come */
static uint32_t spin_fails; /* in a row, at most log2(SPIN_SKIP_MAX) */

static uint64_t _spin_until(uint64_t now)
{
	static int cpus;

	if (!cpus)
		cpus = get_nprocs();
	if (cpus < 2)
		return 0;
	if (spin_skip) {
		spin_skip--;
		return 0;
	}
	return now + SPIN_NS;
}

static void _spin_in_vain(void)
{
	spin_skip = 1u << spin_fails;
	if (spin_skip < SPIN_SKIP_MAX)
		spin_fails++;
}

static void _relax(void)
{
	for (int i = 0; i < 8; i++)
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#else
		__asm__ volatile("" ::: "memory");
#endif
}

extern uint16_t ask_allowed(uint16_t mode, uint64_t now)
{
	enum link_state state = link_state();
	uint32_t flag = mode == PHX_RUN_NOW ? PHX_W_ASK_RUN_NOW :
			mode == PHX_WILL_RUN ? PHX_W_ASK_WILL_RUN : PHX_W_PROVE_TEST_ONLY;

	if (state == LINK_STALE || state == LINK_SYNCING)
		return PHX_R_SYNCING;
	if (state != LINK_READY)
		return PHX_R_DOWN;
	if (!(link_flags() & flag))
		return PHX_R_SKIPPED;
	if (breaker_spent(&overlay_breaker, now))
		return PHX_R_SPENT;
	if (!breaker_allows(&overlay_breaker, now))
		return PHX_R_BREAKER;
	return PHX_R_NONE;
}

/* Read until the answer to `seq` comes; older ones are dropped. */
static uint16_t _await(uint64_t seq, uint64_t deadline_ns,
		       const struct answer_want *want, uint32_t *nodes,
		       struct phx_answer *answer, enum follow *follow)
{
	uint64_t spin_until = _spin_until(now_ns());
	struct packet p;
	int err;

	for (;;) {
		err = link_receive(&p);
		if (err == EAGAIN && spin_until) {
			if (now_ns() < spin_until) {
				_relax();
				continue;
			}
			spin_until = 0;
			_spin_in_vain();
		}
		if (err == EAGAIN) {
			if (!link_wait_rx(deadline_ns))
				return PHX_R_TIMEOUT;
			continue;
		}
		if (err)
			return err == EBADMSG ? PHX_R_INVALID : PHX_R_DOWN;
		if (p.kind == PACKET_ANSWER) {
			if (p.answer.hdr.seq == seq) {
				if (spin_until)
					spin_fails = 0;
				*answer = p.answer;
				*follow = answer_check(&p, want, nodes);
				return *follow ? answer->reason : PHX_R_INVALID;
			}
			if (p.answer.hdr.seq > seq) {
				link_lose("an ANSWER to an ask that was made", EBADMSG);
				return PHX_R_INVALID;
			}
			stat_add(&overlay_stats.late_answers, 1);
		}
		/* However much there is to read, the deadline holds. */
		if (now_ns() >= deadline_ns)
			return PHX_R_TIMEOUT;
	}
}

static bool _is_miss(uint16_t reason)
{
	return reason == PHX_R_TIMEOUT || reason == PHX_R_INVALID ||
	       reason == PHX_R_SEND || reason == PHX_R_DOWN;
}

extern enum follow ask_daemon(struct phx_ask *ask, const struct answer_want *want,
			      uint64_t start_ns, uint32_t *nodes,
			      struct phx_answer *answer, uint16_t *reason)
{
	struct link_limits limits = link_limits();
	uint64_t deadline = start_ns + limits.deadline_us * NS_PER_US, now;
	enum follow follow = FOLLOW_STOCK;
	bool missed;
	int err;

	memset(answer, 0, sizeof(*answer));
	*reason = PHX_R_TIMEOUT;
	/* Reading is ours before the ask leaves, so that its answer is too. */
	if (link_rx_begin(deadline)) {
		err = link_send(&ask->hdr);
		if (err == ENOTCONN) {
			link_rx_end();
			breaker_cancel(&overlay_breaker);
			*reason = PHX_R_DOWN;
			return FOLLOW_STOCK;
		}
		if (!err) {
			stat_add(&overlay_stats.asks, 1);
			*reason = _await(ask->hdr.seq, deadline, want, nodes, answer, &follow);
		} else {
			*reason = err == EAGAIN ? PHX_R_SEND : PHX_R_DOWN;
		}
		link_rx_end();
	}
	now = now_ns();
	missed = _is_miss(*reason);
	breaker_asked(&overlay_breaker, now, now - start_ns, !missed, &limits.breaker);
	if (*reason == PHX_R_INVALID)
		breaker_tried(&overlay_breaker, now, ask->job_id, 0, false, &limits.breaker);
	if (!missed) {
		stat_add(&overlay_stats.answers, 1);
		link_proved();
	}
	return follow;
}
