/* SPDX-License-Identifier: GPL-2.0-or-later */
/* unit_breaker.c - the breaker, with a time of the test's own. */

#include <stdlib.h>
#include <string.h>

#include "../breaker.h"
#include "check.h"

#define MS 1000000ull
#define S (1000 * MS)

extern void test_breaker(void);

static const struct breaker_limits limits = {
	.deadline_us = 20000, .ask_ms = 1200,
	.late_ms = 300, .open_ms = 1000, .refused_pct = 50, .syncs = 10,
	.held_s = 600, .eject_openings = 4, .eject_window_s = 3600,
};

/* One miss of 2 ms. RET true if an ask was allowed at all */
static bool miss(struct breaker *b, uint64_t now)
{
	if (!breaker_allows(b, now))
		return false;
	breaker_asked(b, now, 2 * MS, false, &limits);
	return true;
}

static void hit(struct breaker *b, uint64_t now)
{
	breaker_asked(b, now, 0, true, &limits);
}

static void test_late(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;
	int misses = 0;

	/* Three in a row, which once cost five seconds without placement. */
	for (int i = 0; i < 3; i++)
		CHECK(miss(&b, now += 2 * MS));
	CHECK_EQ(b.state, BREAKER_CLOSED);
	/* As much late time as the budget has, evenly, is within it for ever. */
	for (int i = 0; i < 10000; i++) {
		CHECK(miss(&b, now += 400 * MS));
		if (i % 10 == 0)
			hit(&b, now);
	}
	CHECK_EQ(b.opens, 0);
	/* Mostly misses: it opens when the budget is spent. */
	for (; misses < 1000 && miss(&b, now += 2 * MS); misses++)
		hit(&b, now);
	CHECK(misses >= 145 && misses <= 155);
	CHECK_EQ(b.opens, 1);
	CHECK_EQ(b.breach, PHX_B_LATE);
	CHECK_EQ(b.breaches[PHX_B_LATE], 1);
}

/* No answer at all costs far less than the budget, whenever the asks come. */
static void test_silent(void)
{
	static const uint64_t pauses[] = { 2 * MS, 400 * MS, 900 * S };

	for (int i = 0; i < 3; i++) {
		struct breaker b = {0};
		uint64_t now = 5 * S;
		uint32_t misses = 0;

		for (; b.state == BREAKER_CLOSED; misses++)
			CHECK(miss(&b, now += pauses[i]));
		CHECK_EQ(misses, BREAKER_SILENT);
		CHECK_EQ(b.breach, PHX_B_LATE);
		CHECK(breaker_allows(&b, now += S));
		hit(&b, now);
		/* One answer among so many, and it is not silent. */
		for (uint32_t n = 1; n < 2 * BREAKER_SILENT; n++) {
			CHECK(miss(&b, now += pauses[i]));
			if (n == BREAKER_SILENT - 1)
				hit(&b, now);
		}
	}
}

static void test_half_open(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;

	while (miss(&b, now += 2 * MS))
		;
	CHECK(!breaker_allows(&b, now + 900 * MS));
	now += S;
	/* One ask, no second until it has decided. */
	CHECK(breaker_allows(&b, now));
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
	CHECK(!breaker_allows(&b, now));
	breaker_cancel(&b); /* not asked after all: may ask again */
	CHECK(breaker_allows(&b, now));
	breaker_asked(&b, now, 2 * MS, false, &limits);
	CHECK_EQ(b.opens, 2);
	/* That is no new crossing, and once the daemon is well it is soon seen,
	 * however long it was not. */
	CHECK_EQ(b.breaches[PHX_B_LATE], 1);
	for (int i = 0; i < 100; i++) {
		CHECK(!breaker_allows(&b, now + 999 * MS));
		CHECK(miss(&b, now += S));
	}
	CHECK(breaker_allows(&b, now += S));
	hit(&b, now);
	CHECK_EQ(b.state, BREAKER_CLOSED);
	breaker_cancel(&b); /* nothing to do when closed */
	CHECK(breaker_allows(&b, now));
	/* Crossed soon again: twice as long.  After quiet: as at first. */
	while (miss(&b, now += 2 * MS))
		;
	CHECK(!breaker_allows(&b, now + 1900 * MS));
	CHECK(breaker_allows(&b, now += 2 * S));
	hit(&b, now);
	now += BREAKER_QUIET_NS;
	while (miss(&b, now += 2 * MS))
		;
	CHECK(breaker_allows(&b, now += S));
}

/* Answers for jobs [from, to) of so many users and partitions, until the breaker opens, every
 * `kept`th taken. */
static void tried(struct breaker *b, uint64_t *now, uint32_t from, uint32_t to,
		  uint32_t users, uint32_t parts, uint32_t kept)
{
	for (uint32_t i = from; i < to && b->state == BREAKER_CLOSED; i++)
		breaker_tried(b, *now += MS, i,
			      BREAKER_WHO(1000 + i % users, 1 + i % parts),
			      kept && i % kept == 0, &limits);
}

static void test_refused(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;

	for (int i = 0; i < 1000; i++)
		breaker_tried(&b, now += MS, i, 0, i % 3, &limits);
	CHECK_EQ(b.state, BREAKER_CLOSED);
	/* One job that each pass tries in vain says nothing of the others. */
	for (int i = 0; i < 5000; i++)
		breaker_tried(&b, now += MS, 7, 0, false, &limits);
	CHECK_EQ(b.state, BREAKER_CLOSED);
	for (int i = 2000; i < 2500 && b.state == BREAKER_CLOSED; i++)
		breaker_tried(&b, now += MS, i, 0, false, &limits);
	CHECK_EQ(b.breach, PHX_B_REFUSED);
	CHECK_EQ(b.state, BREAKER_OPEN);
	/* One user's jobs, one partition's, or those of few, for an hour: nothing opens. */
	b = (struct breaker) {0};
	for (uint32_t i = 0; i < 60; i++, now += 60 * S) {
		tried(&b, &now, 5000 * i, 5000 * i + 4900, 1, 100, 0);
		tried(&b, &now, 5000 * i + 4900, 5000 * i + 5000, 7, 7, 1);
	}
	CHECK_EQ(b.opens, 0);
	for (uint32_t i = 60; i < 120; i++, now += 60 * S) {
		tried(&b, &now, 5000 * i, 5000 * i + 4900, 100, 1, 0);
		tried(&b, &now, 5000 * i + 4900, 5000 * i + 5000, 7, 7, 1);
	}
	b = (struct breaker) {0};
	tried(&b, &now, 700000, 710000, 3, 100, 0);
	tried(&b, &now, 710000, 710100, 7, 7, 1);
	CHECK_EQ(b.opens, 0);
	/* Those of many in many partitions do: the daemon is wrong. */
	b = (struct breaker) {0};
	tried(&b, &now, 720000, 720200, 50, 20, 0);
	CHECK_EQ(b.breach, PHX_B_REFUSED);
	/* Too few say nothing, and what is old is forgotten. */
	b = (struct breaker) {0};
	for (uint32_t i = 0; i < BREAKER_TRIED_MIN - 1; i++)
		breaker_tried(&b, now += MS, i, 0, false, &limits);
	now += 3600 * S;
	for (uint32_t i = 0; i < BREAKER_TRIED_MIN; i++)
		breaker_tried(&b, now += MS, i, 0, true, &limits);
	CHECK_EQ(b.opens, 0);
}

static void test_syncs(void)
{
	static const uint64_t pauses[] = { 0, 0, 0, 1 * S, 2 * S, 4 * S, 4 * S };
	struct breaker b = {0};
	uint64_t now = 5 * S, at;
	uint64_t times[128];
	int sent = 0;

	/* What changes in slurmctld costs nothing and waits for nothing. */
	for (int i = 0; i < 100; i++) {
		CHECK(!breaker_sync_at(&b, now += MS, false));
		breaker_sync(&b, now, false, &limits);
	}
	CHECK_EQ(b.opens, 0);
	/* One that asks again at once has to wait, longer each time. */
	for (int i = 0; i < 7; i++) {
		at = breaker_sync_at(&b, now, true);
		CHECK_EQ(at, pauses[i] ? now + pauses[i] : 0);
		breaker_sync(&b, now += pauses[i], true, &limits);
	}
	CHECK_EQ(b.opens, 0);
	/* A daemon that asks again and again. */
	b = (struct breaker) {0};
	for (now = 5 * S; b.state == BREAKER_CLOSED && sent < 100; sent++) {
		at = breaker_sync_at(&b, now, true);
		now = at ? at : now + MS;
		breaker_sync(&b, now, true, &limits);
	}
	CHECK_EQ(sent, 10);
	CHECK_EQ(b.breach, PHX_B_SYNCS);
	at = breaker_sync_at(&b, now, true);
	CHECK(at >= now + S); /* open: none before its time */
	CHECK_EQ(breaker_sync_at(&b, now + 60 * S, true), 0);
	/* In no minute does it get more, and it is ejected in the end. */
	b = (struct breaker) {0};
	for (sent = 0, now = 5 * S; sent < 128 && b.state != BREAKER_EJECTED; sent++) {
		times[sent] = now;
		breaker_sync(&b, now, true, &limits);
		at = breaker_sync_at(&b, now, true);
		now = at ? at : now + MS;
		if (sent >= 10)
			CHECK(times[sent] - times[sent - 10] >= 60 * S);
	}
	CHECK_EQ(b.state, BREAKER_EJECTED);
}

/* RET true if a job of the user is held */
static bool hold(struct breaker *b, uint64_t now, uint32_t user, uint32_t part)
{
	bool ended, may = breaker_hold(b, now, user, part, true, &limits, &ended);

	CHECK(!(may && ended));
	return may;
}

/* Hold jobs of the user each 10 s until it is over. RET the time then */
static uint64_t hold_long(struct breaker *b, uint64_t now, uint32_t user,
			  uint32_t part)
{
	int held = 0;

	while (hold(b, now += 10 * S, user, part) && held < 1000)
		held++;
	/* 600 s an hour of one user in one partition. */
	CHECK(held >= 60 && held <= 75);
	return now;
}

static void test_held(void)
{
	struct breaker b = {0};
	uint64_t now = hold_long(&b, 5 * S, 7, 1), begin = now, held_ns;
	bool ended;

	/* Stock decides for this user there, and only for this one ... */
	CHECK_EQ(b.state, BREAKER_CLOSED);
	CHECK_EQ(b.opens, 0);
	held_ns = b.held_ns;
	CHECK(!breaker_hold(&b, now += S, 7, 1, true, &limits, &ended) && !ended);
	CHECK(hold(&b, now, 7, 2) && hold(&b, now, 8, 1));
	CHECK(breaker_allows(&b, now));
	/* ... until half of it is forgotten; what is not held costs nothing. */
	while (!hold(&b, now += 10 * S, 7, 1))
		;
	CHECK(now - begin >= 1750 * S && now - begin <= 1850 * S);
	CHECK_EQ(b.held_ns, held_ns);
	/* Then it may be held for as long as half of the hour's budget. */
	begin = now;
	while (hold(&b, now += 10 * S, 7, 1))
		;
	CHECK(now - begin >= 300 * S && now - begin <= 400 * S);
	CHECK_EQ(b.opens, 0);
	/* What others hold, or a job once a quarter of an hour, is nothing. */
	b = (struct breaker) {0};
	for (uint32_t user = 0; user < 2000; user++)
		CHECK(hold(&b, now += S, user, 1));
	for (int i = 0; i < 1000; i++)
		CHECK(hold(&b, now += 900 * S, 7, 1));
	CHECK_EQ(b.opens, 0);
}

/* Jobs of users [from, to) held each 10 s for 800 s. RET the time then */
static uint64_t hold_all(struct breaker *b, uint64_t now, uint32_t from,
			 uint32_t to)
{
	for (int i = 0; i < 80; i++, now += 10 * S)
		for (uint32_t user = from; user < to; user++)
			(void) hold(b, now, user, 1);
	return now;
}

static void test_held_by_many(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;

	/* One user in many partitions does not open it, nor do others who
	 * come one after the other. */
	for (uint32_t part = 0; part < 2 * BREAKER_HELD_USERS; part++)
		(void) hold_long(&b, now, 7, part);
	for (uint32_t user = 0; user < 2 * BREAKER_HELD_USERS; user++)
		now = hold_all(&b, now + 900 * S, user, user + 1);
	CHECK_EQ(b.opens, 0);
	/* Some more at a time do: the daemon holds whom it likes. */
	b = (struct breaker) {0};
	now = hold_all(&b, now, 10, 10 + BREAKER_HELD_USERS - 1);
	CHECK_EQ(b.opens, 0);
	now = hold_all(&b, now, 20, 21);
	CHECK_EQ(b.opens, 1);
	CHECK_EQ(b.breach, PHX_B_HELD);
	/* The next crossing needs as many others. */
	now = hold_all(&b, now, 30, 30 + BREAKER_HELD_USERS - 1);
	CHECK_EQ(b.breaches[PHX_B_HELD], 1);
	CHECK(!hold(&b, now, 10, 1) && !hold(&b, now, 30, 1));
	(void) hold_all(&b, now, 40, 41);
	CHECK_EQ(b.breaches[PHX_B_HELD], 2);
	breaker_enable(&b, now);
	CHECK(hold(&b, now, 10, 1) && hold(&b, now, 30, 1));
	/* What cannot start by a proof has its end as well, and opens nothing. */
	for (int i = 0; i < 80; i++, now += 10 * S) {
		for (uint32_t user = 50; user < 50 + 2 * BREAKER_HELD_USERS; user++) {
			bool ended, may = breaker_hold(&b, now, user, 2, false, &limits, &ended);

			CHECK(may == (i < 72) || (i > 60 && i < 75));
		}
	}
	CHECK_EQ(b.breaches[PHX_B_HELD], 2);
}

static void test_eject(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;

	for (int i = 0; i < 4; i++) {
		CHECK(!breaker_is_ejected(&b));
		while (miss(&b, now += 2 * MS))
			;
		now += 600 * S;
		if (breaker_allows(&b, now))
			hit(&b, now);
	}
	CHECK(breaker_is_ejected(&b));
	CHECK_EQ(b.ejections, 1);
	CHECK(!breaker_allows(&b, now + 86400 * S)); /* for good */
	CHECK_EQ(breaker_sync_at(&b, now + 86400 * S, false), UINT64_MAX);
	CHECK_EQ(breaker_sync_at(&b, now + 86400 * S, true), UINT64_MAX);
	breaker_enable(&b, now);
	CHECK(breaker_allows(&b, now));
	CHECK_EQ(breaker_sync_at(&b, now, true), 0);
	CHECK_EQ(b.ejections, 1); /* counters stay */
	/* As many, further apart: it stays in use. */
	for (int i = 0; i < 20; i++) {
		while (miss(&b, now += 2 * MS))
			;
		now += 1300 * S;
		CHECK(breaker_allows(&b, now));
		hit(&b, now);
	}
	CHECK_EQ(b.ejections, 1);
}

/* One that stock refuted is enough, whatever the limits are, and in any state. */
static void test_refuted(void)
{
	const struct breaker_limits none = { .open_ms = 1000 };
	uint64_t now = 5 * S;

	for (int opened = 0; opened < 2; opened++) {
		struct breaker b = {0};

		while (opened && miss(&b, now += 2 * MS))
			;
		breaker_refuted(&b, now += MS, &none);
		CHECK(breaker_is_ejected(&b));
		CHECK_EQ(b.breach, PHX_B_REFUTED);
		breaker_refuted(&b, now += MS, &none);
		CHECK_EQ(b.ejections, 1);
		CHECK(!breaker_allows(&b, now + 86400 * S));
		breaker_enable(&b, now);
		CHECK(breaker_allows(&b, now));
	}
}

/* Time spent in the minute before `now`; `log` has the asks' ends and durations. */
static uint64_t of_minute(uint64_t (*log)[2], int count, uint64_t now)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += log[i][0] + 60 * S > now ? log[i][1] : 0;
	return sum;
}

/* Asks as soon as they are allowed, for ten minutes, each answered in time: in no minute is more
 * waited than the budget, and over all not much less. */
static void budget(uint64_t least_us, uint64_t most_us, unsigned int seed)
{
	static uint64_t log[400000][2];
	struct breaker b = {0};
	uint64_t now = 5 * S, sum = 0;
	int count = 0;

	while (now < 605 * S) {
		uint64_t took = (least_us + (uint64_t) rand_r(&seed) %
					    (most_us - least_us + 1)) * 1000;

		if (breaker_spent(&b, now)) {
			now = b.spent_ns;
			continue;
		}
		now += took;
		breaker_pay(&b, now, took, 0, &limits);
		CHECK(count < 400000);
		log[count][0] = now;
		log[count++][1] = took;
		sum += took;
		if (count % 50 == 0 || took > 10 * MS)
			CHECK(of_minute(log + (count > 30000 ? count - 30000 : 0),
					count > 30000 ? 30000 : count, now) <= 1200 * MS);
	}
	CHECK_EQ(b.state, BREAKER_CLOSED); /* it is no fault */
	CHECK_EQ(b.opens, 0);
	CHECK(sum >= 10 * 900 * MS && sum <= 10 * 900 * MS + 300 * MS);
}

static void test_budget(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;

	budget(17500, 17500, 1); /* of 20 ms */
	budget(50, 60, 1);
	budget(10, 20000, 1);
	budget(20000, 20000, 1);
	/* 50 us each, a thousand in a burst once a second: never spent. */
	for (int i = 0; i < 250000; i++) {
		CHECK(!breaker_spent(&b, now));
		breaker_pay(&b, now += 50000, 50000, 0, &limits);
		if (i % 250 == 0)
			now += S;
	}
	/* Asks of 1 ms: one in a thousand saves nothing, the rest more than they take. */
	for (int i = 0; i < 20000; i++) {
		CHECK(!breaker_spent(&b, now));
		breaker_pay(&b, now += 100 * MS, 1 * MS, i % 1000 ? 14 * MS : 0, &limits);
	}
	/* An eighth is paid, and what was not saved. */
	b = (struct breaker) {0};
	breaker_pay(&b, now, 80 * MS, 10 * S, &limits);
	CHECK_EQ((uint64_t) b.asked.level, 10 * MS);
	breaker_pay(&b, now, 80 * MS, 50 * MS, &limits);
	CHECK_EQ((uint64_t) b.asked.level, 40 * MS);
	CHECK(!breaker_spent(&b, now));
	/* The order of starts waits earlier: half of what there is at once is for asks. */
	b = (struct breaker) {0};
	breaker_pay(&b, now, 150 * MS, 0, &limits);
	CHECK(breaker_spares(&b, now, &limits));
	breaker_pay(&b, now, 1 * MS, 0, &limits);
	CHECK(!breaker_spares(&b, now, &limits) && !breaker_spent(&b, now));
	CHECK(breaker_spares(&b, now + S, &limits));
	/* One that lasted for long is paid for, and then it goes on. */
	breaker_pay(&b, now += 2 * S, 2 * S, 0, &limits);
	CHECK(breaker_spent(&b, now + 60 * S));
	CHECK(!breaker_spent(&b, now + 180 * S));
}

/* A daemon that stands still costs little at first, then one deadline for each
 * time of opening: with 1 s two thousandths of the time. */
static void test_frozen(void)
{
	struct breaker b = {0};
	uint64_t now = 5 * S;

	while (miss(&b, now += 2 * MS))
		;
	for (; now < 86400 * S; now += 50 * MS)
		(void) miss(&b, now);
	CHECK(b.late_ns <= (BREAKER_SILENT + 86400) * 2 * MS);
	CHECK(!breaker_is_ejected(&b));
}

/*
 * Whatever the daemon does: in no minute is more waited in vain than the
 * budget and one ask more, before it is ejected no more than its openings
 * allow, afterwards nothing; and closed means that an ask is made.
 */
static void test_any(unsigned int seed)
{
	struct breaker b = {0};
	uint64_t now = 5 * S, late = 0, minute = 0, spent = 0;

	for (int i = 0; i < 20000; i++) {
		uint32_t state = b.state;
		int what = rand_r(&seed) % 100;
		uint64_t waited = 2 * MS;

		now += (uint64_t) (rand_r(&seed) % 20000) * 1000;
		if (now / (60 * S) != minute) {
			minute = now / (60 * S);
			spent = 0;
		}
		if (!breaker_allows(&b, now)) {
			CHECK(state != BREAKER_CLOSED);
			continue;
		}
		CHECK(state != BREAKER_EJECTED);
		if (what < 60) {
			breaker_asked(&b, now, waited, false, &limits);
			late += waited;
			spent += waited;
		} else if (what < 65) {
			breaker_cancel(&b);
		} else {
			hit(&b, now);
			if (what < 80)
				breaker_tried(&b, now, i, 0, what & 1,
					      &limits);
		}
		/* A bucket that leaks lets twice its budget through at most,
		 * and it is empty after each opening. */
		CHECK(spent <= (2 + b.crossings) * 302 * MS);
	}
	CHECK_EQ(b.late_ns, late);
	CHECK(b.opens >= b.breaches[PHX_B_LATE] + b.breaches[PHX_B_REFUSED]);
}

extern void test_breaker(void)
{
	test_late();
	test_silent();
	test_half_open();
	test_refused();
	test_syncs();
	test_held();
	test_held_by_many();
	test_eject();
	test_frozen();
	test_refuted();
	test_budget();
	for (unsigned int seed = 0; seed < 100; seed++)
		test_any(seed);
}
