/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "frames/log_internal.h"

/* Small enough to stay in the CPU cache between reading and writing. */
#define CHUNK_BYTES (256U << 10)
#define BEGIN_LEN   (sizeof(FRAMES_LINE_BEGIN) - 1)

struct copying {
    struct gsp_buf chunk;
    uint64_t copied;
    uint64_t held; /* bytes of FRAMES_LINE_END still to write before the next frame */
    int fd;        /* destination */
};

/* Renumbers the complete lines at the start of the chunk in place, and removes lines that are not
 * frames. Returns the number of bytes read; *kept is the number of bytes to write. */
static size_t renumber(struct copying *c, char *p, size_t len, size_t *kept)
{
    size_t at = 0;
    size_t out = 0;
    while (at < len) {
        const char *nl = memchr(p + at, '\n', len - at);
        if (!nl)
            break;
        size_t n = (size_t)(nl - (p + at)) + 1;
        if (n > BEGIN_LEN + FRAMES_ID_WIDTH + FRAMES_LINE_END_LEN &&
            memcmp(p + at, FRAMES_LINE_BEGIN, BEGIN_LEN) == 0 && nl[-1] == ',') {
            if (out != at)
                memmove(p + out, p + at, n);
            gsp_frames__put_id(p + out + BEGIN_LEN, ++c->copied);
            out += n;
        }
        at += n;
    }
    *kept = out;
    return at;
}

/* Copies bytes [from, to) of a segment's text. */
static int copy_text(struct copying *c, int text_fd, uint64_t from, uint64_t to,
                     struct gsp_err *err)
{
    size_t chunk_bytes = CHUNK_BYTES;
    while (from < to) {
        size_t n = to - from < chunk_bytes ? (size_t)(to - from) : chunk_bytes;
        gsp_buf_clear(&c->chunk);
        char *p = gsp_buf_reserve(&c->chunk, n + FRAMES_LINE_END_LEN);
        if (!p)
            return gsp_err_nomem(err);
        /* Another frame follows, so first write the separator after the previous one. */
        size_t before = (size_t)c->held;
        memcpy(p, FRAMES_LINE_END, before);
        int rc = gsp_frames__pread(text_fd, p + before, n, from, err);
        if (rc)
            return rc;
        size_t kept = 0;
        size_t used = renumber(c, p + before, n, &kept);
        if (used == 0) { /* a line is longer than the chunk, or has no end */
            if (n == to - from || chunk_bytes > FRAMES_TEXT_MAX)
                return 0;
            chunk_bytes *= 2;
            continue;
        }
        from += used;
        if (!kept)
            continue;
        rc = gsp_fd_write_all(c->fd, p, before + kept - FRAMES_LINE_END_LEN, err);
        if (rc)
            return rc;
        c->held = FRAMES_LINE_END_LEN;
    }
    return 0;
}

static int text_end(int num_fd, const struct frames_segment *segment, uint64_t row, uint64_t *out,
                    struct gsp_err *err)
{
    struct frames_row r;
    int rc = gsp_frames__pread(num_fd, &r, sizeof(r),
                               segment->header_bytes + row * segment->row_bytes, err);
    *out = rc ? 0 : r.text_end;
    return rc;
}

static int copy_segment(struct gsp_frame_log *frames, struct copying *c,
                        const struct frames_segment *segment, uint64_t row, uint64_t count,
                        struct gsp_err *err)
{
    struct frames_head head = {0};
    int opened = -1;
    int rc = gsp_frames_segment_open(frames->folder_fd, segment->first_id, &head, &opened, err);
    gsp_frames_head_free(&head);
    gsp_auto_fd num_fd = opened;
    if (rc)
        return rc == GSP_E_NOFILE ? 0 : rc; /* it was removed, so no session needs it */
    gsp_auto_fd text_fd = gsp_frames__text_open(frames, segment->first_id);
    if (text_fd < 0)
        return errno == ENOENT ? 0
                               : gsp_err_set(err, GSP_E_IO, errno, "cannot read the frame log: %s",
                                             strerror(errno));
    uint64_t from = 0;
    uint64_t to = 0;
    if (row)
        rc = text_end(num_fd, segment, row - 1, &from, err);
    if (rc == 0)
        rc = text_end(num_fd, segment, row + count - 1, &to, err);
    if (rc == 0 && to > segment->text_bytes)
        rc = gsp_err_set(err, GSP_E_IO, 0, "a segment of the frame log is damaged");
    return rc ? rc : copy_text(c, text_fd, from, to, err);
}

int gsp_frames__log_copy(struct gsp_frame_log *frames, uint64_t first, uint64_t last, int fd,
                         uint64_t *copied, struct gsp_err *err)
{
    *copied = 0;
    struct frames_segment *segments = NULL;
    size_t n = 0;
    int rc = gsp_frames__snapshot(frames, first, last, &segments, &n, err);
    struct copying c = {.fd = fd};
    for (size_t i = 0; i < n && rc == 0; i++) {
        uint64_t count = 0;
        uint64_t row = gsp_frames__clip(&segments[i], first, last, &count);
        if (count)
            rc = copy_segment(frames, &c, &segments[i], row, count, err);
    }
    *copied = c.copied;
    gsp_buf_free(&c.chunk);
    free(segments);
    return rc;
}
