/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_slot.h -- threads that Python does not know, sampled by their native frames alone: those
 * of a process without an interpreter, and the workers that libraries start.
 *
 * Used by: sample/record.c alone.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "native/unwind.h"
#include "sample/proc_slot.h"

/* Makes the slot one of native frames; fails as gsp_mixed_open() does. */
GSP_MUST_CHECK int gsp_slot_native_open(struct gsp_slot *slot, struct gsp_native_store *store);
/* Closes what it opened; does nothing on other slots. */
void gsp_slot_native_close(struct gsp_slot *slot);

/* The threads and whether they run, now.  NOPROC when the process has ended. */
GSP_MUST_CHECK int gsp_slot_native_look(struct gsp_slot *slot, int64_t now_ns);
/* Is it one of Python's?  Also true while one of those has no known id: it might be this one. */
bool gsp_slot_is_python_thread(const struct gsp_slot *slot, pid_t tid);
