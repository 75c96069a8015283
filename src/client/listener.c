/* SPDX-License-Identifier: Apache-2.0 */
#include "client/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

#define TABLE_BYTES  ((size_t)64 << 20)
#define FIELDS       8U
/* Of the line: its number, the local address, the remote one, the state, queues, timer,
 * retransmissions, the user. */
#define FIELD_LOCAL  1U
#define FIELD_STATE  3U
#define FIELD_USER   7U
#define STATE_LISTEN "0A"
#define PORT_HTTP    80
#define DIGITS       ((size_t)8) /* of a group of an address */

int64_t gsp_client__local_port(const char *endpoint, int *family)
{
    static const struct {
        const char *name;
        int family;
    } HOSTS[] = {{"localhost", AF_UNSPEC}, {"127.0.0.1", AF_INET}, {"[::1]", AF_INET6}};
    if (strncmp(endpoint, "http://", 7) == 0)
        endpoint += 7;
    for (size_t i = 0; i < GSP_COUNT(HOSTS); i++) {
        const size_t len = strlen(HOSTS[i].name);
        if (strncasecmp(endpoint, HOSTS[i].name, len) != 0)
            continue;
        const char *rest = endpoint + len;
        const bool has_port = rest[0] == ':';
        rest += has_port;
        const size_t digits = has_port ? strspn(rest, "0123456789") : 0;
        char text[8];
        int64_t port = PORT_HTTP;
        snprintf(text, sizeof(text), "%.*s", (int)(digits < 7 ? digits : 7), rest);
        if (family)
            *family = HOSTS[i].family;
        if (strspn(rest + digits, "/") == strlen(rest + digits) &&
            (!has_port || gsp_parse_i64(text, 1, UINT16_MAX, &port, NULL) == GSP_OK))
            return port;
    }
    return -1;
}

/* Reads a number without sign. */
static bool parse(struct gsp_sv field, unsigned base, uint64_t *out)
{
    static const char DIGIT[] = "0123456789abcdef";
    *out = 0;
    for (size_t i = 0; i < field.len; i++) {
        const char c = field.p[i];
        const char low = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        const char *at = low ? memchr(DIGIT, low, base) : NULL;
        if (!at)
            return false;
        *out = *out * base + (uint64_t)(at - DIGIT);
    }
    return field.len > 0 && field.len <= 16;
}

/* Whether a connection to the loopback address of the family can arrive at this address. The kernel
 * prints each group of 32 bits as a number of this machine. */
static bool is_reachable(struct gsp_sv address, int family)
{
    struct in6_addr six = {0};
    uint32_t groups[4] = {0};
    const size_t count = address.len / DIGITS;
    if (address.len != DIGITS && address.len != 4 * DIGITS)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t group = 0;
        if (!parse((struct gsp_sv){address.p + i * DIGITS, DIGITS}, 16, &group))
            return false;
        groups[i] = (uint32_t)group;
    }
    memcpy(&six, groups, sizeof(six));
    const bool is_four = count == 1 || IN6_IS_ADDR_V4MAPPED(&six);
    const uint32_t four = groups[count - 1];
    if (is_four)
        return family != AF_INET6 && (four == htonl(INADDR_ANY) || four == htonl(INADDR_LOOPBACK));
    /* A socket of [::] usually gets connections over IPv4, too. */
    return IN6_IS_ADDR_UNSPECIFIED(&six) || (family != AF_INET && IN6_IS_ADDR_LOOPBACK(&six));
}

static void read_line(struct gsp_sv line, uint16_t port, int family, enum gsp_listener *found,
                      uid_t *uid)
{
    struct gsp_sv fields[FIELDS] = {{0}};
    struct gsp_sv part;
    size_t count = 0;
    while (count < FIELDS && gsp_sv_split(&line, ' ', &part))
        if (part.len)
            fields[count++] = part;
    struct gsp_sv address;
    uint64_t number = 0;
    uint64_t user = 0;
    if (count < FIELDS || !gsp_sv_eq(fields[FIELD_STATE], gsp_sv_of(STATE_LISTEN)) ||
        !gsp_sv_split(&fields[FIELD_LOCAL], ':', &address) || !is_reachable(address, family) ||
        !parse(fields[FIELD_LOCAL], 16, &number) || number != port ||
        !parse(fields[FIELD_USER], 10, &user))
        return;
    if (user == 0 || user == geteuid()) {
        *found = *found == GSP_LISTENER_NONE ? GSP_LISTENER_OURS : *found;
        return;
    }
    *found = GSP_LISTENER_OTHER;
    *uid = (uid_t)user;
}

void gsp_client__listener_parse(struct gsp_sv text, uint16_t port, int family,
                                enum gsp_listener *found, uid_t *uid)
{
    struct gsp_sv line;
    while (gsp_sv_split(&text, '\n', &line))
        read_line(line, port, family, found, uid);
}

enum gsp_listener gsp_client__listener_find(uint16_t port, int family, uid_t *uid)
{
    static const char *const PATHS[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    enum gsp_listener found = GSP_LISTENER_NONE;
    for (size_t i = 0; i < GSP_COUNT(PATHS); i++) {
        gsp_auto_buf text = {0};
        if (gsp_file_read(PATHS[i], TABLE_BYTES, &text, NULL) == GSP_OK)
            gsp_client__listener_parse(gsp_buf_sv(&text), port, family, &found, uid);
    }
    return found;
}
