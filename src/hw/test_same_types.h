// For tests that hold a table of functions to the header of the library that it is loaded from.
#pragma once

namespace sparkpilot {

// The library's types by ours.
template <typename T>
struct Ours {
  using type = T;
};
template <typename T>
struct Ours<T*> {
  using type = typename Ours<T>::type*;
};
template <typename T>
struct Ours<const T*> {
  using type = const typename Ours<T>::type*;
};

// The pointer to a function of theirs as our table declares it.
template <typename F>
struct OurPointer;
template <typename R, typename... A>
struct OurPointer<R(A...)> {
  using type = typename Ours<R>::type (*)(typename Ours<A>::type...);
};

}  // namespace sparkpilot

// In the namespace sparkpilot: where the library has the one type, we have the other.
#define SPARKPILOT_SAME(theirs, ours) \
  template <>                         \
  struct Ours<theirs> {               \
    using type = ours;                \
  };
