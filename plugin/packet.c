/* SPDX-License-Identifier: GPL-2.0-or-later */
/* packet.c - see packet.h. */

#include "packet.h"

#include <string.h>

#define PROVE_FLAGS (PHX_W_PROVE_TEST_ONLY | PHX_W_PROVE_WILL_RUN | PHX_W_PROVE_NO_FIT)

static uint32_t _clamp(uint32_t value, uint32_t low, uint32_t high)
{
	if (value < low)
		return low;
	return value > high ? high : value;
}

/* RET the smaller one; 0 of either says nothing */
static uint32_t _stricter(uint32_t daemon, uint32_t site)
{
	return daemon && (!site || daemon < site) ? daemon : site;
}

static enum packet_kind _bad(struct packet *p, const char *why)
{
	p->kind = PACKET_BAD;
	p->type = 0;
	p->why = why;
	return PACKET_BAD;
}

static enum packet_kind _limits(const void *data, size_t len, struct packet *p)
{
	struct phx_welcome *w = &p->welcome;

	if (len != sizeof(*w))
		return _bad(p, "length of a WELCOME or CONFIG");
	memcpy(w, data, sizeof(*w));
	if (w->pad ||
	    w->flags & ~(uint32_t) (PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN |
				    PHX_W_MAY_HOLD | PHX_W_ORDER |
				    PHX_W_ENABLE | PHX_W_WATCH | PROVE_FLAGS))
		return _bad(p, "known flags in a WELCOME or CONFIG");
	return p->kind = PACKET_LIMITS;
}

extern struct link_limits limits_within(const struct phx_welcome *w, const struct site *site)
{
	uint32_t off = PHX_W_ENABLE | (!site->proofs ? PROVE_FLAGS :
				       site->proofs == 1 ? PHX_W_PROVE_NO_FIT : 0);
	uint32_t deadline_us = _clamp(w->deadline_us, PHX_DEADLINE_US_MIN, site->deadline_us);

	return (struct link_limits) {
		.deadline_us = deadline_us,
		.flags = w->flags & ~off,
		.uid = site->uid,
		.hold_s = site->hold_max_s,
		.order_max = site->order_max,
		.compare = site->compare,
		.trade = site->trade,
		.breaker = {
			.deadline_us = deadline_us,
			.ask_ms = site->ask_ms,
			.late_ms = _stricter(w->late_budget_ms, site->ask_ms),
			.open_ms = _clamp(w->breaker_open_ms, PHX_BREAKER_OPEN_MS_MIN,
					  BREAKER_OPEN_MS_MAX),
			.refused_pct = _stricter(w->refused_pct, site->refused_pct),
			.syncs = _stricter(w->syncs, site->syncs),
			.held_s = _stricter(w->held_s, site->held_s),
			.eject_openings = _stricter(w->eject_openings, site->eject_openings),
			.eject_window_s = _clamp(w->eject_window_s, PHX_EJECT_WINDOW_S_MIN,
						 PHX_EJECT_WINDOW_S_MAX),
		},
	};
}

static enum packet_kind _answer(const void *data, size_t len, struct packet *p)
{
	struct phx_answer *a = &p->answer;

	if (len < sizeof(*a))
		return _bad(p, "length of an ANSWER");
	memcpy(a, data, sizeof(*a));
	if (a->count > PHX_ANSWER_NODES_MAX)
		return _bad(p, "node count of an ANSWER within its maximum");
	if (len != sizeof(*a) + a->count * sizeof(uint32_t))
		return _bad(p, "length of an ANSWER with its nodes");
	if (a->reason >= PHX_REASONS || a->proof >= PHX_PROOFS || a->pad ||
	    (a->flags & ~(uint32_t) (PHX_A_ALL_NODES | PHX_A_PROOF)))
		return _bad(p, "known reason and flags in an ANSWER");
	if (a->verdict == PHX_NO_OPINION ? a->count != 0 : a->verdict != PHX_NARROW)
		return _bad(p, "known verdict in an ANSWER");
	p->nodes = (const uint8_t *) data + sizeof(*a);
	return p->kind = PACKET_ANSWER;
}

/* RET NULL, or what was expected of the deltas */
static const char *_check_deltas(const struct packet *p)
{
	struct phx_delta d;
	uint32_t before = 0;

	for (uint32_t i = 0; i < p->order.count; i++) {
		memcpy(&d, p->deltas + i * sizeof(d), sizeof(d));
		if (d.job_id <= before)
			return "ascending job ids in an ORDER";
		if (d.delta > PHX_DELTA_MAX || d.delta <= 0)
			return "deltas within their bounds in an ORDER";
		before = d.job_id;
	}
	return NULL;
}

static enum packet_kind _order(const void *data, size_t len, struct packet *p)
{
	struct phx_order *o = &p->order;
	const char *wrong;

	if (len < sizeof(*o))
		return _bad(p, "length of an ORDER");
	memcpy(o, data, sizeof(*o));
	if (o->count > PHX_ORDER_PER_MSG)
		return _bad(p, "count of an ORDER within its maximum");
	if (len != sizeof(*o) + o->count * sizeof(struct phx_delta))
		return _bad(p, "length of an ORDER with its deltas");
	if (o->pad || !o->generation ||
	    o->flags & ~(uint32_t) (PHX_PART_FIRST | PHX_PART_LAST |
				    PHX_PART_SAME) ||
	    (o->flags & PHX_PART_SAME && (o->flags != PHX_PART_SAME || o->count)))
		return _bad(p, "known flags and a generation in an ORDER");
	p->deltas = (const uint8_t *) data + sizeof(*o);
	wrong = _check_deltas(p);
	if (wrong)
		return _bad(p, wrong);
	if (o->lease_ms > PHX_LEASE_MS_MAX)
		o->lease_ms = PHX_LEASE_MS_MAX;
	return p->kind = PACKET_ORDER;
}

extern enum packet_kind packet_parse(const void *data, size_t len, struct packet *p)
{
	struct phx_hdr hdr;

	memset(p, 0, sizeof(*p));
	if (len < sizeof(hdr))
		return _bad(p, "a whole header");
	memcpy(&hdr, data, sizeof(hdr));
	if (hdr.magic != PHX_MAGIC)
		return _bad(p, "the magic number");
	if (hdr.version != PHX_VERSION)
		return _bad(p, "the version of this overlay");
	if (len > PHX_PACKET_MAX || hdr.length != len || hdr.pad)
		return _bad(p, "the header's length to be the packet's");
	p->type = hdr.type;
	switch (hdr.type) {
	case PHX_WELCOME:
	case PHX_CONFIG:
		return _limits(data, len, p);
	case PHX_ANSWER:
		return _answer(data, len, p);
	case PHX_ORDER:
		return _order(data, len, p);
	case PHX_RESYNC:
		if (len != sizeof(struct phx_resync))
			return _bad(p, "length of a RESYNC");
		return p->kind = PACKET_RESYNC;
	default:
		return _bad(p, "a type that the daemon may send");
	}
}

static bool _may_name(const struct answer_want *want, bool proof, uint32_t n)
{
	uint64_t word = want->candidates[n / 64];

	if (proof && want->left_out)
		word |= want->left_out[n / 64];
	return word >> (n % 64) & 1;
}

/* Every answer that is taken, and what may follow; all others are breaches. Only stock fails a
 * TEST_ONLY. */
enum { RUN = 1 << PHX_RUN_NOW, TEST = 1 << PHX_TEST_ONLY, PLAN = 1 << PHX_WILL_RUN };
#define ONE(reason) (1u << PHX_R_##reason)
static const struct {
	uint8_t modes, verdict, proof, flags, follow;
	uint16_t reasons;
} answers[] = {
	{ RUN | PLAN, PHX_NARROW, PHX_P_NONE, PHX_A_ALL_NODES, FOLLOW_TRY, ONE(NONE) },
	{ TEST, PHX_NARROW, PHX_P_TEST_ONLY, 0, FOLLOW_PROOF, ONE(NONE) },
	{ PLAN, PHX_NARROW, PHX_P_WILL_RUN, 0, FOLLOW_PROOF, ONE(NONE) },
	{ PLAN, PHX_NO_OPINION, PHX_P_WILL_RUN, 0, FOLLOW_CANNOT, ONE(NO_FIT) },
	{ RUN, PHX_NO_OPINION, PHX_P_NO_FIT, 0, FOLLOW_CANNOT, ONE(NO_FIT) },
	{ RUN | PLAN, PHX_NO_OPINION, PHX_P_NONE, 0, FOLLOW_HOLD, ONE(HELD) },
	{ RUN | TEST | PLAN, PHX_NO_OPINION, PHX_P_NONE, 0, FOLLOW_STOCK,
	  ONE(OFF) | ONE(SHADOW) | ONE(NO_FIT) | ONE(UNSUPPORTED) | ONE(NOT_SYNCED) |
	  ONE(NO_CHOICE) | ONE(LATE) },
};

extern enum follow answer_follow(uint16_t mode, const struct phx_answer *a)
{
	uint32_t proof = a->proof ? PHX_A_PROOF : 0;

	if (a->until < a->not_before || (a->flags & PHX_A_PROOF) != proof ||
	    a->reason > PHX_R_LATE) /* others are the plugin's own */
		return FOLLOW_BREACH;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (answers[i].modes >> mode & 1 && answers[i].verdict == a->verdict &&
		    answers[i].reasons >> a->reason & 1 && answers[i].proof == a->proof)
			return a->flags & ~(answers[i].flags | proof) ? FOLLOW_BREACH :
									answers[i].follow;
	}
	return FOLLOW_BREACH;
}

extern enum follow answer_check(const struct packet *p,
				const struct answer_want *want, uint32_t *nodes)
{
	const struct phx_answer *a = &p->answer;
	enum follow follow = answer_follow(want->mode, a);

	if (a->job_id != want->job_id || (a->proof && !want->prove))
		return FOLLOW_BREACH;
	if (follow != FOLLOW_TRY && follow != FOLLOW_PROOF)
		return follow;
	if (!a->count || a->count < want->min_nodes || (a->count > want->max_nodes && !a->proof))
		return FOLLOW_BREACH;
	memcpy(nodes, p->nodes, a->count * sizeof(uint32_t));
	for (uint32_t i = 0; i < a->count; i++) {
		uint32_t n = nodes[i];

		if (n >= want->node_bits || (i && n <= nodes[i - 1]) ||
		    !_may_name(want, a->proof, n))
			return FOLLOW_BREACH;
	}
	return follow;
}

#define FNV_OFFSET_BASIS 0x811c9dc5u

static uint32_t _fnv(uint32_t hash, char c)
{
	return (hash ^ (uint8_t) c) * 0x01000193u;
}

extern uint32_t phx_account_key(const char *account)
{
	uint32_t hash = FNV_OFFSET_BASIS;

	for (const char *c = account ? account : ""; *c; c++)
		hash = _fnv(hash, *c);
	return hash;
}

extern uint16_t phx_name_key(const char *name)
{
	uint32_t hash = FNV_OFFSET_BASIS;
	bool number = false;

	for (const char *c = name ? name : ""; *c; c++) {
		bool digit = *c >= '0' && *c <= '9';

		if (!digit || !number)
			hash = _fnv(hash, digit ? '#' : *c);
		number = digit;
	}
	return (uint16_t) (hash >> 16 ^ (hash & 0xffff));
}
