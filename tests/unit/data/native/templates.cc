// SPDX-License-Identifier: Apache-2.0
// Names that have to be demangled, and a call that is inlined.
#include <unistd.h>

#include <vector>

namespace shapes
{
static volatile unsigned long ticks;

static inline __attribute__((always_inline)) void spin_inlined()
{
    for (;;)
        ticks = ticks + 1;
}

template <typename T> struct Box {
    T value;
    __attribute__((noinline)) void turn(const std::vector<T> &sides)
    {
        if (write(1, "r", 1) == 1 && !sides.empty())
            spin_inlined();
    }
};
} // namespace shapes

int main()
{
    shapes::Box<int> box{3};
    box.turn(std::vector<int>{1, 2});
    return 0;
}
