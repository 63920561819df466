/* SPDX-License-Identifier: GPL-2.0-or-later */
/* jobtest.c - job_test(): ask which of the candidate nodes to use, try stock on these alone, and
 * let stock decide alone whatever fails. The result is always what a stock call returned for the
 * candidates or for a part of them. */

#include "slurm_api.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "ask.h"
#include "dump.h"
#include "ends.h"
#include "fnv.h"
#include "hold.h"
#include "layout.h"
#include "link.h"
#include "overlay.h"
#include "proof.h"
#include "state.h"
#include "stats.h"
#include "turn.h"
#include "vector.h"

#define WINDOW_S 60 /* within which Slurm's first windows end */
#define HELD_SEEN 8u /* stock sees one in this many calls that keep a job from starting now */
#define RECENT 8u /* tests whose mean says what one takes, about */
#define OFTEN 32u /* at most one in so many is compared where their kinds agree, and comparing takes
		   * at most this part of the time */
#define ASKED_OF 256u /* one in this many watched starts is asked about */
#define MODE_OTHER 3u /* index of the calls that have no mode of their own */

/* State that a stock call may change in the job although it fails, or that a second call would
 * read. Lists and strings that it rebuilds from the same input (gres_list_req_accum, cpus_per_tres,
 * mem_per_tres, mc_ptr, gres defaults) come out the same the second time. licenses_to_preempt
 * (24.11) is stock's own: made and freed in each call.
 * Source: cons_common/job_test.c, cons_common/dist_tasks.c, cons_tres/job_test.c of 22.05.8;
 * cons_tres/job_test.c, dist_tasks.c of 24.11.5. */
#define SAVED_OF_JOB(X) \
	X(bit_flags) X(priority) X(req_switch) X(state_reason) X(total_cpus) \
	X(best_switch) X(start_time) X(wait4switch_start)
#define SAVED_OF_DETAILS(X) \
	X(pn_min_memory) X(min_cpus) X(min_gres_cpu) X(min_job_gres_cpu) \
	X(core_spec) X(cpus_per_task) X(whole_node)

#define JOB_MEMBER(name) __typeof__(((job_record_t *) NULL)->name) name;
#define DETAILS_MEMBER(name) __typeof__(((job_details_t *) NULL)->name) name;
struct saved {
	SAVED_OF_JOB(JOB_MEMBER)
	SAVED_OF_DETAILS(DETAILS_MEMBER)
#if HAS_NODE_BITMAP_PREEMPT
	bitstr_t *node_bitmap_preempt; /* taken out of the job */
#endif
};

/* State of a call on the chosen nodes alone. */
struct trial {
	uint32_t count;
	bool all;     /* the job is to have all of them */
	bool keep;    /* keep what is accepted; else only look */
	time_t until; /* WILL_RUN: starts up to this are as good as any; 0: now */
	time_t start; /* WILL_RUN: what stock said */
};

/* Scratch memory of the single call that may be narrowing. */
static pthread_mutex_t scratch_lock = PTHREAD_MUTEX_INITIALIZER;
static union {
	struct phx_ask ask;
	uint64_t room[PHX_PACKET_MAX / sizeof(uint64_t)];
} packet;
static uint32_t chosen[PHX_ANSWER_NODES_MAX];

static void _save(struct saved *s, job_record_t *job_ptr)
{
	const job_details_t *d = job_ptr->details;

#define SAVE_JOB(name) s->name = job_ptr->name;
#define SAVE_DETAILS(name) s->name = d->name;
	SAVED_OF_JOB(SAVE_JOB)
	SAVED_OF_DETAILS(SAVE_DETAILS)
#if HAS_NODE_BITMAP_PREEMPT
	s->node_bitmap_preempt = job_ptr->node_bitmap_preempt;
	job_ptr->node_bitmap_preempt = NULL;
#endif
}

/* Keep the trial's node_bitmap_preempt if it was accepted and made one. */
static void _settle_preempt(struct saved *s, job_record_t *job_ptr, bool accepted)
{
#if HAS_NODE_BITMAP_PREEMPT
	if (accepted && job_ptr->node_bitmap_preempt) {
		FREE_NULL_BITMAP(s->node_bitmap_preempt);
		return;
	}
	FREE_NULL_BITMAP(job_ptr->node_bitmap_preempt);
	job_ptr->node_bitmap_preempt = s->node_bitmap_preempt;
#else
	(void) s;
	(void) job_ptr;
	(void) accepted;
#endif
}

static void _restore(const struct saved *s, job_record_t *job_ptr)
{
	job_details_t *d = job_ptr->details;

#define RESTORE_JOB(name) job_ptr->name = s->name;
#define RESTORE_DETAILS(name) d->name = s->name;
	SAVED_OF_JOB(RESTORE_JOB)
	SAVED_OF_DETAILS(RESTORE_DETAILS)
	if (job_ptr->job_resrcs)
		free_job_resources(&job_ptr->job_resrcs);
}

/* Everything is as just after _save(). */
static void _undo(struct call *c, const struct saved *s, bitstr_t *all, int err)
{
#if HAS_NODE_BITMAP_PREEMPT
	FREE_NULL_BITMAP(c->job_ptr->node_bitmap_preempt);
#endif
	_restore(s, c->job_ptr);
	bit_copybits(c->node_bitmap, all);
	c->err = err;
}

static uint32_t _mode_index(uint16_t mode)
{
	return mode <= SELECT_MODE_WILL_RUN ? mode : MODE_OTHER;
}

/* RET PHX_R_NONE if the daemon may be asked about this call, else why not */
static uint16_t _may_ask(const struct call *c)
{
	job_record_t *job_ptr = c->job_ptr;

	if (c->mode > SELECT_MODE_WILL_RUN)
		return PHX_R_SKIPPED;
	if (!overlay_active())
		return PHX_R_DOWN;
	if (c->max_nodes < MAX(c->min_nodes, 1) || !c->node_bitmap || !job_ptr)
		return PHX_R_SKIPPED;
	if (!layout_has_job(job_ptr))
		return PHX_R_LAYOUT;
	if (!job_ptr->job_id || !job_ptr->part_ptr || !job_ptr->details)
		return PHX_R_SKIPPED;
	/* Only stock knows closed blocks, and asks once for each of several counted features. */
	if (IS_WHOLE_TOPO(job_ptr->details->whole_node) || PART_IS_TOPO(job_ptr->part_ptr) ||
	    strchr(job_ptr->details->features ?: "", '*'))
		return PHX_R_SKIPPED;
	if (bit_size(c->node_bitmap) != node_record_count ||
	    node_record_count <= 0 || (uint32_t) node_record_count > PHX_NODES_MAX)
		return PHX_R_SKIPPED;
	/* Calls of counted features hide the bitmap of --nodelist. */
	if (job_ptr->details->req_node_bitmap || job_ptr->details->req_nodes)
		return PHX_R_REQ_NODES;
	if ((c->later && !c->prove) ||
	    (c->mode == SELECT_MODE_TEST_ONLY &&
	     (!c->prove || bit_set_count(c->node_bitmap) < PROOF_TEST_ONLY_MIN)))
		return PHX_R_SKIPPED;
	return ask_allowed(c->mode, c->start_ns);
}

/* Fill the ASK in `packet`. RET PHX_R_NONE, or why it is not sent */
static uint16_t _fill_ask(const struct call *c)
{
	struct phx_ask *ask = &packet.ask;

	memset(ask, 0, sizeof(*ask));
	ask->hdr = PHX_HDR_OF(PHX_ASK, 0);
	ask->min_nodes = c->min_nodes;
	ask->max_nodes = c->max_nodes;
	ask->req_nodes = c->req_nodes;
	ask->from_time = (uint64_t) c->from;
	ask->to_time = (uint64_t) c->to;
	return state_ask(ask, c);
}

/* RET PHX_R_NONE if stock's result on the chosen nodes stands for all
 * IN all - candidates. Where as many of them as the job takes are empty before its start, by the
 *     ends known here, they might do sooner: no proof is believed then. Slurm's windows are up to
 *     twice as long as the time before them. */
static uint16_t _accept(const struct call *c, int rc, time_t until, bitstr_t *all)
{
	time_t now = time(NULL), start = c->job_ptr->start_time, sooner;
	int first = bit_ffs(c->node_bitmap);
	bitstr_t *like = NULL;

	if (rc != SLURM_SUCCESS)
		return PHX_R_NARROW_FAILED;
	if (c->mode != SELECT_MODE_WILL_RUN || start <= MAX(now, MIN(until, c->from)))
		return PHX_R_NONE;
	sooner = proof_windows() ? now + (start - now - WINDOW_S) / 2 : start - 1;
	if (c->job_ptr->gres_list_req && first >= 0) /* others may have none */
		like = node_record_table_ptr[first]->config_ptr->node_bitmap;
	return start > until || ends_free(all, like, sooner, bit_set_count(c->node_bitmap)) ?
		       PHX_R_NARROW_LATER : PHX_R_NONE;
}

/* Try the chosen nodes alone, without preemption.
 * IN/OUT trial - how; start is set
 * RET PHX_R_NONE: accepted, node_bitmap and the job are stock's result, unless it is not to be
 *     kept; else everything is as before */
static uint16_t _try_narrow(struct call *c, struct trial *trial JOB_TEST_TAIL_PARAMS)
{
	job_record_t *job_ptr = c->job_ptr;
	bitstr_t *orig = bit_copy(c->node_bitmap);
	bool now = c->mode == SELECT_MODE_WILL_RUN && !trial->until;
	uint32_t count = trial->count;
	struct saved saved;
	uint16_t reason;
	int rc, err;

	_save(&saved, job_ptr);
	bit_clear_all(c->node_bitmap);
	for (uint32_t i = 0; i < count; i++)
		bit_set(c->node_bitmap, chosen[i]);
	/* Nodes meant for now: when stock does not find them free it need not
	 * work out when they will be, the full call does. */
	if (now)
		job_ptr->bit_flags |= TEST_NOW_ONLY;
	errno = c->err;
	rc = (*(stock_ops.job_test))(job_ptr, c->node_bitmap,
				     trial->all ? count : c->min_nodes,
				     c->max_nodes,
				     trial->all ? count : MIN(c->req_nodes, count),
				     c->mode, NULL, NULL
				     JOB_TEST_TAIL_ARGS_UNTIL(trial->until));
	err = errno;
	reason = _accept(c, rc, trial->until, orig);
	trial->start = rc == SLURM_SUCCESS ? job_ptr->start_time : 0;
	trial->keep = trial->keep && reason == PHX_R_NONE;
	_settle_preempt(&saved, job_ptr, trial->keep);
	if (trial->keep) {
		c->err = err;
		if (now && !(saved.bit_flags & TEST_NOW_ONLY))
			job_ptr->bit_flags &= ~TEST_NOW_ONLY;
	} else {
		_restore(&saved, job_ptr);
		bit_copybits(c->node_bitmap, orig);
	}
	bit_free(orig);
	return reason;
}

/* Mean time of stock's own recent tests, and of those that an answer narrowed, the ask included, by
 * mode; 0: none yet. */
static _Atomic uint64_t full_mean_ns[MODE_OTHER + 1], own_mean_ns[MODE_OTHER + 1];

static void _note_mean(_Atomic uint64_t *mean, uint64_t ns)
{
	*mean = *mean ? *mean - *mean / RECENT + ns / RECENT : ns;
}

/* RET of how many decisions of a kind that agrees one is compared */
static uint32_t _seldom(uint32_t mode)
{
	uint64_t parts = full_mean_ns[mode] * OFTEN / MAX(own_mean_ns[mode], 1);

	return (uint32_t) MIN(MAX(parts, OFTEN), WITNESS_SELDOM);
}

/* Call stock with the original arguments. */
static int _full(struct call *c, uint64_t *ns JOB_TEST_TAIL_PARAMS)
{
	uint32_t mode = _mode_index(c->mode);
	uint64_t start = now_ns();
	int rc;

	errno = c->err;
	rc = (*(stock_ops.job_test))(c->job_ptr, c->node_bitmap, c->min_nodes,
				     c->max_nodes, c->req_nodes, c->mode,
				     c->candidates,
				     c->preemptees JOB_TEST_TAIL_ARGS);
	c->err = errno;
	*ns = now_ns() - start;
	stat_add(&overlay_stats.full_calls[mode], 1);
	stat_add(&overlay_stats.full_ns[mode], *ns);
	_note_mean(&full_mean_ns[mode], *ns);
	return rc;
}

static void _send_outcome(const struct call *c, struct phx_outcome *out)
{
	struct link_limits limits = link_limits();
	uint64_t mean = full_mean_ns[_mode_index(c->mode)];
	/* A hold saves nothing. */
	bool saved = !out->full_ns && !c->compared && (!out->rc || out->proof) &&
		     mean > out->narrowed_ns;

	breaker_pay(&overlay_breaker, now_ns(), out->ask_ns + c->extra_ns,
		    saved ? mean - out->narrowed_ns : 0, &limits.breaker);
	if (out->proof_result == PHX_PR_VERIFIED) { /* which ones are compared is not told */
		out->proof_result = PHX_PR_ACCEPTED;
		out->full_ns = out->full_start = 0;
	}
	out->hdr = PHX_HDR_OF(PHX_OUTCOME, sizeof(*out));
	out->job_id = c->job_ptr->job_id;
	out->mode = c->mode;
	if (!out->rc && c->node_bitmap)
		out->count = (uint32_t) bit_set_count(c->node_bitmap);
	(void) link_post(&out->hdr); /* a report; its loss does no harm */
	dump_note(out);
	if (out->proof_result == PHX_PR_REFUTED) {
		breaker_refuted(&overlay_breaker, now_ns(), &limits.breaker);
	/* A proof that says too little is no refusal: nobody is to have these nodes. */
	} else if (!out->proof_result &&
		   (out->reason == PHX_R_NONE || out->reason == PHX_R_NARROW_FAILED ||
		    out->reason == PHX_R_NARROW_LATER)) {
		breaker_tried(&overlay_breaker, now_ns(), out->job_id,
			      BREAKER_WHO(c->job_ptr->user_id, phx_account_key(
					  c->job_ptr->part_ptr->name)),
			      !out->reason, &limits.breaker);
	}
}

/* Try the nodes of an answer.
 * IN keep - what is accepted is the result
 * RET PHX_R_NONE: the result stands, or would if it were kept */
static uint16_t _try(struct call *c, const struct phx_answer *answer, bool keep,
		     struct phx_outcome *out JOB_TEST_TAIL_PARAMS)
{
	uint64_t start = now_ns();
	struct trial trial = {
		.count = answer->count,
		.all = answer->flags & PHX_A_ALL_NODES,
		.keep = keep,
		.until = answer->proof == PHX_P_WILL_RUN ?
				 (time_t) answer->until : 0,
	};
	uint16_t reason = _try_narrow(c, &trial JOB_TEST_TAIL_ARGS);

	out->narrowed_ns = now_ns() - start;
	if (reason || !keep) /* stock is called again */
		c->extra_ns += out->narrowed_ns;
	if (answer->proof)
		out->start = (uint64_t) trial.start;
	if (!reason) {
		_note_mean(&own_mean_ns[_mode_index(c->mode)], out->ask_ns + out->narrowed_ns);
		stat_add(&overlay_stats.narrowed_calls, 1);
		stat_add(&overlay_stats.narrowed_ns, out->narrowed_ns);
	}
	return reason;
}

/* RET the kind of a decision: alike are those of one verdict on requests with the same options */
static uint64_t _kind(enum follow follow, uint32_t proof)
{
	const struct phx_ask *a = &packet.ask;
	uint32_t bits[] = {
		follow, proof, a->mode, a->flags, a->topology, a->whole_node,
		(uint32_t) (a->min_nodes < a->max_nodes) | !!a->num_tasks << 1 |
			!!a->core_spec << 2 | !!a->switches << 3 | !!a->segment_size << 4 |
			!!a->class_count << 5 | !!a->mem_per_cpu_mb << 6 |
			(a->sockets_per_node || a->cores_per_socket) << 7 |
			!!a->ntasks_per_node << 8 | !!a->ntasks_per_socket << 9,
		0,
	};

	for (uint32_t i = 0; i < a->gres_count; i++)
		bits[7] |= 1u | !!a->gres[i].type_id << 1 | !!a->gres[i].per_job << 2 |
			   !!a->gres[i].per_node << 3 | !!a->gres[i].per_socket << 4 |
			   !!a->gres[i].per_task << 5 | (i > 0) << 6;
	return fnv_bytes(FNV_OFFSET, bits, sizeof(bits));
}

/* Let stock decide on all candidates, then try the nodes of an answer, and keep what is not worse.
 * IN answer - nodes; NULL: the job is to wait
 * RET PHX_R_NONE: the answer's nodes are the result; else everything is as before */
static uint16_t _compare(struct call *c, const struct phx_answer *answer, uint64_t kind,
			 struct phx_outcome *out JOB_TEST_TAIL_PARAMS)
{
	enum witness_result result = WITNESS_BETTER;
	bitstr_t *all = bit_copy(c->node_bitmap), *nodes;
	uint16_t reason = PHX_R_NONE;
	struct vector stocks, ours;
	struct saved saved;
	uint64_t full_ns;
	int err = c->err;
	bool found;

	_save(&saved, c->job_ptr);
	found = _full(c, &full_ns JOB_TEST_TAIL_ARGS) == SLURM_SUCCESS;
	nodes = bit_copy(c->node_bitmap);
	stocks = vector_of(c->job_ptr, nodes);
	_undo(c, &saved, all, answer ? err : c->err);
	c->compared = true;
	if (answer) {
		reason = _try(c, answer, true, out JOB_TEST_TAIL_ARGS);
		c->extra_ns += reason ? 0 : out->narrowed_ns;
	} else { /* starts later on purpose, and only for as long as may be */
		result = WITNESS_AGREES;
		c->extra_ns += full_ns;
		stat_add(&overlay_stats.held_sampled, 1);
		stat_add(&overlay_stats.held_startable, found);
	}
	if (answer && found && !reason) {
		ours = vector_of(c->job_ptr, c->node_bitmap);
		result = vector_compare(&ours, &stocks, link_limits().trade |
					(state_declares_input(c->job_ptr) ? TRADE_NODES : 0));
	}
	if (!reason)
		witness_note(kind, result, now_ns());
	if (result == WITNESS_WORSE) {
		_undo(c, &saved, all, err);
		c->extra_ns += full_ns;
		reason = PHX_R_NARROW_FAILED;
	}
	_settle_preempt(&saved, c->job_ptr, answer && !reason);
	bit_free(nodes);
	bit_free(all);
	return reason;
}

/* Do what may follow an answer; stock decides whatever is left open.
 * OUT out - reason (of a try), rc, and the result of a proof */
static void _follow(struct call *c, enum follow follow, const struct phx_answer *answer,
		    struct phx_outcome *out JOB_TEST_TAIL_PARAMS)
{
	bool proved = follow == FOLLOW_PROOF || follow == FOLLOW_CANNOT;
	bool now = c->mode == SELECT_MODE_RUN_NOW, held = follow == FOLLOW_HOLD;
	uint64_t kind = _kind(follow, answer->proof);
	uint32_t most = MIN(link_limits().compare, now && (follow == FOLLOW_CANNOT || held) ?
			    HELD_SEEN : _seldom(_mode_index(c->mode)));
	/* Where jobs may be preempted stock is asked but once. */
	bool verify = (proved || (now && !c->candidates)) &&
		witness_draw(kind, most, c->start_ns);
	struct proof_full full;

	if (follow == FOLLOW_TRY || follow == FOLLOW_PROOF) {
		if (answer->count == (uint32_t) bit_set_count(c->node_bitmap))
			out->reason = PHX_R_NO_CHOICE;
		else if (verify && !proved)
			out->reason = _compare(c, answer, kind, out JOB_TEST_TAIL_ARGS);
		else
			out->reason = _try(c, answer, !verify, out JOB_TEST_TAIL_ARGS);
	}
	if (proved) {
		out->proof = (uint16_t) answer->proof;
		out->proof_result = !out->reason || follow == FOLLOW_CANNOT ?
			PHX_PR_ACCEPTED : PHX_PR_REJECTED;
	} else if (follow == FOLLOW_TRY && !out->reason) {
		stat_add(&overlay_stats.narrowed, 1);
	}
	/* Of a proof no nodes were chosen that stock could have refused. */
	stat_add(&overlay_stats.reasons[out->proof_result == PHX_PR_REJECTED ?
						PHX_R_NO_FIT : out->reason], 1);
	if (!out->reason && !(verify && proved))
		return;
	if (((follow == FOLLOW_CANNOT && !verify) || held) && hold_allowed(c->job_ptr, proved)) {
		if (verify)
			(void) _compare(c, NULL, kind, out JOB_TEST_TAIL_ARGS);
		/* As stock where no node is free. */
		bit_clear_all(c->node_bitmap);
		out->rc = SLURM_ERROR;
		return;
	}
	out->rc = _full(c, &out->full_ns JOB_TEST_TAIL_ARGS);
	full.found = out->rc == SLURM_SUCCESS;
	full.start = c->job_ptr->start_time;
	if (!proved)
		return;
	proof_judge(out, answer, &full, c->from);
	if (out->proof_result != PHX_PR_REJECTED)
		witness_note(kind, out->proof_result == PHX_PR_REFUTED ?
			     WITNESS_WORSE : WITNESS_AGREES, now_ns());
}

/* Send the ASK of _fill_ask(), and act on the answer. */
static int _narrow(struct call *c JOB_TEST_TAIL_PARAMS)
{
	struct phx_outcome out = {0};
	struct phx_answer answer;
	struct answer_want want;
	enum follow follow;

	want = (struct answer_want) {
		.job_id = c->job_ptr->job_id,
		.min_nodes = c->min_nodes,
		.max_nodes = c->max_nodes,
		.node_bits = packet.ask.node_bits,
		.mode = c->mode,
		.prove = c->prove,
		.candidates = (const uint64_t *) (&packet.ask + 1),
		.left_out = packet.ask.left_count ?
			(const uint64_t *) (&packet.ask + 1) +
			packet.ask.word_count : NULL,
	};
	follow = ask_daemon(&packet.ask, &want, now_ns(), chosen, &answer, &out.reason);
	out.ask_seq = packet.ask.hdr.seq;
	out.decision = answer.decision;
	out.ask_ns = now_ns() - c->start_ns;
	stat_hist(overlay_stats.ask_ns_hist, out.ask_ns);
	_follow(c, follow, &answer, &out JOB_TEST_TAIL_ARGS);
	_send_outcome(c, &out);
	return out.rc;
}

/* RET whether no answer may change anything; a few are asked for all the same, so that it is known
 * what an ask takes */
static bool _watches(const struct call *c)
{
	return c->mode == SELECT_MODE_RUN_NOW && link_flags() & PHX_W_WATCH &&
	       !witness_one_in(ASKED_OF);
}

/* Let stock decide; of a start send the ASK of _fill_ask(), made before stock changed the job, and
 * wait for nothing. */
static int _watch(struct call *c JOB_TEST_TAIL_PARAMS)
{
	struct phx_outcome out = { .reason = PHX_R_SKIPPED };
	struct link_limits limits;
	int err;

	breaker_cancel(&overlay_breaker);
	packet.ask.watched = 1;
	out.rc = _full(c, &out.full_ns JOB_TEST_TAIL_ARGS);
	if (out.rc == SLURM_SUCCESS) {
		err = link_post(&packet.ask.hdr);
		out.reason = !err ? PHX_R_SHADOW : err == EAGAIN ? PHX_R_SEND : PHX_R_DOWN;
	}
	stat_add(&overlay_stats.reasons[out.reason], 1);
	out.ask_seq = packet.ask.hdr.seq;
	out.ask_ns = now_ns() - c->start_ns - out.full_ns;
	stat_hist(overlay_stats.skip_ns_hist, out.ask_ns);
	if (out.reason == PHX_R_SHADOW) {
		_send_outcome(c, &out);
		return out.rc;
	}
	limits = link_limits();
	breaker_pay(&overlay_breaker, now_ns(), out.ask_ns, 0, &limits.breaker);
	return out.rc;
}

static int _decide(struct call *c JOB_TEST_TAIL_PARAMS)
{
	uint16_t reason;
	uint64_t full_ns;
	int rc = SLURM_ERROR;

	stat_add(&overlay_stats.calls[_mode_index(c->mode)], 1);
	c->prove = overlay_active() && c->job_ptr &&
		   layout_has_job(c->job_ptr) && c->job_ptr->details &&
		   proof_allowed(c->job_ptr, c->mode, c->candidates, c->exc);
	reason = _may_ask(c);
	/* slurmctld's locks let one call in at a time; should that change, the
	 * second one is stock's. */
	if (!reason && pthread_mutex_trylock(&scratch_lock)) {
		breaker_cancel(&overlay_breaker);
		reason = PHX_R_SKIPPED;
	}
	if (!reason) {
		c->turn = turn_begin();
		if (c->prove && c->mode == SELECT_MODE_WILL_RUN)
			c->prove = ends_tell(c->turn);
		reason = _fill_ask(c);
		if (!reason)
			rc = _watches(c) ? _watch(c JOB_TEST_TAIL_ARGS) :
					   _narrow(c JOB_TEST_TAIL_ARGS);
		else
			breaker_cancel(&overlay_breaker);
		turn_end();
		pthread_mutex_unlock(&scratch_lock);
		if (!reason)
			return rc;
	}
	stat_add(&overlay_stats.reasons[reason], 1);
	stat_hist(overlay_stats.skip_ns_hist, now_ns() - c->start_ns);
	return _full(c, &full_ns JOB_TEST_TAIL_ARGS);
}

extern int overlay_job_test(job_record_t *job_ptr, bitstr_t *node_bitmap,
			    uint32_t min_nodes, uint32_t max_nodes,
			    uint32_t req_nodes, uint16_t mode,
			    list_t *preemptee_candidates,
			    list_t **preemptee_job_list JOB_TEST_TAIL_PARAMS)
{
	struct call c = {
		.job_ptr = job_ptr,
		.node_bitmap = node_bitmap,
		.min_nodes = min_nodes,
		.max_nodes = max_nodes,
		.req_nodes = req_nodes,
		.mode = mode,
		.candidates = preemptee_candidates,
		.preemptees = preemptee_job_list,
		.exc = HAS_EXC(JOB_TEST_EXC) ? JOB_TEST_EXC : NULL,
		.later = JOB_TEST_IS_LATER(time(NULL)),
		.from = JOB_TEST_FROM,
		.to = JOB_TEST_TO,
		.start_ns = now_ns(),
		.err = errno,
	};
	int rc = _decide(&c JOB_TEST_TAIL_ARGS);

	/* What it preempts may end earlier from now on, of which no operation tells. */
	if (mode == SELECT_MODE_RUN_NOW && preemptee_candidates)
		turn_over();
	errno = c.err;
	return rc;
}
