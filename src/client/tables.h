/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h -- answers of a daemon as tables: members, settings and sessions.
 *
 * Each function creates *out if it returns a positive number. gsp_rows_free() of its
 * gsp_model_row_list_rows() frees it. They fail with USAGE (a member has the wrong
 * type) and NOMEM.
 *
 * Threads: one owner.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "http/body.h"
#include "model/row_list.h"

/* All members as names and values. A member of an inner object is "outer.inner"; null is omitted.
 * The array "sources" becomes one row for each source, with its error. skip (may be NULL) lists the
 * members to omit and ends with NULL; prefix (may be NULL) is the start of the names to include.
 * Returns 1. */
GSP_MUST_CHECK int gsp_client_members_table(const struct gsp_body *body, const char *const *skip,
                                            const char *prefix, struct gsp_row_list **out,
                                            struct gsp_err *err);
/* The array `name` of settings; prefix as above. Returns 1, or 0 if the array is missing. */
GSP_MUST_CHECK int gsp_client_settings_table(const struct gsp_body *body, const char *name,
                                             const char *prefix, struct gsp_row_list **out,
                                             struct gsp_err *err);
/* The array `name` of sessions. Returns 1, or 0 if it is missing or empty. */
GSP_MUST_CHECK int gsp_client_sessions_table(const struct gsp_body *body, const char *name,
                                             struct gsp_row_list **out, struct gsp_err *err);
