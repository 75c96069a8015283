/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/time.h"
#include "proc/task.h"
#include "sample/thread_cpu.h"
#include "tap.h"

static _Atomic bool stop;
static _Atomic pid_t worker_tid;

static void *work(void *user)
{
    (void)user;
    worker_tid = gettid();
    while (!stop) {
    }
    return NULL;
}

/* The threads that this test treats as Python's. */
static bool is_main_alone(const void *user, pid_t tid)
{
    (void)user;
    return tid == getpid();
}

static bool are_all(const void *user, pid_t tid)
{
    (void)user;
    (void)tid;
    return true;
}

TAP_TEST(cpu_time_of_workers_is_counted_by_name)
{
    struct gsp_thread_cpu cpu = {0};
    struct gsp_thread_cpu all = {0};
    struct gsp_native_cpu sum;
    gsp_sample__thread_cpu_update(&cpu, getpid(), is_main_alone, NULL);
    gsp_sample__thread_cpu_update(&all, getpid(), are_all, NULL);
    pthread_t thread;
    tap_require(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_setname_np(thread, "worker-7");
    while (worker_tid == 0 || gsp_proc_task_cpu_ns(getpid(), worker_tid) < 20 * GSP_NS_PER_MS)
        usleep(1000);
    gsp_sample__thread_cpu_update(&cpu, getpid(), is_main_alone, NULL);
    gsp_sample__thread_cpu_update(&all, getpid(), are_all, NULL);
    stop = true;
    pthread_join(thread, NULL);
    /* A thread that has ended keeps its time. */
    gsp_sample__thread_cpu_update(&cpu, getpid(), is_main_alone, NULL);
    gsp_sample__thread_cpu_sum(&cpu, &sum);
    tap_eq_int(sum.threads, 1);
    tap_eq_int(sum.top_count, 1);
    tap_eq_str(sum.top[0].name, "worker-7");
    tap_check(sum.cpu_ns >= 20 * GSP_NS_PER_MS && sum.cpu_ns == sum.top[0].cpu_ns);
    gsp_sample__thread_cpu_sum(&all, &sum);
    tap_eq_int(sum.threads, 0);
    tap_eq_int(sum.cpu_ns, 0);
    gsp_sample__thread_cpu_free(&cpu);
    gsp_sample__thread_cpu_free(&all);
    tap_eq_int(gsp_proc_task_cpu_ns(getpid(), 99999999), -1);
}

TAP_TEST(a_sum_as_text)
{
    struct gsp_native_cpu sum = {.cpu_ns = 8100 * GSP_NS_PER_MS,
                                 .threads = 6,
                                 .top_count = 3,
                                 .top = {{"polars-0", 1, 4100 * GSP_NS_PER_MS},
                                         {"python", 3, 3 * GSP_NS_PER_S},
                                         {"", 1, 50 * GSP_NS_PER_MS}}};
    gsp_auto_buf text = {0};
    gsp_sample_native_cpu_put(&sum, &text);
    tap_eq_str(gsp_buf_cstr(&text), "8.10 s of CPU: polars-0 4.10 s, python (3 threads) 3.00 s, "
                                    "(no name) 0.050 s, 1 more");
}

TAP_MAIN()
