/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/time.h"
#include "http/curl_lib.h"

#define TIMEOUT_DEFAULT_NS (30 * GSP_NS_PER_S)
#define ANSWER_DEFAULT     (64U << 20)
#define UNIX_PREFIX        "unix:"
#define HTTP_PREFIX        "http://"

struct sink {
    struct gsp_buf *body;
    size_t max;
    bool too_long;
};

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct sink *sink = user;
    const size_t n = size * count;
    if (n > sink->max - sink->body->len) {
        sink->too_long = true;
        return 0;
    }
    gsp_buf_put(sink->body, data, n);
    return sink->body->failed ? 0 : n;
}

/* The proxies of the environment are not for this machine. */
static bool is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.", "[::1]"};
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        if (strncasecmp(host, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Appends the URL. Sets *socket_path to the path of a unix socket, or NULL. */
static int set_address(const struct gsp_http_client_request *call, struct gsp_buf *url,
                       const char **socket_path, bool *local, struct gsp_err *err)
{
    const char *host = call->endpoint;
    *socket_path = NULL;
    if (strncmp(host, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        *socket_path = host + strlen(UNIX_PREFIX);
        *local = true;
        host = "localhost";
    } else if (strncmp(host, HTTP_PREFIX, strlen(HTTP_PREFIX)) == 0) {
        host += strlen(HTTP_PREFIX);
    }
    size_t len = strlen(host);
    while (len && host[len - 1] == '/')
        len--;
    if (!len || strcspn(host, "/@?#\\ \t\r\n") < len || (*socket_path && !**socket_path))
        return gsp_err_set(err, GSP_E_USAGE, 0, "invalid server address: %s", call->endpoint);
    *local = *local || is_local(host);
    gsp_buf_puts(url, HTTP_PREFIX);
    gsp_buf_put(url, host, len);
    gsp_buf_puts(url, call->path);
    return gsp_buf_cstr(url) ? GSP_OK : gsp_err_nomem(err);
}

static int is_cancelled(void *user, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                        curl_off_t up)
{
    const struct gsp_http_client_request *call = user;
    (void)down_all;
    (void)down;
    (void)up_all;
    (void)up;
    return *call->cancel != 0;
}

static void set_cancel(const struct gsp_curl *lib, CURL *curl,
                       const struct gsp_http_client_request *call)
{
    if (!call->cancel)
        return;
    lib->easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    lib->easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_cancelled);
    lib->easy_setopt(curl, CURLOPT_XFERINFODATA, call);
}

static int set_error(const struct gsp_curl *lib, CURLcode code,
                     const struct gsp_http_client_request *call, const struct sink *sink,
                     struct gsp_err *err)
{
    const char *why = lib->easy_strerror(code);
    if (sink->too_long)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the answer of %s is longer than %zu bytes",
                           call->endpoint, sink->max);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return gsp_err_set(err, GSP_E_INTR, 0, "interrupted");
    if (code == CURLE_OPERATION_TIMEDOUT)
        return gsp_err_set(err, GSP_E_TIMEOUT, 0, "%s did not answer in time", call->endpoint);
    if (code == CURLE_COULDNT_CONNECT)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "no server is listening at %s", call->endpoint);
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "unknown host: %s", call->endpoint);
    if (code == CURLE_URL_MALFORMAT)
        return gsp_err_set(err, GSP_E_USAGE, 0, "invalid server address: %s", call->endpoint);
    if (code == CURLE_OUT_OF_MEMORY)
        return gsp_err_nomem(err);
    return gsp_err_set(err, GSP_E_IO, 0, "%s: %s", call->endpoint, why);
}

static void set_body(const struct gsp_curl *lib, CURL *curl,
                     const struct gsp_http_client_request *call)
{
    lib->easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    if (strcmp(call->method, "HEAD") == 0)
        lib->easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (!call->body.p && strcmp(call->method, "POST") != 0 && strcmp(call->method, "PUT") != 0)
        return;
    lib->easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
    lib->easy_setopt(curl, CURLOPT_POSTFIELDS, call->body.p ? call->body.p : "");
}

static struct curl_slist *make_headers(const struct gsp_curl *lib,
                                       const struct gsp_http_client_request *call)
{
    gsp_auto_buf line = {0};
    struct curl_slist *headers = lib->slist_append(NULL, "Content-Type: application/json");
    /* Otherwise curl sends "Expect: 100-continue" and waits for the answer before a long body. */
    struct curl_slist *more = headers ? lib->slist_append(headers, "Expect:") : NULL;
    if (more && call->token) {
        gsp_buf_printf(&line, "Authorization: Bearer %s", call->token);
        const char *text = gsp_buf_cstr(&line);
        more = text ? lib->slist_append(headers, text) : NULL;
    }
    if (more)
        return headers;
    lib->slist_free_all(headers);
    return NULL;
}

static int perform(const struct gsp_curl *lib, CURL *curl,
                   const struct gsp_http_client_request *call, struct curl_slist *headers,
                   struct gsp_http_client_answer *out, struct gsp_err *err)
{
    gsp_auto_buf url = {0};
    const char *socket_path = NULL;
    bool local = false;
    const int64_t timeout_ns = call->timeout_ns ? call->timeout_ns : TIMEOUT_DEFAULT_NS;
    struct sink sink = {.body = &out->body,
                        .max = call->answer_max ? call->answer_max : ANSWER_DEFAULT};
    int rc = set_address(call, &url, &socket_path, &local, err);
    if (rc < 0)
        return rc;
    lib->easy_setopt(curl, CURLOPT_URL, url.p);
    lib->easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    lib->easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    lib->easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    lib->easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    lib->easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
    lib->easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ns / GSP_NS_PER_MS + 1));
    if (local)
        lib->easy_setopt(curl, CURLOPT_PROXY, "");
    if (socket_path)
        lib->easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
    set_cancel(lib, curl, call);
    set_body(lib, curl, call);
    CURLcode code = lib->easy_perform(curl);
    if (code != CURLE_OK)
        return set_error(lib, code, call, &sink, err);
    long status = 0;
    lib->easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    out->status = (int)status;
    return GSP_OK;
}

int gsp_http_request(const struct gsp_http_client_request *call, struct gsp_http_client_answer *out,
                     struct gsp_err *err)
{
    *out = (struct gsp_http_client_answer){0};
    const struct gsp_curl *lib = NULL;
    int rc = gsp_http__curl_load(&lib, err);
    if (rc < 0)
        return rc;
    CURL *curl = lib->easy_init();
    struct curl_slist *headers = curl ? make_headers(lib, call) : NULL;
    rc = headers ? perform(lib, curl, call, headers, out, err) : gsp_err_nomem(err);
    lib->slist_free_all(headers);
    lib->easy_cleanup(curl);
    if (rc < 0)
        gsp_buf_free(&out->body);
    return rc;
}
