/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_slot.h -- a process without an interpreter, sampled by its native frames alone.
 *
 * Used by: sample/record.c alone.
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

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
