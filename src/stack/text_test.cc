#include "stack/text.h"

#include <gtest/gtest.h>

#include "stack/library.h"

namespace sparkpilot::stack {
namespace {

TEST(Text, StarsStandForAnything) {
  EXPECT_TRUE(matches("libcudnn*.so*", "libcudnn_ops.so.9"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches("nvcc", "nvcc"));
  EXPECT_FALSE(matches("libcudnn*.so*", "cudnn.so"));
  EXPECT_FALSE(matches("a*b*c", "aXbYbZ"));
  EXPECT_FALSE(matches("nvcc", "nvcc2"));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Text, FieldsAndMacros) {
  const std::string metadata = "Name: torch\r\nVersion:2.9.1\nSummary: Name: no\n";
  EXPECT_EQ(field(metadata, "Name"), "torch");
  EXPECT_EQ(field(metadata, "Version"), "2.9.1");
  EXPECT_EQ(field(metadata, "Licence"), "");
  EXPECT_EQ(field("", "Name"), "");
  EXPECT_EQ(macro("#define NCCL_MAJOR 2\n#define X y\n", "NCCL_MAJOR"), "2");
  EXPECT_EQ(macro("#define X y\n", "X"), "");
  EXPECT_EQ(macro("#define X ", "X"), "");
}

TEST(Text, NamesSayWhatAFileIs) {
  EXPECT_EQ(component_of_file("libcublasLt.so.13"), "cuBLASLt");
  EXPECT_EQ(component_of_file("libcublas.so"), "cuBLAS");
  EXPECT_EQ(component_of_file("libtorch_nvshmem.so"), "PyTorch");
  EXPECT_EQ(component_of_file("ptxas-blackwell"), "ptxas");
  EXPECT_EQ(component_of_file("libcudnn.txt"), "");
  EXPECT_EQ(component_of_file("libz.so.1"), "");
  EXPECT_EQ(component_of_package("flash_attn"), "flash-attention");
  EXPECT_EQ(component_of_package("torch"), "PyTorch");
  EXPECT_EQ(component_of_package("torchmetrics"), "");
  EXPECT_EQ(version_in_name("libcublasLt.so.13.1.0.3"), "13.1.0.3");
  EXPECT_EQ(version_in_name("libc10-2.9.so"), "2.9");
  for (const char* name : {"libcudnn.so.9", "libcudnn.so", "x-1.so", "ptxas", "libx.so.1."})
    EXPECT_EQ(version_in_name(name), "") << name;
  for (const char* name : {"x.so", "libx.so.9.1"}) EXPECT_TRUE(is_library_name(name)) << name;
  for (const char* name : {".so", "x.song", "x.so.9a", "x.so-gdb.py"}) EXPECT_FALSE(is_library_name(name)) << name;
}

}  // namespace
}  // namespace sparkpilot::stack
