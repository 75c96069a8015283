/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "http/server_internal.h"

/* The server reads a body that is too long and discards it, because many clients read the answer
 * only after they have sent the body. Up to this multiple of the limit. */
#define DISCARD_FACTOR   8U

/* Longer bodies are limited in number; the number of connections limits the others. */
#define SHORT_BODY_BYTES ((uint64_t)64 << 10)
#define LONG_BODIES_MAX  64U

const char *gsp_http_query(const struct gsp_http_request *request, const char *name)
{
    const struct gsp_http__exchange *call = request->query;
    return gsp_http__mhd.lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *gsp_http__header(const struct gsp_http_request *request, const char *name)
{
    const struct gsp_http__exchange *call = request->query;
    return gsp_http__mhd.lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

static void call_free(struct gsp_http__exchange *call)
{
    gsp_lock_take(&call->server->lock);
    call->server->answers_bytes -= call->held_bytes;
    if (gsp_http__is_anonymous(call))
        call->server->anonymous_bytes -= call->held_bytes;
    call->server->long_bodies -= call->has_long_body;
    call->server->anonymous_bodies -= call->has_long_body && gsp_http__is_anonymous(call);
    gsp_lock_release(&call->server->lock);
    if (call->answer.stream.close)
        call->answer.stream.close(call->answer.stream.ctx);
    free(call->answer.file_name);
    free(call->answer.cookie);
    gsp_fd_close(&call->answer.file_fd);
    gsp_buf_free(&call->answer.body);
    gsp_buf_free(&call->body);
    free(call);
}

/* Returns Content-Length, or 0 without that header. */
static uint64_t content_length(const struct gsp_http__exchange *call)
{
    const char *text = gsp_http__header(&call->request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!text)
        return 0;
    errno = 0;
    const unsigned long long n = strtoull(text, NULL, 10);
    return errno ? UINT64_MAX : n;
}

static const struct gsp_http_refusal TOO_LARGE = {MHD_HTTP_CONTENT_TOO_LARGE, "LIMIT",
                                                  "the request's body is too long", NULL};

static const struct gsp_http_refusal TOO_MANY_BODIES = {
    MHD_HTTP_SERVICE_UNAVAILABLE, "BUSY", "too many long requests are being received", NULL};

/* A connection beyond the limits is kept for the paths that say whether the server works. */
static void check_surplus(struct gsp_http__exchange *call)
{
    const struct gsp_http_options *options = &call->server->options;
    if (!call->conn->is_surplus)
        return;
    call->must_close = true;
    if (!options->is_vital || !options->is_vital(options->ctx, call->request.path))
        call->refusal = (struct gsp_http_refusal){MHD_HTTP_SERVICE_UNAVAILABLE, "BUSY",
                                                  "too many connections are open", NULL};
}

static struct gsp_http__exchange *call_new(struct gsp_http_server *server,
                                           struct MHD_Connection *connection, const char *url,
                                           const char *method)
{
    const union MHD_ConnectionInfo *info =
        gsp_http__mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct gsp_http__exchange *call =
        info && info->socket_context ? calloc(1, sizeof(*call)) : NULL;
    if (!call)
        return NULL;
    call->server = server;
    call->connection = connection;
    call->conn = info->socket_context;
    call->answer.file_fd = -1;
    call->answer.status = MHD_HTTP_OK;
    call->answer.content_type = "application/json";
    /* libmicrohttpd omits the body of an answer to HEAD. */
    call->request.method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    call->request.path = url;
    call->request.query = call;
    call->request.client_fd = call->conn->fd;
    return call;
}

/* Checks the head of a request. Returns whether to answer before the body is read. */
static bool is_refused_early(struct gsp_http__exchange *call, const char *method,
                             const char *version)
{
    const size_t body_max = call->server->options.body_max;
    gsp_http__head_check(call, method, version);
    if (!call->refusal.status)
        check_surplus(call);
    if (call->refusal.status)
        return true;
    gsp_http__access_check(call);
    const uint64_t length = content_length(call);
    if (!call->refusal.status && length > body_max)
        call->refusal = TOO_LARGE;
    /* An answer before the body closes the connection, and a client that is still sending may not
     * read it. Only for bodies that are too long to be read and discarded. */
    return length > (uint64_t)body_max * DISCARD_FACTOR;
}

static bool begin_long_body(struct gsp_http__exchange *call)
{
    struct gsp_http_server *server = call->server;
    const bool is_anonymous = gsp_http__is_anonymous(call);
    gsp_lock_take(&server->lock);
    call->has_long_body = server->long_bodies < LONG_BODIES_MAX &&
                          (!is_anonymous || server->anonymous_bodies < LONG_BODIES_MAX / 2);
    server->long_bodies += call->has_long_body;
    server->anonymous_bodies += call->has_long_body && is_anonymous;
    gsp_lock_release(&server->lock);
    return call->has_long_body;
}

static enum MHD_Result add_to_body(struct gsp_http__exchange *call, const char *data, size_t len)
{
    const size_t max = call->server->options.body_max;
    call->received += len;
    if (call->received > (uint64_t)max * DISCARD_FACTOR)
        return MHD_NO;
    if (call->refusal.status)
        return MHD_YES;
    if (call->received > max) {
        gsp_buf_free(&call->body);
        call->refusal = TOO_LARGE;
        return MHD_YES;
    }
    if (call->received > SHORT_BODY_BYTES && !call->has_long_body && !begin_long_body(call)) {
        gsp_buf_free(&call->body);
        call->refusal = TOO_MANY_BODIES;
        return MHD_YES;
    }
    gsp_buf_put(&call->body, data, len);
    return call->body.failed ? MHD_NO : MHD_YES;
}

static enum MHD_Result refuse(struct gsp_http__exchange *call)
{
    const struct gsp_http_refusal *refusal = &call->refusal;
    const struct gsp_http_options *options = &call->server->options;
    gsp_http_answer_error(&call->answer, refusal->status, refusal->code, refusal->message,
                          refusal->hint || !options->hint ? refusal->hint
                                                          : options->hint(refusal->code));
    return gsp_http__reply(call);
}

static void end_job(struct gsp_http_server *server, bool is_anonymous)
{
    gsp_lock_take(&server->lock);
    server->job_count--;
    server->anonymous_jobs -= is_anonymous;
    pthread_cond_broadcast(&server->changed);
    gsp_lock_release(&server->lock);
}

static void *run_job(void *arg)
{
    struct gsp_http__exchange *call = arg;
    struct gsp_http_server *server = call->server;
    struct MHD_Connection *connection = call->connection;
    const bool is_anonymous = gsp_http__is_anonymous(call);
    server->options.handle(server->options.ctx, &call->request, &call->answer);
    call->answered = true;
    gsp_http__mhd.resume_connection(connection); /* from here on, the server thread owns the call */
    end_job(server, is_anonymous);
    return NULL;
}

static bool begin_job(struct gsp_http_server *server, bool is_anonymous)
{
    gsp_lock_take(&server->lock);
    const bool allowed = !server->stopping && server->job_count < GSP_HTTP_JOBS_MAX &&
                         (!is_anonymous || server->anonymous_jobs < GSP_HTTP_JOBS_MAX / 2);
    if (allowed) {
        server->job_count++;
        server->anonymous_jobs += is_anonymous;
    }
    gsp_lock_release(&server->lock);
    return allowed;
}

/* Suspends the connection and runs the handler on a new thread. Returns false if that fails. */
static bool start_job(struct gsp_http__exchange *call)
{
    struct gsp_http_server *server = call->server;
    pthread_t thread;
    if (!begin_job(server, gsp_http__is_anonymous(call)))
        return false;
    gsp_http__mhd.suspend_connection(call->connection);
    if (pthread_create(&thread, NULL, run_job, call) == 0) {
        pthread_detach(thread);
        return true;
    }
    gsp_http__mhd.resume_connection(call->connection);
    end_job(server, gsp_http__is_anonymous(call));
    return false;
}

static enum MHD_Result answer(struct gsp_http__exchange *call)
{
    const struct gsp_http_options *options = &call->server->options;
    if (call->answered)
        return gsp_http__reply(call);
    atomic_store(&call->conn->since_ns, 0);
    if (call->refusal.status)
        return refuse(call);
    call->request.body = gsp_buf_sv(&call->body);
    if (!options->is_slow ||
        !options->is_slow(options->ctx, call->request.method, call->request.path)) {
        options->handle(options->ctx, &call->request, &call->answer);
        return gsp_http__reply(call);
    }
    if (start_job(call))
        return MHD_YES;
    call->refusal = (struct gsp_http_refusal){MHD_HTTP_SERVICE_UNAVAILABLE, "BUSY",
                                              "too many requests are running", NULL};
    return refuse(call);
}

/* NOLINTNEXTLINE(readability-function-size): a callback of libmicrohttpd */
enum MHD_Result gsp_http__on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *data_len, void **state)
{
    struct gsp_http__exchange *call = *state;
    if (!call) {
        call = call_new(cls, connection, url, method);
        if (!call)
            return MHD_NO;
        *state = call;
        return is_refused_early(call, method, version) ? refuse(call) : MHD_YES;
    }
    if (*data_len) {
        enum MHD_Result result = add_to_body(call, data, *data_len);
        *data_len = 0;
        return result;
    }
    return answer(call);
}

void gsp_http__on_completed(void *cls GSP_UNUSED, struct MHD_Connection *connection GSP_UNUSED,
                            void **state, enum MHD_RequestTerminationCode why)
{
    struct gsp_http__exchange *call = *state;
    if (!call)
        return;
    atomic_store(&call->conn->since_ns, gsp_now_ns());
    gsp_http__rate_end(call, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    call_free(call);
    *state = NULL;
}
