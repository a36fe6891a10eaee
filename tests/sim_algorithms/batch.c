/* The built-in lateral_angle in C, for all worlds at once, with an acceleration of its own: that of the planner. */
#include <math.h>
#include <string.h>

#include "sparkpilot/algorithm.h"

static SparkpilotCar cars_of[512];

static int reset(uint32_t worlds, const SparkpilotCar* cars, const double* parameters) {
  (void)parameters;
  memcpy(cars_of, cars, worlds * sizeof(SparkpilotCar));
  return 0;
}

static void update_batch(uint32_t worlds, const SparkpilotObservation* seen, SparkpilotOutput* out) {
  uint32_t i;
  for (i = 0; i < worlds; ++i) {
    const SparkpilotCar* car = &cars_of[i];
    const float flexible = fmaf(-car->slip_factor, seen[i].speed * seen[i].speed, 1.0f);
    const float wheel = fmaf(-car->slip_roll, seen[i].roll, seen[i].desired_curvature * flexible) * car->wheel_angle;
    out[i].lateral = wheel * 57.29577951308232f;
    out[i].acceleration = seen[i].target_acceleration;
  }
}

const SparkpilotAlgorithm* sparkpilot_algorithm(void) {
  static SparkpilotAlgorithm algorithm;
  algorithm.version = SPARKPILOT_ALGORITHM_VERSION;
  algorithm.steering = SPARKPILOT_ANGLE;
  algorithm.longitudinal = 1;
  algorithm.reset = reset;
  algorithm.update_batch = update_batch;
  return &algorithm;
}
