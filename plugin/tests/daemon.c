/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon.c - see daemon.h. */

#include "daemon.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

#define RECORDS_MAX 60000
#define WAIT_MS 5000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static int listener = -1, conn = -1, stop_pipe[2];
static uint8_t *records[RECORDS_MAX];
static int record_count;
static _Atomic enum reply reply;
static uint32_t nodes[PHX_ANSWER_NODES_MAX], node_count;
static struct phx_welcome welcome;
static struct phx_answer proof;
static _Atomic uint32_t late_ms;
static _Atomic bool paused, no_welcome;

static void _hdr(struct phx_hdr *h, uint16_t type, size_t len, uint64_t seq)
{
	*h = (struct phx_hdr) { .magic = PHX_MAGIC, .version = PHX_VERSION,
				.type = type, .length = (uint32_t) len,
				.seq = seq };
}

static void _put(const void *data, size_t len)
{
	(void) !send(conn, data, len, MSG_NOSIGNAL);
}

static void _answer(const struct phx_ask *ask, uint64_t seq, bool opinion)
{
	struct {
		struct phx_answer a;
		uint32_t nodes[PHX_ANSWER_NODES_MAX];
	} m = {0};
	uint32_t n = opinion ? node_count : 0;
	size_t len = sizeof(m.a) + n * sizeof(uint32_t);

	_hdr(&m.a.hdr, PHX_ANSWER, len, seq);
	if (reply == REPLY_VERSION)
		m.a.hdr.version++;
	m.a.job_id = ask->job_id + (reply == REPLY_OTHER_JOB);
	m.a.verdict = opinion ? PHX_NARROW : PHX_NO_OPINION;
	m.a.reason = opinion ? PHX_R_NONE :
		     reply == REPLY_HELD ? PHX_R_HELD : PHX_R_NO_FIT;
	m.a.decision = 42;
	m.a.flags = proof.flags;
	m.a.proof = proof.proof;
	m.a.not_before = proof.not_before;
	m.a.until = proof.until;
	m.a.count = n;
	memcpy(m.nodes, nodes, n * sizeof(uint32_t));
	_put(&m, reply == REPLY_TRUNCATED ? len - 1 : len);
}

static void _flood(const struct phx_ask *ask)
{
	for (int i = 0; i < 200000; i++) {
		struct pollfd p = { .fd = conn, .events = POLLOUT };

		if (poll(&p, 1, 20) != 1)
			break;
		_answer(ask, 1, true);
	}
}

static void _reply(const struct phx_ask *ask)
{
	static uint8_t junk[PHX_PACKET_MAX + 4096];
	uint64_t seq = ask->hdr.seq;

	switch (reply) {
	case REPLY_SILENT:
		break;
	case REPLY_NO_OPINION:
	case REPLY_HELD:
		_answer(ask, seq, false);
		break;
	case REPLY_LATE:
		usleep(late_ms * 1000);
		_answer(ask, seq, true);
		break;
	case REPLY_OLD_SEQ:
		_answer(ask, seq - 1, true);
		break;
	case REPLY_FUTURE_SEQ:
		_answer(ask, seq + 1, true);
		break;
	case REPLY_GARBAGE:
		memset(junk, 0xa5, sizeof(junk));
		_put(junk, 77);
		break;
	case REPLY_TOO_LONG:
		_put(junk, sizeof(junk));
		break;
	case REPLY_FLOOD:
		_flood(ask);
		break;
	case REPLY_CLOSE:
		shutdown(conn, SHUT_RDWR);
		break;
	case REPLY_RESYNC_FIRST: {
		struct phx_resync r;

		_hdr(&r.hdr, PHX_RESYNC, sizeof(r), 1);
		_put(&r, sizeof(r));
		_answer(ask, seq, true);
		break;
	}
	default:
		_answer(ask, seq, true);
	}
}

static void _handle(const uint8_t *data, size_t len)
{
	const struct phx_hdr *hdr = (const struct phx_hdr *) data;
	static uint64_t last_seq;
	uint8_t *copy = malloc(len);

	CHECK(copy && len >= sizeof(*hdr) && hdr->length == len);
	CHECK_EQ(hdr->magic, PHX_MAGIC);
	if (hdr->type == PHX_HELLO)
		last_seq = 0;
	CHECK_EQ(hdr->seq, last_seq + 1); /* no number is left out */
	last_seq = hdr->seq;
	memcpy(copy, data, len);
	pthread_mutex_lock(&lock);
	CHECK(record_count < RECORDS_MAX);
	records[record_count++] = copy;
	if (hdr->type == PHX_HELLO && !no_welcome) {
		_hdr(&welcome.hdr, PHX_WELCOME, sizeof(welcome), 1);
		_put(&welcome, sizeof(welcome));
	}
	pthread_mutex_unlock(&lock);
	if (hdr->type == PHX_ASK)
		_reply((const struct phx_ask *) data);
}

static void *_run(void *arg)
{
	static uint8_t buf[PHX_PACKET_MAX] __attribute__((aligned(8)));

	(void) arg;
	for (;;) {
		struct pollfd p[3] = {
			{ .fd = stop_pipe[0], .events = POLLIN },
			{ .fd = listener, .events = POLLIN },
			{ .fd = paused ? -1 : conn, .events = POLLIN },
		};
		ssize_t n;

		(void) poll(p, 3, 10);
		if (p[0].revents)
			return NULL;
		if (p[1].revents && conn < 0) {
			int fd = accept(listener, NULL, NULL);

			pthread_mutex_lock(&lock);
			conn = fd;
			pthread_mutex_unlock(&lock);
			continue;
		}
		if (!p[2].revents || paused)
			continue;
		n = recv(conn, buf, sizeof(buf), 0);
		if (n > 0) {
			_handle(buf, (size_t) n);
			continue;
		}
		pthread_mutex_lock(&lock);
		close(conn);
		conn = -1;
		pthread_mutex_unlock(&lock);
	}
}

extern void daemon_start(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strncpy(addr.sun_path, path, sizeof(addr.sun_path) - 1);
	unlink(path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(!bind(listener, (struct sockaddr *) &addr, sizeof(addr)));
	CHECK(!listen(listener, 8) && !pipe(stop_pipe));
	CHECK(!pthread_create(&thread, NULL, _run, NULL));
}

extern void daemon_stop(void)
{
	CHECK(write(stop_pipe[1], "x", 1) == 1);
	pthread_join(thread, NULL);
	if (conn >= 0)
		close(conn);
	close(listener);
	close(stop_pipe[0]);
	close(stop_pipe[1]);
	conn = -1;
	for (int i = 0; i < record_count; i++)
		free(records[i]);
	record_count = 0;
}

extern void daemon_reply(enum reply r)
{
	reply = r;
}

extern void daemon_nodes(const uint32_t *list, uint32_t count)
{
	memcpy(nodes, list, count * sizeof(*list));
	node_count = count;
}

extern void daemon_proof(uint32_t kind, uint64_t not_before, uint64_t until)
{
	proof = (struct phx_answer) {
		.flags = kind ? PHX_A_PROOF : 0,
		.proof = kind,
		.not_before = not_before,
		.until = until,
	};
}

extern void daemon_limits(uint32_t deadline_us, uint32_t misses,
			  uint32_t open_ms, uint32_t flags)
{
	welcome.deadline_us = deadline_us;
	/* That many take more than this, and one less does not. */
	welcome.late_budget_ms = (misses * deadline_us - deadline_us / 2) / 1000;
	welcome.breaker_open_ms = open_ms;
	welcome.flags = flags;
}

extern void daemon_watch(uint32_t refused_pct, uint32_t syncs, uint32_t held_s,
			 uint32_t eject_openings)
{
	welcome.refused_pct = refused_pct;
	welcome.syncs = syncs;
	welcome.held_s = held_s;
	welcome.eject_openings = eject_openings;
	welcome.eject_window_s = 3600;
}

extern void daemon_enable(void)
{
	welcome.flags |= PHX_W_ENABLE;
	daemon_send_config();
	welcome.flags &= ~(uint32_t) PHX_W_ENABLE;
}

extern void daemon_late_ms(uint32_t ms)
{
	late_ms = ms;
}

extern void daemon_pause(bool pause)
{
	paused = pause;
	usleep(30000); /* longer than one round of the thread */
}

extern void daemon_welcome(bool yes)
{
	no_welcome = !yes;
}

extern void daemon_drop(void)
{
	pthread_mutex_lock(&lock);
	if (conn >= 0)
		shutdown(conn, SHUT_RDWR);
	pthread_mutex_unlock(&lock);
}

extern void daemon_send_resync(void)
{
	struct phx_resync r;

	_hdr(&r.hdr, PHX_RESYNC, sizeof(r), 1);
	pthread_mutex_lock(&lock);
	_put(&r, sizeof(r));
	pthread_mutex_unlock(&lock);
}

extern void daemon_send_config(void)
{
	pthread_mutex_lock(&lock);
	_hdr(&welcome.hdr, PHX_CONFIG, sizeof(welcome), 1);
	_put(&welcome, sizeof(welcome));
	pthread_mutex_unlock(&lock);
}

extern void daemon_send_order(uint64_t generation, uint32_t flags,
			      uint32_t lease_ms, const struct phx_delta *deltas,
			      uint32_t count)
{
	struct {
		struct phx_order o;
		struct phx_delta deltas[PHX_ORDER_PER_MSG];
	} m = { .o = { .generation = generation, .lease_ms = lease_ms,
		       .flags = flags, .count = count } };
	size_t len = sizeof(m.o) + count * sizeof(*deltas);

	CHECK(count <= PHX_ORDER_PER_MSG);
	_hdr(&m.o.hdr, PHX_ORDER, len, 1);
	if (count)
		memcpy(m.deltas, deltas, count * sizeof(*deltas));
	pthread_mutex_lock(&lock);
	_put(&m, len);
	pthread_mutex_unlock(&lock);
}

static int _find(uint16_t type, int nth)
{
	for (int i = 0; i < record_count; i++) {
		const struct phx_hdr *h = (const struct phx_hdr *) records[i];

		if (h->type == type && --nth == 0)
			return i;
	}
	return -1;
}

extern int daemon_count(uint16_t type)
{
	int n = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < record_count; i++)
		n += ((const struct phx_hdr *) records[i])->type == type;
	pthread_mutex_unlock(&lock);
	return n;
}

extern const void *daemon_wait(uint16_t type, int nth)
{
	for (int ms = 0; ms < WAIT_MS; ms += 2) {
		const void *found = NULL;
		int i;

		pthread_mutex_lock(&lock);
		i = _find(type, nth);
		if (i >= 0)
			found = records[i];
		pthread_mutex_unlock(&lock);
		if (found)
			return found;
		usleep(2000);
	}
	fprintf(stderr, "packet %d of type %d did not come\n", nth, type);
	exit(1);
}

extern int daemon_order(uint16_t type, int nth)
{
	int i;

	(void) daemon_wait(type, nth);
	pthread_mutex_lock(&lock);
	i = _find(type, nth);
	pthread_mutex_unlock(&lock);
	return i;
}
