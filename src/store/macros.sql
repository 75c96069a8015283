-- Common queries as table macros in the schema gsprof.
-- Most macros have the parameters ts_from and ts_to (CLOCK_REALTIME, ns). NULL means no limit.
-- A statement ends with a semicolon at the end of a line.

-- Each function of a stack once.
-- Not a view: a view is bound when it is created, but the string types of live tables change.
CREATE OR REPLACE MACRO gsprof.stack_functions() AS TABLE
    SELECT stack_id, func, file, min(depth) AS depth
    FROM python.stack
    GROUP BY stack_id, func, file;

-- Samples of running threads, and all samples of the main threads of processes with training steps
-- (of the only process, if there are no steps). Waiting samples of other threads (pools, monitors,
-- servers) would hide the rest. If on_cpu is unknown, a sample counts as running.
CREATE OR REPLACE MACRO gsprof.working_samples(ts_from := NULL, ts_to := NULL, idle := false)
AS TABLE
    WITH stepping AS (SELECT DISTINCT pid FROM python.torch_step),
    mains AS (
        FROM stepping
        UNION ALL
        SELECT max(pid) AS pid
        FROM python.stack_sample
        WHERE NOT EXISTS (FROM stepping)
        HAVING min(pid) = max(pid))
    SELECT *
    FROM python.stack_sample
    WHERE (ts_from IS NULL OR ts_ns >= ts_from) AND (ts_to IS NULL OR ts_ns <= ts_to)
        AND (idle OR on_cpu IS NOT FALSE OR (thread_id = pid AND pid IN (FROM mains)));

CREATE OR REPLACE MACRO gsprof.hot_functions(ts_from := NULL, ts_to := NULL, idle := false)
AS TABLE
    WITH stacks AS (
        SELECT stack_id, sum(weight_ns) AS ns, count(*) AS samples
        FROM gsprof.working_samples(ts_from := ts_from, ts_to := ts_to, idle := idle)
        GROUP BY stack_id),
    whole AS (SELECT sum(ns) AS ns FROM stacks)
    SELECT func, file,
        coalesce(sum(stacks.ns) FILTER (WHERE depth = 0), 0) / 1e9 AS self_s,
        sum(stacks.ns) / 1e9 AS total_s,
        round(100.0 * coalesce(sum(stacks.ns) FILTER (WHERE depth = 0), 0) / any_value(whole.ns), 2)
            AS self_pct,
        round(100.0 * sum(stacks.ns) / any_value(whole.ns), 2) AS total_pct,
        sum(stacks.samples)::BIGINT AS samples
    FROM stacks JOIN gsprof.stack_functions() USING (stack_id), whole
    GROUP BY func, file
    ORDER BY self_s DESC, total_s DESC, func;

CREATE OR REPLACE MACRO gsprof.hot_lines(ts_from := NULL, ts_to := NULL, idle := false) AS TABLE
    WITH stacks AS (
        SELECT stack_id, sum(weight_ns) AS ns, count(*) AS samples
        FROM gsprof.working_samples(ts_from := ts_from, ts_to := ts_to, idle := idle)
        GROUP BY stack_id)
    SELECT file, lineno, func, sum(ns) / 1e9 AS self_s, sum(samples)::BIGINT AS samples
    FROM stacks JOIN python.stack USING (stack_id)
    WHERE depth = 0
    GROUP BY file, lineno, func
    ORDER BY self_s DESC, file, lineno;

CREATE OR REPLACE MACRO gsprof.module_percentiles(ts_from := NULL, ts_to := NULL) AS TABLE
    SELECT module, stage, count(*) AS calls,
        avg(duration) * 1e3 AS mean_ms,
        quantile_cont(duration, 0.5) * 1e3 AS p50_ms,
        quantile_cont(duration, 0.9) * 1e3 AS p90_ms,
        quantile_cont(duration, 0.99) * 1e3 AS p99_ms,
        max(duration) * 1e3 AS max_ms,
        sum(duration) AS total_s
    FROM python.torch_trace
    WHERE (ts_from IS NULL OR ts_ns >= ts_from) AND (ts_to IS NULL OR ts_ns <= ts_to)
    GROUP BY module, stage
    ORDER BY total_s DESC, module, stage;

-- ts_ns of a torch_step row is the end of the step.
CREATE OR REPLACE MACRO gsprof.steps(ts_from := NULL, ts_to := NULL) AS TABLE
    SELECT host, pid, rank, step, duration, ts_ns - (duration * 1e9)::BIGINT AS start_ns,
        ts_ns AS end_ns
    FROM python.torch_step
    WHERE (ts_from IS NULL OR ts_ns >= ts_from) AND (ts_to IS NULL OR ts_ns <= ts_to);

CREATE OR REPLACE MACRO gsprof.slow_steps(n := 10, ts_from := NULL, ts_to := NULL) AS TABLE
    WITH steps AS (SELECT * FROM gsprof.steps(ts_from := ts_from, ts_to := ts_to)),
    typical AS (SELECT median(duration) AS duration FROM steps),
    slow AS (SELECT * FROM steps ORDER BY duration DESC, step, rank LIMIT n),
    bounds AS (SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM slow),
    stacks AS (
        SELECT slow.pid, slow.step, s.stack_id, sum(s.weight_ns) AS ns
        FROM slow JOIN (
            SELECT * FROM gsprof.working_samples(), bounds
            WHERE ts_ns BETWEEN first_ns AND last_ns) AS s
        ON s.pid = slow.pid AND s.ts_ns BETWEEN slow.start_ns AND slow.end_ns
        GROUP BY slow.pid, slow.step, s.stack_id),
    functions AS (
        SELECT pid, step, func, sum(ns) AS ns
        FROM stacks JOIN python.stack USING (stack_id)
        WHERE depth = 0
        GROUP BY pid, step, func),
    hot AS (
        SELECT pid, step, arg_max(func, ns) AS func,
            round(100.0 * max(ns) / sum(ns), 1) AS func_pct
        FROM functions
        GROUP BY pid, step),
    metrics AS (
        SELECT ts_ns, host, avg(util_percent) AS util_percent,
            sum(memory_used_bytes)::BIGINT AS memory_used_bytes
        FROM gpu.metrics, bounds
        WHERE ts_ns BETWEEN first_ns AND last_ns
        GROUP BY ts_ns, host)
    SELECT slow.step, slow.rank, slow.pid, slow.duration,
        round(slow.duration / typical.duration, 2) AS times_median,
        hot.func AS hot_func, hot.func_pct AS hot_pct,
        m.util_percent AS gpu_util_percent, m.memory_used_bytes AS gpu_memory_used_bytes,
        slow.start_ns, slow.end_ns
    FROM slow CROSS JOIN typical
    LEFT JOIN hot ON hot.pid = slow.pid AND hot.step = slow.step
    ASOF LEFT JOIN metrics AS m ON m.host = slow.host AND m.ts_ns <= slow.end_ns
    ORDER BY slow.duration DESC, slow.step, slow.rank;

CREATE OR REPLACE MACRO gsprof.step_functions(the_step, the_rank := NULL) AS TABLE
    WITH steps AS (
        SELECT * FROM gsprof.steps()
        WHERE step = the_step AND (the_rank IS NULL OR rank = the_rank)),
    stacks AS (
        SELECT s.stack_id, sum(s.weight_ns) AS ns
        FROM steps JOIN gsprof.working_samples() AS s
        ON s.pid = steps.pid AND s.ts_ns BETWEEN steps.start_ns AND steps.end_ns
        GROUP BY s.stack_id)
    SELECT func, file, coalesce(sum(ns) FILTER (WHERE depth = 0), 0) / 1e9 AS self_s,
        sum(ns) / 1e9 AS total_s
    FROM stacks JOIN gsprof.stack_functions() USING (stack_id)
    GROUP BY func, file
    ORDER BY self_s DESC, total_s DESC, func;

CREATE OR REPLACE MACRO gsprof.memory_growth(ts_from := NULL, ts_to := NULL) AS TABLE
    WITH steps AS (
        SELECT host, pid, rank, step, max(allocated) AS allocated_mb, max(max_allocated) AS peak_mb,
            max(cached) AS cached_mb
        FROM python.torch_trace
        WHERE (ts_from IS NULL OR ts_ns >= ts_from) AND (ts_to IS NULL OR ts_ns <= ts_to)
        GROUP BY host, pid, rank, step)
    SELECT rank, pid, step, allocated_mb, peak_mb, cached_mb,
        allocated_mb - lag(allocated_mb) OVER each AS growth_mb,
        allocated_mb - first_value(allocated_mb) OVER each AS since_first_mb
    FROM steps
    WINDOW each AS (PARTITION BY host, pid ORDER BY step)
    ORDER BY rank, pid, step;

-- A leak shows as a lasting positive slope.
CREATE OR REPLACE MACRO gsprof.memory_trend(ts_from := NULL, ts_to := NULL) AS TABLE
    SELECT rank, pid, count(*) AS steps, regr_slope(allocated_mb, step) AS mb_per_step,
        regr_r2(allocated_mb, step) AS r2, max(allocated_mb) AS highest_mb
    FROM gsprof.memory_growth(ts_from := ts_from, ts_to := ts_to)
    GROUP BY rank, pid
    ORDER BY mb_per_step DESC NULLS LAST;

CREATE OR REPLACE MACRO gsprof.stragglers(ts_from := NULL, ts_to := NULL) AS TABLE
    WITH steps AS (SELECT * FROM gsprof.steps(ts_from := ts_from, ts_to := ts_to)),
    typical AS (
        SELECT step, median(duration) AS duration, max(duration) AS longest, count(*) AS ranks
        FROM steps
        GROUP BY step)
    SELECT rank, any_value(host) AS host, any_value(pid) AS pid, count(*) AS steps,
        avg(steps.duration) AS mean_s,
        quantile_cont(steps.duration, 0.99) AS p99_s,
        count(*) FILTER (WHERE steps.duration = typical.longest AND typical.ranks > 1) AS slowest,
        round(100.0 * avg(steps.duration / typical.duration - 1), 2) AS behind_pct,
        sum(steps.duration - typical.duration) AS behind_s
    FROM steps JOIN typical USING (step)
    GROUP BY rank, steps.host, steps.pid
    ORDER BY behind_pct DESC, rank;

CREATE OR REPLACE MACRO gsprof.compare_functions(a_from, a_to, b_from, b_to) AS TABLE
    WITH a AS (SELECT * FROM gsprof.hot_functions(ts_from := a_from, ts_to := a_to)),
    b AS (SELECT * FROM gsprof.hot_functions(ts_from := b_from, ts_to := b_to))
    SELECT coalesce(a.func, b.func) AS func, coalesce(a.file, b.file) AS file,
        coalesce(a.self_pct, 0) AS a_self_pct, coalesce(b.self_pct, 0) AS b_self_pct,
        round(coalesce(b.self_pct, 0) - coalesce(a.self_pct, 0), 2) AS change_pct,
        coalesce(a.self_s, 0) AS a_self_s, coalesce(b.self_s, 0) AS b_self_s,
        coalesce(a.total_s, 0) AS a_total_s, coalesce(b.total_s, 0) AS b_total_s
    FROM a FULL JOIN b ON a.func = b.func AND a.file IS NOT DISTINCT FROM b.file
    ORDER BY abs(change_pct) DESC, func;

CREATE OR REPLACE MACRO gsprof.compare_runs(a_name, b_name) AS TABLE
    SELECT * FROM gsprof.compare_functions(
        (SELECT min(ts_from) FROM gsprof.run WHERE name = a_name),
        (SELECT max(ts_to) FROM gsprof.run WHERE name = a_name),
        (SELECT min(ts_from) FROM gsprof.run WHERE name = b_name),
        (SELECT max(ts_to) FROM gsprof.run WHERE name = b_name));

-- Of several sessions with this name, the newest. An active session ends at the newest frame.
CREATE OR REPLACE MACRO gsprof.session_frames(the_session) AS TABLE
    WITH the AS (
        SELECT first_frame, coalesce(last_frame, 9223372036854775807) AS last_frame
        FROM session.list
        WHERE name = the_session
        ORDER BY ts_ns DESC
        LIMIT 1)
    SELECT f.ts_ns, f.host, f.frame_id, f.metric, f.device, f.value
    FROM session.frame AS f JOIN the ON f.frame_id BETWEEN the.first_frame AND the.last_frame;

-- The newest stacks of the threads that were sampled in the last 2.5 s of their process.
CREATE OR REPLACE MACRO gsprof.last_stacks() AS TABLE
    WITH seen AS (
        SELECT host, pid, rank, thread_id, max(ts_ns) AS ts_ns,
            arg_max(thread_name, ts_ns) AS thread_name, arg_max(on_cpu, ts_ns) AS on_cpu,
            arg_max(has_gil, ts_ns) AS has_gil, arg_max(stack_id, ts_ns) AS stack_id
        FROM python.stack_sample
        GROUP BY host, pid, rank, thread_id),
    lately AS (
        SELECT *, max(ts_ns) OVER (PARTITION BY host, pid) AS newest_ns FROM seen)
    SELECT ts_ns, host, pid, rank, thread_id, thread_name, on_cpu, has_gil, func, file, lineno,
        depth, frame_type
    FROM lately JOIN python.stack USING (stack_id)
    WHERE newest_ns - ts_ns <= 2500000000
    ORDER BY host, pid, thread_id, depth;
