/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "http/server_internal.h"

#define STREAM_BLOCK 16384U
/* Shorter answers do not count for answers_bytes_max: the number of connections limits them. */
#define SMALL_BYTES  65536U

void gsp_http_answer_error(struct gsp_http_answer *answer, int status, const char *code,
                           const char *message, const char *hint)
{
    struct gsp_json json;
    gsp_buf_clear(&answer->body);
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_obj_begin(&json, "error");
    gsp_json_put_str(&json, "code", code);
    gsp_json_put_str(&json, "message", message);
    gsp_json_put_str(&json, "hint", hint);
    gsp_json_obj_end(&json);
    gsp_json_obj_end(&json);
    gsp_buf_putc(&answer->body, '\n');
    answer->status = status;
    answer->content_type = "application/json";
}

static void stream_unlink(struct gsp_http__stream *stream)
{
    struct gsp_http_server *server = stream->server;
    gsp_lock_take(&server->lock);
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        server->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    server->stream_count--;
    server->anonymous_streams -= stream->is_anonymous;
    gsp_lock_release(&server->lock);
}

static void stream_free(void *cls)
{
    struct gsp_http__stream *stream = cls;
    stream_unlink(stream);
    if (stream->from.close)
        stream->from.close(stream->from.ctx);
    gsp_buf_free(&stream->pending);
    free(stream);
}

static size_t stream_copy(struct gsp_http__stream *stream, char *out, size_t max)
{
    size_t n = stream->pending.len - stream->sent;
    if (n > max)
        n = max;
    memcpy(out, stream->pending.p + stream->sent, n);
    stream->sent += n;
    if (stream->sent == stream->pending.len) {
        stream->sent = 0;
        gsp_buf_clear(&stream->pending);
    }
    return n;
}

/* Suspends the connection, unless gsp_http_wake() was called since seq. Returns whether it did. */
static bool stream_suspend(struct gsp_http__stream *stream, uint64_t seq)
{
    struct gsp_http_server *server = stream->server;
    gsp_lock_take(&server->lock);
    bool suspend = !server->stopping && server->wake_seq == seq;
    if (suspend) {
        gsp_http__mhd.suspend_connection(stream->connection);
        stream->suspended = true;
    }
    gsp_lock_release(&server->lock);
    return suspend;
}

static ssize_t stream_read(void *cls, uint64_t pos GSP_UNUSED, char *out, size_t max)
{
    struct gsp_http__stream *stream = cls;
    struct gsp_http_server *server = stream->server;
    while (stream->pending.len == 0) {
        gsp_lock_take(&server->lock);
        uint64_t seq = server->wake_seq;
        bool stopping = server->stopping;
        gsp_lock_release(&server->lock);
        if (stream->ended || stopping)
            return MHD_CONTENT_READER_END_OF_STREAM;
        int rc = stream->from.read(stream->from.ctx, &stream->pending);
        stream->ended = rc < 0 || stream->pending.failed;
        if (rc == 0 && stream->pending.len == 0 && stream_suspend(stream, seq))
            return 0;
    }
    return (ssize_t)stream_copy(stream, out, max);
}

static struct MHD_Response *stream_response(struct gsp_http__exchange *call)
{
    const struct gsp_http_stream *from = &call->answer.stream;
    struct gsp_http_server *server = call->server;
    struct gsp_http__stream *stream = calloc(1, sizeof(*stream));
    if (!stream) {
        if (from->close)
            from->close(from->ctx);
        return NULL;
    }
    stream->server = server;
    stream->connection = call->connection;
    stream->from = *from;
    stream->is_anonymous = gsp_http__is_anonymous(call);
    gsp_lock_take(&server->lock);
    stream->next = server->streams;
    if (stream->next)
        stream->next->prev = stream;
    server->streams = stream;
    server->stream_count++;
    server->anonymous_streams += stream->is_anonymous;
    gsp_lock_release(&server->lock);
    struct MHD_Response *response = gsp_http__mhd.create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, stream, stream_free);
    if (!response)
        stream_free(stream);
    return response;
}

static struct MHD_Response *file_response(struct gsp_http_answer *answer)
{
    struct stat facts;
    if (fstat(answer->file_fd, &facts) < 0)
        return NULL;
    struct MHD_Response *response =
        gsp_http__mhd.create_response_from_fd64((uint64_t)facts.st_size, answer->file_fd);
    if (response)
        answer->file_fd = -1; /* closed by the response */
    return response;
}

static struct MHD_Response *body_response(struct gsp_http_answer *answer)
{
    static char nothing[1];
    if (answer->body.failed)
        return NULL;
    if (!answer->body.p)
        return gsp_http__mhd.create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response = gsp_http__mhd.create_response_from_buffer(
        answer->body.len, answer->body.p, MHD_RESPMEM_MUST_FREE);
    if (response)
        answer->body = (struct gsp_buf){0};
    return response;
}

static void add_headers(struct MHD_Response *response, const struct gsp_http_answer *answer)
{
    gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                      answer->content_type ? answer->content_type
                                                           : "application/json");
    gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    gsp_http__mhd.add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (answer->allow)
        gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    if (answer->location)
        gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_LOCATION, answer->location);
    if (answer->cookie)
        gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, answer->cookie);
    if (answer->status == MHD_HTTP_UNAUTHORIZED)
        gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (answer->content_type && strncmp(answer->content_type, "text/html", 9) == 0)
        gsp_http__mhd.add_response_header(response, "Content-Security-Policy",
                                          "default-src 'self'; style-src 'self' 'unsafe-inline'; "
                                          "form-action 'self'; frame-ancestors 'none'");
    if (!answer->file_name)
        return;
    /* RFC 5987: percent-encode all characters except letters, digits, '-', '.' and '_'. */
    gsp_auto_buf value = {0};
    gsp_buf_puts(&value, "attachment; filename*=UTF-8''");
    for (const char *p = answer->file_name; *p; p++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._", *p))
            gsp_buf_putc(&value, *p);
        else
            gsp_buf_printf(&value, "%%%02X", (unsigned)(unsigned char)*p);
    const char *text = gsp_buf_cstr(&value);
    if (text)
        gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, text);
}

/* Replaces the answer by an error. */
static void be_busy(struct gsp_http__exchange *call, const char *message)
{
    const struct gsp_http_options *options = &call->server->options;
    struct gsp_http_answer *answer = &call->answer;
    if (answer->stream.close)
        answer->stream.close(answer->stream.ctx);
    answer->stream = (struct gsp_http_stream){0};
    gsp_fd_close(&answer->file_fd);
    answer->file_fd = -1;
    gsp_buf_free(&answer->body);
    gsp_http_answer_error(answer, MHD_HTTP_SERVICE_UNAVAILABLE, "BUSY", message,
                          options->hint ? options->hint("BUSY") : NULL);
}

/* Counts the memory of the answer until it is sent. Returns false if the limit is reached. */
static bool hold_memory(struct gsp_http__exchange *call)
{
    const struct gsp_http_answer *answer = &call->answer;
    struct gsp_http_server *server = call->server;
    struct stat facts;
    uint64_t bytes = answer->body.len;
    if (answer->file_fd >= 0)
        bytes = answer->is_in_memory && fstat(answer->file_fd, &facts) == 0
                    ? (uint64_t)facts.st_size
                    : 0;
    if (bytes <= SMALL_BYTES)
        return true;
    const bool is_anonymous = gsp_http__is_anonymous(call);
    const uint64_t max = server->options.answers_bytes_max;
    gsp_lock_take(&server->lock);
    const bool fits =
        bytes <= max && server->answers_bytes <= max - bytes &&
        (!is_anonymous || (bytes <= max / 2 && server->anonymous_bytes <= max / 2 - bytes));
    if (fits) {
        server->answers_bytes += bytes;
        server->anonymous_bytes += is_anonymous ? bytes : 0;
        call->held_bytes = bytes;
    }
    gsp_lock_release(&server->lock);
    return fits;
}

static bool has_room_for_stream(const struct gsp_http__exchange *call)
{
    struct gsp_http_server *server = call->server;
    const unsigned max = server->options.streams_max;
    gsp_lock_take(&server->lock);
    const bool has_room = server->stream_count < max && (!gsp_http__is_anonymous(call) ||
                                                         server->anonymous_streams < (max + 1) / 2);
    gsp_lock_release(&server->lock);
    return has_room;
}

enum MHD_Result gsp_http__reply(struct gsp_http__exchange *call)
{
    struct gsp_http_answer *answer = &call->answer;
    struct MHD_Response *response = NULL;
    if (answer->stream.read && !has_room_for_stream(call))
        be_busy(call, "too many streams are open");
    else if (!answer->stream.read && !hold_memory(call))
        be_busy(call, "too many answers have not been read yet");
    if (!answer->stream.read)
        gsp_http__rate_begin(call);
    if (answer->stream.read)
        response = stream_response(call);
    else if (answer->file_fd >= 0)
        response = file_response(answer);
    else
        response = body_response(answer);
    answer->stream = (struct gsp_http_stream){0}; /* the response owns it, or it is closed */
    if (!response)
        return MHD_NO; /* out of memory: the server closes the connection */
    add_headers(response, answer);
    /* A busy client must not keep others out with connections that it holds between requests. */
    if (call->must_close || gsp_http__conn_is_crowded(call->server, call->conn))
        gsp_http__mhd.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued =
        gsp_http__mhd.queue_response(call->connection, (unsigned)answer->status, response);
    gsp_http__mhd.destroy_response(response);
    return queued;
}
