/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* The initial pid namespace, which sees every process (PROC_PID_INIT_INO of the kernel's
 * linux/proc_ns.h). */
#define PID_NS_FIRST    0xEFFFFFFCU
#define STAT_STATE      3
#define STAT_START_TIME 22

static bool read_small(const char *path, char *out, size_t cap)
{
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
    if (n <= 0)
        return false;
    out[n] = '\0';
    return true;
}

bool gsp_ring_process_start_time(pid_t pid, uint64_t *ticks, char *state)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!read_small(path, text, sizeof(text)))
        return false;
    /* The command name may contain parentheses and blanks. */
    const char *p = strrchr(text, ')');
    if (!p || p[1] != ' ')
        return false;
    p += 2;
    *state = *p;
    for (int field = STAT_STATE; field < STAT_START_TIME; field++) {
        p = strchr(p, ' ');
        if (!p)
            return false;
        p++;
    }
    *ticks = strtoull(p, NULL, 10);
    return *ticks != 0;
}

uint64_t gsp_ring__process_pid_ns(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static bool is_running(pid_t pid, uint64_t start_time)
{
    uint64_t ticks = 0;
    char state = 0;
    return gsp_ring_process_start_time(pid, &ticks, &state) && ticks == start_time &&
           state != 'Z' && state != 'X';
}

/* Returns the pid of a process in its innermost namespace. */
static pid_t inner_pid(const char *number)
{
    char path[64];
    char text[4096];
    snprintf(path, sizeof(path), "/proc/%.20s/status", number);
    const char *line = read_small(path, text, sizeof(text)) ? strstr(text, "\nNSpid:") : NULL;
    pid_t pid = -1;
    for (char *p = line ? text + (line - text) + 7 : NULL, *end; p; p = end) {
        const long v = strtol(p, &end, 10);
        if (end == p || *end == '\0')
            break;
        pid = (pid_t)v;
        if (*end == '\n')
            break;
    }
    return pid;
}

/* The same for a process in a child namespace. */
static bool is_running_inside(pid_t pid, uint64_t start_time)
{
    DIR *dir = opendir("/proc");
    bool found = false;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e && !found; e = readdir(dir)) {
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9') {
            found = is_running((pid_t)strtol(e->d_name, NULL, 10), start_time) &&
                    inner_pid(e->d_name) == pid;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

bool gsp_ring_process_is_live(pid_t pid, uint64_t start_time, uint64_t pid_ns)
{
    const uint64_t ours = gsp_ring__process_pid_ns();
    if (pid_ns == 0 || ours == 0 || pid_ns == ours)
        return is_running(pid, start_time);
    return is_running_inside(pid, start_time) || ours != PID_NS_FIRST;
}

bool gsp_ring_file_is_mapped(const char *name, ino_t ino)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return true;
    while (!found && fgets(line, sizeof(line), maps)) {
        /* start-end perms offset major:minor inode path */
        const char *p = line;
        for (int field = 0; field < 4 && p; field++) {
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
        found = p && strtoull(p, NULL, 10) == ino && strstr(p, name);
    }
    fclose(maps);
    return found;
}
