// A plugin of qemu's that counts the instructions that a program executes: all, and those that multiply and add vectors.
//
//   cc -shared -fPIC -O2 -o count.so count_instructions.c
//   COUNTS=FILE qemu-aarch64 -plugin ./count.so PROGRAM      FILE gets "all products"
//
// The interface is version 1 of qemu's plugins (qemu 4.2 and newer), declared here as its header is in no package. Threads
// are not counted apart, and adding is not atomic: for one thread.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
enum { kAddU64 = 0 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int, void*, uint64_t);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void*), void*);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

static uint64_t all, products;

// Arm's encodings, "C4.1 A64 instruction set encoding" of the Architecture Reference Manual.
static int multiplies_and_adds(uint32_t word) {
  static const struct {
    uint32_t mask, bits;
  } kinds[] = {
      {0xbfa0fc00, 0x0e20cc00},  // fmla, vectors
      {0xbf80f400, 0x0f801000},  // fmla, by element
      {0xffe0fc00, 0x6e40ec00},  // bfmmla
      {0xbfe0fc00, 0x0e809400},  // sdot, vectors
      {0xbfc0f400, 0x0f80e000},  // sdot, by element
      {0xbfe0fc00, 0x0e809c00},  // usdot, vectors
      {0xbfc0f400, 0x0f80f000},  // usdot, by element
      {0xbfc0f400, 0x0f00f000},  // sudot, by element
      {0xffe0fc00, 0x4e80a400},  // smmla
      {0xffe0fc00, 0x4e80ac00},  // usmmla
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    if ((word & kinds[i].mask) == kinds[i].bits) return 1;
  }
  return 0;
}

static void translated(plugin_id id, struct qemu_plugin_tb* block) {
  (void)id;
  const size_t length = qemu_plugin_tb_n_insns(block);
  uint64_t here = 0;
  for (size_t i = 0; i < length; ++i) {
    uint32_t word;
    memcpy(&word, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, i)), sizeof word);
    here += (uint64_t)multiplies_and_adds(word);
  }
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, &all, length);
  if (here) qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, &products, here);
}

static void ended(plugin_id id, void* unused) {
  (void)id, (void)unused;
  const char* path = getenv("COUNTS");
  FILE* to = path ? fopen(path, "w") : stderr;
  if (!to) {
    fprintf(stderr, "count_instructions: cannot write %s\n", path);
    return;
  }
  fprintf(to, "%" PRIu64 " %" PRIu64 "\n", all, products);
  fflush(to);
}

EXPORT int qemu_plugin_install(plugin_id id, const void* info, int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
