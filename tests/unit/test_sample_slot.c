/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "model/profile.h"
#include "sample/proc_slot.h"
#include "tap.h"

#define PYTHON "/usr/bin/python3"
#define TRIES  20000 /* of one millisecond each */
/* Calls exec of the same program when it reads a byte, then waits for the end of its input. */
#define PROGRAM                                                                                    \
    "import os, sys\n"                                                                             \
    "os.write(1, b'.')\n"                                                                          \
    "os.read(0, 1) and os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])"

static pid_t start(int in, int out)
{
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        execl(PYTHON, PYTHON, "-S", "-c", PROGRAM, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void attach(struct gsp_proc_slot *slot)
{
    int rc = -1;
    for (int i = 0; i < TRIES && rc != GSP_OK; i++) {
        rc = gsp_sample__proc_slot_attach(slot, NULL, gsp_now_ns());
        if (rc != GSP_OK)
            usleep(1000);
    }
    tap_require(rc == GSP_OK);
}

/* The index of its main thread in the profile. */
static uint32_t thread_of(struct gsp_proc_slot *slot, struct gsp_profile *profile)
{
    struct gsp_py_thread thread = {.tid = slot->pid, .python_id = 1, .is_main = true};
    const struct gsp_proc_slot_thread *found =
        gsp_sample__proc_slot_get_thread(slot, &thread, profile, NULL);
    tap_require(found != NULL);
    return found->index;
}

TAP_TEST(a_detached_process_keeps_its_entry_unless_it_called_exec)
{
    struct gsp_profile *profile = NULL;
    struct gsp_proc_slot *slot = NULL;
    int to[2];
    int from[2];
    char byte = 0;
    if (access(PYTHON, X_OK) != 0)
        tap_skip("no " PYTHON);
    tap_require(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    const pid_t pid = start(to[0], from[1]);
    tap_require(pid > 0 && read(from[0], &byte, 1) == 1);
    tap_require(gsp_model_profile_new(false, &profile, NULL) == GSP_OK);
    tap_require(gsp_sample__proc_slot_new(pid, true, &slot, NULL) == GSP_OK);
    attach(slot);
    const uint32_t thread = thread_of(slot, profile);
    const uint32_t process = slot->process;

    gsp_sample__proc_slot_detach(slot, gsp_now_ns());
    attach(slot);
    tap_eq_int(thread_of(slot, profile), thread);
    tap_eq_int(slot->process, process);
    tap_eq_int(gsp_model_profile_process_count(profile), 1);

    tap_require(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
    gsp_sample__proc_slot_detach(slot, gsp_now_ns());
    attach(slot);
    tap_check(thread_of(slot, profile) != thread);
    tap_check(slot->process != process);

    gsp_sample__proc_slot_free(slot);
    gsp_model_profile_free(profile);
    kill(pid, SIGKILL);
    tap_eq_int(waitpid(pid, NULL, 0), pid);
    close(to[0]), close(to[1]), close(from[0]), close(from[1]);
}

TAP_MAIN()
