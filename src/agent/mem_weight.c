/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_weight.h"

#include <string.h>

/* The agent does not link libm, so this file has its own exp() and log(). */

#define LN2      0.69314718055994530942
#define FAR      60.0 /* exp(-60) is negligible */
#define SERIES   14
#define TWO_53   9007199254740992.0
#define KIB2     1048576.0
#define EXP_BIAS 1023

/* 1 - exp(-x) for x >= 0. */
static double sampled_share(double x)
{
    if (x > FAR)
        return 1.0;
    /* exp(-x) = (exp(-x / 2^k))^(2^k): for the difference from 1, d -> 2 d - d^2. */
    int halvings = 0;
    while (x > 0.25) {
        x /= 2;
        halvings++;
    }
    double term = x;
    double sum = x;
    for (int i = 2; i < SERIES; i++) {
        term *= -x / i;
        sum += term;
    }
    for (int i = 0; i < halvings; i++)
        sum = sum * (2 - sum);
    return sum;
}

/* ln(x) for x > 0. */
static double log_of(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    const int exponent = (int)(bits >> 52) - EXP_BIAS;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (uint64_t)EXP_BIAS << 52;
    double part = 0;
    memcpy(&part, &bits, sizeof(part));
    /* ln(m) = 2 atanh((m - 1) / (m + 1)), m in [1, 2). */
    const double t = (part - 1) / (part + 1);
    double power = t;
    double sum = 0;
    for (int i = 1; i < 2 * SERIES; i += 2) {
        sum += power / i;
        power *= t * t;
    }
    return 2 * sum + exponent * LN2;
}

struct gsp_agent__weight gsp_agent__weigh(const void *block, size_t bytes, uint64_t mean_bytes)
{
    if (mean_bytes == 0 || bytes == 0)
        return (struct gsp_agent__weight){bytes, 1, 0};
    const double size = (double)bytes;
    const double seen = sampled_share(size / (double)mean_bytes);
    const double weight = 1 / seen;
    /* A number in [0, 1) that depends only on the block. */
    const uint64_t hash = (uint64_t)(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15);
    const double chance = (double)(hash >> 11) / TWO_53;
    return (struct gsp_agent__weight){
        .bytes = (uint64_t)(size * weight + 0.5),
        .count = (uint64_t)(weight + chance),
        .var = (uint64_t)((1 - seen) * weight * weight * size * size / KIB2 + 0.5),
    };
}

uint64_t gsp_agent__random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t gsp_agent__distance(uint64_t random, uint64_t mean_bytes)
{
    const double u = ((double)(random >> 11) + 0.5) / TWO_53;
    return (int64_t)(-log_of(u) * (double)mean_bytes);
}
