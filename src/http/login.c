/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/time.h"
#include "http/server_internal.h"

/* Without letters that look like digits. */
#define ALPHABET   "0123456789abcdefghjkmnpqrstvwxyz"
#define CODE_CHARS 16U
#define CODE_GROUP 4U

_Static_assert(sizeof(ALPHABET) - 1 == 32, "five bits for each character");
_Static_assert(CODE_CHARS + CODE_CHARS / CODE_GROUP <= GSP_HTTP_CODE_BYTES, "hyphens fit");

/* Writes n random characters of five bits each, and a NUL. */
static int put_random(char *out, size_t n, struct gsp_err *err)
{
    unsigned char bytes[GSP_HTTP_SECRET_CHARS];
    if (n > sizeof(bytes) || getrandom(bytes, n, 0) != (ssize_t)n)
        return gsp_err_set(err, GSP_E_IO, errno, "the kernel has no random numbers");
    for (size_t i = 0; i < n; i++)
        out[i] = ALPHABET[bytes[i] % 32];
    out[n] = '\0';
    return GSP_OK;
}

int gsp_http_login_code(struct gsp_http_server *server, char out[GSP_HTTP_CODE_BYTES],
                        struct gsp_err *err)
{
    struct gsp_http__logins *logins = &server->logins;
    char code[CODE_CHARS + 1];
    int rc = put_random(code, CODE_CHARS, err);
    if (rc < 0)
        return rc;
    gsp_lock_take(&logins->lock);
    memcpy(logins->code, code, sizeof(code));
    gsp_lock_release(&logins->lock);
    size_t len = 0;
    for (size_t i = 0; i < CODE_CHARS; i++) {
        if (i && i % CODE_GROUP == 0)
            out[len++] = '-';
        out[len++] = code[i];
    }
    out[len] = '\0';
    return GSP_OK;
}

/* Copies what a person has typed, without hyphens, blanks and capitals. Returns false if it cannot
 * be a code. */
static bool read_code(struct gsp_sv typed, char out[CODE_CHARS + 1])
{
    size_t len = 0;
    for (size_t i = 0; i < typed.len; i++) {
        const char c = typed.p[i];
        if (c == '-' || c == ' ' || c == '+') /* a form sends blanks as plus signs */
            continue;
        if (len == CODE_CHARS || !c)
            return false;
        out[len++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    out[len] = '\0';
    return len == CODE_CHARS;
}

/* Whether the text is the code, which is void afterwards. Wrong codes do not void it: that would
 * let anybody keep the owner from logging in, and 80 random bits cannot be guessed. */
static bool use_code(struct gsp_http__logins *logins, struct gsp_sv typed)
    GSP_REQUIRES(&logins->lock)
{
    char code[CODE_CHARS + 1];
    const bool right =
        logins->code[0] && read_code(typed, code) && gsp_http__same_secret(code, logins->code);
    if (right)
        logins->code[0] = '\0';
    return right;
}

/* An unused or ended login, or the one that ends first. */
static struct gsp_http__login *oldest(struct gsp_http__logins *logins) GSP_REQUIRES(&logins->lock)
{
    struct gsp_http__login *found = &logins->at[0];
    for (size_t i = 1; i < GSP_HTTP_LOGINS_MAX; i++)
        if (logins->at[i].end_ns < found->end_ns)
            found = &logins->at[i];
    return found;
}

/* A browser sends cookies to all ports of a host, so the name has the port. */
static void cookie_name(const struct gsp_http_server *server, char out[24])
{
    snprintf(out, 24, "gsprof_%u", server->port);
}

int gsp_http_login(struct gsp_http_server *server, struct gsp_sv code,
                   char cookie[GSP_HTTP_COOKIE_BYTES], struct gsp_err *err)
{
    struct gsp_http__logins *logins = &server->logins;
    struct gsp_http__login new = {.end_ns = gsp_now_ns() +
                                            INT64_C(3600) * GSP_HTTP_LOGIN_HOURS * GSP_NS_PER_S};
    char name[24];
    int rc = put_random(new.secret, GSP_HTTP_SECRET_CHARS, err);
    if (rc < 0)
        return rc;
    gsp_lock_take(&logins->lock);
    const bool right = use_code(logins, code);
    if (right)
        *oldest(logins) = new;
    gsp_lock_release(&logins->lock);
    if (!right)
        return gsp_err_set(err, GSP_E_PERM, 0, "the code is wrong, or it was used before");
    cookie_name(server, name);
    snprintf(cookie, GSP_HTTP_COOKIE_BYTES, "%s=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%d",
             name, new.secret, GSP_HTTP_LOGIN_HOURS * 3600);
    return GSP_OK;
}

bool gsp_http__has_login(struct gsp_http__exchange *call)
{
    struct gsp_http__logins *logins = &call->server->logins;
    char name[24];
    cookie_name(call->server, name);
    const char *sent =
        gsp_http__mhd.lookup_connection_value(call->connection, MHD_COOKIE_KIND, name);
    if (!sent)
        return false;
    bool found = false;
    const int64_t now_ns = gsp_now_ns();
    gsp_lock_take(&logins->lock);
    for (size_t i = 0; i < GSP_HTTP_LOGINS_MAX; i++)
        found |= logins->at[i].end_ns > now_ns && gsp_http__same_secret(sent, logins->at[i].secret);
    gsp_lock_release(&logins->lock);
    return found;
}
