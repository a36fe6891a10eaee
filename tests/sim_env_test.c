/* The environment for learning as C99 code uses it: from its header and the shared library alone. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparkpilot/sim_env.h"

static int failures = 0;
#define CHECK(condition)                                                                                       \
  do {                                                                                                         \
    if (!(condition)) {                                                                                        \
      printf("%s:%d: %s is not so; last error: %s\n", __FILE__, __LINE__, #condition, sparkpilot_sim_error()); \
      ++failures;                                                                                              \
    }                                                                                                          \
  } while (0)

enum { WORLDS = 33, MOST_OBSERVATIONS = 64 };
static float observations[WORLDS * MOST_OBSERVATIONS], final_observations[WORLDS * MOST_OBSERVATIONS];
static float rewards[WORLDS], terms[WORLDS * SPARKPILOT_SIM_REWARDS], actions[WORLDS];
static uint8_t terminated[WORLDS], truncated[WORLDS], ended[WORLDS];
static const sparkpilot_sim_buffers buffers = {observations,       rewards, terminated, truncated, ended,
                                               final_observations, terms};

static int columns(const sparkpilot_sim_number* (*at)(int32_t)) {
  int count = 0;
  for (const sparkpilot_sim_number* n; (n = at(count)) != NULL; ++count) {
    CHECK(strlen(n->name) > 0 && strlen(n->meaning) > 0 && n->unit != NULL);
    CHECK(n->low < n->high);
  }
  return count;
}

static sparkpilot_sim_options options_of(int32_t autoreset) {
  sparkpilot_sim_options options;
  sparkpilot_sim_default_options(&options);
  options.worlds = WORLDS;
  options.scenarios = "curves,stop_and_go";
  options.most_seconds = 1;
  options.autoreset = autoreset;
  return options;
}

static void expect_error(const sparkpilot_sim_options* options, const char* part) {
  sparkpilot_sim_env* env = sparkpilot_sim_make(options);
  CHECK(env == NULL);
  if (strstr(sparkpilot_sim_error(), part) == NULL) {
    printf("expected an error with \"%s\", got: %s\n", part, sparkpilot_sim_error());
    ++failures;
  }
  CHECK(sparkpilot_sim_error_kind() == 2);
  sparkpilot_sim_free(env);
}

static void bad_arguments(void) {
  sparkpilot_sim_options options = options_of(SPARKPILOT_SIM_SAME_STEP), bad = options;
  bad.version = 99, expect_error(&bad, "options of version 99");
  bad = options, bad.worlds = 0, expect_error(&bad, "0 worlds");
  bad = options, bad.scenarios = "curvs", expect_error(&bad, "did you mean curves");
  bad = options, bad.scenarios = NULL, expect_error(&bad, "scenarios is null");
  bad = options, bad.vehicle = "tank", expect_error(&bad, "tank");
  bad = options, bad.plant = "boat", expect_error(&bad, "boat");
  bad = options, bad.planner = "ipm", expect_error(&bad, "no planner is named \"ipm\", expected cruise, idm, mpc");
  bad = options, bad.planner = NULL, expect_error(&bad, "planner is null");
  bad = options, bad.device = "tpu", expect_error(&bad, "no device \"tpu\", expected cpu, cuda or cuda:N");
  bad = options, bad.device = "cuda:-1", expect_error(&bad, "no device \"cuda:-1\"");
  bad = options, bad.device = "cuda:0x", expect_error(&bad, "no device \"cuda:0x\"");
  bad = options, bad.device = NULL, expect_error(&bad, "device is null");
  bad = options, bad.steering = 2, expect_error(&bad, "steering is 2");
  bad = options, bad.autoreset = -1, expect_error(&bad, "autoreset is -1");
  bad = options, bad.steps_per_action = 0, expect_error(&bad, "0 steps an action");
  bad = options, bad.lane = NAN, expect_error(&bad, "a lane of nan");
  bad = options, bad.weights[2] = INFINITY, expect_error(&bad, "weight of offset is inf");
  expect_error(NULL, "no options");

  sparkpilot_sim_env* env = sparkpilot_sim_make(&options);
  CHECK(env != NULL);
  CHECK(sparkpilot_sim_step(env, actions, &buffers) == -1);
  CHECK(strstr(sparkpilot_sim_error(), "reset() comes first") != NULL);
  CHECK(sparkpilot_sim_reset(env, NULL, NULL, NULL) == -1);
  CHECK(sparkpilot_sim_reset(NULL, NULL, NULL, &buffers) == -1);
  /* Seeds of a reset that failed do not count. */
  static uint8_t mask[WORLDS];
  static uint64_t seeds[WORLDS];
  sparkpilot_sim_env* fresh = sparkpilot_sim_make(&options);
  mask[0] = 1, seeds[0] = options.seed + 77;
  CHECK(sparkpilot_sim_reset(env, mask, seeds, &buffers) == -1);
  CHECK(strstr(sparkpilot_sim_error(), "world 1 was never begun and is not in the mask") != NULL);
  CHECK(sparkpilot_sim_reset(fresh, NULL, NULL, &buffers) == 0);
  const float of_fresh = observations[1];
  CHECK(sparkpilot_sim_reset(env, NULL, NULL, &buffers) == 0 && observations[1] == of_fresh);
  CHECK(strcmp(sparkpilot_sim_scenario(env, 0), sparkpilot_sim_scenario(fresh, 0)) == 0);
  sparkpilot_sim_free(fresh);
  CHECK(sparkpilot_sim_reset(env, NULL, NULL, &buffers) == 0);
  CHECK(sparkpilot_sim_step(env, NULL, &buffers) == -1);
  CHECK(sparkpilot_sim_step(env, actions, NULL) == -1);
  actions[7] = NAN;
  CHECK(sparkpilot_sim_step(env, actions, &buffers) == -1);
  CHECK(strstr(sparkpilot_sim_error(), "the torque of world 7 is nan") != NULL);
  actions[7] = 0;
  CHECK(sparkpilot_sim_step(env, actions, &buffers) == 0);
  CHECK(sparkpilot_sim_scenario(env, WORLDS) == NULL);
  CHECK(sparkpilot_sim_scenario(env, 0) != NULL);
  CHECK(sparkpilot_sim_action(env, 1) == NULL); /* acceleration is openpilot's */
  CHECK(sparkpilot_sim_observation(-1) == NULL);
  const sparkpilot_sim_buffers nothing = {.observations = NULL};
  CHECK(sparkpilot_sim_step(env, actions, &nothing) == 0);
  sparkpilot_sim_free(env);
  sparkpilot_sim_free(NULL);
}

/* The reward is what the terms and weights say; two environments of one seed are the same. */
static void rewards_and_seeds(int count) {
  sparkpilot_sim_options options = options_of(SPARKPILOT_SIM_SAME_STEP);
  options.threads = 1;
  sparkpilot_sim_env* one = sparkpilot_sim_make(&options);
  options.threads = 3;
  sparkpilot_sim_env* other = sparkpilot_sim_make(&options);
  static float first[WORLDS * MOST_OBSERVATIONS];
  const sparkpilot_sim_buffers copy = {.observations = first};
  int episodes = 0;
  CHECK(sparkpilot_sim_reset(one, NULL, NULL, &copy) == 0 && sparkpilot_sim_reset(other, NULL, NULL, &buffers) == 0);
  for (int step = 0; step < 60; ++step) {
    for (int i = 0; i < WORLDS; ++i) actions[i] = 0.2f * sinf((float)(i + step));
    CHECK(memcmp(first, observations, sizeof(float) * (size_t)(WORLDS * count)) == 0);
    CHECK(sparkpilot_sim_step(one, actions, &copy) == 0 && sparkpilot_sim_step(other, actions, &buffers) == 0);
    for (int i = 0; i < WORLDS; ++i) {
      float sum = 0;
      for (int t = 0; t < SPARKPILOT_SIM_REWARDS; ++t)
        sum += options.weights[t] * terms[i * SPARKPILOT_SIM_REWARDS + t];
      CHECK(sum == rewards[i]);
      CHECK(ended[i] == (terminated[i] | truncated[i]));
      episodes += ended[i];
      /* Time is the first column: an episode of 1 s, then the next one's beginning. */
      if (truncated[i]) CHECK(final_observations[i * count] == 1.0f && observations[i * count] == 0.0f);
    }
  }
  CHECK(episodes >= 2 * WORLDS);
  sparkpilot_sim_free(one);
  sparkpilot_sim_free(other);
}

/* Steps of world 0 until its first episode ends, in each mode: what the flags and times are. */
static void modes(int count) {
  for (int32_t mode = SPARKPILOT_SIM_NEXT_STEP; mode <= SPARKPILOT_SIM_DISABLED; ++mode) {
    sparkpilot_sim_options options = options_of(mode);
    options.lane = 100;
    sparkpilot_sim_env* env = sparkpilot_sim_make(&options);
    CHECK(sparkpilot_sim_reset(env, NULL, NULL, &buffers) == 0);
    memset(actions, 0, sizeof actions);
    for (int step = 1; step <= 20; ++step) {
      CHECK(sparkpilot_sim_step(env, actions, &buffers) == 0);
      CHECK(truncated[0] == (step == 20) && !terminated[0]);
    }
    CHECK(observations[0] == (mode == SPARKPILOT_SIM_SAME_STEP ? 0.0f : 1.0f));
    CHECK(ended[0] == (mode == SPARKPILOT_SIM_SAME_STEP));
    if (mode == SPARKPILOT_SIM_DISABLED) {
      CHECK(sparkpilot_sim_step(env, actions, &buffers) == -1);
      CHECK(strstr(sparkpilot_sim_error(), "world 0 ended and was not reset") != NULL);
      uint8_t mask[WORLDS];
      memset(mask, 1, sizeof mask);
      mask[3] = 0;
      CHECK(sparkpilot_sim_reset(env, mask, NULL, &buffers) == 0);
      CHECK(observations[0] == 0.0f && observations[3 * count] == 1.0f);
      CHECK(sparkpilot_sim_step(env, actions, &buffers) == -1);
      memset(mask, 0, sizeof mask);
      mask[3] = 1;
      CHECK(sparkpilot_sim_reset(env, mask, NULL, &buffers) == 0);
    }
    if (mode == SPARKPILOT_SIM_NEXT_STEP) actions[0] = NAN; /* not used: the episode begins */
    CHECK(sparkpilot_sim_step(env, actions, &buffers) == 0);
    CHECK(!truncated[0] && !terminated[0]);
    CHECK(observations[0] == (mode == SPARKPILOT_SIM_NEXT_STEP ? 0.0f : 0.05f));
    CHECK(rewards[0] == 0 || mode != SPARKPILOT_SIM_NEXT_STEP);
    actions[0] = 0.5f; /* takes effect after the steering's delay */
    for (int step = 0; step < 5; ++step) CHECK(sparkpilot_sim_step(env, actions, &buffers) == 0);
    CHECK(rewards[0] < 0);
    sparkpilot_sim_free(env);
  }
}

static int column(const char* name) {
  for (int i = 0; sparkpilot_sim_observation(i) != NULL; ++i) {
    if (strcmp(sparkpilot_sim_observation(i)->name, name) == 0) return i;
  }
  CHECK(!name);
  return 0;
}

/* Behind a car that brakes to a standstill: which worlds run into it, and the mean gap at the end. */
static void brake_behind(const char* planner, int count, int* collisions, double* gap) {
  sparkpilot_sim_options options = options_of(SPARKPILOT_SIM_NEXT_STEP);
  options.scenarios = "emergency_lead_brakes";
  options.planner = planner;
  options.most_seconds = 20;
  options.lane = 1000; /* nobody steers */
  sparkpilot_sim_env* env = sparkpilot_sim_make(&options);
  CHECK(env != NULL && sparkpilot_sim_reset(env, NULL, NULL, &buffers) == 0);
  memset(actions, 0, sizeof actions);
  *collisions = 0, *gap = 0;
  for (int step = 1; step <= 400; ++step) {
    CHECK(sparkpilot_sim_step(env, actions, &buffers) == 0);
    for (int i = 0; i < WORLDS; ++i) *collisions += terminated[i];
  }
  for (int i = 0; i < WORLDS && *collisions == 0; ++i) {
    CHECK(truncated[i] && observations[i * count + column("lead_speed")] == 0);
    CHECK(observations[i * count + column("speed")] < 0.5f);
    *gap += observations[i * count + column("lead_gap")] / WORLDS;
  }
  sparkpilot_sim_free(env);
}

static void planners(int count) {
  int collisions;
  double idm, mpc, cruise;
  brake_behind("cruise", count, &collisions, &cruise);
  CHECK(collisions >= WORLDS); /* it does not see the car ahead */
  brake_behind("idm", count, &collisions, &idm);
  CHECK(collisions == 0 && idm > 1 && idm < 6);
  brake_behind("mpc", count, &collisions, &mpc);
  CHECK(collisions == 0 && mpc > idm + 1 && mpc < 14); /* openpilot's stops further away */
}

/* All that steps give on another device is what the processor gives, to the bit, over several episodes. */
static int same_on(const char* device, int count) {
  enum { STEPS = 60, ROW = MOST_OBSERVATIONS + 1 + SPARKPILOT_SIM_REWARDS + 3 };
  static float seen[2][STEPS][WORLDS * ROW];
  for (int side = 0; side < 2; ++side) {
    sparkpilot_sim_options options = options_of(SPARKPILOT_SIM_SAME_STEP);
    options.device = side == 0 ? "cpu" : device;
    sparkpilot_sim_env* env = sparkpilot_sim_make(&options);
    if (side == 1 && env != NULL) {
      sparkpilot_sim_options bad = options;
      bad.planner = "mpc", expect_error(&bad, "the planner mpc runs on the CPU only");
    }
    if (env == NULL) {
      puts(sparkpilot_sim_error());
      CHECK(sparkpilot_sim_error_kind() == 3);
      return failures == 0 && strstr(sparkpilot_sim_error(), "holds no GPU code") != NULL ? 77 : EXIT_FAILURE;
    }
    CHECK(sparkpilot_sim_reset(env, NULL, NULL, &buffers) == 0);
    for (int step = 0; step < STEPS; ++step) {
      for (int i = 0; i < WORLDS; ++i) actions[i] = (float)((i * 7 + step * 3) % 21 - 10) / 20;
      CHECK(sparkpilot_sim_step(env, actions, &buffers) == 0);
      for (int i = 0; i < WORLDS; ++i) {
        float* row = &seen[side][step][i * ROW];
        memcpy(row, &observations[i * count], sizeof(float) * (size_t)count);
        memcpy(row + MOST_OBSERVATIONS, &terms[i * SPARKPILOT_SIM_REWARDS], sizeof(float) * SPARKPILOT_SIM_REWARDS);
        row[ROW - 1] = rewards[i], row[ROW - 2] = terminated[i], row[ROW - 3] = truncated[i], row[ROW - 4] = ended[i];
      }
    }
    sparkpilot_sim_free(env);
  }
  CHECK(memcmp(seen[0], seen[1], sizeof seen[0]) == 0);
  printf(failures ? "%d failures\n" : "all is as it should be\n", failures);
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* What programs that were compiled with version 2 have. */
static void layout(void) {
  if (sizeof(void*) == 8) {
    CHECK(offsetof(sparkpilot_sim_options, worlds) == 8);
    CHECK(offsetof(sparkpilot_sim_options, seed) == 16);
    CHECK(offsetof(sparkpilot_sim_options, scenarios) == 24);
    CHECK(offsetof(sparkpilot_sim_options, device) == 56);
    CHECK(offsetof(sparkpilot_sim_options, steering) == 64);
    CHECK(offsetof(sparkpilot_sim_options, most_seconds) == 80);
    CHECK(offsetof(sparkpilot_sim_options, weights) == 96);
    CHECK(sizeof(sparkpilot_sim_options) == 136);
    CHECK(sizeof(sparkpilot_sim_buffers) == 7 * sizeof(void*));
    CHECK(sizeof(sparkpilot_sim_number) == 48);
  }
}

/* Without an argument all but other devices; with a device's name that it gives what the processor gives. */
int main(int argc, char** argv) {
  const int count = columns(sparkpilot_sim_observation);
  CHECK(count > 10 && count <= MOST_OBSERVATIONS);
  if (argc > 1) return same_on(argv[1], count);
  CHECK(columns(sparkpilot_sim_term) == SPARKPILOT_SIM_REWARDS);
  CHECK(sparkpilot_sim_version() == SPARKPILOT_SIM_VERSION);
  CHECK(strcmp(sparkpilot_sim_error(), "") == 0 && sparkpilot_sim_error_kind() == 0);
  layout();
  bad_arguments();
  rewards_and_seeds(count);
  modes(count);
  planners(count);
  printf(failures ? "%d failures\n" : "all is as it should be\n", failures);
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
