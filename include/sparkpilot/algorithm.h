/* A control algorithm of your own for `sparkpilot sim run --algorithm ./my_control.so`: plain C, also from C++.
 *
 * A shared library exports sparkpilot_algorithm(), which returns a table of functions. sparkpilot loads it in
 * separate worker processes; there one thread calls all of it. docs/algorithms.md says more, and how to do it in
 * Python.
 *
 * All memory that is passed in is sparkpilot's and valid during the call; an observation may be read only, an output
 * written only. What an algorithm remembers of its worlds is its own: worlds have the numbers 0 to worlds - 1 of the
 * last reset(), which begins every one of them anew.
 *
 * Sides are positive to the left: angles, torque, curvature, offset. */
#ifndef SPARKPILOT_ALGORITHM_H_
#define SPARKPILOT_ALGORITHM_H_

/* C. NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using) */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPARKPILOT_ALGORITHM_VERSION 1

/* A car, and what openpilot believes of it. */
typedef struct SparkpilotCar {
  float mass;             /* kg */
  float inertia;          /* kg m^2, about the vertical axis */
  float wheelbase;        /* m */
  float center_to_front;  /* m, from the centre of gravity to the front axle */
  float stiffness_front;  /* N/rad, of both tyres */
  float stiffness_rear;   /* N/rad */
  float steer_ratio;      /* angle of the steering wheel per angle of the front wheels */
  float steer_ratio_rear; /* angle of the rear wheels per angle of the front wheels */
  float slip_factor;      /* s^2/m^2: m (Cf aF - Cr aR) / (L^2 Cf Cr) */
  float slip_roll;        /* 1/m: slip_factor 9.81 m/s^2 */
  float wheel_curvature;  /* 1/m: curvature per rad of the steering wheel, at rest */
  float wheel_angle;      /* m: its inverse */
  float angle_limit;      /* degrees of the steering wheel */
  float lateral_delay;    /* s, from a command to the lateral acceleration that it asks for, as believed */
  float accel_factor;     /* m/s^2 at full torque, as believed */
  float friction;         /* of full torque, as believed */
  float step;             /* s, from one update to the next: 0.01 */
  float unused[7];        /* 0 */
} SparkpilotCar;

/* What is seen at the beginning of a step of 10 ms, with the world's noise on what is measured. */
typedef struct SparkpilotObservation {
  float time;                 /* s since the beginning */
  float speed;                /* m/s, measured */
  float acceleration;         /* m/s^2, measured */
  float wheel_angle;          /* degrees of the steering wheel, measured */
  float desired_curvature;    /* 1/m, asked of the lateral controller, after openpilot's limits */
  float curvature_limited;    /* 1 where those limits of acceleration changed it, else 0 */
  float target_speed;         /* m/s */
  float target_acceleration;  /* m/s^2, asked for by the planner */
  float roll;                 /* rad, of the road; positive: the car drifts to the right */
  float lead;                 /* 1 if there is a car ahead, else 0 */
  float lead_gap;             /* m, to it, from bumper to bumper; 0 without */
  float lead_speed;           /* m/s; 0 without */
  float offset;               /* m, from the middle of the lane */
  float heading;              /* rad, against the lane */
  float yaw_rate;             /* rad/s */
  float road_curvature;       /* 1/m, of the lane */
  float road_curvature_500ms; /* half a second later */
  float road_curvature_1s;
  float road_curvature_2s;
  float road_curvature_3s;
  float command;   /* of the steering after its limits: torque of -1 to 1, or degrees of the wheel */
  float unused[3]; /* 0 */
} SparkpilotObservation;

/* Numbers must be finite: a world whose algorithm gives another has failed. Both are NaN before an update, so that one
 * that is not written is found. */
typedef struct SparkpilotOutput {
  float lateral;      /* torque of -1 to 1, or degrees of the steering wheel */
  float acceleration; /* m/s^2; read only where the table's `longitudinal` is 1 */
} SparkpilotOutput;

/* A number that `--set name=value` changes. Names: letters, digits, `_`; texts without line breaks, below 200 bytes. */
typedef struct SparkpilotParameter {
  const char* name;
  const char* unit;    /* may be NULL */
  const char* meaning; /* may be NULL */
  double value;        /* if it is not set */
} SparkpilotParameter;

enum { SPARKPILOT_TORQUE = 0, SPARKPILOT_ANGLE = 1 }; /* what a car's steering takes */

typedef struct SparkpilotAlgorithm {
  uint32_t version;         /* SPARKPILOT_ALGORITHM_VERSION */
  uint32_t steering;        /* SPARKPILOT_TORQUE or SPARKPILOT_ANGLE */
  uint32_t longitudinal;    /* 1: `acceleration` drives; 0: openpilot's longitudinal control */
  uint32_t parameter_count; /* at most 128 */
  const SparkpilotParameter* parameters;

  /* Begins `worlds` worlds. `cars` has one for each; `parameters` one value for each parameter, in the table's order.
   * Not 0: the algorithm cannot run, with this number as the reason. */
  int (*reset)(uint32_t worlds, const SparkpilotCar* cars, const double* parameters);

  /* One step of one world. The worlds of a step are updated in their order. */
  void (*update)(uint32_t world, const SparkpilotObservation* seen, SparkpilotOutput* out);

  /* One step of all worlds of the last reset(); NULL: update() is called for each. A world's outputs must be those of
   * update(), whatever the number of worlds: then results do not depend on which worlds are together. */
  void (*update_batch)(uint32_t worlds, const SparkpilotObservation* seen, SparkpilotOutput* out);
} SparkpilotAlgorithm;

/* What the library exports. The table must stay valid. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const SparkpilotAlgorithm*
sparkpilot_algorithm(void);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-deprecated-headers,modernize-use-using) */
#endif
