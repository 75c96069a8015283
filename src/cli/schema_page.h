/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_page.h -- docs/sql-schema.md, generated from wire/tables.def.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"

void gsp_cli__schema_markdown(struct gsp_buf *out);
