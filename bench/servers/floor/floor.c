// floor answers frames with epoll and nothing else: what the kernel and the protocol cost without a library. It has no
// limits but one on a frame's length, and no time-outs.
//
// See https://man7.org/linux/man-pages/man7/epoll.7.html
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 13, SUBMIT = 2, SUBMIT_ACK = 0x82, LONGEST = 64 << 10, ROOM = 2 * LONGEST, EVENTS = 512 };

// conn is a connection: the beginning of a request, and answers that the socket did not take.
struct conn {
	int fd;
	size_t held, unsent;
	char *in, *out;
};

static char *keep(char *old, const char *bytes, size_t n) {
	char *kept = n ? memcpy(malloc(n), bytes, n) : NULL;
	free(old);
	return kept;
}

static void drop(struct conn *c) {
	close(c->fd);
	free(c->in), free(c->out), free(c);
}

// answer writes the answers to the requests at the front of in, and returns how many bytes those are; -1: not a request.
static ssize_t answer(const char *in, size_t n, char *out, size_t *made) {
	size_t used = 0;
	for (uint32_t size; n - used >= sizeof size; used += size) {
		const char *frame = in + used;
		memcpy(&size, frame, sizeof size);
		if ((size = ntohl(size)) < HEAD || size > LONGEST) return -1;
		if (n - used < size) break;
		if (frame[4] != SUBMIT) return -1;
		char *to = out + *made;
		uint32_t longer = htonl(size + 1); // by the result, 0
		memcpy(to, frame, HEAD);
		memcpy(to, &longer, sizeof longer);
		to[4] = (char)SUBMIT_ACK;
		to[HEAD] = 0;
		memcpy(to + HEAD + 1, frame + HEAD, size - HEAD);
		*made += size + 1;
	}
	return used;
}

// put sends what the socket takes, and has it take more before the next read.
static int put(int epoll, struct conn *c, const char *bytes, size_t n) {
	ssize_t sent = send(c->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	size_t before = c->unsent;
	if (sent < 0 && errno != EAGAIN) return -1;
	c->unsent = n - (sent < 0 ? 0 : sent);
	c->out = keep(c->out, bytes + n - c->unsent, c->unsent);
	if (!before == !c->unsent) return 0;
	struct epoll_event e = {.events = c->unsent ? EPOLLOUT : EPOLLIN, .data.ptr = c};
	return epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
}

static int serve(int epoll, struct conn *c, char *in, char *out) {
	if (c->unsent) return put(epoll, c, c->out, c->unsent);
	if (c->held) memcpy(in, c->in, c->held);
	ssize_t n = recv(c->fd, in + c->held, ROOM - c->held, MSG_DONTWAIT);
	if (n <= 0) return -1;
	size_t have = c->held + n, made = 0;
	ssize_t used = answer(in, have, out, &made);
	if (used < 0) return -1;
	if (c->held || have > (size_t)used) c->in = keep(c->in, in + used, have - used);
	c->held = have - used;
	return made ? put(epoll, c, out, made) : 0;
}

static void *loop(void *ln) {
	int listener = (int)(intptr_t)ln, one = 1, epoll = epoll_create1(0);
	struct epoll_event events[EVENTS], e = {.events = EPOLLIN | EPOLLEXCLUSIVE};
	char *in = malloc(ROOM), *out = malloc(2 * ROOM); // an answer is at most twice its request
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e);
	for (int n; (n = epoll_wait(epoll, events, EVENTS, -1)) >= 0 || errno == EINTR;) {
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			if (c && serve(epoll, c, in, out)) drop(c);
			if (events[i].data.ptr) continue;
			int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
			if (fd < 0) continue; // another loop was faster
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
			*(c = malloc(sizeof *c)) = (struct conn){.fd = fd};
			e = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
			if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e)) drop(c);
		}
	}
	return NULL;
}

int main(int argc, char **argv) { // --addr 127.0.0.1:PORT --loops N
	char *port = argc == 5 ? strchr(argv[2], ':') : NULL, line[64];
	if (!port) return 2;
	int ln = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(atoi(port + 1)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int again = 1;
	if (setsockopt(ln, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again)) return 1;
	if (bind(ln, (void *)&addr, sizeof addr) || listen(ln, 4096)) return 1;
	for (int i = 0; i < atoi(argv[4]); i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, loop, (void *)(intptr_t)ln)) return 1;
	}
	printf("{\"addr\":\"%s\",\"pid\":%d}\n", argv[2], getpid());
	for (fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) { // until whoever started it ends
		malloc_trim(0);
		printf("\"%s\"\n", strtok(line, "\n"));
	}
}
