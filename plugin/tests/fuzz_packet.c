/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_packet.c - libFuzzer target: any bytes as one packet from the daemon.
 * What is accepted must be what the wire format and the ask allow; half of the
 * inputs get a valid header, so that the checks behind it are reached.
 */

#include <string.h>

#include "../inbox.h"
#include "../packet.h"

#define NODE_BITS 200u

static void _expect(int holds)
{
	if (!holds)
		__builtin_trap();
}

static void _check_answer(const struct packet *p, size_t len)
{
	static uint32_t nodes[PHX_ANSWER_NODES_MAX];
	uint64_t words[(NODE_BITS + 63) / 64];
	struct answer_want want = {
		.job_id = p->answer.job_id & 1 ? 1 : p->answer.job_id,
		.min_nodes = p->answer.hdr.seq & 3,
		.max_nodes = 1 + (p->answer.hdr.seq >> 2 & 63),
		.node_bits = NODE_BITS,
		.mode = p->answer.hdr.seq >> 8 & 3,
		.prove = p->answer.hdr.seq >> 10 & 1,
		.candidates = words,
	};
	enum follow follow;
	bool tries;

	memset(words, (int) (p->answer.decision & 0xff), sizeof(words));
	_expect(len == sizeof(p->answer) + 4ull * p->answer.count);
	follow = answer_check(p, &want, nodes);
	tries = follow == FOLLOW_TRY || follow == FOLLOW_PROOF;
	_expect(!follow || want.mode <= PHX_WILL_RUN);
	_expect(want.mode != PHX_TEST_ONLY || follow < FOLLOW_HOLD);
	_expect(!follow || tries == (p->answer.verdict == PHX_NARROW));
	_expect(want.prove || (follow != FOLLOW_PROOF && follow != FOLLOW_CANNOT));
	if (!tries)
		return;
	_expect(p->answer.count >= want.min_nodes &&
		p->answer.count > 0 &&
		(p->answer.count <= want.max_nodes ||
		 follow == FOLLOW_PROOF));
	for (uint32_t i = 0; i < p->answer.count; i++) {
		_expect(nodes[i] < NODE_BITS);
		_expect(!i || nodes[i] > nodes[i - 1]);
		_expect(words[nodes[i] / 64] >> (nodes[i] % 64) & 1);
	}
}

static void _check_order(const struct packet *p, size_t len)
{
	static struct inbox_set got;

	_expect(len == sizeof(p->order) + sizeof(struct phx_delta) * p->order.count);
	_expect(p->order.lease_ms <= PHX_LEASE_MS_MAX);
	(void) inbox_take(p, 1);
	inbox_get(&got, 1);
	_expect(got.count <= PHX_ORDER_JOBS_MAX);
	for (uint32_t i = 0; i < got.count; i++) {
		_expect(got.deltas[i].job_id > (i ? got.deltas[i - 1].job_id : 0));
		_expect(got.deltas[i].delta > 0 && got.deltas[i].delta <= PHX_DELTA_MAX);
	}
}

static void _check_limits(const struct phx_welcome *w)
{
	const struct site site = { .proofs = 1, .hold_max_s = 60,
				   .deadline_us = 2000, .ask_ms = 1200, .refused_pct = 50,
				   .syncs = 10, .held_s = 600, .eject_openings = 10 };
	struct link_limits l = limits_within(w, &site);
	const struct breaker_limits *b = &l.breaker;

	_expect(l.deadline_us - PHX_DEADLINE_US_MIN <= 2000 - PHX_DEADLINE_US_MIN);
	_expect(!(l.flags & (PHX_W_PROVE_NO_FIT | PHX_W_ENABLE)));
	_expect(l.hold_s == 60 && b->ask_ms == 1200);
	_expect(b->late_ms - 1 < 1200 && b->refused_pct - 1 < 50 && b->syncs - 1 < 10);
	_expect(b->held_s - 1 < 600 && b->eject_openings - 1 < 10);
	_expect(b->open_ms <= BREAKER_OPEN_MS_MAX);
}

static void _parse(const uint8_t *data, size_t len)
{
	struct packet p;

	switch (packet_parse(data, len, &p)) {
	case PACKET_BAD:
		_expect(p.why != NULL);
		break;
	case PACKET_LIMITS:
		_check_limits(&p.welcome);
		break;
	case PACKET_ANSWER:
		_check_answer(&p, len);
		break;
	case PACKET_ORDER:
		_check_order(&p, len);
		break;
	case PACKET_RESYNC:
		_expect(len == sizeof(struct phx_resync));
		break;
	}
}

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static uint8_t buf[PHX_PACKET_MAX] __attribute__((aligned(8)));
	struct phx_hdr hdr;

	_parse(data, len);
	if (len < sizeof(hdr) || len > sizeof(buf))
		return 0;
	/* The same body behind a header that is right. */
	memcpy(buf, data, len);
	memcpy(&hdr, buf, sizeof(hdr));
	hdr.magic = PHX_MAGIC;
	hdr.version = PHX_VERSION;
	hdr.type = (uint16_t) (PHX_WELCOME + hdr.type % 6);
	hdr.length = (uint32_t) len;
	hdr.pad = 0;
	memcpy(buf, &hdr, sizeof(hdr));
	if (hdr.type == PHX_ANSWER && len >= sizeof(struct phx_answer)) {
		struct phx_answer a;

		memcpy(&a, buf, sizeof(a));
		a.count = (uint32_t) ((len - sizeof(a)) / 4);
		a.flags &= 15;
		a.proof = a.flags & PHX_A_PROOF ? a.proof % PHX_PROOFS : 0;
		a.pad = 0;
		a.verdict = a.count ? PHX_NARROW : a.verdict & 1;
		a.reason %= PHX_REASONS;
		memcpy(buf, &a, sizeof(a));
	}
	if (hdr.type == PHX_ORDER && len >= sizeof(struct phx_order)) {
		struct phx_order o;

		memcpy(&o, buf, sizeof(o));
		o.count = (uint32_t) ((len - sizeof(o)) / 8);
		o.pad = 0;
		o.generation = 1 + o.generation % 3;
		o.flags %= 8;
		memcpy(buf, &o, sizeof(o));
	}
	_parse(buf, len);
	return 0;
}
