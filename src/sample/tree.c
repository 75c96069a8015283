/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/tree.h"

#include <stdbool.h>

#include "base/array.h"
#include "proc/task.h"

#define TREE_MAX 16384U

struct pid_list {
    pid_t *items;
    size_t count;
    size_t cap;
    bool failed;
};

static void add_pid(void *user, pid_t pid)
{
    struct pid_list *list = user;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == pid)
            return;
    if (list->count < TREE_MAX && gsp_array_fit(&list->items, &list->cap, list->count + 1))
        list->items[list->count++] = pid;
    else
        list->failed = true;
}

int gsp_sample_tree_pids(pid_t pid, pid_t **out, size_t *count, struct gsp_err *err)
{
    *out = NULL;
    *count = 0;
    struct pid_list list = {0};
    add_pid(&list, pid);
    /* The list grows during the loop. */
    for (size_t i = 0; i < list.count && !list.failed; i++)
        gsp_proc_children(list.items[i], add_pid, &list);
    if (list.failed && list.count == 0)
        return gsp_err_nomem(err);
    *out = list.items;
    *count = list.count;
    return GSP_OK;
}
