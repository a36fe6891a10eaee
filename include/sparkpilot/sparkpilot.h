/* Models in C: a session loads an ONNX file, and runs on its own memory, which the caller writes and reads. The
 * library is libsparkpilot_c (pkg-config sparkpilot); sparkpilot/session.h is the same in C++, and says more.
 *
 *   sparkpilot_session* session = NULL;
 *   sparkpilot_tensor image, plan;
 *   if (sparkpilot_load("driving_vision.onnx", NULL, &session) != SPARKPILOT_DONE ||
 *       sparkpilot_find_input(session, "img", &image) != SPARKPILOT_DONE) {
 *     puts(sparkpilot_error());
 *   }
 *   memcpy(image.data, pixels, image.bytes);
 *   sparkpilot_run(session);
 *   sparkpilot_find_output(session, "outputs", &plan);    the values are at plan.data
 *   sparkpilot_close(session);
 *
 * No call throws, prints, or ends the program. A call returns SPARKPILOT_DONE, or what kind of fault it met, and then
 * sparkpilot_error() is a line that says what was expected and what came; what a failed call should have written is not
 * written, a session that failed to run can be run again. A session is used by one thread at a time: a call that finds
 * it in use by another thread fails with SPARKPILOT_BAD_INPUT and does nothing. Several sessions may be used at once.
 * Where the system gives no memory for one more thread (ulimit -v), the OpenMP runtime ends the process: `threads` of 1
 * needs none. Files are treated as hostile. Handles are not: NULL is refused, a handle that was closed must not be
 * used.
 *
 * Functions and structs stay as they are as long as SPARKPILOT_API_VERSION, which is a part of the library's name; more
 * may be added.
 */
#ifndef SPARKPILOT_SPARKPILOT_H_
#define SPARKPILOT_SPARKPILOT_H_

/* C. NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using) */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPARKPILOT_API_VERSION 1
#define SPARKPILOT_MOST_DIMENSIONS 8

/* The same numbers as the program's exit codes. */
enum {
  SPARKPILOT_DONE = 0,
  SPARKPILOT_INTERNAL = 1,  /* a fault of the library */
  SPARKPILOT_BAD_INPUT = 2, /* of an argument, a file, or how they are used */
  SPARKPILOT_DEVICE = 3     /* of the GPU or its driver */
};

/* Types of elements, by ONNX's numbers (TensorProto.DataType). Elements of less than a byte are packed, the first in
 * the lowest bits. */
enum {
  SPARKPILOT_F32 = 1,
  SPARKPILOT_U8 = 2,
  SPARKPILOT_I8 = 3,
  SPARKPILOT_U16 = 4,
  SPARKPILOT_I16 = 5,
  SPARKPILOT_I32 = 6,
  SPARKPILOT_I64 = 7,
  SPARKPILOT_BOOL = 9, /* a byte, 0 or 1 */
  SPARKPILOT_F16 = 10,
  SPARKPILOT_F64 = 11,
  SPARKPILOT_U32 = 12,
  SPARKPILOT_U64 = 13,
  SPARKPILOT_BF16 = 16,
  SPARKPILOT_F8E4M3FN = 17,
  SPARKPILOT_F8E4M3FNUZ = 18,
  SPARKPILOT_F8E5M2 = 19,
  SPARKPILOT_F8E5M2FNUZ = 20,
  SPARKPILOT_U4 = 21,
  SPARKPILOT_I4 = 22,
  SPARKPILOT_F4E2M1 = 23,
  SPARKPILOT_F8E8M0 = 24,
  SPARKPILOT_U2 = 25,
  SPARKPILOT_I2 = 26
};

typedef struct sparkpilot_session sparkpilot_session;

typedef struct {
  size_t size;           /* sizeof(sparkpilot_options), as sparkpilot_default_options sets it */
  const char* device;    /* cpu (the default), auto, cuda or cuda:N */
  const char* precision; /* fp32 (the default), fp16, bf16, fp8, fp4, or model: as in the file */
  const char* tune;      /* off, auto (the default) or full: whether kernels are chosen by times, once, when loading */
  const char* tuning_file; /* keeps what was found for later processes; "" (the default): nothing is kept */
  int32_t threads;         /* of a run; 0 (the default): the fastest number, found when loading */
} sparkpilot_options;

/* An input or output. It shows the session's own memory, row-major without gaps: what is written into an input is what
 * the next run reads (zeros before that), and a run replaces an output. `data` is valid until the shape of an input is
 * set, for outputs until the next run, and until the session is closed. */
typedef struct {
  const char* name;                          /* as long as the session */
  int32_t dtype;                             /* SPARKPILOT_F32 ...; 0: not known before the first run */
  int32_t rank;                              /* -1: not known yet */
  int64_t shape[SPARKPILOT_MOST_DIMENSIONS]; /* -1: a dimension that is open */
  void* data;                                /* NULL: an input with an open dimension, an output before the first run */
  size_t bytes;                              /* of data; 0 where it is NULL */
} sparkpilot_tensor;

int32_t sparkpilot_api_version(void); /* SPARKPILOT_API_VERSION of the library */
const char* sparkpilot_version(void); /* "0.1.0" */
/* Of the last call of this thread that failed; "" before the first. Until this thread's next call that fails. */
const char* sparkpilot_error(void);

/* Writes the defaults into the first `size` bytes: sizeof(sparkpilot_options) of the caller. */
int32_t sparkpilot_default_options(sparkpilot_options* options, size_t size);

/* Opens a session. `options` may be NULL and is, with its texts, not needed afterwards. If the shapes of all inputs are
 * known, the model is compiled now, else at the first run. `*session` is NULL after a failure. */
int32_t sparkpilot_load(const char* file, const sparkpilot_options* options, sparkpilot_session** session);
/* The same of a model in memory, which is not needed afterwards; `name` stands for the file in messages. */
int32_t sparkpilot_load_bytes(const void* model, size_t bytes, const char* name, const sparkpilot_options* options,
                              sparkpilot_session** session);
/* NULL is nothing. Fails, and does not close it, while another thread uses it. */
int32_t sparkpilot_close(sparkpilot_session* session);

/* How many there are, 0 of NULL. */
int32_t sparkpilot_input_count(const sparkpilot_session* session);
int32_t sparkpilot_output_count(const sparkpilot_session* session);
/* By number, in the model's order, or by name. */
int32_t sparkpilot_input(sparkpilot_session* session, int32_t i, sparkpilot_tensor* tensor);
int32_t sparkpilot_output(sparkpilot_session* session, int32_t i, sparkpilot_tensor* tensor);
int32_t sparkpilot_find_input(sparkpilot_session* session, const char* name, sparkpilot_tensor* tensor);
int32_t sparkpilot_find_output(sparkpilot_session* session, const char* name, sparkpilot_tensor* tensor);

/* Of an input with open dimensions: `shape` has `rank` sizes, which must fit what the model declares. */
int32_t sparkpilot_set_shape(sparkpilot_session* session, const char* name, const int64_t* shape, int32_t rank);
/* Copies into an input, or from an output; `bytes` must be all of it. */
int32_t sparkpilot_write(sparkpilot_session* session, const char* input, const void* from, size_t bytes);
int32_t sparkpilot_read(sparkpilot_session* session, const char* output, void* to, size_t bytes);

/* Computes the outputs from what the inputs hold. Allocates nothing if no shape depends on data. */
int32_t sparkpilot_run(sparkpilot_session* session);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-deprecated-headers,modernize-use-using) */
#endif
