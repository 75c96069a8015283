/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "pyext/sampler.h"
#include "tap.h"

#define MB (INT64_C(1) << 20)

static const struct gsp_sampler_opts quick = {
    .interval_ns = 2 * GSP_NS_PER_MS, .first_ns = GSP_NS_PER_MS, .cpu_tdp_watts = 10};

/* Waits until the thread has sampled memory a few times. */
static void wait_for_looks(struct gsp_sampler *sampler, int64_t since_ns)
{
    size_t count = 0;
    while (count < 3) {
        usleep(500);
        free(gsp_pyext__sampler_memory(sampler, since_ns, INT64_MAX, &count));
    }
}

TAP_TEST(a_block_is_measured)
{
    struct gsp_sampler *sampler = gsp_pyext__sampler_new(&quick);
    tap_require(sampler);
    struct gsp_sampler_window_begin begin;
    gsp_pyext__sampler_begin(sampler, &begin);
    char *bytes = mmap(NULL, 32 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_require(bytes != MAP_FAILED);
    for (volatile char *at = bytes; at < bytes + 32 * MB; at += 4096)
        *at = 7; /* touched memory is resident */
    wait_for_looks(sampler, begin.at_ns);
    munmap(bytes, 32 * MB);
    struct gsp_sampler_window window;
    gsp_pyext__sampler_so_far(sampler, &begin, &window);
    gsp_pyext__sampler_end(sampler);
    tap_check(window.ended_ns > window.began_ns && window.user_ns >= 0);
    tap_check(window.peak_bytes >= window.first_bytes + 30 * MB);
    tap_check(window.last_bytes < window.peak_bytes);
    tap_check(window.gpu_peak_bytes == -1 && isnan(window.gpu_util_pct));
    tap_check(window.memory_pct > 0 && window.memory_pct <= 100);
    tap_check(isnan(gsp_pyext__sampler_gpu_share(sampler)));
    gsp_pyext__sampler_free(sampler);
    gsp_pyext__sampler_free(NULL);
}

/* Touches the bytes and frees them at once, so that no sample sees them. */
static void spike(int64_t bytes)
{
    char *at =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_require(at != MAP_FAILED);
    for (volatile char *page = at; page < at + bytes; page += 4096)
        *page = 7;
    munmap(at, (size_t)bytes);
}

static int64_t peak_above(struct gsp_sampler *sampler, const struct gsp_sampler_window_begin *begin)
{
    struct gsp_sampler_window window;
    gsp_pyext__sampler_so_far(sampler, begin, &window);
    gsp_pyext__sampler_end(sampler);
    return window.peak_bytes - window.first_bytes;
}

static bool is_about(int64_t bytes, int64_t wanted)
{
    return bytes > wanted - 2 * MB && bytes < wanted + 2 * MB;
}

/* Each block has its own peak, though an earlier one was higher and no sample saw it. */
TAP_TEST(peaks_are_exact)
{
    if (access("/proc/self/clear_refs", W_OK) != 0) {
        tap_skip("the high-water mark cannot be set back here");
        return;
    }
    static const struct gsp_sampler_opts slow = {.interval_ns = 600 * GSP_NS_PER_S,
                                                 .first_ns = 600 * GSP_NS_PER_S,
                                                 .cpu_tdp_watts = 10,
                                                 .reset_peak = true};
    struct gsp_sampler *sampler = gsp_pyext__sampler_new(&slow);
    struct gsp_sampler_window_begin outer;
    struct gsp_sampler_window_begin inner;
    gsp_pyext__sampler_begin(sampler, &outer);
    spike(64 * MB);
    tap_check(is_about(peak_above(sampler, &outer), 64 * MB));
    gsp_pyext__sampler_begin(sampler, &outer);
    spike(16 * MB);
    tap_check(is_about(peak_above(sampler, &outer), 16 * MB));
    /* Nested: the outer block keeps its peak from before the inner one. */
    gsp_pyext__sampler_begin(sampler, &outer);
    spike(32 * MB);
    gsp_pyext__sampler_begin(sampler, &inner);
    spike(8 * MB);
    tap_check(is_about(peak_above(sampler, &inner), 8 * MB));
    gsp_pyext__sampler_begin(sampler, &inner);
    tap_check(peak_above(sampler, &inner) < 2 * MB);
    tap_check(is_about(peak_above(sampler, &outer), 32 * MB));
    gsp_pyext__sampler_free(sampler);
}

/* More samples than are kept one by one: they are merged, and the peak stays. */
TAP_TEST(blocks_within_blocks)
{
    struct gsp_sampler *sampler = gsp_pyext__sampler_new(&quick);
    struct gsp_sampler_window_begin outer;
    struct gsp_sampler_window_begin inner;
    struct gsp_sampler_window window;
    gsp_pyext__sampler_begin(sampler, &outer);
    gsp_pyext__sampler_begin(sampler, &inner);
    gsp_pyext__sampler_so_far(sampler, &inner, &window);
    gsp_pyext__sampler_end(sampler);
    wait_for_looks(sampler, outer.at_ns);
    const int64_t inner_ns = window.ended_ns - window.began_ns;
    gsp_pyext__sampler_so_far(sampler, &outer, &window);
    tap_check(window.ended_ns - window.began_ns > inner_ns);
    gsp_pyext__sampler_end(sampler);
    gsp_pyext__sampler_end(sampler); /* once more than begun */
    gsp_pyext__sampler_free(sampler);
}

static void *many_blocks(void *arg)
{
    for (int i = 0; i < 50; i++) {
        struct gsp_sampler_window_begin begin;
        struct gsp_sampler_window window;
        gsp_pyext__sampler_begin(arg, &begin);
        gsp_pyext__sampler_so_far(arg, &begin, &window);
        gsp_pyext__sampler_end(arg);
    }
    return NULL;
}

TAP_TEST(threads_share_a_sampler)
{
    struct gsp_sampler *sampler = gsp_pyext__sampler_new(&quick);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        tap_check(pthread_create(&threads[i], NULL, many_blocks, sampler) == 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    gsp_pyext__sampler_free(sampler);
}

TAP_TEST(sampler_works_in_a_child)
{
    if (TAP_IS_SANITIZED)
        tap_skip("needs a build without a sanitizer: a thread allocates while its process forks");
    struct gsp_sampler *sampler = gsp_pyext__sampler_new(&quick);
    struct gsp_sampler_window_begin begin;
    gsp_pyext__sampler_begin(sampler, &begin);
    const pid_t pid = fork();
    if (pid == 0) {
        struct gsp_sampler_window window;
        gsp_pyext__sampler_so_far(sampler, &begin, &window);
        bool ok = window.user_ns >= 0 && window.system_ns >= 0;
        gsp_pyext__sampler_end(sampler);
        gsp_pyext__sampler_begin(sampler, &begin);
        wait_for_looks(sampler, begin.at_ns);
        gsp_pyext__sampler_end(sampler);
        gsp_pyext__sampler_free(sampler);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    tap_check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    gsp_pyext__sampler_end(sampler);
    gsp_pyext__sampler_free(sampler);
}

TAP_MAIN()
