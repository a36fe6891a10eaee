// To be included by every file that defines ops: the op record. Such a file defines `std::span<const OpDef> all()` in a
// namespace <file>_ops of its own, so that several can be compiled as one, and has a line in list.inc; only registry.cc
// reads list.inc, so adding a line recompiles one file.
#pragma once

#include <span>

#include "ir/op.h"

namespace sparkpilot::no_gradient {

// Reasons for OpDef::no_gradient that ops of several files share.
inline constexpr std::string_view kNotFloats = "its results are integers, booleans or bits";
inline constexpr std::string_view kGenerated = "its results do not depend on floats, or only by their number";
inline constexpr std::string_view kRandom = "it draws random numbers";
inline constexpr std::string_view kSteps = "its results are constant between jumps";
inline constexpr std::string_view kQuantized = "it computes with integers that stand for floats";
inline constexpr std::string_view kRecurrent = "gradients through the steps of a recurrence are not supported";
inline constexpr std::string_view kBodies = "gradients through bodies are not supported";
inline constexpr std::string_view kPlaces = "gradients of positions that are data are not supported";
inline constexpr std::string_view kDynamic = "the shape of its result depends on data";
inline constexpr std::string_view kSpectrum = "gradients of spectra are not supported";
inline constexpr std::string_view kOptimizer = "it is a step of an optimizer";

}  // namespace sparkpilot::no_gradient
