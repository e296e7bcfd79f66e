// SPDX-License-Identifier: GPL-2.0-only
// A sender and a receiver of one QUIC stream with ngtcp2; ../README.md has their command line.
#define _GNU_SOURCE
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

// larger than any bandwidth-delay product, so that only congestion control limits the sender
#define WINDOW_BYTES (64 << 20)
// ngtcp2 has no default
#define IDLE (30 * NGTCP2_SECONDS)
#define ID_BYTES 18
#define USAGE "receive --address A --port P --certificate FILE --key FILE | " \
	"send --address A --port P --cca NAME (--bytes N | --seconds S) --qlog FILE"
#define PRIORITY "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:" \
	"-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:%DISABLE_TLS13_COMPAT_MODE"

// names that came with version 1
#if NGTCP2_VERSION_NUM < 0x010000
#define ngtcp2_ccerr ngtcp2_connection_close_error
#define ngtcp2_ccerr_default ngtcp2_connection_close_error_default
#define ngtcp2_ccerr_set_application_error ngtcp2_connection_close_error_set_application_error
#endif

struct connection {
	ngtcp2_conn *quic;
	gnutls_session_t tls;
	ngtcp2_crypto_conn_ref reference;
	struct sockaddr_storage local, peer;
	ngtcp2_path path;
	int socket;
	int64_t stream;
	int ready, done;
	unsigned long long moved, wanted;
	struct connection *next;
};

struct options {
	const char *address, *port, *certificate, *key, *cca, *bytes, *seconds, *qlog;
};

static gnutls_certificate_credentials_t credentials;
static FILE *qlog;
static volatile sig_atomic_t ended;

static void __attribute__((noreturn, format(printf, 2, 3))) leave(int status, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	exit(status);
}

static void need(int result, const char *what)
{
	if (result < 0)
		leave(1, "%s: %s", what, ngtcp2_strerror(result));
}

static void need_tls(int result, const char *what)
{
	if (result < 0)
		leave(1, "%s: %s", what, gnutls_strerror(result));
}

static void need_system(int result, const char *what)
{
	if (result < 0)
		leave(1, "%s: %s", what, strerror(errno));
}

static ngtcp2_tstamp now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NGTCP2_SECONDS + time.tv_nsec;
}

static void draw(uint8_t *to, size_t length)
{
	if (getrandom(to, length, 0) != (ssize_t)length)
		leave(1, "no random numbers");
}

static void draw_for_library(uint8_t *to, size_t length, const ngtcp2_rand_ctx *context)
{
	(void)context;
	draw(to, length);
}

static int new_id(ngtcp2_conn *quic, ngtcp2_cid *id, uint8_t *token, size_t length, void *user)
{
	(void)quic, (void)user;
	id->datalen = length;
	draw(id->data, length);
	draw(token, NGTCP2_STATELESS_RESET_TOKENLEN);
	return 0;
}

static int handshake_completed(ngtcp2_conn *quic, void *user)
{
	(void)quic;
	((struct connection *)user)->ready = 1;
	return 0;
}

static int received(ngtcp2_conn *quic, uint32_t flags, int64_t stream, uint64_t offset, const uint8_t *data,
		    size_t length, void *user, void *stream_user)
{
	(void)flags, (void)offset, (void)data, (void)stream_user;
	((struct connection *)user)->moved += length;
	ngtcp2_conn_extend_max_offset(quic, length);
	return ngtcp2_conn_extend_max_stream_offset(quic, stream, length);
}

// all of it is acknowledged
static int stream_closed(ngtcp2_conn *quic, uint32_t flags, int64_t stream, uint64_t error, void *user,
			 void *stream_user)
{
	(void)quic, (void)flags, (void)stream, (void)error, (void)stream_user;
	((struct connection *)user)->done = 1;
	return 0;
}

static void write_qlog(void *user, uint32_t flags, const void *data, size_t length)
{
	(void)user, (void)flags;
	fwrite(data, 1, length, qlog);
}

static ngtcp2_conn *connection_of(ngtcp2_crypto_conn_ref *reference)
{
	return ((struct connection *)reference->user_data)->quic;
}

static void begin_tls(struct connection *one, int server)
{
	gnutls_datum_t protocol = {(unsigned char *)"testbed", 7};

	need_tls(gnutls_init(&one->tls, server ? GNUTLS_SERVER : GNUTLS_CLIENT), "TLS");
	need_tls(gnutls_priority_set_direct(one->tls, PRIORITY, NULL), "TLS");
	if (server)
		need(ngtcp2_crypto_gnutls_configure_server_session(one->tls), "TLS");
	else
		need(ngtcp2_crypto_gnutls_configure_client_session(one->tls), "TLS");
	need_tls(gnutls_credentials_set(one->tls, GNUTLS_CRD_CERTIFICATE, credentials), "TLS");
	need_tls(gnutls_alpn_set_protocols(one->tls, &protocol, 1, GNUTLS_ALPN_MANDATORY), "TLS");
	if (!server)
		need_tls(gnutls_server_name_set(one->tls, GNUTLS_NAME_DNS, "server", 6), "TLS");
	one->reference = (ngtcp2_crypto_conn_ref){connection_of, one};
	gnutls_session_set_ptr(one->tls, &one->reference);
	ngtcp2_conn_set_tls_native_handle(one->quic, one->tls);
}

// A client if there is no first packet.
static struct connection *new_connection(int socket, const struct sockaddr_storage *peer, socklen_t length,
					 const ngtcp2_pkt_hd *first, ngtcp2_cc_algo control)
{
	ngtcp2_callbacks callbacks = {
		.client_initial = ngtcp2_crypto_client_initial_cb,
		.recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
		.recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
		.encrypt = ngtcp2_crypto_encrypt_cb,
		.decrypt = ngtcp2_crypto_decrypt_cb,
		.hp_mask = ngtcp2_crypto_hp_mask_cb,
		.recv_retry = ngtcp2_crypto_recv_retry_cb,
		.update_key = ngtcp2_crypto_update_key_cb,
		.delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
		.delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
		.get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
		.version_negotiation = ngtcp2_crypto_version_negotiation_cb,
		.rand = draw_for_library,
		.get_new_connection_id = new_id,
		.handshake_completed = handshake_completed,
		.recv_stream_data = received,
		.stream_close = stream_closed,
	};
	struct connection *one = calloc(1, sizeof(*one));
	socklen_t local_length = sizeof(one->local);
	ngtcp2_transport_params limits;
	ngtcp2_settings settings;
	ngtcp2_cid id, their_id;

	if (!one)
		leave(1, "out of memory");
	one->socket = socket;
	one->stream = -1;
	one->peer = *peer;
	need_system(getsockname(socket, (struct sockaddr *)&one->local, &local_length), "getsockname");
	one->path.local = (ngtcp2_addr){(struct sockaddr *)&one->local, local_length};
	one->path.remote = (ngtcp2_addr){(struct sockaddr *)&one->peer, length};

	ngtcp2_settings_default(&settings);
	settings.initial_ts = now();
	settings.cc_algo = control;
	if (qlog)
#if NGTCP2_VERSION_NUM < 0x010000
		settings.qlog.write = write_qlog;
#else
		settings.qlog_write = write_qlog;
#endif
	ngtcp2_transport_params_default(&limits);
	limits.initial_max_data = limits.initial_max_stream_data_uni = WINDOW_BYTES;
	limits.initial_max_streams_uni = 16;
	limits.max_idle_timeout = IDLE;

	id.datalen = their_id.datalen = ID_BYTES;
	draw(id.data, ID_BYTES);
	draw(their_id.data, ID_BYTES);
	if (first) {
		limits.original_dcid = first->dcid;
#if NGTCP2_VERSION_NUM >= 0x010000
		limits.original_dcid_present = 1;
#endif
		need(ngtcp2_conn_server_new(&one->quic, &first->scid, &id, &one->path, first->version, &callbacks,
					    &settings, &limits, NULL, one), "a connection");
	} else {
#if NGTCP2_VERSION_NUM < 0x010000
		settings.qlog.odcid = their_id;
#endif
		need(ngtcp2_conn_client_new(&one->quic, &their_id, &id, &one->path, NGTCP2_PROTO_VER_V1, &callbacks,
					    &settings, &limits, NULL, one), "a connection");
	}
	begin_tls(one, first != NULL);
	return one;
}

static void end_connection(struct connection *one)
{
	ngtcp2_conn_del(one->quic);
	gnutls_deinit(one->tls);
	free(one);
}

// What is lost here is lost as in any full queue.
static void transmit(const struct connection *one, const uint8_t *data, size_t length)
{
	if (sendto(one->socket, data, length, 0, one->path.remote.addr, one->path.remote.addrlen) < 0 &&
	    errno != EAGAIN && errno != ECONNREFUSED && errno != ENOBUFS)
		leave(1, "sendto: %s", strerror(errno));
}

// Send packets until the window, the pacer or the stream stops it. Returns an error of ngtcp2.
static int flush(struct connection *one)
{
	static uint8_t packet[65536], chunk[65536];
	size_t burst = ngtcp2_conn_get_send_quantum(one->quic);
	ngtcp2_tstamp time = now();
	ngtcp2_pkt_info info;

	for (size_t sent = 0; sent < burst;) {
		unsigned long long left = one->wanted - one->moved;
		int open = one->stream >= 0;
		// ngtcp2 keeps no copy: all of the stream is this chunk
		ngtcp2_vec data = {chunk, open && left < sizeof(chunk) ? left : sizeof(chunk)};
		uint32_t flags = open && left <= sizeof(chunk) ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0;
		ngtcp2_ssize taken = -1;
		ngtcp2_ssize length = ngtcp2_conn_writev_stream(one->quic, NULL, &info, packet,
			ngtcp2_conn_get_path_max_tx_udp_payload_size(one->quic), &taken, flags,
			open ? one->stream : -1, open ? &data : NULL, open, time);

		if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED || length == NGTCP2_ERR_STREAM_SHUT_WR ||
		    length == NGTCP2_ERR_STREAM_NOT_FOUND) {
			one->stream = -1;
			continue;
		}
		if (length < 0)
			return length;
		if (taken > 0)
			one->moved += taken;
		if (length == 0)
			break;
		transmit(one, packet, length);
		sent += length;
	}
	ngtcp2_conn_update_pkt_tx_time(one->quic, time);
	return 0;
}

// Wait for a datagram, at most until an instant.
static void wait_until(int socket, ngtcp2_tstamp until)
{
	struct pollfd what = {.fd = socket, .events = POLLIN};
	ngtcp2_tstamp time = now(), left = until > time ? until - time : 0;
	struct timespec most = {left / NGTCP2_SECONDS, left % NGTCP2_SECONDS};
	sigset_t none;

	// signals come only here
	sigemptyset(&none);

	if (ppoll(&what, 1, until == UINT64_MAX ? NULL : &most, &none) < 0 && errno != EINTR)
		leave(1, "ppoll: %s", strerror(errno));
}

// The length of the next datagram; -1 if none is there.
static ssize_t next_datagram(int socket, uint8_t *data, size_t size, struct sockaddr_storage *from, socklen_t *length)
{
	*length = sizeof(*from);
	memset(from, 0, sizeof(*from));
	return recvfrom(socket, data, size, MSG_DONTWAIT, (struct sockaddr *)from, length);
}

static int timer(struct connection *one)
{
	ngtcp2_tstamp time = now();

	return ngtcp2_conn_get_expiry(one->quic) <= time ? ngtcp2_conn_handle_expiry(one->quic, time) : 0;
}

static int open_socket(const struct options *options, struct sockaddr_storage *peer, socklen_t *length, int server)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
	int result = getaddrinfo(options->address, options->port, &hints, &found);
	int socket_;

	if (result)
		leave(2, "--address %s --port %s: %s", options->address, options->port, gai_strerror(result));
	need_system(socket_ = socket(found->ai_family, SOCK_DGRAM, 0), "socket");
	memset(peer, 0, sizeof(*peer));
	memcpy(peer, found->ai_addr, found->ai_addrlen);
	*length = found->ai_addrlen;
	freeaddrinfo(found);
	if (server) {
		need_system(bind(socket_, (struct sockaddr *)peer, *length), "bind");
	} else {
		struct sockaddr_storage any = {.ss_family = peer->ss_family};

		need_system(bind(socket_, (struct sockaddr *)&any, *length), "bind");
	}
	return socket_;
}

static void end(int number)
{
	(void)number;
	ended = 1;
}

// Until SIGTERM.
static void receive(const struct options *options)
{
	struct sigaction action = {.sa_handler = end};
	unsigned long long total = 0;
	sigset_t blocked;
	struct connection *all = NULL, *one, **link;
	struct sockaddr_storage from;
	static uint8_t data[65536];
	ngtcp2_pkt_info info = {0};
	ssize_t length;
	socklen_t size;
	int socket = open_socket(options, &from, &size, 1);

	need_tls(gnutls_certificate_set_x509_key_file(credentials, options->certificate, options->key,
						      GNUTLS_X509_FMT_PEM), "--certificate, --key");
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (!ended) {
		ngtcp2_tstamp until = UINT64_MAX;

		for (one = all; one; one = one->next)
			until = ngtcp2_conn_get_expiry(one->quic) < until ? ngtcp2_conn_get_expiry(one->quic) : until;
		wait_until(socket, until);
		while ((length = next_datagram(socket, data, sizeof(data), &from, &size)) >= 0) {
			ngtcp2_pkt_hd first;

			// a peer is known by its address: our senders keep theirs
			for (one = all; one && memcmp(&one->peer, &from, sizeof(from)); one = one->next)
				;
			if (!one) {
				if (ngtcp2_accept(&first, data, length) != 0)
					continue;
				one = new_connection(socket, &from, size, &first, NGTCP2_CC_ALGO_CUBIC);
				one->next = all;
				all = one;
			}
			if (ngtcp2_conn_read_pkt(one->quic, &one->path, &info, data, length, now()) < 0)
				one->done = 1;
			else
				one->done = 0;		// that of a stream is none of the connection
		}
		for (link = &all; (one = *link);) {
			if (one->done || timer(one) < 0 || flush(one) < 0) {
				*link = one->next;
				total += one->moved;
				end_connection(one);
			} else {
				link = &one->next;
			}
		}
	}
	for (one = all; one; one = one->next)
		total += one->moved;
	printf("{\"received_bytes\": %llu}\n", total);
}

static ngtcp2_cc_algo control_of(const char *name)
{
	if (!strcmp(name, "reno"))
		return NGTCP2_CC_ALGO_RENO;
	if (!strcmp(name, "cubic"))
		return NGTCP2_CC_ALGO_CUBIC;
	if (!strcmp(name, "bbr"))
		return NGTCP2_CC_ALGO_BBR;
	leave(2, "--cca %s: one of reno, cubic, bbr expected", name);
}

static double number(const char *name, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0))
		leave(2, "%s %s: a number expected", name, text);
	return value;
}

static void finish(struct connection *one)
{
	uint8_t packet[2048];
	ngtcp2_pkt_info info;
	ngtcp2_ccerr reason;
	ngtcp2_ssize length;

	ngtcp2_ccerr_default(&reason);
	ngtcp2_ccerr_set_application_error(&reason, 0, NULL, 0);
	length = ngtcp2_conn_write_connection_close(one->quic, NULL, &info, packet, sizeof(packet), &reason, now());
	need(length, "close");
	transmit(one, packet, length);
}

static void send_stream(const struct options *options, ngtcp2_tstamp began)
{
	ngtcp2_cc_algo control = control_of(options->cca);
	struct sockaddr_storage peer, from;
	socklen_t length, size;
	int socket = open_socket(options, &peer, &length, 0), opened = 0;
	static uint8_t data[65536];
	ngtcp2_pkt_info info = {0};
	ngtcp2_tstamp until = UINT64_MAX;
	struct connection *one;
	ssize_t count;

	qlog = fopen(options->qlog, "w");
	if (!qlog)
		leave(1, "%s: %s", options->qlog, strerror(errno));
	one = new_connection(socket, &peer, length, NULL, control);
	one->wanted = options->bytes ? number("--bytes", options->bytes) : UINT64_MAX;
	if (options->seconds)
		until = began + number("--seconds", options->seconds) * NGTCP2_SECONDS;
	while (!one->done && now() < until) {
		ngtcp2_tstamp expiry;

		if (one->ready && !opened) {
			need(ngtcp2_conn_open_uni_stream(one->quic, &one->stream, NULL), "a stream");
			opened = 1;
		}
		need(flush(one), "the connection");
		expiry = ngtcp2_conn_get_expiry(one->quic);
		wait_until(socket, expiry < until ? expiry : until);
		while ((count = next_datagram(socket, data, sizeof(data), &from, &size)) >= 0)
			need(ngtcp2_conn_read_pkt(one->quic, &one->path, &info, data, count, now()), "the connection");
		need(timer(one), "the connection");
	}
	finish(one);
	printf("{\"sent_bytes\": %llu, \"stack\": \"ngtcp2 %s\", \"cca\": \"%s\"}\n", one->moved,
	       ngtcp2_version(0)->version_str, options->cca);
	end_connection(one);		// this ends the qlog
	fclose(qlog);
}

int main(int count, char **words)
{
	ngtcp2_tstamp began = now();
	struct options options = {0};
	const struct { const char *name; const char **value; } known[] = {
		{"--address", &options.address}, {"--port", &options.port}, {"--key", &options.key},
		{"--certificate", &options.certificate}, {"--cca", &options.cca}, {"--bytes", &options.bytes},
		{"--seconds", &options.seconds}, {"--qlog", &options.qlog},
	};
	const int knowns = sizeof(known) / sizeof(*known);

	for (int at = 2; at < count; at += 2) {
		int index = 0;

		while (index < knowns && strcmp(words[at], known[index].name))
			index++;
		if (index == knowns || at + 1 == count)
			leave(2, "%s: unknown, or without a value; usage: " USAGE, words[at]);
		*known[index].value = words[at + 1];
	}
	if (count < 2 || !options.address || !options.port)
		leave(2, "usage: " USAGE);
	need_tls(gnutls_certificate_allocate_credentials(&credentials), "TLS");
	if (!strcmp(words[1], "receive") && options.certificate && options.key)
		receive(&options);
	else if (!strcmp(words[1], "send") && options.cca && options.qlog && !options.bytes != !options.seconds)
		send_stream(&options, began);
	else
		leave(2, "usage: " USAGE);
	return 0;
}
