# SPDX-License-Identifier: Apache-2.0
import common


def outer():
    inner()


def inner():
    common.use_memory()
    {}["missing"]


outer()
