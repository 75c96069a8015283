/* SPDX-License-Identifier: Apache-2.0 */
#include "frames/session_format.h"

#include "base/json_scan.h"
#include "base/time.h"

#define LABELS_DEPTH_MAX 32U
#define SECONDS_PER_DAY  86400
#define YEAR_MIN         1970
#define YEAR_MAX         2200 /* later years overflow 64 bits of nanoseconds */

/* The number in [at, at + n), or -1 if these are not digits. */
static int digits(struct gsp_sv text, size_t at, size_t n)
{
    int v = 0;
    if (text.len < at + n)
        return -1;
    for (size_t i = at; i < at + n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -1;
        v = v * 10 + (text.p[i] - '0');
    }
    return v;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days_from_epoch(int year, int month, int day)
{
    /* If years start in March, the leap day is their last day. */
    int y = month > 2 ? year : year - 1;
    int m = month > 2 ? month - 3 : month + 9;
    int64_t before = 365LL * y + y / 4 - y / 100 + y / 400;
    return before + (153 * m + 2) / 5 + day - 1 - 719468;
}

static bool parse_zone(struct gsp_sv text, size_t at, int32_t *zone_s, bool *has_zone)
{
    *zone_s = 0;
    *has_zone = text.len > at;
    if (!*has_zone)
        return true;
    char sign = text.p[at];
    if (sign == 'Z')
        return text.len == at + 1;
    int hours = digits(text, at + 1, 2);
    bool has_colon = text.len == at + 6 && text.p[at + 3] == ':';
    int minutes = digits(text, at + (has_colon ? 4 : 3), 2);
    if ((sign != '+' && sign != '-') || hours < 0 || hours > 18 || minutes < 0 || minutes > 59 ||
        text.len != at + (has_colon ? 6 : 5))
        return false;
    *zone_s = (hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
    return true;
}

bool gsp_frames__session_time_parse(struct gsp_sv text, int64_t *out_ns, int32_t *zone_s,
                                    bool *has_zone)
{
    int year = digits(text, 0, 4);
    int month = digits(text, 5, 2);
    int day = digits(text, 8, 2);
    int hour = digits(text, 11, 2);
    int minute = digits(text, 14, 2);
    int second = digits(text, 17, 2);
    if (year < YEAR_MIN || year > YEAR_MAX || month < 1 || month > 12 || day < 1 || day > 31 ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
        return false;
    if (text.p[4] != '-' || text.p[7] != '-' || text.p[13] != ':' || text.p[16] != ':' ||
        (text.p[10] != 'T' && text.p[10] != ' '))
        return false;
    size_t at = 19;
    int64_t ns = 0;
    if (at < text.len && text.p[at] == '.') {
        int64_t unit = GSP_NS_PER_S / 10;
        for (at++; at < text.len && text.p[at] >= '0' && text.p[at] <= '9'; at++, unit /= 10)
            ns += unit * (text.p[at] - '0');
    }
    if (!parse_zone(text, at, zone_s, has_zone))
        return false;
    int64_t s = days_from_epoch(year, month, day) * SECONDS_PER_DAY + hour * 3600LL +
                minute * 60LL + second - *zone_s;
    *out_ns = s * GSP_NS_PER_S + ns;
    return true;
}

static bool is_utf8(struct gsp_sv text)
{
    while (text.len) {
        const size_t n = gsp_utf8_len(text);
        if (!n)
            return false;
        text.p += n;
        text.len -= n;
    }
    return true;
}

bool gsp_frames_session_labels_are_valid(struct gsp_sv text)
{
    struct gsp_json_scan scan = {0};
    bool ok = is_utf8(text) &&
              gsp_json_scan_open(&scan, gsp_json_scan_read_text, &text, NULL) == GSP_OK &&
              gsp_json_scan_next(&scan, NULL) == GSP_OK && scan.kind == GSP_JSON_SCAN_OBJ_BEGIN;
    while (ok && scan.kind != GSP_JSON_SCAN_END)
        ok = gsp_json_scan_next(&scan, NULL) == GSP_OK && scan.depth <= LABELS_DEPTH_MAX;
    gsp_json_scan_close(&scan);
    return ok;
}
