/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/attr.h"
#include "cli/help.h"
#include "export/format.h"

static const char PERMISSIONS[] =
    "Permissions\n"
    "\n"
    "gsprof reads the memory of the target process. The kernel allows this for your\n"
    "own processes unless a security setting forbids it. From least to most\n"
    "privileged:\n"
    "\n"
    "  gsprof record -- python3 train.py\n"
    "      Profile a child process. Needs no permissions.\n"
    "  sudo gsprof record --pid 4242\n"
    "      Root can read any process. A program started by `sudo gsprof record --`\n"
    "      runs as you, not as root.\n"
    "  sudo sysctl kernel.yama.ptrace_scope=0\n"
    "      Let your processes read each other until reboot, as on distributions\n"
    "      without Yama. To make it permanent, add a file to /etc/sysctl.d.\n"
    "\n"
    "kernel.yama.ptrace_scope: 0 = own processes, 1 = child processes only,\n"
    "2 = root only, 3 = disabled until reboot.\n"
    "\n"
    "Docker:      docker run --cap-add SYS_PTRACE IMAGE\n"
    "             or, from the host with the host's pid: sudo gsprof record --pid PID\n"
    "Compose:     cap_add: [SYS_PTRACE]\n"
    "Podman:      podman run --cap-add SYS_PTRACE IMAGE\n"
    "Kubernetes:  in the container's spec\n"
    "                 securityContext:\n"
    "                   capabilities:\n"
    "                     add: [\"SYS_PTRACE\"]\n"
    "             or, without changing the pod, a debug container\n"
    "                 kubectl debug -it POD --target=CONTAINER --profile=sysadmin \\\n"
    "                     --image=IMAGE_WITH_GSPROF\n"
    "\n"
    "To check this machine, run: gsprof doctor\n";

static const char SAMPLING[] =
    "Sampling\n"
    "\n"
    "In each sampling pass, gsprof copies the stacks of the target's Python threads\n"
    "from its memory without stopping it. (--blocking stops the threads for exact\n"
    "stacks, for tens of microseconds per pass.) If a stack changes while it is being\n"
    "copied, gsprof copies it again. A stack that keeps changing is counted as torn\n"
    "and left out.\n"
    "\n"
    "  --rate 100      Passes per second. 100 shows whatever takes 1 % of a minute;\n"
    "                  use 1000 for short programs. The standard error of a share p\n"
    "                  after n samples is about sqrt(p * (1 - p) / n).\n"
    "  --jitter        Randomize the interval, for programs with periodic behaviour.\n"
    "  --idle          Include waiting threads (locks, sockets, sleep): wall time.\n"
    "  --gil           Sample only the thread that holds the GIL.\n"
    "  --threads       Show each thread separately.\n"
    "  --subprocesses  Include child processes, also those started later.\n"
    "\n"
    "Without --idle and --gil, only threads that are running on a CPU are sampled:\n"
    "CPU time.\n"
    "\n"
    "Losses are counted in the summary and in the file:\n"
    "  torn     stacks that changed during every attempt to copy them\n"
    "  late     passes that gsprof missed because it got no CPU in time\n"
    "  failed   stacks that could not be read or were invalid\n"
    "  gone     processes that exited before or while they were read\n"
    "  skipped  child processes that were not Python for 0.1 s or longer\n";

static void put_formats(struct gsp_buf *out)
{
    gsp_buf_puts(out, "Formats\n\n"
                      "The file extension selects the format; --format NAME overrides it.\n\n"
                      "  NAME         EXTENSION            READ  WRITE\n");
    for (size_t i = 0; i < gsp_export_format_count(); i++) {
        const struct gsp_format *format = gsp_export_format_at(i);
        gsp_buf_printf(out, "  %-12s %-20s %-5s %s\n", format->name,
                       format->extensions[0] ? format->extensions[0] : "-",
                       format->read ? "yes" : "-", format->write ? "yes" : "-");
        gsp_buf_printf(out, "      %s\n", format->summary);
    }
    gsp_buf_puts(out, "\n"
                      "If in doubt, record to .gsp. The file is compact, it is written during the\n"
                      "recording, and it converts to every other format:\n"
                      "  gsprof convert -i profile.gsp -o profile.speedscope.json\n");
}

static void put_permissions(struct gsp_buf *out)
{
    gsp_buf_puts(out, PERMISSIONS);
}

static void put_sampling(struct gsp_buf *out)
{
    gsp_buf_puts(out, SAMPLING);
}

static const struct {
    const char *name;
    void (*put)(struct gsp_buf *out);
} TOPICS[] = {
    {"permissions", put_permissions},
    {"formats", put_formats},
    {"sampling", put_sampling},
};

const char *gsp_cli__help_topic_at(size_t i)
{
    return i < GSP_COUNT(TOPICS) ? TOPICS[i].name : NULL;
}

bool gsp_cli__help_topic(const char *name, struct gsp_buf *out)
{
    for (size_t i = 0; i < GSP_COUNT(TOPICS); i++) {
        if (strcmp(TOPICS[i].name, name) == 0) {
            TOPICS[i].put(out);
            return true;
        }
    }
    return false;
}
