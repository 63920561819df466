/* SPDX-License-Identifier: GPL-2.0-or-later */
/* witness.c - see witness.h. */

#include "witness.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "fnv.h"
#include "statefile.h"
#include "stats.h"

#define PROBES 8u /* places of the table that a kind may have */
#define MAGIC 0x3130504d43584850ull /* PHXCMP01 */

struct kind {
	uint64_t key;
	uint64_t worse_ns; /* when one was worse; 0: none was */
	uint32_t agreed;   /* or better, since then */
	uint32_t compared;
};

/* One in `parts` is compared until `agreed` have agreed. */
static const struct {
	uint32_t agreed, parts;
} steps[] = { { 32, 1 }, { 48, 4 }, { 64, 32 } };

/* Evidence about one build, as in the file; there `worse_ns` is how long ago that was. */
struct tally {
	uint64_t magic;
	uint64_t build;
	uint64_t counts[WITNESS_WORSE + 1];
	struct kind kinds[WITNESS_KINDS];
	uint64_t sum; /* of all before */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tally tally; /* under the lock */
static bool unsaved;       /* under the lock */
static bool urgent;        /* one of that was worse; under the lock */

/* RET the entry of a kind; a new one takes the place of the one that was compared least.
 * Under the lock. */
static struct kind *_kind(uint64_t key)
{
	struct kind *least = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct kind *k = &tally.kinds[(key + i) % WITNESS_KINDS];

		if (k->key == key)
			return k;
		if (!least || k->compared < least->compared)
			least = k;
	}
	*least = (struct kind) { .key = key };
	return least;
}

static uint32_t _parts(const struct kind *k, uint64_t now_ns)
{
	if (k->worse_ns)
		return k->agreed < WITNESS_AGAIN || now_ns - k->worse_ns < WITNESS_DAY_NS ?
			       1 : WITNESS_SELDOM;
	for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (k->agreed < steps[i].agreed)
			return steps[i].parts;
	return WITNESS_SELDOM;
}

extern uint32_t witness_parts(uint64_t key, uint64_t now_ns)
{
	uint32_t parts;

	pthread_mutex_lock(&lock);
	parts = _parts(_kind(key), now_ns);
	pthread_mutex_unlock(&lock);
	return parts;
}

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
extern bool witness_one_in(uint32_t parts)
{
	static uint64_t state;
	static bool seeded;
	uint64_t z;

	if (!seeded && getrandom(&state, sizeof(state), GRND_NONBLOCK) != sizeof(state))
		return true;
	seeded = true;
	z = state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return parts < 2 || (z ^ z >> 31) % parts == 0;
}

extern bool witness_draw(uint64_t key, uint32_t most, uint64_t now_ns)
{
	uint32_t parts = witness_parts(key, now_ns);

	return witness_one_in(parts < most ? parts : most);
}

extern void witness_note(uint64_t key, enum witness_result result, uint64_t now_ns)
{
	struct kind *k;

	pthread_mutex_lock(&lock);
	k = _kind(key);
	tally.counts[result]++;
	k->compared++;
	k->agreed++;
	if (result == WITNESS_WORSE) {
		k->agreed = 0;
		k->worse_ns = now_ns ? now_ns : 1;
		urgent = true;
	}
	unsaved = true;
	pthread_mutex_unlock(&lock);
}

extern void witness_tell(uint64_t *told, uint64_t now_ns)
{
	static uint64_t at_ns;

	if (at_ns && now_ns - at_ns < WITNESS_TELL_NS)
		return;
	at_ns = now_ns;
	pthread_mutex_lock(&lock);
	memcpy(told, tally.counts, sizeof(tally.counts));
	pthread_mutex_unlock(&lock);
}

/* ---- the file */

static uint64_t _sum(const struct tally *t)
{
	return fnv_bytes(FNV_OFFSET, t, offsetof(struct tally, sum));
}

/* Turn the times of a tally round: from when to how long ago, and back. */
static void _turn(struct tally *t, uint64_t now_ns)
{
	for (uint32_t i = 0; i < WITNESS_KINDS; i++) {
		struct kind *k = &t->kinds[i];

		if (k->worse_ns)
			k->worse_ns = now_ns - k->worse_ns ?: 1;
	}
}

extern void witness_load(uint64_t build, uint64_t now_ns)
{
	static struct tally read; /* of slurmctld's thread that builds the node table */
	FILE *f;

	pthread_mutex_lock(&lock);
	if (tally.build == build && tally.magic) {
		pthread_mutex_unlock(&lock);
		return;
	}
	f = statefile_read(WITNESS_FILE);
	if (f && fread(&read, sizeof(read), 1, f) == 1 && read.magic == MAGIC &&
	    read.build == build && read.sum == _sum(&read)) {
		_turn(&read, now_ns);
		tally = read;
	} else {
		tally = (struct tally) { .magic = MAGIC, .build = build };
	}
	unsaved = urgent = false;
	pthread_mutex_unlock(&lock);
	if (f)
		(void) fclose(f);
}

static void _fill(FILE *f, const void *arg)
{
	(void) fwrite(arg, sizeof(struct tally), 1, f);
}

extern bool witness_is_urgent(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = urgent;
	pthread_mutex_unlock(&lock);
	return is;
}

extern void witness_save(uint64_t now_ns)
{
	static pthread_mutex_t saving = PTHREAD_MUTEX_INITIALIZER;
	static struct tally copy; /* under `saving` */
	char path[PATH_MAX];
	bool save;

	pthread_mutex_lock(&saving);
	pthread_mutex_lock(&lock);
	save = unsaved && tally.magic;
	if (save)
		copy = tally;
	unsaved = urgent = false;
	pthread_mutex_unlock(&lock);
	if (save) {
		_turn(&copy, now_ns);
		copy.sum = _sum(&copy);
		if (statefile_write(WITNESS_FILE, _fill, &copy, path)) {
			pthread_mutex_lock(&lock);
			unsaved = true; /* tried again with the next */
			pthread_mutex_unlock(&lock);
		}
	}
	pthread_mutex_unlock(&saving);
}
