/* Sessions as C99 code uses them: from the header and the shared library alone.
 *
 *     session_test MODEL      models/demo_supercombo.onnx */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sparkpilot/sparkpilot.h"

static int failures = 0;
#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      printf("%s:%d: %s is not so; last error: %s\n", __FILE__, __LINE__, #condition, sparkpilot_error()); \
      ++failures;                                                                                          \
    }                                                                                                      \
  } while (0)
#define REFUSED(call, part)                          \
  do {                                               \
    CHECK((call) == SPARKPILOT_BAD_INPUT);           \
    CHECK(strstr(sparkpilot_error(), part) != NULL); \
    CHECK(strchr(sparkpilot_error(), '\n') == NULL); \
  } while (0)

/* y = Relu(x), f32 [n, 3], as ONNX. */
static const unsigned char relu[] = {8,  8,   66,  2,   16, 13, 58,  61, 10, 12, 10,  1,   120, 18, 1,  121, 34, 4,
                                     82, 101, 108, 117, 18, 1,  103, 90, 20, 10, 1,   120, 18,  15, 10, 13,  8,  1,
                                     18, 9,   10,  3,   18, 1,  110, 10, 2,  8,  3,   98,  20,  10, 1,  121, 18, 15,
                                     10, 13,  8,   1,   18, 9,  10,  3,  18, 1,  110, 10,  2,   8,  3};

static sparkpilot_session* load_relu(void) {
  sparkpilot_session* session = NULL;
  CHECK(sparkpilot_load_bytes(relu, sizeof relu, "relu", NULL, &session) == SPARKPILOT_DONE);
  return session;
}

/* What is open until it is set, the session's own memory, and copies. */
static void open_dimensions(void) {
  sparkpilot_session* session = load_relu();
  sparkpilot_tensor x, y;
  CHECK(sparkpilot_input_count(session) == 1 && sparkpilot_output_count(session) == 1);
  CHECK(sparkpilot_input(session, 0, &x) == SPARKPILOT_DONE);
  CHECK(strcmp(x.name, "x") == 0 && x.dtype == SPARKPILOT_F32 && x.rank == 2);
  CHECK(x.shape[0] == -1 && x.shape[1] == 3 && x.data == NULL && x.bytes == 0);
  CHECK(sparkpilot_output(session, 0, &y) == SPARKPILOT_DONE && y.data == NULL);
  const float values[6] = {1, -2, 3, -4, 5, -6};
  float results[6];
  REFUSED(sparkpilot_run(session), "x");
  REFUSED(sparkpilot_write(session, "x", values, sizeof values), "sparkpilot_set_shape() comes first");
  REFUSED(sparkpilot_read(session, "y", results, sizeof results), "sparkpilot_run() comes first");
  const int64_t shape[2] = {2, 3}, other[2] = {2, 4}, negative[2] = {-2, 3}, vast[2] = {INT64_MAX, 3};
  const int64_t deep[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  REFUSED(sparkpilot_set_shape(session, "x", other, 2), "x");
  REFUSED(sparkpilot_set_shape(session, "x", negative, 2), "-2");
  REFUSED(sparkpilot_set_shape(session, "x", vast, 2), "");
  REFUSED(sparkpilot_set_shape(session, "x", deep, 9), "");
  REFUSED(sparkpilot_set_shape(session, "x", shape, 1), "");
  REFUSED(sparkpilot_set_shape(session, "x", shape, -1), "rank -1");
  REFUSED(sparkpilot_set_shape(session, "x", NULL, 2), "the shape is NULL");
  REFUSED(sparkpilot_set_shape(session, "xx", shape, 2), "no input \"xx\" (did you mean x?)");
  CHECK(sparkpilot_set_shape(session, "x", shape, 2) == SPARKPILOT_DONE);
  REFUSED(sparkpilot_write(session, "x", values, 20), "the input \"x\" has 24 bytes, 20 are given");
  REFUSED(sparkpilot_write(session, "x", NULL, 24), "the values is NULL");
  CHECK(sparkpilot_write(session, "x", values, sizeof values) == SPARKPILOT_DONE);
  CHECK(sparkpilot_find_input(session, "x", &x) == SPARKPILOT_DONE && x.bytes == 24);
  CHECK(memcmp(x.data, values, sizeof values) == 0);
  CHECK(sparkpilot_run(session) == SPARKPILOT_DONE);
  CHECK(sparkpilot_find_output(session, "y", &y) == SPARKPILOT_DONE && y.bytes == 24 && y.rank == 2 && y.shape[0] == 2);
  CHECK(sparkpilot_read(session, "y", results, sizeof results) == SPARKPILOT_DONE);
  for (int i = 0; i < 6; ++i) CHECK(results[i] == (values[i] > 0 ? values[i] : 0));
  CHECK(memcmp(y.data, results, sizeof results) == 0);
  REFUSED(sparkpilot_read(session, "y", results, 25), "the output \"y\" has 24 bytes, 25 are given");
  ((float*)x.data)[1] = 7; /* written in place */
  CHECK(sparkpilot_run(session) == SPARKPILOT_DONE);
  CHECK(sparkpilot_find_output(session, "y", &y) == SPARKPILOT_DONE && ((const float*)y.data)[1] == 7);
  /* The same shape again changes nothing; another one takes the results away. */
  CHECK(sparkpilot_set_shape(session, "x", shape, 2) == SPARKPILOT_DONE);
  CHECK(sparkpilot_output(session, 0, &y) == SPARKPILOT_DONE && y.data != NULL);
  const int64_t longer[2] = {3, 3};
  CHECK(sparkpilot_set_shape(session, "x", longer, 2) == SPARKPILOT_DONE);
  CHECK(sparkpilot_output(session, 0, &y) == SPARKPILOT_DONE && y.data == NULL);
  CHECK(sparkpilot_close(session) == SPARKPILOT_DONE);
}

static void bad_arguments(const char* model) {
  sparkpilot_session* session = (sparkpilot_session*)&failures;
  REFUSED(sparkpilot_load("nowhere.onnx", NULL, &session), "nowhere.onnx");
  CHECK(session == NULL);
  REFUSED(sparkpilot_load(NULL, NULL, &session), "the file's name is NULL");
  REFUSED(sparkpilot_load(model, NULL, NULL), "the place of the session is NULL");
  REFUSED(sparkpilot_load_bytes(NULL, 5, "m", NULL, &session), "the model is NULL");
  REFUSED(sparkpilot_load_bytes(relu, sizeof relu, NULL, NULL, &session), "the model's name is NULL");
  for (size_t bytes = 0; bytes < sizeof relu; ++bytes) {
    REFUSED(sparkpilot_load_bytes(relu, bytes, "half a model", NULL, &session), "half a model");
  }
  sparkpilot_options options, bad;
  CHECK(sparkpilot_default_options(&options, sizeof options) == SPARKPILOT_DONE && options.size == sizeof options);
  REFUSED(sparkpilot_default_options(NULL, sizeof options), "the place of the options is NULL");
  REFUSED(sparkpilot_default_options(&options, 3), "options of 3 bytes");
  bad = options, bad.size = 0;
  REFUSED(sparkpilot_load(model, &bad, &session), "options of 0 bytes");
  bad = options, bad.device = "tpu";
  REFUSED(sparkpilot_load(model, &bad, &session), "tpu");
  bad = options, bad.precision = "fp31";
  REFUSED(sparkpilot_load(model, &bad, &session), "no precision is named \"fp31\"");
  bad = options, bad.precision = NULL;
  REFUSED(sparkpilot_load(model, &bad, &session), "the option precision is NULL");
  bad = options, bad.tune = "always";
  REFUSED(sparkpilot_load(model, &bad, &session), "tune is \"always\"");
  bad = options, bad.threads = -1;
  REFUSED(sparkpilot_load(model, &bad, &session), "threads: expected 0 to ");

  /* Of a header that is newer than the library: what it does not know must not be asked for. */
  struct {
    sparkpilot_options known;
    int64_t more;
  } newer;
  CHECK(sparkpilot_default_options(&newer.known, sizeof newer) == SPARKPILOT_DONE && newer.more == 0);
  CHECK(sparkpilot_load_bytes(relu, sizeof relu, "relu", &newer.known, &session) == SPARKPILOT_DONE);
  CHECK(sparkpilot_close(session) == SPARKPILOT_DONE);
  newer.more = 1;
  REFUSED(sparkpilot_load(model, &newer.known, &session), "an option is set that this library");

  session = load_relu();
  sparkpilot_tensor tensor;
  REFUSED(sparkpilot_input(session, 1, &tensor), "no input 1, the model has 1");
  REFUSED(sparkpilot_output(session, -1, &tensor), "no output -1");
  REFUSED(sparkpilot_input(session, 0, NULL), "the place of the tensor is NULL");
  REFUSED(sparkpilot_find_input(session, "y", &tensor), "no input \"y\"");
  REFUSED(sparkpilot_find_output(session, NULL, &tensor), "the name is NULL");
  CHECK(sparkpilot_close(session) == SPARKPILOT_DONE);
  REFUSED(sparkpilot_run(NULL), "the session is NULL");
  REFUSED(sparkpilot_input(NULL, 0, &tensor), "the session is NULL");
  REFUSED(sparkpilot_set_shape(NULL, "x", NULL, 0), "the session is NULL");
  REFUSED(sparkpilot_read(NULL, "x", &tensor, 1), "the session is NULL");
  CHECK(sparkpilot_input_count(NULL) == 0 && sparkpilot_output_count(NULL) == 0);
  CHECK(sparkpilot_close(NULL) == SPARKPILOT_DONE);
}

/* A driving model: grey pictures give finite numbers, the same in two sessions, other pictures others. */
static void drives(const char* model) {
  sparkpilot_options options;
  CHECK(sparkpilot_default_options(&options, sizeof options) == SPARKPILOT_DONE);
  options.threads = 1, options.tune = "off";
  static float first[1 << 16];
  sparkpilot_tensor input, output;
  for (int round = 0; round < 3; ++round) {
    sparkpilot_session* session = NULL;
    CHECK(sparkpilot_load(model, &options, &session) == SPARKPILOT_DONE);
    CHECK(sparkpilot_find_input(session, "img", &input) == SPARKPILOT_DONE && input.dtype == SPARKPILOT_U8);
    for (int i = 0; i < sparkpilot_input_count(session); ++i) {
      CHECK(sparkpilot_input(session, i, &input) == SPARKPILOT_DONE && input.data != NULL && input.bytes > 0);
      memset(input.data, input.dtype == SPARKPILOT_U8 ? 128 + 60 * (round == 2) : 0, input.bytes);
    }
    CHECK(sparkpilot_run(session) == SPARKPILOT_DONE);
    CHECK(sparkpilot_find_output(session, "outputs", &output) == SPARKPILOT_DONE);
    CHECK(output.dtype == SPARKPILOT_F32 && output.bytes > 1000 && output.bytes <= sizeof first);
    const float* values = output.data;
    for (size_t i = 0; i < output.bytes / sizeof(float); ++i) CHECK(isfinite(values[i]));
    if (round == 0) memcpy(first, values, output.bytes);
    else CHECK((memcmp(first, values, output.bytes) == 0) == (round == 1));
    CHECK(sparkpilot_close(session) == SPARKPILOT_DONE);
  }
}

struct runner {
  sparkpilot_session* session;
  int64_t done, refused;
};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int met = 0;
static int has_met(int now) {
  pthread_mutex_lock(&mutex);
  const int result = met |= now;
  pthread_mutex_unlock(&mutex);
  return result;
}

/* Runs until one of the threads was in the other's way, or for twenty seconds. A thread's errors are its own. */
static void* run_again_and_again(void* argument) {
  struct runner* runner = argument;
  CHECK(strcmp(sparkpilot_error(), "") == 0);
  const double end = seconds() + 20;
  while (!has_met(runner->refused > 0) && seconds() < end) {
    const int32_t code = sparkpilot_run(runner->session);
    if (code == SPARKPILOT_DONE) ++runner->done;
    else if (strstr(sparkpilot_error(), "in use by another thread") != NULL) ++runner->refused;
    else break;
  }
  return NULL;
}

static void two_threads(const char* model) {
  struct runner a = {NULL, 0, 0};
  CHECK(sparkpilot_load(model, NULL, &a.session) == SPARKPILOT_DONE);
  struct runner b = a;
  pthread_t one, other;
  CHECK(pthread_create(&one, NULL, run_again_and_again, &a) == 0);
  CHECK(pthread_create(&other, NULL, run_again_and_again, &b) == 0);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  CHECK(a.refused + b.refused >= 1);
  CHECK(a.done + b.done >= 1);
  CHECK(sparkpilot_run(a.session) == SPARKPILOT_DONE);
  CHECK(sparkpilot_close(a.session) == SPARKPILOT_DONE);
}

/* What programs that were compiled with version 1 have: members may only follow the options' last one. */
static void layout(void) {
  if (sizeof(void*) == 8) {
    CHECK(offsetof(sparkpilot_options, device) == 8);
    CHECK(offsetof(sparkpilot_options, precision) == 16);
    CHECK(offsetof(sparkpilot_options, tune) == 24);
    CHECK(offsetof(sparkpilot_options, tuning_file) == 32);
    CHECK(offsetof(sparkpilot_options, threads) == 40);
    CHECK(offsetof(sparkpilot_tensor, dtype) == 8);
    CHECK(offsetof(sparkpilot_tensor, rank) == 12);
    CHECK(offsetof(sparkpilot_tensor, shape) == 16);
    CHECK(offsetof(sparkpilot_tensor, data) == 80);
    CHECK(offsetof(sparkpilot_tensor, bytes) == 88);
    CHECK(sizeof(sparkpilot_tensor) == 96);
  }
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  CHECK(sparkpilot_api_version() == SPARKPILOT_API_VERSION);
  CHECK(strlen(sparkpilot_version()) > 0);
  CHECK(strcmp(sparkpilot_error(), "") == 0);
  layout();
  open_dimensions();
  bad_arguments(arguments[1]);
  drives(arguments[1]);
  two_threads(arguments[1]);
  if (failures == 0) puts("all is well");
  return failures == 0 ? 0 : 1;
}
