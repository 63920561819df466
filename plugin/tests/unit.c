/* SPDX-License-Identifier: GPL-2.0-or-later */
/* unit.c - the parts that know nothing of Slurm: breaker, packet checks,
 * histogram, packet buffer. */

#include <string.h>

#include "../breaker.h"
#include "../packet.h"
#include "../pktbuf.h"
#include "../stats.h"
#include "check.h"

#define MS 1000000ull

struct message {
	struct phx_answer a;
	uint32_t nodes[8];
};

static struct message good(uint32_t count)
{
	struct message m = {
		.a = { .hdr = { .magic = PHX_MAGIC, .version = PHX_VERSION,
				.type = PHX_ANSWER,
				.length = (uint32_t) (sizeof(m.a) + 4 * count),
				.seq = 9 },
		       .job_id = 7, .verdict = PHX_NARROW, .count = count },
		.nodes = { 1, 3, 64, 65, 66, 67, 68, 69 },
	};
	return m;
}

extern void test_orders(void);  /* unit_order.c */
extern void test_breaker(void); /* unit_breaker.c */

static enum packet_kind parse(const struct message *m)
{
	struct packet p;
	enum packet_kind kind = packet_parse(m, m->a.hdr.length, &p);

	CHECK((kind == PACKET_BAD) == (p.why != NULL));
	return kind;
}

#define REFUSED(field, value) \
	do { \
		struct message m_ = good(3); \
		m_.field = (value); \
		CHECK_EQ(parse(&m_), PACKET_BAD); \
	} while (0)

static void test_parse(void)
{
	struct message m = good(3);
	struct packet p;

	CHECK_EQ(parse(&m), PACKET_ANSWER);
	REFUSED(a.hdr.magic, PHX_MAGIC + 1);
	REFUSED(a.hdr.version, PHX_VERSION + 1);
	REFUSED(a.hdr.type, PHX_ASK);
	REFUSED(a.hdr.pad, 1);
	REFUSED(a.hdr.length, 24);
	REFUSED(a.hdr.length, sizeof(m.a) + 11);
	REFUSED(a.count, 2);
	REFUSED(a.count, PHX_ANSWER_NODES_MAX + 1);
	REFUSED(a.count, 0xffffffffu);
	REFUSED(a.flags, 8);
	REFUSED(a.flags, PHX_A_VERIFY); /* of nothing */
	REFUSED(a.proof, PHX_PROOFS);
	REFUSED(a.pad, 1);
	REFUSED(a.verdict, 2);
	REFUSED(a.verdict, PHX_NO_OPINION);
	REFUSED(a.reason, PHX_REASONS);
	for (size_t len = 0; len < m.a.hdr.length; len++)
		CHECK_EQ(packet_parse(&m, len, &p), PACKET_BAD);
	CHECK_EQ(packet_parse(&m, m.a.hdr.length + 4, &p), PACKET_BAD);
}

static void test_limits(void)
{
	struct phx_welcome w = {
		.hdr = { .magic = PHX_MAGIC, .version = PHX_VERSION,
			 .type = PHX_WELCOME, .length = sizeof(w) },
		.deadline_us = 0xffffffffu, .late_budget_ms = 0,
		.eject_openings = 0xffffffffu, .eject_window_s = 0,
		.breaker_open_ms = 0xffffffffu, .flags = PHX_W_ASK_RUN_NOW,
	};
	struct packet p;

	/* A daemon cannot make slurmctld wait beyond the overlay's bounds. */
	CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_LIMITS);
	CHECK_EQ(p.welcome.deadline_us, PHX_DEADLINE_US_MAX);
	CHECK_EQ(p.welcome.late_budget_ms, 1);
	CHECK_EQ(p.welcome.eject_openings, BREAKER_CROSSINGS_MAX);
	CHECK_EQ(p.welcome.eject_window_s, 1);
	CHECK_EQ(p.welcome.breaker_open_ms, PHX_BREAKER_OPEN_MS_MAX);
	w.deadline_us = 0;
	w.late_budget_ms = 0xffffffffu;
	CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_LIMITS);
	CHECK_EQ(p.welcome.deadline_us, PHX_DEADLINE_US_MIN);
	CHECK_EQ(p.welcome.late_budget_ms, PHX_LATE_MS_MAX);
	w.flags = 256;
	CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_BAD);
}

static uint16_t judge(struct message m, struct answer_want want)
{
	uint32_t nodes[PHX_ANSWER_NODES_MAX];
	struct packet p;

	CHECK_EQ(packet_parse(&m, m.a.hdr.length, &p), PACKET_ANSWER);
	return answer_check(&p, &want, nodes);
}

static void test_answer(void)
{
	uint64_t words[2] = { 1u << 1 | 1u << 3 | 1u << 5, 1u << 0 | 1u << 1 };
	struct answer_want want = { .job_id = 7, .min_nodes = 2, .max_nodes = 3,
				    .node_bits = 66, .candidates = words };
	struct answer_want other;
	struct message m = good(3);

	CHECK_EQ(judge(m, want), PHX_R_NONE);
	other = want;
	other.job_id = 8;
	CHECK_EQ(judge(m, other), PHX_R_INVALID);
	other = want;
	other.min_nodes = 4;
	CHECK_EQ(judge(m, other), PHX_R_INVALID);
	other = want;
	other.max_nodes = 2;
	CHECK_EQ(judge(m, other), PHX_R_INVALID);
	other = want;
	other.node_bits = 64; /* node 64 is beyond the table */
	CHECK_EQ(judge(m, other), PHX_R_INVALID);
	m.nodes[1] = 2; /* no candidate */
	CHECK_EQ(judge(m, want), PHX_R_INVALID);
	m = good(3);
	m.nodes[1] = 1; /* twice */
	CHECK_EQ(judge(m, want), PHX_R_INVALID);
	m.nodes[0] = 3; /* not ascending */
	CHECK_EQ(judge(m, want), PHX_R_INVALID);
	m.nodes[0] = 0xffffffffu;
	CHECK_EQ(judge(m, want), PHX_R_INVALID);
	other = want;
	other.min_nodes = 0;
	CHECK_EQ(judge(good(0), other), PHX_R_INVALID); /* none at all */
	m = good(0);
	m.a.verdict = PHX_NO_OPINION;
	m.a.reason = PHX_R_NO_FIT;
	CHECK_EQ(judge(m, want), PHX_R_NO_FIT);
	m.a.reason = PHX_R_TIMEOUT; /* the plugin's own, not the daemon's */
	CHECK_EQ(judge(m, want), PHX_R_INVALID);
	m.a.reason = PHX_R_NONE;
	CHECK_EQ(judge(m, want), PHX_R_INVALID);
}

static void test_hist(void)
{
	uint64_t hist[PHX_LAT_BUCKETS] = {0};

	stat_hist(hist, 0);
	stat_hist(hist, 1);
	stat_hist(hist, 1023);
	stat_hist(hist, 1024);
	stat_hist(hist, ~0ull);
	stat_hist(hist, 15);
	stat_hist(hist, 16);
	stat_hist(hist, 1920);
	stat_hist(hist, 2000);
	stat_hist(hist, 0xffffffffull);
	CHECK_EQ(hist[0], 1);
	CHECK_EQ(hist[1], 1);
	CHECK_EQ(hist[15], 1);
	CHECK_EQ(hist[16], 1);
	CHECK_EQ(hist[7 * 8 - 1 + 8], 1);         /* [960, 1024) */
	CHECK_EQ(hist[8 * 8], 1);                 /* [1024, 1152) */
	CHECK_EQ(hist[8 * 8 + 7], 2);             /* [1920, 2048) */
	CHECK_EQ(hist[PHX_LAT_BUCKETS - 1], 2);
}

static void test_pktbuf(void)
{
	struct pktbuf a = {0}, b = {0};
	uint64_t expected = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		struct phx_hdr *h = pktbuf_add(&a, PHX_JOB_END,
					       sizeof(struct phx_job_end));
		CHECK(h && h->magic == PHX_MAGIC && h->length == 40);
		h->seq = i;
	}
	CHECK(pktbuf_append(&b, &a) && pktbuf_append(&b, &a));
	CHECK_EQ(b.count, 2000);
	for (size_t at = 0; at < b.len; expected++) {
		struct phx_hdr *h = (struct phx_hdr *) (b.data + at);

		CHECK_EQ(h->seq, expected % 1000);
		at += h->length;
	}
	CHECK_EQ(expected, 2000);
	a.failed = true; /* an incomplete row must not look complete */
	CHECK(!pktbuf_append(&b, &a));
	pktbuf_free(&a);
	pktbuf_free(&b);
}

/* The same values as in the daemon's test: src/methods/learn/class.rs. */
static void test_keys(void)
{
	CHECK_EQ(phx_name_key(NULL), phx_name_key(""));
	CHECK_EQ(phx_name_key(""), 0x1cd9);
	CHECK_EQ(phx_name_key("train_007"), phx_name_key("train_12"));
	CHECK_EQ(phx_name_key("train_007"), 0x42f4);
	CHECK_EQ(phx_name_key("fold3of5.sh"), 0xc939);
	CHECK(phx_name_key("train") != phx_name_key("train_007"));
	CHECK_EQ(phx_name_key("gr\xc3\xb6\xc3\x9f" "e"), 0x39a2);
	CHECK_EQ(phx_account_key(NULL), 0x811c9dc5u);
	CHECK_EQ(phx_account_key("a"), 0xe40c292cu);
	CHECK_EQ(phx_account_key("foobar"), 0xbf9cf968u);
}

int main(void)
{
	test_breaker();
	test_keys();
	test_parse();
	test_limits();
	test_answer();
	test_hist();
	test_pktbuf();
	test_orders();
	puts("unit: ok");
	return 0;
}
