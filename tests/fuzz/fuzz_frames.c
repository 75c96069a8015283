/* SPDX-License-Identifier: Apache-2.0 */
/* A malformed segment of the frame log: parses its header, and opens a log with this segment. The
 * input is the file of numbers; the file of text is generated. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "frames/log_internal.h"

#define TEXT_LINES 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Three segments, because opening the log verifies only the newest two. */
static const char *const NAMES[] = {"00000000000000000001.num", "00000000000000000001.text",
                                    "00000000000000000002.num", "00000000000000000002.text",
                                    "00000000000000000003.num", "00000000000000000003.text"};
static char folder[40]; /* in memory; stays for all inputs */

static void remove_folder(void)
{
    char path[128];
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++) {
        snprintf(path, sizeof(path), "%s/frames/%s", folder, NAMES[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/frames", folder);
    rmdir(path);
    rmdir(folder);
}

static void make_folder(void)
{
    char path[128];
    snprintf(folder, sizeof(folder), "/dev/shm/gsprof-fuzz-XXXXXX");
    if (!mkdtemp(folder) || atexit(remove_folder) != 0)
        abort();
    snprintf(path, sizeof(path), "%s/frames", folder);
    if (mkdir(path, 0700) != 0)
        abort();
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/frames/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0)
        gsp_ignore(gsp_fd_write_all(fd, bytes, n, NULL));
    gsp_fd_close(&fd);
}

static void read_log(void)
{
    struct gsp_frame_log *frames = NULL;
    struct gsp_frame_log_options options = {.folder = folder, .host = "here"};
    if (gsp_frames_log_open(&options, &frames, NULL) != 0)
        return;
    struct gsp_frame_log_stats stats;
    if (gsp_frames__log_stats(frames, 0, UINT64_MAX, &stats, NULL) == 0)
        gsp_frames__log_stats_free(&stats);
    gsp_auto_fd out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    uint64_t copied = 0;
    gsp_ignore(gsp_frames__log_copy(frames, 0, UINT64_MAX, out, &copied, NULL));
    gsp_frames_log_close(frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frames_head head;
    gsp_auto_buf bytes = {0};
    gsp_buf_put(&bytes, data, size);
    /* With a valid checksum, because the parser must be safe without it. */
    gsp_frames__head_seal(bytes.p, bytes.len);
    if (gsp_frames__head_parse(gsp_buf_sv(&bytes), &head, NULL) != 0)
        return 0;
    gsp_frames_head_free(&head);
    if (!folder[0])
        make_folder();
    static const char LINE[] = "{\"frame_id\":           1},\n";
    struct gsp_buf text = {0};
    for (int i = 0; i < TEXT_LINES; i++)
        gsp_buf_puts(&text, LINE);
    for (size_t i = 0; i < GSP_COUNT(NAMES); i += 2) {
        write_file(NAMES[i], bytes.p, bytes.len);
        write_file(NAMES[i + 1], text.p, text.len);
    }
    gsp_buf_free(&text);
    read_log();
    return 0;
}
