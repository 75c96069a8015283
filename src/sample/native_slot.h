/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_slot.h -- threads that are not Python's, sampled by their native frames alone: those of a
 * process without an interpreter, and the worker threads of libraries.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "native/unwind.h"
#include "sample/proc_slot.h"

/* Turns the slot into one that is sampled by native frames. Fails like gsp_sample__mixed_open(). */
GSP_MUST_CHECK int gsp_sample__native_slot_open(struct gsp_proc_slot *slot,
                                                struct gsp_native_store *store);
/* Closes what gsp_sample__native_slot_open() opened. Does nothing for other slots. */
void gsp_sample__native_slot_close(struct gsp_proc_slot *slot);

/* Reads the list of threads and whether each one runs. Returns NOPROC if the process has ended. */
GSP_MUST_CHECK int gsp_sample__native_slot_update(struct gsp_proc_slot *slot, int64_t now_ns);
/* Returns whether Python knows the thread. Also true while the id of one of Python's threads is
 * unknown: it might be this one. */
bool gsp_sample__native_slot_is_python_thread(const struct gsp_proc_slot *slot, pid_t tid);
