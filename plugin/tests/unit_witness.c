/* SPDX-License-Identifier: GPL-2.0-or-later */
/* unit_witness.c - how often decisions are compared. */

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../statefile.h"
#include "../witness.h"
#include "check.h"

#define S 1000000000ull

/* Decisions of a kind that agree, until one in so many is compared. */
static void agree(uint64_t kind, uint32_t count, uint64_t now)
{
	while (count--)
		witness_note(kind, count % 2 ? WITNESS_AGREES : WITNESS_BETTER, now);
}

static void test_parts(void)
{
	uint64_t now = 5 * S;

	CHECK_EQ(witness_parts(1, now), 1);
	agree(1, 31, now);
	CHECK_EQ(witness_parts(1, now), 1);
	agree(1, 1, now);
	CHECK_EQ(witness_parts(1, now), 4);
	agree(1, 16, now);
	CHECK_EQ(witness_parts(1, now), 32);
	agree(1, 16, now);
	CHECK_EQ(witness_parts(1, now), 1024);
	CHECK_EQ(witness_parts(2, now), 1); /* another kind */
	/* A worse one: a day and 512 that agree, whichever is later. */
	witness_note(1, WITNESS_WORSE, now);
	CHECK_EQ(witness_parts(1, now), 1);
	agree(1, 511, now);
	CHECK_EQ(witness_parts(1, now + 2 * WITNESS_DAY_NS), 1);
	agree(1, 1, now);
	CHECK_EQ(witness_parts(1, now + WITNESS_DAY_NS - 1), 1);
	CHECK_EQ(witness_parts(1, now + WITNESS_DAY_NS), 1024);
}

/* As many as are to be, and in no place that those before tell. */
static void test_draws(void)
{
	uint32_t hits = 0, pairs = 0, after = 0, longest = 0, run = 0;
	bool before = false;

	for (uint32_t i = 0; i < 1024 * 1024; i++) {
		bool hit = witness_draw(1, WITNESS_SELDOM, 5 * S + WITNESS_DAY_NS);

		hits += hit;
		pairs += hit && before;
		after += before;
		before = hit;
		run = hit ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	CHECK(hits > 1024 - 160 && hits < 1024 + 160); /* five deviations */
	CHECK(longest > 2 * 1024); /* not one in each 1,024 */
	CHECK(pairs <= 20 && after >= hits - 1);
	for (uint32_t i = 0; i < 100; i++)
		CHECK(witness_draw(99, WITNESS_SELDOM, 5 * S)); /* nothing is known of it */
	hits = 0;
	for (uint32_t i = 0; i < 8000; i++)
		hits += witness_draw(1, 8, 5 * S + WITNESS_DAY_NS);
	CHECK(hits > 850 && hits < 1150);
}

/* More kinds than there is room for: those compared most stay. */
static void test_many(void)
{
	for (uint64_t kind = 1000; kind < 20000; kind++)
		witness_note(kind * 0x9e3779b97f4a7c15ull, WITNESS_AGREES, S);
	CHECK_EQ(witness_parts(1, 5 * S + WITNESS_DAY_NS), 1024);
}

static void test_told(void)
{
	uint64_t first[3] = {0}, later[3] = {0};

	witness_tell(first, S);
	CHECK(first[WITNESS_AGREES] && first[WITNESS_BETTER] && first[WITNESS_WORSE] == 1);
	agree(3, 2, S);
	later[0] = first[0];
	witness_tell(later, S + WITNESS_TELL_NS - 1);
	CHECK_EQ(later[0], first[0]); /* not yet */
	witness_tell(later, S + WITNESS_TELL_NS);
	CHECK_EQ(later[0], first[0] + 1);
}

/* What is known outlives slurmctld, of the same build alone. */
static void test_kept(void)
{
	char dir[] = "/tmp/phalanx-unit-XXXXXX", path[sizeof(dir) + sizeof("/" WITNESS_FILE)];
	char other[sizeof(dir) + sizeof("/other")];
	uint64_t now = 9 * S, told[3] = {0};
	struct stat file;

	CHECK(mkdtemp(dir));
	(void) snprintf(path, sizeof(path), "%s/" WITNESS_FILE, dir);
	(void) snprintf(other, sizeof(other), "%s/other", dir);
	statefile_place(dir);
	witness_load(1, now);
	CHECK_EQ(witness_parts(1, now), 1); /* nothing was kept */
	witness_save(now);
	CHECK(stat(path, &file)); /* nor compared since */
	agree(1, 40, now);
	agree(2, 40, now);
	CHECK(!witness_is_urgent());
	witness_note(2, WITNESS_WORSE, now);
	CHECK(witness_is_urgent());
	witness_load(1, now); /* known already: the file is not read */
	CHECK_EQ(witness_parts(1, now), 4);
	statefile_place("/nonexistent");
	witness_save(now);
	statefile_place(dir);
	witness_save(now + S); /* what was not written is not forgotten */
	CHECK(!witness_is_urgent());
	CHECK(!stat(path, &file) && (file.st_mode & 0777) == 0600);

	witness_load(2, now); /* slurmctld was exchanged */
	CHECK_EQ(witness_parts(1, now), 1);
	witness_load(1, 3); /* the machine was started anew: its clock is */
	CHECK_EQ(witness_parts(1, 3), 4);
	agree(2, WITNESS_AGAIN, 3);
	CHECK_EQ(witness_parts(2, WITNESS_DAY_NS - S), 1);
	CHECK_EQ(witness_parts(2, WITNESS_DAY_NS - S + 3), 1024);
	witness_tell(told, 3 * WITNESS_TELL_NS);
	CHECK_EQ(told[WITNESS_AGREES] + told[WITNESS_BETTER], 80 + WITNESS_AGAIN);
	CHECK_EQ(told[WITNESS_WORSE], 1);

	CHECK(!rename(path, other) && !symlink(other, path)); /* nor through a link */
	witness_load(2, now);
	witness_load(1, now);
	CHECK_EQ(witness_parts(1, now), 1);
	CHECK(!rename(other, path));
	for (off_t len = 0; len < 4096; len += 1000) { /* or another file */
		CHECK(!truncate(path, len) && !truncate(path, file.st_size));
		witness_load(2, now);
		witness_load(1, now);
		CHECK_EQ(witness_parts(1, now), 1);
	}
	CHECK(!unlink(path) && !rmdir(dir));
	statefile_place(NULL);
}

extern void test_witness(void)
{
	test_parts();
	test_draws();
	test_many();
	test_told();
	test_kept();
}
