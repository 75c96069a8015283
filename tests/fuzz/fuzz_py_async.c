/* SPDX-License-Identifier: Apache-2.0 */
/* The task registries of asyncio in hostile memory: weak sets, lists, names, await chains. */
#include "fuzz_memory.h"
#include "py/async.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_task(void *arg, const struct gsp_py_task *task)
{
    size_t *count = arg;
    if (++*count > GSP_PY_TASKS_MAX || task->chain->depth > GSP_PY_AWAITS_MAX ||
        !gsp_py_task_state_name(task->state))
        abort();
    for (size_t i = 0; i < task->name.len; i++)
        if (task->name.p[i] == '\0' && task->name.len > (1U << 20))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_image image;
    struct gsp_py_target *target = NULL;
    size_t count = 0;
    if (memory_parse(data, size, &image) && (target = memory_target(&image)))
        gsp_ignore(gsp_py_tasks(target, on_task, NULL, &count));
    gsp_py_target_close(target);
    free(image.regions);
    return 0;
}
