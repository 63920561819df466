/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_io.c - the plugin's socket and wakening descriptor; see sim.h. */

#include "sim.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "../../../ffi/include/phalanx_wire.h"

#define CONNS 4
#define FD_CONN 1000
#define FD_EVENT 2000
#define NS_PER_S 1000000000ull
#define LOOK_NS 4000     /* an empty socket is looked at */
#define PACKET_COST 512u /* of the socket's room, beside its bytes */

/* Packets on their way in one direction. */
struct queue {
	uint8_t *data;
	size_t head, len, cap;
	size_t packets;
};

struct conn {
	uint32_t number; /* 0: free */
	bool plugin, daemon; /* who has not closed */
	struct queue up, down;
};

static struct conn conns[CONNS];
static uint32_t newest;
static bool listening;
static uint64_t event_count;
static bool event_open;

uint64_t sim_signal_count;

static void _put(struct queue *q, const void *packet, uint32_t len)
{
	size_t need = (q->len + sizeof(len) + len);

	if (q->head) {
		memmove(q->data, q->data + q->head, q->len);
		q->head = 0;
	}
	if (need > q->cap) {
		q->cap = 2 * need;
		q->data = realloc(q->data, q->cap);
		if (!q->data)
			abort();
	}
	memcpy(q->data + q->len, &len, sizeof(len));
	memcpy(q->data + q->len + sizeof(len), packet, len);
	q->len = need;
	q->packets++;
}

/* RET bytes of the packet, which are cut to `room`; -1 if there is none */
static int _get(struct queue *q, void *packet, size_t room)
{
	uint32_t len;

	if (!q->packets)
		return -1;
	memcpy(&len, q->data + q->head, sizeof(len));
	memcpy(packet, q->data + q->head + sizeof(len), len < room ? len : room);
	q->head += sizeof(len) + len;
	q->len -= sizeof(len) + len;
	q->packets--;
	if (!q->packets)
		q->head = q->len = 0;
	return (int) len;
}

static void _empty(struct queue *q)
{
	q->head = q->len = q->packets = 0;
}

static size_t _room_used(const struct queue *q)
{
	return q->len + q->packets * PACKET_COST;
}

static struct conn *_by_number(uint32_t number)
{
	for (struct conn *c = conns; c < conns + CONNS; c++) {
		if (number && c->number == number)
			return c;
	}
	return NULL;
}

extern bool sim_io_idle(void)
{
	const struct conn *c = _by_number(newest);

	return c && c->plugin && c->daemon && !c->up.packets;
}

extern uint64_t sim_signals(void)
{
	return sim_signal_count;
}

static struct conn *_by_fd(int fd)
{
	struct conn *c = &conns[fd - FD_CONN];

	return fd >= FD_CONN && fd < FD_CONN + CONNS && c->number && c->plugin ?
	       c : NULL;
}

static void _settle(struct conn *c)
{
	if (!c->plugin && !c->daemon)
		c->number = 0;
}

/* ---- for the campaign */

extern void sim_listen(bool on)
{
	listening = on;
}

extern uint32_t sim_connection(void)
{
	return newest;
}

extern int sim_take(uint32_t connection, void *packet, uint32_t room)
{
	struct conn *c = _by_number(connection);
	int len;

	if (!c || !c->daemon)
		return -1;
	len = _get(&c->up, packet, room);
	if (len >= 0) {
		sim_wake_pollers();
		return len;
	}
	return c->plugin ? 0 : -1;
}

extern void sim_give(uint32_t connection, const void *packet, uint32_t len)
{
	struct conn *c = _by_number(connection);

	if (!c || !c->daemon || !c->plugin)
		return;
	_put(&c->down, packet, len);
	sim_wake_pollers();
}

extern void sim_cut(uint32_t connection)
{
	struct conn *c = _by_number(connection);

	if (!c)
		return;
	c->daemon = false;
	_empty(&c->up);
	_settle(c);
	sim_wake_pollers();
}

extern void sim_io_reset(void)
{
	for (struct conn *c = conns; c < conns + CONNS; c++) {
		c->plugin = false;
		_empty(&c->down);
		_settle(c);
	}
	sim_signal_count++;
	event_count = 0;
	event_open = false;
}

extern void sim_io_begin(void)
{
	for (struct conn *c = conns; c < conns + CONNS; c++) {
		c->number = 0;
		_empty(&c->up);
		_empty(&c->down);
	}
	newest = 0;
	listening = false;
	sim_io_reset();
}

/* ---- instead of the C library's */

extern int sim_socket(int domain, int type, int protocol)
{
	(void) domain;
	(void) type;
	(void) protocol;
	for (int i = 0; i < CONNS; i++) {
		if (!conns[i].number) {
			conns[i].number = UINT32_MAX;
			conns[i].plugin = true;
			conns[i].daemon = false;
			_empty(&conns[i].up);
			_empty(&conns[i].down);
			return FD_CONN + i;
		}
	}
	errno = EMFILE;
	return -1;
}

extern int sim_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct conn *c = _by_fd(fd);

	(void) addr;
	(void) len;
	if (!c || !listening) {
		errno = ECONNREFUSED;
		return -1;
	}
	c->number = ++newest;
	c->daemon = true;
	sim_signal_count++;
	return 0;
}

extern int sim_setsockopt(int fd, int level, int name, const void *value,
			  socklen_t len)
{
	(void) fd;
	(void) level;
	(void) name;
	(void) value;
	(void) len;
	return 0;
}

extern int sim_getsockopt(int fd, int level, int name, void *value,
			  socklen_t *len)
{
	struct ucred peer = { .uid = 0 };

	(void) fd;
	(void) level;
	(void) name;
	memcpy(value, &peer, sizeof(peer));
	*len = sizeof(peer);
	return 0;
}

extern ssize_t sim_send(int fd, const void *data, size_t len, int flags)
{
	struct conn *c = _by_fd(fd);

	(void) flags;
	if (!c || !c->daemon) {
		errno = EPIPE;
		return -1;
	}
	/* As unix(7): the packet that fills it is still taken. */
	if (_room_used(&c->up) >= sim.socket_bytes) {
		errno = EAGAIN;
		return -1;
	}
	sim_check_sent(data);
	if (sim.sabotage == SIM_LOSE_EVENT && !sim_random(4) &&
	    ((const struct phx_hdr *) data)->type == PHX_JOB_END)
		return (ssize_t) len;
	_put(&c->up, data, (uint32_t) len);
	sim_signal_count++;
	return (ssize_t) len;
}

extern ssize_t sim_recv(int fd, void *data, size_t len, int flags)
{
	struct conn *c = _by_fd(fd);
	int got;

	(void) flags;
	if (!c) {
		errno = ENOTCONN;
		return -1;
	}
	got = _get(&c->down, data, len);
	if (got < 0 && !c->daemon)
		return 0;
	if (got < 0) {
		sim_sleep(LOOK_NS);
		got = _get(&c->down, data, len);
	}
	if (got >= 0)
		sim_check_read(data, (uint32_t) got);
	else
		errno = EAGAIN;
	return got;
}

extern int sim_shutdown(int fd, int how)
{
	struct conn *c = _by_fd(fd);

	(void) how;
	if (c)
		_empty(&c->down);
	sim_wake_pollers();
	return 0;
}

extern int sim_ioctl(int fd, unsigned long request, ...)
{
	struct conn *c = _by_fd(fd);
	va_list ap;
	int *left;

	va_start(ap, request);
	left = va_arg(ap, int *);
	va_end(ap);
	if (request != SIOCOUTQ || !c) {
		errno = EBADF;
		return -1;
	}
	*left = (int) _room_used(&c->up);
	return 0;
}

extern int sim_close(int fd)
{
	struct conn *c = _by_fd(fd);

	if (sim_disk_owns(fd))
		return sim_disk_close(fd);
	if (fd == FD_EVENT)
		event_open = false;
	if (!c)
		return 0;
	c->plugin = false;
	sim_signal_count++;
	_empty(&c->down);
	if (c->number == UINT32_MAX)
		c->number = 0;
	_settle(c);
	return 0;
}

extern int sim_eventfd(unsigned int count, int flags)
{
	(void) flags;
	event_count = count;
	event_open = true;
	return FD_EVENT;
}

extern ssize_t sim_event_write(const void *data)
{
	uint64_t add;

	memcpy(&add, data, sizeof(add));
	event_count += add;
	sim_wake_pollers();
	return sizeof(add);
}

extern ssize_t sim_event_read(void *data)
{
	if (!event_count) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(data, &event_count, sizeof(event_count));
	event_count = 0;
	return sizeof(event_count);
}

static short _ready(const struct pollfd *p)
{
	const struct conn *c;
	short events = 0;

	if (p->fd == FD_EVENT)
		return event_count ? p->events & POLLIN : 0;
	c = _by_fd(p->fd);
	if (!c)
		return p->fd < 0 ? 0 : POLLNVAL;
	if (c->down.packets || !c->daemon)
		events |= p->events & POLLIN;
	if (!c->daemon)
		events |= POLLHUP;
	if (_room_used(&c->up) * 4 <= sim.socket_bytes)
		events |= p->events & POLLOUT;
	return events;
}

static int _poll(struct pollfd *p, nfds_t count, uint64_t until)
{
	for (;;) {
		int n = 0;

		for (nfds_t i = 0; i < count; i++) {
			p[i].revents = _ready(&p[i]);
			n += p[i].revents != 0;
		}
		if (n || sim_clock >= until)
			return n;
		(void) sim_wait_io(until);
	}
}

extern int sim_poll(struct pollfd *p, nfds_t count, int ms)
{
	return _poll(p, count, sim_clock + (uint64_t) ms * 1000000ull);
}

extern int sim_ppoll(struct pollfd *p, nfds_t count,
		     const struct timespec *left, const void *mask)
{
	uint64_t ns = (uint64_t) left->tv_sec * NS_PER_S +
		      (uint64_t) left->tv_nsec;

	(void) mask;
	if (sim.sabotage == SIM_SLOW_ASK && !sim_random(8))
		ns += 50000000ull;
	return _poll(p, count, sim_clock + ns);
}
