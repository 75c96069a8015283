/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/time.h"
#include "daemon/routes_internal.h"

/* Proxies close connections that are silent for a minute. At low rates a comment is sent after this
 * time, when the streams are woken. */
#define SILENCE_NS (15 * GSP_NS_PER_S)

/* One listener. */
struct listener {
    struct gsp_daemon *daemon;
    uint64_t sent_id; /* of the last frame */
    int64_t sent_ns;  /* time of the last frame or comment */
};

/* Sends the newest frame if the listener does not have it. A listener that is too slow receives the
 * number of frames it missed. */
static int read_frame(void *ctx, struct gsp_buf *out)
{
    struct listener *listener = ctx;
    struct gsp_daemon *daemon = listener->daemon;
    const int64_t now_ns = gsp_now_ns();
    if (gsp_frames_log_next_id(daemon->frames) - 1 == listener->sent_id) {
        if (now_ns - listener->sent_ns < SILENCE_NS)
            return 0;
        gsp_buf_puts(out, ": nothing new\n\n");
        listener->sent_ns = now_ns;
        return 1;
    }
    gsp_auto_buf frame = {0};
    const uint64_t id = gsp_frames_log_latest(daemon->frames, &frame);
    if (!id || id == listener->sent_id || frame.failed)
        return frame.failed ? -1 : 0;
    if (listener->sent_id && id > listener->sent_id + 1)
        gsp_buf_printf(out, "event: missed\ndata: {\"frames\": %llu}\n\n",
                       (unsigned long long)(id - listener->sent_id - 1));
    gsp_buf_printf(out, "event: frame\nid: %llu\ndata: ", (unsigned long long)id);
    gsp_buf_put(out, frame.p, frame.len);
    while (out->len && out->p[out->len - 1] == '\n')
        out->len--;
    gsp_buf_puts(out, "\n\n");
    listener->sent_id = id;
    listener->sent_ns = now_ns;
    return 1;
}

static void close_listener(void *ctx)
{
    free(ctx);
}

void gsp_daemon__route_stream(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    if (!listener) {
        gsp_http_answer_error(answer, 503, "NOMEM", "out of memory", NULL);
        return;
    }
    listener->daemon = call->daemon;
    listener->sent_ns = gsp_now_ns();
    answer->stream.read = read_frame;
    answer->stream.close = close_listener;
    answer->stream.ctx = listener;
}
