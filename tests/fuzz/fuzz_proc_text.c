/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /proc/<pid> with hostile text: stat, status, cmdline, environ, schedstat, syscall. */
#include "fuzz_file.h"
#include "proc/perm.h"
#include "proc/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_descriptors(const uint8_t *data, size_t size)
{
    uint64_t sp = 0;
    uint64_t pc = 0;
    int fd = fuzz_file_open(data, size);
    const struct gsp_taskfd task = {.stat_fd = fd, .sched_fd = fd, .syscall_fd = fd};
    (void)gsp_proc_taskfd_activity(&task);
    (void)gsp_proc_taskfd_is_running(&task);
    (void)gsp_proc_taskfd_slices(&task);
    (void)gsp_proc_taskfd_state(&task);
    if (gsp_proc_taskfd_sleep_position(&task, &sp, &pc) && (sp == 0 || pc == 0))
        abort();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_procinfo info;
    struct gsp_perm perm;
    int64_t rank = 0;
    gsp_auto_buf out = {0};
    fuzz_file_set(data, size);
    if (gsp_proc_info(1, &info, NULL) == GSP_OK) {
        if (strnlen(info.comm, sizeof(info.comm)) == sizeof(info.comm))
            abort();
        (void)gsp_proc_has_settled(&info);
    }
    gsp_proc_cmdline(1, &out);
    gsp_ignore(gsp_proc_env(1, "XDG_RUNTIME_DIR", &out));
    if (gsp_proc_rank(1, &rank) && rank < 0)
        abort();
    (void)gsp_proc_task_cpu_ns(1, 1);
    gsp_proc_task_comm(1, 1, &out);
    gsp_proc_perm_read("", 1, &perm);
    if (size && (data[0] & 3) == 0)
        read_descriptors(data, size);
    return 0;
}
