/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* LESS=FRX: less exits if the text fits the screen, passes colour through and keeps the screen. */
static bool spawn(const char *choice, int input, pid_t *pid)
{
    char shell[] = "sh";
    char option[] = "-c";
    char less[] = "less";
    char *command = choice ? strdup(choice) : NULL;
    char *const by_shell[] = {shell, option, command, NULL};
    char *const by_name[] = {less, NULL};
    posix_spawn_file_actions_t actions;
    if ((choice && !command) || posix_spawn_file_actions_init(&actions) != 0) {
        free(command);
        return false;
    }
    setenv("LESS", "FRX", 0);
    bool ok = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO) == 0 &&
              posix_spawnp(pid, choice ? "/bin/sh" : less, &actions, NULL,
                           choice ? by_shell : by_name, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    free(command);
    return ok;
}

void gsp_cli__pager_start(struct gsp_pager *pager)
{
    *pager = GSP_PAGER_NONE;
    const char *choice = getenv("PAGER");
    int ends[2];
    if ((choice && (choice[0] == '\0' || strcmp(choice, "cat") == 0)) || pipe2(ends, O_CLOEXEC) < 0)
        return;
    if (spawn(choice, ends[0], &pager->pid)) {
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGPIPE, &ignore, &pager->old_pipe);
        pager->fd = ends[1];
    } else {
        close(ends[1]);
    }
    close(ends[0]);
}

void gsp_cli__pager_end(struct gsp_pager *pager)
{
    if (pager->fd < 0)
        return;
    close(pager->fd);
    while (waitpid(pager->pid, NULL, 0) < 0 && errno == EINTR) {
        /* Ctrl-C belongs to the pager. */
    }
    sigaction(SIGPIPE, &pager->old_pipe, NULL);
    *pager = GSP_PAGER_NONE;
}
