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
extern void test_witness(void); /* unit_witness.c */

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
	REFUSED(a.flags, 16);
	REFUSED(a.proof, PHX_PROOFS);
	REFUSED(a.pad, 1);
	REFUSED(a.verdict, 2);
	REFUSED(a.verdict, PHX_NO_OPINION);
	REFUSED(a.reason, PHX_REASONS);
	for (size_t len = 0; len < m.a.hdr.length; len++)
		CHECK_EQ(packet_parse(&m, len, &p), PACKET_BAD);
	CHECK_EQ(packet_parse(&m, m.a.hdr.length + 4, &p), PACKET_BAD);
	/* As long as its nodes need, but the header says otherwise. */
	m.a.hdr.length += 4;
	CHECK_EQ(packet_parse(&m, m.a.hdr.length - 4, &p), PACKET_BAD);
}

static const struct site site = {
	.proofs = 1, .hold_max_s = 500, .deadline_us = 2000, .ask_ms = 900,
	.refused_pct = 50, .syncs = 10, .held_s = 600, .eject_openings = 8,
};

/* Every member of a WELCOME says this. */
static struct phx_welcome says(uint32_t n)
{
	return (struct phx_welcome) {
		.hdr = { .magic = PHX_MAGIC, .version = PHX_VERSION,
			 .type = PHX_WELCOME, .length = sizeof(struct phx_welcome) },
		.deadline_us = n, .breaker_open_ms = n, .late_budget_ms = n, .refused_pct = n,
		.syncs = n, .held_s = n, .eject_openings = n, .eject_window_s = n,
	};
}

/* A daemon can make each limit stricter than slurm.conf has it, none wider; 0 says nothing. */
static void test_limits(void)
{
	static const uint32_t all[] = { 0, 1, 7, 8, 9, 50, 51, 599, 600, 601, 899, 901, 2001,
					5001, 700000, 0xffffffffu };
	struct phx_welcome w = says(1);
	struct packet p;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint32_t n = all[i];
		struct link_limits l, none;
		const struct site open = { .deadline_us = 20000, .ask_ms = 6000 };

		w = says(n);
		CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_LIMITS);
		l = limits_within(&p.welcome, &site);
		none = limits_within(&p.welcome, &open);
		CHECK_EQ(l.breaker.refused_pct, n && n < 50 ? n : 50);
		CHECK_EQ(l.breaker.syncs, n && n < 10 ? n : 10);
		CHECK_EQ(l.breaker.held_s, n && n < 600 ? n : 600);
		CHECK_EQ(l.breaker.eject_openings, n && n < 8 ? n : 8);
		CHECK_EQ(l.breaker.late_ms, n && n < 900 ? n : 900);
		CHECK_EQ(l.breaker.ask_ms, 900);
		CHECK_EQ(l.hold_s, 500);
		CHECK(l.deadline_us >= PHX_DEADLINE_US_MIN && l.deadline_us <= 2000);
		CHECK_EQ(l.breaker.deadline_us, l.deadline_us);
		CHECK(l.breaker.open_ms >= PHX_BREAKER_OPEN_MS_MIN);
		CHECK(l.breaker.eject_window_s >= PHX_EJECT_WINDOW_S_MIN);
		/* Only slurm.conf takes a limit away; then the daemon's counts. */
		CHECK_EQ(none.breaker.syncs, n);
		CHECK_EQ(none.breaker.held_s, n);
		CHECK_EQ(none.hold_s, 0);
	}

	/* Proofs are on where both say so; what would close the breaker is not heeded. */
	w = says(1);
	w.flags = 0xff;
	CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_LIMITS);
	CHECK_EQ(limits_within(&p.welcome, &site).flags,
		 PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN | PHX_W_MAY_HOLD | PHX_W_ORDER |
		 PHX_W_PROVE_TEST_ONLY | PHX_W_PROVE_WILL_RUN);
	p.welcome.flags = PHX_W_PROVE_TEST_ONLY;
	for (uint32_t proofs = 0; proofs < 3; proofs++) {
		const struct site other = { .proofs = proofs };

		CHECK_EQ(limits_within(&p.welcome, &other).flags, proofs ? p.welcome.flags : 0);
		w.flags = PHX_W_PROVE_NO_FIT;
		CHECK_EQ(limits_within(&w, &other).flags, proofs == 2 ? w.flags : 0);
	}
	w.flags = 512;
	CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_BAD);
	w = says(1);
	w.pad = 1;
	CHECK_EQ(packet_parse(&w, sizeof(w), &p), PACKET_BAD);
}

/* What a daemon may bring about, in other words than the table's. */
static enum follow may_follow(uint16_t mode, const struct phx_answer *a)
{
	bool nodes = a->verdict == PHX_NARROW, proved = a->flags & PHX_A_PROOF;
	static const uint32_t kinds[] = { PHX_P_NO_FIT, PHX_P_TEST_ONLY, PHX_P_WILL_RUN };

	if (mode > PHX_WILL_RUN || nodes != (a->reason == PHX_R_NONE))
		return FOLLOW_BREACH;
	if (a->proof != (proved ? kinds[mode] : PHX_P_NONE) || a->reason > PHX_R_LATE)
		return FOLLOW_BREACH;
	if (a->flags & ~(PHX_A_ALL_NODES | PHX_A_PROOF))
		return FOLLOW_BREACH;
	if (a->flags & PHX_A_ALL_NODES && (!nodes || proved))
		return FOLLOW_BREACH;
	if (mode == PHX_TEST_ONLY) /* only a success is shorter */
		return a->reason == PHX_R_HELD || nodes != proved ? FOLLOW_BREACH :
		       nodes ? FOLLOW_PROOF : FOLLOW_STOCK;
	if (nodes)
		return !proved ? FOLLOW_TRY :
		       mode == PHX_WILL_RUN ? FOLLOW_PROOF : FOLLOW_BREACH;
	if (proved)
		return a->reason == PHX_R_NO_FIT ? FOLLOW_CANNOT : FOLLOW_BREACH;
	return a->reason == PHX_R_HELD ? FOLLOW_HOLD : FOLLOW_STOCK;
}

/* Every mode, verdict, reason, proof and flag. */
static void test_table(void)
{
	uint32_t counts[FOLLOW_CANNOT + 1] = {0};

	for (uint32_t i = 0; i < 4 * 2 * PHX_REASONS * PHX_PROOFS * 16; i++) {
		struct phx_answer a = {
			.verdict = i / 4 % 2,
			.reason = i / 8 % PHX_REASONS,
			.proof = i / 8 / PHX_REASONS % PHX_PROOFS,
			.flags = i / 8 / PHX_REASONS / PHX_PROOFS,
		};
		uint16_t mode = i % 4;
		enum follow follow = answer_follow(mode, &a);

		CHECK_EQ(follow, may_follow(mode, &a));
		counts[follow]++;
		CHECK(mode != PHX_TEST_ONLY || follow < FOLLOW_HOLD);
		a.not_before = 1; /* later than `until` */
		CHECK_EQ(answer_follow(mode, &a), FOLLOW_BREACH);
		a.until = 1;
		CHECK_EQ(answer_follow(mode, &a), follow);
		a.reason += 32; /* a bit beyond those of the table's reasons */
		CHECK_EQ(answer_follow(mode, &a), FOLLOW_BREACH);
	}
	CHECK_EQ(counts[FOLLOW_STOCK], 3 * 7);
	CHECK_EQ(counts[FOLLOW_TRY], 2 * 2);
	CHECK_EQ(counts[FOLLOW_PROOF], 2);
	CHECK_EQ(counts[FOLLOW_HOLD], 2);
	CHECK_EQ(counts[FOLLOW_CANNOT], 2);
}

static enum follow judge(struct message m, struct answer_want want)
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

	CHECK_EQ(judge(m, want), FOLLOW_TRY);
	other = want;
	other.job_id = 8;
	CHECK_EQ(judge(m, other), FOLLOW_BREACH);
	other = want;
	other.min_nodes = 4;
	CHECK_EQ(judge(m, other), FOLLOW_BREACH);
	other = want;
	other.max_nodes = 2;
	CHECK_EQ(judge(m, other), FOLLOW_BREACH);
	other = want;
	other.node_bits = 64; /* node 64 is beyond the table */
	CHECK_EQ(judge(m, other), FOLLOW_BREACH);
	m.nodes[1] = 2; /* no candidate */
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
	m = good(3);
	m.nodes[1] = 1; /* twice */
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
	m.nodes[0] = 3; /* not ascending */
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
	m.nodes[0] = 0xffffffffu;
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
	other = want;
	other.min_nodes = 0;
	CHECK_EQ(judge(good(0), other), FOLLOW_BREACH); /* none at all */
	m = good(0);
	m.a.verdict = PHX_NO_OPINION;
	m.a.reason = PHX_R_NO_FIT;
	CHECK_EQ(judge(m, want), FOLLOW_STOCK);
	m.a.reason = PHX_R_TIMEOUT; /* the plugin's own, not the daemon's */
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
	m.a.reason = PHX_R_NONE;
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);

	/* A proof only where one was asked for; more nodes, and such as were left out. */
	want.mode = PHX_WILL_RUN;
	want.max_nodes = 2;
	want.left_out = (uint64_t[]) { 1 << 2, 0 };
	m = good(3);
	m.nodes[1] = 2;
	m.a.flags = PHX_A_PROOF;
	m.a.proof = PHX_P_WILL_RUN;
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
	want.prove = true;
	m.nodes[2] = 5;
	CHECK_EQ(judge(m, want), FOLLOW_PROOF);
	m.a.flags = m.a.proof = 0;
	want.max_nodes = 3;
	CHECK_EQ(judge(m, want), FOLLOW_BREACH);
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
	test_witness();
	test_keys();
	test_parse();
	test_limits();
	test_table();
	test_answer();
	test_hist();
	test_pktbuf();
	test_orders();
	puts("unit: ok");
	return 0;
}
