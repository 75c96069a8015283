/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of sessions with hostile fields: a line of the input is a line of the journal, its
 * fields separated by tabs. The journal adds the checksums. */
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/sessions.h"
#include "frames/journal.h"
#include "fuzz_file.h"

#define FIELDS_MAX 12U
#define LINES_MAX  64U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/dev/shm/gsprof-fuzz-XXXXXX";
static char journal_path[64];
static struct gsp_frame_log *frames;

static void remove_folder(void)
{
    char command[96];
    gsp_frames_log_close(frames);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    /* The folder has a name without special characters. */
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
}

static void open_folder(void)
{
    if (frames)
        return;
    const struct gsp_frame_log_options options = {.folder = folder, .host = "here"};
    if (!mkdtemp(folder) || gsp_frames_log_open(&options, &frames, NULL) != GSP_OK ||
        atexit(remove_folder) != 0)
        abort();
    snprintf(journal_path, sizeof(journal_path), "%s/sessions.journal", folder);
}

static void ignore(void *ctx, const struct gsp_sv *fields, size_t count)
{
    (void)ctx;
    (void)fields;
    (void)count;
}

static void write_journal(struct gsp_sv rest)
{
    struct gsp_journal *journal = NULL;
    struct gsp_sv line;
    if (gsp_frames_journal_open(journal_path, ignore, NULL, &journal, NULL) != GSP_OK)
        abort();
    for (unsigned i = 0; i < LINES_MAX && gsp_sv_split(&rest, '\n', &line); i++) {
        struct gsp_sv fields[FIELDS_MAX];
        size_t count = 0;
        uint64_t mark = 0;
        while (count < FIELDS_MAX && gsp_sv_split(&line, '\t', &fields[count]))
            count++;
        gsp_ignore(gsp_frames_journal_append(journal, fields, count, &mark, NULL));
    }
    gsp_frames_journal_close(journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gsp_sessions_options options = {
        .state_folder = folder, .output_folder = folder, .host = "here"};
    struct gsp_sessions *sessions = NULL;
    struct gsp_session *list = NULL;
    size_t count = 0;
    open_folder();
    write_journal((struct gsp_sv){(const char *)data, size});
    if (gsp_daemon__sessions_open(&options, frames, &sessions, NULL) == GSP_OK)
        gsp_ignore(gsp_daemon__sessions_list(sessions, &list, &count, NULL));
    free(list);
    gsp_daemon__sessions_close(sessions);
    unlink(journal_path);
    return 0;
}
