/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"
#include "tap.h"

TAP_TEST(versions_by_name)
{
    char version[16];
    tap_check(gsp_cli__doctor_version_of("/usr/bin/python3.11", version, sizeof(version)));
    tap_eq_str(version, "3.11");
    tap_check(gsp_cli__doctor_version_of("python3.14t", version, sizeof(version)));
    tap_eq_str(version, "3.14t");
    tap_check(!gsp_cli__doctor_version_of("/usr/bin/python3.6", version, sizeof(version)));
    tap_eq_str(version, "3.6");
    tap_check(!gsp_cli__doctor_version_of("/usr/bin/python3", version, sizeof(version)));
    tap_eq_str(version, "");
    tap_check(!gsp_cli__doctor_version_of("python3.11-config", version, sizeof(version)));
    tap_eq_str(version, "");
}

TAP_MAIN()
