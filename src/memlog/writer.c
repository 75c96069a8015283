/* SPDX-License-Identifier: Apache-2.0 */
#include "memlog/writer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "memlog/layout.h"

/* Part of the budget that is reserved for the end of the recording. */
#define RESERVE_PART 16U

struct site {
    uint32_t id; /* in the file */
    struct gsp_memlog_count count;
};

struct process {
    struct gsp_memlog_stacks stacks;
    struct site *sites;
    size_t site_count;
    size_t site_cap;
    int64_t totals[GSP_MEMTOTALS];
    bool is_leaving;
};

struct gsp_memlog_writer {
    int fd;
    int64_t start_ns;
    uint64_t budget_bytes;
    uint64_t done_bytes;
    uint64_t last_bytes; /* of the last block */
    uint32_t blocks;
    int64_t last_ns; /* of the newest tick */
    struct gsp_profile *profile;
    /* Numbers of the profile's entries that are already in the file. */
    size_t strings;
    size_t frames;
    size_t stacks;
    size_t threads;
    uint32_t sites;
    struct process *processes;
    size_t process_count;
    size_t process_cap;
    struct gsp_buf raw;     /* records of the current block */
    struct gsp_buf changes; /* changes of the current tick */
};

int gsp_memlog_writer_new(const struct gsp_memlog_writer_opts *opts, struct gsp_memlog_writer **out,
                          struct gsp_err *err)
{
    *out = NULL;
    struct gsp_memlog_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return gsp_err_nomem(err);
    writer->fd = opts->fd;
    writer->start_ns = opts->start_ns;
    writer->budget_bytes = opts->budget_bytes ? opts->budget_bytes : GSP_MEMLOG_BUDGET;
    int rc = gsp_model_profile_new(false, &writer->profile, err);
    unsigned char header[GSP_MEMLOG_HEADER_BYTES] = {0};
    memcpy(header, gsp_memlog__magic, sizeof(gsp_memlog__magic));
    gsp_memlog__put_number(header + sizeof(gsp_memlog__magic), GSP_MEMLOG_VERSION, 4);
    if (rc == GSP_OK)
        rc = gsp_fd_write_all(writer->fd, header, sizeof(header), err);
    if (rc < 0) {
        gsp_memlog_writer_free(writer);
        return rc;
    }
    writer->done_bytes = sizeof(header);
    gsp_buf_varint(&writer->raw, GSP_MEMLOG_META);
    gsp_buf_varint(&writer->raw, gsp_zigzag(opts->start_real_ns));
    const size_t len = opts->huge_setting ? strlen(opts->huge_setting) : 0;
    if (len > 0 && len < GSP_MEMLOG_SETTING_BYTES) {
        gsp_buf_varint(&writer->raw, GSP_MEMLOG_HUGE);
        gsp_buf_varint(&writer->raw, len);
        gsp_buf_put(&writer->raw, opts->huge_setting, len);
    }
    *out = writer;
    return GSP_OK;
}

void gsp_memlog_writer_free(struct gsp_memlog_writer *writer)
{
    if (!writer)
        return;
    for (size_t i = 0; i < writer->process_count; i++) {
        gsp_memlog_stacks_free(&writer->processes[i].stacks);
        free(writer->processes[i].sites);
    }
    free(writer->processes);
    gsp_model_profile_free(writer->profile);
    gsp_buf_free(&writer->raw);
    gsp_buf_free(&writer->changes);
    free(writer);
}

/* --------------------------------------------------------------------------------- definitions */

static void put_strings(struct gsp_memlog_writer *writer)
{
    while (writer->strings < gsp_model_profile_string_count(writer->profile)) {
        const struct gsp_sv text =
            gsp_model_profile_string_at(writer->profile, (uint32_t)++writer->strings);
        gsp_buf_varint(&writer->raw, GSP_MEMLOG_STRING);
        gsp_buf_varint(&writer->raw, text.len);
        gsp_buf_putsv(&writer->raw, text);
    }
}

static void put_stacks(struct gsp_memlog_writer *writer)
{
    const struct gsp_profile *profile = writer->profile;
    struct gsp_buf *raw = &writer->raw;
    while (writer->frames < gsp_model_profile_frame_count(profile)) {
        const struct gsp_frame *frame =
            gsp_model_profile_frame_at(profile, (uint32_t)++writer->frames);
        gsp_buf_varint(raw, GSP_MEMLOG_FRAME);
        gsp_buf_varint(raw, frame->name);
        gsp_buf_varint(raw, frame->file);
        gsp_buf_varint(raw, frame->line);
        gsp_buf_varint(raw, frame->first_line);
        gsp_buf_varint(raw, frame->kind);
    }
    while (writer->stacks < gsp_model_profile_stack_count(profile)) {
        const uint32_t stack = (uint32_t)++writer->stacks;
        gsp_buf_varint(raw, GSP_MEMLOG_STACK);
        gsp_buf_varint(raw, gsp_model_profile_stack_caller(profile, stack));
        gsp_buf_varint(raw, gsp_model_profile_stack_frame(profile, stack));
    }
    while (writer->threads < gsp_model_profile_thread_count(profile)) {
        const struct gsp_thread *thread =
            gsp_model_profile_thread_at(profile, (uint32_t)writer->threads++);
        gsp_buf_varint(raw, GSP_MEMLOG_THREAD);
        gsp_buf_varint(raw, thread->process);
        gsp_buf_varint(raw, thread->os_id);
        gsp_buf_varint(raw, thread->name);
        gsp_buf_varint(raw, thread->is_main);
    }
}

int gsp_memlog_writer_add_process(struct gsp_memlog_writer *writer,
                                  const struct gsp_memlog_writer_process *about,
                                  const struct gsp_memlog_table *table, uint32_t *index,
                                  struct gsp_err *err)
{
    const struct gsp_memlog_table_facts *facts = gsp_memlog_table_facts(table);
    if (!gsp_array_fit(&writer->processes, &writer->process_cap, writer->process_count + 1))
        return gsp_err_nomem(err);
    struct gsp_process process = {.pid = about->pid, .ppid = about->ppid};
    int rc = gsp_model_profile_string(writer->profile, about->cmdline, &process.name, err);
    process.cmdline = process.name;
    if (rc == GSP_OK)
        rc = gsp_model_profile_process(writer->profile, &process, index, err);
    if (rc < 0)
        return rc;
    struct process *fresh = &writer->processes[writer->process_count++];
    *fresh = (struct process){.stacks = GSP_MEMSTACKS_NONE};
    fresh->stacks.process = *index;
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        fresh->totals[i] = GSP_MEMLOG_UNKNOWN;
    put_strings(writer);
    gsp_buf_varint(&writer->raw, GSP_MEMLOG_PROCESS);
    gsp_buf_varint(&writer->raw, gsp_zigzag(process.pid));
    gsp_buf_varint(&writer->raw, gsp_zigzag(process.ppid));
    gsp_buf_varint(&writer->raw, process.name);
    gsp_buf_varint(&writer->raw, process.cmdline);
    gsp_buf_varint(&writer->raw, process.version);
    gsp_buf_varint(&writer->raw, facts->mode);
    gsp_buf_varint(&writer->raw, facts->interval_bytes);
    return GSP_OK;
}

/* Writes the sites of the table that are not in the file yet. */
static int put_sites(struct gsp_memlog_writer *writer, struct process *process,
                     const struct gsp_memlog_table *table, struct gsp_err *err)
{
    const size_t count = gsp_memlog_table_site_count(table);
    int rc = gsp_memlog_stacks_grow(&process->stacks, table, writer->profile, err);
    if (rc < 0)
        return rc;
    put_strings(writer);
    put_stacks(writer);
    if (!gsp_array_fit(&process->sites, &process->site_cap, count))
        return gsp_err_nomem(err);
    for (; process->site_count < count; process->site_count++) {
        const struct gsp_memlog_site_counts *site =
            gsp_memlog_table_site(table, process->site_count);
        uint32_t thread = 0;
        uint32_t stack = 0;
        gsp_memlog_stacks_at(&process->stacks, site->node, &thread, &stack);
        process->sites[process->site_count] = (struct site){.id = writer->sites++};
        gsp_buf_varint(&writer->raw, GSP_MEMLOG_SITE);
        gsp_buf_varint(&writer->raw, thread);
        gsp_buf_varint(&writer->raw, stack);
        gsp_buf_varint(&writer->raw, site->allocator);
    }
    return GSP_OK;
}

/* -------------------------------------------------------------------------------------- ticks */

/* The difference may wrap; the reader's addition wraps the same way. */
static void put_step(struct gsp_buf *out, uint64_t now, uint64_t before)
{
    gsp_buf_varint(out, gsp_zigzag((int64_t)(now - before)));
}

static unsigned changes_of(const struct gsp_memlog_count *a, const struct gsp_memlog_count *b)
{
    unsigned has = 0;
    if (a->alloc_bytes != b->alloc_bytes || a->alloc_count != b->alloc_count)
        has |= GSP_MEMLOG_HAS_ALLOC;
    if (a->free_bytes != b->free_bytes || a->free_count != b->free_count)
        has |= GSP_MEMLOG_HAS_FREE;
    if (a->peak_bytes != b->peak_bytes || a->peak_count != b->peak_count)
        has |= GSP_MEMLOG_HAS_PEAK;
    if (a->live_var != b->live_var)
        has |= GSP_MEMLOG_HAS_VAR;
    return has;
}

static void put_change(struct gsp_buf *out, unsigned has, const struct gsp_memlog_count *now,
                       const struct gsp_memlog_count *before)
{
    gsp_buf_varint(out, has);
    if (has & GSP_MEMLOG_HAS_ALLOC) {
        put_step(out, now->alloc_bytes, before->alloc_bytes);
        put_step(out, now->alloc_count, before->alloc_count);
    }
    if (has & GSP_MEMLOG_HAS_FREE) {
        put_step(out, now->free_bytes, before->free_bytes);
        put_step(out, now->free_count, before->free_count);
    }
    if (has & GSP_MEMLOG_HAS_PEAK) {
        put_step(out, now->peak_bytes, before->peak_bytes);
        put_step(out, now->peak_count, before->peak_count);
    }
    if (has & GSP_MEMLOG_HAS_VAR)
        put_step(out, now->live_var, before->live_var);
}

/* Stores the changed sites in writer->changes and returns their number. */
static uint32_t put_changes(struct gsp_memlog_writer *writer, struct process *process,
                            const struct gsp_memlog_table *table)
{
    uint32_t count = 0;
    uint32_t last = 0;
    gsp_buf_clear(&writer->changes);
    for (size_t i = 0; i < process->site_count; i++) {
        struct site *site = &process->sites[i];
        const struct gsp_memlog_count *now = &gsp_memlog_table_site(table, i)->count;
        const unsigned has = changes_of(now, &site->count);
        if (!has)
            continue;
        gsp_buf_varint(&writer->changes, site->id - last);
        put_change(&writer->changes, has, now, &site->count);
        site->count = *now;
        last = site->id;
        count++;
    }
    return count;
}

static int64_t to_signed(uint64_t bytes)
{
    return bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

static void fill_totals(const struct gsp_memlog_writer *writer,
                        const struct gsp_memlog_table_facts *facts, int64_t totals[GSP_MEMTOTALS])
{
    uint64_t lost = 0;
    for (size_t i = 0; i < GSP_MEMORY_LOSSES; i++)
        lost += i == GSP_MEMORY_CUT_STACKS ? 0 : facts->lost[i];
    totals[GSP_MEMTOTAL_LIVE] = to_signed(facts->live_bytes);
    totals[GSP_MEMTOTAL_MALLOC] = to_signed(facts->allocator_live[GSP_MEMORY_MALLOC]);
    totals[GSP_MEMTOTAL_MMAP] = to_signed(facts->allocator_live[GSP_MEMORY_MMAP]);
    totals[GSP_MEMTOTAL_PYTHON] = to_signed(facts->allocator_live[GSP_MEMORY_PY_RAW] +
                                            facts->allocator_live[GSP_MEMORY_PY_MEM] +
                                            facts->allocator_live[GSP_MEMORY_PY_OBJECT]);
    if (facts->device_allocated_bytes >= 0) {
        totals[GSP_MEMTOTAL_DEVICE] = facts->device_allocated_bytes;
        totals[GSP_MEMTOTAL_DEVICE_RESERVED] = facts->device_reserved_bytes;
    }
    totals[GSP_MEMTOTAL_PEAK] = to_signed(facts->peak_bytes);
    if (facts->peak_ns > 0)
        totals[GSP_MEMTOTAL_PEAK_NS] = facts->peak_ns - writer->start_ns;
    totals[GSP_MEMTOTAL_LOST] = to_signed(lost);
}

static void put_tick_head(struct gsp_memlog_writer *writer, enum gsp_memlog_tag tag, uint32_t index,
                          int64_t now_ns)
{
    int64_t time_ns = now_ns - writer->start_ns;
    time_ns = time_ns > writer->last_ns ? time_ns : writer->last_ns;
    gsp_buf_varint(&writer->raw, tag);
    gsp_buf_varint(&writer->raw, index);
    gsp_buf_varint(&writer->raw, (uint64_t)(time_ns - writer->last_ns));
    writer->last_ns = time_ns;
}

int gsp_memlog_writer_tick(struct gsp_memlog_writer *writer, uint32_t index, int64_t now_ns,
                           const struct gsp_memlog_table *table,
                           const int64_t totals[GSP_MEMTOTALS], struct gsp_err *err)
{
    if (index >= writer->process_count)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the recording has no process %u", index);
    struct process *process = &writer->processes[index];
    int64_t now[GSP_MEMTOTALS];
    uint64_t mask = 0;
    memcpy(now, totals, sizeof(now));
    fill_totals(writer, gsp_memlog_table_facts(table), now);
    int rc = put_sites(writer, process, table, err);
    if (rc < 0)
        return rc;
    if (gsp_memlog_table_facts(table)->leaving && !process->is_leaving) {
        gsp_buf_varint(&writer->raw, GSP_MEMLOG_LEAVING);
        gsp_buf_varint(&writer->raw, index);
        process->is_leaving = true;
    }
    put_tick_head(writer, GSP_MEMLOG_TICK, index, now_ns);
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        mask |= (uint64_t)(now[i] != process->totals[i]) << i;
    gsp_buf_varint(&writer->raw, mask);
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        if ((mask >> i) & 1)
            put_step(&writer->raw, (uint64_t)now[i], (uint64_t)process->totals[i]);
    memcpy(process->totals, now, sizeof(now));
    gsp_buf_varint(&writer->raw, put_changes(writer, process, table));
    gsp_buf_putsv(&writer->raw, gsp_buf_sv(&writer->changes));
    return writer->raw.failed || writer->changes.failed ? gsp_err_nomem(err) : GSP_OK;
}

void gsp_memlog_writer_end_process(struct gsp_memlog_writer *writer, uint32_t index, int64_t now_ns)
{
    if (index < writer->process_count)
        put_tick_head(writer, GSP_MEMLOG_GONE, index, now_ns);
}

int gsp_memlog_writer_flush(struct gsp_memlog_writer *writer, struct gsp_err *err)
{
    const struct gsp_sv records = gsp_buf_sv(&writer->raw);
    gsp_auto_buf block = {0};
    unsigned char head[GSP_MEMLOG_BLOCK_BYTES];
    if (writer->raw.failed)
        return gsp_err_nomem(err);
    if (records.len == 0)
        return GSP_OK;
    if (records.len > GSP_MEMLOG_BLOCK_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a block of the recording exceeds %u bytes",
                           GSP_MEMLOG_BLOCK_MAX);
    gsp_memlog__put_number(head, records.len, 4);
    gsp_memlog__put_number(head + 4, writer->blocks, 4);
    gsp_memlog__put_number(head + 8, gsp_memlog__checksum(records, writer->blocks), 8);
    gsp_buf_put(&block, head, sizeof(head));
    gsp_buf_putsv(&block, records);
    if (block.failed)
        return gsp_err_nomem(err);
    int rc = gsp_fd_write_all(writer->fd, block.p, block.len, err);
    if (rc < 0) {
        /* Remove an incomplete block, because readers would stop there and miss later blocks. */
        gsp_ignore(ftruncate(writer->fd, (off_t)writer->done_bytes) < 0 ||
                   lseek(writer->fd, (off_t)writer->done_bytes, SEEK_SET) < 0);
        return rc;
    }
    gsp_buf_clear(&writer->raw);
    writer->blocks++;
    writer->done_bytes += block.len;
    writer->last_bytes = block.len;
    return GSP_OK;
}

int gsp_memlog_writer_end(struct gsp_memlog_writer *writer, struct gsp_err *err)
{
    gsp_buf_varint(&writer->raw, GSP_MEMLOG_END);
    return gsp_memlog_writer_flush(writer, err);
}

int64_t gsp_memlog_writer_pause_ns(const struct gsp_memlog_writer *writer, int64_t now_ns)
{
    const uint64_t kept = writer->budget_bytes / RESERVE_PART;
    const uint64_t gone = writer->done_bytes + kept;
    const double left = gone < writer->budget_bytes ? (double)(writer->budget_bytes - gone) : 1.0;
    const double elapsed_ns = (double)(now_ns - writer->start_ns);
    const double pause_ns = (double)writer->last_bytes * elapsed_ns / left;
    return pause_ns < 9e18 ? (int64_t)pause_ns : INT64_MAX;
}

uint64_t gsp_memlog_writer_bytes(const struct gsp_memlog_writer *writer)
{
    return writer->done_bytes;
}
