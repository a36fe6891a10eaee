// Loops whose indices are constants from the start: the compiler keeps an array in registers only if nothing else
// indexes it. Include it inside a foreach_target file.
#if defined(SPARKPILOT_EACH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_EACH_INL_H_
#undef SPARKPILOT_EACH_INL_H_
#else
#define SPARKPILOT_EACH_INL_H_
#endif

#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {

// Calls fn.template operator()<i>() for each i below kCount. `fn` is a lambda with __attribute__((always_inline)).
template <int kCount, typename F>
HWY_INLINE void each(const F& fn) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { (fn.template operator()<i>(), ...); }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_EACH_INL_H_
