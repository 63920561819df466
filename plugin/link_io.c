/* SPDX-License-Identifier: GPL-2.0-or-later */
/* link_io.c - the connection: state, sending, receiving. Knows nothing of Slurm. */

#include "link_io.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "inbox.h"
#include "stats.h"

#define BACKLOG_MAX (8u << 20) /* bytes of events during a sync */
#define POSTED_MAX (64u << 10) /* bytes that may wait for the thread's next tick */
#define DRAIN_MAX 64           /* packets read at a time that nobody awaits */

struct link_io io = {
	.rx_lock = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.sock = -1,
	.wake_fd = -1,
};

static _Atomic uint32_t cur_state; /* enum link_state; written under io.lock */
static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER; /* no other within */
static struct phx_welcome said; /* by the daemon */
static struct site site;
static struct link_limits limits;
static _Atomic uint32_t flags; /* limits.flags, to look at without the lock */
static uint8_t rx_buf[PHX_PACKET_MAX] __attribute__((aligned(8))); /* rx */

extern void io_set_state(enum link_state state)
{
	atomic_store_explicit(&cur_state, state, memory_order_release);
}

extern enum link_state link_state(void)
{
	return atomic_load_explicit(&cur_state, memory_order_acquire);
}

extern struct link_limits link_limits(void)
{
	struct link_limits now;

	pthread_mutex_lock(&limits_lock);
	now = limits;
	pthread_mutex_unlock(&limits_lock);
	return now;
}

extern uint32_t link_flags(void)
{
	return atomic_load_explicit(&flags, memory_order_relaxed);
}

extern void io_wake(void)
{
	uint64_t one = 1;

	if (io.wake_fd >= 0)
		(void) !write(io.wake_fd, &one, sizeof(one));
}

static void _set_limits(const struct phx_welcome *w, const struct site *s)
{
	pthread_mutex_lock(&limits_lock);
	said = w ? *w : said;
	site = s ? *s : site;
	limits = limits_within(&said, &site);
	atomic_store(&flags, limits.flags);
	pthread_mutex_unlock(&limits_lock);
}

extern void link_site(const struct site *s)
{
	static uint32_t enabled; /* under slurmctld's locks */
	static bool known;

	_set_limits(NULL, s);
	if (known && s->enable != enabled) {
		breaker_enable(&overlay_breaker, now_ns());
		io_wake();
	}
	enabled = s->enable;
	known = true;
}

extern void io_lose_locked(const char *why, int err)
{
	enum link_state state = link_state();

	if (state == LINK_DOWN || state == LINK_LOST)
		return;
	io.lost_why = why;
	io.lost_err = err;
	io_set_state(LINK_LOST);
	(void) shutdown(io.sock, SHUT_RDWR);
	io_wake();
}

extern void link_lose(const char *why, int err)
{
	pthread_mutex_lock(&io.lock);
	io_lose_locked(why, err);
	pthread_mutex_unlock(&io.lock);
}

extern void link_proved(void)
{
	atomic_store_explicit(&io.proved, true, memory_order_relaxed);
}

extern void io_stale_locked(void)
{
	enum link_state state = link_state();

	if (state != LINK_READY && state != LINK_SYNCING)
		return;
	io_set_state(LINK_STALE);
	io_wake();
}

/* ---- sending */

static int _send(const struct phx_hdr *hdr)
{
	ssize_t n;

	do {
		n = send(io.sock, hdr, hdr->length, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t) hdr->length)
		return 0;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
		return EAGAIN;
	return n < 0 ? errno : EIO;
}

static int _flush_locked(void)
{
	uint32_t count = 0;
	size_t at = 0;
	int err = 0;

	while (at < io.posted.len && !err) {
		const struct phx_hdr *hdr = (const struct phx_hdr *) (io.posted.data + at);

		err = _send(hdr);
		at += err ? 0 : hdr->length;
		count += !err;
	}
	pktbuf_drop(&io.posted, at, count);
	return err;
}

extern int io_send_locked(struct phx_hdr *hdr)
{
	int err = _flush_locked();

	hdr->seq = io.last_seq + 1;
	if (!err)
		err = _send(hdr);
	io.last_seq += !err;
	return err;
}

/* Leave a packet to the thread's next tick where the daemon only watches: to wake it for each costs
 * more than all else that a packet takes. RET as io_send_locked() */
static int _post_locked(struct phx_hdr *hdr)
{
	struct pktbuf one = { .data = (uint8_t *) hdr, .len = hdr->length, .count = 1 };
	int err;

	if (!(link_flags() & PHX_W_WATCH))
		return io_send_locked(hdr);
	if (io.posted.len + one.len > POSTED_MAX && (err = _flush_locked()))
		return err;
	hdr->seq = io.last_seq + 1;
	if (!pktbuf_append(&io.posted, &one))
		return EAGAIN;
	io.last_seq++;
	return 0;
}

extern void io_count_event(const struct phx_hdr *hdr)
{
	if (hdr->type == PHX_JOB || hdr->type == PHX_JOB_END)
		stat_add(&overlay_stats.events, 1);
}

static int _give(struct phx_hdr *hdr, int (*give)(struct phx_hdr *))
{
	int err = ENOTCONN;

	pthread_mutex_lock(&io.lock);
	if (link_state() == LINK_READY) {
		err = give(hdr);
		if (err && err != EAGAIN)
			io_lose_locked("sending failed", err);
	}
	pthread_mutex_unlock(&io.lock);
	return err;
}

extern int link_send(struct phx_hdr *hdr)
{
	return _give(hdr, io_send_locked);
}

extern int link_post(struct phx_hdr *hdr)
{
	return _give(hdr, _post_locked);
}

extern void io_flush(void)
{
	int err;

	pthread_mutex_lock(&io.lock);
	err = io.sock < 0 ? 0 : _flush_locked();
	if (err && err != EAGAIN)
		io_lose_locked("sending failed", err);
	pthread_mutex_unlock(&io.lock);
}

extern bool link_idle(void)
{
	int left = 0;
	bool idle;

	pthread_mutex_lock(&io.lock);
	idle = io.sock < 0 || (!ioctl(io.sock, SIOCOUTQ, &left) && !left);
	pthread_mutex_unlock(&io.lock);
	return idle;
}

extern bool link_wants_events(void)
{
	enum link_state state = link_state();

	return state == LINK_READY || state == LINK_SYNCING;
}

static void _send_events_locked(const struct pktbuf *events)
{
	size_t at = 0;
	int err = 0;

	while (at < events->len && !err) {
		struct phx_hdr *hdr = (struct phx_hdr *) (events->data + at);

		err = _post_locked(hdr);
		if (!err)
			io_count_event(hdr);
		at += hdr->length;
	}
	if (err == EAGAIN) /* the daemon is behind: it gets all of it anew */
		io_stale_locked();
	else if (err)
		io_lose_locked("sending an event failed", err);
}

extern void link_events(const struct pktbuf *events)
{
	pthread_mutex_lock(&io.lock);
	switch (link_state()) {
	case LINK_READY:
		if (events->failed)
			io_stale_locked();
		else
			_send_events_locked(events);
		break;
	case LINK_SYNCING:
		if (io.backlog.len + events->len > BACKLOG_MAX ||
		    !pktbuf_append(&io.backlog, events))
			io_stale_locked();
		break;
	default: /* the sync to come carries it */
		break;
	}
	pthread_mutex_unlock(&io.lock);
}

/* ---- receiving */

extern bool link_rx_begin(uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t) (deadline_ns / 1000000000ull),
		.tv_nsec = (long) (deadline_ns % 1000000000ull),
	};

#ifdef PHX_NO_CLOCKLOCK /* of check-tsan, which does not know it */
	(void) until;
	return !pthread_mutex_lock(&io.rx_lock);
#else
	return !pthread_mutex_clocklock(&io.rx_lock, CLOCK_MONOTONIC, &until);
#endif
}

extern void link_rx_end(void)
{
	pthread_mutex_unlock(&io.rx_lock);
}

extern bool link_wait_rx(uint64_t deadline_ns)
{
	struct pollfd p = { .fd = io.sock, .events = POLLIN };
	uint64_t now = now_ns();
	struct timespec left;

	if (now >= deadline_ns)
		return false;
	left.tv_sec = (time_t) ((deadline_ns - now) / 1000000000ull);
	left.tv_nsec = (long) ((deadline_ns - now) % 1000000000ull);
	/* Interrupted or ready: the caller tries to receive either way. */
	return ppoll(&p, 1, &left, NULL) != 0;
}

static int _handle(struct packet *p)
{
	bool early = link_state() == LINK_HELLO;

	switch (p->kind) {
	case PACKET_LIMITS:
		if (early != (p->type == PHX_WELCOME)) {
			p->why = "WELCOME first, CONFIG later";
			return EBADMSG;
		}
		_set_limits(&p->welcome, NULL);
		return 0;
	case PACKET_RESYNC:
		pthread_mutex_lock(&io.lock);
		io_stale_locked();
		pthread_mutex_unlock(&io.lock);
		return early ? EBADMSG : 0;
	case PACKET_ANSWER:
		return early ? EBADMSG : 0;
	case PACKET_ORDER:
		if (!early && inbox_take(p, now_ns()))
			return 0;
		p->why = "an ORDER that goes on where the last one ended";
		return EBADMSG;
	default:
		return EBADMSG;
	}
}

extern int link_receive(struct packet *p)
{
	ssize_t n;
	int err;

	do { /* MSG_TRUNC: the true length, so that a longer one is seen */
		n = recv(io.sock, rx_buf, sizeof(rx_buf), MSG_DONTWAIT | MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return EAGAIN;
	if (n <= 0) {
		err = n ? errno : ECONNRESET;
		link_lose("the daemon closed the connection", err);
		return err;
	}
	if ((size_t) n > sizeof(rx_buf)) {
		link_lose("a packet is longer than the maximum", EMSGSIZE);
		return EBADMSG;
	}
	packet_parse(rx_buf, (size_t) n, p);
	if (_handle(p)) {
		link_lose(p->why ? p->why : "a message out of turn", EBADMSG);
		return EBADMSG;
	}
	return 0;
}

static uint64_t _last_seq(void)
{
	uint64_t seq;

	pthread_mutex_lock(&io.lock);
	seq = io.last_seq;
	pthread_mutex_unlock(&io.lock);
	return seq;
}

extern void io_drain(void)
{
	struct packet p;

	if (pthread_mutex_trylock(&io.rx_lock))
		return; /* an ask is under way and reads by itself */
	for (int i = 0; i < DRAIN_MAX && io.sock >= 0; i++) {
		if (link_receive(&p))
			break;
		if (p.kind != PACKET_ANSWER)
			continue;
		if (p.answer.hdr.seq > _last_seq()) {
			link_lose("an ANSWER to an ask that was made", EBADMSG);
			break;
		}
		stat_add(&overlay_stats.late_answers, 1);
	}
	pthread_mutex_unlock(&io.rx_lock);
}
