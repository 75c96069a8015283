/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_page.h -- docs/sql-schema.md, generated from wire/tables.def, and docs/settings.md,
 * generated from wire/settings.def and the table in daemon/settings.c.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"

void gsp_cli__schema_markdown(struct gsp_buf *out);
void gsp_cli__settings_markdown(struct gsp_buf *out);
