// An algorithm for tests that does what `fault` says a second after the beginning of worlds whose lane asks for more
// than `beyond` m/s. Else it steers as straight as a proportional controller can.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include <unistd.h>

#include "sparkpilot/algorithm.h"

#ifndef FAULTY_VERSION
#define FAULTY_VERSION SPARKPILOT_ALGORITHM_VERSION
#endif

namespace {

const SparkpilotParameter kParameters[] = {
    {"fault", nullptr, "what it does", 0},
    {"beyond", "m/s", nullptr, 1e9},
    {"gain", "1/deg", "torque per error", 0.05},
};
int fault = 0;
float beyond = 0, gain = 0;

int reset(uint32_t, const SparkpilotCar*, const double* parameters) {
  fault = static_cast<int>(parameters[0]);
  beyond = static_cast<float>(parameters[1]);
  gain = static_cast<float>(parameters[2]);
  return fault == 100 ? 7 : 0;
}

void misbehave(SparkpilotOutput* out) {
  switch (fault) {
    case 1:
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit
      std::raise(SIGSEGV);
      break;
    case 2: std::fputs("first line\nthe last words of it\n", stderr); std::abort();
    case 3: std::exit(3);
    case 4: pause(); std::abort();
    case 5: out->lateral = std::numeric_limits<float>::quiet_NaN(); break;
    case 6: out->lateral = -std::numeric_limits<float>::infinity(); break;
    case 7: throw std::runtime_error("no\nway\xff");
    case 8: out->lateral = 1e38f; break;  // far beyond the limit, which is allowed
    default: break;
  }
}

void update(uint32_t, const SparkpilotObservation* seen, SparkpilotOutput* out) {
  if (fault == 9) return;  // writes nothing
  out->lateral = gain * (seen->desired_curvature * 1500 - 0.05f * seen->wheel_angle - seen->offset);
  std::printf("what an algorithm prints is no answer\n");
  if (seen->time > 1 && seen->target_speed > beyond) misbehave(out);
}

const SparkpilotAlgorithm kAlgorithm = {FAULTY_VERSION, SPARKPILOT_TORQUE, 0, 3, kParameters, reset, update, nullptr};

}  // namespace

#ifndef FAULTY_NAMELESS
extern "C" const SparkpilotAlgorithm* sparkpilot_algorithm(void) {
#ifdef FAULTY_CRASHES_ON_LOAD
  std::abort();
#endif
#ifdef FAULTY_WITHOUT_UPDATE
  static const SparkpilotAlgorithm kEmpty = {FAULTY_VERSION, 0, 0, 0, nullptr, reset, nullptr, nullptr};
  return &kEmpty;
#endif
  return &kAlgorithm;
}
#endif
