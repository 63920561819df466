/* SPDX-License-Identifier: GPL-2.0-or-later */
/* unit_order.c - the parts of the order of starts that know nothing of Slurm:
 * packet checks, inbox, ledger and its file. */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../inbox.h"
#include "../ledger.h"
#include "check.h"

#define MS 1000000ull

struct message {
	struct phx_order o;
	struct phx_delta deltas[4];
};

static struct message order(uint64_t generation, uint32_t flags, uint32_t count)
{
	struct message m = {
		.o = { .hdr = { .magic = PHX_MAGIC, .version = PHX_VERSION,
				.type = PHX_ORDER,
				.length = (uint32_t) (sizeof(m.o) + sizeof(m.deltas[0]) * count) },
		       .generation = generation, .flags = flags,
		       .lease_ms = 1000, .count = count },
		.deltas = { { 3, 10 }, { 5, 7 }, { 9, 1 }, { 12, 4 } },
	};
	return m;
}

static enum packet_kind parse(const struct message *m, struct packet *p)
{
	return packet_parse(m, m->o.hdr.length, p);
}

#define REFUSED(field, value) \
	do { \
		struct message m_ = order(1, PHX_PART_FIRST, 3); \
		m_.field = (value); \
		CHECK_EQ(parse(&m_, &p), PACKET_BAD); \
		CHECK(p.why); \
	} while (0)

static void test_packet(void)
{
	struct message m = order(1, PHX_PART_FIRST, 3);
	struct packet p;

	CHECK_EQ(parse(&m, &p), PACKET_ORDER);
	for (size_t len = 0; len < m.o.hdr.length; len++)
		CHECK_EQ(packet_parse(&m, len, &p), PACKET_BAD);
	REFUSED(o.count, 2);
	REFUSED(o.count, PHX_ORDER_PER_MSG + 1);
	REFUSED(o.pad, 1);
	REFUSED(o.generation, 0);
	REFUSED(o.flags, 8);
	REFUSED(o.flags, PHX_PART_SAME);
	REFUSED(deltas[0].job_id, 0);
	REFUSED(deltas[0].job_id, 5);
	REFUSED(deltas[1].delta, 0);
	REFUSED(deltas[1].delta, PHX_DELTA_MAX + 1);
	REFUSED(deltas[1].delta, -1);
	m.o.lease_ms = 0xffffffffu; /* the daemon may be gone any moment */
	CHECK_EQ(parse(&m, &p), PACKET_ORDER);
	CHECK_EQ(p.order.lease_ms, PHX_LEASE_MS_MAX);
}

static bool take(uint64_t generation, uint32_t flags, uint32_t from,
		 uint32_t count, uint64_t now)
{
	struct message m = order(generation, flags, count);
	struct packet p;

	memmove(m.deltas, m.deltas + from, count * sizeof(m.deltas[0]));
	CHECK_EQ(parse(&m, &p), PACKET_ORDER);
	return inbox_take(&p, now);
}

static void test_inbox(void)
{
	static struct inbox_set got;
	const uint32_t whole = PHX_PART_FIRST | PHX_PART_LAST;

	inbox_get(&got, 0);
	CHECK(!got.count && !got.generation);
	CHECK(!take(1, 0, 0, 2, 0));             /* no FIRST */
	CHECK(take(1, PHX_PART_FIRST, 0, 2, 0));
	inbox_get(&got, 0);
	CHECK_EQ(got.count, 0);                  /* not complete */
	CHECK(!take(2, PHX_PART_LAST, 2, 1, 0)); /* of another set */
	CHECK(!take(1, PHX_PART_LAST, 1, 1, 0)); /* not ascending */
	CHECK(take(1, PHX_PART_LAST, 2, 2, 0));
	inbox_get(&got, 999 * MS);
	CHECK_EQ(got.count, 4);
	CHECK_EQ(got.generation, 1);
	CHECK_EQ(got.deltas[3].job_id, 12);
	inbox_get(&got, 1000 * MS);              /* the lease has ended */
	CHECK_EQ(got.count, 0);
	CHECK(take(1, PHX_PART_SAME, 0, 0, 5000 * MS));
	inbox_get(&got, 5999 * MS);
	CHECK_EQ(got.count, 4);
	CHECK(take(7, PHX_PART_SAME, 0, 0, 7000 * MS)); /* not of this set */
	inbox_get(&got, 7000 * MS);
	CHECK_EQ(got.count, 0);
	CHECK(take(8, whole, 0, 1, 8000 * MS));
	inbox_get(&got, 8000 * MS);
	CHECK_EQ(got.count, 1);
	inbox_forget();
	inbox_get(&got, 8000 * MS);
	CHECK(!got.count && !got.generation);
	CHECK(take(9, whole, 0, 0, 8000 * MS));  /* clears */
	inbox_wait(60000);                       /* something came: at once */
}

static void test_too_many(void)
{
	static struct {
		struct phx_order o;
		struct phx_delta d[PHX_ORDER_PER_MSG];
	} m;
	struct packet p;

	for (uint32_t part = 0; part < 3; part++) {
		m.o = order(1, part ? 0 : PHX_PART_FIRST, 0).o;
		m.o.count = PHX_ORDER_PER_MSG;
		m.o.hdr.length = sizeof(m);
		for (uint32_t i = 0; i < PHX_ORDER_PER_MSG; i++)
			m.d[i] = (struct phx_delta) {
				part * PHX_ORDER_PER_MSG + i + 1, 1 };
		CHECK_EQ(packet_parse(&m, sizeof(m), &p), PACKET_ORDER);
		CHECK_EQ(inbox_take(&p, 0), part < 2);
	}
}

static void test_entries(void)
{
	struct ledger l = {0};
	struct ledger_entry *e;

	for (uint32_t id = LEDGER_MAX; id; id--)
		CHECK(ledger_add(&l, id));
	CHECK(!ledger_add(&l, LEDGER_MAX + 1)); /* full */
	for (uint32_t id = 1; id <= LEDGER_MAX; id++)
		CHECK(ledger_find(&l, id)->job_id == id);
	CHECK(!ledger_find(&l, 0) && !ledger_find(&l, LEDGER_MAX + 1));
	CHECK(ledger_prune(&l, LEDGER_SAVES)); /* all OFF and saved */
	CHECK_EQ(l.count, 0);

	e = ledger_add(&l, 7);
	e->base = 100;
	for (uint32_t v = 101; v <= 100 + LEDGER_VALUES; v++)
		CHECK(ledger_note(e, v) && ledger_note(e, v));
	CHECK(!ledger_note(e, 999));
	CHECK(ledger_is_ours(e, 101) && !ledger_is_ours(e, 100) &&
	      !ledger_is_ours(e, 999));
	e->base = 103; /* an administrator's value, as ours was once */
	CHECK(!ledger_is_ours(e, 103) && ledger_is_ours(e, 104));
	e->state = LEDGER_ON;
	e->written = 105;
	CHECK(!ledger_prune(&l, LEDGER_SAVES - 1)); /* one save may be older */
	CHECK(ledger_prune(&l, LEDGER_SAVES));
	CHECK(e->count == 1 && ledger_is_ours(e, 105) &&
	      !ledger_is_ours(e, 101));
	e->state = LEDGER_OFF;
	e->recalc = 1;
	CHECK(!ledger_prune(&l, 9));
	CHECK_EQ(ledger_count(&l, LEDGER_OFF), 1);
	ledger_free(&l);
}

/* The file at `path` is refused with this error. */
static void refused(const char *path, int err)
{
	struct ledger l = {0};
	const char *why;

	CHECK_EQ(ledger_load(&l, path, &why), err);
	CHECK(!l.count && (why || err == ELOOP));
	ledger_free(&l);
}

static void poke(const char *path, long at, char c)
{
	FILE *f = fopen(path, "r+b");

	CHECK(f && !fseek(f, at, SEEK_SET) && fputc(c, f) == c && !fclose(f));
}

static void test_bad_files(struct ledger *l, const char *path)
{
	char other[128];

	snprintf(other, sizeof(other), "%s.link", path);
	CHECK(!symlink(path, other));
	refused(other, ELOOP);
	CHECK(!unlink(other) && !mkfifo(other, 0600));
	refused(other, EINVAL);
	CHECK(!unlink(other) && !chmod(path, 0620));
	refused(path, EPERM);
	CHECK(!chmod(path, 0602));
	refused(path, EPERM);
	CHECK(!chmod(path, 0600));
	poke(path, 0, 'X');               /* magic */
	refused(path, EINVAL);
	for (long at = 8; at < 24; at++) { /* the rest of its head */
		CHECK(!ledger_store(l, path));
		poke(path, at, 'X');
		refused(path, EINVAL);
	}
	CHECK(!ledger_store(l, path));
	poke(path, 24 + 64 + 5, 'X');     /* an entry */
	refused(path, EINVAL);
	CHECK(!ledger_store(l, path) && !truncate(path, 24 + 2 * 64 + 1));
	refused(path, EINVAL);
	for (off_t len = 0; len < 24 + 2 * 64; len += 7) {
		CHECK(!ledger_store(l, path) && !truncate(path, len));
		refused(path, EINVAL);
	}
	if (!getuid()) {
		CHECK(!ledger_store(l, path) && !chown(path, 65534, 65534));
		refused(path, EPERM);
	}
}

static void test_file(void)
{
	char dir[] = "/tmp/phalanx-ledger-XXXXXX", path[64];
	struct ledger l = {0}, back = {0};
	const char *why;

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/phalanx_order", dir);
	CHECK_EQ(ledger_load(&back, path, &why), ENOENT);
	for (uint32_t id = 1; id < 3; id++) {
		struct ledger_entry *e = ledger_add(&l, id);

		e->base = 50;
		e->written = 60 + id;
		e->state = LEDGER_ON;
		CHECK(ledger_note(e, 60 + id));
	}
	CHECK_EQ(ledger_store(&l, path), 0);
	CHECK_EQ(ledger_store(&l, path), 0); /* over the old one */
	CHECK_EQ(ledger_load(&back, path, &why), 0);
	CHECK_EQ(back.count, 2);
	CHECK_EQ(back.entries[1].state, LEDGER_LOADED);
	CHECK_EQ(back.entries[1].base, 50);
	CHECK(ledger_is_ours(&back.entries[1], 62));
	CHECK(ledger_add(&l, 2 | LEDGER_TIME_MIN)); /* as earlier versions */
	CHECK_EQ(ledger_store(&l, path), 0);
	CHECK_EQ(ledger_load(&back, path, &why), 0);
	CHECK(back.count == 2 && back.dropped == 1);
	l.count--;
	test_bad_files(&l, path);
	l.count = 0; /* nothing is left of it */
	CHECK_EQ(ledger_store(&l, path), 0);
	CHECK_EQ(ledger_store(&l, path), 0);
	CHECK(!rmdir(dir)); /* and nothing else was left */
	CHECK_EQ(ledger_store(&back, path), ENOENT);
	ledger_free(&l);
	ledger_free(&back);
}

extern void test_orders(void);

void test_orders(void)
{
	test_packet();
	test_inbox();
	test_too_many();
	test_entries();
	test_file();
}
