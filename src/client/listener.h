/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h -- whose server a port of this machine belongs to.
 *
 * Reads:   /proc/net/tcp and tcp6, or texts of that form (tests).
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/* The port of an endpoint that names this machine (80 if it has none), or -1. *family, unless it is
 * NULL, becomes AF_INET for 127.0.0.1, AF_INET6 for [::1] and AF_UNSPEC for "localhost", which may
 * be both. */
int64_t gsp_client__local_port(const char *endpoint, int *family);

enum gsp_listener {
    GSP_LISTENER_NONE,
    GSP_LISTENER_OURS,  /* this user or root */
    GSP_LISTENER_OTHER, /* at least one belongs to another user */
};

/* Who listens where a connection to this port of the loopback address may arrive. *uid is that of
 * the other user. */
enum gsp_listener gsp_client__listener_find(uint16_t port, int family, uid_t *uid);
/* Reads one of the two files; *found starts as GSP_LISTENER_NONE. */
void gsp_client__listener_parse(struct gsp_sv text, uint16_t port, int family,
                                enum gsp_listener *found, uid_t *uid);
