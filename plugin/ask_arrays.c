/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ask_arrays.c - see ask_arrays.h. */

#include "slurm_api.h"

#include <dlfcn.h>
#include <string.h>

#include "ask_arrays.h"
#include "layout.h"

#define CLASSES_MAX (1u << PHX_CLASS_PLANES_MAX)

/* Room behind the arrays written already. */
struct room {
	struct phx_ask *ask;
	size_t used; /* bytes of the packet */
};

static void *_take(struct room *r, size_t bytes)
{
	void *at = (uint8_t *) r->ask + r->used;

	if (bytes > PHX_PACKET_MAX - r->used)
		return NULL;
	r->used += bytes;
	return at;
}

/* ---- candidates */

enum { COMPLETING, RESUMING, ASLEEP, BOOTING, BITMAPS };

/* RET one of slurmctld's bitmaps of nodes; where it is not to be found, none is set */
static const uint64_t *_nodes_of(int which, uint32_t bits)
{
	static const char *const names[BITMAPS] = { "cg_node_bitmap", "rs_node_bitmap",
						    "power_node_bitmap", "booting_node_bitmap" };
	static uint64_t words[BITMAPS][PHX_NODES_MAX / 64];
	static bitstr_t **bitmaps[BITMAPS], *none;

	if (!bitmaps[which])
		bitmaps[which] = dlsym(RTLD_DEFAULT, names[which]) ?: &none;
	memset(words[which], 0, (bits + 63) / 64 * sizeof(words[which][0]));
	if (*bitmaps[which] && bit_size(*bitmaps[which]) == (bitoff_t) bits)
		state_bitmap_words(*bitmaps[which], bits, words[which]);
	return words[which];
}

/* ---- classes */

struct classes {
	struct phx_class of[CLASSES_MAX]; /* in the order of their finding */
	uint32_t count;
	bool plain; /* the node table, as it was sent, says the same */
	bool gpu_cores; /* of some candidate, NODE_GPU_CORES() */
	bool left_out; /* some candidates of stock */
};

/* The candidates of each class, by the order of finding. */
static uint64_t members[CLASSES_MAX][PHX_NODES_MAX / 64]; /* of the one call at a time */

/* RET position of the class, CLASSES_MAX if there are too many */
static uint32_t _find_class(struct classes *c, uint64_t key, uint32_t words)
{
	struct phx_class of = { (uint32_t) (key >> 32), (uint32_t) key };
	uint32_t i = 0;

	while (i < c->count && (c->of[i].tier != of.tier || c->of[i].weight != of.weight))
		i++;
	if (i == c->count && i < CLASSES_MAX) {
		c->of[c->count++] = of;
		memset(members[i], 0, words * sizeof(members[i][0]));
	}
	return i;
}

/* A node's states are in a cache line of their own, whose reading takes longer than all else here:
 * RUN_NOW reads slurmctld's bitmaps instead, where its classes need them.
 * RET false if there are too many classes, or a candidate is no node or out to the daemon */
static bool _find_run_now(struct classes *c, const uint64_t *words, uint32_t bits)
{
	bool tiers = !SINCE(23, 11);
	const uint64_t *asleep = tiers ? _nodes_of(ASLEEP, bits) : NULL;
	const uint64_t *booting = tiers ? _nodes_of(BOOTING, bits) : NULL;
	uint32_t group = UINT32_MAX, at = 0, count = (bits + 63) / 64;
	uint64_t weight = 0, key = 0, rest, alike;

	for (uint32_t w = 0; w < count; w++) {
		uint64_t sleeps = tiers ? words[w] & asleep[w] : 0;
		uint64_t boots = tiers ? words[w] & booting[w] & ~sleeps : 0;
		const uint64_t groups[] = { words[w] & ~sleeps & ~boots, boots, sleeps };
		node_record_t **word = node_record_table_ptr + 64 * w;

		for (uint32_t g = 0; g < 3; g++) {
			for (rest = groups[g]; rest; rest &= ~alike) {
				uint32_t i = (uint32_t) __builtin_ctzll(rest), end;
				const node_record_t *node_ptr = word[i];

				if (!node_ptr)
					return false;
				if (node_ptr->sched_weight != weight || g != group) {
					weight = node_ptr->sched_weight;
					group = g;
					key = RUN_NOW_KEY(weight, g);
					at = _find_class(c, key, count);
					if (at == CLASSES_MAX)
						return false;
				}
				c->gpu_cores |= NODE_GPU_CORES(node_ptr);
				/* Most nodes are as the one before them. */
				alike = rest & ~(rest + (1ull << i));
				end = 64 - (uint32_t) __builtin_clzll(alike);
				while (++i < end && (node_ptr = word[i]) &&
				       node_ptr->sched_weight == weight &&
				       (c->gpu_cores || !NODE_GPU_CORES(node_ptr)))
					;
				alike &= UINT64_MAX >> (64 - i);
				members[at][w] |= alike;
				c->plain = c->plain && state_was_sent(w, alike, key);
			}
		}
		if (words[w] & state_sent_out[w])
			return false;
	}
	return true;
}

/* Backfill would reserve such a node at the next second instead of starting the job, again in each
 * cycle. */
#define LEFT_OUT_STATES \
	(NODE_STATE_COMPLETING | NODE_STATE_REBOOT_REQUESTED | NODE_STATE_REBOOT_ISSUED)
#define STATES(node_ptr) ((node_ptr)->node_state & (CLASS_STATES | LEFT_OUT_STATES))

/* Nodes as WILL_RUN sees them, by words and kept for a turn: to read two cache lines of each of
 * 10,000 nodes takes longer than all else of an ask. */
static struct {
	struct known_word {
		uint64_t reading; /* that it is of */
		uint64_t left_out;
		uint64_t gpu_cores;
		uint32_t count;
		struct {
			uint64_t key; /* tier << 32 | weight */
			uint64_t nodes;
		} group[64];
	} word[PHX_NODES_MAX / 64];
	uint64_t reading;
	uint64_t turn;
	time_t update; /* last_node_update, then */
	uint32_t bits;
} known;

static void _add_group(struct known_word *k, uint64_t key, uint64_t nodes)
{
	uint32_t g = 0;

	while (g < k->count && k->group[g].key != key)
		g++;
	if (g == k->count) {
		k->group[g].key = key;
		k->group[g].nodes = 0;
		k->count++;
	}
	k->group[g].nodes |= nodes;
}

static const struct known_word *_read_word(uint32_t w)
{
	node_record_t **word = node_record_table_ptr + 64 * w;
	uint32_t end = MIN(64, known.bits - 64 * w), next;
	struct known_word *k = &known.word[w];

	if (k->reading == known.reading)
		return k;
	k->reading = known.reading;
	k->left_out = k->gpu_cores = k->count = 0;
	for (uint32_t i = 0; i < end; i = next) {
		const node_record_t *node_ptr = word[i];
		uint32_t states = node_ptr ? STATES(node_ptr) : LEFT_OUT_STATES;
		uint64_t nodes = 1ull << i, weight;
		bool gpu_cores;

		next = i + 1;
		if (states & LEFT_OUT_STATES) {
			k->left_out |= nodes;
			continue;
		}
		weight = WILL_RUN_WEIGHT(node_ptr);
		gpu_cores = NODE_GPU_CORES(node_ptr);
		while (next < end && word[next] && WILL_RUN_WEIGHT(word[next]) == weight &&
		       STATES(word[next]) == states && NODE_GPU_CORES(word[next]) == gpu_cores)
			next++;
		nodes = UINT64_MAX >> (64 - next) & ~(nodes - 1);
		k->gpu_cores |= gpu_cores ? nodes : 0;
		_add_group(k, (uint64_t) WILL_RUN_TIER(node_ptr) << 32 | weight, nodes);
	}
	return k;
}

static void _keep_known(uint64_t turn, uint32_t bits)
{
	if (known.turn == turn && known.update == last_node_update && known.bits == bits)
		return;
	known.reading++;
	known.turn = turn;
	known.update = last_node_update;
	known.bits = bits;
}

/* RET as above */
static bool _find_known(struct classes *c, uint64_t *words, uint32_t count)
{
	uint64_t key = UINT64_MAX;
	uint32_t at = 0;

	for (uint32_t w = 0; w < count; w++) {
		const struct known_word *k = words[w] ? _read_word(w) : NULL;

		if (!k)
			continue;
		c->left_out |= (words[w] & k->left_out) != 0;
		words[w] &= ~k->left_out;
		c->gpu_cores |= (words[w] & k->gpu_cores) != 0;
		if (words[w] & state_sent_out[w])
			return false;
		for (uint32_t g = 0; g < k->count; g++) {
			uint64_t nodes = words[w] & k->group[g].nodes;

			if (!nodes)
				continue;
			if (k->group[g].key != key) {
				key = k->group[g].key;
				at = _find_class(c, key, count);
				if (at == CLASSES_MAX)
					return false;
			}
			members[at][w] |= nodes;
			c->plain = c->plain && (key >> 32 || state_was_sent(w, nodes, key));
		}
	}
	return true;
}

/* Leave nodes out of WILL_RUN, and find the classes of the others. RET as above */
static bool _find_will_run(struct classes *c, uint64_t *words, uint32_t bits, uint64_t turn)
{
	const uint64_t *completing = _nodes_of(COMPLETING, bits);
	const uint64_t *resuming = _nodes_of(RESUMING, bits);
	uint32_t count = (bits + 63) / 64;

	for (uint32_t w = 0; w < count; w++) {
		c->left_out |= (words[w] & (completing[w] | resuming[w])) != 0;
		words[w] &= ~(completing[w] | resuming[w]);
	}
	_keep_known(turn, bits);
	if (!_find_known(c, words, count))
		return false;
	/* Stock waits for a node that was left out rather than for one that has to boot. */
	for (uint32_t i = 0; i < c->count; i++) {
		c->plain &= !c->of[i].tier || c->left_out;
		for (uint32_t w = 0; c->of[i].tier && c->left_out && w < count; w++)
			words[w] &= ~members[i][w];
	}
	return true;
}

/* RET false if there is no room */
static bool _put_classes(struct room *r, const struct classes *c)
{
	struct phx_ask *ask = r->ask;
	uint32_t count = ask->word_count, planes = 0;
	struct phx_class *out;
	uint64_t *bits;

	while (1u << planes < c->count)
		planes++;
	out = _take(r, c->count * sizeof(*out));
	bits = _take(r, planes * count * sizeof(*bits));
	if (!out || !bits)
		return false;
	memset(bits, 0, planes * count * sizeof(*bits));
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t place = 0;

		for (uint32_t k = 0; k < c->count; k++)
			place += c->of[k].tier != c->of[i].tier ?
				c->of[k].tier < c->of[i].tier : c->of[k].weight < c->of[i].weight;
		out[place] = c->of[i];
		for (uint32_t p = 0; p < planes; p++) {
			for (uint32_t w = 0; place >> p & 1 && w < count; w++)
				bits[p * count + w] |= members[i][w];
		}
	}
	ask->class_count = c->count;
	ask->class_planes = (uint16_t) planes;
	return true;
}

/* ---- excluded cores */

/* Count the cores of one node that `bitmap` has from bit `first` on. */
static void _count_exc(struct phx_exc *out, bitstr_t *bitmap, uint32_t first,
		       const node_record_t *node_ptr)
{
	uint32_t sockets = node_ptr->tot_sockets, cores = node_ptr->tot_cores;

	for (uint32_t core = 0; core < cores &&
	     (bitoff_t) (first + core) < bit_size(bitmap); core++) {
		if (!bit_test(bitmap, (bitoff_t) (first + core)))
			continue;
		out->cores++;
		if (sockets && sockets <= PHX_SOCKETS_MAX && !(cores % sockets))
			out->sockets[core / (cores / sockets)]++;
	}
}

/* Append excluded cores; if there are too many, only the flag is sent. */
static void _put_exc(struct room *r, exc_t *exc, const uint64_t *words)
{
	struct phx_ask *ask = r->ask;
	bitstr_t **by_node = EXC_BY_NODE(exc);
	size_t used = r->used;
	uint32_t first = 0;

	if (!by_node && !EXC_BITMAP(exc))
		return;
	for (uint32_t i = 0; i < ask->node_bits; i++) {
		const node_record_t *node_ptr = node_record_table_ptr[i];
		bitstr_t *bitmap = by_node ? by_node[i] : EXC_BITMAP(exc);
		struct phx_exc one = { .node = i };

		if (!node_ptr)
			continue;
		if (bitmap && words[i / 64] >> (i % 64) & 1)
			_count_exc(&one, bitmap, by_node ? 0 : first, node_ptr);
		first += node_ptr->tot_cores;
		if (one.cores) {
			struct phx_exc *out = _take(r, sizeof(*out));

			if (!out || ask->exc_count == PHX_EXC_MAX) {
				r->used = used;
				ask->exc_count = 0;
				return;
			}
			*out = one;
			ask->exc_count++;
		}
	}
}

/* ---- jobs that may be preempted */

static int _preemptee(void *x, void *arg)
{
	job_record_t *job_ptr = x;
	struct room *r = arg;
	struct phx_ask *ask = r->ask;
	uint32_t *out;

	ask->preempt_all++;
	if (ask->preempt_count < PHX_PREEMPT_MAX && layout_has_job(job_ptr) &&
	    (out = _take(r, sizeof(*out)))) {
		*out = job_ptr->job_id;
		ask->preempt_count++;
	}
	return 0;
}

/* Append the nodes that are candidates of stock, but not of the ask. */
static bool _put_left_out(struct room *r, const struct call *call, const uint64_t *words)
{
	uint32_t count = r->ask->word_count;
	uint64_t *out = _take(r, count * sizeof(*out));

	if (!out)
		return false;
	state_bitmap_words(call->node_bitmap, r->ask->node_bits, out);
	for (uint32_t w = 0; w < count; w++)
		out[w] &= ~words[w];
	r->ask->left_count = count;
	return true;
}

extern uint16_t ask_put_arrays(struct phx_ask *ask, const struct call *call)
{
	uint32_t bits = (uint32_t) bit_size(call->node_bitmap);
	struct room r = { .ask = ask, .used = sizeof(*ask) };
	struct classes classes = { .plain = true };
	uint64_t *words, some = 0;

	ask->node_bits = bits;
	ask->word_count = (bits + 63) / 64;
	words = _take(&r, ask->word_count * sizeof(*words));
	if (!words)
		return PHX_R_SKIPPED;
	state_bitmap_words(call->node_bitmap, bits, words);
	/* Whether a job could ever run does not depend on classes. */
	if (call->mode == SELECT_MODE_RUN_NOW ? !_find_run_now(&classes, words, bits) :
	    call->mode == SELECT_MODE_WILL_RUN &&
		    !_find_will_run(&classes, words, bits, call->turn))
		return PHX_R_CLASSES;
	ask->flags |= (classes.left_out ? PHX_ASK_LEFT_OUT : 0) |
		      (classes.gpu_cores ? PHX_ASK_GPU_CORES : 0);
	if (classes.left_out && call->prove && !_put_left_out(&r, call, words))
		return PHX_R_SKIPPED;
	for (uint32_t w = 0; w < ask->word_count; w++)
		some |= words[w];
	if (!some && !ask->left_count)
		return PHX_R_SKIPPED;
	if (!classes.plain && !_put_classes(&r, &classes))
		return PHX_R_CLASSES;
	if (call->exc)
		_put_exc(&r, call->exc, words);
	if (call->candidates)
		(void) list_for_each(call->candidates, _preemptee, &r);
	if (r.used % sizeof(uint64_t)) {
		uint32_t *pad = _take(&r, sizeof(*pad));

		if (!pad)
			return PHX_R_CLASSES;
		*pad = 0;
	}
	ask->hdr.length = (uint32_t) r.used;
	return PHX_R_NONE;
}
