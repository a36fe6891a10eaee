// Instruction sets, for tests.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>

namespace sparkpilot::drive {

// Calls fn for each target in this binary that this machine can run.
template <typename Fn>
void for_each_target(const Fn& fn) {
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if (!(hwy::SupportedTargets() & target & HWY_TARGETS)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    fn();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace sparkpilot::drive
