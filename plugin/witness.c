/* SPDX-License-Identifier: GPL-2.0-or-later */
/* witness.c - see witness.h. */

#include "witness.h"

#include <sys/random.h>

#include "stats.h"

#define PROBES 8u /* places of the table that a kind may have */

struct kind {
	uint64_t key;
	uint64_t worse_ns; /* when one was worse; 0: none was */
	uint32_t agreed;   /* or better, since then */
	uint32_t compared;
};

/* How many agree until one in so many is compared. */
static const struct {
	uint32_t agreed, parts;
} steps[] = { { 32, 1 }, { 128, 4 }, { 512, 16 } };

static struct kind kinds[WITNESS_KINDS];
static uint64_t counts[WITNESS_WORSE + 1];

/* RET the entry of a kind; a new one takes the place of the one that was compared least */
static struct kind *_kind(uint64_t key)
{
	struct kind *least = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct kind *k = &kinds[(key + i) % WITNESS_KINDS];

		if (k->key == key)
			return k;
		if (!least || k->compared < least->compared)
			least = k;
	}
	*least = (struct kind) { .key = key };
	return least;
}

extern uint32_t witness_parts(uint64_t key, uint64_t now_ns)
{
	const struct kind *k = _kind(key);

	if (k->worse_ns)
		return k->agreed < WITNESS_AGAIN || now_ns - k->worse_ns < WITNESS_DAY_NS ?
			       1 : WITNESS_SELDOM;
	for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (k->agreed < steps[i].agreed)
			return steps[i].parts;
	return WITNESS_SELDOM;
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
	struct kind *k = _kind(key);

	stat_add(&counts[result], 1);
	k->compared++;
	k->agreed++;
	if (result == WITNESS_WORSE) {
		k->agreed = 0;
		k->worse_ns = now_ns ? now_ns : 1;
	}
}

extern void witness_tell(uint64_t *told, uint64_t now_ns)
{
	static uint64_t at_ns;

	if (at_ns && now_ns - at_ns < WITNESS_TELL_NS)
		return;
	at_ns = now_ns;
	stat_copy(told, counts, sizeof(counts));
}
