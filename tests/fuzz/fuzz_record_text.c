/* SPDX-License-Identifier: Apache-2.0 */
/* Text that processes of a run leave for the recorder, and files of their cgroup. */
#include "fuzz_file.h"
#include "record/announcements.h"
#include "record/exit_watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_line(void *user, pid_t pid, bool is_well, struct gsp_err *err)
{
    (void)is_well;
    (void)err;
    if (pid <= 0)
        abort();
    ++*(size_t *)user;
    return GSP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_announcements all;
    const struct gsp_sv text = {(const char *)data, size};
    gsp_auto_fd fd = fuzz_file_open(data, size);
    gsp_record_announcements_read(fd, 7, &all);
    if (all.count > GSP_ANNOUNCED_PIDS_MAX || strnlen(all.why, sizeof(all.why)) == sizeof(all.why))
        abort();
    (void)gsp_record__announcement_pid(text);
    (void)gsp_record__cgroup_counter(text.p, text.len, "oom_kill");
    (void)gsp_record__oom_line_is_of(text.p, text.len, 7);
    if (size && (data[0] & 7) == 0) {
        size_t offset = 0;
        size_t count = 0;
        gsp_ignore(gsp_record__announcements_next(fd, &offset, on_line, &count, NULL));
        if (offset > size)
            abort();
    }
    return 0;
}
