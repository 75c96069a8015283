/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a journal, and its fields as JSON labels. */
#include <stdint.h>

#include "daemon/sessions.h"
#include "frames/journal.h"
#include "frames/session_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes each line again and checks that it is read back with the same fields. */
static void read_fields(void *ctx, const struct gsp_sv *fields, size_t count)
{
    struct gsp_buf *again = ctx;
    gsp_frames_journal_line(again, fields, count);
    for (size_t i = 0; i < count; i++) {
        gsp_frames_session_labels_are_valid(fields[i]);
        gsp_ignore(gsp_daemon__session_name_check(fields[i], NULL));
    }
}

static void nothing(void *ctx, const struct gsp_sv *fields, size_t count)
{
    (void)ctx;
    (void)fields;
    (void)count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_sv text = {(const char *)data, size};
    struct gsp_buf again = {0};
    size_t lines = 0;
    size_t damaged = 0;
    gsp_frames__journal_parse(text, read_fields, &again, &lines, &damaged);
    size_t lines_again = 0;
    size_t damaged_again = 0;
    gsp_frames__journal_parse(gsp_buf_sv(&again), nothing, NULL, &lines_again, &damaged_again);
    if (!again.failed && (lines_again != lines || damaged_again))
        __builtin_trap();
    gsp_buf_free(&again);
    gsp_frames_session_labels_are_valid(text);
    gsp_ignore(gsp_daemon__session_name_check(text, NULL));
    return 0;
}
