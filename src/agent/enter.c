/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enter.c -- how the injector comes in: it borrows a thread of the target for a moment, so all
 * that takes time is done in a thread of our own.  That one ends: a process with a thread that
 * Python does not know is warned about by os.fork().
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/python.h"
#include "base/file.h"

struct visit {
    char *script;  /* NULL: none */
    char *outcome; /* NULL: nobody wants to know */
    struct gsp_agent__said said;
};

static void free_visit(struct visit *visit)
{
    free(visit->script);
    free(visit->outcome);
    gsp_buf_free(&visit->said.file);
    gsp_buf_free(&visit->said.text);
    free(visit);
}

static const char *start_fault(enum gsp_agent_rc rc)
{
    switch (rc) {
    case GSP_AGENT_NO_PLACE:
        return "error no place for rings: shared memory is full, read-only or another user's";
    case GSP_AGENT_NO_MEMORY:
        return "error no memory";
    case GSP_AGENT_OTHER:
        return "error another copy of the agent is in this process";
    case GSP_AGENT_OK:
        break;
    }
    return NULL;
}

/* Whoever waits sees the whole text or no file. */
static void write_file(const char *path, const char *text, size_t len)
{
    struct gsp_newfile file;
    if (gsp_newfile_open(&file, path, true, NULL) != 0) {
        return;
    }
    file.lazy = true;
    if (gsp_fd_write_all(file.fd, text, len, NULL) == 0) {
        /* There is nobody to tell. */
        gsp_ignore(gsp_newfile_commit(&file, NULL));
        return;
    }
    gsp_newfile_abort(&file);
}

static void tell(void *arg)
{
    struct visit *visit = arg;
    struct gsp_agent__said *said = &visit->said;
    const char *file = said->file.len > 0 ? gsp_buf_cstr(&said->file) : NULL;
    if (file && !said->text.failed) {
        write_file(file, said->text.p, said->text.len);
    }
    if (visit->outcome) {
        const size_t len = strnlen(said->line, sizeof(said->line) - 1);
        said->line[len] = '\n';
        write_file(visit->outcome, said->line, len + 1);
    }
    free_visit(visit);
}

static void *run(void *arg)
{
    struct visit *visit = arg;
    struct gsp_agent__said *said = &visit->said;
    /* An interpreter that shuts down ends the threads that ask for its lock. */
    pthread_cleanup_push(tell, visit);
    const char *fault = start_fault(gsp_agent_start());
    if (!fault && visit->script) {
        gsp_agent__python_run(visit->script, said);
    } else {
        snprintf(said->line, sizeof(said->line), "%s", fault ? fault : "ok");
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* Signals of the program are for its own threads. */
static int start_thread(struct visit *visit)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attr) != 0) {
        return -1;
    }
    sigfillset(&all);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&thread, &attr, run, visit);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0 ? 0 : -1;
}

int gsp_agent_enter(const char *script, const char *outcome)
{
    const int saved_errno = errno;
    struct visit *visit = calloc(1, sizeof(*visit));
    int rc = -1;
    if (visit) {
        visit->script = script ? strdup(script) : NULL;
        visit->outcome = outcome ? strdup(outcome) : NULL;
        if ((!script || visit->script) && (!outcome || visit->outcome)) {
            rc = start_thread(visit);
        }
        if (rc != 0) {
            free_visit(visit);
        }
    }
    errno = saved_errno;
    return rc;
}
