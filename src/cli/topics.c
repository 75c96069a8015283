/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/attr.h"
#include "cli/help.h"
#include "export/format.h"

static const char PERMISSIONS[] =
    "Permissions\n"
    "\n"
    "gsprof reads the memory of another process. The kernel allows that when the\n"
    "other process is yours and nothing forbids it. In rising order of rights:\n"
    "\n"
    "  gsprof record -- python3 train.py\n"
    "      A child of gsprof may always be read: no rights needed.\n"
    "  sudo gsprof record --pid 4242\n"
    "      Root may read any process. A program started by `sudo gsprof record --`\n"
    "      runs as you, not as root.\n"
    "  sudo sysctl kernel.yama.ptrace_scope=0\n"
    "      Until reboot, your processes may read each other (the setting of\n"
    "      distributions without Yama). To keep it: a file in /etc/sysctl.d.\n"
    "\n"
    "kernel.yama.ptrace_scope: 0 your own processes, 1 only children, 2 only root,\n"
    "3 nobody until reboot.\n"
    "\n"
    "Docker:      docker run --cap-add SYS_PTRACE IMAGE\n"
    "             or from the host, with the host's pid: sudo gsprof record --pid PID\n"
    "Compose:     cap_add: [SYS_PTRACE]\n"
    "Podman:      podman run --cap-add SYS_PTRACE IMAGE\n"
    "Kubernetes:  in the container's spec\n"
    "                 securityContext:\n"
    "                   capabilities:\n"
    "                     add: [\"SYS_PTRACE\"]\n"
    "             or, without changing the pod, a debug container in the profile\n"
    "                 kubectl debug -it POD --target=CONTAINER --profile=sysadmin \\\n"
    "                     --image=IMAGE_WITH_GSPROF\n"
    "\n"
    "What works here and why not: gsprof doctor\n";

static const char SAMPLING[] =
    "Sampling\n"
    "\n"
    "At each tick gsprof copies the stacks of the target's Python threads out of its\n"
    "memory, from another core, without stopping it (--blocking stops it for exact\n"
    "stacks, some tens of microseconds a tick). A copy that changed while it was\n"
    "made is made again; if it keeps changing it is counted as torn, not shown.\n"
    "\n"
    "  --rate 100     ticks a second. 100 shows whatever takes 1 % of a minute; take\n"
    "                 1000 for short programs. The error of a share p after n samples\n"
    "                 is about sqrt(p * (1 - p) / n).\n"
    "  --jitter       ticks at random distances, for programs with a beat of their own\n"
    "  --idle         also threads that wait (locks, sockets, sleep): wall time\n"
    "  --gil          only the thread that holds the GIL: what keeps the others waiting\n"
    "  --threads      threads apart from each other\n"
    "  --subprocesses children too, also those that start later\n"
    "\n"
    "Without --idle and --gil, threads count that the kernel has running: CPU time.\n"
    "\n"
    "What is lost is told, in the terminal and in the file:\n"
    "  torn     the stack changed each time it was read\n"
    "  late     ticks whose time had passed before we got the processor\n"
    "  failed   memory that could not be read or made no sense\n"
    "  gone     processes that ended before or while they were read\n"
    "  skipped  children that were something else than Python for a tenth of a second or more\n";

static void put_formats(struct gsp_buf *out)
{
    gsp_buf_puts(out, "Formats\n\n"
                      "The format follows the extension of the file, or --format NAME.\n\n"
                      "  NAME         EXTENSION            READ  WRITE\n");
    for (size_t i = 0; i < gsp_export_format_count(); i++) {
        const struct gsp_format *format = gsp_export_format_at(i);
        gsp_buf_printf(out, "  %-12s %-20s %-5s %s\n", format->name,
                       format->extensions[0] ? format->extensions[0] : "-",
                       format->read ? "yes" : "-", format->write ? "yes" : "-");
        gsp_buf_printf(out, "      %s\n", format->summary);
    }
    gsp_buf_puts(out, "\n"
                      "Record to .gsp when in doubt: it is small, it is on disk while recording\n"
                      "goes on, and it converts to everything else:\n"
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

const char *gsp_help_topic_at(size_t i)
{
    return i < GSP_COUNT(TOPICS) ? TOPICS[i].name : NULL;
}

bool gsp_help_topic(const char *name, struct gsp_buf *out)
{
    for (size_t i = 0; i < GSP_COUNT(TOPICS); i++) {
        if (strcmp(TOPICS[i].name, name) == 0) {
            TOPICS[i].put(out);
            return true;
        }
    }
    return false;
}
