/* Simulated worlds as an environment for learning, in C: thousands of worlds a step, written into the caller's arrays.
 * docs/sim_env.md explains it; examples/sim_env_gym.py makes a Gymnasium VectorEnv of it. The library is
 * libsparkpilot_sim.
 *
 *   sparkpilot_sim_options options;
 *   sparkpilot_sim_default_options(&options);
 *   options.worlds = 4096;
 *   sparkpilot_sim_env* env = sparkpilot_sim_make(&options);
 *   if (env == NULL) puts(sparkpilot_sim_error());
 *
 * Arrays are in row-major order, a row for each world. Where a pointer may be NULL, that array is not written. An
 * environment is used by one thread at a time; its worlds are computed on `threads` threads. No call throws: functions
 * that can fail return 0 for success and -1 or NULL for failure, and sparkpilot_sim_error() says what was wrong.
 */
#ifndef SPARKPILOT_SIM_ENV_H_
#define SPARKPILOT_SIM_ENV_H_

/* C. NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using) */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPARKPILOT_SIM_VERSION 3 /* grows with each change that is not compatible */
#define SPARKPILOT_SIM_REWARDS 10

typedef struct sparkpilot_sim_env sparkpilot_sim_env;

enum { SPARKPILOT_SIM_TORQUE = 0, SPARKPILOT_SIM_ANGLE = 1 }; /* what the lateral action is */

/* When the next episode of a world begins after one ended: in the next step, whose action is not used and whose reward
 * is 0; in the same step; or by sparkpilot_sim_reset() only, before which no step is made. As in Gymnasium. */
enum { SPARKPILOT_SIM_NEXT_STEP = 0, SPARKPILOT_SIM_SAME_STEP = 1, SPARKPILOT_SIM_DISABLED = 2 };

typedef struct {
  int32_t version; /* SPARKPILOT_SIM_VERSION */
  int32_t threads; /* 0: one for each processor */
  int64_t worlds;
  uint64_t seed;            /* world i has seed + i until a reset gives another */
  const char* scenarios;    /* names of scenarios and categories, or "all", with commas (`sparkpilot sim list`) */
  const char* vehicle;      /* a preset: civic, compact, sedan, sports, suv, truck; or any: drawn for each episode */
  const char* plant;        /* bicycle, bicycle_linear, kinematic */
  const char* planner;      /* how cars ahead are followed: idm, cruise, mpc (`sparkpilot sim run --planner`) */
  const char* device;       /* cpu, or cuda or cuda:N: a GPU, without the planner mpc */
  int32_t steering;         /* SPARKPILOT_SIM_TORQUE ... */
  int32_t longitudinal;     /* 1: actions have acceleration too; 0: openpilot's longitudinal control drives */
  int32_t autoreset;        /* SPARKPILOT_SIM_NEXT_STEP ... */
  int32_t steps_per_action; /* of 10 ms */
  double most_seconds;      /* of an episode; 0: as long as its scenario */
  double lane;              /* m: further from the middle of its lane an episode ends */
  float weights[SPARKPILOT_SIM_REWARDS]; /* the reward is the sum of these times the terms */
} sparkpilot_sim_options;

/* One column of observations, actions or terms. `scale` is a usual size: observations divided by it are about 1; of a
 * term it is the default weight. No value lies beyond low and high; actions beyond them are clipped. */
typedef struct {
  const char *name, *unit, *meaning; /* they live as long as the library is loaded */
  double low, high, scale;
} sparkpilot_sim_number;

/* What a call writes. */
typedef struct {
  float* observations;       /* [worlds, observations] */
  float* rewards;            /* [worlds] */
  uint8_t* terminated;       /* [worlds], 0 or 1: a collision, a divergence, or the lane was left */
  uint8_t* truncated;        /* [worlds], 0 or 1: the episode's time is over */
  uint8_t* ended;            /* [worlds], with SAME_STEP: 1 where the row of final_observations was written; else 0 */
  float* final_observations; /* [worlds, observations] */
  float* terms;              /* [worlds, SPARKPILOT_SIM_REWARDS] */
} sparkpilot_sim_buffers;

int32_t sparkpilot_sim_version(void);
/* Of the last call of this thread that failed; "" before the first. */
const char* sparkpilot_sim_error(void);
/* What kind of fault that was: 0 before the first, 1 a bug of the library, 2 an argument or how it is used, 3 the GPU,
 * its driver, or a processor that lacks instructions. */
int32_t sparkpilot_sim_error_kind(void);

void sparkpilot_sim_default_options(sparkpilot_sim_options* options);
/* Texts and arrays of `options` are not needed afterwards. */
sparkpilot_sim_env* sparkpilot_sim_make(const sparkpilot_sim_options* options);
void sparkpilot_sim_free(sparkpilot_sim_env* env); /* NULL is nothing */

/* The columns; NULL where there are no more, so that they can be counted. */
const sparkpilot_sim_number* sparkpilot_sim_observation(int32_t i);
const sparkpilot_sim_number* sparkpilot_sim_term(int32_t i);
const sparkpilot_sim_number* sparkpilot_sim_action(const sparkpilot_sim_env* env, int32_t i);

/* Begins the next episode of each world whose mask is not 0 (NULL: of all), or, with seeds (one for each world; those
 * of other worlds are not read), the first one of its seed. All must have begun before the first step. Writes the
 * observations of all worlds and nothing else. */
int32_t sparkpilot_sim_reset(sparkpilot_sim_env* env, const uint8_t* mask, const uint64_t* seeds,
                             const sparkpilot_sim_buffers* out);
/* Actions: [worlds, actions]. Fails, without a step of any world, with an action that is not finite and with DISABLED
 * where an episode ended. */
int32_t sparkpilot_sim_step(sparkpilot_sim_env* env, const float* actions, const sparkpilot_sim_buffers* out);

/* The name of the scenario that the world's episode is one of; until the next call for this environment. */
const char* sparkpilot_sim_scenario(const sparkpilot_sim_env* env, int64_t world);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-deprecated-headers,modernize-use-using) */
#endif
