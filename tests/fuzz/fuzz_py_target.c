/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling passes over hostile memory: lists of interpreters and threads, the GIL, stacks. */
#include "fuzz_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_threads(struct gsp_py_target *target)
{
    const size_t count = gsp_py_target_thread_count(target);
    uint64_t sum = 0;
    if (count > GSP_PY_THREADS_MAX)
        abort();
    for (size_t i = 0; i < count; i++) {
        const struct gsp_py_thread *thread = gsp_py_target_thread(target, i);
        for (size_t k = 0; thread->status == 0 && k < thread->depth; k++)
            sum += thread->locs[k];
    }
    for (size_t i = 0; gsp_py_target_frame_addr(target, i); i++)
        sum +=
            gsp_py_target_frame_instr(target, i) + (uint64_t)gsp_py_target_frame_entry(target, i);
    if (sum == UINT64_MAX)
        abort();
}

static void sample(struct gsp_py_target *target, unsigned flags)
{
    /* Far enough apart that the lists are compared again. */
    for (int64_t now_ns = 1; now_ns < 4000000000; now_ns += 1500000000) {
        gsp_ignore(gsp_py_target_sample(target, flags, now_ns));
        check_threads(target);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_image image;
    struct gsp_py_target *target = NULL;
    if (memory_parse(data, size, &image) && (target = memory_target(&image))) {
        const unsigned flags =
            GSP_PY_SAMPLE_IDLE | (image.head.flags & MEMORY_STOPPED ? GSP_PY_SAMPLE_STOPPED : 0U);
        sample(target, flags);
    }
    gsp_py_target_close(target);
    free(image.regions);
    return 0;
}
